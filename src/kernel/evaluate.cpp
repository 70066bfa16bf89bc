// The scalar interpreter of kernel IR.
#include "kernel/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <exception>
#include <limits>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "base/threads.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/index_form.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/scalar.h"

namespace npusim {
namespace {

using Index = std::vector<int64_t>;

// Steps a multi-index through a box of extents; false after the last one.
bool advance(Index& index, const std::vector<int64_t>& extents, size_t begin, size_t end) {
  for (size_t d = end; d-- > begin;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

// log(exp(a) + exp(b)); NaN where either is.
double log_of_both(double a, double b) {
  if (a == b) return a + std::log(2.0);
  return std::isnan(a) || std::isnan(b) ? a + b
                                        : std::max(a, b) + std::log1p(std::exp(std::min(a, b) - std::max(a, b)));
}

// An operand of a contraction: what the summed dimensions add to its address and to each of its guards, to which a
// point of the space adds its part; and the operand there for the point that was asked for last.
struct Summed {
  const Access* access = nullptr;
  std::vector<int64_t> offsets;              // by point
  std::vector<std::vector<int64_t>> guards;  // by guard, by point
  std::vector<int64_t> starts = {};          // what the space adds: to the address, to each guard
  std::vector<double> factors = {};          // by point

  Summed(const Access& a, const std::vector<int64_t>& reduce, size_t rank) : access(&a), guards(a.guards.size()) {
    if (element_count(reduce) == 0) return;
    Index at(reduce.size(), 0);
    const auto part = [&](const std::vector<int64_t>& strides) {
      int64_t sum = 0;
      for (size_t d = 0; d < at.size(); ++d) sum += strides[rank + d] * at[d];
      return sum;
    };
    do {
      offsets.push_back(part(a.strides));
      for (size_t g = 0; g < guards.size(); ++g) guards[g].push_back(part(a.guards[g].coeffs));
    } while (advance(at, reduce, 0, at.size()));
    factors.resize(offsets.size());
  }
};

class Evaluator {
 public:
  Evaluator(const Kernel& kernel, std::span<void* const> memory, bool single)
      : k_(kernel),
        memory_(memory),
        single_(single),
        values_(kernel.exprs.size()),
        depends_(dependence_of(kernel)),
        row_(row_of(kernel)),
        carry_(kernel.exprs.size()) {
    for (int stage : depends_.stage) last_stage_ = std::max(last_stage_, stage);
    if (has_order(k_)) order_ = order_form(k_);
    if (has_fourier(k_)) fourier_ = fourier_form(k_);
    for (const Store& s : k_.stores) store_varies_.push_back((dims_of(s.access, depends_) & row_) != 0);
    if (k_.contraction && k_.contraction->kind != ContractionKind::attention)
      for (const Access* access : {&k_.contraction->a, &k_.contraction->b})
        summed_.emplace_back(*access, k_.contraction->reduce, k_.space.size());
    if (!k_.contraction || k_.contraction->kind != ContractionKind::attention) return;
    score_kernel_ = std::make_unique<const Kernel>(score_kernel(k_));
    score_ = std::make_unique<Evaluator>(*score_kernel_, memory_, single_);
    if (k_.contraction->score->keys < 0) return;
    key_count_ = std::make_unique<const Kernel>(key_count(k_));
    counter_ = std::make_unique<Evaluator>(*key_count_, memory_, single_);
  }

  // Rows [begin, end) of the kernel, in the order of its space.
  void run(int64_t begin, int64_t end) {
    const size_t outer = k_.space.size() - static_cast<size_t>(k_.row_dims);
    Index index(k_.space.size(), 0);
    int64_t left = begin;
    for (size_t d = outer; begin < end && d-- > 0; left /= k_.space[d]) index[d] = left % k_.space[d];
    for (int64_t at = begin; at < end; ++at, advance(index, k_.space, 0, outer))
      order_ ? ordered_row(index) : fourier_ ? transformed_row(index) : row(index, outer);
  }

  // The expression's value at a point of a kernel without a row.
  Number at(const Index& index, int32_t expr) {
    for (size_t i = 0; i <= static_cast<size_t>(expr); ++i) values_[i] = value(i, index);
    return values_[static_cast<size_t>(expr)];
  }

 private:
  void ordered_row(Index& index) {
    int64_t& along = index.back();
    const Scalar type = k_.exprs[0].type;
    std::vector<Number> elements;
    std::vector<int64_t> order;
    for (along = 0; along < order_->length; ++along) {
      elements.push_back(read(*order_->from, index, type));
      order.push_back(along);
    }
    const auto is_before = [&](int64_t a, int64_t b) {
      const Number &x = elements[static_cast<size_t>(a)], &y = elements[static_cast<size_t>(b)];
      if (type < Scalar::f32) return order_->descending ? y.i < x.i : x.i < y.i;
      if (std::isnan(x.f) || std::isnan(y.f)) return order_->descending ? !std::isnan(y.f) : !std::isnan(x.f);
      return order_->descending ? y.f < x.f : x.f < y.f;
    };
    std::stable_sort(order.begin(), order.end(), is_before);
    for (along = 0; along < order_->length; ++along) {
      values_[1] = {0, order[static_cast<size_t>(along)]};
      write(k_.stores[0], index);
    }
    along = 0;
  }

  void transformed_row(Index& index) {
    using Complex = std::complex<double>;
    const FourierForm& f = *fourier_;
    int64_t& along = index.back();
    std::vector<Complex> z(static_cast<size_t>(f.length));
    for (along = 0; along < f.length; ++along)
      z[static_cast<size_t>(along)] = {read(*f.re.access, index, Scalar::f64).f,
                                       f.im ? read(*f.im->access, index, Scalar::f64).f : 0};
    std::vector<Complex> found = transform(f.signal ? whole_spectrum(std::move(z)) : std::move(z));
    for (along = 0; along < f.length; ++along) {
      const Complex bin = found[static_cast<size_t>(along)];
      const bool real = !f.im && (along == 0 || 2 * along == f.length);
      const double parts[] = {bin.real(), real ? 0 : bin.imag()};
      for (const Store& s : k_.stores)
        for (const size_t part : {0, 1})
          if (f.parts[part] && f.parts[part]->to.access == &s.access) {
            values_[static_cast<size_t>(s.expr)] = {parts[part] * f.parts[part]->scale, 0};
            write(s, index);
          }
    }
    along = 0;
  }

  // The conjugate of all that the first half is a half of: its transform is the signal.
  static std::vector<std::complex<double>> whole_spectrum(std::vector<std::complex<double>> z) {
    const size_t size = z.size();
    for (size_t k = 0; 2 * k <= size && k < size; ++k) {
      if (k == 0 || 2 * k == size) z[k] = z[k].real();
      z[(size - k) % size] = z[k];
      z[k] = std::conj(z[k]);
    }
    return z;
  }

  // Cooley and Tukey, by the smallest factor; a prime length by its definition.
  static std::vector<std::complex<double>> transform(std::vector<std::complex<double>> z) {
    const size_t size = z.size();
    size_t factor = 2;
    while (factor * factor <= size && size % factor != 0) ++factor;
    if (size < 2) return z;
    if (size % factor != 0) factor = size;
    const size_t rest = size / factor;
    std::vector<std::complex<double>> twiddles(size), found(size), part(rest);
    for (size_t k = 0; k < size; ++k)
      twiddles[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size));
    for (size_t first = 0; first < factor; ++first) {
      for (size_t i = 0; i < rest; ++i) part[i] = z[first + factor * i];
      part = transform(std::move(part));
      for (size_t k = 0; k < size; ++k) found[k] += part[k % rest] * twiddles[first * k % size];
    }
    return found;
  }

  void row(Index& index, size_t outer) {
    const size_t rank = k_.space.size();
    const bool empty = element_count({k_.space.begin() + static_cast<std::ptrdiff_t>(outer), k_.space.end()}) == 0;
    for (int stage = 0; stage <= last_stage_; ++stage) {
      for (size_t i = 0; i < k_.exprs.size(); ++i) {
        if (k_.exprs[i].op == ExprOp::reduce && depends_.stage[i] == stage + 1)
          values_[i] = identity(k_.exprs[i].reduction);
        if (const Expr& e = k_.exprs[i]; e.op == ExprOp::scan)
          carry_[i] = identity(e.integer ? Reduction::max : e.reduction);
      }
      std::fill(index.begin() + static_cast<std::ptrdiff_t>(outer), index.end(), 0);
      if (empty) continue;
      do {
        for (size_t i = 0; i < k_.exprs.size(); ++i) {
          const Expr& e = k_.exprs[i];
          if (depends_.stage[i] > stage + (e.op == ExprOp::reduce ? 1 : 0)) continue;
          if (e.op != ExprOp::reduce)
            values_[i] = value(i, index);
          else if (depends_.stage[i] == stage + 1)
            values_[i] = rounded(e.type, combine(e.reduction, values_[i], values_[static_cast<size_t>(e.in[0])]));
        }
        if (stage == last_stage_) write_stores(index, true);
      } while (advance(index, k_.space, outer, rank));
    }
    // In an empty row reductions keep their identities. What is the same along the row still has a value; what varies
    // has none: reading or dividing for it could trap.
    for (size_t i = 0; empty && i < k_.exprs.size(); ++i)
      if (!(depends_.dims[i] & row_)) values_[i] = value(i, index);
    write_stores(index, false);
  }

  // Those that differ along the row at each of its points, the others once.
  void write_stores(const Index& index, bool varying) {
    for (size_t i = 0; i < k_.stores.size(); ++i)
      if (store_varies_[i] == varying) write(k_.stores[i], index);
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
    const DType dtype = k_.args[static_cast<size_t>(a.arg)].dtype;
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
    const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
    void* data = memory_[static_cast<size_t>(s.access.arg)];
    Number n = values_[static_cast<size_t>(s.expr)];
    if (s.accumulate && is_integer(dtype)) n.i = wrap_through(dtype, n.i);
    if (s.accumulate)
      n = combine(s.reduction,
                  is_float(dtype) ? Number{load_double(data, dtype, at), 0} : Number{0, load_int(data, dtype, at)}, n);
    if (is_float(dtype))
      store_double(data, dtype, at, n.f);
    else
      store_int(data, dtype, at, n.i);
  }

  [[noreturn]] void trap(const Access& a, int32_t expr) const {
    for (const IndexTerm& t : a.terms)
      if (t.expr == expr)
        fail(ErrorKind::bad_input, "index {} is out of range for a dimension of {}",
             index_as_given(values_[static_cast<size_t>(expr)].i, added_to_negative(k_, t)), t.extent);
    fail(ErrorKind::internal, "evaluate: no index term e{}", expr);
  }

  Number rounded(Scalar type, Number n) const {
    if (single_ && type == Scalar::f32) n.f = static_cast<float>(n.f);
    return n;
  }

  Number contraction(const Index& index, bool log) {
    if (k_.contraction->kind == ContractionKind::attention) return attention(index, log);
    for (Summed& operand : summed_) gather(operand, index);
    Number sum;
    const std::vector<double>&x = summed_[0].factors, &y = summed_[1].factors;
    for (size_t i = 0; i < x.size(); ++i) sum.f += x[i] * y[i];
    return sum;
  }

  // A contraction's operand at every point that is summed, for one point of the space; 0 where a guard does not hold.
  void gather(Summed& operand, const Index& index) const {
    const Access& access = *operand.access;
    std::vector<int64_t> starts{access.offset};
    const auto add = [&](int64_t& sum, const std::vector<int64_t>& strides) {
      for (size_t d = 0; d < index.size(); ++d) sum += strides[d] * index[d];
    };
    add(starts[0], access.strides);
    for (const Guard& guard : access.guards) add(starts.emplace_back(guard.offset), guard.coeffs);
    if (starts == operand.starts) return;
    operand.starts = starts;
    const DType dtype = k_.args[static_cast<size_t>(access.arg)].dtype;
    const std::byte* data = static_cast<const std::byte*>(memory_[static_cast<size_t>(access.arg)]);
    for (size_t i = 0; i < operand.factors.size(); ++i) {
      int64_t at = starts[0] + operand.offsets[i];
      bool holds = true;
      for (size_t g = 0; g < access.guards.size(); ++g) {
        const int64_t value = starts[1 + g] + operand.guards[g][i];
        holds = holds && value >= 0 && value < access.guards[g].limit;
        at += access.guards[g].stride * value;
      }
      uint32_t bits = 0;  // of a float; both are faster than load_double
      if (holds && dtype == DType::f32) std::memcpy(&bits, data + at * 4, 4);
      if (holds && dtype == DType::bf16) std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, data + at * 2, 2);
      const bool other = dtype != DType::f32 && dtype != DType::bf16;
      operand.factors[i] = holds && other ? load_double(data, dtype, at) : std::bit_cast<float>(bits);
    }
  }

  Number attention(const Index& index, bool log) {
    const Contraction& c = *k_.contraction;
    const Index query(index.begin(), index.end() - 1);
    if (query != query_) {
      query_ = query;
      Index at = query;
      at.push_back(0);
      int64_t keys = c.reduce[0];
      if (counter_) keys = std::clamp<int64_t>(counter_->at(at, key_count_->stores[0].expr).i, 0, keys);
      weights_.resize(static_cast<size_t>(keys));
      double top = -std::numeric_limits<double>::infinity();
      for (size_t key = 0; key < weights_.size(); ++key) {
        at.back() = static_cast<int64_t>(key);
        weights_[key] = score_->at(at, c.score->result).f;
        top = combine(Reduction::max, {top, 0}, {weights_[key], 0}).f;
      }
      double sum = 0;
      const bool empty = c.masked_rows_are_zero && std::isinf(top) && top < 0;
      for (double& w : weights_) sum += w = empty ? 0 : std::exp(w - top);
      log_ = std::isinf(top) && top < 0 ? top : top + std::log(sum);
      for (double& w : weights_) w = empty ? 0 : w / sum;
    }
    if (log) return {log_, 0};
    Index all = index;
    all.push_back(0);
    Number sum;
    for (size_t key = 0; key < weights_.size(); ++key) {
      all.back() = static_cast<int64_t>(key);
      sum.f += weights_[key] * read(c.b, all, Scalar::f64).f;
    }
    return sum;
  }

  Number value(size_t i, const Index& index) {
    const Expr& e = k_.exprs[i];
    const auto operand = [&](size_t n) { return e.in[n] >= 0 ? values_[static_cast<size_t>(e.in[n])] : Number{}; };
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
        return rounded(e.type, contraction(index, e.integer == 1));
      case ExprOp::select:
        return operand(0).i ? operand(1) : operand(2);
      case ExprOp::scan:
        if (e.integer) return carry_[i] = rounded(e.type, {log_of_both(carry_[i].f, operand(0).f), 0});
        return carry_[i] = rounded(e.type, combine(e.reduction, carry_[i], operand(0)));
      case ExprOp::reduce:
        return values_[i];
      default:
        return rounded(e.type, apply(e, k_.exprs[static_cast<size_t>(e.in[0])].type, operand(0), operand(1)));
    }
  }

