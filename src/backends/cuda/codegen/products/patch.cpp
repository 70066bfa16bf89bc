// One text: the image's words copied to shared memory, the patch that is made of them, products, the epilogue.
#include "backends/cuda/codegen/products/patch.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::products {
namespace {

constexpr PatchShape shapes[] = {{16, 16, 64, 4}, {8, 16, 64, 4}, {8, 8, 64, 4},
                                 {16, 16, 32, 4}, {8, 16, 32, 4}, {8, 8, 32, 4}};
constexpr int64_t most_bytes = least_block_bytes;

int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

// Sizes of a block's memory, in elements unless said otherwise.
struct Sizes {
  const PatchConv& c;
  const PatchShape& s;
  int64_t height() const { return (s.lines - 1) * c.windows.stride[0] + reach(0); }
  int64_t width() const { return (s.across - 1) * c.windows.stride[1] + c.pixels_of_line(); }
  // A pixel is 8 bytes, and words of 16 begin at even ones: windows that begin at odd ones are read from a copy that
  // lies one pixel further to the left.
  int copies() const { return c.windows.stride[1] % 2 == 0 ? 1 : 2; }
  int64_t pitch() const { return parts(width(), 2) * 2 * patch_channels; }                        // from line to line
  int64_t copy() const { return parts(height() * pitch(), 64) * 64 + (copies() == 2 ? 32 : 0); }  // other banks
  // A line of the weight: words of neighbouring lines lie in different banks.
  int64_t depth() const { return c.windows.kernel[0] * c.pixels_of_line() * patch_channels; }
  int64_t weight_pitch() const { return depth() + word; }
  // Words begin before the patch, always by as much, where columns of patches are whole words apart.
  int64_t skew() const { return ((-c.windows.pad_low[1]) % word + word) % word; }
  int64_t words() const { return parts(skew() + width(), word); }  // of a line of a channel
  int64_t staged() const {
    return c.pixels == PatchConv::Pixels::lines ? height() * c.windows.in_channels * words() * word : 0;
  }
  int64_t bytes() const { return 2 * (s.columns * weight_pitch() + copies() * copy() + staged()); }
  int64_t along(size_t i) const { return parts(c.windows.output[i], i == 0 ? s.lines : s.across); }
  int64_t column_parts() const { return parts(c.windows.out_channels, s.columns); }

 private:
  int64_t reach(size_t i) const { return (c.windows.kernel[i] - 1) * c.windows.dilation[i] + 1; }
};

class PatchText {
 public:
  PatchText(const Kernel& kernel, const Product& product, const PatchConv& conv, const PatchShape& shape)
      : k_(kernel), p_(product), c_(conv), s_(shape), z_{c_, s_}, type_(element_type(product)) {}

