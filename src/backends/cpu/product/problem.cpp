// The facts about a contraction, and its operands as matrices.
#include "backends/cpu/product/problem.h"

#include <fmt/format.h>

#include <utility>

#include "kernel/facts/compact.h"

namespace npusim::cpu::product {
namespace {

// Whether the rows are many and short, and lie as their results do: those meet a small weight where they lie, and as
// columns their results would have to be transposed.
bool has_short_rows(const Problem& p, const Matrices& m) {
  constexpr int64_t many_rows = 128, most_depth = 8;
  const Contraction& c = *m.kernel.contraction;
  const auto steps = [](const Access& access, const Axis& axis) {
    return axis.dims.size() == 1 ? access.strides[static_cast<size_t>(axis.dims[0])] : 0;
  };
  const auto is_f32 = [&](const Access& access) {
    return m.kernel.args[static_cast<size_t>(access.arg)].dtype == DType::f32;
  };
  return p.chain && m.axes.batch.size() == 1 && m.axes.rows.size() >= many_rows && m.axes.rows.dims.size() == 1 &&
         m.axes.depth.size() <= most_depth && c.a.guards.empty() && c.b.guards.empty() && is_f32(c.a) && is_f32(c.b) &&
         steps(c.a, m.axes.depth) == 1 && steps(m.kernel.stores[0].access, m.axes.columns) == 1;
}

// Whether matrices of a batch are so small that transposing them, or their results, counts: those are multiplied where
// they lie.
bool has_small_rows(const Matrices& m) {
  constexpr int64_t most_elements = 1024;
  return m.axes.batch.size() > 1 && m.axes.columns.size() > 1 &&
         m.axes.rows.size() * m.axes.depth.size() <= most_elements;
}

Matrices make_matrices(const Problem& p) {
  Matrices m{p.kernel, {}, {}, {}, false, false};
  drop_unit_dims(m.kernel);
  merge_dims(m.kernel);
  const Contraction& c = *m.kernel.contraction;
  auto constant = [&](const Access& access) { return p.args[static_cast<size_t>(access.arg)].constant; };
  m.axes = product_axes(m.kernel);
  m.swapped = constant(c.a) != constant(c.b)
                  ? constant(c.a)
                  : m.axes.rows.size() > m.axes.columns.size() && m.axes.columns.size() <= 4 && !has_short_rows(p, m) &&
                        !has_small_rows(m);
  if (m.swapped) std::swap(m.axes.rows, m.axes.columns);
  const Access &left = m.rows(), &right = m.swapped ? c.a : c.b;
  m.constant = constant(right);
  if (m.axes.rows.size() > gemv_max_rows) walk_forward(m.axes.depth, left);  // the order of a sum is free
  auto operand = [&](const Access& access, const Axis& axis) {
    const auto arg = static_cast<size_t>(access.arg);
    return make_operand(access, m.kernel.args[arg].dtype, p.args[arg].data, {m.axes.batch, axis, m.axes.depth});
  };
  m.a = operand(left, m.axes.rows), m.b = operand(right, m.axes.columns);
  return m;
}

}  // namespace

Problem make_problem(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  Problem p{kernel, args, context, epilogue_chain(kernel), {}, {}};
  if (kernel.contraction->kind == ContractionKind::conv) p.conv = conv_form(kernel, args, context);
  return p;
}

Matrices& matrices_of(Problem& p) {
  if (!p.matrices) p.matrices = make_matrices(p);
  return *p.matrices;
}

std::string no_chain(const Kernel& kernel) {
  if (kernel.stores.size() != 1) return fmt::format("{} results", kernel.stores.size());
  if (kernel.stores[0].accumulate) return "a result that is added to memory";
  return "an epilogue with other operations than those of a chain";
}

}  // namespace npusim::cpu::product
