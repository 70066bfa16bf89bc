// How long it takes until what all blocks of a launch made has come to all of them, while weights come in beside it:
// what a decode step as one launch waits for (docs/cuda-measured.md). An H200 is done in seconds.
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a bench/gpu/exchange.cu -o exchange && ./exchange
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using Number = unsigned long long;
constexpr int blocks = 132, threads = 256, times = 1000;
constexpr int ring_bytes = 8 * 24576, splits = 64, quads = 192;  // of an attention: pieces of the keys, four columns
constexpr Number weight_bytes = Number{4} << 30, value_bytes = 1 << 20;  // the latter of a place

__device__ void write_whole(uint4* to, const uint4 w) {
  const Number low = w.x | static_cast<Number>(w.y) << 32, high = w.z | static_cast<Number>(w.w) << 32;
  asm volatile("{\n.reg .b128 q;\nmov.b128 q, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], q;\n}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
}
__device__ uint4 read_whole(const uint4* from) {
  Number low, high;
  asm volatile("{\n.reg .b128 q;\nld.relaxed.gpu.global.b128 q, [%2];\nmov.b128 {%0, %1}, q;\n}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  return {static_cast<unsigned>(low), static_cast<unsigned>(low >> 32), static_cast<unsigned>(high),
          static_cast<unsigned>(high >> 32)};
}
__device__ unsigned shared(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }
__device__ void ask(char* to, const char* from, const int bytes, Number* full) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(full)), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(to)),
      "l"(from), "r"(bytes), "r"(shared(full))
      : "memory");
}
__device__ void wait(Number* full, const unsigned parity) {
  unsigned over = 0;
  while (!over)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"(shared(full)), "r"(parity)
                 : "memory");
}
__device__ void prefetch_l2(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
__device__ void meet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
__device__ Number now() {
  Number ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

struct Way {
  int words = 2;           // of a block
  int late = -1;           // one thread waits for a counter until so many blocks are missing; below 0: all look at once
  bool attention = false;  // what the splits of an attention found, of which each block merges some columns
  int places = 2;          // that turns use one after the other: of many none is in the cache when it is used
  bool nearer = false;     // a block's own lines are brought into the cache two turns before
};
struct Given {
  char *values, *weights;
  Way way;
  int pieces, piece;  // under way to a block, and their bytes
  Number *took, *came, *clocks;
};

__global__ void __launch_bounds__(threads + 64, 1) exchange(const __grid_constant__ Given g) {
  extern __shared__ __align__(128) char memory[];
  Number* const full = reinterpret_cast<Number*>(memory + ring_bytes);
  volatile int* const over = reinterpret_cast<int*>(full + 16);
  uint4* const home = reinterpret_cast<uint4*>(memory + ring_bytes + 256);
  constexpr int kept = 512, most = 7;
  if (threadIdx.x < 16)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(shared(full + threadIdx.x))
                 : "memory");
  if (threadIdx.x == 0) *over = 0;
  __syncthreads();
  if (threadIdx.x >= threads) {
    if (threadIdx.x > threads || g.pieces == 0) return;
    const Number mine = weight_bytes / blocks / g.piece * g.piece;
    const char* const from = g.weights + blockIdx.x * mine;
    Number asked = 0, at = 0;
    const auto more = [&](int slot) {
      ask(memory + slot * g.piece, from + at, g.piece, &full[slot]);
      at = at + 2 * g.piece > mine ? 0 : at + g.piece;
      ++asked;
    };
    for (int slot = 0; slot < g.pieces; ++slot) more(slot);
    int slot = 0;
    unsigned parity = 0;
    const auto advance = [&] {
      if (++slot == g.pieces) slot = 0, parity ^= 1;
    };
    for (; !*over; advance()) wait(&full[slot], parity), more(slot);
    g.came[blockIdx.x] = (asked - g.pieces) * g.piece;
    for (int left = g.pieces; left > 0; --left, advance()) wait(&full[slot], parity);  // a block outlives its copies
    return;
  }
  const int thread = threadIdx.x, words = g.way.attention ? 3 * splits * 2 : g.way.words * blocks;
  unsigned value = blockIdx.x;
  const Number begin = now(), first_clock = clock64();
#pragma unroll 1
  for (unsigned turn = 1; turn <= times; ++turn) {
    char* const counter = g.values + turn % g.way.places * value_bytes;
    uint4* const all = reinterpret_cast<uint4*>(counter + 4096);
    if (g.way.nearer && !g.way.attention) {
      char* const then = g.values + (turn + 2) % g.way.places * value_bytes;
      if (thread == 0) prefetch_l2(then);
      if (thread * 2 < g.way.words) prefetch_l2(then + 4096 + (blockIdx.x * g.way.words + thread * 2) * 16);
    }
    if (!g.way.attention) {
      if (thread < g.way.words) write_whole(all + blockIdx.x * g.way.words + thread, {value, value, value, turn});
    } else if (blockIdx.x < 2 * splits) {
      for (int i = thread; i < 2 * quads; i += threads)
        write_whole(all + ((blockIdx.x / splits * quads + i / 2) * splits + blockIdx.x % splits) * 2 + i % 2,
                    {value, value, value, turn});
    }
    if (thread == 0 && g.way.late >= 0) {
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(counter) : "memory");
      Number seen = 0;
      const Number uses = (turn + g.way.places - 1) / g.way.places;
      while (seen < uses * blocks - g.way.late)
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(counter) : "memory");
    }
    if (g.way.late >= 0) meet();
    const uint4* const from = all + (g.way.attention ? blockIdx.x * (2 * quads) / blocks * splits * 2 : 0);
    uint4 word[most];
#pragma unroll
    for (int n = 0; n < most; ++n)
      if (n * threads + thread < words) word[n] = read_whole(from + n * threads + thread);
#pragma unroll
    for (int n = 0; n < most; ++n) {
      if (n * threads + thread >= words) continue;
      // Blocks that only merge are not waited for: what they read may be newer.
      while (word[n].w < turn) word[n] = read_whole(from + n * threads + thread);
      home[(n * threads + thread) % kept] = word[n];
    }
    meet();
    value = __reduce_add_sync(0xffffffffu, home[thread].x + home[(thread * 7 + 1) % threads].y);
    meet();
  }
  if (thread == 0) g.took[blockIdx.x] = now() - begin, g.clocks[blockIdx.x] = clock64() - first_clock, *over = 1;
  if (value == 0x12345) g.took[0] = value;  // what was read is used
}

