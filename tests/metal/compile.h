// Runs the harness's compiler on MSL text or files.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/emulator.h"

namespace mslx {

struct Outcome {
  int status = 0;
  std::string messages;
};

// mslxc --check: the messages include warnings.
Outcome check_file(const std::string& path);
// A unique path in the test's temporary folder.
std::string temporary_path(const std::string& name);
std::string write_temporary(const std::string& name, const std::string& text);
// Compiles and loads; Library::error holds the messages when it fails.
Library compile_file(const std::string& path, const std::string& flags = "");

// The same for text, which is compiled once for all processes of this build: what comes out is kept beside it.
Library compile_cached(const std::string& text, const std::string& flags = "");

// ThreadSanitizer's reports of one dispatch of a kernel compiled with --tsan (race_check.cpp); nullopt if it cannot
// run.
std::optional<int> count_races(const std::string& shared_object, const std::string& kernel, unsigned groups,
                               unsigned threads, const std::vector<size_t>& buffer_bytes);
std::string compile_for_races(const std::string& path);  // the shared object

}  // namespace mslx
