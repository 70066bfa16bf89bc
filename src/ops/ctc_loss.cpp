// The CTC loss: minus the log of what the paths add up to on which a target, with blanks between its labels, can lie
// over the time steps. One kernel a step.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t most_steps = 4096;

struct Ctc {
  int64_t steps, batch, labels;
  int64_t longest;                                    // labels of a target, at most
  bool batched;                                       // log_probs [steps, batch, labels], else [steps, labels]
  bool concatenated;                                  // targets [labels of all], else [batch, labels of one]
  int64_t states() const { return 2 * longest + 1; }  // of a target: blank, label, blank, label, …, blank
};

// input_lengths or target_lengths given as numbers.
std::optional<std::vector<int64_t>> numbers_of(const OpCall& call, std::string_view arg) {
  const auto at = static_cast<size_t>(call.op->schema.find(arg));
  if (call.op->schema.args[at].kind == ArgKind::tensor) return std::nullopt;
  return call.ints(arg);
}

void check_lengths(const OpCall& call, std::string_view arg, int64_t batch, int64_t most) {
  const auto numbers = numbers_of(call, arg);
  if (!numbers) need_index(call, call.type(arg));
  const int64_t count = numbers ? static_cast<int64_t>(numbers->size()) : element_count(call.type(arg).shape);
  if (count != batch)
    fail(ErrorKind::bad_input, "{}: expected {} {}, one of each of the batch, found {}", call.op->name(), batch, arg,
         count);
  if (!numbers) return;  // is seen when it runs
  for (const int64_t length : *numbers)
    if (length < 0 || length > most)
      fail(ErrorKind::bad_input, "{}: expected {} from 0 to {}, found {}", call.op->name(), arg, most, length);
}

Ctc ctc_of(const OpCall& call) {
  const TensorType &log_probs = call.type("log_probs"), &targets = call.type("targets");
  const Shape& shape = log_probs.shape;
  const bool batched = shape.size() == 3;
  if ((log_probs.dtype != DType::f32 && log_probs.dtype != DType::f64) || (shape.size() != 2 && !batched) ||
      element_count(shape) == 0)
    fail(ErrorKind::bad_input, "{}: expected log_probs [steps, batch, labels] of float32 or float64, found {}",
         call.op->name(), to_string(log_probs));
  Ctc c{shape[0], batched ? shape[1] : 1, shape.back(), 0, batched, targets.shape.size() == 1};
  need_index(call, targets);
  if (!c.concatenated && (targets.shape.size() != 2 || targets.shape[0] != c.batch))
    fail(ErrorKind::bad_input, "{}: expected targets [labels of all] or [{}, labels], found {}", call.op->name(),
         c.batch, to_string(targets));
  const int64_t blank = call.integer("blank");
  if (blank < 0 || blank >= c.labels)
    fail(ErrorKind::bad_input, "{}: expected a blank from 0 to {}, found {}", call.op->name(), c.labels - 1, blank);
  check_lengths(call, "input_lengths", c.batch, c.steps);
  check_lengths(call, "target_lengths", c.batch, targets.shape.back());
  c.longest = targets.shape.back();
  if (const auto lengths = numbers_of(call, "target_lengths")) {
    c.longest = *std::max_element(lengths->begin(), lengths->end());
    const int64_t all = std::accumulate(lengths->begin(), lengths->end(), int64_t{0});
    if (c.concatenated && all != targets.shape[0])
      fail(ErrorKind::bad_input, "{}: expected {} targets, as many as the lengths say, found {}", call.op->name(), all,
           targets.shape[0]);
  }
  return c;
}

bool is_reduced(const OpCall& call) {
  return call.op->schema.find("reduction") >= 0 && (call.integer("reduction") == 1 || call.integer("reduction") == 2);
}

std::vector<TensorType> infer_loss(const OpCall& call) {
  const Ctc c = ctc_of(call);
  return {{call.type("log_probs").dtype, is_reduced(call) || !c.batched ? Shape{} : Shape{c.batch}}};
}

std::vector<TensorType> infer_loss_and_states(const OpCall& call) {
  const Ctc c = ctc_of(call);
  const DType dtype = call.type("log_probs").dtype;
  if (!c.batched)
    fail(ErrorKind::bad_input, "{}: expected log_probs [steps, batch, labels], found {}", call.op->name(),
         to_string(call.type("log_probs")));
  return {{dtype, {c.batch}}, {dtype, {c.batch, c.steps, c.states()}}};
}

std::string refuse_ctc(const OpCall& call) {
  const int64_t steps = ctc_of(call).steps;
  return steps > most_steps ? fmt::format("{} unrolled steps are too many (at most {})", steps, most_steps) : "";
}

