// The text of an attention's stages: what they begin with, and how the parts that blocks found are merged.
#include "backends/cuda/codegen/stream/attention/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/stream/attention/attention.h"
#include "backends/cuda/codegen/stream/facts/product.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/score_kernel.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream::attention {
namespace {

constexpr int64_t chunk = facts::StreamAttention::chunk, quad = facts::quad_columns;
constexpr int64_t most_prefetched = 1 << 16;  // bytes of a mask

}  // namespace

std::string StreamAttentionText::run() {
  points();
  if (a_.inspected_chunks > 0) inspect();
  if (a_.ring) {
    begin_ring();
    parts_of_one(a_.by_warps ? "few" : "parts");
    if (a_.by_warps) parts_of_several("many"), choose_parts();
    keep_rows();
    merge();
    return functions_ + t_.text;
  }
  ahead();
  if (a_.multiplied)
    parts_by_tensor_cores(a_.by_warps ? "few" : "parts");
  else
    parts_by_threads();
  if (a_.by_warps) parts_by_warps("many"), choose_parts();
  merge();
  return functions_ + t_.text;
}

std::string StreamAttentionText::reads() const {
  std::string names;
  for (size_t i = 0; i < k_.args.size(); ++i)
    if (!k_.args[i].written) names += fmt::format("{}, ", add(static_cast<int>(i)));
  return names;
}

void StreamAttentionText::points() {
  PointFunction f;
  f.positions = {{"batch", x_.batch.dims}, {"row", x_.rows.dims}, {"key", x_.keys.dims}};
  f.name = name_ + "_score";
  functions_ += print_point(masks() > 0 ? facts::masked_by(k_, a_.mask) : stored_score(k_), d_, f);
  f.name = name_ + "_keys";
  if (a_.counted) functions_ += print_point(stored_count(k_), d_, f);
  f.name = name_ + "_mask";
  if (a_.mask >= 0 && (a_.inspected_chunks > 0 || masks() > 0))
    functions_ += print_point(facts::stored_mask(k_, a_.mask), d_, f);
  f.positions = {{"batch", x_.batch.dims}, {"row", x_.rows.dims}, {"column", x_.columns.dims}};
  f.name = name_ + "_at";
  functions_ += print_point(k_, d_, f);
}

// `kind`: its qualifiers and what it returns, where it is not as all.
void StreamAttentionText::open_function(const std::string& half, const std::string& first, const std::string& kind) {
  t_.text += "\n";
  t_.indent = 0;
  t_.open(fmt::format("{} {}_{}(\n    {}{}{})", kind.empty() ? fmt::format("{} void", d_.function) : kind, name_, half,
                      first, first.empty() ? "" : ",\n    ", parameters(k_, d_)));
}

Term StreamAttentionText::at(const Access& a, const Axis& one, const std::string& one_name, const Axis& two,
                             const std::string& two_name) const {
  return term("{}[{}]", add(a.arg),
              sum_of({a.offset ? term("{}LL", a.offset) : Term(), put_together(a.strides, x_.batch, "z"),
                      put_together(a.strides, one, one_name), put_together(a.strides, two, two_name)})
                  .text);
}

int64_t StreamAttentionText::rounds_of(const Axis& along) const {
  return (chunk * along.size() / word + facts::stream_threads - 1) / facts::stream_threads;
}

void StreamAttentionText::read_words(const Access& a, const Axis& keys, const Axis& along, const Term& words) {
  const int64_t each = along.size() / word, rounds = rounds_of(along);
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int round = 0; round < {}; ++round)", rounds));
  t_.add(fmt::format("const int i = threadIdx.x + round * {};", facts::stream_threads));
  t_.add(fmt::format("const int key = from + i / {0}, at = i % {0} * {1};", each, word));
  take_apart(t_, "key", keys, "n");
  take_apart(t_, "at", along, "k");
  t_.add(fmt::format("{}[round] = uint4{{0, 0, 0, 0}};", words));
  t_.add(fmt::format("if (i < {} && key < most) {}[round] = *(const uint4*)&{};", chunk * each, words,
                     at(a, keys, "n", along, "k")));
  t_.close();
}

void StreamAttentionText::write_words(const Axis& along, const Term& words, const Term& to, int64_t stride) {
  const int64_t each = along.size() / word;
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int round = 0; round < {}; ++round)", rounds_of(along)));
  t_.add(fmt::format("const int i = threadIdx.x + round * {};", facts::stream_threads));
  t_.add(fmt::format("if (i < {}) *(uint4*)({:+} + i / {} * {} + i % {} * 16) = {}[round];", chunk * each, to, each,
                     stride, each, words));
  t_.close();
}

void StreamAttentionText::count_of_row() {
  if (a_.counted)
    t_.add("long long count = 0;"), t_.add(fmt::format("{}_keys({}&count, batch, row, 0, nullptr);", name_, reads()));
  else
    t_.add(fmt::format("const long long count = {};", x_.keys.size()));
}

