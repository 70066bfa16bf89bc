// An attention's parts where keys and values come through the ring. A piece is a chunk's keys and its values, each with
// a pad behind it, since rows of matrices are read there by eight keys at once; where the block has several chunks it
// is halves of them, as many as a slot has room for, keys before values.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/attention/text.h"
#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream::attention {
namespace {

constexpr int64_t chunk = facts::StreamAttention::chunk, unit = facts::StreamAttention::unit,
                  own_keys = facts::StreamAttention::own_keys, at_once = facts::StreamAttention::at_once;

}  // namespace

// This step's rows of keys and values, and their positions: a piece has what stood there before.
void StreamAttentionText::find_rows() {
  const auto row = [&](const facts::StepRow& r, const char* name, const Axis& along) {
    if (r.argument < 0) return;
    t_.add(fmt::format("const long long {0}_number = *{1};", name, add(r.position)));
    t_.add(fmt::format("const int {0}_position = {0}_number >= 0 && {0}_number < {1} ? (int){0}_number : -1;", name,
                       x_.keys.size()));
    t_.add(
        fmt::format("const char* const {}_row = (const char*)({} + batch * {});", name, add(r.argument), along.size()));
  };
  row(a_.ring->key_row, "key", x_.depth);
  row(a_.ring->value_row, "value", x_.columns);
}

// What a mask adds to the lane's scores of the split's chunk `which`, as those have them that read one or several.
void StreamAttentionText::read_masks(bool several, const Term& which) {
  if (masks() == 0) return;
  t_.open("");
  t_.add("// Without branches around the reads, what is read is waited for where it is used.");
  t_.add(fmt::format("const int end = {:+} < chunks.count{} ? most : 0;", which,
                     a_.inspected_chunks > 0 ? fmt::format(" && chunks.seen[{}] != chunk_open", which.text) : ""));
  if (several) {
    t_.add(fmt::format("const int from = {:+} + warp % 2 * {};", from_of(which), own_keys));
    read_own_masks();
  } else {
    t_.add(fmt::format("const int key = {:+} + warp % 4 * 8 + lane / 4;", from_of(which)));
    read_masks_of_chunk("end");
  }
  t_.close();
}

// Before anything is waited for: whether the block has several chunks, and the masks of the first one.
void StreamAttentionText::begin_ring() {
  open_function("begin",
                fmt::format("bool& many, float* masks{}", a_.inspected_chunks > 0 ? ", const char* seen" : ""));
  if (a_.by_warps)
    t_.add(fmt::format("many = has_several(Keys{{{}, {}, {}, {}, {}}});", a_.inspected_chunks > 0 ? "seen" : "nullptr",
                       a_.inspected_chunks, x_.batch.size(), a_.splits, x_.keys.size()));
  if (masks() > 0) {
    open_items();
    most_keys(false);
    const auto first = [&](bool several) {
      open_chunks("chunks", seen_by_item(), several ? fmt::format("warp / 2, {}", at_once) : "0, 1");
      t_.add("const int which = next_chunk(chunks);");
      read_masks(several, "which");
    };
    if (a_.by_warps) {
      t_.open("if (many)");
      first(true);
      t_.close();
      t_.open("else");
      first(false);
      t_.close();
    } else {
      first(false);
    }
    t_.add("break;");
    t_.close();
  }
  t_.close();
}

void StreamAttentionText::open_piece() {
  t_.add("const char* const piece = ring.slots + ring.slot * slot_bytes;");
  t_.add(fmt::format("const char* const values = piece + {};", a_.ring_values()));
  t_.add("mbarrier_wait(&ring.full[2 * ring.slot], ring.phase);");
}
void StreamAttentionText::close_piece() {
  t_.add("__syncwarp();");
  t_.add("if (lane == 0) mbarrier_arrive(&ring.empty[ring.slot]);");
  t_.add("advance(ring.slot, ring.phase, ring.count);");
}

// A lane's words of the key at this position of the chunk that begins with key `begin`. Lanes of odd keys take two
// units in swapped order, without bank conflicts.
void StreamAttentionText::read_ring_keys(const Term& words, const Term& position) {
  const int64_t bytes = x_.depth.size() * 2;
  t_.add(fmt::format("const char* line = piece + {:*} * {};", position, bytes));
  if (a_.ring->key_row.argument >= 0)
    t_.add(fmt::format("if (begin + {:+} == key_position) line = key_row;", position));
  t_.add("const int swapped = lane / 4 % 2 * 64;");
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int u = 0; u < {}; u += 2)", x_.depth.size() / unit));
  t_.add("const char* const two = line + u * 64 + lane % 4 * 16;");
  t_.add("const uint4 first = *(const uint4*)(two + swapped), second = *(const uint4*)(two + 64 - swapped);");
  t_.add(fmt::format("{0}[u] = one_of(swapped, second, first), {0}[u + 1] = one_of(swapped, first, second);", words));
  t_.close();
}

