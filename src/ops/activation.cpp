// Activation functions.
#include <fmt/format.h>

#include <limits>
#include <numbers>

#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Ex sigmoid(Ex x) { return 1 / (1 + exp(-(is_real(x) ? x : x * 1.0))); }  // the least integer has no negative

// A Scalar attribute as a real number of x's precision.
Ex real_attr(Ex x, const OpCall& call, std::string_view name) { return literal(x, call.number(name)); }

Ex gelu(Ex x, const OpCall& call) {
  const std::string approximate = call.text("approximate");
  if (approximate == "none") return x * 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2)));
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + tanh(beta * (x + 0.044715 * (x * x * x))));
}

std::string refuse_gelu(const OpCall& call) {
  const std::string approximate = call.text("approximate");
  return approximate == "none" || approximate == "tanh" ? "" : "approximate='" + approximate + "' is not none or tanh";
}

template <auto meaning>
constexpr OpRecord checked(std::string_view schema, std::string (*refuse)(const OpCall&)) {
  OpRecord record = formula<meaning>(schema);
  record.refuse = refuse;
  return record;
}

std::string refuse_softshrink(const OpCall& call) {
  return call.number("lambd") >= 0 ? "" : fmt::format("lambd {} is not 0 or more", call.number("lambd"));
}
std::string refuse_celu(const OpCall& call) { return call.number("alpha") == 0 ? "alpha 0 has no inverse" : ""; }

// Without the products that are none, which take their time of numbers below normal ones.
Ex times(Ex x, double factor) { return factor == 1 ? x : x * literal(x, factor); }

Ex elu(Ex x, double alpha, double scale, double input_scale) {
  const Ex below = expm1(times(x, input_scale));
  return select(x < 0, alpha == 1 ? times(below, scale) : below * times(literal(x, alpha), scale), times(x, scale));
}

// scale and alpha as torch.nn.SELU documents them.
Ex selu(Ex x) { return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); }

Ex softplus(Ex x, const OpCall& c) {
  const Ex scaled = x * real_attr(x, c, "beta");
  return select(scaled > real_attr(x, c, "threshold"), x, log1p(exp(scaled)) / real_attr(x, c, "beta"));
}

// What of |x| is above the bound, with the sign of x: of zero and infinity, too.
Ex softshrink(Ex x, const OpCall& c) {
  const Ex size = max(abs(x) - real_attr(x, c, "lambd"), 0);
  return select(x + 1 / x < 0, -size, size);
}

Ex leaky_relu(Ex x, Ex slope) { return select(x > 0, x, x * slope); }

