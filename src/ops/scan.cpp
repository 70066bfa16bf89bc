// Running sums and products along a dimension, and differences of neighbours.
#include <algorithm>

#include "base/error.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_scan(const OpCall& call) {
  TensorType type = *call.inputs[0];
  normalize_dim(call.integer("dim"), type.shape.size());
  if (const auto dtype = call.dtype("dtype"))
    type.dtype = *dtype;
  else if (!is_float(type.dtype))
    type.dtype = DType::i64;
  return {type};
}

template <Reduction reduction>
void lower_scan(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.inputs[0]->shape;
  RowKernel k(lowering, shape, one_dim(call.integer("dim"), shape.size()));
  const Ex x = converted(k.load_element(lowering.input(0)), call);
  k.store_element(lowering.output(0), k.scan(reduction, x));
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_log_scan(const OpCall& call) {
  normalize_dim(call.integer("dim"), call.inputs[0]->shape.size());
  return {*call.inputs[0]};
}

void lower_log_scan(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.inputs[0]->shape;
  RowKernel k(lowering, shape, one_dim(call.integer("dim"), shape.size()));
  const Ex x = k.load_element(lowering.input(0));
  k.store_element(lowering.output(0), k.scan(Reduction::sum, k.cast(x, std::max(x.type(), Scalar::f32))));
  k.done("logcumsumexp");
  for (Expr& e : lowering.calls.back().kernel.exprs)
    if (e.op == ExprOp::scan) e.integer = 1;
}

// What diff reads: prepend, self and append one after the other along a dimension.
struct Joined {
  std::vector<int> operands;
  std::vector<int64_t> begins;
  int64_t extent = 0;
};

Joined joined_of(const OpCall& call, size_t dim) {
  Joined joined;
  for (const char* name : {"prepend", "self", "append"}) {
    const int operand = call.tensor(name);
    if (operand < 0) continue;
    joined.operands.push_back(operand);
    joined.begins.push_back(joined.extent);
    joined.extent += call.inputs[static_cast<size_t>(operand)]->shape[dim];
  }
  return joined;
}

std::vector<TensorType> infer_diff(const OpCall& call) {
  TensorType type = call.type("self");
  if (type.shape.empty()) fail(ErrorKind::bad_input, "aten.diff: input needs at least one dimension");
  if (call.integer("n") < 0) fail(ErrorKind::bad_input, "aten.diff: order must not be negative");
  const auto dim = static_cast<size_t>(normalize_dim(call.integer("dim"), type.shape.size()));
  for (const TensorType* input : call.inputs) {
    if (!input) continue;
    Shape others = input->shape;
    if (others.size() == type.shape.size()) others[dim] = type.shape[dim];
    if (others != type.shape)
      fail(ErrorKind::bad_input, "aten.diff: {} does not extend {}", to_string(input->shape), to_string(type.shape));
    type.dtype = promote_types(type.dtype, input->dtype);
  }
  const int64_t extent = joined_of(call, dim).extent;
  type.shape[dim] = call.integer("n") == 0 ? type.shape[dim] : std::max<int64_t>(0, extent - call.integer("n"));
  return {type};
}

// Whose factors do not fit into 64 bits.
std::string refuse_diff(const OpCall& call) {
  constexpr int64_t most = 60;
  const int64_t order = call.integer("n");
  return order > most ? fmt::format("differences of order {}: at most {}", order, most) : "";
}

// The nth difference at i is Σ over m of (−1)^(n−m) · C(n, m) · x[i + m]; of booleans, the exclusive or of odd terms.
void lower_diff(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const Shape& shape = call.type("self").shape;
  const auto dim = static_cast<size_t>(normalize_dim(call.integer("dim"), shape.size()));
  if (element_count(call.outputs[0].shape) == 0) return;
  const int64_t order = call.integer("n");
  if (order == 0) return p.store(p.arg(0));
  const Joined joined = joined_of(call, dim);
  auto element = [&](int64_t ahead) {
    std::vector<Coord> at;
    for (size_t d = 0; d < shape.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
    Ex value;
    for (size_t part = 0; part < joined.operands.size(); ++part) {
      const int arg = k.read(joined.operands[part]);
      if (k.shape(arg)[dim] == 0) continue;
      at[dim] = k.dim(static_cast<int>(dim)) + (ahead - joined.begins[part]);
      const Ex x = k.load(arg, at);
      value = value.builder ? select(k.in_bounds(at[dim].affine, k.shape(arg)[dim]), x, value) : x;
    }
    return value;
  };
  const bool boolean = common_dtype(call) == DType::boolean;
  Ex sum;
  int64_t binomial = 1;
  for (int64_t m = order; m >= 0; --m) {
    const int64_t factor = (order - m) % 2 ? -binomial : binomial;
    binomial = binomial * m / (order - m + 1);
    if (boolean && factor % 2 == 0) continue;
    const Ex x = element(m);
    const Ex term = boolean || factor == 1 ? x : factor == -1 ? -x : x * factor;
    sum = !sum.builder ? term : boolean ? bit_xor(sum, term) : factor == -1 ? sum - x : sum + term;
  }
  p.store(sum);
}

constexpr OpRecord records[] = {
    in_memory(row_op("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", infer_scan,
                     lower_scan<Reduction::sum>),
              Memory::row_major),
    in_memory(row_op("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", infer_scan,
                     lower_scan<Reduction::product>),
              Memory::row_major),
    row_op("logcumsumexp(Tensor self, int dim) -> Tensor", infer_log_scan, lower_log_scan),
    {.schema = "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     .infer = infer_diff,
     .lower = lower_diff,
     .refuse = refuse_diff},
};

}  // namespace

std::span<const OpRecord> scan_ops() { return records; }

}  // namespace npusim
