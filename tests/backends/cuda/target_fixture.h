// What tests of the CUDA target begin with: NVRTC, a cache of their own, a program, what holds of its launches.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backends/cuda/target_nvrtc.h"
#include "base/error.h"
#include "cli/invoke.h"
#include "npusim/compiler.h"
#include "program/program.h"

namespace npusim {

inline std::string why_no_nvrtc() {
  try {
    cuda::find_nvrtc();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// With a cache of its own.
class CudaTarget : public CliTest {
 protected:
  CudaTarget() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  void SetUp() override {
    if (const std::string why = why_no_nvrtc(); !why.empty()) GTEST_SKIP() << "SKIP: " << why;
  }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::exists(path("cache/npusim/cuda")))
      for (const auto& entry : std::filesystem::directory_iterator(path("cache/npusim/cuda")))
        found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  static std::string text(const Code& code) {
    return {reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size()};
  }
  static std::shared_ptr<const Program> digits_for(const std::string& target) {
    CompileOptions options;
    options.target = target;
    return compile({{.path = digits("ir.json"), .json = {}}}, options).program;
  }
};

// A launch for each step or several, whose function is in the code that it names and in that of every other
// architecture.
inline void check_launches(const Program& program, size_t formats) {
  const auto check = [&](const Sequence& sequence) {
    int32_t launched = 0;
    for (const Launch& launch : sequence.launches) {
      ASSERT_EQ(launch.first, launched);
      launched += launch.count;
      const CodeSet& set = program.code[static_cast<size_t>(launch.code)];
      ASSERT_EQ(set.size(), formats);
      for (const Code& code : set) {
        const std::string text(reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size());
        EXPECT_NE(text.find(launch.symbol), std::string::npos) << code.format << " " << launch.symbol;
      }
    }
    ASSERT_EQ(static_cast<size_t>(launched), sequence.steps.size());
  };
  check(program.recipes);
  for (const Method& method : program.methods) check(method);
}

}  // namespace npusim
