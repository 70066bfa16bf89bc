// Which files a command reads and writes: no output is an input or another output, by whatever name, and names are what
// the system has, whatever bytes they are of.
#include "npusim/files.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cli/invoke.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;

class Files : public CliTest {
 protected:
  // What every verb that writes does, with the files that it reads and writes behind their options.
  struct Writing {
    std::vector<std::string> words;
    std::vector<std::string> reads;           // positions in words are found by the name
    std::vector<std::string> outputs;         // options
    std::vector<std::string> in_folder = {};  // of an output that is a folder: what is written there
  };
  std::vector<Writing> writings() const {
    const std::vector<std::string> run = {"model.npubin", "--weights", "w.safetensors", "--inputs", "x.safetensors"};
    const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    return {{{"compile", "model.json", "--config", "c.json", "--plan", "p.json"},
             {"model.json", "c.json", "p.json"},
             {"-o"}},
            {{"compile", "--method", "a=model.json", "--kv-map", "c.json"}, {"model.json", "c.json"}, {"-o"}},
            {with({"run"}, run), {"model.npubin", "w.safetensors", "x.safetensors"}, {"-o"}},
            {{"run", "model.npubin", "--weights", "w.safetensors", "--input", "x=x.safetensors"},
             {"x.safetensors"},
             {"-o"}},
            {with({"profile", "--seconds", "0.01"}, run), {"model.npubin", "w.safetensors"}, {"--trace", "--html"}},
            {with({"tune", "--seconds", "0.01"}, run), {"w.safetensors", "x.safetensors"}, {"-o"}},
            {{"recompile", "model.npubin"}, {"model.npubin"}, {"-o"}},
            {{"partition", "model.json", "--config", "c.json"}, {"model.json", "c.json"}, {"-o", "--picture"}},
            {{"run", "model.npubin", "--weights", "index.json", "--inputs", "x.safetensors"},
             {"index.json", "w.safetensors"},
             {"-o"}}};
  }
  void make_files() const {
    make_program();
    write("c.json", "{}");
    write("p.json", R"({"methods": {}})");
    write("index.json", R"({"weight_map": {"layer.w": "w.safetensors"}})");
  }
  // Other names of a file in this folder.
  std::vector<std::string> other_names(const std::string& name) const {
    fs::create_directory(path("sub"));
    fs::create_symlink(path(name), path("sub/link"));
    fs::create_symlink("sub/link", path("chain"));
    fs::create_hard_link(path(name), path("hard"));
    fs::create_directory_symlink(folder_, path("sub/folder"));
    return {name, "./" + name, "sub/../" + name, path(name), "sub/link", "chain", "hard", "sub/folder/" + name};
  }
  void remove_names() const {
    fs::remove_all(path("sub"));
    fs::remove(path("chain")), fs::remove(path("hard"));
  }
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> found;
    for (const std::string& name : files())
      if (fs::is_regular_file(path(name))) found[name] = read_file(path(name));
    return found;
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& says) const {
    const auto before = contents();
    const Invocation result = npusim(words);
    std::string shown;
    for (const std::string& word : words) shown += word + " ";
    EXPECT_EQ(result.code, 2) << shown << result.err;
    EXPECT_EQ(result.out, "") << shown;
    EXPECT_TRUE(result.err.starts_with("error: ")) << shown << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << shown << result.err;
    EXPECT_EQ(contents(), before) << shown;
  }
};

TEST_F(Files, NoOutputIsAnInput) {
  make_files();
  for (const Writing& writing : writings())
    for (const std::string& input : writing.reads) {
      for (const std::string& name : other_names(input))
        for (const std::string& option : writing.outputs) {
          std::vector<std::string> words = writing.words;
          words.insert(words.end(), {option, name});
          expect_refused(words, option + " " + name + ": expected a file that the command does not read, found ");
        }
      remove_names();
    }
}

TEST_F(Files, NoOutputIsAnother) {
  make_files();
  write("there", "old");
  for (const Writing& writing : writings()) {
    if (writing.outputs.size() < 2) continue;
    const auto expect = [&](const std::string& a, const std::string& b, const std::string& says) {
      std::vector<std::string> words = writing.words;
      words.insert(words.end(), {writing.outputs[0], a, writing.outputs[1], b});
      expect_refused(words, says);
    };
    for (const std::string& name : other_names("there")) expect("there", name, "expected different files, found one");
    remove_names();
    fs::create_directory(path("sub"));
    fs::create_symlink("../fresh", path("sub/dangling"));
    fs::create_directory_symlink(folder_, path("sub/folder"));
    for (const std::string name : {"fresh", "./fresh", "FRESH", "sub/../fresh", "sub/dangling", "sub/folder/fresh"})
      expect("fresh", name, "expected different files, found one");
    expect("none/a", "none/../none/./a", "expected different files, found one");
    for (const std::string name : {"-", "/dev/stdout", "/dev/fd/1"}) expect("-", name, "one stream takes one of them");
    remove_names();
  }
}

