// Resampling of the last one, two or three dimensions: nearest, linear and cubic, with and without antialiasing.
//
// A source position is a fixed-point number, (o · scale + shift) / 2^32 in i64: its integer part is the element and its
// rest the weight, alike on every device. Only float64 tensors, which need more, have positions in f64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/dtype.h"
#include "base/error.h"
#include "ops/window.h"

namespace npusim {
namespace {

constexpr int fraction_bits = 32;
constexpr double one = 0x1p32;

struct Axis {
  int64_t in = 0, out = 0;
  std::optional<double> factor;  // output over input, as the caller gave it
};

int input_of(const OpCall& call) { return call.tensor(call.op->schema.find("input") >= 0 ? "input" : "self"); }

// "vec" overloads give output_size or scale_factors; the others output_size and perhaps one factor per dimension.
std::vector<Axis> axes_of(const OpCall& call, size_t spatial) {
  const Shape& shape = call.inputs[static_cast<size_t>(input_of(call))]->shape;
  std::vector<int64_t> sizes;
  if (!call.is_none("output_size")) sizes = call.ints("output_size", spatial);
  std::vector<double> factors;
  if (call.op->schema.find("scale_factors") >= 0) factors = call.reals("scale_factors");
  if (sizes.empty() && factors.size() != spatial)
    fail(ErrorKind::bad_input, "{}: needs output_size or {} scale_factors", call.op->name(), spatial);
  constexpr const char* names[] = {"scales_d", "scales_h", "scales_w"};
  std::vector<Axis> axes;
  for (size_t d = 0; d < spatial; ++d) {
    Axis axis;
    axis.in = shape[shape.size() - spatial + d];
    if (factors.size() == spatial) axis.factor = factors[d];
    const char* name = spatial == 1 ? "scales" : names[3 - spatial + d];
    if (call.op->schema.find(name) >= 0 && !call.is_none(name)) axis.factor = call.number(name);
    axis.out = sizes.empty() ? to_integer(static_cast<double>(axis.in) * factors[d]) : sizes[d];
    if (axis.factor && !(*axis.factor > 0)) axis.factor.reset();
    if (axis.factor && !(*axis.factor >= 0x1p-31))
      fail(ErrorKind::bad_input, "{}: cannot resize by a factor of {}", call.op->name(), *axis.factor);
    if (axis.in < 1 || axis.out < 1)
      fail(ErrorKind::bad_input, "{}: cannot resize {} elements to {}", call.op->name(), axis.in, axis.out);
    axes.push_back(axis);
  }
  return axes;
}

template <int spatial>
std::vector<TensorType> infer_upsample(const OpCall& call) {
  TensorType type = *call.inputs[static_cast<size_t>(input_of(call))];
  if (type.shape.size() != spatial + 2)
    fail(ErrorKind::bad_input, "{}: input {} must have {} dimensions", call.op->name(), to_string(type.shape),
         spatial + 2);
  const std::vector<Axis> axes = axes_of(call, spatial);
  for (size_t d = 0; d < spatial; ++d) type.shape[2 + d] = axes[d].out;
  return {type};
}

// ATen resizes uint8 in 16-bit fixed point, rounding after each dimension: results that real weights do not give.
template <int spatial>
std::vector<TensorType> infer_smooth(const OpCall& call) {
  std::vector<TensorType> types = infer_upsample<spatial>(call);
  if (!is_float(types[0].dtype))
    fail(ErrorKind::unsupported, "{}: cannot interpolate {}", call.op->name(), dtype_name(types[0].dtype));
  return types;
}

// o · scale + shift in elements.
struct Line {
  double scale = 0, shift = 0;
};

int64_t fixed(double x) { return std::llround(x * one); }

// The line's value at the index along dimension d of the space.
struct Position {
  Position(KernelBuilder& k, int d, Line line, Scalar type) : type(type) {
    if (type == Scalar::f64)
      value = k.cast(k.index(d), type) * line.scale + line.shift;
    else
      value = k.index(d) * fixed(line.scale) + fixed(line.shift);
  }
  Ex shifted(double by) const { return type == Scalar::f64 ? value + by : value + fixed(by); }
  Ex whole(Ex x) const {
    if (type == Scalar::f64) return x.builder->cast(floor(x), Scalar::i64);
    return shr(x, literal(x, int64_t{fraction_bits}));
  }
  Ex whole() const { return whole(value); }
  Ex fraction() const {
    if (type == Scalar::f64) return value - floor(value);
    return value.builder->cast(bit_and(value, literal(value, (int64_t{1} << fraction_bits) - 1)), type) * (1 / one);
  }
  Ex distance_to(Ex element) const {
    if (type == Scalar::f64) return element.builder->cast(element, type) - value;
    return value.builder->cast(element * (int64_t{1} << fraction_bits) - value, type) * (1 / one);
  }

