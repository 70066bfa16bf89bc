// The harness's compiler as a child process.
#include "compile.h"

#include <unistd.h>

#include <algorithm>
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

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string hexadecimal(size_t number) {
  char text[17];
  snprintf(text, sizeof text, "%016zx", number);
  return text;
}

// Of this compiler as it is: another one makes other objects.
fs::path cache_folder() {
  std::vector<fs::path> files = {MSLX_FOLDER "/mslxc", MSLX_SCAN_PROGRAM};
  for (const auto& entry : fs::directory_iterator(MSLX_FOLDER "/shim")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string all = MSLX_CXX;
  for (const fs::path& file : files) all += file.filename().string() + contents(file);
  const fs::path folder = fs::path(MSLX_CACHE) / hexadecimal(std::hash<std::string>()(all));
  fs::create_directories(folder);
  return folder;
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

Library compile_cached(const std::string& text, const std::string& flags) {
  static const fs::path folder = cache_folder();
  const std::string input = flags + "\n" + text;
  const fs::path stem = folder / hexadecimal(std::hash<std::string>()(input));
  const fs::path object = stem.string() + ".so", known = stem.string() + ".text";
  if (fs::exists(known) && contents(known) == input) return load(object);
  // Others may do the same at the same time: what is moved into place is whole, and the text that says so comes last.
  static std::atomic<int> count{0};
  const std::string own = stem.string() + "." + std::to_string(getpid()) + "_" + std::to_string(count++);
  std::ofstream(own + ".metal") << text;
  const Outcome outcome = run(own + ".metal -o " + own + ".so " + flags);
  fs::remove(own + ".metal");
  if (outcome.status != 0) {
    Library library;
    library.error = outcome.messages;
    return library;
  }
  fs::rename(own + ".so", object);
  std::ofstream(own) << input;
  fs::rename(own, known);
  return load(object);
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
