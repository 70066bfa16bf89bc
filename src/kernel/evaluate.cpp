// The scalar interpreter of kernel IR.
#include "kernel/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace npusim {
namespace {

struct Number {  // `i` holds boolean and i64 expressions, `f` the floats
  double f = 0;
  int64_t i = 0;
};

using Index = std::vector<int64_t>;

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

double nan_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double nan_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

double float_unary(ExprOp op, double x) {
  switch (op) {
    case ExprOp::neg:
      return -x;
    case ExprOp::abs:
      return std::fabs(x);
    case ExprOp::exp:
      return std::exp(x);
    case ExprOp::exp2:
      return std::exp2(x);
    case ExprOp::expm1:
      return std::expm1(x);
    case ExprOp::log:
      return std::log(x);
    case ExprOp::log2:
      return std::log2(x);
    case ExprOp::log10:
      return std::log10(x);
    case ExprOp::log1p:
      return std::log1p(x);
    case ExprOp::sqrt:
      return std::sqrt(x);
    case ExprOp::rsqrt:
      return 1 / std::sqrt(x);
    case ExprOp::sin:
      return std::sin(x);
    case ExprOp::cos:
      return std::cos(x);
    case ExprOp::tan:
      return std::tan(x);
    case ExprOp::asin:
      return std::asin(x);
    case ExprOp::acos:
      return std::acos(x);
    case ExprOp::atan:
      return std::atan(x);
    case ExprOp::sinh:
      return std::sinh(x);
    case ExprOp::cosh:
      return std::cosh(x);
    case ExprOp::tanh:
      return std::tanh(x);
    case ExprOp::asinh:
      return std::asinh(x);
    case ExprOp::acosh:
      return std::acosh(x);
    case ExprOp::atanh:
      return std::atanh(x);
    case ExprOp::erf:
      return std::erf(x);
    case ExprOp::erfc:
      return std::erfc(x);
    case ExprOp::floor:
      return std::floor(x);
    case ExprOp::ceil:
      return std::ceil(x);
    case ExprOp::round:
      return std::nearbyint(x);
    case ExprOp::trunc:
      return std::trunc(x);
    default:
      fail(ErrorKind::internal, "evaluate: {} of a float", expr_op_name(op));
  }
}

double float_binary(ExprOp op, double a, double b) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      return a / b;
    case ExprOp::min:
      return nan_min(a, b);
    case ExprOp::max:
      return nan_max(a, b);
    case ExprOp::pow:
      return std::pow(a, b);
    case ExprOp::fmod:
      return std::fmod(a, b);
    case ExprOp::atan2:
      return std::atan2(a, b);
    default:
      fail(ErrorKind::internal, "evaluate: {} of floats", expr_op_name(op));
  }
}

int64_t integer_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1, base = wrap_mul(base, base))
    if (exponent & 1) result = wrap_mul(result, base);
  return result;
}

int64_t int_binary(ExprOp op, int64_t a, int64_t b) {
  switch (op) {
    case ExprOp::add:
      return wrap_add(a, b);
    case ExprOp::sub:
      return wrap_sub(a, b);
    case ExprOp::mul:
      return wrap_mul(a, b);
    case ExprOp::min:
      return std::min(a, b);
    case ExprOp::max:
      return std::max(a, b);
    case ExprOp::pow:
      return integer_pow(a, b);
    case ExprOp::idiv:
    case ExprOp::irem:
      if (b == 0) fail(ErrorKind::bad_input, "integer division by zero");
      if (b == -1) return op == ExprOp::idiv ? wrap_sub(0, a) : 0;
      return op == ExprOp::idiv ? a / b : a % b;
    case ExprOp::bit_and:
      return a & b;
    case ExprOp::bit_or:
      return a | b;
    case ExprOp::bit_xor:
      return a ^ b;
    case ExprOp::shl:
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case ExprOp::shr:
      return a >> (b < 0 || b > 63 ? 63 : b);
    default:
      fail(ErrorKind::internal, "evaluate: {} of integers", expr_op_name(op));
  }
}

template <typename T>
bool compare(ExprOp op, T a, T b) {
  switch (op) {
    case ExprOp::eq:
      return a == b;
    case ExprOp::ne:
      return a != b;
    case ExprOp::lt:
      return a < b;
    default:
      return a <= b;
  }
}

