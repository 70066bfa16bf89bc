// The numbers for which the text of a method is printed (stream/text.cpp, stream/entry.cpp), here those of one method:
// they are not embedded, and are there to read and to compile the other files alone.
#pragma once

enum {
  slot_depth = 1536,  // elements of each of a tile's eight lines that a slot of the ring holds
  slot_bytes = 24576,
  requests_at_once = 6,   // of half a slot, in flight
  request_gap = 500,      // clocks between two of them
  gap_behind_keys = 700,  // the same behind an attention's keys
  list_length = 8,        // pieces of a list of what will be asked for
  list_count = 4,
  most_blocks = 132,
  weights_read_once = 1,  // the cache gives them up before all else
};
// Of keys and values that come through the ring; 0 bytes where none do.
enum {
  chunk_keys = 32,
  key_bytes = 256,
  key_apart = 256,
  value_bytes = 256,
  value_apart = 256,
  value_pad = 16,    // behind each row of values in a slot
  half_keys = 16,    // of half a chunk
  piece_halves = 3,  // halves of chunks that a piece has room for
  round_pieces = 3,
};

// Of the launch.
enum {
  stream_threads = 256,  // that compute; four warps behind them serve
  stream_warps = 8,
  producer_registers = 56,
  registers = 224,
  given_count = 40,  // pointers; the last one is to what the launch has of its own
  slots = 7,         // of the ring
  most_slots = 8,
  rows_kept = 2,            // of the table: of the piece of text that runs and of the next
  counters_kept = 2,        // that are seen before they are waited for
  awaited_inspections = 1,  // inspections that the lists wait for
};
// Of a block's memory, bytes from its begin.
enum {
  at_kept = 172032,
  at_scratch = 190000,
  at_rows = 200000,
  at_prefetched = 210000,
  at_slices = 215000,
  at_lists = 220000,
  at_barriers = 225000,
};
// Where locations of one kind begin (stream/table.h).
enum {
  own_from = 1 << 18,
  plain_from = -(1 << 20),
  share_from = 1 << 28,
  words_from = 1 << 30,
  slices_from = -(1 << 30),
};
// Of the table.
enum {
  row_count = 100,
  longest_row = 60,
  prefetched_bytes = 512,
  matrix_count = 200,
  counter_count = 30,
  slice_count = 2,
  slice_numbers = 5,
  late_one_in = 4,       // blocks, of which one may be late for some counters; 0: none
  words_prefetched = 1,  // what is published is prefetched to L2
  lists_attentions = 1,  // keys and values come through the ring
};
static __device__ const int table_rows[2] = {}, table_matrices[3] = {}, table_prefetched[2] = {}, table_slices[5] = {},
                            table_counters[2] = {};
