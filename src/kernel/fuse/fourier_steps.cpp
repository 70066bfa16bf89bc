// Rows are packed as [part, row, element], with the real parts before all imaginary ones, unless they lie so, and
// transformed; the last product stores them, or what follows it where that does more.
#include "kernel/fuse/fourier_steps.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include "base/shape.h"
#include "kernel/builder.h"
#include "kernel/facts/fourier.h"
#include "kernel/fuse/simplify.h"

namespace npusim {
namespace {

constexpr int64_t whole = 256;  // elements: up to here one product with a whole matrix
constexpr int64_t factor = 64;  // of a longer length that is transformed by one product
constexpr int64_t prime = 512;  // without factors: one product up to here

// The larger of two factors to begin with is as near to the root as one product may be; 1 where there is none.
int64_t divisor(int64_t size) {
  int64_t n = std::min(factor, static_cast<int64_t>(std::sqrt(static_cast<double>(size))));
  while (size % n != 0) --n;
  return n;
}

int32_t add_to(Kernel& k, const Expr& e) {
  k.exprs.push_back(e);
  return static_cast<int32_t>(k.exprs.size()) - 1;
}

// An index along a dimension, or a constant.
Expr whole_number(ExprOp op, int64_t n) {
  Expr e{.op = op, .type = Scalar::i64};
  e.integer = n;
  return e;
}

struct Twiddle {
  Ex cos, sin;
};

// Of 2π · numerator / size, where 0 <= numerator < size; exact at multiples of a quarter.
Twiddle twiddle(KernelBuilder& k, Ex numerator, int64_t size, Scalar type) {
  const auto sine = [&](Ex quarters) {  // of π/2 · quarters / size, of numbers in [0, 5 size)
    quarters = irem(quarters, k.integer(4 * size));
    const Ex down = quarters > 2 * size, up = select(down, 4 * size - quarters, quarters);
    const Ex near = k.cast(min(up, 2 * size - up), type);  // from the closest zero
    const Ex found = sin(near * (std::numbers::pi / 2 / static_cast<double>(size)));
    return select(down, -found, found);
  };
  return {sine(numerator * 4 + size), sine(numerator * 4)};
}

// Complex rows in scratch: [2, rows, length], or real ones: [1, rows, length].
struct Rows {
  int value = -1;
  int64_t rows = 0, length = 0;
  int64_t parts = 2;
};
// Their transform, [2, rows, digits…]: of bin Σ weight · digit. Of a signal it may be [1, rows, digits…], the real
// part.
struct Spectrum {
  struct Digit {
    int64_t extent, weight;
  };
  int value = -1;
  int64_t rows = 0, length = 0;
  std::vector<Digit> digits;
  int64_t parts = 2;
};

// A kernel that packs rows of so many elements, expression by expression, by accesses of the outer kernel's.
struct Packing {
  const Kernel& outer;
  Scalar type;
  BoundKernel step = {};

  Packing(const Kernel& kernel, int64_t length, Scalar scalar) : outer(kernel), type(scalar) {
    step.kernel.name = outer.name + "_pack";
    step.kernel.space = outer.space;
    step.kernel.space.back() = length;
  }
  int32_t expr(const Expr& e) { return add_to(step.kernel, e); }
  int32_t integer(int64_t n) { return expr(whole_number(ExprOp::constant, n)); }
  int32_t zero() { return expr({.op = ExprOp::constant, .type = type}); }
  int32_t position() { return expr(whole_number(ExprOp::index, static_cast<int64_t>(step.kernel.space.size()) - 1)); }
  int32_t op(ExprOp what, Scalar of, int32_t a, int32_t b = -1, int32_t c = -1) {
    return expr({.op = what, .type = of, .in = {a, b, c}});
  }
  int32_t load(Access a) {
    const KernelArg arg = outer.args[static_cast<size_t>(a.arg)];
    return load(std::move(a), arg);
  }
  int32_t load(Access a, const KernelArg& arg) {
    Kernel& k = step.kernel;
    step.values.push_back(a.arg);
    k.args.push_back(arg);
    a.arg = static_cast<int>(k.args.size()) - 1;
    k.accesses.push_back(std::move(a));
    Expr e{.op = ExprOp::load, .type = type};
    e.integer = static_cast<int64_t>(k.accesses.size()) - 1;
    return expr(e);
  }
  // x, and 0 at that element.
  int32_t zero_at(int64_t element, int32_t x) {
    return op(ExprOp::select, type, op(ExprOp::eq, Scalar::boolean, position(), integer(element)), zero(), x);
  }
};

class Speller {
 public:
  explicit Speller(const Kernel& kernel)
      : outer_(kernel),
        form_(fourier_form(kernel)),
        rows_(kernel.space.begin(), kernel.space.end() - 1),
        type_(kernel.exprs[static_cast<size_t>(kernel.stores[0].expr)].type),
        dtype_(type_ == Scalar::f64 ? DType::f64 : DType::f32) {}

