// The ring of pieces, the barrier of all blocks, and tensor cores on a piece: with it every method that is one launch
// begins. Written for slots of `slot_bytes` bytes; the numbers are those of stream/facts/product.h.
#pragma once
#include "backends/cuda/codegen/device/blocks.cuh"
#include "backends/cuda/codegen/device/constants.cuh"
#include "backends/cuda/codegen/device/mbarrier.cuh"
#include "backends/cuda/codegen/device/mma.cuh"

// ---- machine

// Pieces of matrices in the order of their use: `full`, two of each, when the one and the other half of its lines have
// come, `empty` when all warps are done with it.
struct Ring {
  char* slots;
  unsigned long long *full, *empty;
  int count, slot;
  unsigned phase;
  unsigned reciprocal;  // of the number of blocks
};

__device__ __forceinline__ void advance(int& slot, unsigned& phase, const int count) {
  if (++slot == count) slot = 0, phase ^= 1;
}
// So many pieces further on.
__device__ __forceinline__ Ring ahead(Ring r, const int pieces) {
  const int slot = r.slot + pieces, laps = slot / r.count;
  r.slot = slot - laps * r.count, r.phase ^= laps & 1;
  return r;
}

// What of so many units is a block's: as many as every other's, or one more. The reciprocal is 2^32 / blocks rounded
// up, and 0 for one block.
__device__ __forceinline__ int first_unit(const int units, const int block, const unsigned reciprocal) {
  const int each = reciprocal ? (int)((unsigned long long)(unsigned)units * reciprocal >> 32) : units;
  return block * each + min(block, units - each * (int)gridDim.x);
}
// Lines of a matrix go by twos where their number is even.
__device__ __forceinline__ int first_line(const int lines, const int block, const unsigned reciprocal) {
  return lines % 2 ? first_unit(lines, block, reciprocal) : 2 * first_unit(lines / 2, block, reciprocal);
}

// Numbers of this block's own that the table names: what it has of so many units, and in how many words it publishes
// them and all blocks theirs.
__device__ __forceinline__ unsigned long long two_numbers(const int one, const int other) {
  return (unsigned)one | (unsigned long long)(unsigned)other << 32;
}
__device__ __forceinline__ unsigned long long share_of(const int units, const int width, const unsigned reciprocal) {
  return two_numbers(width * first_unit(units, blockIdx.x, reciprocal),
                     width * first_unit(units, blockIdx.x + 1, reciprocal));
}
__device__ __forceinline__ unsigned long long words_of(const int units, const int width, const int each,
                                                       const unsigned reciprocal) {
  const int most = first_unit(units, 1, reciprocal);  // the first block has no fewer than another
  const int words = (most * width + each - 1) / each;
  return two_numbers(words, words * (int)gridDim.x);
}
// Where there are blocks for all splits of an attention, which of the words it needs that all blocks publish, those of
// its batch: bytes to the first, and how many. `slice`: units, their width, elements of a word, batches, splits of
// each.
__device__ __forceinline__ unsigned long long words_of_batch(const int* slice, const unsigned reciprocal) {
  const int units = slice[0], width = slice[1], each = slice[2], batches = slice[3], splits = slice[4];
  const int words = ((int)first_unit(units, 1, reciprocal) * width + each - 1) / each, blocks = gridDim.x;
  if (blocks < batches * splits) return two_numbers(0, words * blocks);
  const int batch = blockIdx.x / splits, some = units / batches;
  if (batch >= batches) return two_numbers(0, 0);
  const int least = units / blocks, more = units - least * blocks;  // blocks that have one more
  const auto block_of = [&](const int unit) {
    const int of_more = unit / (least + 1);
    return of_more < more ? of_more : more + (unit - more * (least + 1)) / max(least, 1);
  };
  const int first = block_of(batch * some), last = block_of((batch + 1) * some - 1);
  return two_numbers(first * words * 16, (last + 1 - first) * words);
}
// By a warp: copies the values that are prefetched with a row of the table to `home`, one for each of the first `count`
// lanes, whole or so many bytes of each of the block's lines. Each lane copies a word of 16 bytes, so that all are read
// at once.
__device__ __forceinline__ void copy_values(char* home, unsigned long long* row, const int* numbers, const char* from,
                                            const int count, const unsigned reciprocal) {
  const int lane = threadIdx.x % 32;
  int entry = 0, to = 0, first = 0, size = 0;
  if (lane < count) {
    const int each = numbers[2], lines = numbers[3];
    entry = numbers[0], to = numbers[1], size = each;
    if (lines) {
      first = first_line(lines, blockIdx.x, reciprocal), size = first_line(lines, blockIdx.x + 1, reciprocal) - first;
      if (size > lines / most_blocks + 2) first = size = 0;  // no room was made for so many
      first *= each, size *= each;
    }
    row[entry] = (unsigned long long)(size ? home + to - first : from);
  }
  const char* mine = nullptr;
  int some = 0;
#pragma unroll 1
  for (int n = 0; n < count; ++n) {
    const char* const begin = (const char*)__shfl_sync(0xffffffffu, (unsigned long long)(from + first), n);
    const int at = lane * 16 - __shfl_sync(0xffffffffu, to, n), bytes = __shfl_sync(0xffffffffu, size, n);
    if (at >= 0 && at < bytes) mine = begin + at, some = bytes - at;
  }
  unsigned short halves[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) halves[i] = 2 * i < some ? *(const unsigned short*)(mine + 2 * i) : 0;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (2 * i < some) *(unsigned short*)(home + lane * 16 + 2 * i) = halves[i];
}

