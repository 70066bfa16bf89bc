// Attentions in a method that is one launch, printed and executed on the CPU, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cuda/stream_chain.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

// Several batches and rows, masks, columns that are no power of two, more keys than a chunk.
TEST(CudaStream, Attention) {
  AttentionCase one, group, rows, hidden;
  one.type = DType::bf16, one.queries = 1, one.keys = 200, one.depth = one.columns = 64;
  group.type = DType::f16, group.queries = 1, group.group = 7, group.keys = 33, group.depth = 24, group.columns = 64;
  rows.type = DType::bf16, rows.batch = 2, rows.queries = 4, rows.group = 3, rows.keys = 96, rows.safe = true;
  rows.depth = 128, rows.columns = 96;
  hidden.type = DType::bf16, hidden.queries = 1, hidden.kv_heads = 44, hidden.keys = 320;
  hidden.depth = hidden.columns = 32;
  for (const AttentionCase& c : {one, group, rows, hidden}) {
    SCOPED_TRACE(c.keys);
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) {
      // More chunks than splits: most of them have no key that the mask shows.
      if (c.keys == hidden.keys)
        return leaf * 0.3 + select(mask > 0.96, mask, -std::numeric_limits<double>::infinity());
      const Ex value = leaf * 0.3 + mask;
      return c.safe ? select(mask > 0.0, value, -std::numeric_limits<double>::infinity()) : value;
    };
    const int64_t width = c.kv_heads * c.group * c.columns, tokens = c.batch * c.queries;
    Chain chain;
    chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "mixed"});
    chain.add(linear(tokens, 40, width, c.type, c.type, c.type, plain), {"mixed", "w", "wb", "x_r", "y"});
    chain.check(0.01);
  }
}

// More chunks of keys to a split than an inspection of a warp finds at once: some splits have several that the mask
// shows, next to each other and far apart, others one or none. Queries come from other blocks. By threads, by tensor
// cores, and where each warp has keys of its own.
TEST(CudaStream, AttentionOfManyKeys) {
  AttentionCase threads, tiles, warps, many;
  threads.depth = 24, tiles.depth = 32, threads.columns = tiles.columns = 32;
  warps.depth = warps.columns = 64, warps.group = 2;
  many.type = DType::f16, many.depth = 32, many.columns = 128, many.group = 8, many.kv_heads = 44;
  for (AttentionCase c : {threads, tiles, warps, many}) {
    SCOPED_TRACE(fmt::format("{} {}", c.depth, c.columns));
    const bool wide = c.columns > 32;
    if (c.kv_heads != many.kv_heads) c.type = DType::bf16, c.kv_heads = 66;
    c.queries = 1, c.keys = 70 * 32 - 5;
    std::map<std::string, std::map<size_t, double>> given;
    for (const size_t key : {3, 70, 71, 130, 200, 260, 330, 1100, 2200, 2234, 40}) given["x_mask"][key] = 3;
    // Of these splits' chunks all are shown.
    for (size_t key = 0; wide && key < 2235; ++key)
      if (key / 32 % 2 == 0) given["x_mask"][key] = 3;
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) {
      return leaf * 0.3 + select(mask > 2, mask, -std::numeric_limits<double>::infinity());
    };
    const int64_t heads = c.kv_heads * c.group;
    Chain chain;
    chain.add(linear(1, heads * c.depth, 64, c.type, c.type, c.type, plain), {"x", "w1", "wb1", "x_r", "q"});
    chain.add(attention(c, DType::f32, score), {"q", "x_k", "x_v", "x_mask", "mixed"});
    chain.add(linear(1, 40, heads * c.columns, c.type, c.type, c.type, plain), {"mixed", "w2", "wb2", "x_s", "y"});
    chain.check(0.01, given);
  }
}

// Of devices with few multiprocessors and with many: as many blocks at most, and splits of the keys.
TEST(CudaStream, BlocksOfAnyMachine) {
  for (const int units : {3, 148, 1024}) {
    SCOPED_TRACE(units);
    AttentionCase c;
    c.type = DType::bf16, c.kv_heads = 2, c.group = 2, c.queries = 1, c.keys = 70 * 32 - 5, c.depth = c.columns = 64;
    const auto score = [](KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.3 + mask; };
    const int64_t width = c.kv_heads * c.group * c.depth;
    Chain chain;
    chain.device.units = units;
    chain.add(linear(1, width, 64, c.type, c.type, c.type, plain), {"x", "w1", "wb1", "x_r", "q"});
    chain.add(attention(c, DType::f32, score), {"q", "x_k", "x_v", "x_mask", "mixed"});
    chain.add(linear(1, 2100, width, c.type, c.type, c.type, plain), {"mixed", "w2", "wb2", "x_s", "y"});
    Launch launch;
    chain.text_of(launch);
    EXPECT_EQ(launch.grid[0], static_cast<uint32_t>(units));
    chain.check(0.01);
  }
}