// The loss being lowered: vectors of the batch, and the states' labels [batch, states].
struct Parts {
  Ctc c;
  int log_probs;                // [steps, batch, labels]
  int input_lengths;            // [batch]
  int target_lengths;           // [batch]
  int labels = -1, skips = -1;  // [batch, states]
};
constexpr int64_t behind_none = 2;  // states of −∞ that stand before the first

Ex of_batch(OpKernel& k, int vector) {
  const Coord at[] = {k.dim(0)};
  return k.load(k.read(vector), at);
}

int lower_lengths(Lowering& lowering, const Ctc& c, std::string_view arg) {
  const int lengths = lowering.temporary({DType::i64, {c.batch}});
  const auto numbers = numbers_of(lowering.call, arg);
  if (!numbers) {
    lower_flat(lowering, "lengths", lowering.input(lowering.call.tensor(arg)), lengths);
    return lengths;
  }
  OpKernel k(lowering, {c.batch});
  Ex length = k.integer(0);
  for (int64_t n = 0; n < c.batch; ++n) length = select(k.index(0) == n, (*numbers)[static_cast<size_t>(n)], length);
  k.store(k.write(lengths), length);
  k.done("lengths");
  return lengths;
}

// Where the target of each of the batch begins among the concatenated ones.
int lower_begins(Lowering& lowering, const Parts& p, int64_t all) {
  const int begins = lowering.temporary({DType::i64, {p.c.batch}});
  OpKernel k(lowering, {p.c.batch}, 1);
  const Ex length = of_batch(k, p.target_lengths);
  const Ex fits = require(k.reduce(Reduction::sum, length) == all, Requirement::lengths);
  k.store(k.write(begins), select(fits, k.scan(Reduction::sum, length) - length, 0));
  k.done("target_begins");
  return begins;
}

int lower_labels(Lowering& lowering, const Parts& p) {
  const int targets = lowering.input(lowering.call.tensor("targets"));
  const int begins = p.c.concatenated ? lower_begins(lowering, p, lowering.type(targets).shape[0]) : -1;
  const int labels = lowering.temporary({DType::i64, {p.c.batch, p.c.states()}});
  OpKernel k(lowering, {p.c.batch, p.c.states()});
  Ex label = k.integer(lowering.call.integer("blank"));
  if (p.c.longest > 0) {
    const int from = k.read(targets);
    const Ex position = shr(k.index(1), k.integer(1));
    const Ex inside = bit_and(k.index(1), k.integer(1)) == 1 && position < of_batch(k, p.target_lengths);
    std::vector<Coord> at;
    if (begins < 0) at.emplace_back(k.dim(0));
    at.emplace_back(select(inside, begins < 0 ? position : of_batch(k, begins) + position, 0));
    label = select(inside, k.load(from, at), label);
  }
  k.store(k.write(labels), label);
  k.done("ctc_labels");
  return labels;
}

// log(Σ exp(terms)); of −infinities that.
Ex log_sum(std::initializer_list<Ex> terms) {
  Ex top = *terms.begin();
  for (const Ex* x = terms.begin() + 1; x != terms.end(); ++x) top = max(top, *x);
  const Ex shift = select(top == -infinity, 0.0, top);
  Ex sum;
  for (const Ex x : terms) sum = sum.builder ? sum + exp(x - shift) : exp(x - shift);
  return log(sum) + shift;
}

// The values after a step of something that kernels update: each version keeps what the one before it stored.
struct Kept {
  int now = -1, last = -1;  // operands: as it is, and of the final update
};

// Whether the state two before leads to one too: from a label to another one, over no blank.
int lower_skips(Lowering& lowering, const Parts& p) {
  const Shape space{p.c.batch, p.c.states()};
  const int skips = lowering.temporary({DType::boolean, space});
  OpKernel k(lowering, space);
  const int labels = k.read(p.labels);
  auto label = [&](int64_t back) {
    const Coord at[] = {k.dim(0), k.dim(1) + -back};
    return k.load(labels, at);
  };
  k.store(k.write(skips), k.in_bounds(k.dim(1) + -2, p.c.states()) && label(2) != label(0));
  k.done("ctc_skips");
  return skips;
}

// [batch, behind_none + states] of −∞.
int lower_no_paths(Lowering& lowering, const Parts& p) {
  const TensorType type{lowering.type(p.log_probs).dtype, {p.c.batch, behind_none + p.c.states()}};
  const int states = lowering.temporary(type);
  OpKernel k(lowering, type.shape);
  k.store(k.write(states), k.number(-infinity, scalar_of(type.dtype)));
  k.done("ctc_no_paths");
  return states;
}