// The address of a value in the piece.
Term StreamAttentionText::value_line(const Term& position, int64_t pitch) {
  const Term in_piece = term("values + {:*} * {}", position, pitch);
  if (a_.ring->value_row.argument < 0) return in_piece;
  return term("begin + {:+} == value_position ? value_row : {:+}", position, in_piece);
}

// A lane's words of its four values: of each two lines lanes of odd pairs take the second one first, so that no more
// than two meet in a bank.
void StreamAttentionText::read_ring_values() {
  t_.add("const bool odd = lane % 2;");
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 4; ++i)");
  t_.add(fmt::format("const char* const line = {};",
                     value_line("i / 2 * 8 + lane % 4 * 2 + i % 2", x_.columns.size() * 2).text));
  for (int64_t n = 0; n < own_lines(); n += 2) {
    const Term one = term("line + {:*} * 2", own_column(n)), other = term("line + {:*} * 2", own_column(n + 1));
    if (n + 1 == own_lines()) {
      t_.add(fmt::format("value_words[i][{}] = *(const uint4*){};", n, one));
    } else {
      t_.open("");
      t_.add(fmt::format("const char *const one = {}, *const other = {};", one.text, other.text));
      t_.add("const uint4 first = *(const uint4*)(odd ? other : one), second = *(const uint4*)(odd ? one : other);");
      t_.add(fmt::format(
          "value_words[i][{}] = one_of(odd, second, first), value_words[i][{}] = one_of(odd, first, second);", n,
          n + 1));
      t_.close();
    }
  }
  if (a_.counted)
    t_.add(
        fmt::format("for (int n = 0; n < {}; ++n) if (from + i / 2 * 8 + lane % 4 * 2 + i % 2 >= most) "
                    "value_words[i][n] = uint4{{0, 0, 0, 0}};",
                    own_lines()));
  t_.close();
}

void StreamAttentionText::parts_of_one(const std::string& name) {
  open_parts(name);
  t_.add("float* const scores = (float*)scratch;");
  t_.add("bool later = false;");
  open_items();
  find_rows();
  most_keys(false);
  declare_sums();
  open_chunks("chunks", seen_by_item());
  t_.add("const int which = next_chunk(chunks);");
  if (masks() > 0) {
    t_.open("if (item != blockIdx.x)");
    read_masks(false, "which");
    t_.close();
  }
  t_.open("if (which < chunks.count)");
  t_.add(
      fmt::format("const int begin = {}, from = begin, key = from + warp % 4 * 8 + lane / 4;", from_of("which").text));
  open_piece();
  t_.add(fmt::format("uint4 key_words[{}];", x_.depth.size() / unit));
  t_.open("");
  read_ring_keys("key_words", "warp % 4 * 8 + lane / 4");
  t_.close();
  t_.add("if (later) meet_block();");
  t_.add("later = true;");
  multiply(a_.queries(k_), k_.args[static_cast<size_t>(a_.keys(k_).arg)].dtype);
  if (a_.counted) {  // values behind the last key are nothing
    const int64_t words = x_.columns.size() / word;
    t_.add(fmt::format("uint4* const nothing = (uint4*)(scratch + {});", a_.shared_bytes() - words * 16));
    t_.add(fmt::format("if (threadIdx.x < {}) nothing[threadIdx.x] = uint4{{0, 0, 0, 0}};", words));
  }
  t_.add(fmt::format("const char* const value_line = {}{};",
                     a_.counted ? "begin + lane >= most ? (const char*)nothing : " : "",
                     value_line("lane", a_.ring_pitch()).text));
  t_.add("mbarrier_wait(&ring.full[2 * ring.slot + 1], ring.phase);");
  t_.add("meet_block();");
  weigh(k_.args[static_cast<size_t>(k_.contraction->b.arg)].dtype);
  close_piece();
  t_.close();
  publish_tiles();
  t_.close();  // items
  t_.add("meet_block();");
  t_.close();
}

// Where the warp's half of its chunk stands, by its number among those of all chunks that are shown.
void StreamAttentionText::find_half() {
  t_.add("const int number = 2 * (before + __popc(of_round & (1 << pair) - 1)) + warp % 2;");
  t_.add("const int of_piece = number / piece_halves, position = number % piece_halves;");
  t_.add("const Ring mine = ahead(ring, of_piece);");
  t_.add("const char* const slot = mine.slots + mine.slot * slot_bytes;");
  t_.add("const char* const piece = slot + position * half_keys * key_bytes;");
  t_.add("const char* const values = slot + (piece_halves * key_bytes + position * value_bytes) * half_keys;");
}
// Warps that have one of a piece's halves count for all when they are done with it; the others never read it.
void StreamAttentionText::leave_half() {
  t_.add(fmt::format("constexpr int each = {} / piece_halves;", facts::stream_warps));
  t_.add("const int others = min(piece_halves, halves - of_piece * piece_halves) - 1;");
  t_.add("__syncwarp();");
  t_.add(fmt::format(
      "if (lane == 0) mbarrier_arrive_times(&mine.empty[mine.slot], position == 0 ? {} - others * each : each);",
      facts::stream_warps));
}