  std::string body() {
    t_.add("extern __shared__ uint4 shared_words[];");
    t_.add("const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;");
    t_.add(fmt::format("{0}* const weight = ({0}*)shared_words;", type_));
    t_.add(fmt::format("{}* const patch = weight + {};", type_, s_.columns * z_.weight_pitch()));
    if (z_.staged() > 0) t_.add(fmt::format("{}* const staged = patch + {};", type_, z_.copies() * z_.copy()));
    t_.add(fmt::format("const int first_column = block % {} * {};", z_.column_parts(), s_.columns));
    const auto follow = [&] {
      for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    };
    if (!p_.b.ahead) follow();
    load_weight();
    if (p_.b.ahead) follow();
    t_.add("int image, first_line, first_at;");
    t_.open("const auto stand_at = [&](const int number)");
    t_.add(fmt::format("image = number / {};", z_.along(0) * z_.along(1)));
    t_.add(fmt::format("first_line = number / {} % {} * {};", z_.along(1), z_.along(0), s_.lines));
    t_.add(fmt::format("first_at = number % {} * {};", z_.along(1), s_.across));
    t_.close(";");
    if (z_.staged() > 0) stage_lines();
    const Term step = term("gridDim.x / {}", z_.column_parts());
    if (z_.staged() > 0) t_.add(fmt::format("stage(block / {});", z_.column_parts()));
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int number = block / {}; number < {}; number += {})", z_.column_parts(),
                        patches_of(c_, s_), step.text));
    if (z_.staged() > 0) t_.add("wait_copies<0>();");
    t_.add("__syncthreads();");
    t_.add("stand_at(number);");
    make_patch();
    t_.add("__syncthreads();");
    if (z_.staged() > 0) {
      t_.open(fmt::format("if (number + {:+} < {})", step, patches_of(c_, s_)));
      t_.add(fmt::format("stage(number + {:+});", step));
      t_.add("stand_at(number);");
      t_.close();
    }
    sums();
    results();
    t_.close();
    return std::move(t_.text);
  }

 private:
  std::string wide() const { return address_type(p_.a) == "int" ? "" : "(long long)"; }
  // Of the channels that there are.
  void mask(const Term& pixel, int64_t channels) {
    if (channels < 4) t_.add(fmt::format("{}.y{};", pixel, channels == 3 ? " &= 0xffff" : " = 0"));
    if (channels == 1) t_.add(fmt::format("{}.x &= 0xffff;", pixel));
  }

  // Of 32 columns, each lane of four gets eight neighbours: a line, of a tile of eight that the products make, is that
  // of another column. All of a thread's words are asked for at once.
  void load_weight() {
    const ConvWindows& w = c_.windows;
    const int line = c_.pixels_of_line();
    const int64_t taps = w.kernel[0] * line, all = s_.columns * taps;
    const int64_t together = std::min<int64_t>(32, parts(all, s_.threads()));
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int first = thread; first < {}; first += {})", all, together * s_.threads()));
    t_.add(fmt::format("uint2 pixels[{}];", together));
    const auto each = [&] {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int n = 0; n < {}; ++n)", together));
      t_.add(fmt::format("const int i = first + n * {};", s_.threads()));
      if (all % (together * s_.threads()) != 0) t_.add(fmt::format("if (i >= {}) break;", all));
      t_.add(fmt::format("const int line = i / {0}, tap = i % {0};", taps));
    };
    each();
    t_.add("const int column = first_column + line / 32 * 32 + line % 8 / 2 * 8 + line / 8 % 4 * 2 + line % 2;");
    t_.add(fmt::format("const int down = tap / {0}, right = tap % {0};", line));
    t_.add("pixels[n] = uint2{0, 0};");
    t_.open(fmt::format("if (right < {} && column < {})", w.kernel[1], w.out_channels));
    const Operand& b = p_.b;
    t_.add(fmt::format("pixels[n] = *(const uint2*)({} + {} + column * {} + down * {} + right * {});",
                       pointer_of(k_, b), b.offset, w.weight_strides[1], w.weight_strides[3], w.weight_strides[4]));
    mask("pixels[n]", w.in_channels);
    t_.close();
    t_.close();
    each();
    t_.add(fmt::format("*(uint2*)(weight + line * {} + tap * {}) = pixels[n];", z_.weight_pitch(), patch_channels));
    t_.close();
    t_.close();
  }

  // Where the patch begins in the image.
  void corner() {
    const ConvWindows& w = c_.windows;
    t_.add(fmt::format("const int top = first_line * {} - {}, left = first_at * {} - {};", w.stride[0], w.pad_low[0],
                       w.stride[1], w.pad_low[1]));
    t_.add(fmt::format("const {}* const from = {} + {} + {}image * {};", type_, pointer_of(k_, p_.a), c_.image.offset,
                       wide(), w.image_strides[0]));
  }

  void stage_lines() {
    const ConvWindows& w = c_.windows;
    const int64_t words = z_.words(), channels = w.in_channels, all = z_.height() * channels * words;
    t_.open("const auto stage = [&](const int number)");
    t_.add("stand_at(number);");
    corner();
    t_.add("#pragma unroll 4");
    t_.open(fmt::format("for (int i = thread; i < {}; i += {})", all, s_.threads()));
    t_.add(fmt::format("const int down = top + i / {}, right = left - {} + i % {} * {};", channels * words, z_.skew(),
                       words, word));
    t_.add(fmt::format("const bool there = (unsigned)down < {}u && (unsigned)right < {}u;", w.input[0], w.input[1]));
    t_.add(fmt::format("const int channel = i / {} % {};", words, channels));
    t_.add(fmt::format("copy_async(staged + i * {}, from + (there ? {}channel * {} + {}down * {} + right : 0), there);",
                       word, wide(), w.image_strides[1], wide(), w.image_strides[2]));
    t_.close();
    t_.add("commit_copies();");
    t_.close(";");
  }

  // Pixels of four channels, the image's own and zeros.
  void make_patch() {
    const ConvWindows& w = c_.windows;
    const int64_t width = z_.width(), channels = w.in_channels;
    const bool lines = z_.staged() > 0;
    t_.open("");
    if (!lines) corner();
    t_.add(fmt::format("#pragma unroll {}", lines ? 4 : 2));
    t_.open(fmt::format("for (int i = thread; i < {}; i += {})", z_.height() * width, s_.threads()));
    t_.add(fmt::format("const int down = i / {0}, right = i % {0};", width));
    t_.add("uint2 pixel = uint2{0, 0};");
    const auto element = [&](int64_t c) {
      if (lines) return term("(unsigned)at[{}]", c * z_.words() * word);
      return term("(unsigned)at[{}{}]", wide(), c * w.image_strides[1]);
    };
    if (lines) {
      t_.add(fmt::format("const {}* const at = staged + down * {} + right + {};", type_, channels * z_.words() * word,
                         z_.skew()));
    } else {
      t_.add("const int y = top + down, x = left + right;");
      t_.open(fmt::format("if ((unsigned)y < {}u && (unsigned)x < {}u)", w.input[0], w.input[1]));
      t_.add(fmt::format("const {}* const at = from + ({}y * {} + {}x * {});", type_, wide(), w.image_strides[2],
                         wide(), w.image_strides[3]));
    }
    if (c_.pixels == PatchConv::Pixels::words) {
      t_.add("pixel = *(const uint2*)at;");
      mask("pixel", channels);
    } else {
      t_.add(
          fmt::format("pixel.x = {:+}{};", element(0), channels > 1 ? fmt::format(" | {:+} << 16", element(1)) : ""));
      if (channels > 2)
        t_.add(
            fmt::format("pixel.y = {:+}{};", element(2), channels > 3 ? fmt::format(" | {:+} << 16", element(3)) : ""));
    }
    if (!lines) t_.close();
    t_.add(fmt::format("*(uint2*)(patch + down * {} + right * {}) = pixel;", z_.pitch(), patch_channels));
    if (z_.copies() == 2)
      t_.add(fmt::format("if (right > 0) *(uint2*)(patch + {} + down * {} + (right - 1) * {}) = pixel;", z_.copy(),
                         z_.pitch(), patch_channels));
    t_.close();
    t_.close();
  }

  void sums() {
    const ConvWindows& w = c_.windows;
    const int m = s_.rows_of_warp() / 16, n = s_.columns / 16, steps = c_.pixels_of_line() / 4;
    const int64_t down = w.stride[0] * z_.pitch();
    t_.add(fmt::format("float sums[{}][{}][4];", m, 2 * n));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m));
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "  for (int j = 0; j < {}; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;", 2 * n));
    // 16 pixels are some lines of the block's, or a part of one.
    t_.add(fmt::format("const int row = warp * {} + lane % 16, right = row % {} * {};", s_.rows_of_warp(), s_.across,
                       w.stride[1]));
    const Term other = z_.copies() == 2 ? term("right % 2 * {} + right / 2 * {}", z_.copy(), 2 * patch_channels)
                                        : term("right * {}", patch_channels);
    t_.add(fmt::format("const {}* const a_from = patch + row / {} * {} + {:+} + lane / 16 * {};", type_, s_.across,
                       down, other, word));
    t_.add(fmt::format("const {}* const b_from = weight + (lane / 16 * 8 + lane % 8) * {} + lane / 8 % 2 * {};", type_,
                       z_.weight_pitch(), word));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int k = 0; k < {}; ++k)", w.kernel[0]));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps));
    t_.add(fmt::format("unsigned a[{}][4], b[{}][4];", m, n));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i) load_matrices(a[i], a_from + i * {} + k * {} + step * 16);", m,
                       16 / s_.across * down, w.dilation[0] * z_.pitch()));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) load_matrices(b[j], b_from + j * {} + k * {} + step * 16);", n,
                       16 * z_.weight_pitch(), 16 * steps));
    no_more_than_the_window(m, steps);
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m));
    t_.add("#pragma unroll");
    t_.add(fmt::format("  for (int j = 0; j < {}; ++j) multiply_{}(sums[i][j], a[i], b[j / 2] + j % 2 * 2);", 2 * n,
                       type_));
    t_.close();
    t_.close();
  }

  // What is right of a window is another one's, and may be no finite number.
  void no_more_than_the_window(int m, int steps) {
    const int64_t there = c_.windows.kernel[1] - int64_t{4} * (steps - 1);  // pixels of a line's last four
    if (there == 4) return;
    t_.open(fmt::format("if (step == {})", steps - 1));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", m));
    for (int half = 0; half < 2; ++half) {
      const int64_t left = there - 2 * half;  // of two pixels, which the lanes 0 and 1, 2 and 3 of four have
      if (left < 2)
        t_.add(
            fmt::format("{}a[i][{}] = a[i][{}] = 0;", left == 1 ? "if (lane % 4 > 1) " : "", 2 * half, 2 * half + 1));
    }
    t_.close();
    t_.close();
  }

  // A lane has two columns of each of four tiles, which are eight neighbours.
  void results() {
    const ConvWindows& w = c_.windows;
    const int m = s_.rows_of_warp() / 16, tiles = s_.columns / 8;
    const std::string name = function_name(k_, p_) + "_at", from = parameter_names(k_);
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m));
    t_.add("#pragma unroll");
    t_.open(fmt::format("  for (int first = 0; first < {}; first += 4)", tiles));
    t_.add(fmt::format("{}_words words[2];", name));
    for (const bool rest : {false, true}) {
      t_.add("#pragma unroll");
      t_.open("for (int n = 0; n < 2; ++n)");
      t_.add(fmt::format("const int at_row = warp * {} + i * 16 + lane / 4 + n * 8;", s_.rows_of_warp()));
      t_.add(fmt::format("const int line = first_line + at_row / {0}, at = first_at + at_row % {0};", s_.across));
      t_.add("const int column = first_column + (first + lane % 4) * 8;");
      if (rest) {
        t_.add("float leaf[8];");
        t_.add("#pragma unroll");
        t_.add("for (int e = 0; e < 8; ++e) leaf[e] = sums[i][first + e / 2][n * 2 + e % 2];");
      }
      t_.add(fmt::format("if (line >= {} || at >= {} || column >= {}) continue;", w.output[0], w.output[1],
                         w.out_channels));
      t_.add(rest ? fmt::format("{}_rest({}, image, line, at, column, leaf, words[n]);", name, from)
                  : fmt::format("{}_read({}, image, line, at, column, words[n]);", name, from));
      t_.close();
    }
    t_.close();
  }

  const Kernel& k_;
  const Product& p_;
  const PatchConv& c_;
  const PatchShape& s_;
  const Sizes z_;
  const std::string_view type_;
  Lines t_;
};