  Unfused run() {
    store(in_halves() ? transform(halved()) : transform(packed(), form_.signal ? 1 : 2));
    return std::move(result_);
  }

 private:
  // ---- what the steps are made of

  int add_scratch(const Shape& shape) {
    result_.scratch.push_back({dtype_, element_count(shape)});
    return static_cast<int>(outer_.args.size() + result_.scratch.size()) - 1;
  }

  void add(KernelBuilder& k, std::string_view what, std::vector<int> values) {
    add(BoundKernel{k.finish(outer_.name + "_" + std::string(what)), std::move(values)});
  }
  void add(BoundKernel step) {
    order_args(step);
    simplify(step);
    result_.steps.push_back(std::move(step));
  }

  static Ex at(KernelBuilder& k, int arg, std::initializer_list<Coord> coordinates) {
    return k.load(arg, std::span<const Coord>(coordinates.begin(), coordinates.size()));
  }
  static void put(KernelBuilder& k, int arg, std::initializer_list<Coord> coordinates, Ex x) {
    k.store(arg, std::span<const Coord>(coordinates.begin(), coordinates.size()), x);
  }

  // ---- from and to the outer kernel's memory

  // A signal's even elements are the real part, and its odd ones the imaginary part, of a transform of half the length.
  bool in_halves() const { return form_.signal && form_.length % 2 == 0; }

  // The row from element n on to its beginning: element n − j at position j, and 0 where there is none.
  Access mirrored(const FourierForm::Row& row, int64_t n) const {
    Access a = *row.access;
    Guard there{std::vector<int64_t>(outer_.space.size(), 0), n, row.count, row.step};
    there.coeffs.back() = -1;
    a.strides.back() = 0;
    a.guards = {there};
    return a;
  }

  // Real rows that lie in memory as packed ones would.
  bool is_packed() const {
    if (form_.im || form_.signal || form_.re.count != form_.length) return false;
    const Access& a = *form_.re.access;
    const KernelArg& arg = outer_.args[static_cast<size_t>(a.arg)];
    return arg.dtype == dtype_ && arg.elements == element_count(outer_.space) && a.offset == 0 && a.guards.empty() &&
           a.strides == row_major_strides(outer_.space);
  }

  // What is transformed: the rows, or of half a spectrum the conjugate of the whole.
  Rows packed() {
    const int64_t rows = element_count(rows_), parts = form_.im || form_.signal ? 2 : 1;
    if (is_packed()) return {form_.re.access->arg, rows, form_.length, 1};
    Packing p(outer_, form_.length, type_);
    int32_t re = p.load(*form_.re.access);
    int32_t im = -1;
    if (form_.im)
      im = p.load(*form_.im->access);
    else if (parts > 1)
      im = p.zero();
    if (form_.signal) {
      const int32_t first = p.op(ExprOp::le, Scalar::boolean, p.position(), p.integer(form_.length / 2));
      const auto whole_of = [&](int32_t own, int32_t other) { return p.op(ExprOp::select, type_, first, own, other); };
      re = whole_of(re, p.load(mirrored(form_.re, form_.length)));
      if (form_.im) im = whole_of(p.op(ExprOp::neg, type_, im), p.load(mirrored(*form_.im, form_.length)));
      im = p.zero_at(0, im);
    }
    return packed(std::move(p), parts > 1 ? std::vector{re, im} : std::vector{re}, form_.length);
  }

