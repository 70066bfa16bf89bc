// matmul → scale, mask → softmax → matmul becomes one attention kernel, which also gives the log of the sum of a row's
// exponentials where that is asked for; shared keys and values are never expanded.
#include <algorithm>
#include <numeric>

#include "kernel/facts/match_expr.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/fuse/simplify.h"
#include "kernel/fuse/substitute.h"
#include "passes/fuser.h"
#include "passes/recognize.h"

namespace npusim {
namespace {

bool is_matmul(const Kernel& k) { return k.contraction && k.contraction->kind == ContractionKind::matmul; }

// The pointwise part of a softmax kernel, up to its argument x: a kernel that stores x where the softmax is stored.
BoundKernel score_tail(const BoundKernel& softmax, int32_t x, int value) {
  BoundKernel tail = softmax;
  tail.kernel.row_dims = 0;
  tail.kernel.stores.resize(1);
  tail.kernel.stores[0].expr = x;
  const auto arg = static_cast<size_t>(tail.kernel.stores[0].access.arg);
  tail.kernel.args[arg].dtype = DType::f32;
  tail.values[arg] = value;
  simplify(tail);
  return tail;
}

// `kernel`'s space in the order of its one store, which is dense; the extents in that order.
void order_by_store(Kernel& kernel) {
  std::vector<size_t> order(kernel.space.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  const Access& store = kernel.stores[0].access;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return store.strides[a] > store.strides[b]; });
  permute_dims(kernel, order);
}

class AttentionBuilder {
 public:
  // `row_stride`: between neighbours along the softmax's row, in the buffer of its result `weights`.
  AttentionBuilder(const BoundKernel& score, const BoundKernel& product, int weights, int64_t row_stride,
                   const FuseOptions& options)
      : score_(score), product_(product), weights_(weights), row_stride_(row_stride), options_(options) {}

  std::optional<BoundKernel> build(bool safe) {
    const Contraction& c = *product_.kernel.contraction;
    if (c.reduce.size() != 1) return std::nullopt;
    const bool first = product_.values[static_cast<size_t>(c.a.arg)] == weights_;
    const bool second = product_.values[static_cast<size_t>(c.b.arg)] == weights_;
    if (first == second) return std::nullopt;
    const Access weights = first ? c.a : c.b;
    Access values = first ? c.b : c.a;
    if (!weights.guards.empty() || weights.offset != 0) return std::nullopt;
    // The softmax must run along the keys, which the product sums over: the same stride in the weights' buffer.
    if (weights.strides.back() != row_stride_) return std::nullopt;
    // Exactly one dimension the softmax weights do not depend on: the values' own.
    const size_t rank = product_.kernel.space.size();
    size_t column = rank;
    for (size_t d = 0; d < rank; ++d) {
      if (weights.strides[d] != 0) continue;
      if (column != rank) return std::nullopt;
      column = d;
    }
    if (column == rank) return std::nullopt;
    std::vector<size_t> order;
    for (size_t d = 0; d < rank; ++d)
      if (d != column) order.push_back(d);
    order.push_back(column);

    // A copy from the weights' layout into the product's order of indices; appended to the score it leaves the score
    // over the product's own (possibly split) dimensions.
    BoundKernel reorder;
    Kernel& k = reorder.kernel;
    Access load;
    load.arg = 0;
    for (size_t d : order)
      if (d != column) {
        k.space.push_back(product_.kernel.space[d]);
        load.strides.push_back(weights.strides[d]);
      }
    k.space.push_back(c.reduce[0]);
    load.strides.push_back(weights.strides[rank]);
    int64_t elements = 1;
    for (int64_t n : k.space) elements *= n;
    Access store;
    store.arg = 1;
    store.strides = row_major_strides(k.space);
    k.args = {{DType::f32, elements, false, -1}, {DType::f32, elements, true, -1}};
    k.accesses = {load};
    k.exprs = {{.op = ExprOp::load, .type = Scalar::f32}};
    k.stores = {{store, 0, false}};
    reorder.values = {score_value_, result_value_};
    auto score = append_consumer(score_, reorder, score_value_, false, options_);
    if (!score || score->kernel.stores.size() != 1) return std::nullopt;
    order_by_store(score->kernel);
    if (score->kernel.space.empty() || score->kernel.space.back() != c.reduce[0]) return std::nullopt;

    // Split the product's leading dimensions as the score's are.
    BoundKernel out = product_;
    permute_dims(out.kernel, order);
    for (size_t d = 0; d + 1 < score->kernel.space.size(); ++d) {
      if (d + 1 >= out.kernel.space.size()) return std::nullopt;
      const int64_t have = out.kernel.space[d], want = score->kernel.space[d];
      if (have == want) continue;
      if (have % want != 0) return std::nullopt;
      split_dim(out.kernel, d, have / want);
    }
    if (out.kernel.space.size() != score->kernel.space.size()) return std::nullopt;
    return assemble(std::move(out), std::move(*score), first, safe);
  }