bool even(std::initializer_list<std::pair<int64_t, int64_t>> extents_and_strides, int64_t of) {
  return std::all_of(extents_and_strides.begin(), extents_and_strides.end(),
                     [&](const auto& d) { return d.first == 1 || d.second % of == 0; });
}

PatchConv::Pixels pixels_of(const PatchConv& c) {
  const ConvWindows& w = c.windows;
  const std::vector<int64_t>& s = w.image_strides;
  if (s[3] == 1 && w.input[1] % word == 0 && c.image.offset % word == 0 &&
      even({{w.batch, s[0]}, {w.in_channels, s[1]}, {w.input[0], s[2]}}, word))
    return PatchConv::Pixels::lines;
  if ((w.in_channels == 1 || s[1] == 1) && c.image.offset % 4 == 0 && c.image.elements % 4 == 0 &&
      even({{w.batch, s[0]}, {w.input[0], s[2]}, {w.input[1], s[3]}}, 4))
    return PatchConv::Pixels::words;
  return PatchConv::Pixels::elements;
}

}  // namespace

std::optional<PatchConv> find_patch_conv(const Kernel& k, const plan::Contracted& contracted, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (!k.contraction || k.contraction->kind != ContractionKind::conv) return none("no convolution");
  const Contraction& contraction = *k.contraction;
  const DType pixels = k.args[static_cast<size_t>(contraction.a.arg)].dtype;
  if (dtype_size(pixels) != 2) return none(fmt::format("an image of {}", dtype_name(pixels)));
  if (contraction.reduce[0] > patch_channels) return none(fmt::format("{} channels", contraction.reduce[0]));
  if (!contracted.windows) return none("no windows of an image");
  PatchConv c;
  c.windows = *contracted.windows;
  const ConvWindows& w = c.windows;
  if (w.kernel.size() != 2) return none(fmt::format("{} spatial dimensions", w.kernel.size()));
  if (w.groups != 1) return none(fmt::format("{} groups", w.groups));
  if (w.dilation[1] != 1) return none("its taps are not neighbours");
  if (w.kernel[0] * w.kernel[1] == 1) return none("windows of one pixel");
  if (w.out_channels % word != 0) return none(fmt::format("{} output channels", w.out_channels));
  for (size_t i = 0; i < 2; ++i)
    if (std::max({w.input[i], w.output[i], std::abs(w.pad_low[i])}) > int64_t{1} << 15) return none("a large image");
  c.image.arg = contraction.a.arg;
  c.image.elements = k.args[static_cast<size_t>(contraction.a.arg)].elements;
  c.image.offset = contraction.a.offset;
  if (!contracted.whole_image) return none("an image of which a part is not there");
  c.pixels = pixels_of(c);
  const Access& b = contraction.b;
  const std::vector<int64_t>& s = w.weight_strides;  // [group, out channel, in channel, kernel…]
  c.packed = (w.in_channels == 1 || s[2] == 1) && b.offset % 4 == 0 &&
             k.args[static_cast<size_t>(b.arg)].elements % 4 == 0 &&
             even({{w.out_channels, s[1]}, {w.kernel[0], s[3]}, {w.kernel[1], s[4]}}, 4);
  if (std::none_of(std::begin(shapes), std::end(shapes), [&](const PatchShape& shape) { return fits(c, shape); }))
    return none("windows too large for a block's memory");
  return c;
}

