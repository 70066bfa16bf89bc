// The text of a thread: the taps of a line of pixels at a time, sums in float32, the epilogue of eight channels.
#include "backends/cuda/codegen/products/depthwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::products {
namespace {

constexpr int channels = 8;  // of a thread

int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

int64_t threads_of(const ConvWindows& w, int pixels) {
  int64_t threads = w.batch * (w.groups / channels) * parts(w.output.back(), pixels);
  for (size_t d = 0; d + 1 < w.output.size(); ++d) threads *= w.output[d];
  return threads;
}

bool in_words(const Access& access, std::span<const int64_t> strides) {
  return access.offset % channels == 0 &&
         std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride % channels == 0; });
}

class DepthwiseText {
 public:
  DepthwiseText(const Kernel& kernel, const Product& product, const ConvWindows& windows, int pixels)
      : k_(kernel), p_(product), w_(windows), pixels_(pixels), last_(windows.output.size() - 1) {}

  std::string body(int64_t block) {
    const int64_t words = w_.groups / channels, across = parts(w_.output[last_], pixels_),
                  threads = threads_of(w_, pixels_);
    const Access &image = k_.contraction->a, &weight = k_.contraction->b;
    for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    t_.add(fmt::format("const int number = block * {} + threadIdx.x;", block));
    if (threads % block != 0) t_.add(fmt::format("if (number >= {}) return;", threads));
    t_.add(fmt::format("const int channel = number % {} * {};", words, channels));
    t_.add(fmt::format("const int o{} = number / {} % {} * {};", last_, words, across, pixels_));
    int64_t inner = words * across;
    for (size_t d = last_; d-- > 0; inner *= w_.output[d])
      t_.add(fmt::format("const int o{} = number / {} % {};", d, inner, w_.output[d]));
    t_.add(fmt::format("const int image = number / {};", inner));
    t_.add(fmt::format("float sums[{}][{}] = {{}};", pixels_, channels));
    t_.add(fmt::format("const {0}* const pixels = {1} + (image * {2}LL + {3} + channel);", element_type(p_),
                       pointer_of(k_, image.arg), w_.image_strides[0], image.offset));
    t_.add(fmt::format("const {0}* const taps = {1} + ({2} + channel);", element_type(p_), pointer_of(k_, weight.arg),
                       weight.offset));
    lines();
    results();
    return std::move(t_.text);
  }

 private:
  // A loop for each dimension but the last one: which line of the image, and which of the window.
  void lines() {
    std::string there;
    std::vector<Term> line, tap;
    for (size_t d = 0; d < last_; ++d) {
      if (pixels_ > 1) t_.add("#pragma unroll 1");
      t_.open(fmt::format("for (int k{0} = 0; k{0} < {1}; ++k{0})", d, w_.kernel[d]));
      t_.add(fmt::format("const int at{0} = o{0} * {1} + k{0} * {2} - {3};", d, w_.stride[d], w_.dilation[d],
                         w_.pad_low[d]));
      there += fmt::format("{}(unsigned)at{} < {}u", d == 0 ? "" : " && ", d, w_.input[d]);
      line.push_back(term("at{} * {}LL", d, w_.image_strides[2 + d]));
      tap.push_back(term("k{} * {}", d, w_.weight_strides[3 + d]));
    }
    t_.add(fmt::format("const bool line_there = {};", there.empty() ? "true" : there));
    t_.add(fmt::format("const int first = o{} * {} - {};", last_, w_.stride[last_], w_.pad_low[last_]));
    t_.open(fmt::format("const auto pixel = [&](Lanes<{}, {}>& to, const int at)", element_type(p_), channels));
    t_.add(fmt::format("if (line_there && (unsigned)at < {}u)", w_.input[last_]));
    line.push_back(term("at * {}LL", w_.image_strides[2 + last_]));
    tap.push_back(term("k * {}", w_.weight_strides[3 + last_]));
    t_.add(fmt::format("  read_lanes(to, pixels + ({:+}));", sum_of(line)));
    t_.add("else");
    t_.add("  clear_lanes(to);");
    t_.close(";");
    const std::string weight = fmt::format("read_lanes(weight, taps + ({:+}));", sum_of(tap));
    if (pixels_ == 1)
      each_tap(weight);
    else
      shared_line(weight);
    for (size_t d = 0; d < last_; ++d) t_.close();
  }

  void each_tap(const std::string& weight) {
    t_.add("#pragma unroll 8");
    t_.open(fmt::format("for (int k = 0; k < {}; ++k)", w_.kernel[last_]));
    t_.add(fmt::format("Lanes<{}, {}> line, weight;", element_type(p_), channels));
    t_.add(fmt::format("pixel(line, first + k * {});", w_.dilation[last_]));
    t_.add(weight);
    add("sums[0]", "line");
    t_.close();
  }