// A function of its own, which returns how many pieces it took: it is long, and where it is not called the text before
// and behind it does not share the cache of instructions with it.
void StreamAttentionText::parts_of_several(const std::string& name) {
  const DType dtype = k_.args[static_cast<size_t>(a_.keys(k_).arg)].dtype;
  const DType value_type = k_.args[static_cast<size_t>(k_.contraction->b.arg)].dtype;
  static_assert(facts::ring_masks == 4);
  open_function(name,
                fmt::format("Ring ring, const float4 given, const unsigned epoch, char* scratch, char* partial{}",
                            a_.inspected_chunks > 0 ? ", const char* seen" : ""),
                "__device__ __noinline__ int");
  if (masks() > 0) t_.add("float masks[4] = {given.x, given.y, given.z, given.w};");
  t_.add("int gone = 0;");
  open_own();
  find_rows();
  most_keys(false);
  open_chunks("chunks", seen_by_item(), fmt::format("warp / 2, {}", at_once));
  t_.add("int which = next_chunk(chunks);");
  if (masks() > 0) {
    t_.open("if (item != blockIdx.x)");
    read_masks(true, "which");
    t_.close();
  }
  begin_own();
  t_.add("// Of a round of chunks each pair of warps has one, and each warp a half.");
  open_chunks("all", seen_by_item());
  t_.add("const int pair = warp / 2, halves = 2 * count_shown(all);");
  t_.add("unsigned shown = 0;");
  t_.add("int before = 0;");
  t_.add("#pragma unroll 1");
  t_.open(fmt::format("for (int first = 0; first < all.count; first += {})", at_once));
  t_.add("if (first % 32 == 0) shown = shown_of(all, first + lane);");
  t_.add(fmt::format("const unsigned of_round = shown >> first % 32 & {};", (1 << at_once) - 1));
  t_.open("if (of_round >> pair & 1)");
  t_.add(fmt::format("const int from = {:+} + warp % 2 * half_keys, begin = from;", from_of("first + pair")));
  t_.add("some = true;");
  find_half();
  t_.add("mbarrier_wait(&mine.full[2 * mine.slot], mine.phase);");
  t_.add(fmt::format("uint4 key_words[2][{}], value_words[4][{}];", x_.depth.size() / unit, own_lines()));
  t_.add("#pragma unroll");
  t_.open("for (int half = 0; half < 2; ++half)");
  read_ring_keys("key_words[half]", "half * 8 + lane / 4");
  t_.close();
  t_.add("mbarrier_wait(&mine.full[2 * mine.slot + 1], mine.phase);");
  read_ring_values();
  score_own(dtype);
  t_.add("which = next_chunk(chunks);");
  read_masks(true, "which");
  weigh_own(value_type);
  leave_half();
  sum_own(value_type);
  t_.close();
  t_.add("before += __popc(of_round);");
  t_.add(
      "// A wait for a piece is over too early if the one before in its slot has not come. A warp knows that all have");
  t_.add("// but those that were in flight when its own one was asked for; of the others the block meets.");
  t_.add("constexpr int in_flight = (requests_at_once + 1) / 2;");
  t_.add(fmt::format("if (__popc(of_round) != {} || ring.count < round_pieces + in_flight) meet_block();", at_once));
  t_.close();  // rounds
  t_.add("const int pieces = (halves + piece_halves - 1) / piece_halves;");
  t_.add("ring = ahead(ring, pieces), gone += pieces;");
  publish_own();
  t_.close();  // items
  t_.add("meet_block();");
  t_.add("return gone;");
  t_.close();
}

// Rows of this step go where they belong, by the block that has that key; a position that is none traps elsewhere.
void StreamAttentionText::keep_rows() {
  if (a_.ring->key_row.argument < 0 && a_.ring->value_row.argument < 0) return;
  open_function("keep", "");
  open_items();
  find_rows();
  const auto keep = [&](const facts::StepRow& row, const char* name, const Access& to, const Axis& keys,
                        const Axis& along) {
    if (row.argument < 0) return;
    t_.open(fmt::format("if ({0}_position >= 0 && {0}_position / {1} % {2} == split)", name, chunk, a_.splits));
    t_.add(fmt::format("const int key = {}_position;", name));
    take_apart(t_, "key", keys, "n");
    t_.open(fmt::format("for (int at = threadIdx.x * {0}; at < {1}; at += {0} * {2})", word, along.size(),
                        facts::stream_threads));
    take_apart(t_, "at", along, "k");
    t_.add(fmt::format("*(uint4*)&{} = *(const uint4*)({}_row + at * 2);", at(to, keys, "n", along, "k"), name));
    t_.close();
    t_.close();
  };
  keep(a_.ring->key_row, "key", a_.keys(k_), x_.keys, x_.depth);
  keep(a_.ring->value_row, "value", k_.contraction->b, x_.value_keys, x_.columns);
  t_.close();
  t_.close();
}

}  // namespace npusim::cuda::codegen::stream::attention
