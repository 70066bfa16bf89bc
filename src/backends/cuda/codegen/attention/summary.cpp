// Two kernels: of a mask, a line and a stage of keys at a time, and of keys and values.
#include "backends/cuda/codegen/attention/summary.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernel/fuse/simplify.h"

namespace npusim::cuda::codegen::attention {
namespace {

BoundKernel bound(const Kernel& kernel) {
  BoundKernel b{kernel, std::vector<int>(kernel.args.size())};
  std::iota(b.values.begin(), b.values.end(), 0);
  return b;
}

int32_t add(Kernel& k, ExprOp op, std::array<int32_t, 3> in, Scalar type = Scalar::f32,
            Reduction reduction = Reduction::max) {
  return add_expr(k, {.op = op, .type = type, .reduction = reduction, .in = in});
}
int32_t number(Kernel& k, double value) {
  return add_expr(k, {.op = ExprOp::constant, .type = Scalar::f32, .number = value});
}

// What is one of its own along the dimensions of the axes: the elements, and their steps.
int64_t set_steps(std::vector<int64_t>& steps, const Axis& axis, int64_t step) {
  for (size_t n = axis.dims.size(); n-- > 0;) {
    int64_t& of = steps[static_cast<size_t>(axis.dims[n])];
    if (of != 0) of = step, step *= axis.extents[n];
  }
  return step;
}

std::vector<int64_t> steps_of(const Attention& a, DimSet dims, int64_t step, bool of_rows) {
  std::vector<int64_t> steps(a.k.strides.size());
  for (size_t d = 0; d < steps.size(); ++d) steps[d] = (dims & dim_bit(d)) != 0;
  if (of_rows) step = set_steps(steps, a.axes.rows, step);
  set_steps(steps, a.axes.batch, step);
  steps.resize(static_cast<size_t>(a.axes.keys.dims[0]));
  return steps;
}

int64_t elements_of(const Kernel& kernel, const std::vector<int64_t>& steps, int64_t least) {
  int64_t elements = least;
  for (size_t d = 0; d < steps.size(); ++d) elements = std::max(elements, steps[d] * kernel.space[d]);
  return elements;
}

DimSet batch_of(const Attention& a, const Operand& o) {
  DimSet dims = 0;
  for (int d : a.axes.batch.dims)
    if (o.strides[static_cast<size_t>(d)] != 0) dims |= dim_bit(static_cast<size_t>(d));
  return dims;
}

// Of the arguments of a summary, in their order; none where there is none.
std::vector<Unfused::Scratch> scratch_of(const Kernel& kernel, const Attention& a, const AttentionShape& s,
                                         const MaskedScore& masked) {
  if (masked.most == 0 || kernel.contraction->score->keys >= 0 || a.keys % s.keys() != 0) return {};
  if (a.axes.depth.dims.size() != 1 || a.axes.depth.size() != a.columns || batch_of(a, a.k) != batch_of(a, a.v))
    return {};
  const int64_t stages = a.keys / s.keys(), pieces = a.keys / summary_keys;
  const int64_t states = elements_of(kernel, state_steps(in_order(a, masked.dims), masked.dims, stages), stages);
  const Unfused::Scratch tops{DType::f32, elements_of(kernel, top_steps(a), pieces)};
  return {{DType::i8, states}, tops, tops};
}

class Summarizer {
 public:
  Summarizer(const Kernel& outer, const Attention& attention, const AttentionShape& shape, MaskedScore masked)
      : outer_(outer), a_(attention), s_(shape), masked_(std::move(masked)) {
    result_.scratch = scratch_of(outer, attention, shape, masked_);
  }

  Unfused run() {
    if (result_.scratch.empty()) return {};
    result_.steps = {states(), tops()};
    for (BoundKernel& step : result_.steps) order_args(step), simplify(step);
    BoundKernel attention = bound(outer_);
    for (size_t n = 0; n < result_.scratch.size(); ++n) scratch(attention, n, false, {});
    order_args(attention);
    result_.steps.push_back(std::move(attention));
    return std::move(result_);
  }

 private:
  Access scratch(BoundKernel& b, size_t which, bool written, std::vector<int64_t> steps) const {
    b.kernel.args.push_back({result_.scratch[which].dtype, result_.scratch[which].elements, written, -1});
    b.values.push_back(static_cast<int>(outer_.args.size() + which));
    return {static_cast<int>(b.kernel.args.size()) - 1, 0, std::move(steps), {}, {}};
  }

  BoundKernel states() const {
    BoundKernel b = bound(masked_.kernel);
    Kernel& k = b.kernel;
    const size_t last = k.space.size() - 1;
    k.name = outer_.name + "_mask";
    k.contraction = nullptr;
    for (size_t d = 0; d < last; ++d)
      if ((masked_.dims & dim_bit(d)) == 0) k.space[d] = 1;
    for (const int32_t expr : {masked_.open, masked_.hidden})
      k.stores.push_back({{0, 0, std::vector<int64_t>(k.space.size()), {}, {}}, expr, false});
    split_dim(k, last, s_.keys());
    k.row_dims = 1;
    const int32_t zero = number(k, 0);
    const int32_t hidden = add(k, ExprOp::select, {k.stores[1].expr, number(k, 2), zero}),
                  state = add(k, ExprOp::select, {k.stores[0].expr, number(k, 1), hidden});
    const int32_t least = add(k, ExprOp::reduce, {state, -1, -1}, Scalar::f32, Reduction::min),
                  most = add(k, ExprOp::reduce, {state, -1, -1});
    const int32_t same = add(k, ExprOp::eq, {least, most, -1}, Scalar::boolean);
    const int32_t stored = add(k, ExprOp::cast, {add(k, ExprOp::select, {same, least, zero}), -1, -1}, Scalar::i64);
    std::vector<int64_t> steps = state_steps(in_order(a_, masked_.dims), masked_.dims, k.space[last]);
    steps.insert(steps.end(), {1, 0});
    k.stores = {{scratch(b, 0, true, std::move(steps)), stored, false}};
    return b;
  }

