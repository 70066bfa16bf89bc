// A contraction as all its implementations see it: what is known about it, found out once.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/product/conv_spec.h"
#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"
#include "kernel/facts/epilogue_chain.h"
#include "kernel/facts/product_axes.h"

namespace npusim::cpu::product {

// A matmul, or a convolution whose operand a is gathered, as rows times columns. The weight is b, and without one the
// operand with more columns than rows.
struct Matrices {
  Kernel kernel;     // its dimensions merged
  ProductAxes axes;  // a reads the rows, b the columns
  Operand a, b;      // axes: batch, rows, depth; batch, columns, depth
  bool swapped;      // a is the kernel's b
  bool constant;     // b is
  const Access& rows() const { return swapped ? kernel.contraction->b : kernel.contraction->a; }
};

inline constexpr int64_t gemv_max_rows = 4;  // of products that read each weight once, where it lies (gemv/gemv.h)

struct Problem {
  const Kernel& kernel;
  std::span<const Binding> args;
  const Context& context;
  std::optional<std::vector<EpilogueOp>> chain;
  ConvForm conv;                     // of a convolution
  std::optional<Matrices> matrices;  // made when first asked for: tables of all offsets take time and room
};
Problem make_problem(const Kernel& kernel, std::span<const Binding> args, const Context& context);
// Whoever accepts the problem may move them out.
Matrices& matrices_of(Problem& problem);

// Why there is no chain.
std::string no_chain(const Kernel& kernel);

}  // namespace npusim::cpu::product