  // z = e + i·o, whose transform has the signal's even elements as its real part and the odd ones as its imaginary one:
  // of the conjugates y of the half spectrum, e[k] = y[k] + y[k + m] and o[k] = (y[k] − y[k + m])·exp(−2πi k / 2m) of
  // m = length / 2, where y[k + m] = conj y[m − k].
  Rows halved() {
    const int64_t m = form_.length / 2;
    const int twiddles = add_scratch({2, m});
    KernelBuilder table({m});
    const int to_table = table.output({dtype_, {2, m}});
    const Twiddle t = twiddle(table, table.index(0), form_.length, type_);
    put(table, to_table, {int64_t{0}, table.dim(0)}, t.cos);
    put(table, to_table, {int64_t{1}, table.dim(0)}, -t.sin);
    add(table, "half_twiddles", {twiddles});

    Packing p(outer_, m, type_);
    const auto add = [&](int32_t a, int32_t b) { return p.op(ExprOp::add, type_, a, b); };
    const auto sub = [&](int32_t a, int32_t b) { return p.op(ExprOp::sub, type_, a, b); };
    const auto mul = [&](int32_t a, int32_t b) { return p.op(ExprOp::mul, type_, a, b); };
    const int32_t re = p.load(*form_.re.access), other_re = p.load(mirrored(form_.re, m));
    int32_t im = p.zero(), other_im = im;
    if (form_.im) {
      im = p.zero_at(0, p.op(ExprOp::neg, type_, p.load(*form_.im->access)));
      other_im = p.zero_at(0, p.load(mirrored(*form_.im, m)));  // bin m is real
    }
    const auto twiddle_of = [&](int64_t part) {
      Access a{twiddles, part * m, std::vector<int64_t>(outer_.space.size(), 0), {}, {}};
      a.strides.back() = 1;
      return p.load(std::move(a), {dtype_, 2 * m, false, -1});
    };
    const int32_t cos = twiddle_of(0), sin = twiddle_of(1), apart_re = sub(re, other_re), apart_im = sub(im, other_im);
    const int32_t odd_re = sub(mul(apart_re, cos), mul(apart_im, sin));
    const int32_t odd_im = add(mul(apart_re, sin), mul(apart_im, cos));
    const std::vector<int32_t> parts = {sub(add(re, other_re), odd_im), add(add(im, other_im), odd_re)};
    return packed(std::move(p), parts, m);
  }

  // Values per point of the rows, `length` of them, as [part, row, element].
  Rows packed(Packing p, const std::vector<int32_t>& parts, int64_t length) {
    const auto count = static_cast<int64_t>(parts.size());
    const int64_t rows = element_count(rows_);
    const Rows z{add_scratch({count, rows, length}), rows, length, count};
    Kernel& k = p.step.kernel;
    k.args.push_back({dtype_, count * rows * length, true, -1});
    p.step.values.push_back(z.value);
    for (int64_t part = 0; part < count; ++part)
      k.stores.push_back(
          {{static_cast<int>(k.args.size()) - 1, part * rows * length, row_major_strides(k.space), {}, {}},
           parts[static_cast<size_t>(part)]});
    add(std::move(p.step));
    return z;
  }

  // By the product that finds them, if that is the last step.
  void store(const Spectrum& s) {
    BoundKernel step = storing(s), &last = result_.steps.back();
    const bool newest = s.value == static_cast<int>(outer_.args.size() + result_.scratch.size()) - 1;
    if (auto both = newest ? append_consumer(last, step, s.value, false, {}) : std::nullopt) {
      both->kernel.name = last.kernel.name;
      last = std::move(*both);
      order_args(last);
      result_.scratch.pop_back();
    } else {
      add(std::move(step));
    }
  }

