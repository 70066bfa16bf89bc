// The text of attention: stages of keys and values, a running maximum and sum for each row, fragments of mma.m16n8k16.
#include "backends/cuda/target/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/target/text.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/score_kernel.h"
#include "print/point.h"

namespace npusim::cuda {
namespace {

constexpr int64_t most_depth = 256, most_shared_bytes = 99 << 10;  // of a block on all devices from sm_80 on

// Lines of words at an odd number of words: neighbours in a column of words lie in different banks.
int64_t words_of(int64_t elements) { return (elements + 15) / 16 * 2; }  // whole fragments
int64_t pitch_of(int64_t elements) { return (words_of(elements) + 1) * word; }

// A kernel whose one store is a local variable of the caller.
Kernel to_local(Kernel kernel, int32_t expr, DType dtype) {
  const auto arg = static_cast<int>(kernel.args.size());
  kernel.args.push_back({dtype, 1, true, -1});
  kernel.stores = {{{arg, 0, std::vector<int64_t>(kernel.space.size(), 0), {}, {}}, expr, false}};
  return kernel;
}
Kernel score_of(const Kernel& outer) {
  return to_local(score_kernel(outer), outer.contraction->score->result, DType::f32);
}
Kernel keys_of(const Kernel& outer) {
  Kernel count = key_count(outer);
  return to_local(count, count.stores[0].expr, DType::i64);
}

int64_t shared_bytes_of(const Attention& a, const AttentionShape& s) {
  const int64_t stages = 2 * (s.rows() * pitch_of(a.axes.depth.size()) +
                              2 * int64_t{s.keys()} * (pitch_of(a.axes.depth.size()) + pitch_of(a.columns)));
  const int64_t results = 4 * int64_t{s.warps_along_keys} * s.rows() * (words_of(a.columns) * word + 4 + 2);
  return std::max(stages, results);
}

class AttentionText {
 public:
  AttentionText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape)
      : k_(kernel), a_(attention), s_(shape), name_(kernel_name(kernel)), rows_(a_.axes.rows.size()) {
    for (const KernelArg& arg : k_.args)
      if (!arg.written) reads_ += fmt::format("in{}, ", inputs_++);
  }

  std::string run() {
    std::string text = point("_score", score_of(k_), {"key", a_.axes.keys.dims}, 1);
    if (counted()) text += point("_keys", keys_of(k_), {"key", a_.axes.keys.dims}, 1);
    text += point("_at", k_, {"column", a_.axes.columns.dims}, word);
    text += fmt::format(fmt::runtime(cuda_dialect.kernel), name_, parameters(k_, cuda_dialect), s_.threads());
    t_.add("lead();");
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    begin();
    walk();
    epilogue();
    return text + t_.text + "}\n";
  }

 private:
  bool counted() const { return k_.contraction->score->keys >= 0; }
  int64_t depth_words() const { return words_of(a_.axes.depth.size()); }
  int64_t column_words() const { return words_of(a_.columns); }
  int64_t depth_pitch() const { return pitch_of(a_.axes.depth.size()); }
  int64_t column_pitch() const { return pitch_of(a_.columns); }
  std::string_view type() const { return a_.dtype == DType::f16 ? "f16" : "bf16"; }

  std::string point(const std::string& suffix, const Kernel& kernel, PointPosition last, int lanes) const {
    PointFunction f;
    f.name = name_ + suffix;
    f.positions = {{"batch", a_.axes.batch.dims}, {"row", a_.axes.rows.dims}, last};
    f.lanes = lanes;
    if (lanes > 1) f.lane_dim = last.dims.back();
    return print_point(kernel, cuda_dialect, f);
  }

  // Σ stride·index over the axes that `parts` names.
  static std::string address(const Operand& o, const std::vector<std::pair<const Axis*, const char*>>& parts) {
    std::vector<std::string> sum{fmt::format("({}){}", address_type(o), o.offset)};
    for (const auto& [axis, index] : parts)
      for (size_t n = 0; n < axis->dims.size(); ++n)
        if (const int64_t stride = o.strides[static_cast<size_t>(axis->dims[n])]; stride != 0)
          sum.push_back(fmt::format("({}){}_{} * {}", address_type(o), index, n, stride));
    return sum_of(sum);
  }