  static constexpr int score_value_ = -2;  // names no value of the graph
  static constexpr int result_value_ = -3;

 private:
  std::optional<BoundKernel> assemble(BoundKernel out, BoundKernel score, bool weights_first, bool safe) {
    auto attention = std::make_shared<Contraction>();
    attention->kind = ContractionKind::attention;
    attention->reduce = out.kernel.contraction->reduce;
    attention->b = weights_first ? out.kernel.contraction->b : out.kernel.contraction->a;
    attention->masked_rows_are_zero = safe;
    // The score's arguments become the outer kernel's.
    std::vector<int> rename(score.values.size(), -1);
    for (size_t i = 0; i < score.values.size(); ++i) {
      if (score.kernel.args[i].written) continue;
      for (size_t j = 0; j < out.values.size(); ++j)
        if (out.values[j] == score.values[i] && !out.kernel.args[j].written) rename[i] = static_cast<int>(j);
      if (rename[i] >= 0) continue;
      rename[i] = static_cast<int>(out.values.size());
      out.values.push_back(score.values[i]);
      out.kernel.args.push_back(score.kernel.args[i]);
    }
    auto inner = std::make_shared<Score>(to_score(score.kernel));
    for (Access& a : inner->accesses) a.arg = rename[static_cast<size_t>(a.arg)];
    for (Access* a : {&inner->a, &inner->b}) a->arg = rename[static_cast<size_t>(a->arg)];
    attention->score = std::move(inner);
    out.kernel.contraction = attention;
    order_args(out);
    simplify(out);
    // The epilogue may read the weights too: they have to be there then.
    if (find_arg(out, weights_, false) >= 0) return std::nullopt;
    out.kernel.name = "attention";
    return out;
  }

  BoundKernel score_;
  const BoundKernel& product_;
  int weights_;
  int64_t row_stride_;
  FuseOptions options_;
};

// The strides of a product's space, of which `weights` reads what `softmax` stores, at what is stored by `rows` once
// for each of the softmax's rows. nullopt unless the product visits every row.
std::optional<std::vector<int64_t>> strides_of_rows(const Kernel& softmax, const Access& rows, const Kernel& product,
                                                    const Access& weights) {
  const Access& stored = softmax.stores[0].access;
  std::vector<int64_t> strides(product.space.size(), 0), visited(softmax.space.size() - 1, 1);
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weights.strides[a] < weights.strides[b]; });
  for (size_t d : order) {
    const int64_t step = weights.strides[d];
    if (step == 0 || product.space[d] == 1) continue;
    size_t row = 0;  // the dimension of the softmax's space that this one walks along
    while (row < visited.size() && (visited[row] == softmax.space[row] || step != stored.strides[row] * visited[row]))
      ++row;
    if (row == visited.size()) return std::nullopt;
    strides[d] = rows.strides[row] * visited[row];
    visited[row] *= product.space[d];
  }
  if (!std::equal(visited.begin(), visited.end(), softmax.space.begin())) return std::nullopt;
  return strides;
}

bool is_plain(const Access& a) { return a.offset == 0 && a.guards.empty() && a.terms.empty(); }

// Whether `log` stores log Σ exp(x) of the rows of which `softmax`, which stores one thing, is the softmax: x is what
// both read of a value, `x_of_softmax` there.
bool is_log_of(const BoundKernel& log, const BoundKernel& softmax, int32_t x_of_softmax) {
  const Kernel &k = log.kernel, &other = softmax.kernel;
  if (k.contraction || k.row_dims != 1 || k.space != other.space || k.stores.size() != 1 || k.stores[0].accumulate)
    return false;
  const Access& stored = k.stores[0].access;
  if (!is_plain(stored) || stored.strides.back() != 0 || k.args[static_cast<size_t>(stored.arg)].updates >= 0)
    return false;
  if (!is_plain(other.stores[0].access) || other.stores[0].accumulate) return false;
  const ExprMatcher mine{k}, its{other};
  const int32_t x = log_sum_exp_argument(k, k.stores[0].expr);
  if (x < 0) return false;
  const int32_t a = mine.uncast(x), b = its.uncast(x_of_softmax);
  if (!mine.is(a, ExprOp::load) || !its.is(b, ExprOp::load)) return false;
  Access of_a = k.accesses[static_cast<size_t>(mine.at(a).integer)];
  const Access& of_b = other.accesses[static_cast<size_t>(its.at(b).integer)];
  if (log.values[static_cast<size_t>(of_a.arg)] != softmax.values[static_cast<size_t>(of_b.arg)]) return false;
  of_a.arg = of_b.arg;
  return of_a == of_b;
}

