// What a machine with AMX can multiply in bfloat16, from register tile to register tile.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/instruction_set.h"
#include "base/threads.h"
#include "measure/repetitions.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace npusim {
namespace {

// Intel's Software Developer's Manual, "LDTILECFG"
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr int64_t tile_elements = 16 * 32, flops_of_round = 4 * 16 * 16 * 32 * 2;

// Also asks the kernel for the tiles' part of the thread state, once for all threads.
bool may_use_tiles() {
  if (instruction_set() < InstructionSet::amx) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// Four independent sums of products of `numbers`, four tiles of bf16.
__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles(int64_t rounds, const uint16_t* numbers, float* sums) {
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_loadd(4, numbers, 64);
  _tile_loadd(5, numbers + tile_elements, 64);
  _tile_loadd(6, numbers + 2 * tile_elements, 64);
  _tile_loadd(7, numbers + 3 * tile_elements, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t n = 0; n < rounds; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + tile_elements / 2, 64);
  _tile_stored(2, sums + tile_elements, 64);
  _tile_stored(3, sums + 3 * tile_elements / 2, 64);
  _tile_release();
}

}  // namespace

double probe_bf16_gflop_s(int wanted_threads) {
  const ThreadCount limit(checked_threads("threads", wanted_threads));
  if (!may_use_tiles()) return 0;
  constexpr int64_t rounds = 1'000'000;
  const int threads = thread_count();
  std::vector<uint16_t> numbers(4 * tile_elements);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint16_t>(0x3f00 + i * 37 % 256);  // 0.5 to 2
  std::vector<float> sums(static_cast<size_t>(threads * 2 * tile_elements));
  double best = 1e30;
  for (int i = 0; i < probe_repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads, 1, [&](int64_t, int64_t, int thread) {
      multiply_tiles(rounds, numbers.data(), sums.data() + thread * 2 * tile_elements);
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return static_cast<double>(rounds * flops_of_round * threads) / best / 1e9;
}

}  // namespace npusim
#else
namespace npusim {
double probe_bf16_gflop_s(int) { return 0; }
}  // namespace npusim
#endif
