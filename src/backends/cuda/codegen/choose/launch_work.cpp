// Who is asked, in order: pairs, products of the same rows, kernels beside each other, equal kernels.
#include "backends/cuda/codegen/choose/launch_work.h"

#include <algorithm>

#include "backends/cuda/codegen/choose/beside.h"
#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/products/columns.h"
#include "print/print.h"

namespace npusim::cuda::codegen::choose {
namespace {

constexpr size_t most_steps = 4;  // that are equal or beside each other

const Kernel& kernel_at(const Program& program, int32_t number) { return program.kernels[static_cast<size_t>(number)]; }

// Whether none has to do with what the other one writes.
bool are_apart(const GroupStep& a, const GroupStep& b) {
  for (size_t i = 0; i < a.values.size(); ++i)
    for (size_t j = 0; j < b.values.size(); ++j)
      if ((a.kernel->args[i].written || b.kernel->args[j].written) && a.values[i] == b.values[j]) return false;
  return true;
}

bool is_equal(const GroupStep& first, const GroupStep& next) {
  return next.kernel->contraction && next.values.size() == first.values.size() &&
         kernel_name(*next.kernel) == kernel_name(*first.kernel) && are_apart(first, next);
}

// A launch has one word for traps, in which the last one stays: the first of the steps that trap would be lost.
bool are_beside(const GroupStep& first, const GroupStep& next) {
  return can_be_beside(*next.kernel) && are_apart(first, next) &&
         !(takes_trap(*first.kernel) && takes_trap(*next.kernel));
}

// How many steps, from the first on, are what each of them is to all before it.
template <typename Relation>
size_t count_related(std::span<const GroupStep> steps, const Relation& is_related) {
  size_t count = 1;
  const auto joins = [&](const GroupStep& next) {
    return std::all_of(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(count),
                       [&](const GroupStep& step) { return is_related(step, next); });
  };
  while (count < std::min(most_steps, steps.size()) && joins(steps[count])) ++count;
  return count;
}

// What the first of two products makes is stored too where others have to do with it.
std::optional<products::Pair> pair_of(const GroupStep& first, const GroupStep& second, const Features& features) {
  if (!first.kernel->contraction) return std::nullopt;
  bool keep = false;
  for (size_t i = 0; i < first.kept.size(); ++i)
    if (first.kernel->args[i].written) keep = first.kept[i];
  return products::find_pair(first, second, features, keep);
}

Group planned(size_t count, StepsPlan::Kind kind, std::optional<products::Pair> pair = {}) {
  const auto plan = std::make_shared<StepsPlan>();
  plan->kind = kind, plan->pair = std::move(pair);
  return {count, plan};
}

}  // namespace

Group group_steps(std::span<const GroupStep> steps, const Features& features) {
  using Kind = StepsPlan::Kind;
  if (steps.size() > 1)
    if (auto pair = pair_of(steps[0], steps[1], features)) return planned(2, Kind::pair, std::move(pair));
  if (const size_t count = products::count_columns(steps, features); count > 1) return planned(count, Kind::columns);
  if (can_be_beside(*steps[0].kernel)) {
    const size_t count = count_related(steps, are_beside);
    return planned(count, count > 1 ? Kind::beside : Kind::equal);
  }
  const size_t count = count_related(steps, is_equal);
  return planned(several_at_once(*steps[0].kernel) ? count : 1, Kind::equal);
}

std::shared_ptr<const StepsPlan> plan_steps(const Program& program, std::span<const Step> steps,
                                            const Features& features) {
  std::vector<GroupStep> group;
  for (const Step& step : steps) {
    GroupStep& one = group.emplace_back(GroupStep{&kernel_at(program, step.kernel), step.buffers});
    for (const int32_t buffer : step.buffers)
      one.kept.push_back(program.buffers[static_cast<size_t>(buffer)].kind != BufferKind::local);
  }
  Group found = group_steps(group, features);
  return found.count == steps.size() ? std::static_pointer_cast<const StepsPlan>(std::move(found.plan)) : nullptr;
}

std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch) {
  return std::span(sequence.steps).subspan(static_cast<size_t>(launch.first), static_cast<size_t>(launch.count));
}

LaunchWork work_of(const Program& program, std::span<const Step> steps, const StepsPlan& plan, bool prepared) {
  LaunchWork work;
  work.plan = &plan;
  for (const Step& one : steps) work.kernels.push_back(one.kernel);
  if (plan.pair)
    work.given = plan.pair->given;
  else
    for (size_t of = 0; of < steps.size(); ++of)
      for (size_t arg = 0; arg < steps[of].buffers.size(); ++arg) work.given.emplace_back(of, arg);
  for (const auto& [of, arg] : work.given) work.args.push_back(steps[of].buffers[arg]);
  const auto is_ahead = [&](int32_t buffer) {
    const BufferKind kind = program.buffers[static_cast<size_t>(buffer)].kind;
    return kind == BufferKind::weight || kind == BufferKind::constant || (kind == BufferKind::prepared && prepared);
  };
  if (plan.kind == StepsPlan::Kind::pair || plan.kind == StepsPlan::Kind::columns) {
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
  switch (work.plan->kind) {
    case StepsPlan::Kind::pair:
      return products::make_joined(*work.plan->pair, work.ahead, most);
    case StepsPlan::Kind::columns:
      return products::make_columns(kernels, work.ahead, most);
    case StepsPlan::Kind::beside:
      return {make_beside(kernels)};
    case StepsPlan::Kind::equal:
      break;
  }
  return make_ways(*kernels[0], features, work.ahead, static_cast<int>(kernels.size()), most);
}

}  // namespace npusim::cuda::codegen::choose
