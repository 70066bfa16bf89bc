// One launch after the other.
#include "plan/launches.h"

#include <fmt/format.h>

#include <unordered_map>

namespace npusim::plan {

void set_shape(Launch& launch, const GeneratedKernel& made) {
  launch.symbol = made.symbol;
  launch.grid[0] = static_cast<uint32_t>(made.shape.blocks);
  launch.block[0] = static_cast<uint32_t>(made.shape.threads);
  launch.shared_bytes = static_cast<uint32_t>(made.shared_bytes);
  launch.own_bytes = static_cast<uint64_t>(made.own_bytes);
  launch.early = made.early;
  launch.how = made.how;
  launch.declined = made.declined;
}

std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch) {
  return std::span(sequence.steps).subspan(static_cast<size_t>(launch.first), static_cast<size_t>(launch.count));
}

void fill_launch(const Program& program, const Sequence& sequence, const LaunchedBy& by, Launch& launch) {
  const GeneratedKernel& made = *by.made;
  set_shape(launch, made);
  launch.args = by.args, launch.declined = by.declined;
  const std::span steps = steps_of(sequence, launch);
  for (size_t n = 0; n < made.traps.size(); ++n) {
    const Step& trapped = steps[made.trap_steps.empty() ? 0 : made.trap_steps[n]];
    launch.traps.push_back(fmt::format("node {}: {}", step_name(program, trapped), made.traps[n]));
  }
  if (!made.traps.empty()) launch.args.push_back(trap_word);
  if (made.own_bytes > 0) launch.args.push_back(own_memory);
}

std::vector<LaunchedFunction> fill_launches(Program& program, const MakeLaunch& make) {
  std::vector<LaunchedFunction> functions;
  std::unordered_map<std::string, size_t> known;  // by symbol
  const auto fill = [&](Sequence& sequence, ptrdiff_t method) {
    for (size_t n = 0; n < sequence.launches.size(); ++n) {
      Launch& launch = sequence.launches[n];
      const LaunchedBy by = make(sequence, launch, {method, n});
      fill_launch(program, sequence, by, launch);
      const auto [at, fresh] = known.try_emplace(by.made->symbol, functions.size());
      if (fresh) functions.push_back({by.made, {}});
      functions[at->second].launches.push_back(&launch);
    }
  };
  fill(program.recipes, -1);
  for (size_t m = 0; m < program.methods.size(); ++m) fill(program.methods[m], static_cast<ptrdiff_t>(m));
  return functions;
}

}  // namespace npusim::plan