// Prefetches to L2 so many keys and values from one on, by so many threads, which `thread` numbers.
void StreamAttentionText::prefetch(const Term& from, int64_t count, const Term& thread, int64_t threads) {
  const auto lines_of = [&](const Access& a, const Axis& keys, const Axis& along) {
    constexpr int64_t line = 64;  // elements of a line of the cache
    const int64_t lines = (along.size() + line - 1) / line;
    t_.open(fmt::format("for (int i = {}; i < {}; i += {})", thread.text, count * lines, threads));
    t_.add(fmt::format("const int key = {:+} + i / {}, at = i % {} * {};", from, lines, lines, line));
    take_apart(t_, "key", keys, "n");
    take_apart(t_, "at", along, "k");
    t_.add(fmt::format("if (key < most) prefetch_l2(&{});", at(a, keys, "n", along, "k")));
    t_.close();
  };
  lines_of(a_.keys(k_), x_.keys, x_.depth);
  lines_of(k_.contraction->b, x_.value_keys, x_.columns);
}
void StreamAttentionText::prefetch_chunk(const Term& from) {
  prefetch(from, chunk, "threadIdx.x", facts::stream_threads);
}

// Prefetches what this block reads first.
void StreamAttentionText::ahead() {
  open_function("ahead", a_.inspected_chunks > 0 ? "const char* seen" : "");
  t_.add("const int item = blockIdx.x;");
  t_.add(fmt::format("if (item >= {}) return;", x_.batch.size() * a_.splits));
  t_.add(fmt::format("const int batch = item / {0}, split = item % {0};", a_.splits));
  take_apart(t_, "batch", x_.batch, "z");
  most_keys(false);
  if (a_.chunks() == 1) {
    prefetch_chunk(term("split * {}", chunk));
  } else {
    open_chunks("chunks", a_.inspected_chunks > 0 ? "seen" : "nullptr");
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int left = {}; left > 0; --left)", chunks_ahead));
    t_.add("const int n = next_chunk(chunks);");
    t_.add("if (n >= chunks.count) break;");
    prefetch_chunk(from_of("n"));
    t_.close();
  }
  for (size_t i = 0; i < k_.args.size(); ++i) {  // masks
    const int64_t bytes = k_.args[i].elements * static_cast<int64_t>(dtype_size(k_.args[i].dtype));
    const int arg = static_cast<int>(i);
    if (k_.args[i].written || arg == a_.keys(k_).arg || arg == a_.queries(k_).arg || arg == k_.contraction->b.arg ||
        bytes > most_prefetched || a_.inspected_chunks > 0)
      continue;
    t_.add(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) prefetch_l2((const char*){} + i * 128);",
                       (bytes + 127) / 128, facts::stream_threads, add(arg)));
  }
  t_.close();
}

void StreamAttentionText::most_keys(bool of_rows) {
  const int64_t rows = x_.rows.size();
  t_.add("int most = 0;");
  t_.open(fmt::format("for (int row = 0; row < {}; ++row)", a_.counted && !a_.multiplied ? rows : 1));
  count_of_row();
  t_.add(fmt::format("const int keys_of_row = (int)max(0LL, min({}LL, (long long)count));", x_.keys.size()));
  t_.add("most = max(most, keys_of_row);");
  if (of_rows)
    t_.add(fmt::format("if (threadIdx.x {} {}) count_of[threadIdx.x] = keys_of_row;", a_.counted ? "==" : "<",
                       a_.counted ? "row" : fmt::format("{}", rows)));
  t_.close();
}

void StreamAttentionText::open_parts(const std::string& name) {
  open_function(name, fmt::format("{}const unsigned epoch, char* scratch, char* partial{}",
                                  a_.ring ? "Ring& ring, const bool many, float* masks, " : "",
                                  a_.inspected_chunks > 0 ? ", const char* seen" : ""));
}

void StreamAttentionText::open_items() {
  t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  t_.open(fmt::format("for (int item = blockIdx.x, nth = 0; item < {}; item += gridDim.x, ++nth)",
                      x_.batch.size() * a_.splits));
  t_.add(fmt::format("const int batch = item / {0}, split = item % {0};", a_.splits));
  take_apart(t_, "batch", x_.batch, "z");
}

// Those of the split that have keys; `seen`: which of them a mask does not hide.
void StreamAttentionText::open_chunks(const std::string& name, const Term& seen, const std::string& of_warps) {
  t_.add(fmt::format("Chunks {} = chunks_of({}, most, split, {}, {});", name, seen.text, a_.splits, of_warps));
}
Term StreamAttentionText::seen_by_item() const {
  return a_.inspected_chunks > 0 ? term("seen + nth * {}", a_.inspected_chunks) : "nullptr";
}
Term StreamAttentionText::from_of(const Term& n) const { return term("(split + {:*} * {}) * {}", n, a_.splits, chunk); }

