// Output files: whole or as they were, with the modes, links and places that a user gave them, whatever fails.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/invoke.h"
#include "npusim/cancel.h"

namespace npusim {
namespace {

using std::filesystem::perms;

class Outputs : public CliTest {
 protected:
  Outputs() { mask_ = ::umask(022); }
  ~Outputs() override { ::umask(mask_); }

  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }
  static ErrorKind kind_of_failure(const std::string& path) {
    try {
      write_file(path, "new");
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::internal;
  }

 private:
  mode_t mask_;
};

TEST_F(Outputs, ModesAreTheProcessesOrTheOldFiles) {
  for (const mode_t mask : {0, 02, 022, 027, 077, 0177}) {
    ::umask(mask);
    write("fresh", "new");
    EXPECT_EQ(mode_of("fresh"), 0666 & ~mask) << mask;
    for (const mode_t old : {0600, 0640, 0644, 0664, 0666, 0755, 0600 | 04000}) {
      write("kept", "old");
      ASSERT_EQ(::chmod(path("kept").c_str(), old), 0);
      write("kept", "new");
      EXPECT_EQ(mode_of("kept"), old) << mask;
      EXPECT_EQ(read_file(path("kept")), "new");
    }
    std::filesystem::remove(path("fresh"));
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"kept"}));
}

TEST_F(Outputs, LinksStayLinks) {
  namespace fs = std::filesystem;
  fs::create_directory(path("other"));
  write("other/target", "old");
  fs::create_symlink("other/target", path("link"));       // relative to its folder
  fs::create_symlink(path("link"), path("other/again"));  // a chain, absolute
  fs::create_symlink("../fresh", path("other/dangling"));
  for (const std::string name : {"link", "other/again", "other/dangling"}) {
    write(name, "by " + name);
    EXPECT_TRUE(fs::is_symlink(path(name))) << name;
    EXPECT_EQ(read_file(path(name)), "by " + name);
  }
  EXPECT_EQ(read_file(path("other/target")), "by other/again");
  EXPECT_EQ(read_file(path("fresh")), "by other/dangling");
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(kind_of_failure(path("loop")), ErrorKind::bad_input);
  fs::create_symlink("other", path("to_folder"));
  EXPECT_EQ(kind_of_failure(path("to_folder")), ErrorKind::bad_input);
}

TEST_F(Outputs, PlacesThatAreNoFiles) {
  EXPECT_EQ(kind_of_failure(folder_.string()), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_failure(""), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_failure(path("none/file")), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_failure("/dev/full"), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_failure(path(std::string(300, 'x'))), ErrorKind::bad_input);
  write_file("/dev/null", "new");
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_TRUE(files().empty());
}

// At every byte.
TEST_F(Outputs, AFullDiskLeavesWhatWasThere) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string text(97, 'x');
  write("kept", "old");
  for (rlim_t bytes = 0; bytes < text.size(); bytes += 8) {
    rlimit small = limit;
    small.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::string said;
    for (const char* name : {"kept", "fresh"}) try {
        write_file(path(name), text);
      } catch (const Error& error) {
        said += error.kind() == ErrorKind::bad_input ? error.what() : "another kind";
      }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(said, "cannot write " + path("kept") + ": File too large" + "cannot write " + path("fresh") +
                        ": File too large");
    EXPECT_EQ(read_file(path("kept")), "old");
    EXPECT_EQ(files(), (std::vector<std::string>{"kept"}));
  }
  std::signal(SIGXFSZ, before);
}

// The exit code of a child that is stopped while it writes: it has as much as the limit lets it, then its signal comes.
int stopped_while_writing(const std::string& file, void (*handler)(int)) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, handler);
    const rlimit small{10, 10};
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      write_file(file, std::string(100, 'x'));
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_F(Outputs, TemporariesCanBeRemoved) {
  std::filesystem::create_directory(path("there"));
  ASSERT_EQ(::mkfifo(path("there/pipe").c_str(), 0600), 0);
  EXPECT_EQ(stopped_while_writing(path("there/file"),
                                  [](int) {
                                    end_writing(SIGXFSZ);
                                    ::_exit(7);
                                  }),
            7);
  EXPECT_EQ(files_in(path("there")), 1);
}

