// An attention's parts by tensor cores where each warp has keys of its own: the block meets once, when all are done.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/attention/text.h"
#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream::attention {
namespace {

constexpr int64_t unit = facts::StreamAttention::unit, own_keys = facts::StreamAttention::own_keys,
                  at_once = facts::StreamAttention::at_once;

}  // namespace

// Of each 64 columns the first one of a lane's eight: those of neighbouring lines are in different banks.
Term StreamAttentionText::own_column(const Term& line) {
  return term("{0:*} * 64 + (lane / 4 ^ {0:*} % 2 * 4) * {1}", line, word);
}

// A lane's words of its warp's keys, with what a mask adds to its scores. As operand a keys are rows, of which it has
// two, and eight elements of each 32; of values it has four keys and eight columns of each 64.
void StreamAttentionText::declare_own() {
  t_.add("int from = 0;");
  t_.add(fmt::format("uint4 key_words[2][{}], value_words[4][{}];", x_.depth.size() / unit, own_lines()));
  if (masks() > 0) t_.add("float masks[4];");
}
void StreamAttentionText::read_own_keys() {
  t_.add("#pragma unroll");
  t_.open("for (int half = 0; half < 2; ++half)");
  t_.add("const int key = from + half * 8 + lane / 4;");
  take_apart(t_, "key", x_.keys, "n");
  read_units("key_words[half]", "key < end", a_.keys(k_), x_.keys, "n");
  t_.close();
  read_own_masks();
}
void StreamAttentionText::read_own_masks() {
  if (masks() == 0) return;
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add("const int key = from + i / 2 * 8 + lane / 4, row = lane % 4 * 2 + i % 2;");
  t_.add("masks[i] = 0;");
  t_.add(fmt::format("if (row < {} && key < end) {}_mask({}&masks[i], batch, row, key, nullptr);", x_.rows.size(),
                     name_, reads()));
  t_.close();
}
void StreamAttentionText::read_own_values() {
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add("const int key = from + i / 2 * 8 + lane % 4 * 2 + i % 2;");
  take_apart(t_, "key", x_.value_keys, "n");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int line = 0; line < {}; ++line)", own_lines()));
  t_.add(fmt::format("const int at = {};", own_column("line").text));
  take_apart(t_, "at", x_.columns, "k");
  t_.add("value_words[i][line] = uint4{0, 0, 0, 0};");
  t_.add(fmt::format("if (key < end) value_words[i][line] = *(const uint4*)&{};",
                     at(k_.contraction->b, x_.value_keys, "n", x_.columns, "k")));
  t_.close();
  t_.close();
}

// The scores of 16 keys: lane 4 g + t has those of keys g and g + 8 and of rows 2 t and 2 t + 1.
void StreamAttentionText::score_own(DType dtype) {
  t_.add("float parts[2][4] = {}, score[4];");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int u = 0; u < {}; ++u)", x_.depth.size() / unit));
  t_.add("const uint4 one = key_words[0][u], two = key_words[1][u], asked = query_words[u];");
  t_.add("const unsigned first[4] = {one.x, two.x, one.y, two.y}, second[4] = {one.z, two.z, one.w, two.w};");
  t_.add("const unsigned of_first[2] = {asked.x, asked.y}, of_second[2] = {asked.z, asked.w};");
  const std::string type = dtype == DType::f16 ? "f16" : "bf16";
  t_.add(fmt::format("multiply_{0}(parts[0], first, of_first), multiply_{0}(parts[1], second, of_second);", type));
  t_.close();
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add("const int key = from + i / 2 * 8 + lane / 4, row = lane % 4 * 2 + i % 2;");
  t_.add("const float dot = parts[0][i] + parts[1][i];");
  if (masks() > 0) t_.add("const float both[2] = {dot, masks[i]};");
  t_.add("score[i] = -INFINITY;");
  t_.add(fmt::format("if (row < {} && key < most) {}_score({}&score[i], batch, row, key, {});", x_.rows.size(), name_,
                     reads(), masks() > 0 ? "both" : "&dot"));
  t_.close();
}

