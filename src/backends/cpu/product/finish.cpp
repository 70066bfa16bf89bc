// Recognising the ends of a product that tiles take along, and applying them, compiled once per instruction set.
#include "backends/cpu/product/finish.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/finish.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
namespace HWY_NAMESPACE {

// No residual.
struct Nothing {
  using T = uint8_t;
};

// The first `count` columns of `rows` rows, at most one vector of them.
template <class Residual, class Out, bool whole>
void finish_columns(const Finish& f, VF bias, const float* c, int64_t ldc, int64_t rows, int64_t count,
                    const typename Residual::T* residual, typename Out::T* to) {
  const VF low = hn::Set(F(), f.low), high = hn::Set(F(), f.high);
  for (int64_t r = 0; r < rows; ++r, to += f.out.row_step, c += ldc) {
    VF x = hn::Add(hn::LoadU(F(), c), bias);
    if constexpr (!std::is_same_v<Residual, Nothing>) {
      x = hn::Add(x, whole ? Residual::load(residual) : load_some<Residual>(residual, count));
      residual += f.residual.row_step;
    }
    x = clamp(x, low, high);
    if constexpr (whole) {
      Out::store(x, to);
    } else {
      HWY_ALIGN typename Out::T some[finish_lanes];
      Out::store(x, some);
      std::memcpy(to, some, static_cast<size_t>(count) * sizeof(typename Out::T));
    }
  }
}

template <class Residual, class Out>
void finish_types(const Finish& f, const float* c, int64_t ldc, int64_t r0, int64_t r1, int64_t n0, int64_t n1) {
  const auto* residual = reinterpret_cast<const typename Residual::T*>(f.residual.data);
  if constexpr (!std::is_same_v<Residual, Nothing>) residual += f.residual.row_step * r0 + n0;
  auto* to = reinterpret_cast<typename Out::T*>(f.out.data) + f.out.row_step * r0;
  for (int64_t n = n0; n < n1; n += finish_lanes) {
    const int64_t count = std::min(finish_lanes, n1 - n);
    const VF bias = load_bias(f.activation == Activation::linear ? f.bias : Finish::Tensor(), n, count);
    if (count == finish_lanes)
      finish_columns<Residual, Out, true>(f, bias, c + (n - n0), ldc, r1 - r0, count, residual, to + n);
    else
      finish_columns<Residual, Out, false>(f, bias, c + (n - n0), ldc, r1 - r0, count, residual, to + n);
    if constexpr (!std::is_same_v<Residual, Nothing>) residual += finish_lanes;
  }
}

// c = act(c + bias)
template <class Act>
void activate_tile(const Finish& f, float* c, int64_t ldc, int64_t rows, int64_t n0, int64_t n1, Act act) {
  for (int64_t n = n0; n < n1; n += finish_lanes, c += finish_lanes) {
    const VF bias = load_bias(f.bias, n, n1 - n);
    for (int64_t r = 0; r < rows; ++r) hn::StoreU(act(hn::Add(hn::LoadU(F(), c + r * ldc), bias)), F(), c + r * ldc);
  }
}

void finish_tile(const Finish& f, float* c, int64_t ldc, int64_t r0, int64_t r1, int64_t n0, int64_t n1) {
  if (f.activation != Activation::linear)
    with_activation(f.activation, [&](auto act) { activate_tile(f, c, ldc, r1 - r0, n0, n1, act); });
  auto with_out = [&](auto residual) {
    using Residual = decltype(residual);
    if (f.out.dtype == DType::f32)
      finish_types<Residual, ToF32>(f, c, ldc, r0, r1, n0, n1);
    else if (f.out.dtype == DType::f16)
      finish_types<Residual, ToF16>(f, c, ldc, r0, r1, n0, n1);
    else
      finish_types<Residual, ToBF16>(f, c, ldc, r0, r1, n0, n1);
  };
  if (f.residual.data)
    with_type(f.residual.dtype, with_out);
  else
    with_out(Nothing{});
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product {
HWY_EXPORT(finish_tile);

void finish_tile(const Finish& finish, float* c, int64_t ldc, int64_t r0, int64_t r1, int64_t n0, int64_t n1) {
  HWY_DYNAMIC_DISPATCH(finish_tile)(finish, c, ldc, r0, r1, n0, n1);
}

void prefetch_tile(const Finish& finish, int64_t r0, int64_t r1, int64_t n0, int64_t n1) {
  auto fetch = [&](const Finish::Tensor& t, auto touch) {
    if (!t.data) return;
    const auto size = static_cast<int64_t>(dtype_size(t.dtype));
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t at = (t.row_step * r + n0) * size; at < (t.row_step * r + n1) * size; at += 64) touch(t.data + at);
  };
  fetch(finish.residual, [](const std::byte* at) { __builtin_prefetch(at, 0, 2); });
  fetch(finish.out, [](const std::byte* at) { __builtin_prefetch(at, 1, 2); });
}

namespace {

bool finish_type(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// Rows one distance apart, columns side by side.
std::optional<Operand> plain_matrix(const Kernel& kernel, const Access& access, std::span<const Binding> args,
                                    const ProductAxes& axes) {
  const auto arg = static_cast<size_t>(access.arg);
  if (!access.guards.empty() || !access.terms.empty() || !finish_type(kernel.args[arg].dtype)) return std::nullopt;
  Operand o = make_operand(access, kernel.args[arg].dtype, args[arg].data, {axes.batch, axes.rows, axes.columns});
  if (o.step[1] == -1 || o.step[2] != 1) return std::nullopt;
  return o;
}

}  // namespace

std::vector<Finish> match_finishes(const Kernel& kernel, std::span<const Binding> args, const ProductAxes& axes,
                                   const std::optional<std::vector<EpilogueOp>>& chain) {
  const size_t known = axes.batch.dims.size() + axes.rows.dims.size() + axes.columns.dims.size();
  if (!chain || known != kernel.space.size()) return {};
  const auto out = plain_matrix(kernel, kernel.stores[0].access, args, axes);
  if (!out) return {};
  std::vector<Finish> finishes(static_cast<size_t>(axes.batch.size()));
  const auto set = [&](Finish::Tensor Finish::*which, const Operand& o) {
    for (size_t batch = 0; batch < finishes.size(); ++batch)
      finishes[batch].*which = {const_cast<std::byte*>(o.at(static_cast<int64_t>(batch), 0, 0)), o.dtype, o.step[1]};
  };
  set(&Finish::out, *out);
  Finish all;  // what holds for all batches
  bool bias = false, residual = false;
  for (const EpilogueOp& op : *chain) {
    if (op.add >= 0) {
      const auto added = plain_matrix(kernel, kernel.accesses[static_cast<size_t>(op.add)], args, axes);
      if (!added || residual) return {};
      const bool per_column = added->step[1] == 0 || added->size(1) == 1;
      const bool first = all.activation == Activation::linear;  // the bias comes before the activation
      bool& taken = per_column && first && !bias ? bias : residual;
      set(&taken == &bias ? &Finish::bias : &Finish::residual, *added);
      taken = true;
      continue;
    }
    if (op.activation != Activation::clip) {
      const bool own = op.activation != Activation::linear && op.activation != Activation::leaky_relu;
      if (!own || all.activation != Activation::linear || residual) return {};
      all.activation = op.activation;
      continue;
    }
    if (&op != &chain->back()) return {};
    all.low = op.alpha, all.high = op.beta;
  }
  for (Finish& finish : finishes) finish.activation = all.activation, finish.low = all.low, finish.high = all.high;
  return finishes;
}

std::optional<Finish> match_finish(const Kernel& kernel, std::span<const Binding> args, const ProductAxes& axes,
                                   const std::optional<std::vector<EpilogueOp>>& chain) {
  if (axes.batch.size() != 1) return std::nullopt;
  const std::vector<Finish> finishes = match_finishes(kernel, args, axes, chain);
  return finishes.empty() ? std::nullopt : std::optional(finishes[0]);
}

}  // namespace npusim::cpu::product
#endif
