// The text of an attention's stages.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/target/stream/attention.h"
#include "backends/cuda/target/stream/product.h"
#include "backends/cuda/target/text.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

constexpr int64_t chunk = StreamAttention::chunk, scores = StreamAttention::scores, unit = StreamAttention::unit;
constexpr int64_t quad = quad_columns;
constexpr int64_t row_pad = StreamAttention::row_pad;
constexpr int64_t most_brought = 1 << 16;  // bytes of a mask

class AttentionText {
 public:
  AttentionText(const Kernel& kernel, const StreamAttention& attention, const Dialect& dialect, const std::string& name)
      : k_(kernel), a_(attention), d_(dialect), name_(name), x_(attention.axes) {}

  std::string run() {
    points();
    if (a_.looks > 0) look();
    ahead();
    parts();
    merge();
    return functions_ + t_.text;
  }

 private:
  std::string add(int arg) const {  // the pointer among the kernel's read arguments
    return fmt::format("in{}", arg);
  }
  std::string_view type(int arg) const {
    return d_.elements[static_cast<size_t>(k_.args[static_cast<size_t>(arg)].dtype)].type;
  }
  std::string reads() const {
    std::string names;
    for (size_t i = 0; i < k_.args.size(); ++i)
      if (!k_.args[i].written) names += fmt::format("{}, ", add(static_cast<int>(i)));
    return names;
  }

  void points() {
    PointFunction f;
    f.positions = {{"batch", x_.batch.dims}, {"row", x_.rows.dims}, {"key", x_.keys.dims}};
    f.name = name_ + "_score";
    functions_ += print_point(stored_score(k_), d_, f);
    f.name = name_ + "_keys";
    if (const auto count = stored_count(k_)) functions_ += print_point(*count, d_, f), counted_ = true;
    f.name = name_ + "_mask";
    if (a_.looks > 0) functions_ += print_point(stored_mask(k_, a_.mask), d_, f);
    f.positions = {{"batch", x_.batch.dims}, {"row", x_.rows.dims}, {"column", x_.columns.dims}};
    f.name = name_ + "_at";
    functions_ += print_point(k_, d_, f);
  }

  void open_function(const std::string& half, const std::string& first) {
    t_.text += "\n";
    t_.indent = 0;
    t_.open(fmt::format("{} void {}_{}(\n    {}{}{})", d_.function, name_, half, first, first.empty() ? "" : ",\n    ",
                        parameters(k_, d_)));
  }

  // What is read of an operand at batch z_…, and along two axes.
  std::string at(const Access& a, const Axis& one, const std::string& one_name, const Axis& two,
                 const std::string& two_name) const {
    return fmt::format("{}[{}]", add(a.arg),
                       sum_of({a.offset ? fmt::format("{}LL", a.offset) : "", put_together(a.strides, x_.batch, "z"),
                               put_together(a.strides, one, one_name), put_together(a.strides, two, two_name)}));
  }