void check(cudaError_t error) {
  if (error != cudaSuccess) std::printf("%s\n", cudaGetErrorString(error)), std::exit(1);
}

}  // namespace

int main() {
  Given g{};
  constexpr int many_places = times + 8;  // each is used once
  check(cudaMalloc(&g.values, many_places * value_bytes)), check(cudaMalloc(&g.weights, weight_bytes));
  for (Number** found : {&g.took, &g.came, &g.clocks}) check(cudaMallocHost(found, 8 * blocks));
  std::mt19937_64 random(1);
  std::vector<Number> noise(1 << 20);
  std::generate(noise.begin(), noise.end(), random);
  for (Number at = 0; at < weight_bytes; at += noise.size() * 8)
    check(cudaMemcpy(g.weights + at, noise.data(), noise.size() * 8, cudaMemcpyDefault));
  constexpr int bytes = ring_bytes + 256 + 512 * 16;
  check(cudaFuncSetAttribute(exchange, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  std::printf(
      "us until all words have come (TB/s that came beside, GHz); under way to a block: nothing, 2 and 3 of 12 KB, 2 "
      "of 24 "
      "KB\n");
  struct Row {
    const char* name;
    Way way;
    std::vector<int> lates;
  };
  const std::vector<int> all_lates = {-1, 0, 33, 66}, some = {-1, 33};
  for (const auto& [name, way, lates] :
       {Row{"264 words", {2}, all_lates}, Row{"1584 words", {12}, all_lates},
        Row{"attention", {0, -1, true}, all_lates}, Row{"264, not cached", {2, -1, false, many_places}, some},
        Row{"264, brought nearer", {2, -1, false, many_places, true}, some},
        Row{"132, not cached", {1, -1, false, many_places}, some},
        Row{"132, brought nearer", {1, -1, false, many_places, true}, some},
        Row{"1584, not cached", {12, -1, false, many_places}, some},
        Row{"1584, brought nearer", {12, -1, false, many_places, true}, some}})
    for (const int late : lates) {
      std::printf("%-22s%-20s", name, late < 0 ? "all look" : ("counter, " + std::to_string(late) + " late").c_str());
      for (const auto& [pieces, piece] : {std::pair{0, 0}, {2, 12288}, {3, 12288}, {2, 24576}}) {
        double us = 1e9, rate = 0, ghz = 0;
        for (int turn = 0; turn < 3; ++turn) {
          check(cudaMemset(g.values, 0, many_places * value_bytes));
          g.way = way, g.way.late = late, g.pieces = pieces, g.piece = piece;
          exchange<<<blocks, threads + 64, bytes>>>(g);
          check(cudaDeviceSynchronize());
          if (const double mine = static_cast<double>(g.took[0]) / 1e3 / times; mine < us) {
            us = mine, rate = 0;
            ghz = static_cast<double>(g.clocks[0]) / static_cast<double>(g.took[0]);
            for (int b = 0; b < blocks && pieces > 0; ++b)
              rate += static_cast<double>(g.came[b]) / 1e3 / static_cast<double>(g.took[b]);
          }
        }
        std::printf("  %6.3f (%.2f at %.2f)", us, rate, ghz);
      }
      std::printf("\n");
    }
}