std::span<const PatchShape> patch_shapes() { return shapes; }

bool fits(const PatchConv& c, const PatchShape& s) { return Sizes{c, s}.bytes() <= most_bytes; }

int64_t patches_of(const PatchConv& c, const PatchShape& s) {
  const Sizes z{c, s};
  return c.windows.batch * z.along(0) * z.along(1);
}

PatchShape choose_patch(const PatchConv& c, const Features& features) {
  std::optional<PatchShape> best;
  for (const PatchShape& s : shapes) {
    if (!fits(c, s) || (s.columns > 32 && c.windows.out_channels <= 32)) continue;
    if (!best) best = s;
    // Where there are too few for all multiprocessors, smaller ones.
    const auto blocks = [&](const PatchShape& of) { return patches_of(c, of) * Sizes{c, of}.column_parts(); };
    if (s.columns == best->columns && blocks(*best) < features.units / 2) best = s;
  }
  return *best;
}

bool makes_words(const Product& p) { return p.lanes == word && !p.lanes_are_rows && p.copies == 1; }

std::string patches_decline(const PatchConv& conv, const Product& p) {
  if (!conv.packed) return "the weight is not packed";
  if (!makes_words(p)) return "no words of channels, or several at once";
  return {};
}

GeneratedKernel make_patches(const Kernel& kernel, const Product& product, const PatchConv& conv, const PatchShape& s,
                             const Features& features) {
  const Sizes z{conv, s};
  const std::string name = function_name(kernel, product);
  PointFunction point;
  point.name = name + "_at";
  point.positions = {{"image", {0}}, {"line", {3}}, {"at", {4}}, {"column", {2}}};
  point.lanes = word;
  point.lane_dim = 2;
  GeneratedKernel made;
  // As many as are resident: sums of 64 x 64 leave registers for eight warps on a multiprocessor.
  const int64_t warps = s.rows_of_warp() * s.columns >= 64 * 64 ? 8 : 16;
  const int64_t resident = std::min<int64_t>(warps / s.warps, features.unit_bytes / (z.bytes() + 1024));
  const int64_t column_parts = z.column_parts();
  const int64_t resident_blocks = std::max<int64_t>(1, features.units * resident / column_parts);
  made.shape = {std::min(patches_of(conv, s), resident_blocks) * column_parts, s.threads()};
  made.shared_bytes = z.bytes();
  made.how = fmt::format("patches of {}x{} pixels, {} columns, {}", s.lines, s.across, s.columns,
                         conv.pixels == PatchConv::Pixels::lines   ? "by lines of words"
                         : conv.pixels == PatchConv::Pixels::words ? "by pixels"
                                                                   : "by elements");
  made.functions = print_point(kernel, cuda_dialect, point);
  made.functions += fmt::format("\n// {}: {}\n", name, made.how);
  made.functions += function_head(kernel, product, made.shape, features);
  made.functions += PatchText(kernel, product, conv, s).body() + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::products