// Each warp has keys of its own, no mask says which are hidden, and infinite values stay infinite.
TEST(CudaStream, AttentionOfAllKeys) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::bf16, DType::f16})
    for (const int64_t more : {9, 0}) {  // keys behind whole chunks, which do not come through the ring
      SCOPED_TRACE(more);
      AttentionCase c;
      c.type = type, c.queries = 1, c.kv_heads = 22, c.group = 5, c.keys = 32 * 22 + more, c.depth = c.columns = 64;
      std::map<std::string, std::map<size_t, double>> given;
      given["x_v"][static_cast<size_t>(100 * c.columns + 3)] = infinity;
      given["x_v"][static_cast<size_t>(701 * c.columns + 9)] = -infinity;
      const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.3 + mask; };
      Chain chain;
      chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "y_mixed"});
      chain.add(linear(1, 40, 64, type, type, type, plain), {"x", "w", "wb", "x_r", "y"});
      Launch launch;
      EXPECT_EQ(chain.text_of(launch).find("_ring_parts(") == std::string::npos, more > 0);
      chain.check(0.01, given);
    }
}

// A row of each head, of a value of this step, or some of its elements, at a position in all keys or values [keys,
// heads, size].
Kernel put_row(int64_t keys, int64_t heads, int64_t size, DType type, int64_t some, bool norm) {
  KernelBuilder b({heads, some}, norm);
  const TensorType all{type, {keys, heads, size}};
  const int row = b.input({type, {1, heads * size}}), at = b.input({DType::i64, {1}}), old = b.input(all);
  const int out = b.output(all, old);
  const Ex position = b.load(at, std::vector<Coord>{Coord(int64_t{0})});
  const std::vector<Coord> from{Coord(int64_t{0}), Coord(b.dim(0) * size + b.dim(1))};
  const Ex value = b.load(row, from);
  b.store(out, std::vector<Coord>{Coord(position), Coord(b.dim(0)), Coord(b.dim(1))},
          norm ? normed(b, value, some) : value * 0.75);
  return b.finish("put_row");
}
// The next position, or another one by what blocks exchange.
Kernel next_position(int64_t width, DType type) {
  KernelBuilder b({1});
  const int at = b.input({DType::i64, {1}}), row = b.input({type, {1, width}}), next = b.output({DType::i64, {1}});
  const std::vector<Coord> last{Coord(int64_t{0}), Coord(width - 1)};
  b.store_flat(next, b.select(b.load(row, last) > 1000.0, b.integer(0), b.load_flat(at) + b.integer(1)));
  return b.finish("next_position");
}

struct KeysCase {
  AttentionCase attention;
  bool own_position = false;     // the method makes it
  bool counted = false;          // in place of a mask the number of keys is given
  bool given_rows = false;       // it makes neither these nor queries: then an inspection is in the same text
  bool value_elsewhere = false;  // somebody else reads values
  bool in_part = false;          // rows are written in part
  bool norms = false;            // heads of queries and keys are divided by their size
  Chain chain() const {
    const AttentionCase& c = attention;
    Chain chain;
    // Weights are small, and so are queries and keys: what a key is must be seen.
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return leaf * (norms ? 1 : 60) + mask; };
    const auto made = [&](const std::string& name, int64_t width) {
      if (given_rows) return "x_" + name;
      chain.add(linear(1, width, 64, c.type, c.type, c.type, plain), {"x", "w" + name, "wb" + name, "x_r", name});
      return name;
    };
    const std::string k = made("k", c.kv_heads * c.depth), v = made("v", c.kv_heads * c.columns),
                      made_q = made("q", c.kv_heads * c.group * c.depth), q = norms ? "normed" : made_q;
    if (norms) chain.add(normed_heads(c.kv_heads * c.group, c.depth, c.type), {made_q, q});
    if (own_position) chain.add(next_position(c.kv_heads * c.depth, c.type), {"x_at", k, "at"});
    const std::string at = own_position ? "at" : "x_at";
    const auto some = [&](int64_t size) { return in_part ? size / 2 : size; };
    chain.add(put_row(c.keys, c.kv_heads, c.depth, c.type, some(c.depth), norms), {k, at, "s_k", "s_k"});
    chain.add(put_row(c.keys, c.kv_heads, c.columns, c.type, some(c.columns), false), {v, at, "s_v", "s_v"});
    if (counted)
      chain.add(counted_attention(), {q, "s_k", "s_v", "x_count", "mixed"});
    else
      chain.add(npusim::attention(c, DType::f32, score), {q, "s_k", "s_v", "x_mask", "mixed"});
    // Large enough to be normal numbers of float16.
    const auto larger = [](KernelBuilder&, Ex leaf, Ex, Ex) { return leaf * 1000; };
    chain.add(linear(1, 40, c.kv_heads * c.group * c.columns, c.type, c.type, c.type, larger),
              {"mixed", "w2", "wb2", "x_s", "y"});
    if (value_elsewhere) chain.add(linear(1, 16, 64, c.type, c.type, c.type, plain), {"s_v", "w3", "wb3", "x_t", "y2"});
    return chain;
  }
  Kernel counted_attention() const {
    int32_t count = -1;
    Kernel k = npusim::attention(attention, DType::i64, [&](KernelBuilder& b, Ex leaf, Ex) {
      const Coord first(int64_t{0});
      count = b.load(3, std::vector<Coord>{first, first, first}).id;
      return leaf * 60;
    });
    auto contraction = std::make_shared<Contraction>(*k.contraction);
    auto score = std::make_shared<Score>(*contraction->score);
    score->keys = count;
    contraction->score = std::move(score);
    k.contraction = std::move(contraction);
    return k;
  }
};