  // What the windows of neighbours see of a line is read once.
  void shared_line(const std::string& weight) {
    const int64_t stride = w_.stride[last_], width = (pixels_ - 1) * stride + w_.kernel[last_];
    t_.add(fmt::format("Lanes<{}, {}> line[{}];", element_type(p_), channels, width));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int x = 0; x < {}; ++x) pixel(line[x], first + x);", width));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int k = 0; k < {}; ++k)", w_.kernel[last_]));
    t_.add(fmt::format("Lanes<{}, {}> weight;", element_type(p_), channels));
    t_.add(weight);
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int t = 0; t < {}; ++t)", pixels_));
    add("sums[t]", fmt::format("line[t * {} + k]", stride));
    t_.close();
    t_.close();
  }

  void add(const Term& sums, const Term& line) {
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int e = 0; e < {0}; ++e) {1}[e] = fmaf({2}, {3}, {1}[e]);", channels, sums,
                       as_float(p_, term("{}.at[e]", line)), as_float(p_, "weight.at[e]")));
  }

  void results() {
    const std::string name = function_name(k_, p_) + "_at";
    std::string at = "image, channel";
    for (size_t d = 0; d < last_; ++d) at += fmt::format(", o{}", d);
    at += fmt::format(", o{} + t", last_);
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int t = 0; t < {}; ++t)", pixels_));
    if (w_.output[last_] % pixels_ != 0) t_.add(fmt::format("if (o{} + t >= {}) break;", last_, w_.output[last_]));
    t_.add(fmt::format("{}_words words;", name));
    t_.add(fmt::format("{}_read({}, {}, words);", name, parameter_names(k_), at));
    t_.add(fmt::format("{}_rest({}, {}, sums[t], words);", name, parameter_names(k_), at));
    t_.close();
  }

  const Kernel& k_;
  const Product& p_;
  const ConvWindows& w_;
  const int pixels_;
  const size_t last_;  // spatial dimension
  Lines t_;
};

}  // namespace

std::string no_depthwise(const Kernel& k, const plan::Contracted& contracted) {
  if (!k.contraction || k.contraction->kind != ContractionKind::conv) return "no convolution";
  const std::optional<ConvWindows>& w = contracted.windows;
  if (!w) return "no windows of an image";
  if (w->in_channels != 1 || w->out_channels != 1)
    return fmt::format("{} channels and {} results of a group", w->in_channels, w->out_channels);
  if (w->groups % channels != 0) return fmt::format("{} channels", w->groups);
  const std::span<const int64_t> strides = w->image_strides;
  if (strides[1] != 1 || !in_words(k.contraction->a, strides.first(1)) ||
      !in_words(k.contraction->a, strides.subspan(2)))
    return "an image without words of channels";
  if (!contracted.whole_image) return "an image of which a part is not there";
  if (threads_of(*w, 1) > int64_t{1} << 30) return "a large image";
  return {};
}

std::vector<int> depthwise_packing(const Kernel& k, const ConvWindows& w) {
  std::vector<int> order;
  std::vector<int64_t> strides;
  for (size_t d = 0; d < w.kernel.size(); ++d)
    if (w.kernel[d] > 1) {
      order.push_back(static_cast<int>(k.space.size() + 1 + d));
      strides.push_back(w.weight_strides[3 + d]);
    }
  order.push_back(1);
  return w.weight_strides[0] == 1 && in_words(k.contraction->b, strides) ? std::vector<int>{} : order;
}

// Neighbours read less, where there are enough of them for all multiprocessors.
std::vector<int> rate_depthwise(const ConvWindows& w, const Features& features) {
  constexpr int64_t most_taps = 16;  // that neighbours share
  const int64_t enough = int64_t{512} * features.units;
  if (w.dilation.back() != 1 || w.kernel.back() > most_taps || w.stride.back() > 2) return {1};
  if (threads_of(w, 4) >= enough) return {4, 2, 1};
  return threads_of(w, 2) >= enough ? std::vector{2, 4, 1} : std::vector{1, 2, 4};
}

GeneratedKernel make_depthwise(const Kernel& kernel, const Product& product, const ConvWindows& windows, int pixels,
                               const Features& features) {
  const std::string name = function_name(kernel, product);
  PointFunction point;
  point.name = name + "_at";
  point.positions = {{"image", {0}}, {"channel", {1}}};
  constexpr std::string_view names[] = {"line0", "line1", "line2"};
  for (size_t d = 0; d < windows.output.size(); ++d) point.positions.push_back({names[d], {3 + static_cast<int>(d)}});
  point.lanes = channels;
  point.lane_dim = 1;
  const int64_t threads = threads_of(windows, pixels);
  int64_t block = 128;  // fewer where so few blocks would leave multiprocessors idle
  while (block > 32 && threads < block * features.units) block /= 2;
  GeneratedKernel made;
  made.shape = {parts(threads, block), static_cast<int>(block)};
  made.how = fmt::format("depthwise, {} pixels of {} channels to a thread", pixels, channels);
  made.functions = print_point(kernel, cuda_dialect, point);
  made.functions += fmt::format("\n// {}: {}\n", name, made.how);
  made.functions += function_head(kernel, product, made.shape, features);
  made.shape.blocks *= product.copies;
  made.functions += DepthwiseText(kernel, product, windows, pixels).body(block) + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::products
