// Pairs and products of the same rows as group() found them, kernels beside each other, equal kernels.
#include "backends/cuda/codegen/choose/launch_work.h"

#include <algorithm>

#include "backends/cuda/codegen/choose/beside.h"
#include "backends/cuda/codegen/products/columns.h"
#include "codegen/target.h"
#include "print/print.h"

namespace npusim::cuda::codegen::choose {
namespace {

const Kernel& kernel_at(const Program& program, int32_t number) { return program.kernels[static_cast<size_t>(number)]; }

// Of two products: what the first makes is stored where others read it too.
std::optional<products::Pair> pair_of(const Program& program, std::span<const Step> steps, const Features& features) {
  if (steps.size() != 2 || !kernel_at(program, steps[0].kernel).contraction) return std::nullopt;
  const auto bound = [&](const Step& s) { return GroupStep{&kernel_at(program, s.kernel), s.buffers}; };
  bool keep = false;
  const Kernel& first = kernel_at(program, steps[0].kernel);
  for (size_t i = 0; i < first.args.size(); ++i)
    if (first.args[i].written)
      keep = program.buffers[static_cast<size_t>(steps[0].buffers[i])].kind != BufferKind::local;
  return products::find_pair(bound(steps[0]), bound(steps[1]), features, keep);
}

// Whether these are products that differ: group() took them for those of the same rows.
bool are_columns(const Program& program, std::span<const int32_t> kernels) {
  const Kernel& first = kernel_at(program, kernels[0]);
  return first.contraction && std::any_of(kernels.begin(), kernels.end(), [&](int32_t number) {
           return kernel_name(kernel_at(program, number)) != kernel_name(first);
         });
}

}  // namespace

std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch) {
  return std::span(sequence.steps).subspan(static_cast<size_t>(launch.first), static_cast<size_t>(launch.count));
}

LaunchWork work_of(const Program& program, std::span<const Step> steps, const Features& features, bool prepared) {
  LaunchWork work;
  for (const Step& one : steps) work.kernels.push_back(one.kernel);
  work.pair = pair_of(program, steps, features);
  work.columns = !work.pair && are_columns(program, work.kernels);
  if (work.pair) {
    for (const auto& [of, arg] : work.pair->given) work.args.push_back(steps[of].buffers[arg]);
  } else {
    for (const Step& one : steps) work.args.insert(work.args.end(), one.buffers.begin(), one.buffers.end());
  }
  const auto is_ahead = [&](int32_t buffer) {
    const BufferKind kind = program.buffers[static_cast<size_t>(buffer)].kind;
    return kind == BufferKind::weight || kind == BufferKind::constant || (kind == BufferKind::prepared && prepared);
  };
  if (work.pair || work.columns) {
    for (const int32_t buffer : work.args) work.ahead.push_back(is_ahead(buffer));
    return work;
  }
  work.ahead.assign(steps[0].buffers.size(), true);
  for (const Step& one : steps)
    for (size_t i = 0; i < std::min(work.ahead.size(), one.buffers.size()); ++i)
      work.ahead[i] = work.ahead[i] && is_ahead(one.buffers[i]);
  return work;
}

std::vector<Made> make_ways(const Program& program, const LaunchWork& work, const Features& features, size_t most) {
  std::vector<const Kernel*> kernels;
  for (const int32_t number : work.kernels) kernels.push_back(&kernel_at(program, number));
  if (work.pair) return products::make_joined(*work.pair, work.ahead, most);
  if (work.columns) return products::make_columns(kernels, work.ahead, most);
  if (kernels.size() > 1 && !kernels[0]->contraction) return {make_beside(kernels)};
  return make_ways(*kernels[0], features, work.ahead, static_cast<int>(kernels.size()), most);
}

}  // namespace npusim::cuda::codegen::choose