  void begin() {
    const int64_t tiles = (rows_ + s_.rows() - 1) / s_.rows();
    t_.add("extern __shared__ uint4 shared_words[];");
    t_.add("const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;");
    t_.add(fmt::format("const int row_warp = warp / {0}, key_warp = warp % {0};", s_.warps_along_keys));
    t_.add(
        fmt::format("const int first_row = blockIdx.x % {} * {}, batch = blockIdx.x / {};", tiles, s_.rows(), tiles));
    take_apart(t_, "batch", a_.axes.batch, "z");
    t_.add(fmt::format("{0}* const queries = ({0}*)shared_words;", type()));
    t_.add(fmt::format("{}* const keys = queries + {};", type(), s_.rows() * depth_pitch()));
    t_.add(fmt::format("{}* const values = keys + {};", type(), 2 * s_.keys() * depth_pitch()));
    t_.add(fmt::format("const long long key_at = {}, value_at = {};", address(a_.k, {{&a_.axes.batch, "z"}}),
                       address(a_.v, {{&a_.axes.batch, "z"}})));
    t_.add("int row[2];  // of this thread's fragments");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < 2; ++i) row[i] = min(first_row + row_warp * 16 + lane / 4 + i * 8, {});",
                       rows_ - 1));
    if (counted()) {
      t_.add("long long count;");
      t_.add(fmt::format("{}_keys({}&count, batch, 0, 0, nullptr);", name_, reads_));
      t_.add(fmt::format("const int bound = count < 0 ? 0 : count > {0} ? {0} : (int)count;", a_.keys));
    } else {
      t_.add(fmt::format("const int bound = {};", a_.keys));
    }
    bring_queries();
    t_.open("const auto bring = [&](const int stage, const int first)");
    bring("keys", a_.k, depth_words(), depth_pitch(), a_.axes.depth.size(), "key_at");
    bring("values", a_.v, column_words(), column_pitch(), a_.columns, "value_at");
    t_.close(";");
  }

  // A loop over the words of some lines, which all threads share.
  void open_words(int64_t lines, int64_t words) {
    const int64_t count = lines * words;
    if (count % s_.threads() == 0 && count / s_.threads() <= 16) t_.add("#pragma unroll");
    t_.open(fmt::format("for (int n = thread; n < {}; n += {})", count, s_.threads()));
    t_.add(fmt::format("const int line = n / {0}, at = n % {0};", words));
  }

  void bring_queries() {
    open_words(s_.rows(), depth_words());
    t_.add("const int query = first_row + line;");
    take_apart(t_, "query", a_.axes.rows, "r");
    t_.add(fmt::format("const int d = at * {};", word));
    take_apart(t_, "d", a_.axes.depth, "d");
    t_.add(fmt::format("const bool there = query < {} && d < {};", rows_, a_.axes.depth.size()));
    t_.add(fmt::format("copy_async(queries + line * {} + at * {}, {} + (there ? {} : 0), there);", depth_pitch(), word,
                       pointer_of(k_, a_.q),
                       address(a_.q, {{&a_.axes.batch, "z"}, {&a_.axes.rows, "r"}, {&a_.axes.depth, "d"}})));
    t_.close();
  }

  // The stage's lines of one operand, from the key `first` on.
  void bring(const std::string& to, const Operand& o, int64_t words, int64_t pitch, int64_t size, const char* base) {
    const bool is_key = to == "keys";
    open_words(s_.keys(), words);
    t_.add(fmt::format("const bool there = first + line < bound && at * {} < {};", word, size));
    const int64_t step = o.strides[static_cast<size_t>(is_key ? a_.axes.keys.dims[0] : a_.axes.value_keys.dims[0])];
    std::string within = fmt::format("at * {}", word);
    if (is_key && a_.axes.depth.dims.size() > 1) {
      t_.add(fmt::format("const int d = at * {};", word));
      take_apart(t_, "d", a_.axes.depth, "d");
      within = address(o, {{&a_.axes.depth, "d"}}) + fmt::format(" - {}", o.offset);
    }
    t_.add(
        fmt::format("copy_async({0} + (stage * {1} + line) * {2} + at * {3}, {4} + (there ? {5} + ({6})(first + line) "
                    "* {7} + {8} : 0), there);",
                    to, s_.keys(), pitch, word, pointer_of(k_, o), base, address_type(o), step, within));
    t_.close();
  }

  void walk() {
    const int64_t columns = column_words();
    t_.add(fmt::format("float sums[{}][4];", columns));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c) sums[c][0] = sums[c][1] = sums[c][2] = sums[c][3] = 0;", columns));
    t_.add("float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};");
    t_.add("bring(0, 0);");
    t_.add("commit_copies();");
    t_.open(fmt::format("for (int first = 0, stage = 0; first < bound; first += {}, stage ^= 1)", s_.keys()));
    t_.add("wait_copies<0>();");
    t_.add("__syncthreads();");
    t_.add(fmt::format("if (first + {0} < bound) bring(stage ^ 1, first + {0});", s_.keys()));
    t_.add("commit_copies();");
    const std::string line = fmt::format("(stage * {} + key_warp * {})", s_.keys(), s_.keys_of_warp);
    scores(line);
    softmax();
    products(line);
    t_.close();
  }

  void scores(const std::string& line) {
    const int tiles = s_.keys_of_warp / 8;
    t_.add(fmt::format("float scores[{}][4];", tiles));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0;",
                       tiles));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int d = 0; d < {}; d += 16)", depth_words() * word));
    t_.add("unsigned a[4], b[4];");
    t_.add(fmt::format("load_matrices(a, queries + (row_warp * 16 + lane % 16) * {} + d + lane / 16 * 8);",
                       depth_pitch()));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; j += 2)", tiles));
    t_.add(fmt::format("load_matrices(b, keys + ({} + j * 8 + lane / 16 * 8 + lane % 8) * {} + d + lane / 8 % 2 * 8);",
                       line, depth_pitch()));
    t_.add(fmt::format("multiply_{}(scores[j], a, b);", type()));
    t_.add(fmt::format("multiply_{}(scores[j + 1], a, b + 2);", type()));
    t_.close();
    t_.close();
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 0; e < 4; ++e)");
    t_.add(fmt::format("const int key = first + key_warp * {} + j * 8 + lane % 4 * 2 + e % 2;", s_.keys_of_warp));
    t_.add("float score = -INFINITY;");
    t_.add(fmt::format("if (key < bound) {}_score({}&score, batch, row[e / 2], key, &scores[j][e]);", name_, reads_));
    t_.add("scores[j][e] = score;");
    t_.close();
  }

  // The maximum so far; what was summed under another one is put to it. Of a row without any score but −∞ all is 0.
  void softmax() {
    const int tiles = s_.keys_of_warp / 8;
    t_.add("#pragma unroll");
    t_.open("for (int i = 0; i < 2; ++i)");
    t_.add("float most = top[i];");
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "for (int j = 0; j < {}; ++j) most = nan_max(nan_max(most, scores[j][2 * i]), scores[j][2 * i + 1]);", tiles));
    for (const int mask : {1, 2})
      t_.add(fmt::format("most = nan_max(most, __shfl_xor_sync(0xffffffffu, most, {}));", mask));
    t_.add("const float base = most == -INFINITY ? 0.0f : most, keep = exp_near(top[i] - base);");
    t_.add("top[i] = most;");
    t_.add("total[i] *= keep;");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c) sums[c][2 * i] *= keep, sums[c][2 * i + 1] *= keep;",
                       column_words()));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 2 * i; e < 2 * i + 2; ++e)");
    t_.add("scores[j][e] = exp_near(scores[j][e] - base);");
    t_.add("total[i] += scores[j][e];");
    t_.close();
    t_.close();
  }

  void products(const std::string& line) {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; j += 2)", s_.keys_of_warp / 8));
    t_.add("unsigned a[4], b[4];");
    for (int n = 0; n < 4; ++n)
      t_.add(fmt::format("a[{0}] = pack_{1}(scores[j + {2}][{3}], scores[j + {2}][{4}]);", n, type(), n / 2, n % 2 * 2,
                         n % 2 * 2 + 1));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int c = 0; c < {}; c += 2)", column_words()));
    t_.add(fmt::format(
        "load_matrices_turned(b, values + ({} + j * 8 + lane / 8 % 2 * 8 + lane % 8) * {} + c * 8 + lane / 16 * 8);",
        line, column_pitch()));
    t_.add(fmt::format("multiply_{}(sums[c], a, b);", type()));
    t_.add(fmt::format("multiply_{}(sums[c + 1], a, b + 2);", type()));
    t_.close();
    t_.close();
  }

  // What the warps of a row found is put together through shared memory, in the order of their keys.
  void epilogue() {
    const int64_t pitch = column_words() * word + 4;
    const int rows = s_.rows(), warps = s_.warps_along_keys;
    t_.add("wait_copies<0>();");
    t_.add("__syncthreads();");
    t_.add("float* const results = (float*)shared_words;");
    t_.add(fmt::format("float* const tops = results + {};", warps * rows * pitch));
    t_.add(fmt::format("float* const totals = tops + {};", warps * rows));
    t_.add("#pragma unroll");
    t_.open("for (int i = 0; i < 2; ++i)");
    for (const int mask : {1, 2}) t_.add(fmt::format("total[i] += __shfl_xor_sync(0xffffffffu, total[i], {});", mask));
    t_.add(fmt::format("const int line = key_warp * {} + row_warp * 16 + lane / 4 + i * 8;", rows));
    t_.add("if (lane % 4 == 0) tops[line] = top[i], totals[line] = total[i];");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c)", column_words()));
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "  for (int e = 0; e < 2; ++e) results[line * {} + c * 8 + lane % 4 * 2 + e] = sums[c][2 * i + e];", pitch));
    t_.close();
    t_.add("__syncthreads();");
    const int64_t words = a_.columns / word;
    t_.open(fmt::format("for (int n = thread; n < {}; n += {})", rows * words, s_.threads()));
    t_.add(fmt::format("const int line = n / {0}, column = n % {0} * {1};", words, word));
    t_.add(fmt::format("if (first_row + line >= {}) continue;", rows_));
    t_.add("float most = tops[line], total = 0;");
    if (warps > 1)
      t_.add(fmt::format("for (int w = 1; w < {}; ++w) most = nan_max(most, tops[w * {} + line]);", warps, rows));
    t_.add("const float base = most == -INFINITY ? 0.0f : most;");
    t_.add(fmt::format("Lanes<float, {}> leaf;", word));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] = 0;", word));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int w = 0; w < {}; ++w)", warps));
    t_.add(fmt::format("const float share = exp_near(tops[w * {0} + line] - base);", rows));
    t_.add(fmt::format("total += totals[w * {} + line] * share;", rows));
    t_.add(fmt::format("Lanes<float, {}> part;", word));
    t_.add(fmt::format("read_lanes(part, results + (w * {} + line) * {} + column);", rows, pitch));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] += part.at[e] * share;", word));
    t_.close();
    t_.add("const float share = 1.0f / total;");
    const std::string none = k_.contraction->masked_rows_are_zero ? "most == -INFINITY" : "bound == 0";
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] = {} ? 0.0f : leaf.at[e] * share;", word, none));
    t_.add(fmt::format("{}_at({}, batch, first_row + line, column, leaf.at);", name_, parameter_names(k_)));
    t_.close();
  }

  const Kernel& k_;
  const Attention& a_;
  const AttentionShape& s_;
  const std::string name_;
  const int64_t rows_;
  int inputs_ = 0;
  std::string reads_;  // the arguments that the kernel reads, as they are passed on
  Lines t_;
};

}  // namespace