  Scalar type;
  Ex value;
};

// How ATen's float32 arithmetic picks an element.
enum class Nearest : uint8_t {
  floor,       // o · scale
  by_extents,  // that, but of equal extents the same element and of twice as many the half, whatever the factor
  exact,       // (o + 1/2) · scale
};
struct NearestRule {
  Nearest how = Nearest::floor;
  bool wide = false;  // the position is computed in float64, and only then rounded to float32
};

int64_t nearest_element(const Axis& axis, NearestRule rule, int64_t o) {
  if (rule.how == Nearest::by_extents && axis.out == axis.in) return o;
  if (rule.how == Nearest::by_extents && axis.out == 2 * axis.in) return o >> 1;
  const double ratio = axis.factor ? 1.0 / *axis.factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
  const double half = rule.how == Nearest::exact ? 0.5 : 0.0;
  const auto scale =
      axis.factor ? static_cast<float>(ratio) : static_cast<float>(axis.in) / static_cast<float>(axis.out);
  const float at = rule.wide ? static_cast<float>((static_cast<double>(o) + half) * ratio)
                             : (static_cast<float>(o) + static_cast<float>(half)) * scale;
  return std::min(static_cast<int64_t>(std::floor(at)), axis.in - 1);
}

// ATen has two kernels for nearest, which differ where a factor is given that the extents do not show (1.01 of 60
// elements), and in float64. Which one runs is a matter of speed there: small images have the one with the rule of
// extents (and channels-last ones of more than three channels, of which the exporter leaves the factors out).
NearestRule nearest_rule(const std::vector<Axis>& axes, bool exact, DType dtype) {
  const bool small = axes.size() == 2 && axes[0].out + axes[1].out <= 128;
  return {exact ? Nearest::exact : small ? Nearest::by_extents : Nearest::floor, !small && dtype == DType::f64};
}

// How often each element is there, where all are there as often.
std::optional<int64_t> nearest_repeats(const Axis& axis, NearestRule rule) {
  constexpr int64_t most_outputs = 1 << 21;
  if (axis.out % axis.in != 0 || axis.out > most_outputs) return std::nullopt;
  const int64_t repeats = axis.out / axis.in;
  for (int64_t o = 0; o < axis.out; ++o)
    if (nearest_element(axis, rule, o) != o / repeats) return std::nullopt;
  return repeats;
}

// A position whose integer part is that element for every output: the exact ratio, raised by float32's rounding where
// that reaches the next element. Of long axes none is looked for, and of some there is none.
std::optional<Line> nearest_line(const Axis& axis, NearestRule rule) {
  constexpr int64_t most_outputs = 1 << 21;
  if (axis.out > most_outputs) return std::nullopt;
  const double ratio = axis.factor ? 1.0 / *axis.factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
  const double half = rule.how == Nearest::exact ? 0.5 : 0.0;
  auto agrees = [&](Line line) {
    for (int64_t o = 0; o < axis.out; ++o) {
      const int64_t element = (o * fixed(line.scale) + fixed(line.shift)) >> fraction_bits;
      if (std::min(element, axis.in - 1) != nearest_element(axis, rule, o)) return false;
    }
    return true;
  };
  for (const double scale : {ratio, static_cast<double>(static_cast<float>(ratio)), 0.5, 1.0})
    for (const double raise : {0.0, 0x1p-31, 0x1p-24, 0x1p-20, 0x1p-16, 0x1p-12, -0x1p-24, -0x1p-20, -0x1p-16}) {
      const Line line{scale, std::max(half * scale + raise, 0.0)};
      if (agrees(line)) return line;
    }
  return std::nullopt;
}

// nearest_element() by the arithmetic of ATen itself.
Ex computed_nearest(KernelBuilder& k, int d, const Axis& axis, NearestRule rule) {
  const double ratio = axis.factor ? 1.0 / *axis.factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
  const float scale =
      axis.factor ? static_cast<float>(ratio) : static_cast<float>(axis.in) / static_cast<float>(axis.out);
  const double half = rule.how == Nearest::exact ? 0.5 : 0.0;
  const Ex at = rule.wide ? k.single((k.cast(k.index(d), Scalar::f64) + half) * ratio)
                          : k.single(k.single(k.single(k.cast(k.index(d), Scalar::f32)) + half) * double{scale});
  return min(k.cast(floor(at), Scalar::i64), axis.in - 1);
}

double scale_of(const Axis& axis, bool align_corners) {
  if (align_corners) return axis.out > 1 ? static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1) : 0;
  return axis.factor ? 1.0 / *axis.factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
}

// Corners aligned: o · scale. Else the centres are: (o + 1/2) · scale − 1/2.
Line smooth_line(const Axis& axis, bool align_corners) {
  const double scale = scale_of(axis, align_corners);
  return {scale, align_corners ? 0 : scale * 0.5 - 0.5};
}

// One of the elements that make up a result along one axis.
struct Tap {
  Ex element;  // clamped into the input
  Ex weight;
};
using Taps = std::vector<Tap>;

Taps linear_taps(KernelBuilder& k, int d, const Axis& axis, bool align_corners, Scalar type) {
  if (axis.in == axis.out) return {{k.index(d), k.number(1, type)}};  // whatever the factor
  Position at(k, d, smooth_line(axis, align_corners), type);
  at.value = max(at.value, 0);
  const Ex first = min(at.whole(), axis.in - 1);
  const Ex weight = at.fraction();
  return {{first, 1 - weight}, {min(first + 1, axis.in - 1), weight}};
}

// Keys' cubic convolution with a = −3/4, as ATen and OpenCV have it.
Ex cubic_near(Ex x) { return ((x * 1.25 - 2.25) * x) * x + 1; }          // |x| <= 1
Ex cubic_far(Ex x) { return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0; }  // 1 < |x| < 2

Taps cubic_taps(KernelBuilder& k, int d, const Axis& axis, bool align_corners, Scalar type) {
  const Position at(k, d, smooth_line(axis, align_corners), type);
  const Ex first = at.whole();
  const Ex t = at.fraction();
  const Ex weights[] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)};
  Taps taps;
  for (int64_t tap = 0; tap < 4; ++tap) taps.push_back({min(max(first + (tap - 1), 0), axis.in - 1), weights[tap]});
  return taps;
}

