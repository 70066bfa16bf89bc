// Files of other kinds, in the place of each file that is read: what they are and the way out is said.
#include <set>

#include "cli/invoke.h"

namespace npusim {
namespace {

struct Sample {
  std::string name, bytes, said;
};

std::vector<Sample> samples() {
  const std::string zip = "PK\x03\x04";
  return {{"gguf", "GGUF\x03", "a GGUF file"},
          {"lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a Git LFS pointer"},
          {"html", "\n<!DOCTYPE HTML><html><body>login</body></html>", "a web page (HTML)"},
          {"html2", "<HTML lang=en>", "a web page (HTML)"},
          {"onnx", std::string("\x08\x08\x12\x07pytorch\x1a\x05", 13), "an ONNX model"},
          {"npz", zip + std::string(22, '\0') + "arr_0.npy\x93NUMPY", "a NumPy archive (.npz)"},
          {"pt", zip + std::string(22, '\0') + "archive/data.pkl", "a PyTorch file (a zip archive or a pickle)"},
          {"script", zip + std::string(22, '\0') + "m/data.pkl m/code/__torch__.py m/constants.pkl",
           "a TorchScript archive"},
          {"pt2", zip + std::string(22, '\0') + "m/models/model.json", "a torch.export archive (.pt2)"},
          {"pickle", std::string("\x80\x02}q\0.", 6), "a PyTorch file (a zip archive or a pickle)"},
          {"h5", "\x89HDF\r\n\x1a\n....", "an HDF5 file"},
          {"gz", "\x1f\x8b\x08....", "a gzip file"},
          {"tflite", std::string("\x1c\0\0\0TFL3", 8), "a TensorFlow Lite model"},
          {"npubin", std::string("NPUSIM\0\1", 8), "a compiled program (.npubin)"},
          {"npy", "\x93NUMPY\x01", "a .npy file"},
          {"json", "{\"a\": 1}", "JSON"}};
}

TEST_F(CliTest, FilesOfOtherKindsAreNamed) {
  make_program();
  save("two.safetensors", {{"a", counting({DType::f32, {3}})}});
  std::vector<Sample> all = samples();
  all.push_back({"st", read_file(path("two.safetensors")), "a .safetensors file"});
  struct Place {
    std::string expected;            // as the message calls it
    std::set<std::string> own;       // samples that are of this kind
    std::vector<std::string> words;  // with FILE
  };
  const std::vector<Place> places = {
      {"IR JSON", {"json"}, {"compile", "FILE", "-o", "p.npubin"}},
      {"IR JSON", {"json"}, {"info", "FILE"}},
      {"IR JSON", {"json"}, {"bisect", "FILE"}},
      {"a .npubin program", {"npubin"}, {"describe", "FILE"}},
      {".safetensors", {"st"}, {"run", "model.npubin", "--inputs", "x.safetensors", "--weights", "FILE"}},
      {".safetensors", {"st", "npy"}, {"run", "model.npubin", "--weights", "w.safetensors", "--inputs", "FILE"}},
      {"JSON", {"json"}, {"compile", "model.json", "-o", "p.npubin", "--config", "FILE"}},
      {"JSON", {"json"}, {"compile", "model.json", "-o", "p.npubin", "--plan", "FILE"}}};
  for (const Place& place : places)
    for (const Sample& sample : all) {
      if (place.own.contains(sample.name)) continue;
      write(sample.name, sample.bytes);
      std::vector<std::string> words = place.words;
      std::replace(words.begin(), words.end(), std::string("FILE"), sample.name);
      const Invocation result = npusim(words);
      EXPECT_EQ(result.code, 3) << sample.name << " for " << place.expected;
      EXPECT_TRUE(result.err.starts_with("error: " + sample.name + ": is " + sample.said)) << result.err;
      EXPECT_NE(result.err.find(", not " + place.expected + ": "), std::string::npos) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_FALSE(std::filesystem::exists(path("p.npubin")));
    }
}

// A text whose ninth character is a brace is no .safetensors, nor is a header whose length begins like a pickle no one.
TEST_F(CliTest, TextIsNoOtherKind) {
  for (const std::string text : {"[1, 2, 3{", "        {", "abcdefgh{"}) {
    write("text.json", text);
    const Invocation result = npusim({"compile", "text.json", "-o", "p.npubin"});
    EXPECT_EQ(result.code, 3);
    EXPECT_NE(result.err.find("not JSON"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace npusim
