// The numbers for which the text of a method is printed (stream/text.cpp), here those of one method: they are not
// embedded, and are there to read and to compile the other files alone.
#pragma once

enum {
  slot_depth = 1536,  // elements of each of a tile's eight lines that a slot of the ring holds
  slot_bytes = 24576,
  requests_at_once = 6,   // of half a slot, under way
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
  turn_pieces = 3,
};
