// Offset tables of operands and the choice of packing loop.
#include "backends/cpu/product/operand.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/product/simd.h"

namespace npusim::cpu::product {
namespace {

// Σ coeffs[dims[d]]·index[d] for every point of the axis.
std::vector<int64_t> table(const Axis& axis, const std::vector<int64_t>& coeffs) {
  std::vector<int64_t> values{0};
  for (size_t d = 0; d < axis.dims.size(); ++d) {
    const int64_t coeff = coeffs[static_cast<size_t>(axis.dims[d])];
    std::vector<int64_t> wider;
    wider.reserve(values.size() * static_cast<size_t>(axis.extents[d]));
    for (int64_t base : values)
      for (int64_t i = 0; i < axis.extents[d]; ++i) wider.push_back(base + coeff * i);
    values = std::move(wider);
  }
  return values;
}

int64_t common_step(const std::vector<int64_t>& values) {
  if (values.size() < 2) return 1;
  const int64_t step = values[1] - values[0];
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] - values[i - 1] != step) return -1;
  return step;
}

// The length of stretches, from the first element on, of side-by-side elements within the same bounds that divides an
// axis evenly; 1 when neighbours are apart.
int64_t common_run(const Operand& o, size_t axis) {
  const int64_t size = o.size(static_cast<int>(axis));
  auto adjacent = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    for (const Operand::Bound& bound : o.bounds)
      if (bound.values[axis][at] != bound.values[axis][at - 1]) return false;
    return o.offsets[axis][at] == o.offsets[axis][at - 1] + 1;
  };
  int64_t run = 1;
  while (run < size && adjacent(run)) ++run;
  for (int64_t i = run; i < size; ++i)
    if (i % run != 0 && !adjacent(i)) return 1;
  return run;
}

constexpr int64_t outside = -1;

// Where element (batch, i, j) is; `outside` its bounds.
int64_t address_of(const Operand& o, int64_t batch, int64_t i, int64_t j) {
  const std::array<size_t, 3> at{static_cast<size_t>(batch), static_cast<size_t>(i), static_cast<size_t>(j)};
  int64_t address = o.offset + o.offsets[0][at[0]] + o.offsets[1][at[1]] + o.offsets[2][at[2]];
  for (const Operand::Bound& bound : o.bounds) {
    const int64_t value = bound.values[0][at[0]] + bound.values[1][at[1]] + bound.values[2][at[2]];
    if (value < 0 || value >= bound.limit) return outside;
    address += bound.stride * value;
  }
  return address;
}

// `count` elements from (batch, i, j) on, side by side within the same bounds, as f32.
void widen_run(const Operand& o, int64_t batch, int64_t i, int64_t j, int64_t count, float* dst) {
  const int64_t address = address_of(o, batch, i, j);
  if (address == outside)
    std::memset(dst, 0, static_cast<size_t>(count) * 4);
  else
    widen(o.dtype, o.data + address * static_cast<int64_t>(dtype_size(o.dtype)), count, dst);
}

float element(const Operand& o, int64_t batch, int64_t i, int64_t j) {
  const int64_t address = address_of(o, batch, i, j);
  if (address == outside) return 0;
  switch (o.dtype) {
    case DType::f32:
      return reinterpret_cast<const float*>(o.data)[address];
    case DType::bf16:
      return bf16_to_float(reinterpret_cast<const uint16_t*>(o.data)[address]);
    case DType::f16:
      return f16_to_float(reinterpret_cast<const uint16_t*>(o.data)[address]);
    default:
      return static_cast<float>(load_double(o.data, o.dtype, address));
  }
}

bool simd_type(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// Calls body(begin, end) for the runs of `run` elements in [begin, end).
template <typename Body>
void for_runs(int64_t run, int64_t begin, int64_t end, Body&& body) {
  for (int64_t next; begin < end; begin = next) {
    next = std::min(end, (begin / run + 1) * run);
    body(begin, next);
  }
}
constexpr int64_t least_run = 8;  // worth a loop of its own

// dst[(i - i0)·ld_i + (j - j0)·ld_j]
void pack_elements(const Operand& o, const Part& p, float* dst, int64_t ld_i, int64_t ld_j) {
  for (int64_t i = p.i0; i < p.i1; ++i)
    for (int64_t j = p.j0; j < p.j1; ++j) dst[(i - p.i0) * ld_i + (j - p.j0) * ld_j] = element(o, p.batch, i, j);
}

}  // namespace