// Which of a split's chunks have a key that a mask does not hide, and of which it leaves all scores as they are: a byte
// for each.
void StreamAttentionText::inspect() {
  open_function("inspect", "char* seen");
  open_items();
  most_keys(false);
  t_.open(fmt::format("for (int n = warp; n < {}; n += {})", a_.inspected_chunks, facts::stream_warps));
  t_.add(fmt::format("const int key = (split + n * {}) * {} + lane;", a_.splits, chunk));
  t_.add(fmt::format("bool shown = {}, moved = false;", a_.mask >= 0 ? "false" : "key < most"));
  if (a_.mask >= 0) {
    t_.open(fmt::format("for (int row = 0; row < {} && key < most; ++row)", x_.rows.size()));
    t_.add("float mask = 0;");
    t_.add(fmt::format("{}_mask({}&mask, batch, row, key, nullptr);", name_, reads()));
    t_.add("shown |= mask != -INFINITY, moved |= mask != 0;");
    t_.close();
  }
  t_.add("const int some = __any_sync(0xffffffffu, shown), other = __any_sync(0xffffffffu, moved);");
  t_.add(fmt::format("if (lane == 0) seen[nth * {} + n] = !some ? 0 : other ? chunk_shown : chunk_open;",
                     a_.inspected_chunks));
  t_.close();
  t_.close();
  t_.close();
}

void StreamAttentionText::merge() {
  const int64_t rows = x_.rows.size(), columns = x_.columns.size(), quads = rows * columns / quad;
  const int64_t rounds = (a_.splits + 31) / 32;
  open_function("merge", "const unsigned epoch, const uint2 mine, const char* partial");
  t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  t_.open(fmt::format("for (int one = mine.x + warp; one < (int)mine.y; one += {})", facts::stream_warps));
  t_.add(fmt::format("const int batch = one / {0}, i = one % {0};", quads));
  t_.add(fmt::format("const int row = i / {0}, column = i % {0} * {1};", columns / quad, quad));
  t_.add(fmt::format("const uint4* const from = (const uint4*)partial + (one * {} + lane) * 2;", a_.splits));
  t_.add("float largest = -INFINITY, total = 0, sums[4] = {0, 0, 0, 0};");
  t_.add(fmt::format("uint4 one_word[{0}], other_word[{0}];", rounds));
  const auto each = [&](const auto& body) {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int n = 0; n < {}; ++n)", rounds));
    body();
    t_.close();
  };
  const int64_t step = 64;  // words of 32 splits
  each([&] {
    t_.add("one_word[n] = other_word[n] = uint4{0, 0, 0, 0};");
    t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
    t_.add(
        fmt::format("one_word[n] = read_whole(from + n * {0}), other_word[n] = read_whole(from + n * {0} + 1);", step));
    t_.close();
  });
  each([&] {
    t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
    t_.add(fmt::format("while (one_word[n].w != epoch) pause(), one_word[n] = read_whole(from + n * {});", step));
    t_.add(
        fmt::format("while (other_word[n].w != epoch) pause(), other_word[n] = read_whole(from + n * {} + 1);", step));
    t_.add("largest = nan_max(largest, __uint_as_float(other_word[n].y));");
    t_.close();
  });
  t_.add("largest = warp_max(largest);");
  each([&] {
    t_.open(fmt::format("if (n * 32 + lane < {})", a_.splits));
    t_.add(
        "const float mine = __uint_as_float(other_word[n].y), share = mine == largest ? 1.0f : exp_near(mine - "
        "largest);");
    t_.add("total += share * __uint_as_float(other_word[n].z);");
    t_.add("sums[0] += share * __uint_as_float(one_word[n].x), sums[1] += share * __uint_as_float(one_word[n].y);");
    t_.add("sums[2] += share * __uint_as_float(one_word[n].z), sums[3] += share * __uint_as_float(other_word[n].x);");
    t_.close();
  });
  t_.add("// Side by side: five sums of a warp one behind the other wait for each of their steps.");
  t_.add("#pragma unroll");
  t_.open("for (int lanes = 16; lanes > 0; lanes /= 2)");
  t_.add("const float other = __shfl_xor_sync(0xffffffffu, total, lanes);");
  t_.add(fmt::format("float others[{}];", quad));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) others[e] = __shfl_xor_sync(0xffffffffu, sums[e], lanes);", quad));
  t_.add("total += other;");
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) sums[e] += others[e];", quad));
  t_.close();
  t_.add(fmt::format("if (lane >= {}) continue;", quad));
  t_.add("const float sum = lane == 0 ? sums[0] : lane == 1 ? sums[1] : lane == 2 ? sums[2] : sums[3];");
  count_of_row();
  t_.add(fmt::format("const float leaf = total != 0 ? sum / total : count <= 0 ? 0.0f : {};",
                     k_.contraction->masked_rows_are_zero ? "0.0f" : "NAN"));
  t_.add(fmt::format("{}_at({}, batch, row, column + lane, &leaf);", name_, parameter_names(k_)));
  t_.close();
  t_.close();
}

std::string print_attention(const Kernel& kernel, const facts::StreamAttention& attention, const Dialect& dialect,
                            const std::string& name) {
  return StreamAttentionText(kernel, attention, dialect, name).run();
}

}  // namespace npusim::cuda::codegen::stream::attention
