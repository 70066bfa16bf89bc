// Tensors made from nothing but attributes: ranges, constants, identity, index grids, one-hot rows.
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

constexpr OpRecord creation(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                            void (*lower)(const OpCall&, Lowering&), double tolerance = 1) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::create;
  record.infer = infer;
  record.lower = lower;
  record.tolerance = tolerance;
  const bool like = schema.substr(0, schema.find('(')).ends_with("_like");
  record.memory = like ? Memory::preserved : Memory::row_major;
  return record;
}

bool is_whole(double x) { return x == static_cast<double>(static_cast<float>(x)); }

struct Range {
  bool real;  // any of start, end and step is
  double start, end, step;
  int64_t first = 0, last = 0, by = 1;  // the same, where they are integers: exact beyond 2^53
};

Range range_of(const OpCall& call) {
  Range r{call.is_real("end"), 0, call.number("end"), 1};
  auto read = [&](const char* name, double& value) {
    if (call.op->schema.find(name) < 0) return;
    value = call.number(name);
    r.real = r.real || call.is_real(name);
  };
  read("start", r.start);
  read("step", r.step);
  if (r.real) return r;
  r.last = call.integer("end");
  if (call.op->schema.find("start") >= 0) r.first = call.integer("start");
  if (call.op->schema.find("step") >= 0) r.by = call.integer("step");
  return r;
}

std::vector<TensorType> infer_arange(const OpCall& call) {
  const Range r = range_of(call);
  const auto fits = [](double x) { return std::fabs(x) < 0x1p63; };
  double count = r.step == 0 ? -1 : std::ceil((r.end - r.start) / r.step);
  if (!r.real && r.by != 0) {
    const __int128 distance = static_cast<__int128>(r.last) - r.first, by = r.by;
    count = static_cast<double>((distance + by + (by > 0 ? -1 : 1)) / by);
  }
  if (!(count >= 0 && count <= 0x1p56) || (r.real && (!fits(r.start) || !fits(r.step))))
    fail(ErrorKind::bad_input, "aten.arange: no range from {} to {} in steps of {}", r.start, r.end, r.step);
  return {{call.dtype("dtype").value_or(r.real ? DType::f32 : DType::i64), {static_cast<int64_t>(count)}}};
}

// Integers count in whole numbers, as ATen truncates start and step. Reals compute in f64 unless f32 holds start and
// step.
void lower_arange(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const Range r = range_of(call);
  if (!is_float(call.outputs[0].dtype)) {
    const int64_t first = r.real ? to_integer(r.start) : r.first, by = r.real ? to_integer(r.step) : r.by;
    const Ex at = by == 1 ? k.index(0) : k.index(0) * by;
    return p.store(first == 0 ? at : at + first);
  }
  const bool wide = call.outputs[0].dtype == DType::f64 || !is_whole(r.start) || !is_whole(r.step);
  Ex at = k.cast(k.index(0), wide ? Scalar::f64 : Scalar::f32);
  if (r.step != 1) at = at * r.step;
  p.store(r.start == 0 ? at : at + r.start);
}

// Shape: `size` when the schema has it, none for a scalar, else self's. Dtype: the attribute, else self's, else that of
// the value.
std::vector<TensorType> infer_filled(const OpCall& call) {
  const Schema& schema = call.op->schema;
  const bool like = schema.find("self") >= 0;
  TensorType type;
  if (like) type = call.type("self");
  if (schema.find("size") >= 0) type.shape = call.ints("size");
  const char* value = schema.find("fill_value") >= 0 ? "fill_value" : "s";
  if (!like && schema.find(value) >= 0 && !call.is_real(value))
    type.dtype = std::holds_alternative<bool>(call.attr(value)) ? DType::boolean : DType::i64;
  if (!like && schema.find("s") >= 0) type.dtype = DType::f32;
  type.dtype = call.dtype("dtype").value_or(type.dtype);
  for (int64_t extent : type.shape)
    if (extent < 0) fail(ErrorKind::bad_input, "{}: negative size {}", call.op->name(), to_string(type.shape));
  return {type};
}

template <int64_t value>
void lower_constant(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  p.store(p.kernel.integer(value));
}

void lower_filled(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  const char* value = call.op->schema.find("fill_value") >= 0 ? "fill_value" : "s";
  p.store(stored_attr(p.kernel, call, value, call.outputs[0].dtype));
}

template <int64_t value>
constexpr OpRecord constant(std::string_view schema) {
  return creation(schema, infer_filled, lower_constant<value>, 0);
}
constexpr OpRecord filled(std::string_view schema) { return creation(schema, infer_filled, lower_filled); }

