// Sums over buffers and steps, which stop at the largest number where sizes are beyond all reason.
#include "program/budget.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/facts/attention_axes.h"
#include "program/buffer_kind.h"
#include "program/work.h"

namespace npusim {
namespace {

uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

void need(DeviceNeeds& needs, uint64_t bytes, const std::string& what) {
  needs.bytes = plus(needs.bytes, bytes);
  if (bytes > needs.largest_bytes) needs.largest_bytes = bytes, needs.largest = what;
}

// Every expression of every point, and what is the same along an empty row once.
uint64_t operations(const std::vector<int64_t>& space, int row_dims, size_t exprs) {
  uint64_t points = 1, row = 1;
  const size_t outer = space.size() - static_cast<size_t>(row_dims);
  for (size_t d = 0; d < space.size(); ++d)
    (d < outer ? points : row) = times(d < outer ? points : row, static_cast<uint64_t>(space[d]));
  return times(times(points, std::max<uint64_t>(row, 1)), exprs);
}

// Those of its points and of an attention's scores, and multiply-adds of its contraction, two each.
uint64_t operations(const Kernel& kernel) {
  uint64_t sum = plus(kernel_work(kernel).flops, operations(kernel.space, kernel.row_dims, kernel.exprs.size()));
  if (kernel.contraction && kernel.contraction->score) {
    const Score& score = *kernel.contraction->score;
    sum = plus(sum, operations(score.space, 0, score.exprs.size()));
  }
  return sum;
}

// Of the addresses along each axis of a contraction's operands, which the CPU finds once.
uint64_t table_bytes(const Kernel& kernel) {
  if (!kernel.contraction) return 0;
  const Contraction& c = *kernel.contraction;
  std::vector<Axis> axes;
  if (c.kind == ContractionKind::attention) {
    if (const auto a = attention_axes(kernel)) axes = {a->batch, a->rows, a->keys, a->depth, a->columns};
  } else {
    const ProductAxes a = product_axes(kernel);
    axes = {a.batch, a.rows, a.columns, a.depth};
  }
  uint64_t entries = 0;
  for (const Axis& axis : axes) entries = plus(entries, static_cast<uint64_t>(axis.size()));
  return times(entries, 2 * sizeof(int64_t) * (1 + std::max(c.a.guards.size(), c.b.guards.size())));
}

uint64_t operations(const std::vector<Step>& steps, const std::vector<uint64_t>& of_kernel) {
  uint64_t sum = 0;
  for (const Step& step : steps)
    if (!step.is_transfer()) sum = plus(sum, of_kernel[static_cast<size_t>(step.kernel)]);
  return sum;
}

}  // namespace

std::vector<DeviceNeeds> device_needs(const Program& program) {
  std::vector<DeviceNeeds> needs(program.devices.size());
  for (const Buffer& b : program.buffers) {
    if (b.kind == BufferKind::arena || b.kind == BufferKind::local || b.kind == BufferKind::weight) continue;
    need(needs[static_cast<size_t>(b.device)], stored_bytes(b),
         fmt::format("{} '{}' of {}", kind_name(b.kind), b.name, to_string(b.type)));
  }
  for (const Method& m : program.methods)
    for (const Launch& launch : m.launches)
      need(needs[static_cast<size_t>(m.steps[static_cast<size_t>(launch.first)].device)], launch.own_bytes,
           fmt::format("memory of launch '{}'", launch.symbol));
  for (size_t d = 0; d < needs.size(); ++d) {
    const auto bytes_of = [&](const Method& m) { return plus(m.arenas[d].bytes, m.arenas[d].workspace_bytes); };
    const auto largest = std::max_element(program.methods.begin(), program.methods.end(),
                                          [&](const Method& a, const Method& b) { return bytes_of(a) < bytes_of(b); });
    if (largest != program.methods.end())
      need(needs[d], bytes_of(*largest), fmt::format("the intermediate values of method '{}'", largest->name));
  }
  return needs;
}

Needs program_needs(const Program& program) {
  Needs needs;
  for (const DeviceNeeds& device : device_needs(program)) needs.bytes = plus(needs.bytes, device.bytes);
  for (const Buffer& b : program.buffers)
    if (b.kind == BufferKind::weight) needs.bytes = plus(needs.bytes, stored_bytes(b));
  std::vector<uint64_t> of_kernel;
  for (const Kernel& kernel : program.kernels) {
    of_kernel.push_back(operations(kernel));
    needs.bytes = plus(needs.bytes, table_bytes(kernel));
  }
  needs.flops = operations(program.recipes.steps, of_kernel);
  for (const Method& method : program.methods) needs.flops = std::max(needs.flops, operations(method.steps, of_kernel));
  return needs;
}

void check_needs(const Program& program, const Budget& budget) {
  std::vector<Problem> problems;
  for (const Buffer& b : program.buffers)
    if (stored_bytes(b) > most_value_bytes)
      problems.push_back(
          {fmt::format("value '{}'", b.name), fmt::format("{} takes {} bytes: a program holds values of at most {}",
                                                          to_string(b.type), stored_bytes(b), most_value_bytes)});
  if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
  check_budget(program, budget);
}

void check_budget(const Program& program, const Budget& budget) {
  if (budget.max_bytes == 0 && budget.max_flops == 0) return;
  const Needs needs = program_needs(program);
  std::vector<Problem> problems;
  if (budget.max_bytes > 0 && needs.bytes > budget.max_bytes)
    problems.push_back(
        {"", fmt::format("the program needs {} bytes of memory: max_bytes allows {}", needs.bytes, budget.max_bytes)});
  if (budget.max_flops > 0 && needs.flops > budget.max_flops)
    problems.push_back({"", fmt::format("the program needs {} operations for a run: max_flops allows {}", needs.flops,
                                        budget.max_flops)});
  if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
}

}  // namespace npusim
