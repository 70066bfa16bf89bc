// The harness's compiler as a child process.
#include "compile.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace mslx {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("npusim_metal_" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

Outcome run_command(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {-1, "cannot run " + command};
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.messages.append(buffer, n);
  outcome.status = pclose(pipe);
  return outcome;
}

Outcome run(const std::string& arguments) {
  return run_command("CXX=" MSLX_CXX " MSLX_SCAN=" MSLX_SCAN_PROGRAM " " MSLX_FOLDER "/mslxc " + arguments + " 2>&1");
}

}  // namespace

std::string temporary_path(const std::string& name) {
  static TemporaryFolder folder;
  static std::atomic<int> count{0};
  return (folder.path / (std::to_string(count++) + "_" + name)).string();
}

std::string write_temporary(const std::string& name, const std::string& text) {
  const std::string path = temporary_path(name);
  std::ofstream(path) << text;
  return path;
}

Outcome check_file(const std::string& path) { return run("--check " + path); }

Library compile_file(const std::string& path, const std::string& flags) {
  const std::string object = temporary_path("kernel.so");
  const Outcome outcome = run(path + " -o " + object + " " + flags);
  if (outcome.status == 0) return load(object);
  Library library;
  library.error = outcome.messages;
  return library;
}

std::string compile_for_races(const std::string& path) {
  const std::string object = temporary_path("races.so");
  const Outcome outcome = run(path + " -o " + object + " --tsan -O1");
  return outcome.status == 0 ? object : "";
}

std::optional<int> count_races(const std::string& shared_object, const std::string& kernel, unsigned groups,
                               unsigned threads, const std::vector<size_t>& buffer_bytes) {
  std::string command = "TSAN_OPTIONS=halt_on_error=0 setarch -R " MSLX_RACE_CHECK " " + shared_object + " " + kernel +
                        " " + std::to_string(groups) + " " + std::to_string(threads);
  for (size_t bytes : buffer_bytes) command += " " + std::to_string(bytes);
  const Outcome outcome = run_command(command + " 2>&1");
  int races = 0;
  for (size_t at = 0; (at = outcome.messages.find("ThreadSanitizer: data race", at)) != std::string::npos; ++at)
    ++races;
  if (outcome.status != 0 && races == 0) return std::nullopt;
  return races;
}

}  // namespace mslx
