// A persistent launch that is a whole method. Four producer warps: one requests copies, one lists them, one resolves
// the table's rows, a piece of text ahead, and one polls counters. The consumer warps go through the pieces, in text
// that stream/entry.cpp prints.
#pragma once
#include "backends/cuda/codegen/device/constants.cuh"
#include "backends/cuda/codegen/device/producer.cuh"
#include "backends/cuda/codegen/device/wgmma.cuh"

// ---- entry

struct Given {
  void* at[given_count];
};
// A block's memory, in the order of stream/entry.h, and its barriers: of the ring, a number, of rows of the table, of
// lists, of counters, and one behind inspections.
struct Block {
  const Given* given;
  char *own, *shared;  // its memory, and what the launch has of its own
  unsigned long long *rows, *full, *number, *row_full, *row_empty, *counter_seen, *inspected, *slices;
  unsigned reciprocal;
};
__device__ __forceinline__ Block begin_block(const Given& given, uint4* memory) {
  Block b;
  b.given = &given, b.own = (char*)memory, b.shared = (char*)given.at[given_count - 1];
  b.rows = (unsigned long long*)(b.own + at_rows), b.full = (unsigned long long*)(b.own + at_barriers);
  b.number = b.full + 3 * most_slots, b.row_full = b.number + 1, b.row_empty = b.row_full + rows_kept;
  b.counter_seen = b.row_empty + rows_kept + 2 * list_count, b.inspected = b.counter_seen + 2 * counters_kept;
  b.slices = (unsigned long long*)(b.own + at_slices);
  b.reciprocal = gridDim.x == 1 ? 0 : 0xffffffff / gridDim.x + 1;
  if (threadIdx.x < 3 * slots) mbarrier_start(&b.full[threadIdx.x], threadIdx.x < 2 * slots ? 1 : stream_warps);
  if (threadIdx.x < 2 * rows_kept) mbarrier_start(&b.row_full[threadIdx.x], threadIdx.x < rows_kept ? 1 : stream_warps);
  if (threadIdx.x < 2 * list_count) mbarrier_start(&b.row_empty[rows_kept + threadIdx.x], 1);
  if (threadIdx.x < 2 * counters_kept)
    mbarrier_start(&b.counter_seen[threadIdx.x], threadIdx.x < counters_kept ? 1 : stream_warps);
  if (awaited_inspections > 0 && threadIdx.x == 0) mbarrier_start(b.inspected, awaited_inspections * stream_warps);
  __syncthreads();
  return b;
}
__device__ __forceinline__ Ring ring_of(const Block& b) {
  return {b.own, b.full, b.full + 2 * slots, slots, 0, 0, b.reciprocal};
}
__device__ __forceinline__ Counters counters_of(const Block& b) {
  return {b.counter_seen, b.counter_seen + counters_kept, counters_kept, 0, 0};
}

// What a location stands for, as stream/table.h has it.
__device__ __forceinline__ char* memory_at(const Block& b, const int location) {
  if (location < 0) return (char*)b.given->at[-1 - location];
  return location < own_from ? b.own + at_kept + location : b.shared + (location - own_from);
}
__device__ __forceinline__ unsigned long long found_at(const Block& b, const int location) {
  if (slice_count > 0 && location <= slices_from) return b.slices[slices_from - location];
  if (location <= plain_from) return (unsigned long long)(plain_from - location);
  if (location >= words_from)
    return words_of((location - words_from) / 16, location / 2 % 8, location % 2 ? 3 : 6, b.reciprocal);
  if (location >= share_from) return share_of((location - share_from) / 8, location % 8, b.reciprocal);
  return (unsigned long long)memory_at(b, location);
}

__device__ __forceinline__ void poll_counters(const Block& b) {
  if (counter_count == 0 || !is_elected()) return;
  Counters counters = counters_of(b);
  const unsigned long long epoch = launch_number(b.shared);
  int location = table_counters[0], late = table_counters[1];  // of the next one
#pragma unroll 1
  for (int n = 1; n <= counter_count; ++n) {
    const char* const counter = b.shared + (location - own_from);
    const unsigned some = late_one_in > 0 && late ? gridDim.x / max(late_one_in, 1) : 0;
    if (n < counter_count) location = table_counters[2 * n], late = table_counters[2 * n + 1];
    poll(counters, counter, epoch, some);
  }
}