  const Kernel& k_;
  std::span<void* const> memory_;
  bool single_;
  std::vector<Number> values_;
  Dependence depends_;
  DimSet row_;
  int last_stage_ = 0;
  std::optional<OrderForm> order_;      // of a kernel that orders rows
  std::optional<FourierForm> fourier_;  // of one that transforms them
  std::vector<bool> store_varies_;      // along the row
  std::vector<Number> carry_;           // scans
  std::vector<Summed> summed_;          // the two operands of a product
  std::unique_ptr<const Kernel> score_kernel_, key_count_;
  std::unique_ptr<Evaluator> score_, counter_;
  std::optional<Index> query_;  // the query whose softmax weights are at hand
  std::vector<double> weights_;
  double log_ = 0;  // of their sum before they were divided by it
};

}  // namespace

void evaluate(const Kernel& kernel, std::span<void* const> args, bool single) {
  if (kernel.call) fail(ErrorKind::internal, "{} is done by a plugin", kernel.call->op);
  const int64_t rows = element_count({kernel.space.begin(), kernel.space.end() - kernel.row_dims});
  if (!kernel.contraction || order_matters(kernel)) return Evaluator(kernel, args, single).run(0, rows);
  // Points of a contraction are long and their own: all cores.
  parallel_for(rows, 64, [&](int64_t begin, int64_t end, int) { Evaluator(kernel, args, single).run(begin, end); });
}

}  // namespace npusim