Number identity(Reduction reduction) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  switch (reduction) {
    case Reduction::sum:
      return {0, 0};
    case Reduction::product:
      return {1, 1};
    case Reduction::min:
      return {inf, std::numeric_limits<int64_t>::max()};
    case Reduction::max:
      return {-inf, std::numeric_limits<int64_t>::min()};
  }
  return {};
}

Number combine(Reduction reduction, Number a, Number b) {
  switch (reduction) {
    case Reduction::sum:
      return {a.f + b.f, wrap_add(a.i, b.i)};
    case Reduction::product:
      return {a.f * b.f, wrap_mul(a.i, b.i)};
    case Reduction::min:
      return {nan_min(a.f, b.f), std::min(a.i, b.i)};
    case Reduction::max:
      return {nan_max(a.f, b.f), std::max(a.i, b.i)};
  }
  return {};
}

// Steps a multi-index through a box of extents; false after the last one.
bool advance(Index& index, const std::vector<int64_t>& extents, size_t begin, size_t end) {
  for (size_t d = end; d-- > begin;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

class Evaluator {
 public:
  Evaluator(const Kernel& kernel, const std::vector<KernelArg>& args, std::span<void* const> memory, bool single)
      : k_(kernel),
        args_(args),
        memory_(memory),
        single_(single),
        values_(kernel.exprs.size()),
        stages_(kernel.exprs.size()),
        carry_(kernel.exprs.size()) {
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      const Expr& e = k_.exprs[i];
      int stage = 0;
      for (int n = 0; n < expr_arity(e.op); ++n)
        stage = std::max(stage, stages_[static_cast<size_t>(e.in[static_cast<size_t>(n)])]);
      if (e.op == ExprOp::load)
        for (const IndexTerm& t : k_.accesses[static_cast<size_t>(e.integer)].terms)
          stage = std::max(stage, stages_[static_cast<size_t>(t.expr)]);
      stages_[i] = stage + (e.op == ExprOp::reduce);
      last_stage_ = std::max(last_stage_, stages_[i]);
    }
    if (k_.contraction && k_.contraction->kind == ContractionKind::attention)
      score_ = std::make_unique<Evaluator>(*k_.contraction->score, args_, memory_, single_);
  }

  void run() {
    const size_t rank = k_.space.size();
    const size_t outer = rank - static_cast<size_t>(k_.row_dims);
    if (element_count({k_.space.begin(), k_.space.begin() + static_cast<std::ptrdiff_t>(outer)}) == 0) return;
    Index index(rank, 0);
    do row(index, outer);
    while (advance(index, k_.space, 0, outer));
  }

  // The expression's value at a point of a kernel without a row.
  Number at(const Index& index, int32_t expr) {
    for (size_t i = 0; i <= static_cast<size_t>(expr); ++i) values_[i] = value(i, index);
    return values_[static_cast<size_t>(expr)];
  }

 private:
  void row(Index& index, size_t outer) {
    const size_t rank = k_.space.size();
    const bool empty = element_count({k_.space.begin() + static_cast<std::ptrdiff_t>(outer), k_.space.end()}) == 0;
    for (int stage = 0; stage <= last_stage_; ++stage) {
      for (size_t i = 0; i < k_.exprs.size(); ++i) {
        if (k_.exprs[i].op == ExprOp::reduce && stages_[i] == stage + 1) values_[i] = identity(k_.exprs[i].reduction);
        if (k_.exprs[i].op == ExprOp::scan) carry_[i] = identity(k_.exprs[i].reduction);
      }
      std::fill(index.begin() + static_cast<std::ptrdiff_t>(outer), index.end(), 0);
      if (empty) {
        // Reductions keep their identities; what is the same along the row is still stored once.
        if (stage == last_stage_) {
          for (size_t i = 0; i < k_.exprs.size(); ++i)
            if (k_.exprs[i].op != ExprOp::reduce && k_.exprs[i].op != ExprOp::load) values_[i] = value(i, index);
          for (const Store& s : k_.stores)
            if (along_row_constant(s.access, outer)) write(s, index);
        }
        continue;
      }
      do {
        for (size_t i = 0; i < k_.exprs.size(); ++i) {
          const Expr& e = k_.exprs[i];
          if (stages_[i] > stage + (e.op == ExprOp::reduce ? 1 : 0)) continue;
          if (e.op != ExprOp::reduce)
            values_[i] = value(i, index);
          else if (stages_[i] == stage + 1)
            values_[i] = rounded(e.type, combine(e.reduction, values_[i], values_[static_cast<size_t>(e.in[0])]));
        }
        if (stage == last_stage_)
          for (const Store& s : k_.stores) write(s, index);
      } while (advance(index, k_.space, outer, rank));
    }
  }

  bool along_row_constant(const Access& a, size_t outer) const {
    return std::all_of(a.strides.begin() + static_cast<std::ptrdiff_t>(outer), a.strides.end(),
                       [](int64_t s) { return s == 0; });
  }

  // The element's position, or -1 where a guard does not hold.
  int64_t address(const Access& a, const Index& index) const {
    int64_t at = a.offset;
    for (size_t d = 0; d < index.size(); ++d) at += a.strides[d] * index[d];
    for (const Guard& g : a.guards) {
      int64_t value = g.offset;
      for (size_t d = 0; d < index.size(); ++d) value += g.coeffs[d] * index[d];
      if (value < 0 || value >= g.limit) return -1;
      at += g.stride * value;
    }
    for (const IndexTerm& t : a.terms) {
      const int64_t value = values_[static_cast<size_t>(t.expr)].i;
      if (value < 0 || value >= t.extent) return -2 - t.expr;
      at += t.stride * value;
    }
    return at;
  }

  Number read(const Access& a, const Index& index, Scalar type) const {
    const int64_t at = address(a, index);
    if (at == -1) return {};
    const DType dtype = args_[static_cast<size_t>(a.arg)].dtype;
    if (at < 0) return {};  // an index outside its extent: stores and selects decide; trapped in value()
    const void* data = memory_[static_cast<size_t>(a.arg)];
    Number n;
    if (type >= Scalar::f32)
      n.f = load_double(data, dtype, at);
    else
      n.i = type == Scalar::boolean && is_float(dtype) ? load_double(data, dtype, at) != 0 : load_int(data, dtype, at);
    if (type == Scalar::boolean) n.i = n.i != 0;
    return n;
  }

  void write(const Store& s, const Index& index) {
    const int64_t at = address(s.access, index);
    if (at == -1) return;
    if (at < 0) trap(s.access, static_cast<int32_t>(-2 - at));
    const DType dtype = args_[static_cast<size_t>(s.access.arg)].dtype;
    void* data = memory_[static_cast<size_t>(s.access.arg)];
    const Number n = values_[static_cast<size_t>(s.expr)];
    if (k_.exprs[static_cast<size_t>(s.expr)].type >= Scalar::f32)
      store_double(data, dtype, at, s.accumulate ? load_double(data, dtype, at) + n.f : n.f);
    else if (is_float(dtype))
      store_double(data, dtype, at, static_cast<double>(n.i) + (s.accumulate ? load_double(data, dtype, at) : 0));
    else
      store_int(data, dtype, at, s.accumulate ? wrap_add(load_int(data, dtype, at), n.i) : n.i);
  }

  [[noreturn]] void trap(const Access& a, int32_t expr) const {
    for (const IndexTerm& t : a.terms)
      if (t.expr == expr)
        fail(ErrorKind::bad_input, "index {} is out of range for a dimension of {}",
             values_[static_cast<size_t>(expr)].i, t.extent);
    fail(ErrorKind::internal, "evaluate: no index term e{}", expr);
  }

  Number rounded(Scalar type, Number n) const {
    if (single_ && type == Scalar::f32) n.f = static_cast<float>(n.f);
    return n;
  }

  Number contraction(const Index& index) {
    const Contraction& c = *k_.contraction;
    if (c.kind == ContractionKind::attention) return attention(index);
    Index all = index;
    all.resize(index.size() + c.reduce.size(), 0);
    Number sum;
    if (element_count(c.reduce) == 0) return sum;
    std::vector<int64_t> extents = k_.space;
    extents.insert(extents.end(), c.reduce.begin(), c.reduce.end());
    do sum.f += read(c.a, all, Scalar::f64).f * read(c.b, all, Scalar::f64).f;
    while (advance(all, extents, index.size(), all.size()));
    return sum;
  }

  Number attention(const Index& index) {
    const Contraction& c = *k_.contraction;
    const auto keys = static_cast<size_t>(c.reduce[0]);
    const Index query(index.begin(), index.end() - 1);
    if (query != query_ || weights_.size() != keys) {
      query_ = query;
      weights_.resize(keys);
      Index at = query;
      at.push_back(0);
      double top = -std::numeric_limits<double>::infinity();
      for (size_t key = 0; key < keys; ++key) {
        at.back() = static_cast<int64_t>(key);
        weights_[key] = score_->at(at, c.score->stores[0].expr).f;
        top = nan_max(top, weights_[key]);
      }
      double sum = 0;
      const bool empty = c.masked_rows_are_zero && std::isinf(top) && top < 0;
      for (double& w : weights_) sum += w = empty ? 0 : std::exp(w - top);
      for (double& w : weights_) w = empty ? 0 : w / sum;
    }
    Index all = index;
    all.push_back(0);
    Number sum;
    for (size_t key = 0; key < keys; ++key) {
      all.back() = static_cast<int64_t>(key);
      sum.f += weights_[key] * read(c.b, all, Scalar::f64).f;
    }
    return sum;
  }

  Number value(size_t i, const Index& index) {
    const Expr& e = k_.exprs[i];
    const Number a = e.in[0] >= 0 ? values_[static_cast<size_t>(e.in[0])] : Number{};
    const Number b = e.in[1] >= 0 ? values_[static_cast<size_t>(e.in[1])] : Number{};
    const Scalar in_type = e.in[0] >= 0 ? k_.exprs[static_cast<size_t>(e.in[0])].type : Scalar::f32;
    const bool floats = in_type >= Scalar::f32;
    switch (e.op) {
      case ExprOp::constant:
        return {e.number, e.integer};
      case ExprOp::index:
        return {0, index[static_cast<size_t>(e.integer)]};
      case ExprOp::load: {
        const Access& access = k_.accesses[static_cast<size_t>(e.integer)];
        const int64_t at = address(access, index);
        if (at < -1) trap(access, static_cast<int32_t>(-2 - at));
        return read(access, index, e.type);
      }
      case ExprOp::contraction:
        return rounded(e.type, contraction(index));
      case ExprOp::isnan:
        return {0, floats && std::isnan(a.f)};
      case ExprOp::logical_not:
        return {0, floats ? a.f == 0 : a.i == 0};
      case ExprOp::eq:
      case ExprOp::ne:
      case ExprOp::lt:
      case ExprOp::le:
        return {0, floats ? compare(e.op, a.f, b.f) : compare(e.op, a.i, b.i)};
      case ExprOp::select:
        return a.i ? b : values_[static_cast<size_t>(e.in[2])];
      case ExprOp::cast:
        if (e.type >= Scalar::f32) return rounded(e.type, {floats ? a.f : static_cast<double>(a.i), 0});
        if (e.type == Scalar::boolean) return {0, floats ? a.f != 0 : a.i != 0};
        return {0, floats ? wrap_through(DType::i64, to_integer(a.f)) : a.i};
      case ExprOp::round_to:
        return floats ? rounded(e.type, {round_through(e.dtype, a.f), 0}) : Number{0, wrap_through(e.dtype, a.i)};
      case ExprOp::scan:
        return carry_[i] = rounded(e.type, combine(e.reduction, carry_[i], a));
      case ExprOp::reduce:
        return values_[i];
      default:
        break;
    }
    if (expr_arity(e.op) == 1) {
      if (floats) return rounded(e.type, {float_unary(e.op, a.f), 0});
      return {0, e.op == ExprOp::neg ? wrap_sub(0, a.i) : a.i < 0 ? wrap_sub(0, a.i) : a.i};
    }
    if (floats) return rounded(e.type, {float_binary(e.op, a.f, b.f), 0});
    return {0, int_binary(e.op, a.i, b.i)};
  }

  // As x86 converts: what does not fit (and NaN) gives the smallest integer.
  static int64_t to_integer(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x)
                                                                    : std::numeric_limits<int64_t>::min();
  }

  const Kernel& k_;
  const std::vector<KernelArg>& args_;
  std::span<void* const> memory_;
  bool single_;
  std::vector<Number> values_;
  std::vector<int> stages_;  // how many reductions an expression waits for
  int last_stage_ = 0;
  std::vector<Number> carry_;  // scans
  std::unique_ptr<Evaluator> score_;
  Index query_;  // the query whose softmax weights are at hand
  std::vector<double> weights_;
};

}  // namespace

void evaluate(const Kernel& kernel, std::span<void* const> args, bool single) {
  Evaluator(kernel, kernel.args, args, single).run();
}

}  // namespace npusim
