// Operands of contractions: any affine access as sums of offset tables, and packing parts of it into dense f32.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/facts/product_axes.h"
#include "kernel/kernel.h"

namespace npusim::cpu::product {

// Element (batch, i, j) is at offset + offsets[0][batch] + offsets[1][i] + offsets[2][j], plus for every guard
// stride · v, v = values[0][batch] + values[1][i] + values[2][j]; it reads as 0 unless 0 <= v < limit for all guards.
struct Operand {
  struct Bound {
    int64_t limit = 0;
    int64_t stride = 0;
    std::array<std::vector<int64_t>, 3> values;
  };
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t offset = 0;
  std::array<std::vector<int64_t>, 3> offsets;
  std::vector<Bound> bounds;
  // The distance of neighbours along an axis: its only stride, or -1 when there is none that holds throughout.
  std::array<int64_t, 3> step{};
  // Along an axis whose neighbours are mostly adjacent: every `run` elements, from the first on, lie side by side.
  std::array<int64_t, 3> run{};

  int64_t size(int axis) const { return static_cast<int64_t>(offsets[static_cast<size_t>(axis)].size()); }
  const std::byte* at(int64_t batch, int64_t i, int64_t j) const {
    return data + (offset + offsets[0][static_cast<size_t>(batch)] + offsets[1][static_cast<size_t>(i)] +
                   offsets[2][static_cast<size_t>(j)]) *
                      static_cast<int64_t>(dtype_size(dtype));
  }
};
Operand make_operand(const Access& access, DType dtype, const void* data, const std::array<Axis, 3>& axes);

// A rectangle of an operand: i in [i0, i1), j in [j0, j1).
struct Part {
  int64_t batch, i0, i1, j0, j1;
};
// dst[(i - i0)·ld + (j - j0)] as f32.
void pack(const Operand& operand, const Part& part, float* dst, int64_t ld);
// dst[(j - j0)·ld + (i - i0)] as f32.
void pack_transposed(const Operand& operand, const Part& part, float* dst, int64_t ld);

// A kernel that copies what `strides` reach of its argument 0, over `space`, to its argument 1: row-major, of type
// `to`.
Kernel dense_copy(const KernelArg& from, int64_t offset, const std::vector<int64_t>& space,
                  const std::vector<int64_t>& strides, DType to);

// Calls body() for boxes [lower, upper) over `extents` that together cover the flat range [begin, end), in order.
// `lower` and `upper` have extents.size() elements.
template <typename Body>
void for_boxes(std::span<const int64_t> extents, int64_t begin, int64_t end, int64_t* lower, int64_t* upper,
               Body&& body) {
  const size_t rank = extents.size();
  while (begin < end) {
    int64_t rest = begin;
    for (size_t d = rank; d-- > 0; rest /= extents[d]) lower[d] = rest % extents[d];
    // Widen the box from the innermost dimension outward while it starts at 0 and fits.
    size_t d = rank;
    int64_t inner = 1;
    while (d > 1 && lower[d - 1] == 0 && inner * extents[d - 1] <= end - begin) inner *= extents[--d];
    for (size_t i = 0; i < rank; ++i) upper[i] = i < d ? lower[i] + 1 : extents[i];
    int64_t count = 1;
    if (d > 0) {
      count = (end - begin) / inner;
      if (count > extents[d - 1] - lower[d - 1]) count = extents[d - 1] - lower[d - 1];
      if (count < 1) count = 1;
      upper[d - 1] = lower[d - 1] + count;
    }
    body();
    begin += count * inner;
  }
}

}  // namespace npusim::cpu::product
