// The kernels of a convolution: direct, and transposed as a direct one.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/conv.h"
#include "ops/overlap.h"

namespace npusim {
namespace {

// Extents of one convolution, read off its operands.
struct Geometry {
  size_t spatial;  // number of spatial dimensions
  bool batched;
  int64_t batch, group_in, group_out;
  std::vector<int64_t> in, out, kernel;  // spatial
};

Geometry geometry(const Lowering& lowering, const ConvSpec& spec, int image, int weight, int result) {
  const Shape &i = lowering.type(image).shape, &w = lowering.type(weight).shape, &r = lowering.type(result).shape;
  Geometry g{w.size() - 2, i.size() == w.size(), 1, 0, 0, {}, {}, {}};
  if (g.batched) g.batch = i[0];
  g.group_in = i[g.batched] / spec.groups;
  g.group_out = r[g.batched] / spec.groups;
  g.in.assign(i.end() - static_cast<std::ptrdiff_t>(g.spatial), i.end());
  g.out.assign(r.end() - static_cast<std::ptrdiff_t>(g.spatial), r.end());
  g.kernel.assign(w.begin() + 2, w.end());
  return g;
}

// Of one spatial dimension: the result elements whose windows meet the image.
struct Meeting {
  int64_t first, count;
};

Meeting meeting_of(const ConvSpec& spec, const Geometry& g, size_t d) {
  const int64_t stride = spec.stride[d], reach = (g.kernel[d] - 1) * spec.dilation[d];
  const int64_t first = (std::max<int64_t>(spec.before[d] - reach, 0) + stride - 1) / stride;
  const int64_t beyond = g.in[d] + spec.before[d];  // where the image ends, from the first window's start
  const int64_t end = beyond <= 0 || g.in[d] == 0 ? 0 : std::min((beyond - 1) / stride + 1, g.out[d]);
  return {first, std::max<int64_t>(end - first, 0)};
}

// The result from its elements `within` whose windows meet the image: others are 0; and the bias.
void frame(Lowering& lowering, std::string name, const std::vector<Meeting>& dims, int within, int bias, int result,
           bool batched) {
  const Shape& space = lowering.type(result).shape;
  OpKernel k(lowering, space);
  std::vector<Coord> at;
  for (int d = 0; d < batched + 1; ++d) at.emplace_back(k.dim(d));
  Ex inside = k.integer(1, Scalar::boolean);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Affine shifted = k.dim(batched + 1 + static_cast<int>(i)) + -dims[i].first;
    at.emplace_back(shifted);
    inside = inside && k.in_bounds(shifted, dims[i].count);
  }
  Ex x = select(inside, k.load(k.read(within), at), 0);
  if (bias >= 0) {
    const Coord channel[] = {k.dim(batched)};
    x = x + k.load(k.read(bias), channel);
  }
  k.store(k.write(result), x);
  k.done(std::move(name));
}

// Space [n, group, out channel, out…], reduced [in channel, kernel…]. `padded`: what is around the image are zeros of
// it, which an infinite weight makes NaN; of a transposed convolution there is nothing.
void lower_direct(Lowering& lowering, std::string name, const ConvSpec& spec, int image, int weight, int bias,
                  int result, bool padded) {
  const Geometry g = geometry(lowering, spec, image, weight, result);
  std::vector<Meeting> meetings;
  for (size_t d = 0; d < g.spatial; ++d) meetings.push_back(meeting_of(spec, g, d));
  Shape met = lowering.type(result).shape;
  for (size_t d = 0; d < g.spatial; ++d) met[g.batched + 1 + d] = meetings[d].count;
  if (met != lowering.type(result).shape && element_count(met) > 0) {  // some windows lie outside the image
    ConvSpec inner = spec;
    for (size_t d = 0; d < g.spatial; ++d) inner.before[d] -= meetings[d].first * spec.stride[d];
    const int within = lowering.temporary({compute_dtype(lowering.type(result).dtype), met});
    lower_direct(lowering, name + "_within", inner, image, weight, -1, within, padded);
    return frame(lowering, std::move(name), meetings, within, bias, result, g.batched);
  }
  Shape space{g.batch, spec.groups, g.group_out};
  space.insert(space.end(), g.out.begin(), g.out.end());
  Shape reduced{g.group_in};
  reduced.insert(reduced.end(), g.kernel.begin(), g.kernel.end());
  const bool nothing = element_count(reduced) == 0 || element_count(met) == 0;
  const bool contract = is_narrow_float(lowering.type(image).dtype) && is_narrow_float(lowering.type(weight).dtype);
  const int rank = static_cast<int>(space.size());
  if (!contract && !nothing) space.insert(space.end(), reduced.begin(), reduced.end());
  OpKernel k(lowering, std::move(space), contract || nothing ? 0 : static_cast<int>(reduced.size()));

  const int image_arg = k.read(image), weight_arg = k.read(weight);
  const Affine in_channel = k.dim(rank), group = k.dim(1), channel = group * g.group_out + k.dim(2);
  std::vector<Coord> image_at, result_at, weight_at;
  if (g.batched) image_at.emplace_back(k.dim(0)), result_at.emplace_back(k.dim(0));
  image_at.emplace_back(group * g.group_in + in_channel);
  result_at.emplace_back(channel);
  if (spec.transposed)
    weight_at = {Coord(group * g.group_in + in_channel), Coord(k.dim(2))};
  else
    weight_at = {Coord(channel), Coord(in_channel)};
  Ex inside = k.integer(1, Scalar::boolean);
  for (size_t d = 0; d < g.spatial; ++d) {
    const int out = 3 + static_cast<int>(d), tap = rank + 1 + static_cast<int>(d);
    const Affine at = k.dim(out) * spec.stride[d] + k.dim(tap) * spec.dilation[d] + (-spec.before[d]);
    image_at.emplace_back(at);
    result_at.emplace_back(k.dim(out));
    weight_at.emplace_back(spec.transposed ? k.dim(tap) * -1 + (g.kernel[d] - 1) : k.dim(tap));
    if (!contract && !nothing) inside = inside && k.in_bounds(at, g.in[d]);
  }
  Ex x;
  if (nothing) {
    x = k.number(0);
  } else if (contract) {
    x = k.contract(ContractionKind::conv, reduced, image_arg, image_at, weight_arg, weight_at);
  } else {
    const Ex pixel = k.load(image_arg, image_at), tap = k.load(weight_arg, weight_at);
    x = k.reduce(Reduction::sum, padded ? select(inside, pixel, 0) * tap : select(inside, pixel * tap, 0));
  }
  if (bias >= 0) {
    const Coord at[] = {channel};
    x = x + k.load(k.read(bias), at);
  }
  k.store(k.write(result), result_at, x);
  k.done(std::move(name));
}

// Kernel and stride tile the result: each of its elements is one product over the channels. A matmul over
// [n, group, out channel, in…, kernel…].
void lower_tiling(Lowering& lowering, std::string name, const ConvSpec& spec, int image, int weight, int bias,
                  int result, const Geometry& g) {
  Shape space{g.batch, spec.groups, g.group_out};
  for (size_t d = 0; d < g.spatial; ++d) {
    space.push_back(g.in[d]);
    space.push_back(g.kernel[d]);
  }
  const int rank = static_cast<int>(space.size());
  OpKernel k(lowering, std::move(space));
  const int image_arg = k.read(image), weight_arg = k.read(weight);
  const Affine in_channel = k.dim(1) * g.group_in + k.dim(rank), channel = k.dim(1) * g.group_out + k.dim(2);
  std::vector<Coord> image_at, result_at, weight_at{Coord(in_channel), Coord(k.dim(2))};
  if (g.batched) image_at.emplace_back(k.dim(0)), result_at.emplace_back(k.dim(0));
  image_at.emplace_back(in_channel);
  result_at.emplace_back(channel);
  for (size_t d = 0; d < g.spatial; ++d) {
    const int in = 3 + 2 * static_cast<int>(d);
    image_at.emplace_back(k.dim(in));
    weight_at.emplace_back(k.dim(in + 1));
    result_at.emplace_back(k.dim(in) * g.kernel[d] + k.dim(in + 1));
  }
  Ex x = k.contract(ContractionKind::matmul, {g.group_in}, image_arg, image_at, weight_arg, weight_at);
  if (bias >= 0) {
    const Coord at[] = {channel};
    x = x + k.load(k.read(bias), at);
  }
  k.store(k.write(result), result_at, x);
  k.done(std::move(name));
}

bool tiles(const Lowering& lowering, const ConvSpec& spec, const Geometry& g, int image, int weight) {
  if (!is_narrow_float(lowering.type(image).dtype) || !is_narrow_float(lowering.type(weight).dtype) || g.group_in == 0)
    return false;
  for (size_t d = 0; d < g.spatial; ++d)
    if (spec.stride[d] != g.kernel[d] || spec.before[d] != 0 || (spec.dilation[d] != 1 && g.kernel[d] != 1) ||
        g.out[d] != g.in[d] * g.kernel[d])
      return false;
  return true;
}

// Of one spatial dimension of a transposed convolution: tap t of what is at image element i goes to result element
// i·stride + t·dilation − pad. With t·dilation = p·stride + r, r is the residue of those elements it counts for, and p
// how far before their own quotient the image element is. Result element o = q·stride + r − offset has taps at
// positions p that are multiples of `step`; the one at position j · step from the far end meets image element q + j ·
// step − before. Only residues that are multiples of `every` have any.
struct Residues {
  int64_t stride, dilation, every;
  int64_t step, taps;  // of each residue, zeros among them where none of the kernel's is there
  int64_t count;       // of q
  int64_t before, offset;
  int64_t residues() const { return stride / every; }
};

Residues residues_of(const ConvSpec& spec, const Geometry& g, size_t d) {
  const int64_t stride = spec.stride[d], dilation = spec.dilation[d], pad = spec.before[d];
  const auto floor_div = [stride](int64_t n) { return n / stride - (n % stride < 0); };
  const int64_t first = floor_div(pad), last = floor_div(g.out[d] - 1 + pad);
  const int64_t farthest = (g.kernel[d] - 1) * dilation / stride;
  // Positions repeat with the numerators of dilation / stride: the first `stride` taps show what all have in common.
  int64_t step = 0;
  for (int64_t t = 1; t < std::min(g.kernel[d], stride + 1); ++t) step = std::gcd(step, t * dilation / stride);
  step = std::max<int64_t>(step, 1);
  return {stride,           dilation,         std::gcd(stride, dilation), step, farthest / step + 1,
          last - first + 1, farthest - first, pad - first * stride};
}

// The weight of a direct convolution that computes all residues as channels: [group, r…, out channel] x [in channel,
// taps…].
int residue_weight(Lowering& lowering, const ConvSpec& spec, const std::vector<Residues>& dims, int weight,
                   const Geometry& g) {
  const auto spatial = static_cast<int>(g.spatial);
  Shape shape{spec.groups * g.group_out, g.group_in}, space{spec.groups};
  for (const Residues& d : dims) shape[0] *= d.residues(), shape.push_back(d.taps), space.push_back(d.residues());
  space.insert(space.end(), {g.group_out, g.group_in});
  for (const Residues& d : dims) space.push_back(d.taps);
  const int result = lowering.temporary({lowering.type(weight).dtype, std::move(shape)});
  OpKernel k(lowering, std::move(space));
  const Affine in_channel = k.dim(2 + spatial);
  Affine row = k.dim(0);
  std::vector<Coord> from{Coord(k.dim(0) * g.group_in + in_channel), Coord(k.dim(1 + spatial))}, taps;
  Ex inside = k.integer(1, Scalar::boolean);
  for (int i = 0; i < spatial; ++i) {
    const Residues& d = dims[static_cast<size_t>(i)];
    const int64_t kernel = g.kernel[static_cast<size_t>(i)], reach = d.step * d.stride;
    const Affine j = k.dim(3 + spatial + i);
    const Affine spread = k.dim(1 + i) * d.every + j * -reach + (d.taps - 1) * reach;  // tap · dilation
    row = row * d.residues() + k.dim(1 + i);
    taps.emplace_back(j);
    if (d.dilation == 1) {
      from.emplace_back(spread);
      inside = inside && k.in_bounds(spread, kernel);
      continue;
    }
    const Ex n = k.value(spread), tap = idiv(n, k.integer(d.dilation));
    inside = inside && (irem(n, k.integer(d.dilation)) == 0) && tap < kernel;
    from.emplace_back(min(tap, kernel - 1));
  }
  std::vector<Coord> to{Coord(row * g.group_out + k.dim(1 + spatial)), Coord(in_channel)};
  to.insert(to.end(), taps.begin(), taps.end());
  const Ex x = k.load(k.read(weight), from);
  k.store(k.write(result), to, select(inside, x, 0));
  k.done("residue_weight");
  return result;
}

// Puts residues side by side, zeros between those that are not there, and adds the bias: from
// [n, group · r… · out channel, q…] to [n, C, out…].
void interleave(Lowering& lowering, std::string name, const ConvSpec& spec, const std::vector<Residues>& dims, int from,
                int bias, int result, const Geometry& g) {
  Shape space{g.batch, spec.groups, g.group_out};
  for (const Residues& d : dims) space.insert(space.end(), {d.count, d.residues(), d.every});
  OpKernel k(lowering, std::move(space));
  const Affine channel = k.dim(1) * g.group_out + k.dim(2);
  Affine row = k.dim(1);
  std::vector<Coord> counts, at, to;
  if (g.batched) at.emplace_back(k.dim(0)), to.emplace_back(k.dim(0));
  to.emplace_back(channel);
  Ex there = k.integer(1, Scalar::boolean);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Residues& d = dims[i];
    const int q = 3 + 3 * static_cast<int>(i);
    row = row * d.residues() + k.dim(q + 1);
    counts.emplace_back(k.dim(q));
    if (d.every > 1) there = there && k.in_bounds(k.dim(q + 2), 1);
    // Beyond the result: not stored.
    to.emplace_back(k.dim(q) * d.stride + k.dim(q + 1) * d.every + k.dim(q + 2) + -d.offset);
  }
  at.emplace_back(row * g.group_out + k.dim(2));
  at.insert(at.end(), counts.begin(), counts.end());
  Ex x = select(there, k.load(k.read(from), at), 0);
  if (bias >= 0) {
    const Coord one[] = {channel};
    x = x + k.load(k.read(bias), one);
  }
  k.store(k.write(result), to, x);
  k.done(std::move(name));
}

