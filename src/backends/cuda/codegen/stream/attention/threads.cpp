// An attention's parts by threads: of float32 queries, or where rows have keys of their own number.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/attention/text.h"
#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream::attention {
namespace {

constexpr int64_t chunk = facts::StreamAttention::chunk, scores = facts::StreamAttention::scores,
                  quad = facts::quad_columns;

}  // namespace

int64_t StreamAttentionText::quad_rounds() const {
  return (quads() + facts::stream_threads - 1) / facts::stream_threads;
}

std::string StreamAttentionText::as_float(int arg, const Term& element) const {
  const DType dtype = k_.args[static_cast<size_t>(arg)].dtype;
  return fmt::format(fmt::runtime(d_.elements[static_cast<size_t>(dtype)].load), element);
}

// Of a block: the values of a chunk, weights, what each row is at, queries, the keys of a chunk.
void StreamAttentionText::declare_memory() {
  const int64_t rows = x_.rows.size(), depth = x_.depth.size(), columns = x_.columns.size();
  t_.add(
      fmt::format("char* const values = scratch; float* const weight = (float*)(values + {});", chunk * columns * 2));
  t_.add(fmt::format("float* const largest = weight + {}; float* const total = largest + {};", rows * scores, rows));
  t_.add(fmt::format("float* const factor = total + {0}; int* const count_of = (int*)(factor + {0});", rows));
  t_.add(fmt::format("float* const query = (float*)(scratch + {}); char* const keys = (char*)(query + {});",
                     a_.common_bytes(), rows * depth));
}

void StreamAttentionText::widen_queries() {
  const int64_t rows = x_.rows.size(), depth = x_.depth.size();
  const Access& queries = a_.queries(k_);
  t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", rows * depth, facts::stream_threads));
  t_.add(fmt::format("const int row = i / {0}, at = i % {0};", depth));
  take_apart(t_, "row", x_.rows, "r");
  take_apart(t_, "at", x_.depth, "k");
  t_.add(fmt::format("query[i] = {};", as_float(queries.arg, at(queries, x_.rows, "r", x_.depth, "k"))));
  t_.close();
}

// A chunk's, through registers: all reads come before the first write.
void StreamAttentionText::load_keys_and_values() {
  const int64_t columns = x_.columns.size();
  const Access& keys = a_.keys(k_);
  const Access& values = k_.contraction->b;
  t_.add(fmt::format("uint4 key_words[{}], value_words[{}];", rounds_of(x_.depth), rounds_of(x_.columns)));
  read_words(keys, x_.keys, x_.depth, "key_words");
  read_words(values, x_.value_keys, x_.columns, "value_words");
  write_words(x_.depth, "key_words", "keys", key_pitch());
  write_words(x_.columns, "value_words", "values", columns * 2);
  t_.add("meet_block();");
}

// A score to a thread.
void StreamAttentionText::score_by_threads() {
  const int64_t rows = x_.rows.size(), depth = x_.depth.size();
  const Access& keys = a_.keys(k_);
  t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", rows * chunk, facts::stream_threads));
  t_.add(fmt::format("const int row = i / {0}, position = i % {0};", chunk));
  t_.add("float score = -INFINITY;");
  t_.open("if (from + position < count_of[row])");
  t_.add("float dots[4] = {0, 0, 0, 0};");
  t_.add("#pragma unroll 4");
  t_.open(fmt::format("for (int k = 0; k < {}; k += {})", depth, word));
  t_.add(fmt::format("Lanes<{}, {}> line;", type(keys.arg), word));
  t_.add(fmt::format("read_lanes(line, (const {}*)(keys + position * {}) + k);", type(keys.arg), key_pitch()));
  t_.add(fmt::format("Lanes<float, {}> asked;", word));
  t_.add(fmt::format("read_lanes(asked, query + row * {} + k);", depth));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) dots[e % 4] = fmaf(asked.at[e], {}, dots[e % 4]);", word,
                     as_float(keys.arg, "line.at[e]")));
  t_.close();
  t_.add("const float dot = (dots[0] + dots[1]) + (dots[2] + dots[3]);");
  t_.add(fmt::format("{}_score({}&score, batch, row, from + position, &dot);", name_, reads()));
  t_.close();
  t_.add(fmt::format("weight[row * {} + position] = score;", scores));
  t_.close();
  t_.add("meet_block();");
}