// By state, the log of all paths to it in steps 0 … t, behind two of −∞ that are before the first; `before` is that of
// the step before, `older` a version nobody reads any more. What was stored is also kept in `all` [batch, steps,
// states].
int lower_step(Lowering& lowering, const Parts& p, int64_t t, int before, int older, Kept& all) {
  const int after = lowering.temporary(lowering.type(older));
  OpKernel k(lowering, {p.c.batch, p.c.states()});
  const Ex length = of_batch(k, p.input_lengths), s = k.index(1);
  const Coord here[] = {k.dim(0), k.dim(1)};
  std::vector<Coord> at{t, k.dim(0), k.load(k.read(p.labels), here)};
  if (!p.c.batched) at.erase(at.begin() + 1);
  const Ex gain = k.load(k.read(p.log_probs), at);
  Ex x;
  if (t == 0) {
    x = select(s == 0 || (s == 1 && of_batch(k, p.target_lengths) > 0), gain, -infinity);
  } else {
    const int from = k.read(before);
    auto state = [&](int64_t back) {
      const Coord position[] = {k.dim(0), k.dim(1) + (behind_none - back)};
      return k.load(from, position);
    };
    const Ex same = state(0), skips = k.load(k.read(p.skips), here);
    const Ex sum = log_sum({same, state(1), select(skips, state(2), -infinity)}) + gain;
    x = select(k.integer(t) < length, sum, same);
  }
  const Coord position[] = {k.dim(0), k.dim(1) + behind_none};
  const int updated = k.read(older), kept = all.now < 0 ? -1 : k.read(all.now);
  k.store(k.write(after, updated), position, x);
  if (all.last >= 0) {
    all.now = t + 1 == p.c.steps ? all.last : lowering.temporary(lowering.type(all.last));
    const Coord to[] = {k.dim(0), t, k.dim(1)};
    k.store(k.write(all.now, kept), to, x);
  }
  k.done("ctc_step");
  return after;
}

// Of each of the batch: the paths that end in the last label or the blank behind it; infinite where there is none.
Ex loss_of(OpKernel& k, const Parts& p, int states) {
  const Ex steps = of_batch(k, p.input_lengths), length = of_batch(k, p.target_lengths);
  const Ex fits =
      require(steps >= 0 && steps <= p.c.steps && length >= 0 && length <= p.c.longest, Requirement::lengths);
  const int from = k.read(states);
  auto state = [&](Ex at) {
    const Coord position[] = {k.dim(0), select(fits, at, 0) + behind_none};
    return k.load(from, position);
  };
  const Ex blank = state(length * 2), label = state(max(length * 2 - 1, 0));
  const Ex paths = select(length == 0, blank, log_sum({blank, label}));
  return select(steps == 0, select(length == 0, 0.0, k.number(infinity, paths.type())), -paths);
}

void lower_ctc(const OpCall& call, Lowering& lowering) {
  const Ctc c = ctc_of(call);
  Parts p{c, lowering.input(call.tensor("log_probs")), lower_lengths(lowering, c, "input_lengths"),
          lower_lengths(lowering, c, "target_lengths")};
  p.labels = lower_labels(lowering, p);
  p.skips = lower_skips(lowering, p);
  Kept all{-1, call.outputs.size() == 2 ? lowering.output(1) : -1};
  // Each step stores over the states before the last: what is updated is stored as it is declared, and 16 bits would
  // not hold a sum over all steps.
  int older = lower_no_paths(lowering, p), before = lower_no_paths(lowering, p);
  for (int64_t t = 0; t < c.steps; ++t) {
    const int after = lower_step(lowering, p, t, before, older, all);
    older = before;
    before = after;
  }
  const bool reduced = is_reduced(call);
  OpKernel k(lowering, {c.batch}, reduced ? 1 : 0);
  Ex loss = loss_of(k, p, before);
  if (call.op->schema.find("reduction") >= 0) {  // else zero_infinity is the gradient's
    if (call.boolean("zero_infinity")) loss = select(loss == infinity, 0.0, loss);
    if (call.integer("reduction") == 1) loss = loss / k.cast(max(of_batch(k, p.target_lengths), 1), loss.type());
    if (reduced) loss = k.reduce(Reduction::sum, loss);
    if (call.integer("reduction") == 1) loss = loss / c.batch;
  }
  k.store(k.write(lowering.output(0)), loss);
  k.done("ctc_loss");
}

constexpr OpRecord ctc(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&)) {
  OpRecord record = indexed(schema, infer, lower_ctc);
  record.refuse = refuse_ctc;
  record.tolerance = 32;
  return record;
}

constexpr OpRecord records[] = {
    ctc("ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
        "int reduction=1, bool zero_infinity=False) -> Tensor",
        infer_loss),
    ctc("ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, "
        "int reduction=1, bool zero_infinity=False) -> Tensor",
        infer_loss),
    ctc("_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
        "bool zero_infinity=False) -> (Tensor, Tensor)",
        infer_loss_and_states),
};

}  // namespace

std::span<const OpRecord> ctc_loss_ops() { return records; }

}  // namespace npusim
