// Products and convolutions with weights, biases and what follows them.
#include <algorithm>

#include "random/maker.h"

namespace npusim::test {
namespace {

// A right operand: weights mostly, an activation else.
ValueId factor(Maker& m, const Shape& shape) {
  const ValueId known = m.chance(15)
                            ? m.some([&](const TensorType& t) { return t.dtype == m.real_dtype() && t.shape == shape; })
                            : no_value;
  return known != no_value ? known : m.given_float(shape, m.chance(75));
}

ValueId product(Maker& m) {
  const ValueId x = m.chance(80) ? m.floats(1, 4) : m.given_float(m.shape(2, 3));
  const Shape shape = m.shape_of(x);
  const int64_t k = shape.back(), n = m.extent();
  const auto bias = [&](int64_t extent) {
    return m.chance(60) ? Operand(m.given_float({extent}, m.chance(80))) : Operand();
  };
  switch (m.pick(7)) {
    case 0:
    case 1:
      return m.one("aten.linear.default", {x, factor(m, {n, k}), bias(n)});
    case 2: {
      Shape right{k, n};
      if (shape.size() >= 3 && m.chance(60)) right.insert(right.begin(), shape.begin(), shape.end() - 2);
      if (right.size() > 2 && m.chance(20)) right[0] = 1;
      return m.one("aten.matmul.default", {x, m.chance(10) ? factor(m, {k}) : factor(m, right)});
    }
    case 3:
      if (shape.size() == 3) return m.one("aten.bmm.default", {x, factor(m, {shape[0], k, n})});
      if (shape.size() == 2) return m.one("aten.mm.default", {x, factor(m, {k, n})});
      return m.one("aten.matmul.default", {x, factor(m, {k, n})});
    case 4: {
      if (shape.size() != 2) return no_value;
      Attributes attrs;
      if (m.chance(40)) attrs = {{"alpha", m.real()}, {"beta", m.real()}};
      const Shape to = m.chance(50) ? Shape{n} : m.broadcast_to({shape[0], n});
      return m.one("aten.addmm.default", {m.given_float(to, m.chance(70)), x, factor(m, {k, n})}, attrs);
    }
    case 5: {  // a transposed operand, as tied weights are
      const ValueId w = m.one("aten.t.default", {factor(m, {n, k})});
      return w == no_value ? w : m.one("aten.matmul.default", {x, w});
    }
    default:
      if (shape.size() != 3) return m.one("aten.linear.default", {x, factor(m, {n, k}), bias(n)});
      return m.one("aten.baddbmm.default",
                   {m.given_float(m.broadcast_to({shape[0], shape[1], n})), x, factor(m, {shape[0], k, n})});
  }
}

ValueId image_for(Maker& m, size_t spatial) {
  const ValueId known =
      m.chance(60) ? m.some([&](const TensorType& t) { return is_float(t.dtype) && t.shape.size() == spatial + 2; })
                   : no_value;
  if (known != no_value) return known;
  Shape shape{m.chance(60) ? 1 : m.positive_extent(), m.extent()};
  while (shape.size() < spatial + 2) shape.push_back(m.extent());
  return m.given_float(shape);
}

ValueId convolution(Maker& m) {
  const size_t spatial = m.chance(70) ? 2 : 1;
  const ValueId x = image_for(m, spatial);
  const int64_t channels = m.shape_of(x)[1];
  if (channels == 0) return no_value;
  int64_t groups = 1, out = m.positive_extent();
  switch (m.pick(5)) {
    case 0:  // depthwise
      groups = channels;
      out = channels * (m.chance(70) ? 1 : 2);
      break;
    case 1:
      groups = channels % 4 == 0 && m.chance(50) ? 4 : channels % 2 == 0 ? 2 : channels % 3 == 0 ? 3 : 1;
      out = groups * (1 + m.pick(5));
      break;
    default:
      break;
  }
  const bool transposed = m.chance(20);
  const auto list = [&](const std::vector<int64_t>& from) {
    std::vector<int64_t> values(spatial, m.choose(from));
    if (m.chance(25)) values.back() = m.choose(from);
    return values;
  };
  const std::vector<int64_t> kernel = list({1, 1, 2, 3, 3, 3, 5, 7});
  Shape weight = transposed ? Shape{channels, out / groups} : Shape{out, channels / groups};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  Attributes attrs{{"stride", list({1, 1, 1, 2})},
                   {"padding", list({0, 0, 1, 2})},
                   {"dilation", list({1, 1, 1, 2})},
                   {"groups", groups}};
  const Operand bias = m.chance(50) ? Operand(m.given_float({out}, true)) : Operand();
  // Padding times an infinity is left out by some implementations: no such weights.
  const ValueId w =
      m.chance(90) ? m.weight({m.real_dtype(), weight}, "normal") : m.input({m.real_dtype(), weight}, "normal");
  if (transposed)
    return m.one(spatial == 2 ? "aten.conv_transpose2d.input" : "aten.conv_transpose1d.default", {x, w, bias}, attrs);
  return m.one(spatial == 2 ? "aten.conv2d.default" : "aten.conv1d.default", {x, w, bias}, attrs);
}

ValueId normalized(Maker& m, ValueId x) {
  const Shape channels{m.shape_of(x)[1]};
  const auto parameter = [&](const char* kind, bool always) {
    return always || m.chance(80) ? Operand(m.weight({m.real_dtype(), channels}, kind)) : Operand();
  };
  const std::vector<Operand> operands{x, parameter("normal", false), parameter("normal", false),
                                      parameter("normal", true), parameter("positive", true)};
  if (m.chance(60) || !m.on("native_batch_norm"))
    return m.one("aten.batch_norm.default", operands,
                 {{"training", false}, {"momentum", 0.1}, {"eps", 1e-5}, {"cudnn_enabled", false}});
  return m.one("aten._native_batch_norm_legit_no_training.default", operands, {{"momentum", 0.1}, {"eps", 1e-3}});
}

bool matmul(Maker& m) {
  const ValueId y = product(m);
  if (y != no_value && m.on("epilogue") && m.chance(60)) epilogue(m, y);
  return y != no_value;
}

bool conv(Maker& m) {
  ValueId y = convolution(m);
  if (y == no_value) return false;
  if (m.on("batch_norm") && m.chance(30))
    if (const ValueId normal = normalized(m, y); normal != no_value) y = normal;
  if (m.on("epilogue") && m.chance(60)) epilogue(m, y);
  return true;
}

bool batch_norm(Maker& m) { return normalized(m, m.floats(2, 4)) != no_value; }

// A scan or a scatter right behind a product.
bool product_then_scan(Maker& m) {
  const ValueId y = m.chance(50) ? product(m) : convolution(m);
  if (y == no_value) return false;
  const ValueId flat = m.one("aten.flatten.using_ints", {y});
  if (flat == no_value) return true;
  if (m.chance(50)) return m.one("aten.cumsum.default", {flat}, {{"dim", int64_t{0}}}) != no_value;
  return m.one("aten.masked_scatter.default", {flat, m.given({DType::boolean, m.shape_of(flat)}, "mask"),
                                               m.given_float(m.shape_of(flat))}) != no_value;
}

}  // namespace

// Chains of what reads a product: bounds of every magnitude, a residual, the product itself a second time.
bool epilogue(Maker& m, ValueId value) {
  static const std::vector<std::string> common{
      "aten.relu.default", "aten.gelu.default",      "aten.silu.default",      "aten.sigmoid.default",
      "aten.tanh.default", "aten.relu6.default",     "aten.hardswish.default", "aten.hardsigmoid.default",
      "aten.elu.default",  "aten.leaky_relu.default"};
  static const std::vector<std::string> twice{"aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor",
                                              "aten.maximum.default", "aten.eq.Tensor"};
  static const std::vector<double> bounds{-1e30, -1e6, -3, -1e-4, 0, 1e-4, 3, 1e6};
  ValueId at = value;
  for (int64_t steps = 1 + m.pick(3); steps > 0 && at != no_value; --steps) {
    const ValueId before = at;
    switch (m.pick(8)) {
      case 0:
      case 1:
        at = m.one(m.choose(common), {at});
        break;
      case 2:
        at = m.one(unary_op(m), {at});
        break;
      case 3:
        at = m.one("aten.clamp.default", {at}, {{"min", m.choose(bounds)}, {"max", Attr{}}});
        break;
      case 4:
        at = m.on("twice") ? m.one(m.choose(twice), {at, m.chance(60) ? at : value}) : at;
        break;
      case 5:
        at = m.one("aten.add.Tensor", {at, m.like(m.shape_of(at), at)});
        break;
      case 6: {
        const Shape shape = m.broadcast_to(m.shape_of(at));
        const ValueId scale = m.on("mixed") && m.chance(30)
                                  ? m.weight({m.chance(50) ? DType::i64 : DType::boolean, shape}, "small")
                                  : m.given_float(shape, true);
        at = m.one("aten.mul.Tensor", {at, scale});
        break;
      }
      default:
        at = m.one("aten.mean.dim", {at}, {{"dim", std::vector<int64_t>{-1}}, {"keepdim", m.chance(50)}});
        break;
    }
    if (at == no_value || !is_float(m.type(at).dtype)) at = before;
  }
  return true;
}

std::vector<Action> contract_actions() {
  return {{"matmul", 8, matmul},
          {"conv", 8, conv},
          {"batch_norm", 2, batch_norm},
          {"product_then_scan", 1, product_then_scan}};
}

}  // namespace npusim::test