  // From the spectrum, [part, rows…, digits…], to where its parts belong.
  BoundKernel storing(const Spectrum& s) const {
    BoundKernel step;
    Kernel& k = step.kernel;
    k.name = outer_.name + "_store";
    k.space = rows_;
    k.space.insert(k.space.begin(), s.parts);
    for (const Spectrum::Digit& digit : s.digits) k.space.push_back(digit.extent);
    const size_t rank = rows_.size() + 1;
    const int64_t in_bin = in_halves() ? 2 : 1;  // elements of the result: then a bin's parts are neighbours
    k.args.push_back({dtype_, s.parts * s.rows * s.length, false, -1});
    step.values.push_back(s.value);
    k.accesses.push_back({0, 0, row_major_strides(k.space), {}, {}});
    for (const int part : {0, 1}) {
      const auto& stored = form_.parts[static_cast<size_t>(part)];
      if (!stored) continue;
      k.exprs.push_back({.op = ExprOp::load, .type = type_});
      const auto last = [&] { return static_cast<int32_t>(k.exprs.size()) - 1; };
      if (part == 1 && !form_.im) only_complex_bins(k, s, rank);
      if (stored->scale != 1) {
        const int32_t x = last();
        Expr scale{.op = ExprOp::constant, .type = type_};
        scale.number = stored->scale;
        k.exprs.push_back(scale);
        k.exprs.push_back({.op = ExprOp::mul, .type = type_, .in = {x, last(), -1}});
      }
      Access to = *stored->to.access;
      step.values.push_back(to.arg);
      k.args.push_back(outer_.args[static_cast<size_t>(to.arg)]);
      to.arg = static_cast<int>(k.args.size()) - 1;
      to.strides.resize(rank - 1);
      const bool all = stored->to.count == form_.length;
      to.strides.insert(to.strides.begin(), all ? (in_bin - 1) * stored->to.step : 0);
      to.guards.clear();
      Guard kept{std::vector<int64_t>(rank, 0), 0, stored->to.count, stored->to.step};
      kept.coeffs[0] = in_bin - 1;
      for (const Spectrum::Digit& digit : s.digits) {
        to.strides.push_back(all ? in_bin * digit.weight * stored->to.step : 0);
        kept.coeffs.push_back(in_bin * digit.weight);
      }
      if (!all) to.guards = {kept};
      if (s.parts > 1 && in_bin == 1) {
        Guard own{std::vector<int64_t>(k.space.size(), 0), -part, 1, 0};
        own.coeffs[0] = 1;
        to.guards.push_back(own);
      }
      k.stores.push_back({to, last()});
    }
    return step;
  }

  // The last expression, or 0 in the bins that are real.
  void only_complex_bins(Kernel& k, const Spectrum& s, size_t rank) const {
    const auto expr = [&](const Expr& e) { return add_to(k, e); };
    const auto integer = [&](int64_t n) { return add_to(k, whole_number(ExprOp::constant, n)); };
    int32_t x = static_cast<int32_t>(k.exprs.size()) - 1, bin = integer(0);
    for (size_t d = 0; d < s.digits.size(); ++d) {
      const int32_t digit = expr(whole_number(ExprOp::index, static_cast<int64_t>(rank + d)));
      const int32_t weight = integer(s.digits[d].weight);
      const int32_t term = expr({.op = ExprOp::mul, .type = Scalar::i64, .in = {digit, weight, -1}});
      bin = expr({.op = ExprOp::add, .type = Scalar::i64, .in = {bin, term, -1}});
    }
    const int32_t zero = expr({.op = ExprOp::constant, .type = type_});
    for (const int64_t real : {int64_t{0}, form_.length % 2 == 0 ? form_.length / 2 : 0}) {
      const int32_t at = integer(real), is = expr({.op = ExprOp::eq, .type = Scalar::boolean, .in = {bin, at, -1}});
      x = expr({.op = ExprOp::select, .type = type_, .in = {is, zero, x}});
    }
  }

  // ---- transforms in scratch

  // parts: how many of the result are asked for at least, the real one or both.
  Spectrum transform(const Rows& z, int64_t parts = 2) {
    const int64_t first = z.length <= whole ? 1 : divisor(z.length);
    if (first == 1 && z.length > std::max(whole, prime)) return by_convolution(z);
    if (first == 1) return {summed(z, z.length, parts), z.rows, z.length, {{z.length, 1}}, parts};
    const Rows rest{rotated(summed(z, first, 2), z, first), z.rows * first, z.length / first};
    const Spectrum inner = transform(rest, parts);
    Spectrum s{inner.value, z.rows, z.length, {{first, 1}}, inner.parts};
    for (const Spectrum::Digit& digit : inner.digits) s.digits.push_back({digit.extent, digit.weight * first});
    return s;
  }