// A transposed convolution as a direct one of stride 1 over the image as it is, with the residues of the result's
// coordinates modulo the stride as channels.
void lower_residues(Lowering& lowering, std::string name, const ConvSpec& spec, int image, int weight, int bias,
                    int result, const Geometry& g) {
  std::vector<Residues> dims;
  ConvSpec direct = spec;
  direct.transposed = false;
  const TensorType& type = lowering.type(result);
  TensorType sums{compute_dtype(type.dtype), {}};
  if (g.batched) sums.shape.push_back(g.batch);
  sums.shape.push_back(spec.groups * g.group_out);
  for (size_t d = 0; d < g.spatial; ++d) {
    dims.push_back(residues_of(spec, g, d));
    direct.stride[d] = 1;
    direct.dilation[d] = dims[d].step;
    direct.before[d] = dims[d].before;
    sums.shape[g.batched] *= dims[d].residues();
    sums.shape.push_back(dims[d].count);
  }
  const int residues = lowering.temporary(sums);
  lower_direct(lowering, name + "_residues", direct, image, residue_weight(lowering, spec, dims, weight, g), -1,
               residues, false);
  interleave(lowering, std::move(name), spec, dims, residues, bias, result, g);
}

// What each image element gives to all it meets, a product over its channels: [n, C, kernel…, in…].
int spread(Lowering& lowering, std::string name, const ConvSpec& spec, int image, int weight, TensorType result,
           const Geometry& g) {
  Shape shape(result.shape.begin(), result.shape.begin() + g.batched + 1), space{g.batch, spec.groups, g.group_out};
  for (Shape* s : {&shape, &space}) {
    s->insert(s->end(), g.kernel.begin(), g.kernel.end());
    s->insert(s->end(), g.in.begin(), g.in.end());
  }
  const int to = lowering.temporary({compute_dtype(result.dtype), shape}), rank = static_cast<int>(space.size());
  const bool contract = is_narrow_float(lowering.type(image).dtype) && is_narrow_float(lowering.type(weight).dtype);
  if (!contract) space.push_back(g.group_in);
  OpKernel k(lowering, std::move(space), contract ? 0 : 1);
  const int image_arg = k.read(image), weight_arg = k.read(weight);
  const Affine in_channel = k.dim(1) * g.group_in + k.dim(rank);
  std::vector<Coord> image_at, result_at, weight_at{Coord(in_channel), Coord(k.dim(2))};
  if (g.batched) image_at.emplace_back(k.dim(0)), result_at.emplace_back(k.dim(0));
  image_at.emplace_back(in_channel);
  result_at.emplace_back(k.dim(1) * g.group_out + k.dim(2));
  for (size_t d = 0; d < 2 * g.spatial; ++d) {
    const Affine at = k.dim(3 + static_cast<int>(d));
    result_at.emplace_back(at);
    (d < g.spatial ? weight_at : image_at).emplace_back(at);
  }
  const Ex x = contract ? k.contract(ContractionKind::matmul, {g.group_in}, image_arg, image_at, weight_arg, weight_at)
                        : k.reduce(Reduction::sum, k.load(image_arg, image_at) * k.load(weight_arg, weight_at));
  k.store(k.write(to), result_at, x);
  k.done(std::move(name));
  return to;
}

