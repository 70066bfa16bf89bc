// A target that is compiled for ahead: what it can print, which kernels one launch runs, and the launches' code.
#include "backends/emulator/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "kernel/facts/fourier.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/unfuse.h"
#include "plan/launches.h"
#include "print/group.h"

namespace npusim::emulator {
namespace {

constexpr int group_threads = 256;
constexpr int64_t most_turns = 4;       // that the one block of a group takes for a kernel
constexpr size_t most_kernels = 8;      // of a group
constexpr int64_t most_shared = 16384;  // bytes of local buffers that a group keeps in the block's own memory

// A kernel without its contraction: the kernels that do its work, and the memory between them.
struct Spelled {
  std::vector<Unfused::Scratch> scratch;
  std::vector<BoundKernel> parts;  // values: the kernel's arguments, and behind them the scratch
  bool product = false;
};

Spelled spell(const Kernel& kernel) {
  if (!kernel.contraction) {
    BoundKernel whole{kernel, {}};
    for (size_t i = 0; i < kernel.args.size(); ++i) whole.values.push_back(static_cast<int>(i));
    return {{}, {std::move(whole)}, false};
  }
  Unfused unfused = unfuse(kernel);
  return {std::move(unfused.scratch), std::move(unfused.steps), true};
}

// What a product sums over is walked by one thread: the emulator vectorises that.
Schedule schedule_alone(const Kernel& kernel, bool product) {
  if (product && kernel.row_dims > 0) return {RowLoop::thread, 128};
  return choose_schedule(kernel, metal_dialect);
}

Schedule schedule_in_group(const Kernel& kernel, bool product) {
  return {schedule_alone(kernel, product).row, group_threads};
}

// A step and the numbers of its arguments' memory: values of a graph, or buffers.
struct GroupMember {
  const Spelled* spelled;
  const std::vector<int32_t>* ids;
};

// The members as one function. `local`: numbers whose memory lives within it.
struct Grouped {
  KernelGroup group;
  std::vector<int32_t> ids;  // of the memories that are parameters, in order
};

Grouped group_members(std::span<const GroupMember> members, const std::function<bool(int32_t)>& is_local) {
  Grouped result;
  std::vector<KernelGroup::Memory>& memories = result.group.memories;
  std::map<int32_t, int> known;
  int64_t shared = 0;
  const auto bytes = [](const KernelGroup::Memory& m) {
    return m.elements * static_cast<int64_t>(dtype_size(m.dtype));
  };
  for (const GroupMember& member : members) {
    const size_t args = member.ids->size();
    const int first_scratch = static_cast<int>(memories.size());
    for (const Unfused::Scratch& s : member.spelled->scratch) memories.push_back({s.dtype, s.elements, true});
    for (const BoundKernel& part : member.spelled->parts) {
      const bool product = member.spelled->product;
      result.group.parts.push_back({&part.kernel, schedule_in_group(part.kernel, product), {}});
      for (size_t i = 0; i < part.values.size(); ++i) {
        const auto value = static_cast<size_t>(part.values[i]);
        if (value >= args) {
          result.group.parts.back().memory.push_back(first_scratch + static_cast<int>(value - args));
          continue;
        }
        const int32_t id = (*member.ids)[value];
        const auto [entry, fresh] = known.try_emplace(id, static_cast<int>(memories.size()));
        if (fresh) {
          KernelGroup::Memory memory{part.kernel.args[i].dtype, part.kernel.args[i].elements, false};
          memory.shared = is_local(id) && shared + bytes(memory) <= most_shared;
          if (memory.shared) shared += bytes(memory);
          memories.push_back(memory);
        }
        result.group.parts.back().memory.push_back(entry->second);
      }
    }
  }
  std::map<int, int32_t> id_of;
  for (const auto& [id, memory] : known) id_of[memory] = id;
  for (const auto& [memory, id] : id_of)
    if (!memories[static_cast<size_t>(memory)].shared) result.ids.push_back(id);
  return result;
}

// Whether one block does the kernel in a few turns.
bool is_small(const Spelled& spelled) {
  return std::all_of(spelled.parts.begin(), spelled.parts.end(), [&](const BoundKernel& part) {
    const Schedule schedule = schedule_in_group(part.kernel, spelled.product);
    return !cannot_print(part.kernel, metal_dialect, schedule) &&
           launch_of(part.kernel, metal_dialect, schedule).blocks <= most_turns;
  });
}

std::vector<std::string> traps_of(const Kernel& kernel) {
  std::vector<std::string> traps;
  if (takes_trap(kernel))
    for (int code = 1; code <= trap_count(kernel); ++code) traps.push_back(trap_message(kernel, code));
  return traps;
}

plan::LaunchedBy make_alone(const Step& step, const Kernel& kernel, bool product) {
  const auto made = std::make_shared<plan::GeneratedKernel>();
  const Schedule schedule = schedule_alone(kernel, product);
  const Scheduled scheduled{&kernel, schedule};
  made->symbol = kernel_name(kernel);
  made->functions = print_functions({&scheduled, 1}, metal_dialect);
  made->shape = launch_of(kernel, metal_dialect, schedule);
  made->traps = traps_of(kernel);
  return {made, step.buffers};
}

plan::LaunchedBy make_group(const Program& program, std::span<const Step> steps) {
  const auto made = std::make_shared<plan::GeneratedKernel>();
  std::vector<Spelled> spelled;
  std::vector<GroupMember> members;
  for (const Step& step : steps) spelled.push_back(spell(program.kernels[static_cast<size_t>(step.kernel)]));
  for (size_t i = 0; i < steps.size(); ++i) members.push_back({&spelled[i], &steps[i].buffers});
  const auto is_local = [&](int32_t id) { return program.buffers[static_cast<size_t>(id)].kind == BufferKind::local; };
  Grouped grouped = group_members(members, is_local);
  made->symbol = group_name(grouped.group);
  made->functions = print_group(grouped.group, metal_dialect);
  made->shape = {1, group_threads};
  for (size_t i = 0; i < steps.size(); ++i)
    for (const BoundKernel& part : spelled[i].parts)
      for (std::string& trap : traps_of(part.kernel)) {
        made->traps.push_back(std::move(trap));
        made->trap_steps.push_back(i);
      }
  return {made, std::move(grouped.ids)};
}

// One kernel that needs no memory between its parts, or a group.
plan::LaunchedBy make_launch(const Program& program, const Sequence& sequence, const Launch& launch) {
  const std::span steps = plan::steps_of(sequence, launch);
  const Kernel& kernel = program.kernels[static_cast<size_t>(steps[0].kernel)];
  const Spelled spelled = spell(kernel);
  if (steps.size() == 1 && spelled.scratch.empty())
    return make_alone(steps[0], only_step(kernel, spelled.parts[0]), spelled.product);
  return make_group(program, steps);
}

class EmulatorTarget : public CodegenTarget {
 public:
  explicit EmulatorTarget(bool groups) : groups_(groups) {
    config_.name = "emulator";
    config_.max_rank = 16;
  }