  // Over the batch, the pieces of the keys, and the keys and columns of one.
  BoundKernel tops() const {
    BoundKernel b = bound(outer_);
    Kernel& k = b.kernel;
    k.name = outer_.name + "_tops";
    k.contraction = nullptr;
    k.accesses.clear(), k.exprs.clear(), k.stores.clear(), k.space.clear();
    for (KernelArg& arg : k.args) arg.updates = -1;
    const DimSet batch = batch_of(a_, a_.k);
    const std::vector<int64_t> all = top_steps(a_);
    std::vector<int64_t> steps;
    for (size_t d = 0; d < all.size(); ++d)
      if ((batch & dim_bit(d)) != 0) k.space.push_back(outer_.space[d]), steps.push_back(all[d]);
    k.space.insert(k.space.end(), {a_.keys / summary_keys, summary_keys, a_.columns});
    k.row_dims = 2;
    steps.insert(steps.end(), {1, 0, 0});
    for (const bool is_key : {true, false}) {
      const Operand& o = is_key ? a_.k : a_.v;
      const auto stride = [&](const Axis& axis) { return o.strides[static_cast<size_t>(axis.dims[0])]; };
      const int64_t key = stride(is_key ? a_.axes.keys : a_.axes.value_keys);
      Access access{o.arg, o.offset, {}, {}, {}};
      for (size_t d = 0; d < all.size(); ++d)
        if ((batch & dim_bit(d)) != 0) access.strides.push_back(o.strides[d]);
      access.strides.insert(access.strides.end(),
                            {key * summary_keys, key, stride(is_key ? a_.axes.depth : a_.axes.columns)});
      Expr load{.op = ExprOp::load, .type = Scalar::f32};
      load.integer = static_cast<int64_t>(k.accesses.size());
      k.accesses.push_back(std::move(access));
      const int32_t size = add(k, ExprOp::abs, {add_expr(k, load), -1, -1});
      k.stores.push_back({scratch(b, is_key ? 1 : 2, true, steps), add(k, ExprOp::reduce, {size, -1, -1}), false});
    }
    return b;
  }

  const Kernel& outer_;
  const Attention& a_;
  const AttentionShape& s_;
  const MaskedScore masked_;
  Unfused result_;
};

}  // namespace

Attention in_order(const Attention& attention, DimSet masked) {
  Attention a = attention;
  Axis& rows = a.axes.rows;
  const Axis old = rows;
  rows.dims.clear(), rows.extents.clear();
  for (const bool first : {true, false})
    for (size_t n = 0; n < old.dims.size(); ++n)
      if (((masked & dim_bit(static_cast<size_t>(old.dims[n]))) != 0) == first)
        rows.dims.push_back(old.dims[n]), rows.extents.push_back(old.extents[n]);
  return a;
}

std::vector<int64_t> state_steps(const Attention& in_order, DimSet masked, int64_t stages) {
  return steps_of(in_order, masked, stages, true);
}

std::vector<int64_t> top_steps(const Attention& a) {
  return steps_of(a, batch_of(a, a.k), a.keys / summary_keys, false);
}

Unfused summarize_attention(const Kernel& kernel, const Attention& attention, const AttentionShape& shape) {
  std::optional<MaskedScore> masked = masked_score(kernel);
  return masked ? Summarizer(kernel, attention, shape, std::move(*masked)).run() : Unfused{};
}

std::optional<AttentionSummary> find_summary(const Kernel& kernel, const Attention& attention,
                                             const AttentionShape& shape) {
  const std::optional<MaskedScore> masked = masked_score(kernel);
  if (!masked) return std::nullopt;
  BoundKernel used = bound(kernel);
  simplify(used);
  std::vector<int> idle;
  for (int i = 0; i < static_cast<int>(kernel.args.size()); ++i)
    if (std::find(used.values.begin(), used.values.end(), i) == used.values.end()) idle.push_back(i);
  const std::vector<Unfused::Scratch> scratch = scratch_of(kernel, attention, shape, *masked);
  if (scratch.empty() || idle.size() != scratch.size()) return std::nullopt;
  for (size_t n = 0; n < idle.size(); ++n)
    if (const KernelArg& arg = kernel.args[static_cast<size_t>(idle[n])];
        arg.written || arg.dtype != scratch[n].dtype || arg.elements != scratch[n].elements)
      return std::nullopt;
  return AttentionSummary{idle[0], idle[1], idle[2]};
}

}  // namespace npusim::cuda::codegen::attention
