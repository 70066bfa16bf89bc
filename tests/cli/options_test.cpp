// Every option of every verb with values that nobody should give: what it takes says its own declaration, so an option
// that is added is tested, and one that was added without a rule fails.
#include "cli/options.h"

#include <fcntl.h>

#include <map>
#include <set>

#include "cli/command.h"
#include "cli/invoke.h"

namespace npusim {
namespace {

using cli::kind_of;

// Runs commands in this process, which is what a hundredth of the time of a process each takes, in the test's folder.
class Options : public CliTest {
 protected:
  Options() : back_(std::filesystem::current_path()) { std::filesystem::current_path(folder_); }
  ~Options() override { std::filesystem::current_path(back_); }

  Invocation run(const std::vector<std::string>& words) const {
    std::vector<const char*> argv = {"npusim"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    const Redirected out(1, path(".out")), err(2, path(".err"));
    const int code = cli::run(static_cast<int>(argv.size()), argv.data());
    std::fflush(stdout);
    return {code, read_file(path(".out")), read_file(path(".err"))};
  }

  // One error line that names the option, of a usage error, and nothing left.
  void expect_refused(const std::vector<std::string>& words, const std::string& option) const {
    const std::vector<std::string> before = files();
    const Invocation result = run(words);
    std::string shown;
    for (const std::string& word : words) shown += " '" + word + "'";
    EXPECT_EQ(result.code, 2) << shown << ": " << result.err;
    EXPECT_EQ(result.out, "") << shown;
    EXPECT_TRUE(result.err.starts_with("error: " + option)) << shown << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << shown << ": " << result.err;
    EXPECT_EQ(files(), before) << shown;
  }

  // As a shell starts it; whatever it is, it ends well: a documented code, and error lines without control characters.
  void expect_sound(const std::vector<std::string>& words) const {
    const std::vector<std::string> before = files();
    const Invocation result = run(words);
    std::string shown;
    for (const std::string& word : words) shown += " '" + word + "'";
    EXPECT_TRUE((std::set<int>{0, 2, 3, 4, 5}.contains(result.code))) << shown << ": " << result.code << result.err;
    EXPECT_EQ(result.code == 0, result.err.find("error: ") == std::string::npos) << shown << ": " << result.err;
    for (const std::string& stream : {result.out, result.err})
      for (const char c : stream) EXPECT_TRUE(c == '\n' || c < 0 || c >= ' ') << shown << ": " << stream;
    if (result.code != 0) {
      EXPECT_EQ(files(), before) << shown;
    }
  }

 private:
  // A stream of this process that goes to a file meanwhile.
  struct Redirected {
    Redirected(int fd, const std::string& path) : fd_(fd), kept_(::dup(fd)) {
      const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, fd);
      ::close(file);
    }
    ~Redirected() {
      ::dup2(kept_, fd_);
      ::close(kept_);
    }
    int fd_, kept_;
  };
  std::filesystem::path back_;
};

struct OptionOf {
  const CLI::App* verb;
  const CLI::Option* option;
  std::string name;  // "--seed", or a positional's "ir"
  bool positional() const { return !name.starts_with("-"); }
};

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames()[0];
}

std::vector<OptionOf> all_options(const cli::Command& command) {
  std::vector<OptionOf> list;
  for (const CLI::App* verb : command.app.get_subcommands({}))
    for (const CLI::Option* option : verb->get_options()) {
      list.push_back({verb, option, name_of(*option)});
    }
  return list;
}

// What a verb needs beside the option that is tested: the files of make_program(), where they are there.
std::vector<std::string> words_of(const OptionOf& one) {
  const std::map<std::string, std::string> values = {{"program", "model.npubin"},    {"ir", "model.json"},
                                                     {"--weights", "w.safetensors"}, {"--inputs", "x.safetensors"},
                                                     {"--tokenizer", "none"},        {"--prompt", "text"}};
  std::vector<std::string> words = {one.verb->get_name()};
  for (const CLI::Option* other : one.verb->get_options()) {
    const std::string name = name_of(*other);
    const auto value = values.find(name);
    const bool clash = (name == "--inputs" && one.name == "--input") || (name == "ir" && one.name == "--method");
    if (value == values.end() || other == one.option || clash) continue;
    if (name.starts_with("-")) words.push_back(name);
    words.push_back(value->second);
  }
  return words;
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Options, EachHasARule) {
  const cli::Command command;
  size_t count = 0;
  for (const OptionOf& one : all_options(command)) {
    EXPECT_NE(kind_of(*one.option), "") << one.verb->get_name() << " " << one.name << ": add it by cli/options.h";
    ++count;
  }
  EXPECT_GT(count, 100u);
}

TEST_F(Options, ValuesOfNoKindAreRefused) {
  const cli::Command command;
  for (const OptionOf& one : all_options(command)) {
    const std::string kind = kind_of(*one.option);
    const std::vector<std::string> base = words_of(one);
    const auto refuse = [&](const std::string& value) {
      expect_refused(with(base, one.positional() ? std::vector<std::string>{value} : std::vector{one.name, value}),
                     one.name);
    };
    if (kind == "flag") {
      for (const char* value : {"=", "=1", "=false", "=maybe"})
        expect_refused(with(base, {one.name + value}), one.name);
      continue;
    }
    if (!one.positional()) {
      expect_refused(with(base, {one.name}), one.name);
      expect_refused(with(base, {one.name + "="}), one.name);
      expect_refused(with(base, {one.name, "--help"}), one.name);
      for (const std::string& letter : one.option->get_snames()) expect_refused(with(base, {"-" + letter + "=x"}), "-");
    }
    if (kind != "text") refuse("");
    const bool repeats = kind == "names" || kind == "named files";
    if (!one.positional() && !repeats) expect_refused(with(base, {one.name, "1", one.name, "1"}), one.name);
    std::vector<std::string> bad;
    if (kind == "integer" || kind == "seed" || kind == "number")
      bad = {"x",   "nan", "NaN", "0x10", " 1",    "1 ",  "1,5",     "1_000", "+1",
             "--1", "1e",  "",    "-",    "1e999", "1\n", "\x1b[2J", "\xff"};
    if (kind == "integer" || kind == "seed")
      bad.insert(bad.end(), {"1.0", "1e3", "inf", "18446744073709551616", "99999999999999999999999"});
    if (kind == "seed") bad.insert(bad.end(), {"-1", "-0x1"});
    if (kind == "names") bad = {",", "a,", ",a", "a,,b", "-x"};
    if (kind == "named files") bad = {"=", "x", "x=", "=x", "x=-y"};
    if (kind == "name") bad = {"-", "-x"};
    if (kind == "file" && !one.positional()) bad = {"-x", "--"};
    // The range of these is the options' of generation.
    const std::set<std::string> anything = {"--temperature", "--top-p"};
    for (const std::string& value : bad)
      if (!(anything.contains(one.name) && (value == "nan" || value == "NaN"))) refuse(value);
  }
}

// Whatever the value, and whatever stands in the place of a file.
TEST_F(Options, NoValueIsWorseThanAnError) {
  make_program();
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  std::filesystem::create_directory("folder");
  write("empty", "");
  write("secret", "x");
  std::filesystem::permissions("secret", std::filesystem::perms::none);
  write("page", "<!DOCTYPE html><html>");
  const std::vector<std::string> files = {"none",
                                          "folder",
                                          "pipe",
                                          "/dev/null",
                                          "empty",
                                          "secret",
                                          "page",
                                          "model.npubin",
                                          "model.json",
                                          "none/none",
                                          std::string(5000, 'x'),
                                          "a\x1b[31mb\r\nc",
                                          "\xe2\x80\xae",
                                          "\xff\xfe",
                                          "x.safetensors"};
  const std::vector<std::string> words = {"0", "-1", "2147483648", "1e30", "x,y", "none", "\x1b]0;x\x07"};
  const cli::Command command;
  for (const OptionOf& one : all_options(command)) {
    const std::string kind = kind_of(*one.option), verb = one.verb->get_name();
    if (kind == "flag" || one.name == "--threads") continue;
    // These measure for as long as they are told, or write where they are told.
    if (one.name == "--seconds" || one.name == "--repeat" || verb == "tune") continue;
    const bool measures = verb == "bench" || verb == "profile";
    if (measures && kind != "file" && kind != "named files") continue;
    const bool writes =
        one.name == "--output" || one.name == "--picture" || one.name == "--trace" || one.name == "--html";
    for (const std::string& value : kind == "file" || kind == "named files" ? files : words) {
      if (writes && value == "pipe") continue;  // waits for a reader
      if (writes && value != "none/none" && value != "folder") continue;
      if (measures && (writes || value == "x.safetensors" || value == "model.npubin")) continue;
      const std::string given = kind == "named files" ? "x=" + value : value;
      expect_sound(
          with(words_of(one), one.positional() ? std::vector<std::string>{given} : std::vector{one.name, given}));
    }
  }
}

TEST_F(Options, MisspeltNamesAreSuggested) {
  const cli::Command command;
  std::set<std::string> verbs;
  for (const CLI::App* verb : command.app.get_subcommands({})) {
    const std::string name = verb->get_name();
    const std::string wrong = name.substr(0, 1) + name.substr(2);  // a letter is missing
    EXPECT_NE(run({wrong}).err.find("; did you mean " + name + "?\n"), std::string::npos) << wrong;
  }
  for (const OptionOf& one : all_options(command)) {
    if (one.positional() || one.name.size() < 6) continue;
    std::string wrong = one.name;
    std::swap(wrong[3], wrong[4]);
    if (wrong == one.name) continue;
    const Invocation result = run(with(words_of(one), {wrong}));
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("; did you mean " + one.name + "?\n"), std::string::npos) << wrong << ": " << result.err;
  }
  write_model();
  const auto suggests = [&](std::vector<std::string> words, const std::string& meant) {
    const Invocation result = run(with({"compile", "model.json", "-o", "p.npubin"}, words));
    EXPECT_NE(result.err.find("; did you mean " + meant + "?"), std::string::npos) << result.err;
  };
  suggests({"--dtype", "flaot32"}, "float32");
  suggests({"--dtype", "bfloat"}, "bfloat16");
  suggests({"--target", "cdua"}, "cuda");
  suggests({"--force-cpu", "rleu"}, "relu");
  suggests({"--force-cpu", "aten.rellu.default"}, "aten.relu.default");
  suggests({"--disable-fusion", "fuse_row"}, "fuse_rows");
  suggests({"--dump", "functionalise"}, "functionalize");
}

// The cases as they were reported.
TEST_F(Options, SeedsAreNotOneSeed) {
  expect_refused({"run", "p.npubin", "--seed", "-1"}, "--seed");
  expect_refused({"run", "p.npubin", "--seed", "99999999999999999999"}, "--seed");
}
TEST_F(Options, AnEmptyNameIsNotNothing) {
  make_program();
  expect_refused({"verify", "model.json", "--weights", "w.safetensors", "--inputs", "x.safetensors", "--golden", ""},
                 "--golden");
  expect_refused({"run", "model.npubin", "--weights", ""}, "--weights");
}
TEST_F(Options, GenerationsOptionsAreCheckedTogether) {
  const Invocation result = run({"generate", "p", "--tokenizer", "t", "--prompt", "x", "--temperature", "nan",
                                 "--top-p", "0", "--max-new-tokens", "-3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "error: --max-new-tokens: expected an integer from 1 to 1099511627776, found -3\n"
            "error: --temperature: expected a number from 0 to 100, found nan\n"
            "error: --top-p: expected a number above 0 and at most 1, found 0\n");
}

}  // namespace
}  // namespace npusim