// By a lane: prefetches to L2 the words that the block will publish, and the counter before all words. All weights have
// evicted them since the last launch; a poll for a word that is not in L2 waits for memory.
__device__ __forceinline__ void prefetch_words(const char* memory, const int words) {
  prefetch_l2(memory);
  const char* const mine = memory + 256 + blockIdx.x * words * 16;
  for (int at = 0; at < words * 16; at += 32) prefetch_l2(mine + at);
}

// Of the chunks of keys that a split of an attention has, those that a mask does not all hide: a byte says so of each,
// and whether it adds nothing to any of its scores; without bytes all. A warp has each `step`-th chunk from `first` on;
// from its chunk `at` on they are not inspected yet.
enum { chunk_shown = 1, chunk_open = 2 };
struct Chunks {
  const char* seen;
  int count, first, step, at;
  unsigned some;
};
// By whole warps: of 32 chunks, a lane each, which are shown.
__device__ __forceinline__ unsigned shown_of(const Chunks& c, const int n) {
  return __ballot_sync(0xffffffffu, n < c.count && (!c.seen || c.seen[n]));
}
// By whole warps: the next one's number, `count` behind the last.
__device__ __forceinline__ int next_chunk(Chunks& c) {
  while (c.some == 0) {
    if (c.first + c.at * c.step >= c.count) return c.count;
    c.some = shown_of(c, c.first + (c.at + (int)threadIdx.x % 32) * c.step);
    c.at += 32;
  }
  const int n = c.first + (c.at - 33 + __ffs(c.some)) * c.step;
  c.some &= c.some - 1;
  return n;
}

// Those of a split: chunks go to splits round-robin.
__device__ __forceinline__ Chunks chunks_of(const char* seen, const int keys, const int split, const int splits,
                                            const int first = 0, const int step = 1) {
  const int all = (keys + chunk_keys - 1) / chunk_keys;
  return {seen, max(0, (all - split + splits - 1) / splits), first, step, 0, 0};
}
// By whole warps: of all.
__device__ __forceinline__ int count_shown(const Chunks& c) {
  int count = 0;
  for (int n = 0; n < c.count; n += 32) count += __popc(shown_of(c, n + (int)threadIdx.x % 32));
  return count;
}
// Keys that are read as they are asked for: of so many batches, each in splits, of so many chunks that were inspected.
struct Keys {
  const char* seen;
  int inspected_chunks, batches, splits, count;
};
// Of the block's split `nth`.
__device__ __forceinline__ const char* seen_of(const Keys& k, const int nth) {
  return k.seen ? k.seen + nth * k.inspected_chunks : nullptr;
}
// By whole warps: whether one of the block's splits has more than one chunk.
__device__ __forceinline__ bool has_several(const Keys& k) {
  bool several = false;
#pragma unroll 1
  for (int item = blockIdx.x, nth = 0; item < k.batches * k.splits; item += gridDim.x, ++nth) {
    Chunks c = chunks_of(seen_of(k, nth), k.count, item % k.splits, k.splits);
    next_chunk(c);
    several |= next_chunk(c) < c.count;
  }
  return several;
}

