// Matrix products of row groups, each with its own matrix, as experts use them: the groups' ends are data.
#include "base/error.h"
#include "ops/contract.h"
#include "ops/index.h"

namespace npusim {
namespace {

struct Operands {
  int input = 0, weight = 1, ends = 2;  // [rows, k], [groups, k, n], [groups]: where each group's rows end
};

std::vector<TensorType> infer_grouped(const OpCall& call) {
  constexpr Operands o;
  const TensorType *x = call.inputs[static_cast<size_t>(o.input)], *w = call.inputs[static_cast<size_t>(o.weight)];
  const TensorType* ends = call.inputs[static_cast<size_t>(o.ends)];
  const bool fits = x && w && ends && x->shape.size() == 2 && w->shape.size() == 3 && ends->shape.size() == 1 &&
                    x->shape[1] == w->shape[1] && ends->shape[0] == w->shape[0];
  if (!fits) fail(ErrorKind::bad_input, "{}: expected rows [s, k], matrices [g, k, n] and ends [g]", call.op->name());
  need_index(call, *ends);
  return {{x->dtype, {x->shape[0], w->shape[2]}}};
}

// Rows behind the last end are 0. A row's group is how many groups end at or before it.
void lower_grouped(const OpCall&, Lowering& lowering) {
  constexpr Operands o;
  const int64_t rows = lowering.type(o.input).shape[0], inner = lowering.type(o.weight).shape[1];
  const int64_t groups = lowering.type(o.weight).shape[0], columns = lowering.type(o.weight).shape[2];
  const int group = lowering.temporary({DType::i64, {rows}});
  {
    OpKernel k(lowering, {rows, groups}, 1);
    const Coord at[] = {k.dim(1)};
    const Ex passed = k.load(k.read(lowering.input(o.ends)), at) <= k.index(0);
    k.store(k.write(group), k.reduce(Reduction::sum, k.cast(passed, Scalar::i64)));
    k.done("group_of_row");
  }
  OpKernel k(lowering, {rows, columns, inner}, 1);
  const int x_arg = k.read(lowering.input(o.input)), w_arg = k.read(lowering.input(o.weight));
  const Coord row[] = {k.dim(0)}, x_at[] = {k.dim(0), k.dim(2)};
  const Ex g = k.load(k.read(group), row);
  const Coord w_at[] = {min(g, groups - 1), k.dim(2), k.dim(1)};
  const Ex sum = k.reduce(Reduction::sum, k.load(x_arg, x_at) * k.load(w_arg, w_at));
  k.store(k.write(lowering.output(0)), select(g < groups, sum, 0));
  k.done("grouped_matmul");
}

constexpr OpRecord records[] = {
    contraction("transformers.grouped_mm_fallback.default(Tensor input, Tensor weight, Tensor offs) -> Tensor",
                infer_grouped, lower_grouped),
};

}  // namespace

std::span<const OpRecord> grouped_matmul_ops() { return records; }

}  // namespace npusim
