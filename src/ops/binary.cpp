// Arithmetic of two and three operands.
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Of booleans the factor is one.
Ex alpha_times(Ex x, const OpCall& call) {
  const double alpha = call.number("alpha");
  if (alpha == 1 || (alpha != 0 && common_dtype(call) == DType::boolean)) return x;
  if (!is_real(x) && alpha != std::trunc(alpha))
    fail(ErrorKind::unsupported, "{}: alpha is {}: expected an integer beside integers", call.op->name(), alpha);
  return x * scalar_attr(x, call, "alpha");
}

// |x| with the sign of y, whose zero and infinity have one: no number below 0 and its inverse are both without.
Ex copy_sign(Ex x, Ex y) {
  const Ex size = abs(is_real(x) ? x : x * 1.0);
  if (!is_real(y)) return select(y < 0, -size, size);
  return select(y + 1 / y < 0, -size, size);
}

// Quotients rounded down, as ATen does: exact where a multiple of b is near.
Ex floor_divide(Ex a, Ex b) {
  if (!is_real(a) && !is_real(b)) {
    const Ex quotient = idiv(a, b), rest = irem(a, b);
    return quotient - (rest != 0 && (rest < 0) != (b < 0));
  }
  const Ex rest = fmod(a, b);
  const Ex exact = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0));
  const Ex down = floor(exact);
  const Ex near = down + (exact - down > 0.5);
  return select(b == 0, a / b, select(exact == 0, copy_sign(exact * 0, a / b), near));
}

// A remainder jumps: a number with 16-bit floats, or a tensor of another dtype, counts as it is rounded to theirs.
Ex rounded_with(Ex x, const OpCall& call) {
  const DType common = common_dtype(call);
  return is_float(common) && dtype_size(common) == 2 ? x.builder->round_to(x, common) : x;
}
Ex number_of_rest(Ex operand, const OpCall& call, std::string_view name) {
  return rounded_with(scalar_attr(operand, call, name), call);
}
Ex tensor_of_rest(Ex x, const OpCall& call, std::string_view name) {
  const bool own = call.tensor(name) >= 0 && call.type(name).dtype == common_dtype(call);
  return own ? x : rounded_with(x, call);
}
Ex rest(Ex a, Ex b) { return is_real(a) || is_real(b) ? fmod(a, b) : irem(a, b); }

Ex remainder(Ex a, Ex b) {
  const Ex left = rest(a, b);
  return select(left != 0 && (left < 0) != (b < 0), left + b, left);
}

Ex divide(Ex a, Ex b, const OpCall& call) {
  if (call.is_none("rounding_mode")) return a / b;
  if (call.text("rounding_mode") == "floor") return floor_divide(a, b);
  return is_real(a) || is_real(b) ? trunc(a / b) : idiv(a, b);
}

std::string refuse_mode(const OpCall& call) {
  if (call.is_none("rounding_mode")) return "";
  const std::string mode = call.text("rounding_mode");
  return mode == "floor" || mode == "trunc" ? "" : "rounding_mode='" + mode + "' is not floor or trunc";
}

// As eager PyTorch does.
std::string refuse_negative_power(const OpCall& call) {
  const bool whole = !is_float(call.type("self").dtype) && !call.is_real("exponent");
  return whole && call.number("exponent") < 0 ? "integers to a negative power are none: convert them to floats first"
                                              : "";
}

// Without a rounding mode integers divide to reals.
std::vector<TensorType> infer_divide_mode(const OpCall& call) {
  return call.is_none("rounding_mode") ? infer_real(call) : infer_pointwise(call);
}

// Small exponents become products and roots, as in ATen: RMS norms square this way.
Ex power(Ex x, Ex by, double exponent) {
  if (exponent == 0) return is_real(x) || is_real(by) ? literal(x, 1.0) : literal(x, int64_t{1});
  if (exponent == 1) return is_real(by) ? x * 1.0 : x;
  const Ex base = is_real(by) && !is_real(x) ? x * 1.0 : x;
  if (exponent == 2) return base * base;
  if (exponent == 3) return base * base * base;
  if (!is_real(base)) return pow(base, by);
  if (exponent == 0.5) return sqrt(base);
  if (exponent == -0.5) return rsqrt(base);
  if (exponent == -1) return 1 / base;
  if (exponent == -2) return 1 / (base * base);
  return pow(base, by);
}

Ex hypotenuse(Ex a, Ex b) {
  const Ex x = abs(a), y = abs(b);
  const Ex large = max(x, y), small = min(x, y);
  const Ex ratio = select(small == large, 1.0, small / large);  // also of zeros and of infinities
  const Ex size = large * sqrt(1 + ratio * ratio);
  return select(x == infinity, x, select(y == infinity, y, size));  // whatever the other one is
}

Ex log_add(Ex a, Ex b) { return select(a == b && abs(a) == infinity, a, max(a, b) + log1p(exp(-abs(a - b)))); }

// Base two; 1/ln 2 turns the natural logarithm's accurate form into it.
Ex log2_add(Ex a, Ex b) {
  return select(a == b && abs(a) == infinity, a, max(a, b) + log1p(exp2(-abs(a - b))) * std::numbers::log2e);
}