TEST_F(Files, DefaultsAndFoldersCountToo) {
  make_files();
  fs::rename(path("model.json"), path("ir.npubin"));
  expect_refused({"compile", "ir.npubin"}, "the default output ir.npubin");
  fs::rename(path("ir.npubin"), path("ir.json"));
  expect_refused({"bisect", "ir.json", "--weights", "w.safetensors", "-o", "."}, "-o ./ir.json");
  fs::rename(path("w.safetensors"), path("weights.safetensors"));
  expect_refused({"bisect", "./ir.json", "--weights", "weights.safetensors", "-o", path("")}, "-o ");
  expect_refused({"run", "-", "--inputs", "-"}, "a stream is read once");
  expect_refused({"run", "-", "--input", "x=/dev/stdin"}, "a stream is read once");
}

// Where nothing is shared nothing is refused: what has the same name elsewhere, /dev/null twice, a program tuned in
// place.
TEST_F(Files, OthersAreTaken) {
  make_files();
  fs::create_directory(path("sub"));
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {"sub/one", "one"}, {"/dev/null", "/dev/null"}, {"one", "one.svg"}, {"a", "b"}}) {
    const Invocation result = npusim({"partition", "model.json", "-o", a, "--picture", b});
    EXPECT_EQ(result.code, 0) << a << b << result.err;
  }
  const Invocation tuned = npusim({"tune", "model.npubin", "--weights", "w.safetensors", "--inputs", "x.safetensors",
                                   "--seconds", "0.01", "-o", "./model.npubin"});
  EXPECT_EQ(tuned.code, 4) << tuned.err;  // the CPU has nothing to tune: it was read
  EXPECT_FALSE(is_same_file("", "")) << "no name";
  EXPECT_FALSE(is_same_file(std::string("a\0b", 3), std::string("a\0b", 3)));
}

// Of two outputs that belong together both are written, or none.
TEST_F(Files, OutputsAreWrittenTogether) {
  make_files();
  write("a", "old");
  for (const std::string& bad :
       std::vector<std::string>{"/dev/full", "none/none", "sub", "/proc/none", std::string(300, 'x')}) {
    fs::create_directory(path("sub"));
    const auto before = contents();
    for (const bool first : {false, true})
      for (const std::string name : {"a", "fresh"}) {
        const Invocation result =
            npusim({"partition", "model.json", "-o", first ? bad : name, "--picture", first ? name : bad});
        EXPECT_EQ(result.code, 3) << bad;
        EXPECT_TRUE(result.err.starts_with("error: cannot write " + bad)) << result.err;
        EXPECT_EQ(contents(), before) << bad;
      }
  }
}

TEST_F(Files, BytesThatAreNoUtf8) {
  make_files();
  const std::string strange = "a\xff\x80";
  for (const std::string name :
       {"model.json", "model.npubin", "w.safetensors", "x.safetensors", "c.json", "index.json"})
    fs::copy_file(path(name), path(strange + name));
  const std::vector<std::vector<std::string>> commands = {
      {"compile", strange + "model.json", "-o", strange + "p", "--json", "--dtype", "float32"},
      {"compile", strange + "model.json", "--json", "--config", strange + "c.json"},
      {"run", strange + "model.npubin", "--weights", strange + "w.safetensors", "--inputs", strange + "x.safetensors",
       "-o", strange + "out.safetensors", "--json"},
      {"run", "model.npubin", "--weights", strange + "index.json", "--input", "x=" + strange + "x.safetensors",
       "--json"},
      {"describe", strange + "model.npubin", "--json"},
      {"describe", strange + "model.npubin", "--json", "--steps"},
      {"info", strange + "model.json", "--json"},
      {"partition", strange + "model.json", "--json", "-o", strange + "plan", "--picture", strange + "svg"},
      {"verify", strange + "model.json", "--weights", strange + "w.safetensors", "--inputs", strange + "x.safetensors",
       "--json"},
      {"bisect", strange + "model.json", "--weights", strange + "w.safetensors", "-o", strange + "case", "--json"},
      {"bench", strange + "model.npubin", "--weights", strange + "w.safetensors", "--seconds", "0.01", "--json"},
      {"profile", strange + "model.npubin", "--weights", strange + "w.safetensors", "--seconds", "0.01", "--json",
       "--trace", strange + "trace", "--html", strange + "html"}};
  for (const auto& command : commands) {
    const Invocation result = npusim(command);
    EXPECT_EQ(result.code, 0) << command[0] << result.err;
    EXPECT_TRUE(is_utf8(result.out + result.err)) << command[0];
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << command[0] << result.out;
    for (size_t i = 1; i < command.size(); ++i) {  // the same with a file that is not there
      std::vector<std::string> missing = command;
      const size_t at = missing[i].find(strange);
      if (at == std::string::npos || missing[i - 1].starts_with("-o") || missing[i - 1] == "--picture" ||
          missing[i - 1] == "--trace" || missing[i - 1] == "--html")
        continue;
      missing[i] += "none.json";
      const Invocation failed = npusim(missing);
      EXPECT_EQ(failed.code, 3) << command[0] << failed.err;
      EXPECT_NE(failed.err.find("a\\xff\\x80"), std::string::npos) << failed.err;
      EXPECT_TRUE(is_utf8(failed.err)) << command[0];
    }
  }
  const Invocation name = npusim({"compile", "--method", "a\xff=model.json", "-o", "p"});
  EXPECT_EQ(name.code, 2);
  EXPECT_EQ(name.err, "error: method 'a\\xff': expected a name in UTF-8 without a NUL byte\n");
}