// Σ over the taps of all axes of weight · element, innermost axis first as ATen sums.
Ex weighted(OpKernel& k, int arg, std::vector<Coord>& at, const std::vector<Taps>& taps, size_t axis) {
  if (axis == taps.size()) return k.load(arg, at);
  Ex sum;
  for (const Tap& tap : taps[axis]) {
    at[2 + axis] = tap.element;
    const Ex term = weighted(k, arg, at, taps, axis + 1) * tap.weight;
    sum = sum.builder ? sum + term : term;
  }
  return sum;
}

using MakeTaps = Taps (*)(KernelBuilder&, int, const Axis&, bool, Scalar);

template <int spatial, MakeTaps make_taps>
void lower_smooth(const OpCall& call, Lowering& lowering) {
  const int input = input_of(call);
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const int arg = k.read(lowering.input(input));
  const Scalar type = scalar_of(k.dtype(arg)) == Scalar::f64 ? Scalar::f64 : Scalar::f32;
  const std::vector<Axis> axes = axes_of(call, spatial);
  std::vector<Coord> at{k.dim(0), k.dim(1)};
  at.resize(2 + spatial, Coord(int64_t{0}));
  std::vector<Taps> taps;
  for (int d = 0; d < spatial; ++d)
    taps.push_back(make_taps(k, 2 + d, axes[static_cast<size_t>(d)], call.boolean("align_corners"), type));
  p.store(weighted(k, arg, at, taps, 0));
}

template <int spatial, bool exact>
void lower_nearest(const OpCall& call, Lowering& lowering) {
  const int input = input_of(call);
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const std::vector<Axis> axes = axes_of(call, spatial);
  const NearestRule rule = nearest_rule(axes, exact, call.outputs[0].dtype);
  std::vector<Coord> at{k.dim(0), k.dim(1)};
  for (int d = 0; d < spatial; ++d) {
    const Axis& axis = axes[static_cast<size_t>(d)];
    if (const auto repeats = nearest_repeats(axis, rule))
      at.emplace_back(*repeats == 1 ? k.dim(2 + d) : Coord(idiv(k.index(2 + d), k.integer(*repeats))));
    else if (const auto line = nearest_line(axis, rule); !line)
      at.emplace_back(computed_nearest(k, 2 + d, axis, rule));
    else if (line->scale == 1 && line->shift < 1 && axis.out <= axis.in)
      at.emplace_back(k.dim(2 + d));
    else
      at.emplace_back(min(Position(k, 2 + d, *line, Scalar::f32).whole(), axis.in - 1));
  }
  p.store(k.load(k.read(lowering.input(input)), at));
}