Ex x_log_y(Ex x, Ex y) {
  const Ex real = log(y);
  return select(isnan(y), real, select(x == 0, 0.0, x * real));
}

// Monotonic in the weight at both ends.
Ex interpolate(Ex a, Ex b, Ex weight) {
  return select(abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1 - weight));
}

Ex other(Ex x, const OpCall& call) { return scalar_attr(x, call, "other"); }

constexpr auto add = [](Ex x, Ex y, const OpCall& c) { return x + alpha_times(y, c); };
constexpr auto add_scalar = [](Ex x, const OpCall& c) { return x + alpha_times(other(x, c), c); };
constexpr auto subtract = [](Ex x, Ex y, const OpCall& c) { return x - alpha_times(y, c); };
constexpr auto subtract_scalar = [](Ex x, const OpCall& c) { return x - alpha_times(other(x, c), c); };
constexpr auto multiply = [](Ex x, Ex y) { return x * y; };
constexpr auto multiply_scalar = [](Ex x, const OpCall& c) { return x * other(x, c); };
constexpr auto quotient = [](Ex x, Ex y) { return x / y; };
constexpr auto quotient_scalar = [](Ex x, const OpCall& c) { return x / other(x, c); };
constexpr auto quotient_mode = [](Ex x, Ex y, const OpCall& c) { return divide(x, y, c); };
constexpr auto quotient_scalar_mode = [](Ex x, const OpCall& c) { return divide(x, other(x, c), c); };
constexpr auto larger = [](Ex x, Ex y) { return max(x, y); };
constexpr auto smaller = [](Ex x, Ex y) { return min(x, y); };
constexpr auto angle = [](Ex x, Ex y) { return atan2(x, y); };
constexpr auto power_scalar = [](Ex x, const OpCall& c) {
  return power(x, scalar_attr(x, c, "exponent"), c.number("exponent"));
};
constexpr auto xlogy = [](Ex x, Ex y) { return x_log_y(x, y); };
constexpr auto xlogy_other = [](Ex x, const OpCall& c) { return x_log_y(x, other(x, c)); };
constexpr auto xlogy_self = [](Ex y, const OpCall& c) { return x_log_y(scalar_attr(y, c, "self"), y); };

Ex wide(Ex x) { return x.builder->cast(x, Scalar::f64); }
constexpr auto wide_power = [](Ex x, Ex y) { return pow(wide(x), wide(y)); };

constexpr OpRecord power_record() {
  OpRecord record = formula<power_scalar>("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor");
  record.refuse = refuse_negative_power;
  return record;
}

template <auto meaning>
constexpr OpRecord division(std::string_view schema) {
  OpRecord record = formula<meaning>(schema);
  record.infer = infer_divide_mode;
  record.refuse = refuse_mode;
  return record;
}

std::vector<TensorType> infer_double(const OpCall& call) { return {{DType::f64, infer_pointwise(call)[0].shape}}; }

template <auto meaning>
constexpr OpRecord double_formula(std::string_view schema) {
  OpRecord record = formula<meaning>(schema);
  record.infer = infer_double;
  return record;
}

// A quotient of n turns the divisor's rounding into n times that.
constexpr double remainder_tolerance = 64;

// Where the result is of integers, without what is behind its point.
Ex factor(Ex x, const OpCall& call) {
  if (!call.is_real("value") || is_float(call.outputs[0].dtype)) return scalar_attr(x, call, "value");
  return stored_attr(*x.builder, call, "value", DType::i64);
}

