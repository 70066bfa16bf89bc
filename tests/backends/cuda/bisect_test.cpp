// Bisection on a GPU, behind an NVRTC with a fault (faulty_nvrtc.cpp), and without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/cuda/gpu.h"
#include "compiler/bisect_for.h"
#include "compiler/compile_for.h"
#include "compiler/ir.h"

namespace npusim {
namespace {

// A hundred blocks of 64 rows, three stages of keys: attention by warpgroups.
TEST(CudaBisect, NamesTheAttentionThatReadsWrongKeys) {
  const char* nvrtc = std::getenv("NPUSIM_NVRTC");
  const bool faulty = nvrtc && std::string_view(nvrtc).find("faulty_nvrtc") != std::string_view::npos;
  const SpeechEncoder model = speech_encoder(10, 300, 64, 2);
  CompileOptions options;
  options.dtype = "float16";
  const CodegenTarget& target = test::gpu_target();
  const auto inputs = random_inputs(*compile_for(target, {model.source}, options).program);
  const Bisection found = bisect_for(target, model.source, options, inputs, model.weights, {}, {}, {test::gpu()});
  const std::string text = describe_bisection(found, false);
  std::printf("%s", text.c_str());
  EXPECT_EQ(found.launch, faulty) << text;
  if (!faulty) {
    EXPECT_EQ(found.culprit, -1) << text;
    return;
  }
  ASSERT_GE(found.culprit, 0);
  const PartError& part = found.parts[static_cast<size_t>(found.culprit)];
  EXPECT_NE(std::find(part.nodes.begin(), part.nodes.end(), "attention_0"), part.nodes.end()) << text;
}

}  // namespace
}  // namespace npusim