Operand make_operand(const Access& access, DType dtype, const void* data, const std::array<Axis, 3>& axes) {
  Operand o;
  o.data = static_cast<const std::byte*>(data);
  o.dtype = dtype;
  o.offset = access.offset;
  for (size_t axis = 0; axis < 3; ++axis) {
    o.offsets[axis] = table(axes[axis], access.strides);
    o.step[axis] = common_step(o.offsets[axis]);
  }
  for (const Guard& guard : access.guards) {
    Operand::Bound bound{guard.limit, guard.stride, {}};
    for (size_t axis = 0; axis < 3; ++axis) bound.values[axis] = table(axes[axis], guard.coeffs);
    for (int64_t& value : bound.values[0]) value += guard.offset;
    o.bounds.push_back(std::move(bound));
  }
  for (size_t axis = 0; axis < 3; ++axis) o.run[axis] = common_run(o, axis);
  return o;
}

void pack(const Operand& o, const Part& p, float* dst, int64_t ld) {
  if (p.i0 >= p.i1 || p.j0 >= p.j1) return;
  if (!simd_type(o.dtype)) return pack_elements(o, p, dst, ld, 1);
  if (o.bounds.empty() && o.step[2] == 1 && o.step[1] != -1) {
    widen_rows(o.dtype, o.at(p.batch, p.i0, p.j0), o.step[1], p.i1 - p.i0, p.j1 - p.j0, dst, ld);
  } else if (o.run[2] >= std::min(least_run, o.size(2))) {
    for (int64_t i = p.i0; i < p.i1; ++i)
      for_runs(o.run[2], p.j0, p.j1, [&](int64_t j, int64_t end) {
        widen_run(o, p.batch, i, j, end - j, dst + (i - p.i0) * ld + (j - p.j0));
      });
  } else if (o.bounds.empty() && o.run[1] >= std::min(least_run, o.size(1)) && o.step[2] != -1) {
    for_runs(o.run[1], p.i0, p.i1, [&](int64_t i, int64_t end) {
      transpose(o.dtype, o.at(p.batch, i, p.j0), o.step[2], p.j1 - p.j0, end - i, dst + (i - p.i0) * ld, ld);
    });
  } else {
    pack_elements(o, p, dst, ld, 1);
  }
}

void pack_transposed(const Operand& o, const Part& p, float* dst, int64_t ld) {
  if (p.i0 >= p.i1 || p.j0 >= p.j1) return;
  if (!simd_type(o.dtype)) return pack_elements(o, p, dst, 1, ld);
  if (o.bounds.empty() && o.step[1] == 1 && o.step[2] != -1) {
    widen_rows(o.dtype, o.at(p.batch, p.i0, p.j0), o.step[2], p.j1 - p.j0, p.i1 - p.i0, dst, ld);
  } else if (o.run[1] >= std::min(least_run, o.size(1))) {
    for (int64_t j = p.j0; j < p.j1; ++j)
      for_runs(o.run[1], p.i0, p.i1, [&](int64_t i, int64_t end) {
        widen_run(o, p.batch, i, j, end - i, dst + (j - p.j0) * ld + (i - p.i0));
      });
  } else if (o.bounds.empty() && o.step[2] == 1 && o.step[1] != -1) {
    transpose(o.dtype, o.at(p.batch, p.i0, p.j0), o.step[1], p.i1 - p.i0, p.j1 - p.j0, dst, ld);
  } else {
    pack_elements(o, p, dst, 1, ld);
  }
}

Kernel dense_copy(const KernelArg& from, int64_t offset, const std::vector<int64_t>& space,
                  const std::vector<int64_t>& strides, DType to) {
  Kernel k;
  k.name = "dense_copy";
  k.space = space;
  k.args = {from, {to, element_count(space), true, -1}};
  k.accesses = {{0, offset, strides, {}, {}}};
  k.exprs = {{.op = ExprOp::load, .type = Scalar::f32}};
  k.stores = {{{1, 0, row_major_strides(space), {}, {}}, 0, false}};
  return k;
}

}  // namespace npusim::cpu::product
