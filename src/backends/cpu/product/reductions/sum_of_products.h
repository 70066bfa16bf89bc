// Kernels that sum products or distances of what they load, as products of matrices do: which, and what is left of
// them.
#pragma once
#include <cstddef>
#include <optional>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/product/pairing.h"
#include "kernel/kernel.h"

namespace npusim::cpu::product::reductions {

// A reduction of pairs of two operands' elements, and the dimensions that they have.
struct SumOfProducts {
  size_t at = 0;  // the expression
  Pairing pairing = Pairing::product;
  Access a, b;  // of the rows, of the columns
  ProductAxes axes;
  // Products, not elements, are 0 where this operand's guards do not hold: so they are as long as the other's elements
  // are finite.
  enum Selected { none, of_a, of_b } selected = none;
};

// The one sum in float64 or int64, or one of distances in float64, of a kernel that reduces rows; nullopt where there
// is none, more than one, or so few rows, columns or terms that loops are as good.
std::optional<SumOfProducts> match_sum_of_products(const Kernel& kernel);

// The kernel with a load of the sums, behind its arguments, instead of the reduction, and without the row that only
// that needs; nullopt where more varies along the row.
std::optional<Kernel> rest_of(const Kernel& kernel, const SumOfProducts& sums);

}  // namespace npusim::cpu::product::reductions
