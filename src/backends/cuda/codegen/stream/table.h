// The table of a stream: what differs between equal pieces of text, and what the producer requests, in order.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backends/cuda/codegen/stream/plan.h"

namespace npusim::cuda::codegen::stream {

inline constexpr int64_t stream_alignment = 256;    // of a value: no two share a line of a cache
inline constexpr int64_t own_from = 1 << 18;        // locations from here on are in the launch's memory
inline constexpr int64_t plain_from = -(1 << 20);   // down from here they are numbers
inline constexpr int64_t share_from = 1 << 28;      // from here on what is a block's of so many units: two numbers
inline constexpr int64_t slices_from = -(1 << 30);  // down from here numbers of `slices`: which words of all it needs
inline constexpr int64_t slice_numbers = 5;         // of each
inline constexpr int64_t words_from = 1 << 30;      // from here on what it publishes: words of a block, and of all
inline constexpr int64_t word_payload = 12;         // bytes of a value in a word that is exchanged
inline constexpr int64_t most_prefetched = 512;     // bytes that come with a row of the table
inline constexpr int64_t keys_of_kind = -2;         // instead of how many lines
inline constexpr int stage_waits = 1 << 15;         // in the entry of a piece of text: it waits for all blocks

inline int64_t aligned(int64_t bytes) { return (bytes + stream_alignment - 1) / stream_alignment * stream_alignment; }

// What the producer must know of an attention's keys and values: in bytes where the first one is, and how far apart
// batches and rows are.
struct KeyKind {
  int64_t batches = 0, splits = 0, keys = 0;
  int64_t inspected_chunks = 0, seen = 0;  // of a split, and where it is kept which are shown
  int64_t key_offset = 0, key_batch = 0, key_apart = 0;
  int64_t value_offset = 0, value_batch = 0, value_apart = 0;
  bool operator==(const KeyKind&) const = default;
};

// Locations stand for pointers: from own_from on into the launch's memory, from 0 on into the block's, below -1 -
// position among `values`, from plain_from down for numbers, from share_from and words_from on for numbers of the
// block's own.
struct StreamTable {
  std::vector<int64_t> pointers;  // locations
  // Of each piece of text how many entries follow: the number of the text and stage_waits, then of each of its stages a
  // row.
  std::vector<int64_t> rows;
  // Of each piece of text how many values are prefetched with its row into the block's memory, then of each: its entry
  // in the row, where it goes, how many bytes, and of how many lines (0: it comes whole) those of the block alone.
  std::vector<int64_t> prefetched;
  int64_t row_count = 0, longest_row = 0, prefetched_bytes = 0;
  // Threes of a location, a shape and another location, in the order in which products, attentions and rows need them.
  std::vector<int64_t> matrices;
  // Lines of so many elements from a byte on; no lines: so many bytes; keys_of_kind: keys, of this kind, whose values
  // are at the other location.
  std::map<std::array<int64_t, 3>, int> shapes;
  std::vector<KeyKind> key_kinds;
  // Twos of the location of a counter and whether some blocks may be late, in the order in which they are waited for.
  std::vector<int64_t> counters;
  std::vector<int32_t> values;  // what is given
  std::vector<int> first_trap;  // by step: its traps have the numbers behind this one; -1: it has none
  int trap_count = 0;
  // Of what a block needs the words of one batch alone: units, their width, elements of a word, batches, splits of
  // each.
  std::vector<int64_t> slices;
  int64_t own_bytes = stream_alignment;  // of the launch's memory, behind the counter of meetings
};

// What the stage makes and publishes: the argument that it is.
std::optional<size_t> published(const WholeMethod& method, const StreamPlan& plan, const StreamStage& stage);

// Of an exchange the value whose counter is waited for before any words are read: with a word for each thread all poll
// at once, with more they would delay what they wait for.
std::optional<size_t> counter_of(const StreamPlan& plan, const StreamStage& exchange);

class TableWriter {
 public:
  TableWriter(const WholeMethod& method, const StreamPlan& plan);
  // The piece of text with this number, of these stages. The row of a stage: its first trap, its pointers (of an gather
  // in pairs; of an exchange those and its words; of an attention and a merge then those of its parts), what lines or
  // columns are the block's, and of what it publishes the location of its words, its elements and its words.
  void add(int text, std::span<const StreamStage> chain);
  StreamTable table;

 private:
  void add(const StreamStage& stage);
  void put_share(int64_t units, int64_t width);
  void put_published(int32_t value);
  void put_words(int32_t value);
  void put_slice(int32_t value);
  void prefetch(const StreamStage& stage, size_t arg);
  void put(int pointer) { table.rows.push_back(table.pointers[static_cast<size_t>(pointer)]); }
  void put_number(int64_t number) { table.rows.push_back(plain_from - number); }
  int pointer(int32_t value, bool copied);
  int own_pointer(int64_t bytes);
  int exchange_pointer(int32_t value);
  int counter(int attention);
  void wait_for(int counter, bool some_late);
  void ask_for(int pointer, const std::array<int64_t, 3>& shape, std::optional<int> other = {});
  void ask_for_keys(size_t step);
  void ask_for_small(size_t step);

  const WholeMethod& m_;
  const StreamPlan& plan_;
  std::map<std::pair<int32_t, bool>, int> pointer_of_;
  std::map<int32_t, int> exchange_of_;
  std::map<int, int> counters_;
  std::vector<bool> written_;    // by value: by a stage up to the one whose row is written
  size_t row_ = 0;               // where the row that is written begins
  int64_t prefetched_here_ = 0;  // bytes that come with it
  int partial_pointers_[2];      // attentions alternate
  int merged_ = 0;
};

}  // namespace npusim::cuda::codegen::stream