// Largest finite number of a float dtype.
double largest(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Ex nan_to_num(Ex x, const OpCall& c) {
  if (!is_real(x)) return x;
  auto value = [&](std::string_view name, double otherwise) {
    return literal(x, c.is_none(name) ? otherwise : c.number(name));
  };
  const double top = largest(c.outputs[0].dtype);
  if (c.is_none("posinf") && c.is_none("neginf")) return select(isnan(x), value("nan", 0), min(max(x, -top), top));
  const Ex finite = select(x == infinity, value("posinf", top), select(x == -infinity, value("neginf", -top), x));
  return select(isnan(x), value("nan", 0), finite);
}

// self [N, C, …] with one slope per channel, or one slope.
std::vector<TensorType> infer_prelu(const OpCall& call) {
  const Shape& shape = call.type("self").shape;
  const Shape& weight = call.type("weight").shape;
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  const int64_t slopes = element_count(weight);
  if (weight.size() > 1 || (slopes != 1 && slopes != channels))
    fail(ErrorKind::bad_input, "{}: weight {} does not fit input {}", call.op->name(), to_string(weight),
         to_string(shape));
  return {*call.inputs[0]};
}

void lower_prelu(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const Ex x = p.arg(0);
  const int weight = k.read(lowering.input(1));
  std::vector<Coord> at;
  if (!k.shape(weight).empty()) {
    if (k.shape(weight)[0] == 1)
      at.emplace_back(int64_t{0});
    else
      at.emplace_back(k.dim(1));
  }
  p.store(leaky_relu(x, k.load(weight, at)));
}

std::vector<TensorType> infer_glu(const OpCall& call) {
  TensorType type = call.type("self");
  if (type.shape.empty()) fail(ErrorKind::bad_input, "aten.glu: input needs at least one dimension");
  int64_t& extent = type.shape[static_cast<size_t>(normalize_dim(call.integer("dim"), type.shape.size()))];
  if (extent % 2) fail(ErrorKind::bad_input, "aten.glu: cannot halve a dimension of {}", extent);
  extent /= 2;
  return {type};
}

void lower_glu(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const int self = k.read(lowering.input(0));
  const size_t rank = k.shape(self).size();
  const auto dim = static_cast<size_t>(normalize_dim(call.integer("dim"), rank));
  std::vector<Coord> at;
  for (size_t d = 0; d < rank; ++d) at.emplace_back(k.dim(static_cast<int>(d)));
  const Ex value = k.load(self, at);
  at[dim].affine.offset = k.shape(self)[dim] / 2;
  p.store(value * sigmoid(k.load(self, at)));
}

std::string refuse_training(const OpCall& call) {
  return call.boolean("training") ? "training=true draws random slopes; only inference is compiled" : "";
}

// At inference the slope is the middle of its range.
constexpr OpRecord rrelu_record(std::string_view schema) {
  OpRecord record = formula<[](Ex x, const OpCall& c) {
    return leaky_relu(x, literal(x, (c.number("lower") + c.number("upper")) / 2));
  }>(schema);
  record.infer = infer_same;
  record.refuse = refuse_training;
  record.memory = Memory::row_major;
  return record;
}

std::vector<TensorType> infer_log_sigmoid_forward(const OpCall& call) { return {*call.inputs[0], *call.inputs[0]}; }

// The second result is what the CPU keeps for the backward pass.
void lower_log_sigmoid_forward(const OpCall&, Lowering& lowering) {
  OpKernel k(lowering, lowering.type(lowering.output(0)).shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const Ex decay = exp(-abs(x));
  k.store(k.write(lowering.output(0)), min(x, 0) - log1p(decay));
  k.store(k.write(lowering.output(1)), decay);
  k.done("log_sigmoid");
}

constexpr auto relu = [](Ex x) { return max(x, 0); };
// Bounds of integers are integers, too.
Ex whole_with(Ex x, const OpCall& c, std::string_view name, DType dtype) {
  return is_real(x) ? scalar_attr(x, c, name) : stored_attr(*x.builder, c, name, dtype);
}
constexpr auto clip = [](Ex x, const OpCall& c) {
  const auto bound = [&](std::string_view name) { return whole_with(x, c, name, DType::i64); };
  return min(max(x, bound("min_val")), bound("max_val"));
};
constexpr auto shrink = [](Ex x, const OpCall& c) {
  const Ex bound = real_attr(x, c, "lambd");
  return select(abs(x) <= bound, 0.0, x);
};
constexpr auto three_way_elu = [](Ex x, const OpCall& c) {
  return elu(x, c.number("alpha"), c.number("scale"), c.number("input_scale"));
};

constexpr OpRecord records[] = {
    formula<relu>("relu(Tensor self) -> Tensor"),
    formula<[](Ex x) { return min(max(x, 0), 6); }>("relu6(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return x / (1 + exp(-x)); }>("silu(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return sigmoid(x); }>("sigmoid(Tensor self) -> Tensor"),
    real_formula<[](Ex x) { return sigmoid(x); }>("special_expit(Tensor self) -> Tensor"),
    checked<[](Ex x, const OpCall& c) { return gelu(x, c); }>(
        "gelu(Tensor self, *, str approximate=\"none\") -> Tensor", refuse_gelu),
    formula<three_way_elu>("elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"),
    formula<[](Ex x) { return selu(x); }>("selu(Tensor self) -> Tensor"),
    checked<[](Ex x, const OpCall& c) { return elu(x, c.number("alpha"), 1, 1 / c.number("alpha")); }>(
        "celu(Tensor self, Scalar alpha=1.) -> Tensor", refuse_celu),
    formula<[](Ex x, const OpCall& c) { return leaky_relu(x, scalar_attr(x, c, "negative_slope")); }>(
        "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"),
    formula<clip>("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"),
    formula<[](Ex x) { return x * min(max(x + 3, 0), 6) / 6; }>("hardswish(Tensor self) -> Tensor"),
    formula<[](Ex x) { return min(max(x + 3, 0), 6) / 6; }>("hardsigmoid(Tensor self) -> Tensor"),
    formula<shrink>("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor"),
    checked<[](Ex x, const OpCall& c) { return softshrink(x, c); }>(
        "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", refuse_softshrink),
    formula<[](Ex x, const OpCall& c) { return softplus(x, c); }>(
        "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"),
    in_memory(formula<[](Ex x) { return min(x, 0) - log1p(exp(-abs(x))); }>("log_sigmoid(Tensor self) -> Tensor"),
              Memory::row_major),
    {.schema = "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
     .infer = infer_log_sigmoid_forward,
     .lower = lower_log_sigmoid_forward},
    formula<[](Ex x) { return x * tanh(log1p(exp(x))); }>("mish(Tensor self) -> Tensor"),
    formula<[](Ex x, const OpCall& c) {
      const auto number = [&](std::string_view name) { return whole_with(x, c, name, c.outputs[0].dtype); };
      return select(x <= number("threshold"), number("value"), x);
    }>("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"),
    {.schema = "prelu(Tensor self, Tensor weight) -> Tensor", .infer = infer_prelu, .lower = lower_prelu},
    formula<[](Ex x, Ex slope) { return leaky_relu(x, slope); }>("_prelu_kernel(Tensor self, Tensor weight) -> Tensor"),
    rrelu_record("rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
                 "Generator? generator=None) -> Tensor"),
    {.schema = "glu(Tensor self, int dim=-1) -> Tensor", .infer = infer_glu, .lower = lower_glu},
    formula<[](Ex x, const OpCall& c) { return nan_to_num(x, c); }>(
        "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> activation_ops() { return records; }

}  // namespace npusim