  Unfused in_parts(const Kernel& kernel) const override {
    if (!has_order(kernel) && !has_fourier(kernel)) return {};
    Unfused parts = unfuse(kernel);
    for (size_t n = 0; n < parts.steps.size(); ++n)
      if (const Kernel step = parts.steps[n].kernel; step.contraction)
        replace_step(parts, kernel.args.size(), n, unfuse(step));  // a transform's product is one row kernel
    return parts;
  }

  std::string refuse(const Kernel& kernel) const override {
    for (const BoundKernel& part : in_parts(kernel).steps)
      if (auto reason = cannot_print(part.kernel, metal_dialect, schedule_alone(part.kernel, false))) return *reason;
    if (has_order(kernel) || has_fourier(kernel)) return "";
    const Spelled spelled = spell(kernel);
    if (spelled.scratch.empty()) {
      const Kernel part = only_step(kernel, spelled.parts[0]);
      return cannot_print(part, metal_dialect, schedule_alone(part, spelled.product)).value_or("");
    }
    for (const BoundKernel& part : spelled.parts)
      if (auto reason = cannot_print(part.kernel, metal_dialect, schedule_in_group(part.kernel, spelled.product)))
        return *reason;
    if (!is_small(spelled)) return "it takes several kernels, and is too large for one block";
    std::vector<int32_t> ids;
    for (size_t i = 0; i < kernel.args.size(); ++i) ids.push_back(static_cast<int32_t>(i));
    const GroupMember member{&spelled, &ids};
    return cannot_print(group_members({&member, 1}, is_local_to_none).group, metal_dialect).value_or("");
  }

  Group group(std::span<const GroupStep> steps) const override {
    if (!groups_) return {1};
    std::vector<Spelled> spelled;
    spelled.reserve(most_kernels);
    std::vector<GroupMember> members;
    for (const GroupStep& step : steps.first(std::min(steps.size(), most_kernels))) {
      spelled.push_back(spell(*step.kernel));
      members.push_back({&spelled.back(), &step.values});
      if (is_small(spelled.back()) && !cannot_print(group_members(members, is_local_to_none).group, metal_dialect))
        continue;
      members.pop_back();
      break;
    }
    return {std::max<size_t>(members.size(), 1)};
  }

  // All functions are one text.
  void plan(Program& program, const ProgramPlans&, std::vector<std::string>&) const override {
    const std::vector<plan::LaunchedFunction> functions = plan::fill_launches(
        program,
        [&](const Sequence& s, const Launch& launch, plan::LaunchPosition) { return make_launch(program, s, launch); });
    if (functions.empty()) return;
    std::string text;
    for (const plan::LaunchedFunction& function : functions) {
      text += function.made->functions;
      for (Launch* launch : function.launches) launch->code = static_cast<int32_t>(program.code.size());
    }
    text = with_helpers(text, metal_dialect);
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    program.code.push_back({{"msl", "", {bytes, bytes + text.size()}}});
  }

 private:
  static bool is_local_to_none(int32_t) { return false; }
  bool groups_;
};

}  // namespace

const CodegenTarget& target() {
  static const EmulatorTarget instance(true);
  return instance;
}

const CodegenTarget& target_without_groups() {
  static const EmulatorTarget instance(false);
  return instance;
}

}  // namespace npusim::emulator