// The product of a softmax's weights and values that also stores what `log` does, as its contraction's second value.
std::optional<BoundKernel> with_log(const BoundKernel& product, const BoundKernel& softmax, int weights,
                                    const BoundKernel& log) {
  BoundKernel both = product;
  Kernel& k = both.kernel;
  const Contraction& c = *k.contraction;
  const Access& read = both.values[static_cast<size_t>(c.a.arg)] == weights ? c.a : c.b;
  Access to = log.kernel.stores[0].access;
  auto strides = strides_of_rows(softmax.kernel, to, k, read);
  if (!strides) return std::nullopt;
  const auto written = static_cast<size_t>(to.arg);
  to.arg = static_cast<int>(k.args.size());
  to.strides = std::move(*strides);
  k.args.push_back(log.kernel.args[written]);
  both.values.push_back(log.values[written]);
  Expr second{.op = ExprOp::contraction, .type = Scalar::f32};
  second.integer = 1;
  k.exprs.push_back(second);
  k.stores.push_back({std::move(to), static_cast<int32_t>(k.exprs.size()) - 1, false});
  return both;
}

// The one reader of scores beside the softmax, where there is one: it may be gone with them if an attention does its
// work.
std::optional<size_t> other_reader(Fuser& f, int scores, size_t softmax) {
  for (size_t reader : f.readers(scores))
    if (reader != softmax) return reader;
  return std::nullopt;
}

}  // namespace

void fuse_attention(Graph& graph, PassContext& context) {
  if (!context.enabled("attention")) return;
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction || f.kernel(n).row_dims != 1) continue;
    // The softmax takes up what is pointwise behind it (casts) before it is matched.
    for (bool grown = true; grown;) {
      grown = false;
      const auto written = f.writes(n);
      if (written.size() != 1) break;
      const auto readers = f.readers(written[0]);
      if (readers.size() != 1 || f.is_output(written[0]) || !is_copy_or_cast(f.kernel(readers[0]))) break;
      if (!f.inline_into(n, readers[0], written[0], true)) break;
      n = readers[0];
      grown = true;
    }
    const auto written = f.writes(n);
    if (written.size() != 1 || f.kernel(n).stores.size() != 1) continue;
    const auto readers = f.readers(written[0]);
    if (readers.size() != 1 || f.is_output(written[0]) || !is_matmul(f.kernel(readers[0]))) continue;
    bool safe = false;
    // Attention keeps its weights, numbers from 0 to 1, as precise as it sums them, though the model may cast them.
    int32_t weights = f.kernel(n).stores[0].expr;
    if (const Expr& e = f.kernel(n).exprs[static_cast<size_t>(weights)]; e.op == ExprOp::round_to && !context.strict)
      weights = e.in[0];
    const int32_t x = softmax_argument(f.kernel(n), weights, safe);
    if (x < 0) continue;
    const Access& stored = f.kernel(n).stores[0].access;
    // Strict numerics round the weights to their own dtype, which attention keeps in float32.
    if (context.strict && f.kernel(n).args[static_cast<size_t>(stored.arg)].dtype != DType::f32) continue;
    const int64_t row_stride = stored.strides.back();
    const BoundKernel tail = score_tail(f.at(n), x, AttentionBuilder::score_value_);
    for (int value : f.reads(n)) {
      const int p = f.producer(value);
      if (p < 0 || !is_matmul(f.kernel(static_cast<size_t>(p))) || f.is_output(value) ||
          f.device(static_cast<size_t>(p)) != f.device(n) || f.device(n) != f.device(readers[0]))
        continue;
      const std::optional<size_t> log = other_reader(f, value, n);
      if (log && (f.readers(value).size() > 2 || f.device(*log) != f.device(n) || !f.can_move_to(*log, readers[0]) ||
                  !is_log_of(f.at(*log), f.at(n), x)))
        continue;
      const auto product =
          log ? with_log(f.at(readers[0]), f.at(n), written[0], f.at(*log)) : std::optional(f.at(readers[0]));
      if (!product) continue;
      auto score = append_consumer(f.at(static_cast<size_t>(p)), tail, value, false, f.options);
      if (!score) continue;
      auto attention = AttentionBuilder(*score, *product, written[0], row_stride, f.options).build(safe);
      if (!attention || !f.allowed(*attention, f.device(n))) continue;
      f.replace(readers[0], std::move(*attention));
      f.remove(n, readers[0]);
      if (log) f.remove(*log, readers[0]);
      f.remove(static_cast<size_t>(p), readers[0]);
      break;
    }
  }
  f.finish();
}

}  // namespace npusim