// A row to a warp, a key to a lane: the largest score so far, and what the sums under another one are to be multiplied
// by.
void StreamAttentionText::weigh_by_warps() {
  const int64_t rows = x_.rows.size();
  t_.open(fmt::format("for (int row = warp; row < {}; row += {})", rows, facts::stream_warps));
  t_.add(fmt::format("const float score = weight[row * {} + lane], before = largest[row];", scores));
  t_.add("const float now = nan_max(before, warp_max(score));");
  t_.add("const float mine = score == -INFINITY ? 0.0f : expf(score - now);");
  t_.add(fmt::format("weight[row * {} + lane] = mine;", scores));
  t_.add("const float sum = warp_sum(mine), shrink = before == now ? 1.0f : expf(before - now);");
  t_.add("if (lane == 0) largest[row] = now, total[row] = total[row] * shrink + sum, factor[row] = shrink;");
  t_.close();
  t_.add("meet_block();");
}

// Four columns to a thread.
void StreamAttentionText::sum_by_threads() {
  const int64_t columns = x_.columns.size();
  const Access& values = k_.contraction->b;
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int round = 0; round < {}; ++round)", quad_rounds()));
  t_.add(fmt::format("const int i = threadIdx.x + round * {};", facts::stream_threads));
  t_.add(fmt::format("if (i >= {}) break;", quads()));
  t_.add(fmt::format("const int row = i / {0}, column = i % {0} * {1};", columns / quad, quad));
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) sums[round].at[e] *= factor[row];", quad));
  t_.add(fmt::format("const int there = {};",
                     a_.counted ? fmt::format("min({}, count_of[row] - from)", chunk) : fmt::format("{}", chunk)));
  t_.add("#pragma unroll 16");
  t_.open(fmt::format("for (int position = 0; position < {}; ++position)", chunk));
  t_.add(fmt::format("const float share = weight[row * {} + position];", scores));
  t_.add("uint2 two = {0, 0};");
  t_.add(fmt::format("if (position < there) two = *(const uint2*)(values + position * {} + column * 2);", columns * 2));
  for (int e = 0; e < quad; ++e)
    t_.add(fmt::format(
        "sums[round].at[{0}] = fmaf(share, {1}, sums[round].at[{0}]);", e,
        as_float(values.arg, term("({})({}{})", type(values.arg), e < 2 ? "two.x" : "two.y", e % 2 ? " >> 16" : ""))));
  t_.close();
  t_.close();
  t_.add("meet_block();");
}

void StreamAttentionText::publish_quads() {
  const int64_t columns = x_.columns.size();
  t_.add(
      "// Words with the epoch, like those that blocks exchange: four columns, the largest score and the sum of "
      "weights.");
  t_.add(fmt::format("uint4* const to = (uint4*)partial + (batch * {} + split) * 2;", quads() * a_.splits));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int part = 0; part < {}; ++part)", quad_rounds()));
  t_.add(fmt::format("const int i = threadIdx.x + part * {};", facts::stream_threads));
  t_.add(fmt::format("if (i >= {}) break;", quads()));
  t_.add(fmt::format("const int row = i / {};", columns / quad));
  const auto bits = [](const std::string& value) { return fmt::format("__float_as_uint({})", value); };
  t_.add(fmt::format("write_whole(to + i * {}, uint4{{{}, {}, {}, epoch}});", 2 * a_.splits, bits("sums[part].at[0]"),
                     bits("sums[part].at[1]"), bits("sums[part].at[2]")));
  t_.add(fmt::format("write_whole(to + i * {} + 1, uint4{{{}, {}, {}, epoch}});", 2 * a_.splits,
                     bits("sums[part].at[3]"), bits("largest[row]"), bits("total[row]")));
  t_.close();
  t_.add("meet_block();");
}

void StreamAttentionText::parts_by_threads() {
  open_parts("parts");
  declare_memory();
  open_items();
  widen_queries();
  most_keys(true);
  t_.add(
      fmt::format("if (threadIdx.x < {}) largest[threadIdx.x] = -INFINITY, total[threadIdx.x] = 0;", x_.rows.size()));
  t_.add(fmt::format("Lanes<float, {}> sums[{}] = {{}};", quad, quad_rounds()));
  // Where there are no keys, too, all threads read what the first ones set.
  t_.add("meet_block();");
  open_chunks("chunks", seen_by_item());
  t_.open("for (int n = next_chunk(chunks); n < chunks.count; n = next_chunk(chunks))");
  t_.add(fmt::format("const int from = {};", from_of("n").text));
  load_keys_and_values();
  score_by_threads();
  weigh_by_warps();
  sum_by_threads();
  t_.close();  // chunks
  publish_quads();
  t_.close();  // items
  t_.close();
}

}  // namespace npusim::cuda::codegen::stream::attention