// By a warp: pointers and numbers of each row of the table, and the values prefetched with it.
__device__ __forceinline__ void find_rows(const Block& b) {
  const int lane = threadIdx.x % 32;
  int slot = 0, i = 0, prefetched = 0;
  unsigned phase = 0;
  // How many entries and prefetched values the next row has: read while one row is resolved.
  int length = table_rows[0], count = table_prefetched[0];
#pragma unroll 1
  for (int n = 0; n < row_count; ++n) {
    const int entries = length, values = count, *const numbers = table_prefetched + prefetched + 1 + 4 * lane;
    unsigned long long* const row = b.rows + slot * longest_row;
    const int first = i + 1;
    i = first + entries, prefetched += 1 + 4 * values;
    mbarrier_wait(&b.row_empty[slot], phase ^ 1);
    for (int k = lane; k < entries; k += 32) {
      const int location = table_rows[first + k];  // of words: their memory is two entries before
      const unsigned long long value = row[k] = found_at(b, location);
      if (words_prefetched && location >= words_from)
        prefetch_words(memory_at(b, table_rows[first + k - 2]), (int)value);
    }
    if (n + 1 < row_count) length = table_rows[i], count = table_prefetched[prefetched];
    __syncwarp();
    const char* const from = lane < values ? memory_at(b, table_rows[first + numbers[0]]) : nullptr;
    copy_values(b.own + at_prefetched + slot * prefetched_bytes, row, numbers, from, values, b.reciprocal);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&b.row_full[slot]);
    advance(slot, phase, rows_kept);
    // The first row needs no slices, and must be there soon; those behind it need the same all the time.
    if (slice_count > 0 && n == 0) {
#pragma unroll 1
      for (int k = lane; k < slice_count; k += 32)
        b.slices[k] = words_of_batch(table_slices + slice_numbers * k, b.reciprocal);
      __syncwarp();
    }
  }
}

// Printed behind this: lines, elements of each and the first byte of a matrix of this shape, and an attention's keys.
__device__ __forceinline__ void take_shape(int shape, int& lines, int& depth, const char*& matrix);
__device__ __forceinline__ void list_kind(const Block& b, Lists& lists, int kind, const char* keys, const char* values);

// By a warp. A lane each has of the next ones, what of them is the block's; those behind them are read meanwhile.
__device__ __forceinline__ void list_all(const Block& b, Lists lists) {
  const int lane = threadIdx.x % 32;
  int location = 0, shape = 0, other = 0;
  const auto ask = [&](const int n) {
    if (n < matrix_count)
      location = table_matrices[3 * n], shape = table_matrices[3 * n + 1], other = table_matrices[3 * n + 2];
  };
  bool behind_keys = false;
  ask(lane);
#pragma unroll 1
  for (int first = 0; first < matrix_count; first += 32) {
    const char* mine = memory_at(b, location);
    int lines = 0, depth = 0;
    take_shape(shape, lines, depth, mine);
    if (lines > 0) {
      const int line = first_line(lines, blockIdx.x, b.reciprocal);
      lines = first_line(lines, blockIdx.x + 1, b.reciprocal) - line, mine += 2 * (long long)line * depth;
    } else if (lines == 0) {
      lines = -1;
    }
    const char* const values = lists_attentions ? memory_at(b, other) : nullptr;
    ask(first + 32 + lane);
#pragma unroll 1
    for (int n = 0; n < min(32, matrix_count - first); ++n) {
      const char* const matrix = (const char*)__shfl_sync(0xffffffffu, (unsigned long long)mine, n);
      const int some = __shfl_sync(0xffffffffu, lines, n), elements = __shfl_sync(0xffffffffu, depth, n);
      if (some >= 0) {
        list_pieces(lists, matrix, some, elements, behind_keys);
      } else if (some == -1) {
        for (int i = lane * 128; i < elements; i += 32 * 128) prefetch_l2(matrix + i);
      } else if (lists_attentions) {
        list_kind(b, lists, elements, matrix, (const char*)__shfl_sync(0xffffffffu, (unsigned long long)values, n));
        behind_keys = true;
      }
    }
  }
  end_lists(lists);
}

// By the producer warps, behind the consumers.
__device__ __forceinline__ void serve(const Block& b) {
  take_registers<producer_registers>();
  if (threadIdx.x >= stream_threads + 96) return poll_counters(b);
  const Lists lists = {(uint4*)(b.own + at_lists), b.row_empty + rows_kept, b.row_empty + rows_kept + list_count, 0, 0};
  if (threadIdx.x < stream_threads + 32) {
    if (is_elected()) produce(ring_of(b), lists);
    return;
  }
  if (threadIdx.x >= stream_threads + 64) return find_rows(b);
  list_all(b, lists);
}