__device__ __forceinline__ uint4 one_of(const bool first, const uint4 a, const uint4 b) {
  return {first ? a.x : b.x, first ? a.y : b.y, first ? a.z : b.z, first ? a.w : b.w};
}
// A warp's share of a piece: of eight lines, words of 16 bytes.
struct Words {
  uint4 at[slot_depth / 64 / 8][2];
};
// Lanes of odd lines take the halves of a unit in swapped order, without bank conflicts. A piece has `least` elements
// of a line or more.
template <int least>
__device__ __forceinline__ void take_piece(Ring& r, Words& words, const int part) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 8, line = lane / 4, swapped = line % 2 * 64;
  mbarrier_wait_both(&r.full[2 * r.slot], &r.full[2 * r.slot + 1], r.phase);
  const char* const mine = r.slots + r.slot * slot_bytes + line * part * 2 + lane % 4 * 16;
#pragma unroll
  for (int round = 0; round < slot_depth / 64 / 8; ++round) {
    const int unit = round * 8 + warp;
    words.at[round][0] = words.at[round][1] = {0, 0, 0, 0};
    if ((round + 1) * 8 > least / 64 && unit >= part / 64) continue;
    words.at[round][0] = *(const uint4*)(mine + unit * 128 + swapped);
    words.at[round][1] = *(const uint4*)(mine + unit * 128 + 64 - swapped);
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive(&r.empty[r.slot]);
  advance(r.slot, r.phase, r.count);
}

// What a piece is multiplied with: rows of x, two of them at once, as operand b. Of each row it has four columns, for
// the halves of the words of even and of odd lines.
template <int rows>
struct Rows {
  unsigned at[slot_depth / 64 / 8][(rows + 1) / 2][2][2];
};
template <int rows, int depth, int least>
__device__ __forceinline__ void take_rows(Rows<rows>& b, const char* x, const int part) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 8, line = lane / 4, swapped = line / 2 % 2 * 64;
  const char* const mine = x + line / 4 * depth * 2 + warp * 128 + lane % 4 * 16 + line % 2 * 4;
  const char* const halves[2] = {mine + swapped, mine + 64 - swapped};
#pragma unroll
  for (int round = 0; round < slot_depth / 64 / 8; ++round)
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
      for (int group = 0; group < (rows + 1) / 2; ++group) {
        const char* const at = halves[step] + group * 4 * depth + round * 8 * 128;
        const bool there = (round + 1) * 8 <= least / 64 || round * 8 + warp < part / 64;
        unsigned(&two)[2] = b.at[round][group][step];
        two[0] = two[1] = 0;
        if (group * 2 + line / 4 < rows && there) two[0] = *(const unsigned*)at, two[1] = *(const unsigned*)(at + 8);
      }
}

// Adds the warp's share to `sums`. A word is of one line, and as operand a it stands in two rows of the product, which
// so is of eight lines and 32 elements.
template <int rows, bool half>
__device__ __forceinline__ void multiply_piece(const Words& words, const Rows<rows>& b, float (*sums)[2][4]) {
#pragma unroll
  for (int round = 0; round < slot_depth / 64 / 8; ++round)
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 w = words.at[round][step];
      const unsigned a[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int group = 0; group < (rows + 1) / 2; ++group)
        if (half)
          multiply_f16(sums[group][step], a, b.at[round][group][step]);
        else
          multiply_bf16(sums[group][step], a, b.at[round][group][step]);
    }
}

