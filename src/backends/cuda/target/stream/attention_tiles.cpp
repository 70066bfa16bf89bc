// An attention's parts by tensor cores, where queries are of 16 bits as the keys are.
#include <fmt/format.h>

#include "backends/cuda/target/stream/attention_text.h"
#include "backends/cuda/target/stream/product.h"

namespace npusim::cuda {
namespace {

constexpr int64_t chunk = StreamAttention::chunk, unit = StreamAttention::unit, pitch = StreamAttention::score_pitch;

}  // namespace

int64_t AttentionText::warp_tiles() const { return (x_.columns.size() / 8 + stream_warps - 1) / stream_warps; }

// Eight keys of a chunk for each four warps' warp, as operand a like lines of a matrix: of each 32 elements a lane
// has eight of one key, which stand in two rows.
void AttentionText::read_fragments(const Access& keys) {
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

// The scores of eight keys and four rows: columns of operand b are rows, each for both halves of a lane's elements.
void AttentionText::multiply(const Access& queries, DType dtype) {
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
  t_.add(fmt::format("if (key < most) {}_score({}&score, batch, row, key, &dot);", name_, reads()));
  t_.add(fmt::format("scores[row * {} + place] = score;", pitch));
  t_.close();
  t_.close();
}

// Each warp finds the weights of a chunk for itself, in the order in which they are operand a: rows g and g + 8 of
// lane 4 g + t have keys 2 t and 2 t + 1 of each eight. Each is a number of the values' dtype that is smaller, and
// what is left, so that both times infinity are infinity. The warp's columns are tiles of eight.
void AttentionText::weigh(DType dtype) {
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
  for (const char* which : {"one", "two"})
    t_.add(fmt::format("const float below_{0} = {0} > 0 ? __uint_as_float(__float_as_uint({0}) - 1 & {1}) : {0};",
                       which, dtype == DType::f16 ? "0xffffe000u" : "0xffff0000u"));
  t_.add(fmt::format("high[i / 2][i % 2 * 2 + half] = pack_{}(below_one, below_two);", type));
  t_.add(fmt::format("low[i / 2][i % 2 * 2 + half] = pack_{}(one - below_one, two - below_two);", type));
  t_.close();
  t_.close();
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; ++tile)", warp_tiles()));
  t_.add(fmt::format("const int column = (warp + tile * {}) * 8;", stream_warps));
  t_.add(fmt::format("if (column >= {}) break;", x_.columns.size()));
  t_.add("unsigned b[4];");
  t_.add(fmt::format("load_matrices_turned(b, values + lane * {} + column * 2);", value_pitch()));
  t_.add("#pragma unroll");
  t_.open("for (int step = 0; step < 2; ++step)");
  for (const char* part : {"high", "low"})
    t_.add(fmt::format("multiply_{}(sums[tile], {}[step], b + step * 2);", type, part));
  t_.close();
  t_.close();
}

// Words with the turn, like those that blocks exchange: of four columns, of which two lanes have two each, and the
// largest score and the sum of weights of their row.
void AttentionText::publish_tiles() {
  const int64_t rows = x_.rows.size(), columns = x_.columns.size();
  t_.add(fmt::format("uint4* const to = (uint4*)partial + (batch * {} + split) * 2 + lane % 2;",
                     rows * columns / quad_columns * a_.splits));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; ++tile)", warp_tiles()));
  t_.add(fmt::format("const int column = (warp + tile * {}) * 8 + lane % 4 * 2;", stream_warps));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int half = 0; half < {}; ++half)", halves()));
  t_.add("const int row = half * 8 + lane / 4;");
  t_.add("const float one = sums[tile][half * 2], two = sums[tile][half * 2 + 1];");
  t_.add("const float three = __shfl_xor_sync(0xffffffffu, one, 1);");
  t_.add(fmt::format("if (row >= {} || column >= {}) continue;", rows, columns));
  const auto bits = [](const std::string& value) { return fmt::format("__float_as_uint({})", value); };
  t_.add(fmt::format("const uint4 first = {{{}, {}, {}, turn}}, second = {{{}, {}, {}, turn}};", bits("one"),
                     bits("two"), bits("three"), bits("two"), bits("largest[half]"), bits("total[half]")));
  t_.add(fmt::format("write_whole(to + (row * {} + column) / {} * {}, lane % 2 ? second : first);", columns,
                     quad_columns, 2 * a_.splits));
  t_.close();
  t_.close();
}

void AttentionText::parts_by_tensor_cores() {
  const Access &keys = a_.keys(k_), &queries = a_.queries(k_), &values = k_.contraction->b;
  open_parts();
  t_.add(fmt::format("char* const values = scratch; float* const scores = (float*)(scratch + {});",
                     chunk * value_pitch()));
  t_.add("bool later = false;");
  open_items();
  most_keys(false);
  t_.add(fmt::format("float largest[{0}], total[{0}], sums[{1}][4] = {{}};", halves(), warp_tiles()));
  t_.add(fmt::format("for (int half = 0; half < {}; ++half) largest[half] = -INFINITY, total[half] = 0;", halves()));
  open_chunks();
  read_fragments(keys);
  read_words(values, x_.value_keys, x_.columns, "value_words");
  t_.add("if (later) meet_block();");
  t_.add("later = true;");
  multiply(queries, k_.args[static_cast<size_t>(keys.arg)].dtype);
  write_words(x_.columns, "value_words", "values", value_pitch());
  t_.add("meet_block();");
  weigh(k_.args[static_cast<size_t>(values.arg)].dtype);
  t_.close();
  publish_tiles();
  t_.close();  // items
  t_.add("meet_block();");
  t_.close();
}

}  // namespace npusim::cuda