// Antialiased filters as PIL has them: a triangle or cubic (a = −1/2) as wide as one output element at least.
double filter_radius(bool cubic) { return cubic ? 2 : 1; }
Ex filter_value(bool cubic, Ex distance) {
  const Ex x = abs(distance);
  if (!cubic) return max(1 - x, 0);
  const Ex near = ((x * 1.5 - 2.5) * x) * x + 1, far = ((x * -0.5 + 2.5) * x - 4.0) * x + 2.0;
  return select(x < 1, near, select(x < 2, far, 0.0));
}

// An antialiased filter along one axis: result o is made of the elements from first(o) up to end(o), at most `taps`.
struct Filter {
  Filter(const Axis& axis, bool align_corners, bool cubic, Scalar type) : axis(axis), cubic(cubic), type(type) {
    scale = scale_of(axis, align_corners);
    width = std::max(scale, 1.0);
    support = filter_radius(cubic) * width;
    constexpr int64_t most_outputs = 1 << 20;  // of more, what is enough for any of them
    if (axis.out > most_outputs) taps = static_cast<int64_t>(std::ceil(2 * support)) + 1;
    for (int64_t o = 0; o < axis.out && axis.out <= most_outputs; ++o) {
      const int64_t middle = o * fixed(scale) + fixed(scale * 0.5);
      const auto edge = [&](double by) { return (middle + fixed(by + 0.5)) >> fraction_bits; };
      taps = std::max(taps, std::min(edge(support), axis.in) - std::max<int64_t>(edge(-support), 0));
    }
    if (type == Scalar::f64) ++taps;  // whose positions are not those of fixed point
    taps = std::min(taps, axis.in);
  }
  Position middle(KernelBuilder& k, int d) const { return {k, d, {scale, scale * 0.5}, type}; }
  Ex first(const Position& at) const { return max(at.whole(at.shifted(0.5 - support)), 0); }
  Ex end(const Position& at) const { return min(at.whole(at.shifted(0.5 + support)), axis.in); }
  // Where `taps` elements begin that hold those of the result.
  Ex begin(const Position& at) const { return min(first(at), axis.in - taps); }

  Axis axis;
  bool cubic;
  Scalar type;
  double scale = 0, width = 0, support = 0;
  int64_t taps = 1;
};

constexpr double no_weight = std::numeric_limits<double>::infinity();

// The table [taps, out] of weights, of a sum of 1 each; no_weight where an element is none of the result's.
int lower_weights(Lowering& lowering, const Filter& filter) {
  OpKernel k(lowering, {filter.axis.out, filter.taps}, 1);
  const Position at = filter.middle(k, 0);
  const Ex element = filter.begin(at) + k.index(1);
  const Ex inside = element >= filter.first(at) && element < filter.end(at);
  const Ex distance = at.distance_to(element) + 0.5;
  const Ex weight = filter_value(filter.cubic, distance * (1 / filter.width));
  const Ex total = k.reduce(Reduction::sum, select(inside, weight, 0.0));
  const int table =
      lowering.temporary({filter.type == Scalar::f64 ? DType::f64 : DType::f32, {filter.taps, filter.axis.out}});
  const Coord transposed[] = {k.dim(1), k.dim(0)};
  k.store(k.write(table), transposed, select(inside, weight / total, no_weight));
  k.done("weights");
  return table;
}

// Dimension d of `from`, which has the filter's `in` elements there, into `to`.
void lower_filtered(Lowering& lowering, const Filter& filter, size_t d, int from, int to, std::string name) {
  const int table = lower_weights(lowering, filter);
  Shape space = lowering.type(to).shape;
  const auto rank = static_cast<int>(space.size());
  space.push_back(filter.taps);
  OpKernel k(lowering, space, 1);
  std::vector<Coord> at;
  for (int i = 0; i < rank; ++i) at.emplace_back(k.dim(i));
  const auto dim = static_cast<int>(d);
  at[d] = {filter.begin(filter.middle(k, dim)), k.dim(rank)};
  const Coord of_table[] = {k.dim(rank), k.dim(dim)};
  const Ex x = k.load(k.read(from), at), weight = k.load(k.read(table), of_table);
  const Ex sum = k.reduce(Reduction::sum, select(weight < no_weight, x * weight, 0.0));
  k.store(k.write(to), sum);
  k.done(std::move(name));
}