std::vector<TensorType> infer_eye(const OpCall& call) {
  const int64_t n = call.integer("n"), m = call.op->schema.find("m") >= 0 ? call.integer("m") : n;
  return {{call.dtype("dtype").value_or(DType::f32), {n, m}}};
}
void lower_eye(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  p.store(p.kernel.index(0) == p.kernel.index(1));
}

std::vector<TensorType> infer_linspace(const OpCall& call) {
  if (call.integer("steps") < 0) fail(ErrorKind::bad_input, "{}: negative number of steps", call.op->name());
  return {{call.dtype("dtype").value_or(DType::f32), {call.integer("steps")}}};
}

// Exact at both ends: the first half counts up from start, the second down from end.
Ex linspace(Pointwise& p, const OpCall& call, Lowering& lowering) {
  OpKernel& k = p.kernel;
  const DType dtype = call.outputs[0].dtype;
  auto bound = [&](std::string_view name) {
    // Of integers ends are of the result's dtype.
    if (const int tensor = call.tensor_or_number(name); tensor >= 0) {
      const Ex end = k.load_broadcast(k.read(lowering.input(tensor)));
      return k.cast(is_float(dtype) ? end : k.round_to(end, dtype), Scalar::f64);
    }
    return is_float(dtype) ? k.number(call.number(name), Scalar::f64)
                           : k.cast(stored_attr(k, call, name, dtype), Scalar::f64);
  };
  const Ex start = bound("start");
  const int64_t steps = call.integer("steps");
  if (steps == 1) return start;
  const Ex end = bound("end");
  const Ex step = (end - start) / (steps - 1);
  return select(k.index(0) < steps / 2, start + step * k.index(0), end - step * (steps - 1 - k.index(0)));
}
void lower_linspace(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  p.store(linspace(p, call, lowering));
}
void lower_logspace(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  p.store(pow(p.kernel.number(call.number("base"), Scalar::f64), linspace(p, call, lowering)));
}

std::vector<TensorType> infer_one_hot(const OpCall& call) {
  Shape shape = call.type("self").shape;
  shape.push_back(call.integer("num_classes"));
  return {{DType::i64, shape}};
}
// Zeros, then a one where each label says, which traps outside of the classes.
void lower_one_hot(const OpCall& call, Lowering& lowering) {
  const int zeros = lowering.temporary(call.outputs[0]);
  OpKernel fill(lowering, call.outputs[0].shape);
  fill.store(fill.write(zeros), fill.integer(0));
  fill.done("zeros");
  OpKernel k(lowering, call.type("self").shape);
  const int from = k.read(zeros), self = k.read(lowering.input(0));
  std::vector<Coord> at = coordinates(identity_coordinates(k.shape(self).size()));
  at.emplace_back(k.load(self, at));
  k.store(k.write(lowering.output(0), from), at, k.integer(1));
  k.done("one_hot");
}
std::string refuse_one_hot(const OpCall& call) {
  return call.integer("num_classes") < 0 ? "num_classes=-1: the shape would depend on the data" : "";
}
constexpr OpRecord one_hot(std::string_view schema) {
  OpRecord record = creation(schema, infer_one_hot, lower_one_hot, 0);
  record.refuse = refuse_one_hot;
  return record;
}

// Entries of row r that lie in the triangle: columns [begin, end).
struct Triangle {
  bool lower;
  int64_t rows, columns, offset;
};

Triangle triangle_of(const OpCall& call) {
  return {call.op->name().starts_with("aten.tril"), call.integer("row"), call.integer("col"), call.integer("offset")};
}

// Σ over t < m of clamp(t + 1, 0, columns): elements of the first m rows of a lower triangle on the diagonal.
int64_t staircase(int64_t m, int64_t columns) {
  if (m <= 0) return 0;
  return m <= columns ? m * (m + 1) / 2 : columns * (columns + 1) / 2 + (m - columns) * columns;
}
Ex staircase(Ex m, int64_t columns) {
  const Ex inside = min(max(m, 0), columns);
  return idiv(inside * (inside + 1), literal(m, int64_t{2})) + max(m - columns, 0) * columns;
}

std::vector<TensorType> infer_triangle(const OpCall& call) {
  const Triangle t = triangle_of(call);
  if (t.rows < 0 || t.columns < 0) fail(ErrorKind::bad_input, "{}: negative size", call.op->name());
  const int64_t shift = t.lower ? t.offset : t.offset - 1;
  const int64_t below = staircase(t.rows + shift, t.columns) - staircase(shift, t.columns);
  const auto dtype = std::holds_alternative<DType>(call.attr("dtype")) ? call.dtype("dtype") : std::nullopt;
  return {{dtype.value_or(DType::i64), {2, t.lower ? below : t.rows * t.columns - below}}};
}

