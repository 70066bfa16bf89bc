// Matrix products of row groups, each with its own matrix, as experts use them: the groups' ends are data.
#include "base/error.h"
#include "ops/contract.h"
#include "ops/index.h"

namespace npusim {
namespace {

// With ends [g], one dimension is that of all groups' rows (or columns, or summed indices) in order, and where the
// groups end is data. Of x and w, by their ranks:
enum class Form : uint8_t {
  rows,     // [s, k], [g, k, n] -> [s, n]
  columns,  // [g, m, k], [k, s] -> [m, s]
  summed,   // [m, s], [s, n] -> [g, m, n]
  batches,  // [g, m, k], [g, k, n] -> [g, m, n]: no ends, a product of batches
};

struct Grouped {
  Form form;
  int x = 0, w = 1, ends = 2;  // operands; without ends -1
  int64_t groups, rows, inner, columns;
};

Grouped grouped_of(const OpCall& call) {
  Grouped g{};
  const TensorType *x = call.inputs[0], *w = call.inputs[1];
  g.ends = call.tensor("offs");
  const TensorType* ends = g.ends >= 0 ? call.inputs[static_cast<size_t>(g.ends)] : nullptr;
  const auto is = [&](size_t x_rank, size_t w_rank) {
    return x->shape.size() == x_rank && w->shape.size() == w_rank && x->shape.back() == w->shape[w_rank - 2];
  };
  if (is(2, 3))
    g.form = Form::rows;
  else if (is(3, 2))
    g.form = Form::columns;
  else if (is(2, 2))
    g.form = Form::summed;
  else if (is(3, 3) && x->shape[0] == w->shape[0])
    g.form = Form::batches;
  else
    fail(ErrorKind::bad_input, "{}: operands {} and {} do not fit", call.op->name(), to_string(*x), to_string(*w));
  if ((g.form == Form::batches) != !ends || (ends && ends->shape.size() != 1))
    fail(ErrorKind::bad_input, "{}: expected ends [g] unless both operands have groups", call.op->name());
  if (ends) need_index(call, *ends);
  g.groups = ends ? ends->shape[0] : x->shape[0];
  for (const TensorType* operand : {x, w})
    if (operand->shape.size() == 3 && operand->shape[0] != g.groups)
      fail(ErrorKind::bad_input, "{}: {} ends for {} groups", call.op->name(), g.groups, operand->shape[0]);
  g.rows = x->shape[x->shape.size() - 2];
  g.inner = x->shape.back();
  g.columns = w->shape.back();
  return g;
}

std::vector<TensorType> infer_grouped(const OpCall& call) {
  const Grouped g = grouped_of(call);
  Shape shape{g.rows, g.columns};
  if (g.form == Form::summed || g.form == Form::batches) shape.insert(shape.begin(), g.groups);
  return {{call.inputs[0]->dtype, shape}};
}

// The group of each of `count` positions: how many groups end at or before it.
int lower_groups(Lowering& lowering, const Grouped& g, int64_t count) {
  const int group = lowering.temporary({DType::i64, {count}});
  OpKernel k(lowering, {count, g.groups}, 1);
  const Coord at[] = {k.dim(1)};
  const Ex passed = k.load(k.read(lowering.input(g.ends)), at) <= k.index(0);
  k.store(k.write(group), k.reduce(Reduction::sum, k.cast(passed, Scalar::i64)));
  k.done("group_of_position");
  return group;
}

// What lies behind the last end is 0, and in no sum.
void lower_grouped(const OpCall& call, Lowering& lowering) {
  const Grouped g = grouped_of(call);
  if (g.form == Form::batches)
    return lower_matmul(lowering, "grouped_matmul", {.a = g.x, .b = g.w, .result = lowering.output(0)});
  const bool summed = g.form == Form::summed;
  const int group = lower_groups(lowering, g, summed ? g.inner : g.form == Form::rows ? g.rows : g.columns);
  OpKernel k(lowering, summed ? Shape{g.groups, g.rows, g.columns, g.inner} : Shape{g.rows, g.columns, g.inner}, 1);
  const Affine m = k.dim(summed), n = k.dim(1 + summed), s = k.dim(2 + summed);
  const int x_arg = k.read(lowering.input(g.x)), w_arg = k.read(lowering.input(g.w));
  const Coord position[] = {summed ? s : g.form == Form::rows ? m : n};
  const Ex at = k.load(k.read(group), position);
  const Ex inside = min(at, g.groups - 1);
  std::vector<Coord> x_at{m, s}, w_at{s, n};
  if (g.form == Form::rows) w_at.insert(w_at.begin(), inside);
  if (g.form == Form::columns) x_at.insert(x_at.begin(), inside);
  Ex product = k.load(x_arg, x_at) * k.load(w_arg, w_at);
  if (summed) product = select(at == k.index(0), product, 0);
  const Ex sum = k.reduce(Reduction::sum, product);
  k.store(k.write(lowering.output(0)), summed ? sum : select(at < g.groups, sum, 0));
  k.done("grouped_matmul");
}

std::string refuse_grouped(const OpCall& call) { return call.tensor("bias") >= 0 ? "a bias has no kernel" : ""; }

constexpr OpRecord grouped_mm(std::string_view schema) {
  OpRecord record = contraction(schema, infer_grouped, lower_grouped);
  record.refuse = refuse_grouped;
  return record;
}

constexpr OpRecord records[] = {
    contraction("transformers.grouped_mm_fallback.default(Tensor input, Tensor weight, Tensor offs) -> Tensor",
                infer_grouped, lower_grouped),
    grouped_mm("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
               "ScalarType? out_dtype=None) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> grouped_matmul_ops() { return records; }

}  // namespace npusim