std::optional<Attention> find_attention(const Kernel& kernel, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const Contraction& c = *kernel.contraction;
  const Score& score = *c.score;
  const auto axes = attention_axes(kernel);
  if (!axes) return none("both operands of the score depend on the keys");
  Attention a{DType::f16, *axes, c.reduce[0], kernel.space.back(), {}, {}, {}};
  std::vector<int64_t> score_extents = score.space, value_extents = kernel.space;
  score_extents.insert(score_extents.end(), score.reduce.begin(), score.reduce.end());
  value_extents.push_back(a.keys);
  const Access &q = axes->swapped ? score.b : score.a, &k = axes->swapped ? score.a : score.b;
  a.dtype = kernel.args[static_cast<size_t>(q.arg)].dtype;
  if (a.dtype != DType::f16 && a.dtype != DType::bf16)
    return none(fmt::format("queries of {}, not of a 16-bit type", dtype_name(a.dtype)));
  for (const Access* access : {&k, &c.b})
    if (const DType other = kernel.args[static_cast<size_t>(access->arg)].dtype; other != a.dtype)
      return none(fmt::format("operands of {} and {}", dtype_name(a.dtype), dtype_name(other)));
  for (const Access* access : {&q, &k, &c.b})
    if (!access->guards.empty() || !access->terms.empty()) return none("an operand with bounds or computed indices");
  if (std::any_of(kernel.stores.begin(), kernel.stores.end(), [](const Store& s) { return s.accumulate; }))
    return none("what it stores adds up");
  for (const std::vector<int64_t>* extents : {&score_extents, &value_extents})
    if (std::find(extents->begin(), extents->end(), 0) != extents->end()) return none("a dimension is empty");
  if (axes->depth.size() > most_depth || a.columns > most_depth)
    return none(fmt::format("heads of {} and {}, more than {}", axes->depth.size(), a.columns, most_depth));
  constexpr int64_t most = int64_t{1} << 30;  // positions are int
  if (axes->batch.size() > most || axes->rows.size() > most || a.keys > most)
    return none("more positions than an int has");
  a.q = operand_of(kernel, q), a.k = operand_of(kernel, k), a.v = operand_of(kernel, c.b);
  int deep = -1;
  for (int dim : axes->depth.dims)
    if (has_words(score_extents, a.q, dim) && has_words(score_extents, a.k, dim)) deep = dim;
  if (deep < 0) return none("queries and keys that do not lie in words along the depth");
  make_last(score_extents, a.axes.depth, deep);
  if (!has_words(value_extents, a.v, axes->columns.dims[0])) return none("values that do not lie in words along a row");
  if (takes_trap(score_of(kernel)) || (score.keys >= 0 && takes_trap(keys_of(kernel))))
    return none("a score that may meet an index out of range");
  if (score.keys >= 0) {
    const Kernel count = key_count(kernel);
    const DimSet varies = dependence_of(count).dims[static_cast<size_t>(count.stores[0].expr)];
    if (std::any_of(axes->rows.dims.begin(), axes->rows.dims.end(),
                    [&](int dim) { return (varies & dim_bit(static_cast<size_t>(dim))) != 0; }))
      return none("rows with keys of their own number");
  }
  const int64_t tiles = axes->batch.size() * ((axes->rows.size() + 15) / 16);
  if (tiles < 64 && a.keys >= 512) return none(fmt::format("{} blocks for {} keys", tiles, a.keys));
  return a;
}

