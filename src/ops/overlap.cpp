// Images as the sums of their windows: of each pixel the few elements that fall on it.
#include "ops/overlap.h"

#include <algorithm>
#include <numeric>

#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

// One dimension. Element j of window w falls on pixel j·dilation + w·stride, counted from the padding's first one. The
// pixels that any element falls on are a·dilation + q·stride, each for one a < residues and one q; on each fall the
// elements a + r·period of the windows q − r·step, for a few r.
struct Overlap {
  int64_t residues, period, step;
  int64_t first, positions;  // q runs from `first`
  int64_t overlaps;          // r
  bool covers;               // every pixel is one of those
  int64_t low, windows;      // those that are asked for, from `low` on: some are not there
};

Overlap overlap(const Window& w) {
  const int64_t common = std::gcd(w.dilation, w.stride);
  Overlap o{};
  o.period = w.stride / common;
  o.step = w.dilation / common;
  o.residues = std::min(o.period, w.size);
  o.first = -((o.residues - 1) * w.dilation / w.stride);
  o.positions = (w.extent - 1 + w.padding) / w.stride + 1 - o.first;
  o.overlaps = (w.size + o.period - 1) / o.period;
  o.covers = o.residues == w.stride;
  o.low = std::min<int64_t>(o.first - (o.overlaps - 1) * o.step, 0);
  o.windows = std::max(o.first + o.positions, w.count) - o.low;
  return o;
}

// The columns with zeros wherever an element or a window is asked for that is not there, so that nobody needs to ask:
// -1 where few are asked for, or that would be many times as much.
int with_all(Lowering& lowering, std::span<const Window> dims, std::span<const Overlap> overlaps, int columns) {
  const TensorType type = lowering.type(columns);
  const size_t rank = dims.size(), lead = type.shape.size() - 2 * rank;
  Shape shape = type.shape;
  for (size_t d = 0; d < rank; ++d) {
    shape[lead + d] = overlaps[d].overlaps * overlaps[d].period;
    shape[lead + rank + d] = overlaps[d].windows;
  }
  constexpr int64_t few = 8;
  constexpr double most = 4, most_elements = 1 << 26;
  int64_t met = 1;  // by a pixel, at most
  for (const Overlap& o : overlaps) met *= o.overlaps;
  double all = 1;  // which may be more than an integer has room for
  for (const int64_t extent : shape) all *= static_cast<double>(extent);
  const auto columns_given = static_cast<double>(element_count(type.shape));
  if (met <= few || all > std::min(most * columns_given, most_elements)) return -1;
  const int result = lowering.temporary({type.dtype, shape});
  OpKernel k(lowering, shape);
  Ex inside = k.integer(1, Scalar::boolean);
  std::vector<Coord> at = coordinates(identity_coordinates(lead));
  for (size_t d = 0; d < 2 * rank; ++d) {
    const Affine position = k.dim(static_cast<int>(lead + d)) + (d < rank ? 0 : overlaps[d - rank].low);
    at.emplace_back(position);
    inside = inside && k.in_bounds(position, type.shape[lead + d]);
  }
  const Ex x = k.load(k.read(columns), at);
  k.store(k.write(result), select(inside, x, k.integer(0, x.type())));
  k.done("columns");
  return result;
}

// The bias, or 0.
Ex bias_of(OpKernel& k, int bias, int channel, Scalar type) {
  const Coord at[] = {k.dim(channel)};
  return bias < 0 ? k.integer(0, type) : k.load(k.read(bias), at);
}

}  // namespace

void lower_overlap(Lowering& lowering, std::string name, std::span<const Window> dims, int columns, int bias,
                   int result) {
  const TensorType image = lowering.type(result);
  const int rank = static_cast<int>(dims.size()), lead = static_cast<int>(image.shape.size()) - rank;
  Shape space(image.shape.begin(), image.shape.begin() + lead);
  std::vector<Overlap> overlaps;
  for (const Window& w : dims) {
    const Overlap& o = overlaps.emplace_back(overlap(w));
    space.insert(space.end(), {o.positions, o.residues});
  }
  for (const Overlap& o : overlaps) space.push_back(o.overlaps);
  const bool covers = std::all_of(overlaps.begin(), overlaps.end(), [](const Overlap& o) { return o.covers; });
  const int others = covers ? -1 : lowering.temporary(image);
  if (!covers) {
    OpKernel k(lowering, image.shape);
    k.store(k.write(others), bias_of(k, bias, lead - 1, scalar_of(image.dtype)));
    k.done("overlapped");
  }
  const int all = with_all(lowering, dims, overlaps, columns);
  OpKernel k(lowering, space, rank);
  const int before = covers ? -1 : k.read(others), from = k.read(all < 0 ? columns : all);
  Ex inside = k.integer(1, Scalar::boolean);
  std::vector<Coord> at = coordinates(identity_coordinates(static_cast<size_t>(lead))), to = at, windows;
  for (int d = 0; d < rank; ++d) {
    const Window& w = dims[static_cast<size_t>(d)];
    const Overlap& o = overlaps[static_cast<size_t>(d)];
    const int q = lead + 2 * d, r = lead + 2 * rank + d;
    const Affine position = k.dim(q) + o.first, residue = k.dim(q + 1);
    const Affine element = residue + k.dim(r) * o.period, window = position + k.dim(r) * -o.step;
    inside = inside && k.in_bounds(element, w.size) && k.in_bounds(window, w.count);
    at.emplace_back(element);
    windows.emplace_back(all < 0 ? window : window + -o.low);
    to.emplace_back(residue * w.dilation + position * w.stride + (-w.padding));
  }
  at.insert(at.end(), windows.begin(), windows.end());
  const Ex x = k.load(from, at);
  Ex sum = k.reduce(Reduction::sum, all < 0 ? select(inside, x, k.integer(0, x.type())) : x);
  if (bias >= 0) sum = sum + bias_of(k, bias, lead - 1, x.type());
  k.store(k.write(result, before), to, sum);
  k.done(std::move(name));
}

}  // namespace npusim