// Their weights, in two numbers of the values' dtype as in `weigh`; they stand by keys, and keys are the depth of what
// follows, so they are transposed.
void StreamAttentionText::weigh_own(DType dtype) {
  const std::string type = dtype == DType::f16 ? "f16" : "bf16";
  t_.add("float base[2], shrink[2], now[2] = {nan_max(score[0], score[2]), nan_max(score[1], score[3])};");
  for (int lanes : {4, 8, 16}) {  // side by side
    t_.add(
        fmt::format("const float of_{0}[2] = {{__shfl_xor_sync(0xffffffffu, now[0], {0}), "
                    "__shfl_xor_sync(0xffffffffu, now[1], {0})}};",
                    lanes));
    t_.add(fmt::format("now[0] = nan_max(now[0], of_{0}[0]), now[1] = nan_max(now[1], of_{0}[1]);", lanes));
  }
  t_.add("#pragma unroll");
  t_.open("for (int row = 0; row < 2; ++row)");
  t_.add("const float most_now = nan_max(largest[row], now[row]);");
  t_.add("base[row] = most_now == -INFINITY ? 0.0f : most_now;");
  t_.add("shrink[row] = largest[row] == most_now ? 1.0f : exp2_near((largest[row] - most_now) * 1.44269504f);");
  t_.add("largest[row] = most_now;");
  t_.close();
  t_.add("float weight[4];");
  t_.add("#pragma unroll");
  t_.add("for (int i = 0; i < 4; ++i) weight[i] = exp2_near((score[i] - base[i % 2]) * 1.44269504f);");
  t_.add("#pragma unroll");
  t_.add("for (int row = 0; row < 2; ++row) total[row] = total[row] * shrink[row] + (weight[row] + weight[2 + row]);");
  t_.add("unsigned high[2], low[2];");
  t_.add("#pragma unroll");
  t_.open("for (int half = 0; half < 2; ++half)");
  t_.add("const float one = weight[half * 2], two = weight[half * 2 + 1];");
  find_below(dtype);
  t_.add(fmt::format("high[half] = transpose_matrix(pack_{}(below_one, below_two));", type));
  t_.add(fmt::format("low[half] = transpose_matrix(pack_{}(one - below_one, two - below_two));", type));
  t_.close();
}

// Of columns 2 p and 2 p + 1 of a lane's eight of line n, which are rows g and g + 8 of tile 4 n + p.
void StreamAttentionText::sum_own(DType dtype) {
  const std::string type = dtype == DType::f16 ? "f16" : "bf16";
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; ++tile)", own_lines() * 4));
  t_.add("unsigned two[4], a[4];");
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add("const uint4 w = value_words[i][tile / 4];");
  t_.add("two[i] = tile % 4 == 0 ? w.x : tile % 4 == 1 ? w.y : tile % 4 == 2 ? w.z : w.w;");
  t_.close();
  t_.add("a[0] = __byte_perm(two[0], two[1], 0x5410), a[1] = __byte_perm(two[0], two[1], 0x7632);");
  t_.add("a[2] = __byte_perm(two[2], two[3], 0x5410), a[3] = __byte_perm(two[2], two[3], 0x7632);");
  t_.add("#pragma unroll");
  t_.add("for (int i = 0; i < 4; ++i) sums[tile][i] *= shrink[i % 2];");
  t_.add(fmt::format("multiply_{0}(sums[tile], a, high), multiply_{0}(sums[tile], a, low);", type));
  t_.close();
}

// A warp's keys and values of the chunk behind those that were prefetched.
void StreamAttentionText::prefetch_next() {
  t_.open("if (const int n = next_chunk(behind); n < behind.count)");
  t_.add(fmt::format("const int first = {:+} + warp % 2 * {};", from_of("n"), own_keys));
  prefetch("first", own_keys, "lane", 32);
  t_.close();
}

// What a warp found, in the block's memory, where that of warp `at` stands.
void StreamAttentionText::leave_own(const Term& at) {
  const int64_t rows = x_.rows.size();
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 2; ++i)");
  t_.add("const int row = lane % 4 * 2 + i;");
  t_.add(fmt::format("if (row >= {}) continue;", rows));
  t_.add(
      fmt::format("if (lane < 4) stats[{:*} * {} + row] = float2{{largest[i], some ? total[i] : -1.0f}};", at, rows));
  t_.add("if (!some) continue;");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; tile += 2)", own_lines() * 4));
  t_.add("const float (&one)[4] = sums[tile], (&two)[4] = sums[tile + 1];");
  t_.add(fmt::format("*(float4*){} = float4{{one[i], one[2 + i], two[i], two[2 + i]}};", found_at(at)));
  t_.close();
  t_.close();
}
Term StreamAttentionText::found_at(const Term& warp) const {
  return term("found + ({:*} * {} + row) * {} + {:+} + tile % 4 * 2", warp, x_.rows.size(), a_.own_pitch(),
              own_column("tile / 4"));
}