// The most rows of which there still are blocks for all multiprocessors, and stages that fit beside them.
AttentionShape choose_attention(const Attention& a) {
  const auto blocks = [&](int rows) { return a.axes.batch.size() * ((a.axes.rows.size() + rows - 1) / rows); };
  AttentionShape s;
  s = blocks(128) >= 2 * multiprocessors ? AttentionShape{8, 1, 64}
      : blocks(64) >= multiprocessors    ? AttentionShape{4, 1, 64}
      : blocks(32) >= 100                ? AttentionShape{2, 2, 32}
                                         : AttentionShape{1, 4, 32};
  while (s.keys_of_warp > 16 && (shared_bytes_of(a, s) > most_shared_bytes || s.keys() / 2 >= a.keys))
    s.keys_of_warp -= 16;
  if (shared_bytes_of(a, s) > most_shared_bytes) s = {4, 1, 16};
  return s;
}

Made make_attention(const Kernel& kernel, const Attention& a, const AttentionShape& s) {
  Made made;
  made.shape = {a.axes.batch.size() * ((a.axes.rows.size() + s.rows() - 1) / s.rows()), s.threads()};
  made.shared_bytes = shared_bytes_of(a, s);
  made.how = fmt::format("attention, {} rows to a block, {} keys to a stage of {} warps", s.rows(), s.keys(),
                         s.threads() / 32);
  made.functions = fmt::format("\n// {}: {}\n", kernel_name(kernel), made.how) + AttentionText(kernel, a, s).run();
  return made;
}

}  // namespace npusim::cuda