struct KeysOfThisStep : testing::TestWithParam<const char*> {
  static KeysCase make(const std::string& name) {
    KeysCase made;
    AttentionCase& a = made.attention;
    const bool several = name == "several" || name == "given_rows" || name == "counted_several";
    a.queries = 1, a.kv_heads = 2, a.group = name == "norms" ? 7 : 3, a.keys = 96, a.depth = 64, a.columns = 64;
    a.type = several || name == "wide" ? DType::f16 : DType::bf16;
    if (several) a.kv_heads = 44, a.keys = 32 * 3 * 6;
    if (name == "wide") a.kv_heads = 66, a.keys = 32 * 2 * 3, a.columns = 128;
    made.given_rows = name == "given_rows", made.norms = name == "norms";
    made.counted = name == "counted" || name == "counted_several";
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(CudaStream, KeysOfThisStep,
                         testing::Values("one", "several", "wide", "given_rows", "counted", "counted_several", "norms"),
                         [](const auto& info) { return std::string(info.param); });

// Keys and values come through the ring, in one chunk of each split and in several, of which a mask hides some, leaves
// some as they are, and takes some apart; this step's row is taken from where it was made, and stands among the others
// afterwards, also where it is hidden.
TEST_P(KeysOfThisStep, AreTakenFromWhereTheyWereMade) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::string name = GetParam();
  const KeysCase c = make(name);
  const AttentionCase& a = c.attention;
  const Chain chain = c.chain();
  Launch launch;
  const std::string text = chain.text_of(launch);
  EXPECT_NE(text.find("_ring_parts("), std::string::npos);
  // Rows of one batch for each block: a row of keys, one of values, and of norms the queries.
  EXPECT_EQ(count_of(text, "const uint2 range = threads_of_batch("), c.norms ? 3 : 2);
  std::vector<Chain::Given> all;
  for (const int64_t position : {int64_t{0}, int64_t{45}, a.keys - 1}) {
    Chain::Given& given = all.emplace_back();
    given["x_at"][0] = static_cast<double>(position);
    given["x_count"][0] = static_cast<double>(position + 1);
    // Behind the last key there is what must not be read.
    for (int64_t key = position + 1; c.counted && key < std::min(position + 41, a.keys); ++key)
      for (int64_t e = 0; e < a.kv_heads * a.depth; ++e)
        for (const char* state : {"s_k", "s_v"})
          given[state][static_cast<size_t>(key * a.kv_heads * a.depth + e)] = NAN;
    for (int64_t key = 0; key < a.keys; ++key) {
      const int64_t chunk = key / 32;
      given["x_mask"][static_cast<size_t>(key)] = chunk == 1 || (chunk % 7 == 5 && name != "one") ? -infinity
                                                  : chunk % 3 == 0                                ? 0
                                                  : key % 4 == 1                                  ? -infinity
                                                                                                  : 0.5;
    }
  }
  // Of 132 blocks each has one part of the keys, and the rows of its own.
  const bool by_all = name == "several" || name == "counted_several";
  chain.check_each(0.01, all, cuda::codegen::stream::stream_candidates().first(1),
                   a.keys == 96 ? std::vector<unsigned>{1, 3, 7}
                   : by_all     ? std::vector<unsigned>{3, 132}
                                : std::vector<unsigned>{3});
  Chain::Given outside;
  outside["x_at"][0] = static_cast<double>(a.keys);
  Memory memory = chain.memory_of(outside);
  Stream stream(launch, text, 3);
  EXPECT_NE(stream.run(memory, mslx::Order::forward), "");
}

// Of several rounds of chunks: where pieces have three halves chunks stand in two of them, and the last one has fewer;
// with all chunks shown, and with some hidden in rounds before whole ones. Of more than 32 chunks most are hidden.
// Beside a product of deep rows the ring has few slots.
TEST(CudaStream, KeysOfManyChunks) {
  struct Case {
    int64_t chunks, depth, columns, halves;  // chunks of each of two splits, halves of a piece
    int64_t deep = 0;
  };
  for (const Case& each : {Case{14, 128, 128, 3}, {38, 64, 64, 6}, {5, 64, 128, 4}, {9, 128, 128, 3, 46080}}) {
    SCOPED_TRACE(each.chunks);
    KeysCase c;
    AttentionCase& a = c.attention;
    a.type = DType::bf16, a.kv_heads = 66, a.keys = 32 * 2 * each.chunks, a.queries = 1, a.group = 2;
    a.depth = each.depth, a.columns = each.columns;
    Chain chain = c.chain();
    if (each.deep > 0)
      chain.add(linear(1, 16, each.deep, a.type, a.type, a.type, plain), {"x_deep", "w3", "wb3", "x_t", "y2"});
    Launch launch;
    const std::string text = chain.text_of(launch);
    EXPECT_NE(text.find(fmt::format("piece_halves = {},", each.halves)), std::string::npos);
    EXPECT_EQ(count_of(text, " slots = 3,"), each.deep > 0 ? 1 : 0);  // of the ring
    std::vector<Chain::Given> all(each.chunks == 14 ? 2 : 1);
    all.back()["x_at"][0] = 64 * 3 + 5, all.front()["x_at"][0] = static_cast<double>(a.keys - 1);
    for (int64_t key = 0; key < a.keys; ++key) {
      const int64_t chunk = key / 64;
      const bool hidden = each.chunks == 38 ? chunk % 8 > 0 && chunk < 31 : chunk == 1 || chunk == 2 || chunk == 13;
      all.front()["x_mask"][static_cast<size_t>(key)] = 0;
      all.back()["x_mask"][static_cast<size_t>(key)] = hidden       ? -std::numeric_limits<double>::infinity()
                                                       : chunk == 7 ? 0.5
                                                                    : 0;
    }
    chain.check_each(0.01, all, cuda::codegen::stream::stream_candidates().first(1), {132});
  }
}

// A position that the method makes is not known when the ring is filled; values that somebody else reads are written
// where they belong, and so is what is no whole row.
TEST(CudaStream, KeysThatAreNotGiven) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    KeysCase c;
    c.own_position = which == 0, c.value_elsewhere = which == 1, c.in_part = which == 2;
    AttentionCase& a = c.attention;
    a.type = DType::bf16, a.kv_heads = 1, a.keys = 64, a.queries = 1, a.group = 3, a.depth = a.columns = 64;
    const Chain chain = c.chain();
    Launch launch;
    const std::string text = chain.text_of(launch);
    EXPECT_EQ(text.find("_ring_parts("), std::string::npos);
    // The position would be read before it is there.
    EXPECT_EQ(text.find("has_key(*") == std::string::npos, c.own_position);
    Chain::Given given;
    given["x_at"][0] = 40;
    chain.check(0.01, given, cuda::codegen::stream::stream_candidates().first(1), {1, 3, 33});
  }
}

