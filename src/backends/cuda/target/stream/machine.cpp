// Written for slots of `slot_bytes` bytes; the numbers are those of product.h.
#include "backends/cuda/target/stream/machine.h"

namespace npusim::cuda {

std::string_view stream_machine() {
  return R"(
// Pieces of matrices in the order of their use: `full` when one has come, `empty` when all warps are done with it.
struct Ring {
  char* slots;
  unsigned long long *full, *empty;
  int count, slot;
  unsigned phase;
};

__device__ __forceinline__ void advance(int& slot, unsigned& phase, const int count) {
  if (++slot == count) slot = 0, phase ^= 1;
}

// The lines of a matrix that are a block's: as many as every other's, or one more.
__device__ __forceinline__ int first_line(const int lines, const int block) {
  const unsigned each = (unsigned)lines / gridDim.x, more = (unsigned)lines - each * gridDim.x;
  return block * (int)each + min(block, (int)more);
}

// Asks for the pieces of this block's lines, as far ahead as the ring has room, with few of them under way at once.
struct Feeder {
  Ring ring;
  int asked_slot;
  unsigned asked_phase;
  int under_way;
};

__device__ __forceinline__ void feed(Feeder& f, const char* matrix, const int lines, const int depth) {
  const int lane = threadIdx.x % 32, end = first_line(lines, blockIdx.x + 1);
  Ring& r = f.ring;
  for (int line = first_line(lines, blockIdx.x); line < end; line += 8) {
    const int count = min(8, end - line);
    for (int k = 0; k < depth; k += slot_depth) {
      const int part = min(slot_depth, depth - k);
      mbarrier_wait(&r.empty[r.slot], r.phase ^ 1);
      if (f.under_way == slots_asked_for) {
        mbarrier_wait(&r.full[f.asked_slot], f.asked_phase);
        advance(f.asked_slot, f.asked_phase, r.count);
        --f.under_way;
      }
      ++f.under_way;
      char* const to = r.slots + r.slot * slot_bytes;
      if (lane == 0) mbarrier_expect(&r.full[r.slot], count * part * 2);
      __syncwarp();
      if (depth <= slot_depth) {
        if (lane == 0) copy_bulk(to, matrix + (long long)line * depth * 2, count * depth * 2, &r.full[r.slot]);
      } else if (lane < count) {
        copy_bulk(to + lane * part * 2, matrix + ((long long)(line + lane) * depth + k) * 2, part * 2, &r.full[r.slot]);
      }
      advance(r.slot, r.phase, r.count);
    }
  }
}

// Adds this warp's share of a piece to `sums`: rows of x against eight lines, as four sums of four that are added
// later. Of a line, lanes of odd lines take the halves of a unit the other way round, so that all meet in no bank.
template <int rows, int depth, bool half>
__device__ __forceinline__ void use_piece(Ring& r, const char* x, const int part, float (*sums)[4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, line = lane / 4;
  const int swapped = line % 2 * 64;
  mbarrier_wait(&r.full[r.slot], r.phase);
  const char* const mine = r.slots + r.slot * slot_bytes + line * part * 2 + lane % 4 * 16;
  const char* const row = x + (long long)line * depth * 2 + lane % 4 * 16;
#pragma unroll 3
  for (int unit = warp; unit < part / 64; unit += 8) {
    const uint4 w0 = *(const uint4*)(mine + unit * 128 + swapped), w1 = *(const uint4*)(mine + unit * 128 + 64 - swapped);
    uint4 x0 = {0, 0, 0, 0}, x1 = {0, 0, 0, 0};
    if (line < rows) {
      x0 = *(const uint4*)(row + unit * 128);
      x1 = *(const uint4*)(row + unit * 128 + 64);
    }
    const uint4 first = swapped ? w1 : w0, second = swapped ? w0 : w1;
    const unsigned a[4][4] = {{x0.x, 0, x0.y, 0}, {x0.z, 0, x0.w, 0}, {x1.x, 0, x1.y, 0}, {x1.z, 0, x1.w, 0}};
    const unsigned b[4][2] = {{first.x, first.y}, {first.z, first.w}, {second.x, second.y}, {second.z, second.w}};
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (half)
        multiply_f16(sums[e], a[e], b[e]);
      else
        multiply_bf16(sums[e], a[e], b[e]);
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive(&r.empty[r.slot]);
  advance(r.slot, r.phase, r.count);
}

// Of `tiles` tiles side by side: what the warps summed of the rows by lines, in `parts[tile][warp][row][line]`.
template <int rows>
__device__ __forceinline__ void leave_sums(float* parts, float (*sums)[4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane / 4 >= rows) return;
  for (int e = 0; e < 2; ++e)
    parts[(warp * rows + lane / 4) * 8 + lane % 4 * 2 + e] = (sums[0][e] + sums[1][e]) + (sums[2][e] + sums[3][e]);
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
  constexpr int turns = (words + 255) / 256;
  uint4 word[turns];
#pragma unroll
  for (int n = 0; n < turns; ++n)
    if (n * 256 + (int)threadIdx.x < words) word[n] = from[n * 256 + threadIdx.x];
#pragma unroll
  for (int n = 0; n < turns; ++n)
    if (n * 256 + (int)threadIdx.x < words) to[n * 256 + threadIdx.x] = word[n];
}

// What blocks make of a value travels in words of 16 bytes, 12 of elements and the number of the launch, which are
// written and read whole: no word is waited for that is there. A block's elements are whole units of `width`; behind
// a counter, which tells roughly how many blocks have published, each block has as many words.
template <typename T>
union Published {
  uint4 word;
  T at[12 / sizeof(T)];
};
template <typename T, int units, int width>
__device__ __forceinline__ int words_of_a_block() {
  constexpr int each = 12 / sizeof(T);
  return ((units + (int)gridDim.x - 1) / (int)gridDim.x * width + each - 1) / each;
}

template <typename T, int units, int width>
__device__ __forceinline__ void publish(const T* value, char* memory, const unsigned long long launch) {
  constexpr int each = 12 / sizeof(T);
  const int words = words_of_a_block<T, units, width>(), first = width * first_line(units, blockIdx.x);
  const int end = width * first_line(units, blockIdx.x + 1);
  uint4* const to = (uint4*)(memory + 256) + blockIdx.x * words;
  for (int n = threadIdx.x; n < words; n += 256) {
    Published<T> p;
    p.word.w = (unsigned)launch;
#pragma unroll
    for (int e = 0; e < each; ++e) p.at[e] = first + n * each + e < end ? value[first + n * each + e] : T(0);
    write_whole(to + n, p.word);
  }
  if (threadIdx.x == 0) count_hint((unsigned long long*)memory);
}

// All words are asked for before the first is waited for.
template <typename T, int units, int width>
struct Taken {
  enum { each = 12 / sizeof(T), turns = (units * width / each + most_blocks * (width / each + 2) + 255) / 256 };
  Published<T> p[turns];
};
template <typename T, int units, int width>
__device__ __forceinline__ void ask(Taken<T, units, width>& t, const char* memory) {
  const int all = words_of_a_block<T, units, width>() * (int)gridDim.x;
#pragma unroll
  for (int n = 0; n < t.turns; ++n) {
    const int at = threadIdx.x + n * 256;
    if (at < all) t.p[n].word = read_whole((const uint4*)(memory + 256) + at);
  }
}
template <typename T, int units, int width>
__device__ __forceinline__ void take(Taken<T, units, width>& t, T* value, const char* memory,
                                     const unsigned long long launch) {
  const int words = words_of_a_block<T, units, width>(), all = words * (int)gridDim.x;
#pragma unroll
  for (int n = 0; n < t.turns; ++n) {
    const int at = threadIdx.x + n * 256;
    if (at >= all) continue;
    while (t.p[n].word.w != (unsigned)launch) {
      pause();
      t.p[n].word = read_whole((const uint4*)(memory + 256) + at);
    }
    const int block = at / words, place = width * first_line(units, block) + at % words * t.each;
    const int end = width * first_line(units, block + 1);
#pragma unroll
    for (int e = 0; e < t.each; ++e)
      if (place + e < end) value[place + e] = t.p[n].at[e];
  }
}
// Until most blocks have published: one thread looks, or all would delay what they wait for.
__device__ __forceinline__ void wait_for_most(const char* memory, const unsigned long long launch) {
  if (threadIdx.x == 0)
    while (hint_seen((const unsigned long long*)memory) < launch * gridDim.x - gridDim.x / 4) pause();
  meet_block();
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
)";
}

}  // namespace npusim::cuda
