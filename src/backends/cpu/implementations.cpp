// The implementations of contractions in the order they are asked.
#include "backends/cpu/implementations.h"

#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/reference.h"
#include "backends/cpu/product/depthwise.h"
#include "backends/cpu/product/few_channels.h"
#include "backends/cpu/product/few_planes.h"
#include "backends/cpu/product/gemv.h"
#include "backends/cpu/product/matmul.h"
#include "backends/cpu/product/matrices_in_place.h"
#include "backends/cpu/product/nan_guard.h"
#include "backends/cpu/product/onednn.h"
#include "backends/cpu/product/onednn_conv.h"
#include "backends/cpu/product/onednn_matmul.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/planes.h"
#include "backends/cpu/product/rows_in_place.h"
#include "backends/cpu/product/side_by_side.h"
#include "backends/cpu/product/winograd.h"
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
  unsigned kinds;            // of contractions that it is asked for
  Answer (*make)(Problem&);  // the step, or why it declines
};

// The first that does not decline runs. The last of each kind never does.
constexpr Implementation implementations[] = {
    {"attention", attention, make_attention_step},
    {"reference", attention, make_reference_step},
    {"depthwise", conv, make_depthwise_step},
    {"few channels", conv, make_few_channels_step},
    {"winograd", conv, make_winograd_step},
    {"planes", conv, make_planes_step},
    {"few planes", conv, make_few_planes_step},
    {"onednn conv", conv, make_onednn_conv_step},
    {"onednn conv + epilogue", conv, make_onednn_sums_step},
    {"side by side", matmul, make_side_by_side_step},
    {"matrices in place", matmul, make_matrices_in_place_step},
    {"gemv", conv | matmul, make_gemv_step},
    {"rows in place", conv | matmul, make_rows_in_place_step},
    {"onednn matmul", conv | matmul, make_onednn_matmul_step},
    {"matmul", conv | matmul, make_matmul_step},
};

class EmptyStep final : public BoundStep {
 public:
  void run() override {}
  std::string describe() const override { return "empty"; }
};

}  // namespace

Context make_context(int threads) {
  threads = std::max(1, threads);
  auto primitives = make_primitive_cache();
  bool sees_nan = false;
  with_team(threads, [&] { sees_nan = sees_lost_nan(*primitives); });
  return {threads, std::make_shared<WeightCache>(), std::move(primitives), nullptr, multiplies_bf16(), sees_nan};
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
  Problem problem = make_problem(kernel, args, context);
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
