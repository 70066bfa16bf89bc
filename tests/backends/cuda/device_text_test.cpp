// Device text that is written by hand: every .cuh file by itself through NVRTC, and the names of its parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "backends/cuda/codegen/device/texts.h"
#include "print/nvrtc.h"
#include "print/print.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;
const fs::path root = NPUSIM_SOURCE_DIR "/src";

std::vector<fs::path> device_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.path().extension() == ".cuh") files.push_back(fs::relative(entry.path(), root));
  std::sort(files.begin(), files.end());
  return files;
}

// Files with instructions that sm_80 has not, and what includes them.
const std::set<std::string> of_sm_90a = {"wgmma", "mbarrier", "machine", "producer", "entry"};

// The printer puts a part above what mentions its name: another function than the named one would never come.
TEST(DeviceText, PartsDeclareWhatTheyAreNamed) {
  std::set<std::string_view> names;
  for (const Dialect::Helper& helper : cuda::codegen::device::device_dialect().helpers) {
    const std::string name(helper.name);
    EXPECT_TRUE(names.insert(helper.name).second) << "two parts are " << name;
    const std::regex declares("#define " + name + " |typedef [^;]*\\b" + name + ";|struct " + name +
                              " \\{|__device__ __forceinline__ [^()]*\\b" + name + "\\(");
    EXPECT_TRUE(std::regex_search(std::string(helper.text), declares)) << name << ":\n" << helper.text;
  }
  EXPECT_GT(names.size(), 90U);
}

// What the dialect names in its own formats it has, without a backend.
TEST(DeviceText, TheDialectHasWhatItNames) {
  const std::string text = with_helpers("f16 bf16 Lanes read_lanes exp_near quotient_near INFINITY", cuda_dialect);
  for (const char* found : {"typedef unsigned short bf16;", "struct Lanes {", "void read_lanes(", "float exp_near(",
                            "float quotient_near(", "#define INFINITY"})
    EXPECT_NE(text.find(found), std::string::npos) << found;
  EXPECT_EQ(with_helpers("multiply_f16 mbarrier_wait", cuda_dialect), "multiply_f16 mbarrier_wait");
}

// All functions come to the assembler but templates: those that nobody calls would not if they were inlined.
TEST(DeviceText, EveryFileCompilesAlone) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC";
  const std::string options[] = {"--include-path=" + root.string(), "--relocatable-device-code=true",
                                 "--disable-warnings"};
  const std::vector<fs::path> files = device_files();
  EXPECT_GT(files.size(), 10U);
  for (const fs::path& file : files)
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      if (architecture == std::string("sm_80") && of_sm_90a.contains(file.stem())) continue;
      const Cubin cubin =
          compile_cuda("#undef __forceinline__\n#define __forceinline__\n#include \"" + file.string() + "\"\n",
                       architecture, options);
      EXPECT_FALSE(cubin.image.empty()) << file << " " << architecture << "\n" << cubin.problem;
    }
}

}  // namespace
}  // namespace npusim
