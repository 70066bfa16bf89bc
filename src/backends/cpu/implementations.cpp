// The implementations of contractions in the order they are asked.
#include "backends/cpu/implementations.h"

#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/reference.h"
#include "backends/cpu/product/batched/side_by_side.h"
#include "backends/cpu/product/blocks/matmul.h"
#include "backends/cpu/product/channels_last/depthwise.h"
#include "backends/cpu/product/channels_last/few_channels.h"
#include "backends/cpu/product/gemv/gemv.h"
#include "backends/cpu/product/in_place/matrices.h"
#include "backends/cpu/product/in_place/rows.h"
#include "backends/cpu/product/onednn/conv.h"
#include "backends/cpu/product/onednn/matmul.h"
#include "backends/cpu/product/onednn/nan_guard.h"
#include "backends/cpu/product/onednn/onednn.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/planes/few_planes.h"
#include "backends/cpu/product/planes/planes.h"
#include "backends/cpu/product/winograd/winograd.h"
#include "base/error.h"
#include "base/threads.h"

namespace npusim::cpu {
namespace {

enum Kinds : unsigned { attention = 1, conv = 2, matmul = 4 };

Kinds kind_of(const Contraction& contraction) {
  if (contraction.kind == ContractionKind::attention) return attention;
  return contraction.kind == ContractionKind::conv ? conv : matmul;
}

struct Implementation {
  const char* name;
  unsigned kinds;                     // of contractions that it is asked for
  Answer (*make)(product::Problem&);  // the step, or why it declines
};

// The first that does not decline runs. The last of each kind never does.
constexpr Implementation implementations[] = {
    {"attention", attention, attention::make_attention_step},
    {"reference", attention, attention::make_reference_step},
    {"depthwise", conv, product::channels_last::make_depthwise_step},
    {"few channels", conv, product::channels_last::make_few_channels_step},
    {"winograd", conv, product::winograd::make_winograd_step},
    {"planes", conv, product::planes::make_planes_step},
    {"few planes", conv, product::planes::make_few_planes_step},
    {"onednn conv", conv, product::onednn::make_onednn_conv_step},
    {"onednn conv + epilogue", conv, product::onednn::make_onednn_sums_step},
    {"side by side", matmul, product::batched::make_side_by_side_step},
    {"matrices in place", matmul, product::in_place::make_matrices_in_place_step},
    {"gemv", conv | matmul, product::gemv::make_gemv_step},
    {"rows in place", conv | matmul, product::in_place::make_rows_in_place_step},
    {"onednn matmul", conv | matmul, product::onednn::make_onednn_matmul_step},
    {"matmul", conv | matmul, product::blocks::make_matmul_step},
};

class EmptyStep final : public BoundStep {
 public:
  void run() override {}
  std::string describe() const override { return "empty"; }
};

}  // namespace

Context make_context(int threads) {
  threads = std::max(1, threads);
  auto primitives = product::onednn::make_primitive_cache();
  bool sees_nan = false;
  with_team(threads, [&] { sees_nan = product::onednn::sees_lost_nan(*primitives); });
  return {threads, std::make_shared<product::WeightCache>(), std::move(primitives),
          nullptr, product::onednn::multiplies_bf16(),       sees_nan};
}

Choice choose_implementation(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  if (!kernel.contraction) fail(ErrorKind::internal, "kernel {} has no contraction", kernel.name);
  if (args.size() != kernel.args.size())
    fail(ErrorKind::internal, "kernel {}: {} bindings for {} arguments", kernel.name, args.size(), kernel.args.size());
  Choice choice;
  if (element_count(kernel.space) == 0) {
    choice.step = std::make_unique<EmptyStep>();
    return choice;
  }
  product::Problem problem = product::make_problem(kernel, args, context);
  for (const Implementation& implementation : implementations) {
    if (!(implementation.kinds & kind_of(*kernel.contraction))) continue;
    Answer answer = implementation.make(problem);
    if (answer.step) {
      choice.step = std::move(answer.step);
      return choice;
    }
    choice.declined.push_back({implementation.name, std::move(answer.declined)});
  }
  fail(ErrorKind::internal, "kernel {}: no implementation", kernel.name);
}

}  // namespace npusim::cpu