// Element p lies in the row that starts at or before p: its number is the count of rows that end at or before p.
void lower_triangle(const OpCall& call, Lowering& lowering) {
  const Triangle t = triangle_of(call);
  OpKernel k(lowering, {call.outputs[0].shape[1], t.rows}, 1);
  const int64_t shift = t.lower ? t.offset : t.offset - 1;
  const Ex row = k.index(1);
  const Ex below = staircase(row + (shift + 1), t.columns) - staircase(shift, t.columns);
  const Ex end = t.lower ? below : (row + 1) * t.columns - below;
  const Ex passed = end <= k.index(0);
  const Ex number = k.reduce(Reduction::sum, passed);
  const Ex before = k.reduce(Reduction::max, select(passed, end, int64_t{0}));
  Ex column = k.index(0) - before;
  if (!t.lower) column = column + min(max(number + t.offset, 0), t.columns);
  const int result = k.write(lowering.output(0));
  k.store(result, std::vector<Coord>{int64_t{0}, k.dim(0)}, number);
  k.store(result, std::vector<Coord>{int64_t{1}, k.dim(0)}, column);
  k.done("triangle_indices");
}

// The arguments that every creation schema ends with.
#define NPUSIM_OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define NPUSIM_FORMAT NPUSIM_OPTIONS ", MemoryFormat? memory_format=None) -> Tensor"

constexpr OpRecord records[] = {
    creation("arange(Scalar end, *, " NPUSIM_OPTIONS ") -> Tensor", infer_arange, lower_arange),
    creation("arange.start(Scalar start, Scalar end, *, " NPUSIM_OPTIONS ") -> Tensor", infer_arange, lower_arange),
    creation("arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " NPUSIM_OPTIONS ") -> Tensor",
             infer_arange, lower_arange),
    filled("full(SymInt[] size, Scalar fill_value, *, " NPUSIM_OPTIONS ") -> Tensor"),
    filled("full_like(Tensor self, Scalar fill_value, *, " NPUSIM_FORMAT),
    filled("new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " NPUSIM_OPTIONS ") -> Tensor"),
    filled("scalar_tensor(Scalar s, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<1>("ones(SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<1>("ones_like(Tensor self, *, " NPUSIM_FORMAT),
    constant<1>("new_ones(Tensor self, SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<0>("zeros(SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<0>("zeros_like(Tensor self, *, " NPUSIM_FORMAT),
    constant<0>("new_zeros(Tensor self, SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor"),
    // Memory nobody has written yet is zero here.
    constant<0>("empty.memory_format(SymInt[] size, *, " NPUSIM_FORMAT),
    constant<0>("empty_like(Tensor self, *, " NPUSIM_FORMAT),
    constant<0>("new_empty(Tensor self, SymInt[] size, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<0>("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<0>("empty_strided(SymInt[] size, SymInt[] stride, *, " NPUSIM_OPTIONS ") -> Tensor"),
    constant<0>("empty_permuted(SymInt[] size, int[] physical_layout, *, " NPUSIM_OPTIONS ") -> Tensor"),
    creation("eye(SymInt n, *, " NPUSIM_OPTIONS ") -> Tensor", infer_eye, lower_eye, 0),
    creation("eye.m(SymInt n, SymInt m, *, " NPUSIM_OPTIONS ") -> Tensor", infer_eye, lower_eye, 0),
    creation("linspace(Scalar start, Scalar end, int steps, *, " NPUSIM_OPTIONS ") -> Tensor", infer_linspace,
             lower_linspace, 4),
    creation("linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, " NPUSIM_OPTIONS ") -> Tensor",
             infer_linspace, lower_linspace, 4),
    creation("linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, " NPUSIM_OPTIONS ") -> Tensor",
             infer_linspace, lower_linspace, 4),
    creation("linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, " NPUSIM_OPTIONS ") -> Tensor",
             infer_linspace, lower_linspace, 4),
    creation("logspace(Scalar start, Scalar end, int steps, float base=10., *, " NPUSIM_OPTIONS ") -> Tensor",
             infer_linspace, lower_logspace, 16),
    one_hot("one_hot(Tensor self, int num_classes=-1) -> Tensor"),
    creation("tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, "
             "Device? device=None, bool? pin_memory=None) -> Tensor",
             infer_triangle, lower_triangle, 0),
    creation("triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, "
             "Device? device=None, bool? pin_memory=None) -> Tensor",
             infer_triangle, lower_triangle, 0),
};

#undef NPUSIM_FORMAT
#undef NPUSIM_OPTIONS

}  // namespace

std::span<const OpRecord> create_ops() { return records; }

}  // namespace npusim