// Names in an IR that C would take for shorter ones.
TEST_F(Files, NamesWithNulBytes) {
  write_model();
  const std::string text = read_file(path("model.json"));
  for (const std::string name :
       {"\"small\"", "\"x\"", "\"y\"", "\"z\"", "\"p_w\"", "\"layer.w\"", "\"aten.relu.default\""}) {
    std::string changed = text;
    const std::string with = name.substr(0, name.size() - 1) + "\\u0000b\"";
    for (size_t at = 0; (at = changed.find(name, at)) != std::string::npos; at += with.size())
      changed.replace(at, name.size(), with);
    write("changed.json", changed);
    const Invocation result = npusim({"compile", "changed.json", "-o", "p"});
    if (name == "\"small\"") continue;  // the model's, which is for people
    EXPECT_EQ(result.code, 3) << name << result.err;
    EXPECT_NE(result.err.find("which has a NUL byte"), std::string::npos) << result.err;
  }
  for (const std::string& wrong : std::vector<std::string>{std::string("a\0b", 3), std::string("\0", 1)}) {
    EXPECT_THROW(read_file(wrong), Error);
    EXPECT_THROW(write_file(wrong, "x"), Error);
    EXPECT_THROW(MappedFile{wrong}, Error);
    EXPECT_THROW(NewFolder{wrong}, Error);
    EXPECT_THROW(remove_file(wrong), Error);
  }
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(Files, FoldersThatAreMadeGoAgain) {
  for (const std::string name : {"a/b/c", "a/b/c/", "a", "./a/./b"}) {
    {
      const NewFolder made(path(name));
      EXPECT_TRUE(fs::is_directory(path(name)));
    }
    EXPECT_FALSE(fs::exists(path("a"))) << name;
    {
      NewFolder made(path(name));
      made.keep();
    }
    EXPECT_TRUE(fs::is_directory(path(name))) << name;
    { const NewFolder made(path(name)); }  // it was there
    EXPECT_TRUE(fs::is_directory(path(name))) << name;
    fs::remove_all(path("a"));
  }
  write("file", "x");
  for (const std::string& name : std::vector<std::string>{"file", "file/a", "fresh/" + std::string(300, 'x')})
    EXPECT_THROW(NewFolder{path(name)}, Error) << name;
  EXPECT_EQ(files(), std::vector<std::string>{"file"});
}

TEST_F(Files, WhyAFolderIsNotMade) {
  fs::create_symlink("nowhere", path("link"));
  try {
    const NewFolder made(path("link"));
    ADD_FAILURE() << "made a folder where a link is";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "cannot write " + path("link") + ": File exists");
  }
}

// A disk that is full for good, where the system lets a test have one.
TEST_F(Files, ASmallDisk) {
  make_files();
  fs::create_directory(path("disk"));
  if (::mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=8k") != 0) GTEST_SKIP() << "no right to mount";
  write("disk/out", "old");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"compile", "model.json", "-o", "disk/out"},
           {"recompile", "model.npubin", "-o", "disk/out"},
           {"partition", "model.json", "--picture", "disk/out", "-o", "disk/fresh"}}) {
    write("disk/fill", std::string(4096, 'x'));
    const Invocation result = npusim(command);
    EXPECT_EQ(result.code, 3) << command[0];
    EXPECT_NE(result.err.find(": No space left on device\n"), std::string::npos) << result.err;
    EXPECT_EQ(read_file(path("disk/out")), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(path("disk")), {}), 2);
    fs::remove(path("disk/fill"));
  }
  EXPECT_EQ(::umount(path("disk").c_str()), 0);
}

TEST_F(Files, AFolderThatVanished) {
  make_files();
  const std::string shell = "cd '" + folder_.string() +
                            "' && mkdir gone && cd gone && rmdir ../gone && '" NPUSIM_BINARY
                            "' compile ../model.json -o out 2> '" +
                            path(".err") + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(shell.c_str())), 3);
  const std::string absolute = "cd '" + folder_.string() +
                               "' && mkdir gone && cd gone && rmdir ../gone && '" NPUSIM_BINARY "' compile '" +
                               path("model.json") + "' -o out 2> '" + path(".err") + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(absolute.c_str())), 3);
  EXPECT_EQ(read_file(path(".err")), "error: cannot write out: No such file or directory\n");
}

}  // namespace
}  // namespace npusim
