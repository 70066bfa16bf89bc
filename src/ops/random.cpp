// Tensors of random numbers: uniform, normal, exponential, integers, coins, permutations and choices.
#include <cmath>

#include "base/error.h"
#include "kernel/search.h"
#include "ops/formula.h"
#include "ops/order.h"
#include "ops/philox.h"
#include "ops/view.h"

namespace npusim {
namespace {

constexpr OpRecord random(std::string_view schema, void (*lower)(const OpCall&, Lowering&),
                          std::vector<TensorType> (*infer)(const OpCall&),
                          std::string (*refuse)(const OpCall&) = nullptr, Memory memory = Memory::row_major) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::create;
  record.infer = infer;
  record.lower = lower;
  record.refuse = refuse;
  record.memory = memory;
  record.draws = [](const OpCall&) { return true; };
  return record;
}

// The dtype asked for; ATen's own default is the number of int64.
DType asked_dtype(const OpCall& call, DType absent) {
  if (call.op->schema.find("dtype") < 0 || std::holds_alternative<int64_t>(call.attr("dtype"))) return absent;
  return call.dtype("dtype").value_or(absent);
}

// `size` where the schema has it, else self's.
std::vector<TensorType> infer_drawn(const OpCall& call) {
  const Schema& schema = call.op->schema;
  const bool like = schema.find("self") >= 0, whole = schema.find("high") >= 0;
  TensorType type = like ? call.type("self") : TensorType{whole ? DType::i64 : DType::f32, {}};
  if (!like) type.shape = call.ints("size");
  type.dtype = asked_dtype(call, type.dtype);
  for (int64_t extent : type.shape)
    if (extent < 0) fail(ErrorKind::bad_input, "{}: negative size {}", call.op->name(), to_string(type.shape));
  return {type};
}

DType drawn_dtype(const OpCall& call) {
  return call.outputs.empty() ? infer_drawn(call)[0].dtype : call.outputs[0].dtype;
}

std::string refuse_whole(const OpCall& call) {
  return is_float(drawn_dtype(call)) ? "" : fmt::format("draws no {}", dtype_name(drawn_dtype(call)));
}

double number_or(const OpCall& call, std::string_view arg, double absent) {
  return call.op->schema.find(arg) < 0 ? absent : call.number(arg);
}

// A result's kernel over all its elements: draw, store.
template <typename Meaning>
void lower_drawn(const OpCall& call, Lowering& lowering, const Meaning& meaning) {
  OpKernel k(lowering, call.outputs[0].shape);
  const Ex x = meaning(k, draw(k, lowering));
  k.store(k.write(lowering.output(0)), x);
  k.done(kernel_name(call));
}

// from <= x < to: 1, the end of what is drawn, becomes 0, and so does what is rounded to `to`.
void lower_uniform(const OpCall& call, Lowering& lowering) {
  const DType dtype = call.outputs[0].dtype;
  const double from = number_or(call, "from", 0), to = number_or(call, "to", 1);
  lower_drawn(call, lowering, [&](OpKernel& k, const Draw& drawn) {
    const Scalar type = drawn_type(dtype);
    Ex x = drawn.uniform(type);
    if (to - from != 1) x = x * (to - from);
    if (from != 0) x = x + from;
    if (type == Scalar::f32) x = k.single(x);
    x = k.round_to(x, dtype);
    const Ex low = k.round_to(k.number(from, type), dtype), high = k.round_to(k.number(to, type), dtype);
    return select(x >= high, low, x);
  });
}

std::string refuse_uniform(const OpCall& call) {
  const double from = number_or(call, "from", 0), to = number_or(call, "to", 1);
  if (!(from <= to) || !std::isfinite(to - from)) return fmt::format("expected from <= to, found {} and {}", from, to);
  return refuse_whole(call);
}

std::string refuse_normal(const OpCall& call) {
  const bool number = call.op->schema.find("std") >= 0 && !std::holds_alternative<std::monostate>(call.attr("std"));
  if (number && !(call.number("std") >= 0)) return fmt::format("expected std >= 0, found {}", call.number("std"));
  return refuse_whole(call);
}

// Mean and standard deviation are numbers, tensors or what their absence stands for.
void lower_normal(const OpCall& call, Lowering& lowering) {
  lower_drawn(call, lowering, [&](OpKernel& k, const Draw& drawn) {
    Ex x = drawn.normal(drawn_type(call.outputs[0].dtype));
    const auto apply = [&](std::string_view arg, double neutral, ExprOp op) {
      if (call.op->schema.find(arg) < 0) return;
      if (const int tensor = call.tensor_or_number(arg); tensor >= 0) {
        const Ex by = k.load_broadcast(k.read(lowering.input(tensor)));
        const bool deviation = op == ExprOp::mul;
        x = k.binary(op, x, deviation ? select(require(by >= 0, Requirement::deviation), by, 0.0) : by);
      } else if (call.number(arg) != neutral)
        x = k.binary(op, x, literal(x, call.number(arg)));
    };
    apply("std", 1, ExprOp::mul);
    apply("mean", 0, ExprOp::add);
    return x;
  });
}

// Broadcast of mean and std; the dtype of the first.
std::vector<TensorType> infer_normal(const OpCall& call) {
  TensorType type{DType::f32, {}};
  bool first = true;
  for (const char* arg : {"mean", "std"}) {
    if (call.op->schema.args[static_cast<size_t>(call.op->schema.find(arg))].kind != ArgKind::tensor) continue;
    if (call.tensor(arg) < 0) continue;
    if (first) type.dtype = call.type(arg).dtype;
    first = false;
    type.shape = broadcast_shapes(type.shape, call.type(arg).shape);
  }
  return {type};
}

void lower_exponential(const OpCall& call, Lowering& lowering) {
  lower_drawn(call, lowering, [&](OpKernel&, const Draw& drawn) {
    const Ex x = drawn.exponential(drawn_type(call.outputs[0].dtype));
    return call.number("lambd") == 1 ? x : x / call.number("lambd");
  });
}

std::string refuse_exponential(const OpCall& call) {
  if (!(call.number("lambd") > 0)) return fmt::format("expected lambd > 0, found {}", call.number("lambd"));
  return refuse_whole(call);
}

struct Range {
  int64_t low = 0;
  int64_t count = 0;  // not positive where there is none, or none that 63 bits hold
};

Range range_of(const OpCall& call) {
  const Schema& schema = call.op->schema;
  const char* low = schema.find("low") >= 0 ? "low" : "from";
  const char* high = schema.find("high") >= 0 ? "high" : "to";
  Range range;
  if (schema.find(low) >= 0) range.low = call.integer(low);
  range.count = static_cast<int64_t>(static_cast<uint64_t>(call.integer(high)) - static_cast<uint64_t>(range.low));
  if (call.integer(high) <= range.low) range.count = 0;
  return range;
}

std::string refuse_range(const OpCall& call) {
  const bool open = call.op->schema.find("to") >= 0 && call.is_none("to");
  if (open) return "to=None is not supported";
  const Range range = range_of(call);
  if (range.count <= 0) return fmt::format("no integers, or more than 2^63, from {} to the end given", range.low);
  const DType dtype = drawn_dtype(call);
  if (dtype == DType::boolean) return "draws no bool";
  const int64_t last = range.low + range.count - 1;
  if (is_integer(dtype) && (wrap_through(dtype, range.low) != range.low || wrap_through(dtype, last) != last))
    return fmt::format("{} does not hold all from {} to {}", dtype_name(dtype), range.low, last);
  return "";
}

void lower_integers(const OpCall& call, Lowering& lowering) {
  const Range range = range_of(call);
  lower_drawn(call, lowering, [&](OpKernel&, const Draw& drawn) {
    const Ex x = drawn.below(range.count);
    return range.low == 0 ? x : x + range.low;
  });
}

// The probabilities are a number, a tensor that broadcasts to self, or self.
void lower_bernoulli(const OpCall& call, Lowering& lowering) {
  const int p = call.op->schema.find("p");
  lower_drawn(call, lowering, [&](OpKernel& k, const Draw& drawn) {
    if (p >= 0 && call.op->schema.args[static_cast<size_t>(p)].kind != ArgKind::tensor)
      return drawn.chance(call.number("p"));
    const Ex x = k.load_broadcast(k.read(lowering.input(call.tensor(p >= 0 ? "p" : "self"))));
    return drawn.uniform(x.type() == Scalar::f64 ? Scalar::f64 : Scalar::f32) <= x &&
           require(x >= 0 && x <= 1, Requirement::probability);
  });
}

std::string refuse_bernoulli(const OpCall& call) {
  const int p = call.op->schema.find("p");
  if (p < 0) return refuse_whole(call);
  if (call.op->schema.args[static_cast<size_t>(p)].kind == ArgKind::tensor)
    return is_float(call.type("p").dtype) ? "" : "expected probabilities in a floating dtype";
  const double chance = call.number("p");
  return chance >= 0 && chance <= 1 ? "" : fmt::format("expected 0 <= p <= 1, found {}", chance);
}

std::string refuse_permutation(const OpCall& call) {
  const int64_t n = call.integer("n");
  return n < 0 ? fmt::format("expected n >= 0, found {}", n) : "";
}

// The order of random keys of 63 bits, of which no two are equal but in one permutation of a hundred billion.
void lower_permutation(const OpCall& call, Lowering& lowering) {
  const int64_t n = call.integer("n");
  const int keys = lowering.temporary({DType::i64, {n}});
  OpKernel k(lowering, {n});
  const Draw drawn = draw(k, lowering);
  k.store(k.write(keys), bit_or(shl(drawn.word(0), k.integer(31)), shr(drawn.word(1), k.integer(1))));
  k.done("keys");
  lower_order(lowering, keys, {0, false, n}, lowering.output(0));
}

std::vector<TensorType> infer_permutation(const OpCall& call) {
  return {{asked_dtype(call, DType::i64), {call.integer("n")}}};
}

std::vector<TensorType> infer_choice(const OpCall& call) {
  Shape shape = call.type("self").shape;
  if (shape.empty() || shape.size() > 2)
    fail(ErrorKind::bad_input, "{}: expected one or two dimensions, found {}", call.op->name(), to_string(shape));
  shape.back() = call.integer("num_samples");
  return {{DType::i64, shape}};
}

std::string refuse_choice(const OpCall& call) {
  const TensorType& self = call.type("self");
  const int64_t samples = call.integer("num_samples");
  const int64_t categories = self.shape.empty() ? 0 : self.shape.back();
  if (!is_float(self.dtype)) return "expected probabilities in a floating dtype";
  if (samples <= 0 || categories == 0) return "draws none";
  if (call.boolean("replacement")) return "";
  if (samples > categories) return fmt::format("{} of {} cannot be drawn without replacement", samples, categories);
  return "";
}

// All weights are finite and none is negative, and in each row one is more than 0: else no `value`.
Ex with_weights(OpKernel& k, Ex weight, Ex value) {
  value = select(require(weight >= 0 && weight < INFINITY, Requirement::weights), value, 0.0);
  return select(require(k.reduce(Reduction::max, weight) > 0, Requirement::weights), value, 0.0);
}

Scalar type_of_choice(const OpCall& call) { return drawn_type(call.type("self").dtype); }
int temporary_weights(const OpCall& call, Lowering& lowering) {
  return lowering.temporary({type_of_choice(call) == Scalar::f64 ? DType::f64 : DType::f32, call.type("self").shape});
}

// p / e of exponential e is largest for category i with probability p[i] / Σ p, and the next largest for each of the
// others with what is left.
void lower_choice(const OpCall& call, Lowering& lowering) {
  const Shape rows = call.type("self").shape;
  const Scalar type = type_of_choice(call);
  if (const int64_t samples = call.outputs[0].shape.back(); samples > 1) {
    const int scores = temporary_weights(call, lowering);
    OpKernel drawing(lowering, rows, 1);
    const Ex p = drawing.load_broadcast(drawing.read(lowering.input(0)));
    const Ex score = with_weights(drawing, p, p / draw(drawing, lowering).exponential(type));
    drawing.store(drawing.write(scores), score);
    drawing.done("scores");
    return lower_order(lowering, scores, {rows.size() - 1, true, samples}, lowering.output(0));
  }
  const int dims = static_cast<int>(rows.size());
  Shape space = rows;
  space.back() = 1;
  space.push_back(rows.back());
  OpKernel k(lowering, space, 1);
  std::vector<Coord> at;
  for (int d = 0; d + 1 < dims; ++d) at.emplace_back(k.dim(d));
  at.emplace_back(k.dim(dims));
  const Ex p = k.load(k.read(lowering.input(0)), at);
  const Ex score = with_weights(k, p, p / draw(k, lowering).exponential(type));
  const Ex chosen = score == k.reduce(Reduction::max, score);
  const Ex category = k.reduce(Reduction::min, select(chosen, k.index(dims), rows.back() - 1));
  k.store(k.write(lowering.output(0)), category);
  k.done("choose");
}

// With replacement: of each sample the first category up to which the weights, in units of the largest, add up to a
// share of all, which is more than the nothing that those of no weight add.
void lower_repeated_choice(const OpCall& call, Lowering& lowering) {
  const Shape rows = call.type("self").shape;
  const int64_t categories = rows.back();
  const int sums = temporary_weights(call, lowering);
  OpKernel adding(lowering, rows, 1);
  const Ex p = adding.load_broadcast(adding.read(lowering.input(0)));
  const Ex part = with_weights(adding, p, p / adding.reduce(Reduction::max, p));  // whose sum does not overflow
  adding.store(adding.write(sums), adding.scan(Reduction::sum, part));
  adding.done("sums");
  OpKernel k(lowering, call.outputs[0].shape);
  const int from = k.read(sums);
  const auto sum_to = [&](Ex category) {
    std::vector<Coord> at;
    for (int d = 0; d + 1 < static_cast<int>(rows.size()); ++d) at.emplace_back(k.dim(d));
    at.emplace_back(category);
    return k.load(from, at);
  };
  const Ex share = draw(k, lowering).uniform(type_of_choice(call)) * sum_to(k.integer(categories - 1));
  const Ex category = first_not(k, categories, [&](Ex position) { return sum_to(position) < share; });
  k.store(k.write(lowering.output(0)), min(category, categories - 1));
  k.done("choose");
}

void lower_multinomial(const OpCall& call, Lowering& lowering) {
  const bool repeated = call.boolean("replacement") && call.outputs[0].shape.back() > 1;
  repeated ? lower_repeated_choice(call, lowering) : lower_choice(call, lowering);
}

// The arguments that every creation schema ends with.
#define NPUSIM_OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define NPUSIM_FORMAT NPUSIM_OPTIONS ", MemoryFormat? memory_format=None) -> Tensor"
#define NPUSIM_WHOLE "ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"

constexpr OpRecord like(OpRecord record) { return in_memory(record, Memory::preserved); }

constexpr OpRecord records[] = {
    random("rand(SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor", lower_uniform, infer_drawn, refuse_uniform),
    like(random("rand_like(Tensor self, *, " NPUSIM_FORMAT, lower_uniform, infer_drawn, refuse_uniform)),
    like(random("uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor", lower_uniform,
                infer_same, refuse_uniform)),
    random("randn(SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor", lower_normal, infer_drawn, refuse_normal),
    like(random("randn_like(Tensor self, *, " NPUSIM_FORMAT, lower_normal, infer_drawn, refuse_normal)),
    like(random("normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor",
                lower_normal, infer_same, refuse_normal)),
    random("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor", lower_normal,
           infer_normal, refuse_normal, Memory::preserved),
    random("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor", lower_normal,
           infer_normal, nullptr, Memory::preserved),
    random("normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", lower_normal,
           infer_normal, nullptr, Memory::dense),
    random("normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, " NPUSIM_OPTIONS
           ") -> Tensor",
           lower_normal, infer_drawn, refuse_normal),
    like(random("exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor", lower_exponential,
                infer_same, refuse_exponential)),
    random("randint(SymInt high, SymInt[] size, *, " NPUSIM_WHOLE, lower_integers, infer_drawn, refuse_range),
    random("randint.low(SymInt low, SymInt high, SymInt[] size, *, " NPUSIM_WHOLE, lower_integers, infer_drawn,
           refuse_range),
    like(random("randint_like(Tensor self, SymInt high, *, " NPUSIM_FORMAT, lower_integers, infer_drawn, refuse_range)),
    like(random("randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, " NPUSIM_FORMAT, lower_integers,
                infer_drawn, refuse_range)),
    like(random("random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor", lower_integers,
                infer_same, refuse_range)),
    like(random("random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", lower_integers, infer_same,
                refuse_range)),
    like(random("bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", lower_bernoulli, infer_same,
                refuse_bernoulli)),
    like(random("bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", lower_bernoulli,
                infer_same, refuse_bernoulli)),
    like(random("bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", lower_bernoulli,
                infer_same, refuse_bernoulli)),
    random("randperm(SymInt n, *, " NPUSIM_WHOLE, lower_permutation, infer_permutation, refuse_permutation),
    random("multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) "
           "-> Tensor",
           lower_multinomial, infer_choice, refuse_choice),
};

#undef NPUSIM_WHOLE
#undef NPUSIM_FORMAT
#undef NPUSIM_OPTIONS

}  // namespace

std::span<const OpRecord> random_ops() { return records; }

}  // namespace npusim
