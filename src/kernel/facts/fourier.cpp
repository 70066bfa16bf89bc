// The one form of kernels that transform rows.
#include "kernel/facts/fourier.h"

#include <algorithm>
#include <cmath>

namespace npusim {
namespace {

bool is_zero(const Expr& e) { return e.op == ExprOp::constant && e.number == 0 && !std::signbit(e.number); }

// The first positions of the row that a guard lets through, which depends on nothing else. A kernel that is not sound
// may have any number of coefficients and strides.
std::optional<FourierForm::Row> row_of(const Kernel& k, const Access& a) {
  const int64_t length = k.space.back();
  if (!a.terms.empty() || a.guards.size() > 1 || a.strides.size() != k.space.size()) return std::nullopt;
  if (a.guards.empty()) return FourierForm::Row{&a, length, a.strides.back()};
  const Guard& guard = a.guards[0];
  const auto zero = [](int64_t c) { return c == 0; };
  if (guard.coeffs.size() != k.space.size() || guard.coeffs.back() != 1 || guard.offset != 0 || guard.limit < 0 ||
      a.strides.back() != 0 || !std::all_of(guard.coeffs.begin(), guard.coeffs.end() - 1, zero))
    return std::nullopt;
  return FourierForm::Row{&a, std::min(guard.limit, length), guard.stride};
}

// What is stored: a transform, or one times a constant.
struct Stored {
  const Expr* transform = nullptr;
  double scale = 1;
};

Stored stored_by(const Kernel& k, const Store& s) {
  if (s.expr < 0 || static_cast<size_t>(s.expr) >= k.exprs.size()) return {};
  const auto expr = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  const Expr& e = expr(s.expr);
  if (is_fourier(e)) return {&e, 1};
  if (e.op != ExprOp::mul) return {};
  for (const size_t n : {0, 1})
    if (const Expr& a = expr(e.in[n]), &b = expr(e.in[1 - n]); is_fourier(a) && b.op == ExprOp::constant)
      return {&a, b.number};
  return {};
}

std::string form_of(const Kernel& k, FourierForm& form) {
  if (k.row_dims != 1) return "a transform is along one dimension";
  form.length = k.space.back();
  if (form.length < 1) return "a transform of no elements";
  if (k.contraction || k.stores.empty()) return "a kernel that transforms does nothing but load, transform and store";
  const Expr* first = nullptr;
  size_t used = 0;  // by what is stored
  for (const Store& s : k.stores) {
    const Stored stored = stored_by(k, s);
    if (!stored.transform || s.accumulate) return "a transform is stored as it is, or times a constant";
    if (first && first->in != stored.transform->in) return "transforms of different rows in one kernel";
    first = stored.transform;
    const bool signal = first->op == ExprOp::fourier_signal;
    if (k.stores.size() > (signal ? 1 : 2)) return "more results than a transform has";
    auto& part = form.parts[first->op == ExprOp::fourier_im];
    const auto row = row_of(k, s.access);
    const KernelArg* arg = s.access.arg < 0 || static_cast<size_t>(s.access.arg) >= k.args.size()
                               ? nullptr
                               : &k.args[static_cast<size_t>(s.access.arg)];
    if (part || !row || !arg || arg->updates >= 0) return "a transform's first bins are stored, each part once";
    part = {*row, stored.scale};
    form.signal = signal;
    used += &k.exprs[static_cast<size_t>(s.expr)] == first ? 1 : 2;
  }
  const Expr &re = k.exprs[static_cast<size_t>(first->in[0])], &im = k.exprs[static_cast<size_t>(first->in[1])];
  if (re.op != ExprOp::load || (im.op != ExprOp::load && !is_zero(im))) return "what is transformed is loaded";
  const auto loaded = [&](const Expr& e) { return row_of(k, k.accesses[static_cast<size_t>(e.integer)]); };
  const auto row = loaded(re), other = im.op == ExprOp::load ? loaded(im) : row;
  if (!row || !other) return "a row that is transformed is loaded from its beginning on, without index terms";
  form.re = *row;
  if (im.op == ExprOp::load) form.im = *other;
  // The operands, and each part with its scale: constants that are equal are one.
  size_t constants = 0;
  for (const Expr& e : k.exprs) constants += e.op == ExprOp::constant;
  const size_t loads = 1 + (im.op == ExprOp::load && &im != &re);
  if (k.exprs.size() != loads + used + constants || k.accesses.size() != loads)
    return "a kernel that transforms does nothing but load, transform and store";
  // What a device prepares is as long as the row, and so in proportion to memory that is there.
  int64_t largest = 0;
  for (const KernelArg& arg : k.args) largest = std::max(largest, arg.elements);
  const bool rows = std::find(k.space.begin(), k.space.end(), 0) == k.space.end();
  if (rows && form.length / 2 > largest) return "a row that is transformed is longer than what any argument has";
  return "";
}

}  // namespace

bool is_fourier(const Expr& e) {
  return e.op == ExprOp::fourier_re || e.op == ExprOp::fourier_im || e.op == ExprOp::fourier_signal;
}

bool has_fourier(const Kernel& k) { return std::any_of(k.exprs.begin(), k.exprs.end(), is_fourier); }

int64_t smooth_length(int64_t least) {
  for (;; ++least) {
    int64_t rest = least;
    for (const int64_t p : {2, 3, 5})
      while (rest % p == 0) rest /= p;
    if (rest == 1) return least;
  }
}

std::string fourier_problem(const Kernel& k) {
  FourierForm form;
  return form_of(k, form);
}

FourierForm fourier_form(const Kernel& k) {
  FourierForm form;
  form_of(k, form);
  return form;
}

}  // namespace npusim