// Of one key and of several, whose weights are exact numbers and others: infinity times a weight is infinity, and times
// that of a hidden key it is no number.
TEST(CudaStream, InfiniteValues) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::f16, DType::bf16})
    for (const bool one : {false, true}) {
      AttentionCase c;
      c.type = type, c.kv_heads = 1, c.group = 3, c.queries = 1, c.depth = c.columns = 32;
      std::map<std::string, std::map<size_t, double>> given;
      for (int64_t key = 0; key < c.keys; ++key)
        given["x_mask"][static_cast<size_t>(key)] = key == 5 || (!one && key % 3 == 0) ? 1 : 0;
      const auto value = [&](int64_t key, int64_t column) -> double& {
        return given["x_v"][static_cast<size_t>(key * c.columns + column)];
      };
      value(5, 0) = infinity, value(5, 1) = -infinity, value(5, 9) = 60000;
      value(5, 2) = infinity, value(36, 2) = one ? 3 : -infinity;
      value(4, 3) = infinity;
      const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return select(mask > 0.5, leaf, -infinity); };
      Chain chain;
      chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "y_mixed"});
      chain.add(linear(1, 40, 64, type, type, type, plain), {"x", "w", "wb", "x_r", "y"});
      chain.check(0.01, given);
    }
}

}  // namespace
}  // namespace npusim
