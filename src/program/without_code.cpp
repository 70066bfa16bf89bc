// Launches are dropped, and what lived within one gets an offset in the arena.
#include "program/without_code.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace npusim {
namespace {

void refuse_calls(const Program& program) {
  std::vector<Problem> problems;
  const auto visit = [&](const Sequence& sequence) {
    for (const Step& step : sequence.steps) {
      if (step.is_transfer()) continue;
      if (const auto& call = program.kernels[static_cast<size_t>(step.kernel)].call)
        problems.push_back({"node " + step_name(program, step),
                            fmt::format("{} is done by a plugin, which is code and was not to be used", call->op)});
    }
  };
  visit(program.recipes);
  for (const Method& method : program.methods) visit(method);
  if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
}

// Behind what lies in the arena already, as the workspace was laid out.
void place_locals(Program& program, Method& method) {
  std::vector<uint64_t> base;
  for (size_t d = 0; d < method.arenas.size(); ++d) {
    Arena& arena = method.arenas[d];
    const uint64_t align = buffer_alignment(program.devices[d].config);
    base.push_back((arena.bytes + align - 1) / align * align);
    arena.workspace_bytes = 0;
  }
  for (const Step& step : method.steps)
    for (const int32_t id : step.buffers) {
      Buffer& b = program.buffers[static_cast<size_t>(id)];
      if (b.kind != BufferKind::local) continue;
      b.kind = BufferKind::arena;
      b.offset += base[static_cast<size_t>(b.device)];
      uint64_t& end = method.arenas[static_cast<size_t>(b.device)].bytes;
      end = std::max<uint64_t>(end, b.offset + stored_bytes(b));
    }
}

}  // namespace

void leave_out_code(Program& program, std::vector<std::string>& notes) {
  refuse_calls(program);
  std::vector<size_t> launches(program.devices.size(), 0);
  const auto drop = [&](Sequence& sequence) {
    for (const Launch& launch : sequence.launches)
      ++launches[static_cast<size_t>(sequence.steps[static_cast<size_t>(launch.first)].device)];
    sequence.launches.clear();
  };
  drop(program.recipes);
  for (Method& method : program.methods) {
    drop(method);
    method.declined.clear();
    place_locals(program, method);
  }
  for (size_t d = 0; d < launches.size(); ++d) {
    if (launches[d] == 0) continue;
    notes.push_back(fmt::format("{} of {} left out: the CPU runs {}",
                                launches[d] == 1 ? "a launch" : fmt::format("{} launches", launches[d]),
                                program.devices[d].target, launches[d] == 1 ? "its steps" : "their steps"));
    program.devices[d].target = "cpu";
  }
  program.code.clear();
  program.choices.clear();
  program.variants.clear();
}

}  // namespace npusim