// Of `tiles` tiles side by side: what the warps summed of the rows by lines, in `parts[tile][warp][row][line]`.
template <int rows>
__device__ __forceinline__ void leave_sums(float* parts, float (*sums)[2][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, line = lane / 4;
  if (lane % 2 != line % 2) return;
#pragma unroll
  for (int group = 0; group < (rows + 1) / 2; ++group) {
    const int row = group * 2 + lane % 4 / 2;
    if (row >= rows) continue;
    const float(&s)[2][4] = sums[group];
    parts[(warp * rows + row) * 8 + line] = (s[0][0] + s[1][0]) + (s[0][3] + s[1][3]);
  }
}
template <int rows>
__device__ __forceinline__ float take_sums(const float* parts, const int at) {
  float sum = parts[at];
  for (int warp = 1; warp < 8; ++warp) sum += parts[warp * rows * 8 + at];
  return sum;
}

// By all that compute, all reads before the first write.
template <int words>
__device__ __forceinline__ void copy_words(uint4* to, const uint4* from) {
  constexpr int rounds = (words + 255) / 256;
  uint4 word[rounds];
#pragma unroll
  for (int n = 0; n < rounds; ++n)
    if (n * 256 + (int)threadIdx.x < words) word[n] = from[n * 256 + threadIdx.x];
#pragma unroll
  for (int n = 0; n < rounds; ++n)
    if (n * 256 + (int)threadIdx.x < words) to[n * 256 + threadIdx.x] = word[n];
}

// Of this launch: each block of those before has counted once at its end.
__device__ __forceinline__ unsigned long long launch_number(const char* shared) {
  return count_seen((const unsigned long long*)shared + 16) / gridDim.x + 1;
}
// Of which launch words are: the low bits are in each.
struct Epoch {
  unsigned long long number;
};
// What blocks publish of a value are words of 16 bytes, which are written and read whole: 12 of elements, then the
// index of the first one (16 bits), how many there are (4 bits), and the low bits of the launch's epoch. Every launch
// writes all words, so what stands there is its own or that of the one before. A block's elements are whole units of
// `width`; behind a counter, which says roughly how many blocks have published, each block has as many words.
enum { epoch_mask = (1 << 12) - 1 };

__device__ __forceinline__ unsigned gather_part(const unsigned* value, const int at, const int end) {
  return at < end ? value[at] : 0;
}
__device__ __forceinline__ unsigned gather_part(const unsigned short* value, const int at, const int end) {
  return (at < end ? value[at] : 0u) | (at + 1 < end ? value[at + 1] : 0u) << 16;
}
__device__ __forceinline__ void leave_part(unsigned* value, const int at, const int end, const unsigned part) {
  if (at < end) value[at] = part;
}
__device__ __forceinline__ void leave_part(unsigned short* value, const int at, const int end, const unsigned part) {
  if (at < end) value[at] = (unsigned short)part;
  if (at + 1 < end) value[at + 1] = (unsigned short)(part >> 16);
}

// By the threads from `from` on, so that several values go at once: the elements `mine`, in so many words.
template <typename T>
__device__ __forceinline__ void publish(const int from, const T* value, char* memory, const Epoch& epoch,
                                        const uint2 mine, const int words) {
  constexpr int each = 12 / sizeof(T);
  const int thread = (threadIdx.x - from) % 256;
  if (thread >= words) return;
  const int end = mine.y;
  uint4* const to = (uint4*)(memory + 256) + blockIdx.x * words;
#pragma unroll 1
  for (int n = thread; n < words; n += 256) {
    const int at = mine.x + n * each;
    const unsigned x = gather_part(value, at, end), y = gather_part(value, at + each / 3, end);
    const unsigned z = gather_part(value, at + each / 3 * 2, end);
    const unsigned span = at << 16 | max(0, min(each, end - at)) << 12;
    write_whole(to + n, uint4{x, y, z, span | ((unsigned)epoch.number & epoch_mask)});
  }
  if (thread == 0) count_hint((unsigned long long*)memory);
}

// Words of all blocks, the thread `from` the first one and each so many times 256 behind it: all are asked for before
// the first is waited for.
template <int rounds>
struct Taken {
  uint4 word[rounds];
};
template <int rounds>
__device__ __forceinline__ void ask(Taken<rounds>& t, const int from, const char* memory, const int all) {
#pragma unroll
  for (int n = 0; n < rounds; ++n) {
    const int at = (threadIdx.x - from) % 256 + n * 256;
    t.word[n] = {0, 0, 0, 0};
    if (at < all) t.word[n] = read_whole((const uint4*)(memory + 256) + at);
  }
}
template <int rounds, typename T>
__device__ __forceinline__ void take(Taken<rounds>& t, const int from, T* value, const char* memory, const Epoch& epoch,
                                     const int all) {
  constexpr int each = 12 / sizeof(T);
#pragma unroll
  for (int n = 0; n < rounds; ++n) {
    const int at = (threadIdx.x - from) % 256 + n * 256;
    if (at >= all) continue;
    while ((t.word[n].w ^ (unsigned)epoch.number) & epoch_mask) {
      pause();
      t.word[n] = read_whole((const uint4*)(memory + 256) + at);
    }
    const int first = t.word[n].w >> 16, end = first + (t.word[n].w >> 12 & 15);
    leave_part(value, first, end, t.word[n].x);
    leave_part(value, first + each / 3, end, t.word[n].y);
    leave_part(value, first + each / 3 * 2, end, t.word[n].z);
  }
}
// Of an attention each block has one split where there are blocks for all, as find_slices() says: of so many rows'
// threads it needs those of its batch, from the first to the one behind the last.
__device__ __forceinline__ uint2 threads_of_batch(const int threads, const int batches, const int splits) {
  if (gridDim.x < batches * splits) return uint2{0, (unsigned)threads};
  const unsigned batch = blockIdx.x / splits, each = threads / batches;
  return batch < batches ? uint2{batch * each, batch * each + each} : uint2{0, 0};
}
// Whether the block has this key of all those, whose splits take chunks of 32 round-robin; all have what is no key.
__device__ __forceinline__ bool has_key(const long long key, const long long keys, const int batches,
                                        const int splits) {
  if (gridDim.x < batches * splits || key < 0 || key >= keys) return true;
  return (int)key / 32 % splits == blockIdx.x % splits;
}
// Counters of what all blocks publish, in the order in which the block waits for them. One thread of a warp of its own
// polls them all the time, so that the latency of L2 overlaps with what the block computes.
struct Counters {
  unsigned long long *seen, *gone;
  int count, slot;  // of barriers of each
  unsigned phase;
};
// By that thread, until all blocks but `late` have published.
__device__ __forceinline__ void poll(Counters& c, const char* counter, const unsigned long long number,
                                     const unsigned late) {
  mbarrier_wait(&c.gone[c.slot], c.phase ^ 1);
  while (hint_seen((const unsigned long long*)counter) < number * gridDim.x - late) pause();
  mbarrier_arrive(&c.seen[c.slot]);
  advance(c.slot, c.phase, c.count);
}
__device__ __forceinline__ void wait_for_most(Counters& c) {
  mbarrier_wait(&c.seen[c.slot], c.phase);
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&c.gone[c.slot]);
  advance(c.slot, c.phase, c.count);
}

// Until every block has come here as often; `counter` only grows.
struct Meeting {
  unsigned long long* counter;
  unsigned long long next;
};
__device__ __forceinline__ void meet_all(Meeting& m) {
  meet_block();
  if (threadIdx.x == 0) {
    const unsigned long long blocks = gridDim.x;
    if (m.next == 0)
      m.next = (count_in(m.counter) / blocks + 1) * blocks;
    else
      count_in(m.counter), m.next += blocks;
    while (count_seen(m.counter) < m.next) pause();
  }
  meet_block();
}