// One axis after the other, in the order that is less work: rows are added as they lie, elements of a row are gathered.
template <bool cubic>
void lower_antialiased(const OpCall& call, Lowering& lowering) {
  const int input = lowering.input(input_of(call));
  const TensorType type = lowering.type(input);
  const Scalar real = scalar_of(type.dtype) == Scalar::f64 ? Scalar::f64 : Scalar::f32;
  std::vector<Filter> filters;
  for (const Axis& axis : axes_of(call, 2)) filters.emplace_back(axis, call.boolean("align_corners"), cubic, real);
  const Filter &down = filters[0], &across = filters[1];
  const auto changes = [](const Filter& f) { return f.axis.in != f.axis.out; };  // else the same, whatever the factor
  const int64_t rows_first = down.axis.out * (across.axis.in * down.taps + 2 * across.axis.out * across.taps);
  const int64_t rows_last = across.axis.out * (2 * down.axis.in * across.taps + down.axis.out * down.taps);
  std::vector<size_t> order{0, 1};
  if (rows_last < rows_first) std::swap(order[0], order[1]);
  std::erase_if(order, [&](size_t axis) { return !changes(filters[axis]); });
  if (order.empty()) {
    Pointwise p(call, lowering);
    p.store(p.kernel.load_broadcast(p.kernel.read(input)));
    return;
  }
  int from = input;
  Shape shape = type.shape;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t axis = order[i];
    shape[2 + axis] = filters[axis].axis.out;
    const DType between = real == Scalar::f64 ? DType::f64 : DType::f32;
    const int to = i + 1 == order.size() ? lowering.output(0) : lowering.temporary({between, shape});
    lower_filtered(lowering, filters[axis], 2 + axis, from, to, kernel_name(call));
    from = to;
  }
}

template <int spatial, bool exact>
constexpr OpRecord nearest(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_upsample<spatial>;
  record.lower = lower_nearest<spatial, exact>;
  record.tolerance = 0;
  return record;
}

// Weights carry float32's error of a position, which grows with the extent.
template <int spatial, MakeTaps make_taps>
constexpr OpRecord smooth(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_smooth<spatial>;
  record.lower = lower_smooth<spatial, make_taps>;
  record.tolerance = 32;
  return record;
}

template <bool cubic>
constexpr OpRecord antialiased(std::string_view schema) {
  return row_op(schema, infer_smooth<2>, lower_antialiased<cubic>, 64);
}

constexpr OpRecord records[] = {
    nearest<1, false>("upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"),
    nearest<1, false>("upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"),
    nearest<2, false>("upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, "
                      "float? scales_w=None) -> Tensor"),
    nearest<2, false>("upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"),
    nearest<3, false>("upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, "
                      "float? scales_h=None, float? scales_w=None) -> Tensor"),
    nearest<3, false>("upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"),
    nearest<1, true>("_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"),
    nearest<1, true>("_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) "
                     "-> Tensor"),
    nearest<2, true>("_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, "
                     "float? scales_w=None) -> Tensor"),
    nearest<2, true>("_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) "
                     "-> Tensor"),
    nearest<3, true>("_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, "
                     "float? scales_h=None, float? scales_w=None) -> Tensor"),
    nearest<3, true>("_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) "
                     "-> Tensor"),
    smooth<1, linear_taps>("upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, "
                           "float? scales=None) -> Tensor"),
    smooth<1, linear_taps>("upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                           "float[]? scale_factors) -> Tensor"),
    smooth<2, linear_taps>("upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, "
                           "float? scales_h=None, float? scales_w=None) -> Tensor"),
    smooth<2, linear_taps>("upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                           "float[]? scale_factors) -> Tensor"),
    smooth<3, linear_taps>("upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, "
                           "float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"),
    smooth<3, linear_taps>("upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                           "float[]? scale_factors) -> Tensor"),
    smooth<2, cubic_taps>("upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, "
                          "float? scales_h=None, float? scales_w=None) -> Tensor"),
    smooth<2, cubic_taps>("upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                          "float[]? scale_factors) -> Tensor"),
    antialiased<false>("_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
                       "float? scales_h=None, float? scales_w=None) -> Tensor"),
    antialiased<false>("_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                       "float[]? scale_factors) -> Tensor"),
    antialiased<true>("_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
                      "float? scales_h=None, float? scales_w=None) -> Tensor"),
    antialiased<true>("_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
                      "float[]? scale_factors) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> upsample_ops() { return records; }

}  // namespace npusim