  // [parts, rows, n1, n2]: each column of z as [n1, n2] transformed.
  int summed(const Rows& z, int64_t n1, int64_t parts) {
    const int64_t n2 = z.length / n1;
    const int matrix = matrix_of(n1), sums = add_scratch({parts, z.rows, n1, n2});
    const Shape space{parts, z.rows, n1, n2}, reduce{z.parts, n1};
    Shape all = space;
    if (type_ == Scalar::f64) all.insert(all.end(), reduce.begin(), reduce.end());  // a contraction is float32
    KernelBuilder k(all, type_ == Scalar::f64 ? 2 : 0);
    const int from = k.input({dtype_, {z.parts, z.rows, n1, n2}}), twiddles = k.input({dtype_, {2, n1, 2, n1}});
    const int to = k.output({dtype_, space});
    const Coord a[] = {k.dim(4), k.dim(1), k.dim(5), k.dim(3)}, b[] = {k.dim(4), k.dim(5), k.dim(0), k.dim(2)};
    const Ex sum = type_ == Scalar::f64 ? k.reduce(Reduction::sum, k.load(from, a) * k.load(twiddles, b))
                                        : k.contract(ContractionKind::matmul, reduce, from, a, twiddles, b);
    put(k, to, {k.dim(0), k.dim(1), k.dim(2), k.dim(3)}, sum);
    add(k, "sum", {z.value, matrix, sums});
    return sums;
  }

  // [part, j, part of the result, bin] of a transform of n elements.
  int matrix_of(int64_t n) {
    const int matrix = add_scratch({2, n, 2, n});
    KernelBuilder k({2, n, 2, n});
    const int to = k.output({dtype_, {2, n, 2, n}});
    const Twiddle t = twiddle(k, irem(k.index(1) * k.index(3), k.integer(n)), n, type_);
    const Ex cross = select(k.index(0) == 0, -t.sin, t.sin);
    k.store(to, select(k.index(0) == k.index(2), t.cos, cross));
    add(k, "matrix", {matrix});
    return matrix;
  }

  // [2, rows, n1, n2] rotated by −2π k1 j2 / length.
  int rotated(int sums, const Rows& z, int64_t n1) {
    const int64_t n2 = z.length / n1;
    const int twiddles = add_scratch({2, n1, n2}), result = add_scratch({2, z.rows, n1, n2});
    KernelBuilder table({n1, n2});
    const int to_table = table.output({dtype_, {2, n1, n2}});
    const Twiddle t = twiddle(table, table.index(0) * table.index(1), z.length, type_);
    put(table, to_table, {int64_t{0}, table.dim(0), table.dim(1)}, t.cos);
    put(table, to_table, {int64_t{1}, table.dim(0), table.dim(1)}, -t.sin);
    add(table, "twiddles", {twiddles});

    KernelBuilder k({z.rows, n1, n2});
    const int from = k.input({dtype_, {2, z.rows, n1, n2}}), by = k.input({dtype_, {2, n1, n2}});
    const int to = k.output({dtype_, {2, z.rows, n1, n2}});
    const auto of = [&](int64_t part) { return at(k, from, {part, k.dim(0), k.dim(1), k.dim(2)}); };
    const auto twiddle_of = [&](int64_t part) { return at(k, by, {part, k.dim(1), k.dim(2)}); };
    store_product(k, to, {of(0), of(1)}, {twiddle_of(0), twiddle_of(1)}, {k.dim(0), k.dim(1), k.dim(2)}, false);
    add(k, "twiddle", {sums, twiddles, result});
    return result;
  }