// A process that was forked meanwhile removes its own only.
TEST_F(Outputs, TemporariesOfTheParentStay) {
  std::filesystem::create_directory(path("there"));
  static std::string folder;
  folder = path("there");
  const int before_and_after = stopped_while_writing(path("there/file"), [](int) {
    const int before = files_in(folder);
    const pid_t child = ::fork();
    if (child == 0) {
      end_writing(SIGXFSZ);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(10 * before + files_in(folder));
  });
  EXPECT_EQ(before_and_after, 11);
}

// What belongs together is all there or nothing of it, whenever a signal comes.
TEST_F(Outputs, SignalsWaitUntilAllFilesHaveTheirNames) {
  constexpr int count = 40;
  for (int round = 0; round < 10; ++round) {
    const std::string folder = path("round" + std::to_string(round));
    std::filesystem::create_directory(folder);
    const pid_t child = ::fork();
    if (child == 0) {
      end_on_signals();
      const std::string text = "text";
      std::vector<OutputFile> made;
      for (int i = 0; i < count; ++i) made.push_back(output_file(folder + "/" + std::to_string(i), text));
      try {
        write_files(made);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    while (!std::filesystem::exists(folder + "/" + std::to_string(2 * round)) &&
           ::waitpid(child, &status, WNOHANG) == 0) {
    }
    ::kill(child, SIGTERM);
    ::waitpid(child, &status, 0);
    EXPECT_EQ(files_in(folder), count) << "round " << round;
  }
}

// Every call by which a command writes a file fails once: the code is 3, and the file is what it was.
#if !defined(__SANITIZE_ADDRESS__)
TEST_F(Outputs, EveryFailureOfTheSystemIsTold) {
  make_program();
  const std::vector<std::vector<std::string>> commands = {
      {"compile", "model.json", "-o", "out"},
      {"run", "model.npubin", "--weights", "w.safetensors", "--inputs", "x.safetensors", "-o", "out"},
      {"partition", "model.json", "-o", "out"}};
  for (const auto& command : commands)
    for (const bool exists : {false, true}) {
      std::filesystem::remove(path("out"));
      if (exists) write("out", "old");
      const std::vector<std::string> before = files();
      int code = -1;
      for (int fault = 0; code != 0; ++fault) {
        ASSERT_LT(fault, 100);
        environment_ = "OMP_PROC_BIND=false NPUSIM_IO_FAULT=" + std::to_string(fault) + " LD_PRELOAD=" NPUSIM_IO_FAULTS;
        const Invocation result = npusim(command);
        code = result.code;
        if (code == 0) break;
        EXPECT_EQ(code, 3) << fault << result.err;
        EXPECT_EQ(result.err, "error: cannot write out: No space left on device\n") << fault;
        EXPECT_EQ(files(), before) << fault;
        if (exists) {
          EXPECT_EQ(read_file(path("out")), "old") << fault;
        }
      }
      EXPECT_TRUE(std::filesystem::exists(path("out")));
    }
}
#endif

TEST_F(Outputs, ALimitOfFilesIsTold) {
#ifdef NPUSIM_SANITIZED
  GTEST_SKIP() << "LLVM's OpenMP keeps a file of its own";
#endif
  make_program();
  const std::vector<std::string> before = files();
  const std::string command =
      "cd '" + folder_.string() + "' && ulimit -f 1 && '" NPUSIM_BINARY "' compile model.json -o out 2> .err > .out";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3);
  EXPECT_EQ(read_file(path(".err")), "error: cannot write out: File too large\n");
  EXPECT_EQ(files(), before);
}

TEST_F(Outputs, AFullStreamIsTold) {
  make_program();
  const std::string inputs = "run model.npubin --weights w.safetensors --inputs x.safetensors";
  for (const std::string words : {"ops", "devices --json", "compile model.json -o -", "describe model.npubin", "--help",
                                  "run --help", "--version", "partition model.json -o -", "info model.json"}) {
    const std::string command =
        "cd '" + folder_.string() + "' && '" NPUSIM_BINARY "' " + words + " > /dev/full 2> .err";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3) << words;
    EXPECT_NE(read_file(path(".err")).find("cannot write"), std::string::npos) << words;
  }
  for (const std::string out : {"/dev/full", "no/such/folder", "."}) {
    const Invocation result = npusim({"compile", "model.json", "-o", out});
    EXPECT_EQ(result.code, 3) << out;
    EXPECT_TRUE(result.err.starts_with("error: cannot write " + out + ": ")) << result.err;
  }
  // What the shell opened is written where it is, after what stands there.
  const std::string shell = "cd '" + folder_.string() +
                            "' && echo first > log && '" NPUSIM_BINARY
                            "' compile model.json -o /dev/stdout --no-text >> log";
  EXPECT_EQ(std::system(shell.c_str()), 0);
  EXPECT_TRUE(read_file(path("log")).starts_with("first\nNPUSIM"));
}

TEST_F(Outputs, PipesAndDevicesAreNoInputs) {
  make_program();
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::vector<std::vector<std::string>> commands = {
      {"compile", "FILE"},
      {"describe", "FILE"},
      {"run", "model.npubin", "--weights", "FILE", "--inputs", "x.safetensors"},
      {"run", "model.npubin", "--weights", "w.safetensors", "--inputs", "FILE"},
      {"run", "model.npubin", "--weights", "w.safetensors", "--input", "x=FILE"},
      {"compile", "model.json", "--config", "FILE"},
      {"compile", "model.json", "--plan", "FILE"},
      {"verify", "model.json", "--weights", "w.safetensors", "--inputs", "x.safetensors", "--golden", "FILE"}};
  const std::pair<const char*, const char*> kinds[] = {
      {"pipe", "a pipe"}, {".", "a folder"}, {"/dev/null", "a device"}, {"/dev/zero", "a device"}};
  for (const auto& [name, kind] : kinds)
    for (const auto& command : commands) {
      std::vector<std::string> words = command;
      for (std::string& word : words)
        if (const size_t at = word.find("FILE"); at != std::string::npos) word.replace(at, 4, name);
      const Invocation result = npusim(words);
      EXPECT_EQ(result.code, 3) << name << " " << command[0];
      EXPECT_EQ(result.err, std::string("error: ") + name + " is " + kind + ": expected a regular file\n");
    }
}

}  // namespace
}  // namespace npusim