// Half of the warps take what the others found, each another one's.
void StreamAttentionText::join_own() {
  const int64_t rows = x_.rows.size(), half = a_.found_warps();
  t_.open(fmt::format("if (warp >= {} && warp < {})", half, a_.own_warps()));
  leave_own(term("warp - {}", half));
  t_.close();
  t_.add("meet_block();");
  t_.open(fmt::format("if (warp < {})", half));
  t_.add("bool others = false;");
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 2; ++i)");
  t_.add("const int row = lane % 4 * 2 + i;");
  t_.add(fmt::format("if (row >= {}) continue;", rows));
  t_.add(fmt::format("const float2 its = stats[warp * {} + row];", rows));
  t_.add("if (its.y < 0) continue;");
  t_.add("others = true;");
  t_.add("const float most_of_both = some ? nan_max(largest[i], its.x) : its.x;");
  t_.add("const float mine = !some ? 0.0f : largest[i] == most_of_both ? 1.0f : exp_near(largest[i] - most_of_both);");
  t_.add("const float share = its.x == most_of_both ? 1.0f : exp_near(its.x - most_of_both);");
  t_.add("largest[i] = most_of_both, total[i] = total[i] * mine + share * its.y;");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int tile = 0; tile < {}; tile += 2)", own_lines() * 4));
  t_.add("float (&one)[4] = sums[tile], (&two)[4] = sums[tile + 1];");
  t_.add(fmt::format("const float4 four = *(const float4*){};", found_at("warp")));
  t_.add("one[i] = one[i] * mine + share * four.x, one[2 + i] = one[2 + i] * mine + share * four.y;");
  t_.add("two[i] = two[i] * mine + share * four.z, two[2 + i] = two[2 + i] * mine + share * four.w;");
  t_.close();
  t_.close();
  t_.add("some |= __any_sync(0xffffffffu, others);");
  t_.close();
  t_.add("meet_block();");
}

// What the warps found, in the block's memory, and of a thread each the sums of four columns.
void StreamAttentionText::publish_own() {
  const int64_t rows = x_.rows.size(), columns = x_.columns.size(), quads = columns / facts::quad_columns;
  const int64_t warps = a_.found_warps(), pitch = a_.own_pitch();
  t_.add("#pragma unroll");
  t_.open("for (int row = 0; row < 2; ++row)");
  for (int lanes : {4, 8, 16})
    t_.add(fmt::format("total[row] += __shfl_xor_sync(0xffffffffu, total[row], {});", lanes));
  t_.close();
  t_.add("if (later) meet_block();");
  t_.add("later = true;");
  if (warps < a_.own_warps()) join_own();
  t_.open(fmt::format("if (warp < {})", warps));
  leave_own("warp");
  t_.close();
  t_.add("meet_block();");
  t_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", rows * quads, facts::stream_threads));
  t_.add(fmt::format("const int row = i / {0}, column = i % {0} * {1};", quads, facts::quad_columns));
  t_.add(fmt::format("float2 of[{}];", warps));
  t_.add("float most_of_all = -INFINITY, weights = 0, all[4] = {0, 0, 0, 0};");
  t_.add("#pragma unroll");
  t_.add(
      fmt::format("for (int w = 0; w < {0}; ++w) of[w] = stats[w * {1} + row], most_of_all = nan_max(most_of_all, "
                  "of[w].x);",
                  warps, rows));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int w = 0; w < {}; ++w)", warps));
  t_.add("if (of[w].y < 0) continue;");
  t_.add("const float share = of[w].x == most_of_all ? 1.0f : exp_near(of[w].x - most_of_all);");
  t_.add(fmt::format("const float4 four = *(const float4*)(found + (w * {} + row) * {} + column);", rows, pitch));
  t_.add("weights += share * of[w].y;");
  t_.add("all[0] += share * four.x, all[1] += share * four.y, all[2] += share * four.z, all[3] += share * four.w;");
  t_.close();
  const auto bits = [](const std::string& value) { return fmt::format("__float_as_uint({})", value); };
  t_.add(
      fmt::format("uint4* const to = (uint4*)partial + ((batch * {} + i) * {} + split) * 2;", rows * quads, a_.splits));
  t_.add(fmt::format("write_whole(to, uint4{{{}, {}, {}, epoch}});", bits("all[0]"), bits("all[1]"), bits("all[2]")));
  t_.add(fmt::format("write_whole(to + 1, uint4{{{}, {}, {}, epoch}});", bits("all[3]"), bits("most_of_all"),
                     bits("weights")));
  t_.close();
}

