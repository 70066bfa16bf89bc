// An attention's parts by tensor cores, where queries are of 16 bits as the keys are.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/attention/text.h"
#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream::attention {
namespace {

constexpr int64_t chunk = facts::StreamAttention::chunk, unit = facts::StreamAttention::unit,
                  pitch = facts::StreamAttention::score_pitch;

}  // namespace

int64_t StreamAttentionText::warp_tiles() const {
  return (x_.columns.size() / 8 + facts::stream_warps - 1) / facts::stream_warps;
}

// Of each 32 elements along the depth a lane's eight, zeros where there are none.
void StreamAttentionText::read_units(const Term& words, const Term& there, const Access& a, const Axis& one,
                                     const std::string& one_name) {
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int u = 0; u < {}; ++u)", x_.depth.size() / unit));
  t_.add(fmt::format("const int at = u * {} + lane % 4 * {};", unit, word));
  take_apart(t_, "at", x_.depth, "k");
  t_.add(fmt::format("{}[u] = uint4{{0, 0, 0, 0}};", words));
  t_.add(fmt::format("if ({}) {}[u] = *(const uint4*)&{};", there.text, words, at(a, one, one_name, x_.depth, "k")));
  t_.close();
}

// Of two weights the numbers of the values' dtype that are smaller.
void StreamAttentionText::find_below(DType dtype) {
  for (const char* which : {"one", "two"})
    t_.add(fmt::format("const float below_{0} = {0} > 0 ? __uint_as_float(__float_as_uint({0}) - 1 & {1}) : {0};",
                       which, dtype == DType::f16 ? "0xffffe000u" : "0xffff0000u"));
}

// The words of a chunk that a lane is asked for: of eight keys for each four warps' warp, as operand a like lines of a
// matrix: of each 32 elements a lane has eight of one key, which stand in two rows; and of values as they lie. With
// them what a mask adds to the lane's scores.
void StreamAttentionText::declare_chunk() {
  t_.add("int from = 0, key = 0;");
  t_.add(fmt::format("uint4 key_words[{}], value_words[{}];", x_.depth.size() / unit, rounds_of(x_.columns)));
  if (masks() > 0) t_.add(fmt::format("float masks[{}];", masks()));
}
void StreamAttentionText::read_chunk(const Term& from) {
  t_.add(fmt::format("from = {}, key = from + warp % 4 * 8 + lane / 4;", from.text));
  t_.open("");
  take_apart(t_, "key", x_.keys, "n");
  read_units("key_words", "key < most", a_.keys(k_), x_.keys, "n");
  read_masks_of_chunk("most");
  t_.close();
  read_words(k_.contraction->b, x_.value_keys, x_.columns, "value_words");
}
void StreamAttentionText::read_masks_of_chunk(const Term& end) {
  if (masks() == 0) return;
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int n = 0; n < {}; ++n)", masks()));
  t_.add("const int row = (warp / 4 + n * 2) * 4 + lane % 4;");
  t_.add("masks[n] = 0;");
  t_.add(fmt::format("if (row < {} && key < {}) {}_mask({}&masks[n], batch, row, key, nullptr);", x_.rows.size(), end,
                     name_, reads()));
  t_.close();
}

// The scores of eight keys and four rows: columns of operand b are rows, each for both halves of a lane's elements.
void StreamAttentionText::multiply(const Access& queries, DType dtype) {
  const int64_t rows = x_.rows.size(), units = x_.depth.size() / unit;
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int n = 0; n < {}; ++n)", group_rounds()));
  t_.add("const int group = warp / 4 + n * 2;");
  t_.add(fmt::format("if (group >= {}) break;", groups()));
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
  if (masks() > 0) t_.add("const float both[2] = {dot, masks[n]};");
  t_.open(fmt::format("if (row < {})", rows));
  t_.add("float score = -INFINITY;");
  t_.add(fmt::format("if (key < most) {}_score({}&score, batch, row, key, {});", name_, reads(),
                     masks() > 0 ? "both" : "&dot"));
  t_.add(fmt::format("scores[row * {} + key - from] = score;", pitch));
  t_.close();
  t_.close();
}

