// Mathematical functions of one operand.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/formula.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double pi = std::numbers::pi;

Ex logit(Ex x, const OpCall& call) {
  if (!call.is_none("eps")) {
    const double eps = call.number("eps");  // beyond a half, too: the lower bound goes first
    x = select(x < eps, eps, select(x > 1 - eps, 1 - eps, x));
  }
  return log(x / (1 - x));
}

// ATen's order: scale up, round half to even, scale down.
Ex round_decimals(Ex x, const OpCall& call) {
  if (!is_real(x)) return x;
  const int64_t decimals = call.integer("decimals");
  const double unit = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals == 0) return round(x);
  return decimals < 0 ? round(x / unit) * unit : round(x * unit) / unit;
}

Ex signbit(Ex x) {
  if (!is_real(x)) return x < 0;
  return x + 1 / x < 0;  // of zeros and infinities, too
}

// Absolute value of a boolean is the boolean.
constexpr auto absolute = [](Ex x) { return x.type() == Scalar::boolean ? x : abs(x); };
constexpr auto negate = [](Ex x) { return -x; };
constexpr auto arc_sine = [](Ex x) { return asin(x); };
constexpr auto arc_cosine = [](Ex x) { return acos(x); };
constexpr auto arc_tangent = [](Ex x) { return atan(x); };
constexpr auto asinh_of = [](Ex x) { return asinh(x); };
constexpr auto acosh_of = [](Ex x) { return acosh(x); };
constexpr auto atanh_of = [](Ex x) { return atanh(x); };
constexpr auto truncate = [](Ex x) { return trunc(x); };
constexpr auto sign = [](Ex x) {  // of NaN 0
  return is_real(x) ? select(x > 0, 1.0, select(x < 0, -1.0, literal(x, 0.0))) : (x > 0) - (x < 0);
};
constexpr auto error_function = [](Ex x) { return erf(x); };
constexpr auto exponential_less_one = [](Ex x) { return expm1(x); };
constexpr auto power_of_two = [](Ex x) { return exp2(x); };
constexpr auto log_one_more = [](Ex x) { return log1p(x); };
constexpr auto bitwise_not = [](Ex x) { return x.type() == Scalar::boolean ? !x : -1 - x; };

constexpr OpRecord records[] = {
    formula<absolute>("abs(Tensor self) -> Tensor"),
    formula<absolute>("absolute(Tensor self) -> Tensor"),
    formula<negate>("neg(Tensor self) -> Tensor"),
    formula<negate>("negative(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return exp(x); }>("exp(Tensor self) -> Tensor"),
    real_formula<power_of_two>("exp2(Tensor self) -> Tensor"),
    real_formula<power_of_two>("special_exp2(Tensor self) -> Tensor"),
    real_formula<exponential_less_one>("expm1(Tensor self) -> Tensor"),
    real_formula<exponential_less_one>("special_expm1(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return log(x); }>("log(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return log2(x); }>("log2(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return log10(x); }>("log10(Tensor self) -> Tensor"),
    real_formula<log_one_more>("log1p(Tensor self) -> Tensor"),
    real_formula<log_one_more>("special_log1p(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return sqrt(x); }>("sqrt(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return rsqrt(x); }>("rsqrt(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return sin(x); }>("sin(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return cos(x); }>("cos(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return tan(x); }>("tan(Tensor self) -> Tensor"),
    real_formula<arc_sine>("asin(Tensor self) -> Tensor"),
    real_formula<arc_sine>("arcsin(Tensor self) -> Tensor"),
    real_formula<arc_cosine>("acos(Tensor self) -> Tensor"),
    real_formula<arc_cosine>("arccos(Tensor self) -> Tensor"),
    real_formula<arc_tangent>("atan(Tensor self) -> Tensor"),
    real_formula<arc_tangent>("arctan(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return sinh(x); }>("sinh(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return cosh(x); }>("cosh(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return tanh(x); }>("tanh(Tensor self) -> Tensor"),
    real_formula<asinh_of>("asinh(Tensor self) -> Tensor"),
    real_formula<asinh_of>("arcsinh(Tensor self) -> Tensor"),
    real_formula<acosh_of>("acosh(Tensor self) -> Tensor"),
    real_formula<acosh_of>("arccosh(Tensor self) -> Tensor"),
    real_formula<atanh_of>("atanh(Tensor self) -> Tensor"),
    real_formula<atanh_of>("arctanh(Tensor self) -> Tensor"),
    real_formula<error_function>("erf(Tensor self) -> Tensor"),
    real_formula<error_function>("special_erf(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return erfc(x); }>("erfc(Tensor self) -> Tensor"),
    real_formula<[](Ex x, const OpCall& c) { return logit(x, c); }>("logit(Tensor self, float? eps=None) -> Tensor"),
    real_formula<[](Ex x) { return 1 / x; }>("reciprocal(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return select(x == 0, 1.0, sin(x * pi) / (x * pi)); }>("sinc(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return x * (pi / 180); }>("deg2rad(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return x * (180 / pi); }>("rad2deg(Tensor self) -> Tensor"),
    formula<[](Ex x) { return floor(x); }>("floor(Tensor self) -> Tensor", 0),
    formula<[](Ex x) { return ceil(x); }>("ceil(Tensor self) -> Tensor", 0),
    formula<[](Ex x) { return round(x); }>("round(Tensor self) -> Tensor", 0),
    formula<[](Ex x, const OpCall& c) { return round_decimals(x, c); }>(
        "round.decimals(Tensor self, *, int decimals) -> Tensor"),
    formula<truncate>("trunc(Tensor self) -> Tensor", 0),
    formula<truncate>("fix(Tensor self) -> Tensor", 0),
    formula<[](Ex x) { return x - trunc(x); }>("frac(Tensor self) -> Tensor"),
    formula<sign>("sign(Tensor self) -> Tensor", 0),
    formula<sign>("sgn(Tensor self) -> Tensor", 0),
    formula<[](Ex x) { return x * x; }>("square(Tensor self) -> Tensor"),
    in_memory(formula<[](Ex x) { return x; }>("positive(Tensor(a) self) -> Tensor(a)", 0), Memory::itself),
    formula<bitwise_not>("bitwise_not(Tensor self) -> Tensor", 0),
    boolean_formula<[](Ex x) { return !x; }>("logical_not(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return signbit(x); }>("signbit(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return isnan(x); }>("isnan(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return abs(x) == infinity; }>("isinf(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return abs(x) < infinity; }>("isfinite(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return x == infinity; }>("isposinf(Tensor self) -> Tensor"),
    boolean_formula<[](Ex x) { return x == -infinity; }>("isneginf(Tensor self) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> unary_ops() { return records; }

}  // namespace npusim
