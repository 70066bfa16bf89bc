// From the steps of a program to the plan, its text and the launch.
#include "backends/cuda/codegen/stream/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/stream/facts/steps.h"
#include "base/error.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream {
namespace {

// A launch per step is no slower where weights stay in the cache that all blocks see, or other products take the time.
std::optional<std::string> gains_nothing(const WholeMethod& method, const StreamPlan& plan) {
  constexpr int64_t share = 100;
  int64_t bytes = 0, streamed = 0, others = 0;  // multiplications
  for (size_t s = 0; s < method.steps.size(); ++s) {
    const Kernel& k = *method.steps[s].kernel;
    if (const auto& p = plan.products[s]) {
      bytes += p->lines.size() * p->depth.size() * 2, streamed += p->multiplications();
    } else if (k.contraction && !plan.attentions[s]) {
      int64_t product = 1;
      for (int64_t extent : k.space) product *= extent;
      for (int64_t extent : k.contraction->reduce) product *= extent;
      others += product;
    }
  }
  if (others > streamed / share) return fmt::format("{} multiplications of other products", others);
  if (bytes < plan.device.cache_bytes) return fmt::format("{} bytes of weights, which caches hold", bytes);
  return std::nullopt;
}

// The first argument that has the value.
StreamLaunch::Argument argument_of(const WholeMethod& method, int32_t value) {
  for (size_t s = 0; s < method.steps.size(); ++s) {
    const std::vector<int32_t>& values = method.steps[s].values;
    if (const auto at = std::find(values.begin(), values.end(), value); at != values.end())
      return {s, static_cast<size_t>(at - values.begin())};
  }
  fail(ErrorKind::internal, "cuda: a stream reads value {} of no step", value);
}

}  // namespace

std::optional<StreamLaunch> make_stream(const WholeMethod& method, const StreamCandidate& candidate,
                                        const Features& device, bool gains, std::string& why) {
  why = "it is one step";
  if (method.steps.size() < 2) return std::nullopt;
  const auto is_convolution = [](const GroupStep& step) {
    return step.kernel->contraction && step.kernel->contraction->kind == ContractionKind::conv;
  };
  if (gains && std::any_of(method.steps.begin(), method.steps.end(), is_convolution)) {
    why = "a convolution";
    return std::nullopt;
  }
  const facts::StreamSteps steps = facts::stream_steps(method, device);
  const auto plan = plan_stream(steps, why);
  if (!plan) return std::nullopt;
  if (gains)
    if (auto slower = gains_nothing(steps.method, *plan)) {
      why = *slower;
      return std::nullopt;
    }
  auto text = print_stream(steps.method, *plan, candidate, why);
  if (!text) return std::nullopt;
  StreamLaunch launch;
  for (const int32_t value : text->values) launch.args.push_back(argument_of(method, value));
  const auto made = std::make_shared<plan::GeneratedKernel>();
  for (size_t s = 0; s < steps.method.steps.size(); ++s) {
    if (text->first_trap[s] < 0) continue;
    const Kernel& kernel = plan->kernels[s];
    for (int code = 1; code <= trap_count(kernel); ++code) {
      made->traps.push_back(trap_message(kernel, code));
      made->trap_steps.push_back(steps.origin[s]);
    }
  }
  made->symbol = std::move(text->symbol), made->functions = std::move(text->functions);
  made->shape = {plan->device.units, stream_block};
  made->shared_bytes = text->shared_bytes, made->own_bytes = text->own_bytes;
  made->how = std::move(text->how);
  launch.made = made;
  return launch;
}

WholeMethod method_of(const Program& program, const Sequence& sequence, const Launch& launch) {
  WholeMethod method;
  for (const Buffer& b : program.buffers) {
    const bool inside = b.kind == BufferKind::local || b.kind == BufferKind::arena;
    const bool outside = b.kind == BufferKind::input || b.kind == BufferKind::output || b.kind == BufferKind::state;
    method.uses.push_back(inside ? ValueUse::inside : outside ? ValueUse::outside : ValueUse::known);
  }
  for (int32_t s = launch.first; s < launch.first + launch.count; ++s) {
    const Step& step = sequence.steps[static_cast<size_t>(s)];
    method.steps.push_back({&program.kernels[static_cast<size_t>(step.kernel)], step.buffers});
  }
  return method;
}

plan::LaunchedBy launched_by(const StreamLaunch& stream, std::span<const Step> steps) {
  plan::LaunchedBy launched{stream.made, {}};
  for (const auto& [step, position] : stream.args) launched.args.push_back(steps[step].buffers[position]);
  return launched;
}

}  // namespace npusim::cuda::codegen::stream