// Each warp finds the weights of a chunk for itself, in the order in which they are operand a: rows g and g + 8 of
// lane 4 g + t have keys 2 t and 2 t + 1 of each eight. Each is a number of the values' dtype that is smaller, and
// what is left, so that both times infinity are infinity. The warp's columns are tiles of eight.
void StreamAttentionText::weigh(DType dtype) {
  const std::string type = dtype == DType::f16 ? "f16" : "bf16";
  t_.add("unsigned high[2][4] = {}, low[2][4] = {};");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int half = 0; half < {}; ++half)", halves()));
  t_.add("const int row = half * 8 + lane / 4;");
  t_.add("float weight[8], now = largest[half], sum = 0;");
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 8; ++i)");
  t_.add(fmt::format("weight[i] = row < {} ? scores[row * {} + i / 2 * 8 + lane % 4 * 2 + i % 2] : -INFINITY;",
                     x_.rows.size(), pitch));
  t_.add("now = nan_max(now, weight[i]);");
  t_.close();
  for (int lanes : {1, 2}) t_.add(fmt::format("now = nan_max(now, __shfl_xor_sync(0xffffffffu, now, {}));", lanes));
  t_.add("const float base = now == -INFINITY ? 0.0f : now;");
  t_.add("const float shrink = largest[half] == now ? 1.0f : exp_near(largest[half] - now);");
  t_.add("#pragma unroll");
  t_.add("for (int i = 0; i < 8; ++i) weight[i] = exp_near(weight[i] - base);");
  t_.add("#pragma unroll");
  t_.add("for (int i = 0; i < 8; ++i) sum += weight[i];");
  for (int lanes : {1, 2}) t_.add(fmt::format("sum += __shfl_xor_sync(0xffffffffu, sum, {});", lanes));
  t_.add("largest[half] = now, total[half] = total[half] * shrink + sum;");
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int n = 0; n < {}; ++n) sums[n / 2][half * 2 + n % 2] *= shrink;", 2 * warp_tiles()));
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add("const float one = weight[i * 2], two = weight[i * 2 + 1];");
  find_below(dtype);
  t_.add(fmt::format("high[i / 2][i % 2 * 2 + half] = pack_{}(below_one, below_two);", type));
  t_.add(fmt::format("low[i / 2][i % 2 * 2 + half] = pack_{}(one - below_one, two - below_two);", type));
  t_.close();
  t_.close();
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; ++tile)", warp_tiles()));
  t_.add(fmt::format("const int column = (warp + tile * {}) * 8;", facts::stream_warps));
  t_.add(fmt::format("if (column >= {}) break;", x_.columns.size()));
  t_.add("unsigned b[4];");
  t_.add("load_matrices_transposed(b, value_line + column * 2);");
  t_.add("#pragma unroll");
  t_.open("for (int step = 0; step < 2; ++step)");
  for (const char* part : {"high", "low"})
    t_.add(fmt::format("multiply_{}(sums[tile], {}[step], b + step * 2);", type, part));
  t_.close();
  t_.close();
}

// Words with the epoch, like those that blocks exchange: of four columns, of which two lanes have two each, and the
// largest score and the sum of weights of their row.
void StreamAttentionText::publish_tiles() {
  const int64_t rows = x_.rows.size(), columns = x_.columns.size();
  t_.add(fmt::format("uint4* const to = (uint4*)partial + (batch * {} + split) * 2 + lane % 2;",
                     rows * columns / facts::quad_columns * a_.splits));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; ++tile)", warp_tiles()));
  t_.add(fmt::format("const int column = (warp + tile * {}) * 8 + lane % 4 * 2;", facts::stream_warps));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int half = 0; half < {}; ++half)", halves()));
  t_.add("const int row = half * 8 + lane / 4;");
  t_.add("const float one = sums[tile][half * 2], two = sums[tile][half * 2 + 1];");
  t_.add("const float three = __shfl_xor_sync(0xffffffffu, one, 1);");
  t_.add(fmt::format("if (row >= {} || column >= {}) continue;", rows, columns));
  const auto bits = [](const std::string& value) { return fmt::format("__float_as_uint({})", value); };
  t_.add(fmt::format("const uint4 first = {{{}, {}, {}, epoch}}, second = {{{}, {}, {}, epoch}};", bits("one"),
                     bits("two"), bits("three"), bits("two"), bits("largest[half]"), bits("total[half]")));
  t_.add(fmt::format("write_whole(to + (row * {} + column) / {} * {}, lane % 2 ? second : first);", columns,
                     facts::quad_columns, 2 * a_.splits));
  t_.close();
  t_.close();
}

void StreamAttentionText::declare_sums() {
  t_.add(fmt::format("float largest[{0}], total[{0}], sums[{1}][4] = {{}};", halves(), warp_tiles()));
  t_.add(fmt::format("for (int half = 0; half < {}; ++half) largest[half] = -INFINITY, total[half] = 0;", halves()));
}

// While a chunk's weights are made the next one's words are read, and those behind it prefetched.
void StreamAttentionText::parts_by_tensor_cores(const std::string& name) {
  const auto dtype_of = [&](const Access& of) { return k_.args[static_cast<size_t>(of.arg)].dtype; };
  const bool several = a_.chunks() > 1;
  open_parts(name);
  t_.add(fmt::format("char* const values = scratch; float* const scores = (float*)(scratch + {});",
                     chunk * value_pitch()));
  t_.add("bool later = false;");
  open_items();
  t_.add(fmt::format("const char* const value_line = values + lane * {};", value_pitch()));
  most_keys(false);
  declare_sums();
  declare_chunk();
  if (several) {
    open_chunks("chunks", seen_by_item());
    t_.add("int which = next_chunk(chunks);");
    t_.open("if (which < chunks.count)");
    read_chunk(from_of("which"));
    t_.close();
    t_.add("Chunks behind = chunks;");
    t_.add(fmt::format("for (int left = {}; left > 0; --left) next_chunk(behind);", chunks_ahead - 1));
    t_.add("#pragma unroll 1");
    t_.open("while (which < chunks.count)");
  } else {
    t_.open(fmt::format("if (split * {} < most)", chunk));
    read_chunk(term("split * {}", chunk));
  }
  t_.add("if (later) meet_block();");
  t_.add("later = true;");
  multiply(a_.queries(k_), dtype_of(a_.keys(k_)));
  write_words(x_.columns, "value_words", "values", value_pitch());
  if (several) {
    t_.add("which = next_chunk(chunks);");
    t_.open("if (which < chunks.count)");
    read_chunk(from_of("which"));
    t_.close();
    t_.add("const int coming = next_chunk(behind);");
    t_.open("if (coming < behind.count)");
    prefetch_chunk(from_of("coming"));
    t_.close();
  }
  t_.add("meet_block();");
  weigh(dtype_of(k_.contraction->b));
  t_.close();
  publish_tiles();
  t_.close();  // items
  t_.add("meet_block();");
  t_.close();
}

}  // namespace npusim::cuda::codegen::stream::attention
