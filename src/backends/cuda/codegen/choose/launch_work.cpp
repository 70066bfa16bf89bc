// From the steps of a program to what a launch of them takes.
#include "backends/cuda/codegen/choose/launch_work.h"

#include <algorithm>

namespace npusim::cuda::codegen::choose {
namespace {

const Kernel& kernel_at(const Program& program, int32_t number) { return program.kernels[static_cast<size_t>(number)]; }

}  // namespace

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

LaunchWork work_of(const Program& program, std::span<const Step> steps, const StepsPlan& plan, bool prepared) {
  LaunchWork work;
  work.made_of.plan = &plan;
  for (const Step& one : steps) {
    work.kernels.push_back(one.kernel);
    work.made_of.kernels.push_back(&kernel_at(program, one.kernel));
  }
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
  std::vector<bool>& ahead = work.made_of.ahead;
  if (plan.pair || !plan.columns.empty()) {
    for (const int32_t buffer : work.args) ahead.push_back(is_ahead(buffer));
    return work;
  }
  ahead.assign(steps[0].buffers.size(), true);
  for (const Step& one : steps)
    for (size_t i = 0; i < std::min(ahead.size(), one.buffers.size()); ++i)
      ahead[i] = ahead[i] && is_ahead(one.buffers[i]);
  return work;
}

}  // namespace npusim::cuda::codegen::choose
