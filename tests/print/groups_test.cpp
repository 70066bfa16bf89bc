// Printed groups: golden text, refusals, numbers of traps, and every text through NVRTC.
#include "groups.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "nvrtc.h"

namespace npusim {
namespace {

std::string group_source(const GroupSample& sample, const Dialect& dialect) {
  return with_helpers(print_group(sample.group, dialect), dialect);
}

TEST(PrintGroup, samples_are_sound) {
  for (const GroupSample& sample : group_samples()) {
    for (const auto& kernel : sample.kernels)
      for (const std::string& problem : check_kernel(*kernel)) ADD_FAILURE() << sample.name << ": " << problem;
    for (const Dialect* dialect : {&cuda_dialect, &metal_dialect})
      EXPECT_EQ(cannot_print(sample.group, *dialect), std::nullopt) << sample.name;
  }
}

// NPUSIM_UPDATE_GOLDEN=1 writes the files instead of comparing.
TEST(PrintGroup, golden_text) {
  const std::string folder = NPUSIM_SOURCE_DIR "/tests/print/golden/";
  const bool update = std::getenv("NPUSIM_UPDATE_GOLDEN") != nullptr;
  for (const GroupSample& sample : group_samples()) {
    if (sample.name != "group_norm_product") continue;
    for (const Dialect* dialect : {&cuda_dialect, &metal_dialect}) {
      const std::string text = group_source(sample, *dialect);
      const std::string path = folder + sample.name + std::string(dialect->file_extension);
      if (update) std::ofstream(path) << text;
      std::stringstream golden;
      golden << std::ifstream(path).rdbuf();
      EXPECT_EQ(text, golden.str()) << path << "\nrun with NPUSIM_UPDATE_GOLDEN=1 if the change is meant";
    }
  }
}

TEST(PrintGroup, cuda_texts_compile) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC on this machine";
  for (const GroupSample& sample : group_samples()) {
    const Cubin cubin = compile_cuda(group_source(sample, cuda_dialect), "sm_90");
    EXPECT_EQ(cubin.problem, "") << sample.name;
    EXPECT_FALSE(cubin.image.empty()) << sample.name;
  }
}

TEST(PrintGroup, refuses_with_reasons) {
  const auto reason = [](const KernelGroup& g) { return cannot_print(g, metal_dialect).value_or("printed"); };
  GroupSample sample = group_samples()[0];
  KernelGroup group = sample.group;
  group.parts[1].schedule.threads = 64;
  EXPECT_EQ(reason(group), "its kernels are for blocks of different sizes");
  group = sample.group;
  group.parts[2].schedule.row = RowLoop::none;
  group.parts[0].schedule.row = RowLoop::none;
  EXPECT_EQ(reason(group), "points are not threads' where rows are reduced, scanned or empty");
  group = sample.group;
  for (int i = 0; i < 28; ++i) group.memories.push_back({DType::f32, 1, false});
  EXPECT_EQ(reason(group), "32 arguments, MSL takes 31");
  group = sample.group;
  group.memories[2].shared = true;
  group.memories.push_back({DType::f32, 3000, true});
  EXPECT_EQ(reason(group), "34832 bytes of a block's own, MSL has 32768");
  EXPECT_EQ(reason({}), "a group of no kernels");
}

TEST(PrintGroup, names_by_content) {
  const GroupSample sample = group_samples()[0];
  KernelGroup other = sample.group;
  EXPECT_EQ(group_name(other), group_name(sample.group));
  other.memories[1].shared = false;
  EXPECT_NE(group_name(other), group_name(sample.group));
}

// A number is of one kernel only.
TEST(PrintGroup, traps_are_numbered_through) {
  const GroupSample sample = group_samples()[3];
  EXPECT_TRUE(takes_trap(sample.group));
  EXPECT_EQ(first_trap(sample.group, 0), 0);
  EXPECT_EQ(first_trap(sample.group, 1), trap_count(*sample.kernels[0]));
  EXPECT_EQ(trap_count(*sample.kernels[0]), 2);
  EXPECT_EQ(trap_count(*sample.kernels[1]), 1);
  const std::string text = print_group(sample.group, metal_dialect);
  EXPECT_NE(text.find("check_index(x_0, 4, trap, 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("int_div(x_1, x_0, trap, 3)"), std::string::npos) << text;
  EXPECT_FALSE(takes_trap(group_samples()[0].group));
}

}  // namespace
}  // namespace npusim