void StreamAttentionText::open_own() {
  t_.add(fmt::format("float* const found = (float*)scratch; float2* const stats = (float2*)(found + {});",
                     a_.found_warps() * x_.rows.size() * a_.own_pitch()));
  t_.add("bool later = false;");
  open_items();
}
// The queries' words, which all keys of a warp are multiplied with, and what it has found.
void StreamAttentionText::begin_own() {
  t_.add(fmt::format("uint4 query_words[{}];", x_.depth.size() / unit));
  t_.add("const int asked = lane / 4;");
  take_apart(t_, "asked", x_.rows, "r");
  read_units("query_words", fmt::format("asked < {}", x_.rows.size()), a_.queries(k_), x_.rows, "r");
  t_.add(fmt::format("float largest[2] = {{-INFINITY, -INFINITY}}, total[2] = {{0, 0}}, sums[{}][4] = {{}};",
                     own_lines() * 4));
  t_.add("bool some = false;");
}

void StreamAttentionText::parts_by_warps(const std::string& name) {
  const DType dtype = k_.args[static_cast<size_t>(a_.keys(k_).arg)].dtype;
  const DType value_type = k_.args[static_cast<size_t>(k_.contraction->b.arg)].dtype;
  open_parts(name);
  open_own();
  most_keys(false);
  declare_own();
  const Term from = term("{:+} + warp % 2 * {}", from_of("which"), own_keys);
  open_chunks("chunks", seen_by_item(), fmt::format("warp / 2, {}", at_once));
  t_.add("int which = next_chunk(chunks);");
  t_.add("Chunks behind = chunks;");
  t_.add("// Without branches around the reads, what is read is waited for where it is used.");
  t_.add("int end = which < chunks.count ? most : 0;");
  t_.add(fmt::format("from = {};", from.text));
  read_own_keys();
  read_own_values();
  begin_own();
  prefetch_next();
  t_.add("#pragma unroll 1");
  t_.open("while (which < chunks.count)");
  t_.add("some = true;");
  t_.add("which = next_chunk(chunks);");
  prefetch_next();
  score_own(dtype);
  t_.add("end = which < chunks.count ? most : 0;");
  t_.add(fmt::format("from = {};", from.text));
  read_own_keys();
  weigh_own(value_type);
  sum_own(value_type);
  read_own_values();
  t_.close();
  publish_own();
  t_.close();  // items
  t_.add("meet_block();");
  t_.close();
}

// Of one chunk all warps of a block take a part each: that is faster where a mask leaves no more.
void StreamAttentionText::choose_parts() {
  open_parts("parts");
  if (!a_.ring) {
    t_.add("bool many = false;");
    open_items();
    most_keys(false);
    open_chunks("chunks", seen_by_item());
    t_.add("next_chunk(chunks);");
    t_.add("many |= next_chunk(chunks) < chunks.count;");
    t_.close();
  }
  const std::string given =
      fmt::format("epoch, scratch, partial, {}{}", a_.inspected_chunks > 0 ? "seen, " : "", parameter_names(k_));
  t_.add("if (many)");
  if (a_.ring)
    t_.add(fmt::format("  ring = ahead(ring, {}_many(ring, float4{{masks[0], masks[1], masks[2], masks[3]}}, {}));",
                       name_, given));
  else
    t_.add(fmt::format("  {}_many({});", name_, given));
  t_.add("else");
  t_.add(fmt::format("  {}_few({}{});", name_, a_.ring ? "ring, many, masks, " : "", given));
  t_.close();
}

}  // namespace npusim::cuda::codegen::stream::attention