  struct Pair {
    Ex re, im;
  };
  static Pair product(Pair a, Pair b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  // Real and imaginary part of a product at [part, position…], or exchanged.
  static void store_product(KernelBuilder& k, int to, Pair a, Pair b, std::vector<Coord> position, bool exchanged) {
    const Pair z = product(a, b);
    position.insert(position.begin(), Coord(int64_t{0}));
    for (const int64_t part : {0, 1}) {
      position[0] = Coord(part);
      k.store(to, position, (part == 1) != exchanged ? z.im : z.re);
    }
  }

  // k n = (k² + n² − (k − n)²) / 2: the signal, rotated by n²/2, with a filter of rotations by −n²/2.
  Spectrum by_convolution(const Rows& z) {
    const int64_t n = z.length, length = smooth_length(2 * n - 1);
    const int chirp = chirp_of(n, n, "chirp", true), filter = chirp_of(n, length, "filter", false);
    const Spectrum filtered = transform({filter, 1, length});

    const Rows padded{add_scratch({2, z.rows, length}), z.rows, length};
    KernelBuilder k({z.rows, length});
    const int from = k.input({dtype_, {z.parts, z.rows, n}}), by = k.input({dtype_, {2, n}});
    const int to = k.output({dtype_, {2, z.rows, length}});
    const auto of = [&](int64_t part) {
      return part < z.parts ? at(k, from, {part, k.dim(0), k.dim(1)}) : k.number(0, type_);
    };
    const auto twiddle_of = [&](int64_t part) { return at(k, by, {part, k.dim(1)}); };
    store_product(k, to, {of(0), of(1)}, {twiddle_of(0), twiddle_of(1)}, {k.dim(0), k.dim(1)}, false);
    add(k, "twiddle", {z.value, chirp, padded.value});

    // Back by a transform of exchanged parts, which are exchanged in what it gives.
    const Rows product = in_place(transform(padded), filtered.value, length, true, 1);
    const Rows found = in_place(transform(product), chirp, n, false, 1 / static_cast<double>(length));
    return {found.value, z.rows, n, {{n, 1}}};
  }

  // [2, length]: twiddles by ∓j²/2 · 2π/n at j, and at length − j where there are more elements than n.
  int chirp_of(int64_t n, int64_t length, std::string_view name, bool down) {
    const int value = add_scratch({2, length});
    KernelBuilder k({length});
    const int to = k.output({dtype_, {2, length}});
    const Ex back = length - k.index(0), position = length > n ? min(k.index(0), back) : k.index(0);
    const Twiddle t = twiddle(k, irem(position * position, k.integer(2 * n)), 2 * n, type_);
    const auto there = [&](Ex x) { return length > n ? select(position < n, x, 0.0) : x; };
    put(k, to, {int64_t{0}, k.dim(0)}, there(t.cos));
    put(k, to, {int64_t{1}, k.dim(0)}, there(down ? -t.sin : t.sin));
    add(k, name, {value});
    return value;
  }

  // The first `kept` bins in their order, times what `by` has for them: at the same digits (`filtered`), or by bin. A
  // spectrum that was filtered is exchanged behind it, one that is rotated before.
  Rows in_place(const Spectrum& s, int by, int64_t kept, bool filtered, double scale) {
    const Rows found{add_scratch({2, s.rows, kept}), s.rows, kept};
    Shape space{s.rows}, within;
    for (const Spectrum::Digit& digit : s.digits) space.push_back(digit.extent), within.push_back(digit.extent);
    KernelBuilder k(space);
    Shape whole_shape = space, table = filtered ? within : Shape{kept};
    whole_shape.insert(whole_shape.begin(), 2), table.insert(table.begin(), 2);
    const int from = k.input({dtype_, whole_shape}), twiddles = k.input({dtype_, table});
    const int to = k.output({dtype_, {2, s.rows, kept}});
    Affine bin;
    std::vector<Coord> digits;
    for (size_t d = 0; d < s.digits.size(); ++d) {
      const auto dim = static_cast<int>(d) + 1;
      bin = bin + k.dim(dim) * s.digits[d].weight;
      digits.emplace_back(k.dim(dim));
    }
    const auto of = [&](int64_t part) {
      std::vector<Coord> position{Coord(part), Coord(k.dim(0))};
      position.insert(position.end(), digits.begin(), digits.end());
      const Ex x = k.load(from, position);
      return scale == 1 ? x : x * scale;
    };
    const auto twiddle_of = [&](int64_t part) {
      std::vector<Coord> position{Coord(part)};
      if (filtered)
        position.insert(position.end(), digits.begin(), digits.end());
      else
        position.emplace_back(bin);
      return k.load(twiddles, position);
    };
    const Pair z = filtered ? Pair{of(0), of(1)} : Pair{of(1), of(0)};
    store_product(k, to, z, {twiddle_of(0), twiddle_of(1)}, {k.dim(0), bin}, filtered);
    add(k, "in_place", {s.value, by, found.value});
    return found;
  }

  const Kernel& outer_;
  const FourierForm form_;
  const Shape rows_;
  const Scalar type_;
  const DType dtype_;
  Unfused result_;
};

}  // namespace

Unfused fourier_steps(const Kernel& kernel) { return Speller(kernel).run(); }

}  // namespace npusim