constexpr OpRecord records[] = {
    formula<add>("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    formula<add_scalar>("add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    formula<subtract>("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    formula<subtract_scalar>("sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    formula<subtract>("subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    formula<subtract_scalar>("subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    formula<[](Ex x, Ex y, const OpCall& c) { return y - alpha_times(x, c); }>(
        "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    formula<[](Ex x, const OpCall& c) { return other(x, c) - alpha_times(x, c); }>(
        "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    formula<multiply>("mul.Tensor(Tensor self, Tensor other) -> Tensor"),
    formula<multiply_scalar>("mul.Scalar(Tensor self, Scalar other) -> Tensor"),
    formula<multiply>("multiply.Tensor(Tensor self, Tensor other) -> Tensor"),
    formula<multiply_scalar>("multiply.Scalar(Tensor self, Scalar other) -> Tensor"),
    real_formula<quotient>("div.Tensor(Tensor self, Tensor other) -> Tensor"),
    real_formula<quotient_scalar>("div.Scalar(Tensor self, Scalar other) -> Tensor"),
    division<quotient_mode>("div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"),
    division<quotient_scalar_mode>("div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"),
    real_formula<quotient>("divide.Tensor(Tensor self, Tensor other) -> Tensor"),
    real_formula<quotient_scalar>("divide.Scalar(Tensor self, Scalar other) -> Tensor"),
    division<quotient_mode>("divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"),
    division<quotient_scalar_mode>("divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"),
    real_formula<quotient>("true_divide.Tensor(Tensor self, Tensor other) -> Tensor"),
    real_formula<quotient_scalar>("true_divide.Scalar(Tensor self, Scalar other) -> Tensor"),
    formula<[](Ex x, Ex y) { return floor_divide(x, y); }>("floor_divide(Tensor self, Tensor other) -> Tensor"),
    formula<[](Ex x, const OpCall& c) { return floor_divide(x, other(x, c)); }>(
        "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor"),
    formula<[](Ex x, Ex y, const OpCall& c) {
      return remainder(tensor_of_rest(x, c, "self"), tensor_of_rest(y, c, "other"));
    }>("remainder.Tensor(Tensor self, Tensor other) -> Tensor", remainder_tolerance),
    formula<[](Ex x, const OpCall& c) { return remainder(x, number_of_rest(x, c, "other")); }>(
        "remainder.Scalar(Tensor self, Scalar other) -> Tensor", remainder_tolerance),
    formula<[](Ex y, const OpCall& c) { return remainder(number_of_rest(y, c, "self"), y); }>(
        "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", remainder_tolerance),
    formula<[](Ex x, Ex y, const OpCall& c) {
      return rest(tensor_of_rest(x, c, "self"), tensor_of_rest(y, c, "other"));
    }>("fmod.Tensor(Tensor self, Tensor other) -> Tensor", remainder_tolerance),
    formula<[](Ex x, const OpCall& c) { return rest(x, number_of_rest(x, c, "other")); }>(
        "fmod.Scalar(Tensor self, Scalar other) -> Tensor", remainder_tolerance),
    formula<[](Ex x, Ex y) { return pow(x, y); }>("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
    power_record(),
    in_memory(formula<[](Ex y, const OpCall& c) { return pow(scalar_attr(y, c, "self"), y); }>(
                  "pow.Scalar(Scalar self, Tensor exponent) -> Tensor"),
              Memory::row_major),
    double_formula<wide_power>("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
    double_formula<[](Ex x, const OpCall& c) {
      return power(wide(x), literal(wide(x), c.number("exponent")), c.number("exponent"));
    }>("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"),
    in_memory(double_formula<[](Ex y, const OpCall& c) { return pow(literal(wide(y), c.number("self")), wide(y)); }>(
                  "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor"),
              Memory::row_major),
    formula<larger>("maximum(Tensor self, Tensor other) -> Tensor", 0),
    formula<smaller>("minimum(Tensor self, Tensor other) -> Tensor", 0),
    formula<larger>("max.other(Tensor self, Tensor other) -> Tensor", 0),
    formula<smaller>("min.other(Tensor self, Tensor other) -> Tensor", 0),
    formula<[](Ex x, Ex y) { return select(isnan(x), y, select(isnan(y), x, max(x, y))); }>(
        "fmax(Tensor self, Tensor other) -> Tensor", 0),
    formula<[](Ex x, Ex y) { return select(isnan(x), y, select(isnan(y), x, min(x, y))); }>(
        "fmin(Tensor self, Tensor other) -> Tensor", 0),
    real_formula<angle>("atan2(Tensor self, Tensor other) -> Tensor"),
    real_formula<angle>("arctan2(Tensor self, Tensor other) -> Tensor"),
    formula<[](Ex x, Ex y) { return hypotenuse(x, y); }>("hypot(Tensor self, Tensor other) -> Tensor"),
    formula<[](Ex x, Ex y) { return log_add(x, y); }>("logaddexp(Tensor self, Tensor other) -> Tensor"),
    formula<[](Ex x, Ex y) { return log2_add(x, y); }>("logaddexp2(Tensor self, Tensor other) -> Tensor"),
    real_formula<[](Ex x, Ex y) { return copy_sign(x, y); }>("copysign.Tensor(Tensor self, Tensor other) -> Tensor", 0),
    real_formula<[](Ex x, const OpCall& c) { return copy_sign(x, other(x, c)); }>(
        "copysign.Scalar(Tensor self, Scalar other) -> Tensor", 0),
    real_formula<xlogy>("xlogy.Tensor(Tensor self, Tensor other) -> Tensor"),
    real_formula<xlogy_other>("xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor"),
    real_formula<xlogy_self>("xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor"),
    real_formula<xlogy>("special_xlogy(Tensor self, Tensor other) -> Tensor"),
    real_formula<xlogy_other>("special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor"),
    real_formula<xlogy_self>("special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor"),
    formula<[](Ex x, Ex values) { return select(x == 0, values, x > 0); }>(
        "heaviside(Tensor self, Tensor values) -> Tensor", 0),
    formula<[](Ex a, Ex b, const OpCall& c) { return interpolate(a, b, literal(a, c.number("weight"))); }>(
        "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"),
    formula<[](Ex a, Ex b, Ex weight) { return interpolate(a, b, weight); }>(
        "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"),
    formula<[](Ex x, Ex a, Ex b, const OpCall& c) { return x + factor(a, c) * a * b; }>(
        "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
    formula<[](Ex x, Ex a, Ex b, const OpCall& c) { return x + scalar_attr(a, c, "value") * a / b; }>(
        "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> binary_ops() { return records; }

}  // namespace npusim