// A transposed convolution of few channels: a direct one would gather all elements that a pixel meets for few products
// of each, and most of its pixels of a far reach meet none. By multiply-adds, to which an element that is gathered or
// written and read again is worth a few.
// Not where that is many times what is read and written.
bool spreads(const Lowering& lowering, const ConvSpec& spec, const Geometry& g, int image, int result) {
  const bool wide = !is_narrow_float(lowering.type(result).dtype);
  const double of_gathering = wide ? 8 : 14, of_spreading = wide ? 32 : 80;
  double positions = 1, residues = 1, taps = 1, kernel = 1, in = 1;
  for (size_t d = 0; d < g.spatial; ++d) {
    const Residues r = residues_of(spec, g, d);
    if (spec.before[d] < 0) return false;  // whose pixels begin behind the first window's
    positions *= static_cast<double>(r.count), residues *= static_cast<double>(r.residues());
    taps *= static_cast<double>(r.taps), kernel *= static_cast<double>(g.kernel[d]);
    in *= static_cast<double>(g.in[d]);
  }
  const auto channels = static_cast<double>(g.group_in), out = static_cast<double>(g.group_out);
  const double direct = positions * taps * channels * (residues * out + of_gathering);
  const double columns = in * kernel * out, spread = columns * (channels + of_spreading);
  const auto elements = static_cast<double>(element_count(lowering.type(image).shape)) +
                        static_cast<double>(element_count(lowering.type(result).shape));
  constexpr double most = 16;
  return spread < direct && columns * static_cast<double>(g.batch * spec.groups) <= most * elements;
}

