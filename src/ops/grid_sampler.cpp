// Images read at computed positions: grid_sampler in two and three dimensions, and the affine grids it is given.
#include <cmath>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

enum class Interpolation : int64_t { linear, nearest, cubic };
enum class Border : int64_t { zeros, border, reflection };

// Input [n, c, (d,) h, w], grid [n, (D,) H, W, 2 or 3] with x first, in [-1, 1].
std::vector<TensorType> infer_grid_sampler(const OpCall& call) {
  const TensorType& input = call.type("input");
  const Shape& grid = call.type("grid").shape;
  const size_t rank = input.shape.size();
  const bool fits = (rank == 4 || rank == 5) && grid.size() == rank && grid[0] == input.shape[0] &&
                    grid.back() == static_cast<int64_t>(rank) - 2;
  if (!fits)
    fail(ErrorKind::bad_input, "{}: input {} and grid {} do not fit", call.op->name(), to_string(input),
         to_string(grid));
  const int64_t mode = call.integer("interpolation_mode"), border = call.integer("padding_mode");
  if (mode < 0 || mode > 2)
    fail(ErrorKind::bad_input, "{}: interpolation_mode is {}, expected 0 to 2", call.op->name(), mode);
  if (border < 0 || border > 2)
    fail(ErrorKind::bad_input, "{}: padding_mode is {}, expected 0 to 2", call.op->name(), border);
  Shape shape{input.shape[0], input.shape[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  return {{input.dtype, shape}};
}

// Reads one image dimension after the other; the kernel's space is the result's shape.
struct Sampler {
  OpKernel& k;
  int input;
  Border border;
  bool align_corners;

  int64_t extent(size_t d) const { return k.shape(input)[2 + d]; }

  // Mirrored at low / 2 and high / 2 until it lies between them.
  Ex reflect(Ex x, double twice_low, double twice_high) const {
    if (twice_low == twice_high) return x * 0.0;
    const double low = twice_low / 2, span = (twice_high - twice_low) / 2;
    x = abs(x - low);
    const Ex extra = fmod(x, literal(x, span)), flips = floor(x / span);
    const Ex even = flips - floor(flips / 2.0) * 2.0 == 0.0;
    return select(even, extra + low, span - extra + low);
  }

  Ex bordered(Ex x, size_t d) const {
    const auto size = static_cast<double>(extent(d));
    if (border == Border::zeros) return x;
    if (border == Border::reflection) x = align_corners ? reflect(x, 0, 2 * (size - 1)) : reflect(x, -1, 2 * size - 1);
    // Where a position is no number ATen's minimum and maximum decide, which are others in 3-D.
    const double unknown = k.shape(input).size() == 4 ? 0 : size - 1;
    return select(isnan(x), unknown, min(max(x, 0.0), size - 1));
  }

  // Dimension d of the image at the kernel's point, in elements.
  Ex position(Ex x, size_t d) const {
    const auto size = static_cast<double>(extent(d));
    return align_corners ? (x + 1.0) * ((size - 1) / 2) : ((x + 1.0) * size - 1.0) * 0.5;
  }

  // The element at whole-numbered (float) positions, times a weight if there is one; 0 outside. There ATen's kernel for
  // images adds 0 times the weight, which may be NaN, and the one for volumes nothing.
  Ex at(const std::vector<Ex>& positions, Ex weight = {}) const {
    std::vector<Coord> coords{Coord(k.dim(0)), Coord(k.dim(1))};
    Ex inside = k.integer(1, Scalar::boolean);
    for (size_t d = 0; d < positions.size(); ++d) {
      const Ex x = positions[d];
      const auto last = static_cast<double>(extent(d) - 1);
      inside = inside && x >= 0.0 && x <= last;
      coords.emplace_back(k.cast(select(isnan(x), 0.0, min(max(x, 0.0), last)), Scalar::i64));
    }
    const Ex x = k.load(input, coords);
    if (!weight.builder) return select(inside, x, 0.0);
    return positions.size() == 3 ? select(inside, x * weight, 0.0) : select(inside, x, 0.0) * weight;
  }
};

// Σ over the corners around the positions of weight · element.
Ex linear(const Sampler& s, const std::vector<Ex>& positions) {
  Ex sum = s.k.number(0);
  for (size_t corner = 0; corner < size_t{1} << positions.size(); ++corner) {
    std::vector<Ex> whole;
    Ex weight = s.k.number(1);
    for (size_t d = 0; d < positions.size(); ++d) {
      const Ex low = floor(positions[d]), part = positions[d] - low;
      const bool upper = corner >> d & 1;
      whole.push_back(upper ? low + 1.0 : low);
      const Ex w = upper ? part : 1.0 - part;
      weight = d == 0 ? w : weight * w;
    }
    const Ex x = s.at(whole, weight);
    sum = corner == 0 ? x : sum + x;
  }
  return sum;
}

// Keys' cubic convolution with a = −0.75 at distance t from the second of four neighbours.
std::array<Ex, 4> cubic_weights(Ex t) {
  constexpr double a = -0.75;
  auto near = [](Ex x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto far = [](Ex x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

// Along one dimension after the other: Σ over the neighbours of weight · what the next dimensions make of them.
Ex cubic(const Sampler& s, const std::vector<Ex>& positions, std::vector<Ex> chosen = {}) {
  const size_t d = chosen.size();
  if (d == positions.size()) return s.at(chosen);
  const Ex first = floor(positions[d]);
  const auto weights = cubic_weights(positions[d] - first);
  chosen.emplace_back();
  Ex sum = s.k.number(0);
  for (size_t i = 0; i < 4; ++i) {
    chosen.back() = s.bordered(first + (static_cast<double>(i) - 1), d);
    sum = sum + cubic(s, positions, chosen) * weights[i];
  }
  return sum;
}

void lower_grid_sampler(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.outputs[0].shape;
  const size_t spatial = shape.size() - 2;
  OpKernel k(lowering, shape);
  if (element_count(call.type("input").shape) == 0) {
    k.store(k.write(lowering.output(0)), k.number(0));
    return k.done("grid_sampler");
  }
  const Sampler s{k, k.read(lowering.input(0)), static_cast<Border>(call.integer("padding_mode")),
                  call.boolean("align_corners")};
  const int grid = k.read(lowering.input(1));
  const auto mode = static_cast<Interpolation>(call.integer("interpolation_mode"));
  std::vector<Ex> positions;
  for (size_t d = 0; d < spatial; ++d) {
    std::vector<Coord> at{Coord(k.dim(0))};
    for (size_t i = 0; i < spatial; ++i) at.emplace_back(k.dim(static_cast<int>(2 + i)));
    at.emplace_back(static_cast<int64_t>(spatial - 1 - d));
    Ex x = s.position(k.load(grid, at), d);
    positions.push_back(mode == Interpolation::cubic ? x : s.bordered(x, d));
  }
  Ex x;
  if (mode == Interpolation::cubic) {
    x = cubic(s, positions);
  } else if (mode == Interpolation::linear) {
    x = linear(s, positions);
  } else {
    for (Ex& p : positions) p = round(p);
    x = s.at(positions);
  }
  k.store(k.write(lowering.output(0)), x);
  k.done("grid_sampler");
}

// theta [n, 2, 3] and size [n, c, h, w], or [n, 3, 4] and [n, c, d, h, w]
std::vector<TensorType> infer_affine_grid(const OpCall& call) {
  const TensorType& theta = call.type("theta");
  const auto size = call.ints("size");
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta.shape != Shape{size[0], spatial, spatial + 1})
    fail(ErrorKind::bad_input, "{}: theta {} and size {} do not fit", call.op->name(), to_string(theta),
         to_string(size));
  Shape shape{size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(spatial);
  return {{theta.dtype, shape}};
}

void lower_affine_grid(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.outputs[0].shape;
  const int spatial = static_cast<int>(shape.size()) - 2;
  const bool align = call.boolean("align_corners");
  OpKernel k(lowering, shape);
  const int theta = k.read(lowering.input(0));
  const Scalar type = std::max(scalar_of(call.type("theta").dtype), Scalar::f32);
  auto element = [&](int column) {
    const Coord at[] = {k.dim(0), k.dim(spatial + 1), int64_t{column}};
    return k.load(theta, at);
  };
  Ex x = element(spatial);
  for (int i = 0; i < spatial; ++i) {  // x is the last dimension of the grid
    const int d = spatial - i;
    const auto n = static_cast<double>(shape[static_cast<size_t>(d)]);
    Ex base = k.cast(k.index(d), type) * (n > 1 ? 2 / (align ? n - 1 : n) : 0.0);
    base = n > 1 ? base + (align ? -1.0 : 1 / n - 1) : base;
    x = x + element(i) * base;
  }
  k.store(k.write(lowering.output(0)), x);
  k.done("affine_grid");
}

constexpr OpRecord sampled(std::string_view schema) {
  OpRecord record = indexed(schema, infer_grid_sampler, lower_grid_sampler);
  record.tolerance = 32;  // the positions' rounding is times the image's steepness
  return record;
}

constexpr OpRecord records[] = {
    sampled("grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> "
            "Tensor"),
    sampled("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
            "-> Tensor"),
    sampled("grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
            "-> Tensor"),
    {.schema = "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
     .family = OpFamily::create,
     .infer = infer_affine_grid,
     .lower = lower_affine_grid,
     .tolerance = 8},
};

}  // namespace

std::span<const OpRecord> grid_sampler_ops() { return records; }

}  // namespace npusim