  // Words of keys or values of a chunk, zeros behind the last key: first all reads, then the writes to the block's
  // memory.
  void read_words(const Access& a, const Axis& keys, const Axis& along, const std::string& words) {
    const int64_t each = along.size() / word, turns = turns_of(along);
    t_.add(fmt::format("uint4 {}[{}];", words, turns));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int turn = 0; turn < {}; ++turn)", turns));
    t_.add(fmt::format("const int i = threadIdx.x + turn * {};", stream_threads));
    t_.add(fmt::format("const int key = from + i / {0}, at = i % {0} * {1};", each, word));
    take_apart(t_, "key", keys, "n");
    take_apart(t_, "at", along, "k");
    t_.add(fmt::format("{}[turn] = uint4{{0, 0, 0, 0}};", words));
    t_.add(fmt::format("if (i < {} && key < most) {}[turn] = *(const uint4*)&{};", chunk * each, words,
                       at(a, keys, "n", along, "k")));
    t_.close();
  }
  void write_words(const Axis& along, const std::string& words, const std::string& to, int64_t stride) {
    const int64_t each = along.size() / word;
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int turn = 0; turn < {}; ++turn)", turns_of(along)));
    t_.add(fmt::format("const int i = threadIdx.x + turn * {};", stream_threads));
    t_.add(fmt::format("if (i < {}) *(uint4*)({} + i / {} * {} + i % {} * 16) = {}[turn];", chunk * each, to, each,
                       stride, each, words));
    t_.close();
  }
  static int64_t turns_of(const Axis& along) {
    return (chunk * along.size() / word + stream_threads - 1) / stream_threads;
  }

  void count_of_row() {
    if (counted_)
      t_.add("long long count = 0;"), t_.add(fmt::format("{}_keys({}&count, batch, row, 0, nullptr);", name_, reads()));
    else
      t_.add(fmt::format("const long long count = {};", x_.keys.size()));
  }

  // Lines of the cache of the first keys that this block looks at.
  void ahead() {
    open_function("ahead", "");
    t_.add("const int item = blockIdx.x;");
    t_.add(fmt::format("if (item >= {}) return;", x_.batch.size() * a_.splits));
    t_.add(fmt::format("const int batch = item / {0}, split = item % {0};", a_.splits));
    take_apart(t_, "batch", x_.batch, "z");
    most_keys(false);
    t_.add(fmt::format("const int from = split * {};", chunk));
    const auto bring = [&](const Access& a, const Axis& keys, const Axis& along) {
      constexpr int64_t line = 64;  // elements of a line of the cache
      const int64_t lines = (along.size() + line - 1) / line;
      t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", chunk * lines, stream_threads));
      t_.add(fmt::format("const int key = from + i / {0}, at = i % {0} * {1};", lines, line));
      take_apart(t_, "key", keys, "n");
      take_apart(t_, "at", along, "k");
      t_.add(fmt::format("if (key < most) bring_nearer(&{});", at(a, keys, "n", along, "k")));
      t_.close();
    };
    bring(a_.keys(k_), x_.keys, x_.depth);
    bring(k_.contraction->b, x_.value_keys, x_.columns);
    for (size_t i = 0; i < k_.args.size(); ++i) {  // masks
      const int64_t bytes = k_.args[i].elements * static_cast<int64_t>(dtype_size(k_.args[i].dtype));
      const int arg = static_cast<int>(i);
      if (k_.args[i].written || arg == a_.keys(k_).arg || arg == a_.queries(k_).arg || arg == k_.contraction->b.arg ||
          bytes > most_brought || a_.looks > 0)
        continue;
      t_.add(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) bring_nearer((const char*){} + i * 128);",
                         (bytes + 127) / 128, stream_threads, add(arg)));
    }
    t_.close();
  }

  // How many keys the row with the most of them has; and, if asked for, how many each.
  void most_keys(bool of_rows) {
    const int64_t rows = x_.rows.size();
    t_.add("int most = 0;");
    t_.open(fmt::format("for (int row = 0; row < {}; ++row)", counted_ ? rows : 1));
    count_of_row();
    t_.add(fmt::format("const int keys_of_row = (int)max(0LL, min({}LL, (long long)count));", x_.keys.size()));
    t_.add("most = max(most, keys_of_row);");
    if (of_rows)
      t_.add(fmt::format("if (threadIdx.x {} {}) count_of[threadIdx.x] = keys_of_row;", counted_ ? "==" : "<",
                         counted_ ? "row" : fmt::format("{}", rows)));
    t_.close();
  }

  // Eight keys of a chunk for each four warps' warp, as operand a like lines of a matrix: of each 32 elements a lane
  // has eight of one key, which stand in two rows.
  void read_fragments(const Access& keys) {
    const int64_t units = x_.depth.size() / unit;
    t_.add("const int place = warp % 4 * 8 + lane / 4, key = from + place;");
    take_apart(t_, "key", x_.keys, "n");
    t_.add(fmt::format("uint4 key_words[{}];", units));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int u = 0; u < {}; ++u)", units));
    t_.add(fmt::format("const int at = u * {} + lane % 4 * {};", unit, word));
    take_apart(t_, "at", x_.depth, "k");
    t_.add("key_words[u] = uint4{0, 0, 0, 0};");
    t_.add(
        fmt::format("if (key < most) key_words[u] = *(const uint4*)&{};", this->at(keys, x_.keys, "n", x_.depth, "k")));
    t_.close();
  }

  void open_items() {
    t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    t_.open(fmt::format("for (int item = blockIdx.x; item < {}; item += gridDim.x)", x_.batch.size() * a_.splits));
    t_.add(fmt::format("const int batch = item / {0}, split = item % {0};", a_.splits));
    take_apart(t_, "batch", x_.batch, "z");
  }

  // Which of a split's chunks have a key that a mask does not hide: a byte for each.
  void look() {
    open_function("look", "char* seen");
    open_items();
    t_.open(fmt::format("for (int n = warp; n < {}; n += {})", a_.looks, stream_warps));
    t_.add(fmt::format("const int key = (split + n * {}) * {} + lane;", a_.splits, chunk));
    t_.add("float one = 0;");
    t_.open(fmt::format("for (int row = 0; row < {} && key < {}; ++row)", x_.rows.size(), x_.keys.size()));
    t_.add("float mask = 0;");
    t_.add(fmt::format("{}_mask({}&mask, batch, row, key, nullptr);", name_, reads()));
    t_.add("if (mask != -INFINITY) one = 1;");
    t_.close();
    t_.add("one = warp_max(one);");
    t_.add(fmt::format("if (lane == 0) seen[item / gridDim.x * {} + n] = one > 0;", a_.looks));
    t_.close();
    t_.close();
    t_.close();
  }

  // The scores of eight keys and four rows: columns of operand b are rows, each for both halves of a lane's elements.
  void multiply(const Access& queries, DType dtype) {
    const int64_t rows = x_.rows.size(), units = x_.depth.size() / unit;
    t_.open(fmt::format("for (int group = warp / 4; group < {}; group += 2)", (rows + 3) / 4));
    t_.add("float parts[2][4] = {};");
    t_.add("const int asked = group * 4 + lane / 8;");
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int u = 0; u < {}; ++u)", units));
    t_.add(fmt::format("const int at = u * {} + lane % 4 * {} + lane / 4 % 2 * 2;", unit, word));
    t_.add("unsigned b[2] = {0, 0};");
    t_.open(fmt::format("if (asked < {})", rows));
    take_apart(t_, "asked", x_.rows, "r");
    take_apart(t_, "at", x_.depth, "k");
    t_.add(fmt::format("const char* const two = (const char*)&{};", this->at(queries, x_.rows, "r", x_.depth, "k")));
    t_.add("b[0] = *(const unsigned*)two, b[1] = *(const unsigned*)(two + 8);");
    t_.close();
    t_.add("const unsigned a[4] = {key_words[u].x, key_words[u].y, key_words[u].z, key_words[u].w};");
    t_.add(fmt::format("multiply_{}(parts[u % 2], a, b);", dtype == DType::f16 ? "f16" : "bf16"));
    t_.close();
    t_.add("const int row = group * 4 + lane % 4;");
    t_.add("const float dot = (parts[0][0] + parts[1][0]) + (parts[0][3] + parts[1][3]);");
    t_.open(fmt::format("if (row < {})", rows));
    t_.add("float score = -INFINITY;");
    t_.add(fmt::format("if (key < count_of[row]) {}_score({}&score, batch, row, key, &dot);", name_, reads()));
    t_.add(fmt::format("weight[row * {} + place] = score;", scores));
    t_.close();
    t_.close();
  }

  void parts() {
    const int64_t rows = x_.rows.size(), depth = x_.depth.size(), columns = x_.columns.size();
    const int64_t quads = rows * columns / quad, turns = (quads + stream_threads - 1) / stream_threads;
    const Access &keys = a_.keys(k_), &queries = a_.queries(k_), &values = k_.contraction->b;
    const DType dtype = k_.args[static_cast<size_t>(keys.arg)].dtype;
    const DType value_type = k_.args[static_cast<size_t>(values.arg)].dtype;
    const int64_t key_stride = depth * 2 + row_pad;
    const auto widen = [&](DType t, const std::string& text) {
      return fmt::format(fmt::runtime(d_.elements[static_cast<size_t>(t)].load), text);
    };
    open_function("parts", fmt::format("const unsigned turn, char* scratch, char* partial{}",
                                       a_.looks > 0 ? ", const char* seen" : ""));
    const bool multiplied = a_.multiplied;
    t_.add(
        fmt::format("char* const values = scratch; float* const weight = (float*)(values + {});", chunk * columns * 2));
    t_.add(fmt::format("float* const largest = weight + {}; float* const total = largest + {};", rows * scores, rows));
    t_.add(fmt::format("float* const factor = total + {0}; int* const count_of = (int*)(factor + {0});", rows));
    if (!multiplied)
      t_.add(fmt::format("float* const query = (float*)(scratch + {}); char* const keys = (char*)(query + {});",
                         a_.common_bytes(), rows * depth));
    open_items();
    if (!multiplied) {
      t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", rows * depth, stream_threads));
      t_.add(fmt::format("const int row = i / {0}, at = i % {0};", depth));
      take_apart(t_, "row", x_.rows, "r");
      take_apart(t_, "at", x_.depth, "k");
      t_.add(fmt::format("query[i] = {};", widen(k_.args[static_cast<size_t>(queries.arg)].dtype,
                                                 at(queries, x_.rows, "r", x_.depth, "k"))));
      t_.close();
    }
    most_keys(true);
    t_.add(fmt::format("if (threadIdx.x < {}) largest[threadIdx.x] = -INFINITY, total[threadIdx.x] = 0;", rows));
    t_.add(fmt::format("const int chunks = (most + {}) / {};", chunk - 1, chunk));
    t_.add(fmt::format("Lanes<float, {}> sums[{}] = {{}};", quad, turns));
    // Where there are no keys, too, all threads read what the first ones set.
    t_.add("meet_block();");
    t_.open(fmt::format("for (int n = 0, c = split; c < chunks; ++n, c += {})", a_.splits));
    if (a_.looks > 0) t_.add(fmt::format("if (!seen[item / gridDim.x * {} + n]) continue;", a_.looks));
    t_.add(fmt::format("const int from = c * {};", chunk));
    if (multiplied) {
      read_fragments(keys);
      read_words(values, x_.value_keys, x_.columns, "value_words");
    } else {
      read_words(keys, x_.keys, x_.depth, "key_words");
      read_words(values, x_.value_keys, x_.columns, "value_words");
      write_words(x_.depth, "key_words", "keys", key_stride);
    }
    write_words(x_.columns, "value_words", "values", columns * 2);
    t_.add("meet_block();");
    if (multiplied) {
      multiply(queries, dtype);
    } else {
      t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", rows * chunk, stream_threads));
      t_.add(fmt::format("const int row = i / {0}, place = i % {0};", chunk));
      t_.add("float score = -INFINITY;");
      t_.open("if (from + place < count_of[row])");
      t_.add("float dots[4] = {0, 0, 0, 0};");
      t_.add("#pragma unroll 4");
      t_.open(fmt::format("for (int k = 0; k < {}; k += {})", depth, word));
      t_.add(fmt::format("Lanes<{}, {}> line;", type(keys.arg), word));
      t_.add(fmt::format("read_lanes(line, (const {}*)(keys + place * {}) + k);", type(keys.arg), key_stride));
      t_.add(fmt::format("Lanes<float, {}> asked;", word));
      t_.add(fmt::format("read_lanes(asked, query + row * {} + k);", depth));
      t_.add("#pragma unroll");
      t_.add(fmt::format("for (int e = 0; e < {}; ++e) dots[e % 4] = fmaf(asked.at[e], {}, dots[e % 4]);", word,
                         widen(dtype, "line.at[e]")));
      t_.close();
      t_.add("const float dot = (dots[0] + dots[1]) + (dots[2] + dots[3]);");
      t_.add(fmt::format("{}_score({}&score, batch, row, from + place, &dot);", name_, reads()));
      t_.close();
      t_.add(fmt::format("weight[row * {} + place] = score;", scores));
      t_.close();
    }
    t_.add("meet_block();");
    t_.open(fmt::format("for (int row = warp; row < {}; row += {})", rows, stream_warps));
    t_.add(fmt::format("const float score = weight[row * {} + lane], before = largest[row];", scores));
    t_.add("const float now = nan_max(before, warp_max(score));");
    t_.add("const float mine = score == -INFINITY ? 0.0f : expf(score - now);");
    t_.add(fmt::format("weight[row * {} + lane] = mine;", scores));
    t_.add("const float sum = warp_sum(mine), shrink = before == now ? 1.0f : expf(before - now);");
    t_.add("if (lane == 0) largest[row] = now, total[row] = total[row] * shrink + sum, factor[row] = shrink;");
    t_.close();
    t_.add("meet_block();");
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int turn = 0; turn < {}; ++turn)", turns));
    t_.add(fmt::format("const int i = threadIdx.x + turn * {};", stream_threads));
    t_.add(fmt::format("if (i >= {}) break;", quads));
    t_.add(fmt::format("const int row = i / {0}, column = i % {0} * {1};", columns / quad, quad));
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) sums[turn].at[e] *= factor[row];", quad));
    t_.add(fmt::format("const int there = {};",
                       counted_ ? fmt::format("min({}, count_of[row] - from)", chunk) : fmt::format("{}", chunk)));
    t_.add("#pragma unroll 16");
    t_.open(fmt::format("for (int place = 0; place < {}; ++place)", chunk));
    t_.add(fmt::format("const float share = weight[row * {} + place];", scores));
    t_.add("uint2 two = {0, 0};");
    t_.add(fmt::format("if (place < there) two = *(const uint2*)(values + place * {} + column * 2);", columns * 2));
    for (int e = 0; e < quad; ++e)
      t_.add(fmt::format("sums[turn].at[{0}] = fmaf(share, {1}, sums[turn].at[{0}]);", e,
                         widen(value_type, fmt::format("({})({}{})", type(values.arg), e < 2 ? "two.x" : "two.y",
                                                       e % 2 ? " >> 16" : ""))));
    t_.close();
    t_.close();
    t_.add("meet_block();");
    t_.close();  // chunks
    t_.add(
        "// Words with the turn, like those that blocks exchange: four columns, the largest score and the sum of "
        "weights.");
    t_.add(fmt::format("uint4* const to = (uint4*)partial + (batch * {} + split) * 2;", quads * a_.splits));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int part = 0; part < {}; ++part)", turns));
    t_.add(fmt::format("const int i = threadIdx.x + part * {};", stream_threads));
    t_.add(fmt::format("if (i >= {}) break;", quads));
    t_.add(fmt::format("const int row = i / {};", columns / quad));
    const auto bits = [](const std::string& value) { return fmt::format("__float_as_uint({})", value); };
    t_.add(fmt::format("write_whole(to + i * {}, uint4{{{}, {}, {}, turn}});", 2 * a_.splits, bits("sums[part].at[0]"),
                       bits("sums[part].at[1]"), bits("sums[part].at[2]")));
    t_.add(fmt::format("write_whole(to + i * {} + 1, uint4{{{}, {}, {}, turn}});", 2 * a_.splits,
                       bits("sums[part].at[3]"), bits("largest[row]"), bits("total[row]")));
    t_.close();
    t_.add("meet_block();");
    t_.close();  // items
    t_.close();
  }

  void merge() {
    const int64_t rows = x_.rows.size(), columns = x_.columns.size(), quads = rows * columns / quad;
    const int64_t all = x_.batch.size() * quads, turns = (a_.splits + 31) / 32;
    open_function("merge", "const unsigned turn, const unsigned reciprocal, const char* partial");
    t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    t_.add(fmt::format("const int end = first_unit({}, blockIdx.x + 1, reciprocal);", all));
    t_.open(fmt::format("for (int one = first_unit({}, blockIdx.x, reciprocal) + warp; one < end; one += {})", all,
                        stream_warps));
    t_.add(fmt::format("const int batch = one / {0}, i = one % {0};", quads));
    t_.add(fmt::format("const int row = i / {0}, column = i % {0} * {1};", columns / quad, quad));
    t_.add(fmt::format("const uint4* const from = (const uint4*)partial + (one * {} + lane) * 2;", a_.splits));
    t_.add("float largest = -INFINITY, total = 0, sums[4] = {0, 0, 0, 0};");
    t_.add(fmt::format("uint4 one_word[{0}], other_word[{0}];", turns));
    const auto each = [&](const auto& body) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int n = 0; n < {}; ++n)", turns));
      body();
      t_.close();
    };
    const int64_t step = 64;  // words of 32 splits
    each([&] {
      t_.add("one_word[n] = other_word[n] = uint4{0, 0, 0, 0};");
      t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
      t_.add(fmt::format("one_word[n] = read_whole(from + n * {0}), other_word[n] = read_whole(from + n * {0} + 1);",
                         step));
      t_.close();
    });
    each([&] {
      t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
      t_.add(fmt::format("while (one_word[n].w != turn) pause(), one_word[n] = read_whole(from + n * {});", step));
      t_.add(
          fmt::format("while (other_word[n].w != turn) pause(), other_word[n] = read_whole(from + n * {} + 1);", step));
      t_.add("largest = nan_max(largest, __uint_as_float(other_word[n].y));");
      t_.close();
    });
    t_.add("largest = warp_max(largest);");
    each([&] {
      t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
      t_.add(
          "const float mine = __uint_as_float(other_word[n].y), share = mine == largest ? 1.0f : expf(mine - "
          "largest);");
      t_.add("total += share * __uint_as_float(other_word[n].z);");
      t_.add("sums[0] += share * __uint_as_float(one_word[n].x), sums[1] += share * __uint_as_float(one_word[n].y);");
      t_.add("sums[2] += share * __uint_as_float(one_word[n].z), sums[3] += share * __uint_as_float(other_word[n].x);");
      t_.close();
    });
    t_.add("total = warp_sum(total);");
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) sums[e] = warp_sum(sums[e]);", quad));
    t_.add(fmt::format("if (lane >= {}) continue;", quad));
    t_.add("const float sum = lane == 0 ? sums[0] : lane == 1 ? sums[1] : lane == 2 ? sums[2] : sums[3];");
    count_of_row();
    t_.add(fmt::format("const float leaf = total != 0 ? sum / total : count <= 0 ? 0.0f : {};",
                       k_.contraction->masked_rows_are_zero ? "0.0f" : "NAN"));
    t_.add(fmt::format("{}_at({}, batch, row, column + lane, &leaf);", name_, parameter_names(k_)));
    t_.close();
    t_.close();
  }

  const Kernel& k_;
  const StreamAttention& a_;
  const Dialect& d_;
  const std::string& name_;
  const AttentionAxes& x_;
  std::string functions_;
  bool counted_ = false;
  Lines t_;
};

}  // namespace

std::string print_attention(const Kernel& kernel, const StreamAttention& attention, const Dialect& dialect,
                            const std::string& name) {
  return AttentionText(kernel, attention, dialect, name).run();
}

}  // namespace npusim::cuda