void lower_spread(Lowering& lowering, std::string name, const ConvSpec& spec, int image, int weight, int bias,
                  int result, const Geometry& g) {
  const int columns = spread(lowering, name + "_spread", spec, image, weight, lowering.type(result), g);
  std::vector<Window> dims;
  for (size_t d = 0; d < g.spatial; ++d)
    dims.push_back({g.out[d], g.kernel[d], spec.stride[d], spec.before[d], spec.dilation[d], g.in[d]});
  lower_overlap(lowering, std::move(name), dims, columns, bias, result);
}

}  // namespace

void lower_conv(Lowering& lowering, std::string name, ConvSpec spec, int image, int weight, int bias, int result) {
  if (!spec.transposed) return lower_direct(lowering, std::move(name), spec, image, weight, bias, result, true);
  const Geometry g = geometry(lowering, spec, image, weight, result);
  if (tiles(lowering, spec, g, image, weight))
    return lower_tiling(lowering, std::move(name), spec, image, weight, bias, result, g);
  const bool dense = std::all_of(spec.stride.begin(), spec.stride.end(), [](int64_t s) { return s == 1; });
  const bool nothing = g.group_in == 0 || element_count(lowering.type(image).shape) == 0 ||
                       element_count(lowering.type(result).shape) == 0 || element_count(g.kernel) == 0;
  if (!nothing && spreads(lowering, spec, g, image, result))
    return lower_spread(lowering, std::move(name), spec, image, weight, bias, result, g);
  if (!dense && !nothing) return lower_residues(lowering, std::move(name), spec, image, weight, bias, result, g);
  // o·1 + tap·dilation, with taps counted from the far end, is where the image element stands.
  for (size_t d = 0; d < g.spatial; ++d) {
    spec.before[d] = (g.kernel[d] - 1) * spec.dilation[d] - spec.before[d];
    spec.stride[d] = 1;
  }
  lower_direct(lowering, std::move(name), spec, image, weight, bias, result, false);
}

