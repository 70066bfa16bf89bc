// How far one tensor is from another: norms of the difference, correlation, agreement of the largest elements. r is
// blind to a scale and to a shift, norms to a single element: a check asks for more than one of them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "npusim/tensor.h"

namespace npusim {

struct Comparison {
  int64_t elements = 0;    // compared
  int64_t not_finite = 0;  // NaN or the same infinity on both sides: they agree, and count in no norm
  int64_t l0 = 0;          // how many differ
  double l1 = 0, l2 = 0;   // of the difference; infinite where one side is not finite and the other differs,
  double l_inf = 0;
  double relative_l2 = 0;  // … l2 by the norm of what is expected; of expected zeros: 0 if all is zero, else infinite
  double cosine = 0;       // … and this and r are then 0
  double pearson_r = 0;    // of constants and single elements, which have none: 1 if they agree to 1 %, else 0
  bool argmax_equal = true;
};

// `expected` may be the first part of what is compared. argmax_equal asks for the same largest element in every whole
// row of `row` elements whose largest expected element leads by more than 2 % of the standard deviation.
NPUSIM_API Comparison compare(std::span<const double> found, std::span<const double> expected, int64_t row);

// What relative L2 may be in a model that computes in such dtypes, by the coarsest of them: what their rounding errors
// add up to in a deep one, with room for some. An error of 1 % in scale is none of them in float32.
NPUSIM_API double relative_l2_bar(std::span<const DType> dtypes);

NPUSIM_API std::vector<double> to_doubles(const TensorView& tensor);

}  // namespace npusim
