// Bad invocations and bad files: exit code, one line per problem, and no output left behind.
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "cli/invoke.h"

namespace npusim {
namespace {

class CliErrors : public CliTest {
 protected:
  // Expects this code and exactly these lines, each after "error: "; nothing on standard output, no new file.
  void expect(const std::vector<std::string>& args, int code, const std::string& lines) const {
    const std::vector<std::string> before = files();
    const Invocation result = npusim(args);
    std::string expected;
    for (size_t begin = 0; begin < lines.size();) {
      const size_t end = std::min(lines.find('\n', begin), lines.size());
      expected += "error: " + lines.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.err, expected);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(files(), before);
  }
};

TEST_F(CliErrors, Verbs) {
  const std::string verbs =
      "compile, run, generate, verify, bisect, bench, tune, recompile, profile, partition, describe, info, ops, "
      "devices";
  expect({}, 2, "expected a verb: " + verbs);
  expect({"foo"}, 2, "there is no verb 'foo': expected " + verbs);
  expect({"comple"}, 2, "there is no verb 'comple': expected " + verbs + "; did you mean compile?");
}

#if defined(__x86_64__)
TEST_F(CliErrors, InstructionSet) {
  const std::string problem =
      "NPUSIM_ISA: there is no instruction set 'sse5': expected sse4, avx2, avx512, avx512_bf16, amx";
  environment_ = "NPUSIM_ISA=sse5";
  expect({"devices"}, 2, problem);
  expect({"ops"}, 2, problem);
}
#endif

TEST_F(CliErrors, Flags) {
  expect({"compile", "--frobnicate"}, 2, "compile has no option --frobnicate");
  expect({"run"}, 2, "program is required");
  expect({"run", "p.npubin", "--sed", "1"}, 2, "run has no option --sed; did you mean --seed?");
  expect({"run", "p.npubin", "--repeat", "0"}, 2, "--repeat: expected an integer from 1 to 1000000000, found 0");
  expect({"run", "p.npubin", "--threads", "many"}, 2, "--threads: expected an integer from 1 to 4096, found many");
  expect({"bench", "p.npubin", "--seconds", "nan"}, 2, "--seconds: expected a number from 0.01 to 3600, found nan");
  expect({"generate", "p.npubin", "--prompt", "x"}, 2, "--tokenizer is required");
  expect({"describe", "a", "b"}, 2, "The following argument was not expected: b");
}

TEST_F(CliErrors, CompileUsage) {
  write_model();
  expect({"compile"}, 2, "expected either IR.json or --method NAME=IR.json, found neither");
  expect({"compile", "model.json", "--method", "a=model.json"}, 2,
         "expected either IR.json or --method NAME=IR.json, found both");
  expect({"compile", "--method", "model.json", "-o", "p.npubin"}, 2,
         "--method: expected NAME=IR.json, found 'model.json'");
  expect({"compile", "--method", "a=model.json"}, 2,
         "expected -o OUT.npubin: there is no one IR file to name it after");
  expect({"compile", "-"}, 2, "expected -o OUT.npubin: there is no one IR file to name it after");
  expect({"compile", "model.json", "-o", "-", "--json"}, 2, "-o - leaves no standard output for --json");
  expect({"compile", "model.json", "--dtype", "int8"}, 2, "--dtype int8: expected auto, float16, bfloat16 or float32");
  expect({"compile", "model.json", "--target", "tpu"}, 2,
         "unknown target tpu: this build has cpu, cuda, null; did you mean cpu?");
  expect({"compile", "model.json", "--target", "cpu:avx2"}, 2, "target cpu: expected no architectures, found 'avx2'");
  expect({"compile", "model.json", "--target", "cuda:sm_80,90"}, 2,
         "target cuda: expected architectures such as sm_80,sm_90a, found '90' in 'sm_80,90'");
  const Invocation pass = npusim({"compile", "model.json", "--dump", "nothing"});
  EXPECT_EQ(pass.code, 2);
  EXPECT_TRUE(pass.err.starts_with("error: --dump nothing: no such pass: expected one of functionalize, ")) << pass.err;
  const Invocation magic = npusim({"compile", "model.json", "--disable-fusion", "all,magic"});
  EXPECT_EQ(magic.code, 2);
  EXPECT_TRUE(magic.err.starts_with("error: --disable-fusion magic: no such fusion: expected all, or some of "))
      << magic.err;
  for (const char* name : {"eliminate_common, ", "fuse_attention, ", "fuse_rows"})
    EXPECT_NE(magic.err.find(name), std::string::npos) << magic.err;
  expect({"compile", "--method", "a=model.json", "--method", "a=model.json", "-o", "p.npubin"}, 2,
         "two methods are called a");
}

// What is no file stays what it is: a file that takes its place would be no pipe, or no /dev/null, for anyone.
TEST_F(CliErrors, WritesIntoPipes) {
  write_model("m.json");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::future<std::string> read = std::async(std::launch::async, [&] {
    std::ifstream pipe(path("pipe"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(pipe), {});
  });
  const Invocation result = npusim({"compile", "m.json", "-o", "pipe"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  if (!std::filesystem::is_fifo(path("pipe"))) std::abort();  // who reads the pipe would wait for ever
  EXPECT_EQ(npusim({"compile", "m.json", "-o", "file"}).code, 0);
  EXPECT_EQ(read.get(), read_file(path("file")));
}

TEST_F(CliErrors, LibrariesAreFiles) {
  write_model("m.json");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ::setenv("NPUSIM_NVRTC", path("pipe").c_str(), 1);
  const Invocation result = npusim({"compile", "m.json", "--target", "cuda", "-o", "p.npubin"});
  ::unsetenv("NPUSIM_NVRTC");
  EXPECT_EQ(result.code, 5);
  EXPECT_NE(result.err.find("pipe (a pipe, and no library)"), std::string::npos) << result.err;
}

TEST_F(CliErrors, CompileInput) {
  expect({"compile", "none.json"}, 3, "cannot open none.json: No such file or directory");
  expect({"compile", "-", "-o", "p.npubin"}, 3, "standard input: expected IR JSON, found nothing");
  write("bad.json", "{\"nodes\": 1}");
  const Invocation bad = npusim({"compile", "bad.json", "-o", "p.npubin"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_TRUE(bad.err.starts_with("error: bad.json: ")) << bad.err;
  write_model("strange.json");
  std::string text = read_file(path("strange.json"));
  text.replace(text.find("aten.relu.default"), 17, "aten.wonder.default");
  text.replace(text.find("aten.add.Tensor"), 15, "aten.plus.Tensor");
  write("strange.json", text);
  environment_ = "NPUSIM_ATEN=/nowhere/plugin.so";
  expect({"compile", "strange.json"}, 4,
         "strange.json: op aten.plus.Tensor is not supported (1 node: y)\n"
         "strange.json: op aten.wonder.default is not supported (1 node: z)\n"
         "strange.json: there is no plugin that could ask ATen: /nowhere/plugin.so: cannot open shared object file: No "
         "such file or directory");
  write_model();
  const Invocation nowhere = npusim({"compile", "model.json", "-o", "no/such/folder/p.npubin"});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_EQ(nowhere.err, "error: cannot write no/such/folder/p.npubin: No such file or directory\n");
}

// What PyTorch writes is known by its first bytes: a zip archive, or a pickle of old.
TEST_F(CliErrors, PyTorchFiles) {
  make_program();
  write("model.pt", "PK\x03\x04 archive/data.pkl");
  write("old.bin", std::string("\x80\x02\x8a\nl\xfc\x9c\x46", 8));
  for (const std::string file : {"model.pt", "old.bin"}) {
    const std::string ir = file +
                           ": is a PyTorch file (a zip archive or a pickle), not IR JSON: docs/ir_format.md section 9 "
                           "says how to get the IR of a model";
    expect({"compile", file, "-o", "p.npubin"}, 3, ir);
    expect({"info", file}, 3, ir);
    expect(
        {"run", "model.npubin", "--weights", file, "--input", "x=x.safetensors", "-o", "o.safetensors"}, 3,
        file +
            ": is a PyTorch file (a zip archive or a pickle), not .safetensors: docs/ir_format.md section 9 says how "
            "to convert it");
  }
}

// The length at the start of a .safetensors file may begin like a pickle.
TEST_F(CliErrors, ALengthIsNoPickle) {
  make_program();
  const std::string json = R"({"layer.w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  const size_t length = 0x0280;
  std::string file("\x80\x02\0\0\0\0\0\0", 8);
  file += json + std::string(length - json.size(), ' ') + std::string(12, '\0');
  write("w640.safetensors", file);
  const Invocation run = npusim({"run", "model.npubin", "--weights", "w640.safetensors", "--input", "x=x.safetensors"});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST_F(CliErrors, ProgramFiles) {
  make_program();
  expect({"describe", "none.npubin"}, 3, "cannot open none.npubin: No such file or directory");
  expect({"describe", "model.json"}, 3,
         "model.json: is JSON, not a .npubin program: `npusim compile` makes a program of IR JSON");
  std::string damaged = read_file(path("model.npubin"));
  damaged[damaged.size() / 2] ^= 1;
  write("damaged.npubin", damaged);
  const Invocation result = npusim({"run", "damaged.npubin", "--weights", "w.safetensors", "-o", "o.safetensors"});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(result.err.starts_with("error: damaged.npubin: the program file is damaged: expected checksum "))
      << result.err;
  write("empty.npubin", "");
  expect({"bench", "empty.npubin"}, 3, "empty.npubin: expected a .npubin program, found another kind of file");
}

// What is missing is an error, as is what does not fit: nothing is converted.
TEST_F(CliErrors, RunInputs) {
  make_program();
  const std::vector<std::string> base = {"run", "model.npubin", "--weights", "w.safetensors", "-o", "out.safetensors"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  expect(base, 3, "input 'x' of float32[2, 3] is missing");
  expect(with({"--input", "x"}), 2, "--input: expected NAME=FILE, found 'x'");
  expect(with({"--input", "x=none.npy"}), 3, "cannot open none.npy: No such file or directory");
  expect(with({"--input", "x=x.safetensors", "--inputs", "x.safetensors"}), 3,
         "input 'x' is given twice, the second time by x.safetensors");
  save("two.safetensors", {{"x", counting({DType::f32, {2, 3}})}, {"y", counting({DType::f32, {2, 3}})}});
  expect(with({"--inputs", "two.safetensors"}), 3, "input 'y' from two.safetensors is unknown: expected x");
  expect(with({"--input", "x=x.safetensors", "--input", "q=two.safetensors"}), 3,
         "input 'q': two.safetensors holds no tensor of that name");
  save("shape.safetensors", {{"x", counting({DType::f32, {3, 2}})}});
  expect(with({"--inputs", "shape.safetensors"}), 3,
         "input 'x': expected float32[2, 3], found float32[3, 2] in shape.safetensors");
  write_npy(path("wide.npy"), view_of(counting({DType::f64, {2, 3}})));
  expect(with({"--input", "x=wide.npy"}), 3,
         "input 'x': expected float32[2, 3], found float64[2, 3] in wide.npy (nothing is converted silently: store it "
         "as float32)");
  write_npy(path("whole.npy"), view_of(counting({DType::i64, {2, 3}})));
  expect(with({"--input", "x=whole.npy"}), 3, "input 'x': expected float32[2, 3], found int64[2, 3] in whole.npy");
  write("broken.npy", std::string("\x93NUMPY\x01\x00\x76\x00{", 11));
  EXPECT_EQ(npusim(with({"--input", "x=broken.npy"})).code, 3);
  write("broken.safetensors", "garbage");
  EXPECT_EQ(npusim(with({"--inputs", "broken.safetensors"})).code, 3);
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
}

TEST_F(CliErrors, RunUsage) {
  make_program();
  const std::vector<std::string> base = {"run",           "model.npubin", "--weights",
                                         "w.safetensors", "--inputs",     "x.safetensors"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  expect(with({"--method", "decode"}), 2, "--method decode: the program has main");
  expect(with({"--device", "abacus"}), 2, "unknown device abacus: this build has cpu, cuda, null");
  for (const char* none : {"cpu:1", "cpu:99"})
    expect(with({"--device", none}), 2, std::string("device ") + none + ": there is one, cpu");
  expect(with({"--device", "null:3"}), 2, "device null:3: there is one, null");
  expect(with({"-o", "out.npy"}), 2, "-o out.npy: an .npy file holds one tensor, there are 2: use .safetensors");
  expect(with({"-o", "-", "--json"}), 2, "-o - leaves no standard output for --json");
  EXPECT_EQ(npusim(with({"-o", "no/such/folder/o.safetensors"})).code, 3);
}

// A missing weight is named; one that nothing reads need not be there.
TEST_F(CliErrors, Weights) {
  make_program();
  const Invocation none = npusim({"run", "model.npubin", "--inputs", "x.safetensors", "-o", "o.safetensors"});
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.err.find("layer.w"), std::string::npos) << none.err;
  save("other.safetensors", {{"layer.v", counting({DType::f32, {3}})}});
  const Invocation missing =
      npusim({"run", "model.npubin", "--weights", "other.safetensors", "--inputs", "x.safetensors"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("layer.w"), std::string::npos) << missing.err;
  save("shape.safetensors", {{"layer.w", counting({DType::f32, {4}})}});
  const Invocation shape =
      npusim({"verify", "model.json", "--weights", "shape.safetensors", "--inputs", "x.safetensors"});
  EXPECT_EQ(shape.code, 3);
  EXPECT_NE(shape.err.find("expected [3], found [4]"), std::string::npos) << shape.err;
}

TEST_F(CliErrors, Verify) {
  make_program();
  const std::vector<std::string> base = {"verify", "model.json", "--weights", "w.safetensors"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  save("golden.safetensors", {{"nothing", counting({DType::f32, {3}})}});
  expect(with({"--golden", "golden.safetensors"}), 3, "input 'x' of float32[2, 3] is missing");
  const Invocation none = npusim(with({"--inputs", "x.safetensors", "--golden", "golden.safetensors"}));
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.err.find("error: golden.safetensors: no tensor is called like an output or out0, out1, …\n"),
            std::string::npos)
      << none.err;
  save("long.safetensors", {{"y", counting({DType::f32, {2, 4}})}});
  expect(with({"--inputs", "x.safetensors", "--golden", "long.safetensors"}), 3,
         "output 'y': expected [2, 3], found [2, 4] in long.safetensors");
}

TEST_F(CliErrors, Generate) {
  make_program();
  const std::string none = "this is no program that generates text: expected a method that takes one token\n";
  const std::string no_text = "this is no program that generates text: method ";
  const std::string missing = "has no input input_ids of int64 [1, length]";
  const std::string strange = "has an input that is not understood: 'x' of float32[2, 3]";
  const auto wrong = [&](const std::string& name) {
    return no_text + "'" + name + "' " + strange + "\n" + no_text + "'" + name + "' " + missing;
  };
  expect({"generate", "model.npubin", "--tokenizer", "none.json", "--prompt", "x"}, 4, none + wrong("main"));
  const Invocation compiled =
      npusim({"compile", "--method", "prefill=model.json", "--method", "decode=model.json", "-o", "lm.npubin"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  expect({"generate", "lm.npubin", "--tokenizer", "none.json", "--prompt", "x"}, 4,
         none + wrong("prefill") + "\n" + wrong("decode"));
}

TEST_F(CliErrors, NamesInMessagesStayOnOneLine) {
  expect({"describe", "a\nb"}, 3, "cannot open a\\nb: No such file or directory");
  expect({"describe", "a\x1b[31m\r\u202eb\xff"}, 3,
         "cannot open a\\u001b[31m\\r\\u202eb\\xff: No such file or directory");
}

}  // namespace
}  // namespace npusim