Shape conv_shape(const OpCall& call, const ConvSpec& spec, const Shape& image, const Shape& weight) {
  const size_t spatial = weight.size() - 2;
  const bool batched = image.size() == weight.size();
  if (weight.size() < 3 || (!batched && image.size() + 1 != weight.size()))
    fail(ErrorKind::bad_input, "{}: input {} and weight {} do not fit", call.op->name(), to_string(image),
         to_string(weight));
  const int64_t channels = image[batched], wanted = spec.transposed ? weight[0] : weight[1] * spec.groups;
  if (spec.groups < 1 || channels != wanted || (spec.transposed ? channels : weight[0]) % spec.groups != 0)
    fail(ErrorKind::bad_input, "{}: input {} and weight {} do not fit {} groups", call.op->name(), to_string(image),
         to_string(weight), spec.groups);
  Shape shape(image.begin(), image.begin() + batched);
  shape.push_back(spec.transposed ? weight[1] * spec.groups : weight[0]);
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t in = image[batched + 1 + d], reach = spec.dilation[d] * (weight[2 + d] - 1) + 1;
    if (spec.stride[d] < 1 || spec.dilation[d] < 1)
      fail(ErrorKind::bad_input, "{}: stride and dilation must be positive", call.op->name());
    const int64_t room = in + spec.before[d] + spec.after[d] - reach;
    const int64_t extent =
        spec.transposed ? (in - 1) * spec.stride[d] - spec.before[d] - spec.after[d] + reach + spec.output_padding[d]
        : room < 0      ? -1
                        : room / spec.stride[d] + 1;
    if (extent < 0)
      fail(ErrorKind::bad_input, "{}: a kernel of {} does not fit input {}", call.op->name(), to_string(weight),
           to_string(image));
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace npusim
