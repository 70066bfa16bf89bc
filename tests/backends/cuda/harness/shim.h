// What printed CUDA C++ needs to be compiled as C++ and executed by tests/metal/runtime: a thread of the GPU is a
// fiber, and what the printer's helpers do by instructions of their own is done here, as exactly and as late as they
// may.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

struct mslx_call {
  void* const* buf;
  void* const* tgm;
  unsigned tpig[3], tgpig[3], tpitg[3], tptg[3], tgpg[3], tpg[3], tiitg, tiisg, sgitg, sgptg, tpsg, qgitg, tiiqg, qgptg;
};
struct mslx_param_desc {
  int kind, index, is_const;
  unsigned esize;
  const char* name;
  const char* attr;
};
struct mslx_kernel_desc {
  const char* name;
  void (*thunk)(const mslx_call*);
  void (*flat)(const mslx_call*);
  const mslx_param_desc* params;
  int nparams;
};
extern "C" {
const mslx_call* mslx_current();
void mslx_barrier(unsigned flags, unsigned site);
const unsigned char* mslx_simd_xchg(const void* from, unsigned bytes, unsigned op, unsigned site, unsigned* mask,
                                    unsigned* lane);
void* mslx_tg_alloc(unsigned site, unsigned long bytes);
void mslx_fail(const char* message);
void mslx_yield();
void mslx_yield_until_change();
void mslx_change();
}

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __restrict__ __restrict

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct Position {
  unsigned x, y, z;
};
inline Position position(const unsigned* at) { return {at[0], at[1], at[2]}; }
#define threadIdx position(mslx_current()->tpitg)
#define blockIdx position(mslx_current()->tgpig)
#define gridDim position(mslx_current()->tgpg)

#define HARNESS_SITE unsigned line = __builtin_LINE(), unsigned column = __builtin_COLUMN()
inline void __syncthreads(HARNESS_SITE) { mslx_barrier(3, line * 256 + column); }

// What the 32 lanes of a warp pass to one call.
template <typename T>
struct Warp {
  const unsigned char* table;
  unsigned lane;
  T of(unsigned other) const {
    T x;
    std::memcpy(&x, table + 64 * other, sizeof x);
    return x;
  }
};
template <typename T>
Warp<T> meet(const T& mine, unsigned site) {
  unsigned mask = 0;
  Warp<T> warp;
  warp.table = mslx_simd_xchg(&mine, sizeof mine, 0, site, &mask, &warp.lane);
  if (mask != 0xffffffffu) mslx_fail("a warp meets without all of its lanes");
  return warp;
}
inline void __syncwarp(HARNESS_SITE) { meet(0, line * 256 + column); }
template <typename T>
T __shfl_xor_sync(unsigned, T x, int mask, HARNESS_SITE) {
  const Warp<T> warp = meet(x, line * 256 + column);
  return warp.of(warp.lane ^ static_cast<unsigned>(mask));
}
template <typename T>
T __shfl_sync(unsigned, T x, int from, HARNESS_SITE) {
  return meet(x, line * 256 + column).of(static_cast<unsigned>(from) % 32);
}

template <typename T>
T __shfl_up_sync(unsigned, T x, int by, HARNESS_SITE) {
  const Warp<T> warp = meet(x, line * 256 + column);
  return warp.of(warp.lane < static_cast<unsigned>(by) ? warp.lane : warp.lane - static_cast<unsigned>(by));
}

inline int __any_sync(unsigned, int mine, HARNESS_SITE) {
  const Warp<int> warp = meet(mine, line * 256 + column);
  for (unsigned lane = 0; lane < 32; ++lane)
    if (warp.of(lane)) return 1;
  return 0;
}

inline unsigned __ballot_sync(unsigned, int mine, HARNESS_SITE) {
  const Warp<int> warp = meet(mine, line * 256 + column);
  unsigned all = 0;
  for (unsigned lane = 0; lane < 32; ++lane) all |= static_cast<unsigned>(warp.of(lane) != 0) << lane;
  return all;
}
template <typename T>
T atomicAdd(T* word, T by) {  // threads of a block take turns
  const T before = *word;
  *word += by;
  return before;
}
inline unsigned atomicOr(unsigned* word, unsigned bits) {
  const unsigned before = *word;
  *word |= bits;
  return before;
}
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
  const unsigned long long both = x | static_cast<unsigned long long>(y) << 32;
  unsigned found = 0;
  for (unsigned n = 0; n < 4; ++n) found |= static_cast<unsigned>(both >> (which >> 4 * n & 7) * 8 & 0xff) << 8 * n;
  return found;
}

template <typename To, typename From>
To bits_as(From x) {
  To to;
  static_assert(sizeof to == sizeof x);
  std::memcpy(&to, &x, sizeof to);
  return to;
}
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
template <typename A, typename B>
auto min(A a, B b) {
  return a < b ? a : b;
}
template <typename A, typename B>
auto max(A a, B b) {
  return a > b ? a : b;
}
using std::isnan;

inline float f16_to_float(unsigned short bits) { return static_cast<float>(bits_as<_Float16>(bits)); }
inline unsigned short float_to_f16(float x) { return bits_as<unsigned short>(static_cast<_Float16>(x)); }

// What precedes a launch ends when the first thread waits for it: it writes what is not there ahead, and still reads
// what the launch will write.
struct Late {
  void* memory;
  const void* contents;
  unsigned long bytes;
};
extern "C" {
inline Late harness_late[64];
inline int harness_late_count = 0;
}
inline void lead() {}
inline std::mutex harness_mutex;  // the blocks of a cluster run on threads of the machine
inline void follow() {
  const std::lock_guard lock(harness_mutex);
  for (int i = 0; i < harness_late_count; ++i) {
    const Late& l = harness_late[i];
    for (unsigned long n = 0; n < l.bytes; ++n)
      if (static_cast<unsigned char*>(l.memory)[n] != 0xff) return mslx_fail("a launch writes before it waited");
    std::memcpy(l.memory, l.contents, l.bytes);
  }
  harness_late_count = 0;
}
template <typename T>
T* behind(T* memory) {
  if (harness_late_count) mslx_fail("a launch takes a pointer for one to late memory before it waited");
  return memory;
}

// Blocks of a cluster, by its number: where the shared memory of each is, and how many threads have come.
struct Cluster {
  char* memory[8];
  unsigned come, generation;
};
inline std::map<unsigned, Cluster> clusters;
template <int blocks>
void meet_cluster() {
  const mslx_call& me = *mslx_current();
  const auto generation_of = [&](bool come) {
    const std::lock_guard lock(harness_mutex);
    Cluster& cluster = clusters[me.tgpig[0] / blocks];
    if (!come) return cluster.generation;
    cluster.memory[me.tgpig[0] % blocks] = static_cast<char*>(me.tgm[0]);
    const unsigned generation = cluster.generation;
    if (++cluster.come == blocks * me.tptg[0]) cluster.come = 0, ++cluster.generation;
    return generation;
  };
  const unsigned generation = generation_of(true);
  while (generation_of(false) == generation) mslx_yield();
}
template <int blocks, typename T>
const T* of_piece(const T* mine, int block) {
  const mslx_call& me = *mslx_current();
  const std::lock_guard lock(harness_mutex);
  return reinterpret_cast<const T*>(clusters[me.tgpig[0] / blocks].memory[block] +
                                    (reinterpret_cast<const char*>(mine) - static_cast<const char*>(me.tgm[0])));
}

inline unsigned max_halves(unsigned a, unsigned b) {
  return std::max(a & 0xffffu, b & 0xffffu) | std::max(a >> 16, b >> 16) << 16;
}
inline float bf16_value(unsigned short bits) { return bits_as<float>(static_cast<unsigned>(bits) << 16); }
inline unsigned pack_f16(float first, float second) { return float_to_f16(first) | float_to_f16(second) << 16; }
inline unsigned pack_bf16(float first, float second) {
  const auto round = [](float x) {
    const unsigned bits = bits_as<unsigned>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  };
  return round(first) | round(second) << 16;
}
inline unsigned short float_to_bf16(float x) { return static_cast<unsigned short>(pack_bf16(x, 0)); }
inline float quotient(float a, float b, float& least, float& most) {
  const float small = std::min(std::fabs(a), std::fabs(b)), large = std::max(std::fabs(a), std::fabs(b));
  least = std::fmin(least, small), most = std::fmax(most, large);
  return small >= 0x1p-60f && large <= 0x1p60f ? a / b : NAN;  // who does not look at them finds that
}
inline float exp_near(float x) { return std::exp2(x * 1.44269504f); }
inline float quotient_near(float a, float b) { return a * 0.25f * (1 / (b * 0.25f)); }
inline float exp2_near(float x) { return std::exp2(x); }

// Copies arrive when they are waited for and not before.
struct Copy {
  void* to;
  const void* from;
  int bytes;  // the others are zeros
};
struct Copies {
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> committed;
};
inline thread_local Copies copies[1024];
inline Copies& my_copies() { return copies[mslx_current()->tiitg]; }
inline void copy_part(void* to, const void* from, int bytes) {
  if (reinterpret_cast<uintptr_t>(to) % 16 || (bytes && reinterpret_cast<uintptr_t>(from) % 16))
    mslx_fail("a copy of 16 bytes that is not aligned");
  my_copies().open.push_back({to, from, bytes});
}
inline void copy_async(void* to, const void* from, bool there) { copy_part(to, from, there ? 16 : 0); }
inline void commit_copies() {
  Copies& mine = my_copies();
  mine.committed.push_back(std::move(mine.open));
  mine.open.clear();
}
template <int later>
void wait_copies() {
  Copies& mine = my_copies();
  while (mine.committed.size() > later) {
    for (const Copy& c : mine.committed.front()) {
      std::memset(c.to, 0, 16);
      std::memcpy(c.to, c.from, c.bytes);
    }
    mine.committed.erase(mine.committed.begin());
  }
}

inline void load_matrices(unsigned* to, const void* row, HARNESS_SITE) {
  if (reinterpret_cast<uintptr_t>(row) % 16) mslx_fail("a row of a matrix that is not aligned");
  const auto warp = meet(row, line * 256 + column);
  for (unsigned i = 0; i < 4; ++i)
    std::memcpy(&to[i], static_cast<const char*>(warp.of(8 * i + warp.lane / 4)) + 4 * (warp.lane % 4), 4);
}
inline void load_matrices_transposed(unsigned* to, const void* row, HARNESS_SITE) {
  if (reinterpret_cast<uintptr_t>(row) % 16) mslx_fail("a row of a matrix that is not aligned");
  const auto warp = meet(row, line * 256 + column);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned half = 0; half < 2; ++half)
      std::memcpy(reinterpret_cast<char*>(&to[i]) + 2 * half,
                  static_cast<const char*>(warp.of(8 * i + 2 * (warp.lane % 4) + half)) + 2 * (warp.lane / 4), 2);
}

inline unsigned transpose_matrix(unsigned two, HARNESS_SITE) {
  const auto warp = meet(two, line * 256 + column);
  unsigned transposed = 0;
  for (unsigned half = 0; half < 2; ++half)
    transposed |= (warp.of((warp.lane % 4 * 2 + half) * 4 + warp.lane / 8) >> warp.lane / 4 % 2 * 16 & 0xffffu)
                  << half * 16;
  return transposed;
}

struct Fragments {
  unsigned a[4], b[2];
};
template <typename F>
void multiply(float* sums, const unsigned* a, const unsigned* b, F&& to_float, unsigned site) {
  Fragments mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const auto warp = meet(mine, site);
  const auto half = [&](unsigned word, unsigned k) {
    return to_float(static_cast<unsigned short>(word >> 16 * (k % 2)));
  };
  for (unsigned n = 0; n < 4; ++n) {
    const unsigned row = warp.lane / 4 + n / 2 * 8, column = warp.lane % 4 * 2 + n % 2;
    double sum = sums[n];
    for (unsigned k = 0; k < 16; ++k) {
      const Fragments x = warp.of(row % 8 * 4 + k % 8 / 2), y = warp.of(column * 4 + k % 8 / 2);
      sum += static_cast<double>(half(x.a[row / 8 + k / 8 * 2], k)) * half(y.b[k / 8], k);
    }
    sums[n] = static_cast<float>(sum);
  }
}
inline void multiply_f16(float* sums, const unsigned* a, const unsigned* b, HARNESS_SITE) {
  multiply(sums, a, b, f16_to_float, line * 256 + column);
}
inline void multiply_bf16(float* sums, const unsigned* a, const unsigned* b, HARNESS_SITE) {
  multiply(sums, a, b, bf16_value, line * 256 + column);
}

// Products of a warpgroup are done when they are waited for and not before.
struct GroupProduct {
  float (*sums)[4];
  const unsigned short *a, *b;
  int k, columns;
  bool bf16, first = false;
  int lines = 0;           // of `transposed` products, behind which the next 64 columns lie; then k is 0
  float rows[2][16] = {};  // and a, which registers hold
};
struct GroupProducts {
  std::vector<GroupProduct> open;
  std::vector<std::vector<GroupProduct>> committed;
};
inline thread_local GroupProducts group_products[1024];
inline void multiply_group(const GroupProduct& p) {
  const unsigned lane = mslx_current()->tiitg % 32, warp = mslx_current()->tiitg / 32 % 4;
  const auto at = [&](const unsigned short* lines, unsigned line, unsigned k) {
    const unsigned short bits = lines[line * 64 + (k / 8 ^ line % 8) * 8 + k % 8];
    return p.bf16 ? bf16_value(bits) : f16_to_float(bits);
  };
  for (unsigned j = 0; j < p.columns / 8u; ++j)
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned row = warp * 16 + lane / 4 + e / 2 * 8, column = j * 8 + lane % 4 * 2 + e % 2;
      double sum = p.first ? 0 : p.sums[j][e];
      for (unsigned k = p.k; k < p.k + 16u; ++k)
        sum += p.lines ? static_cast<double>(p.rows[e / 2][k]) * at(p.b + column / 64 * p.lines * 64, k, column % 64)
                       : static_cast<double>(at(p.a, row, k)) * at(p.b, column, k);
      p.sums[j][e] = static_cast<float>(sum);
    }
}
inline void open_group_product(float (*sums)[4], const void* a, const void* b, int k, int columns, bool bf16,
                               bool first) {
  const auto lines = [](const void* p) { return static_cast<const unsigned short*>(p); };
  group_products[mslx_current()->tiitg].open.push_back({sums, lines(a), lines(b), k, columns, bf16, first});
}
inline void open_transposed_product(float (*sums)[4], const unsigned* a, const void* b, int lines, int columns,
                                    bool bf16, unsigned site) {
  Fragments mine{};
  std::memcpy(mine.a, a, sizeof mine.a);
  const auto warp = meet(mine, site);
  GroupProduct p{sums, nullptr, static_cast<const unsigned short*>(b), 0, columns, bf16};
  p.lines = lines;
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned word = warp.of(warp.lane / 4 * 4 + k % 8 / 2).a[half + k / 8 * 2];
      const auto bits = static_cast<unsigned short>(word >> 16 * (k % 2));
      p.rows[half][k] = bf16 ? bf16_value(bits) : f16_to_float(bits);
    }
  group_products[mslx_current()->tiitg].open.push_back(p);
}
#define HARNESS_GROUP(type, columns)                                                                          \
  inline void multiply_group_##type##_##columns(float(*sums)[4], const void* a, const void* b, int k) {       \
    open_group_product(sums, a, b, k, columns, sizeof #type == sizeof "bf16", false);                         \
  }                                                                                                           \
  inline void multiply_first_group_##type##_##columns(float(*sums)[4], const void* a, const void* b, int k) { \
    open_group_product(sums, a, b, k, columns, sizeof #type == sizeof "bf16", true);                          \
  }                                                                                                           \
  inline void multiply_transposed_group_##type##_##columns(float(*sums)[4], const unsigned* a, const void* b, \
                                                           int lines, HARNESS_SITE) {                         \
    open_transposed_product(sums, a, b, lines, columns, sizeof #type == sizeof "bf16", line * 256 + column);  \
  }
HARNESS_GROUP(f16, 64)
HARNESS_GROUP(f16, 96)
HARNESS_GROUP(f16, 128)
HARNESS_GROUP(f16, 144)
HARNESS_GROUP(f16, 160)
HARNESS_GROUP(f16, 192)
HARNESS_GROUP(f16, 256)
HARNESS_GROUP(bf16, 64)
HARNESS_GROUP(bf16, 96)
HARNESS_GROUP(bf16, 128)
HARNESS_GROUP(bf16, 144)
HARNESS_GROUP(bf16, 160)
HARNESS_GROUP(bf16, 192)
HARNESS_GROUP(bf16, 256)
template <typename T, int n>
void hold(T (&)[n][4]) {}
inline void begin_group() {}
inline void acquire_section() {}  // no memory depends on who has the section
inline void release_section() {}
inline void show_words() {}
inline void commit_group() {
  GroupProducts& mine = group_products[mslx_current()->tiitg];
  mine.committed.push_back(std::move(mine.open));
  mine.open.clear();
}
template <int later>
void wait_group(HARNESS_SITE) {
  GroupProducts& mine = group_products[mslx_current()->tiitg];
  while (mine.committed.size() > later) {
    for (const GroupProduct& p : mine.committed.front()) multiply_group(p);
    mine.committed.erase(mine.committed.begin());
  }
  meet(0, line * 256 + column);
}

// Barriers in shared memory, and copies that arrive there: when somebody has waited for them in vain, the last first.
struct Mbarrier {
  unsigned char expected, pending, phase, unused;
  int bytes;
};
struct BulkCopy {
  void* to;
  const void* from;
  unsigned bytes;
  unsigned long long* at;
};
inline thread_local std::vector<BulkCopy> bulk_copies;  // of the one block that a thread of the machine runs at a time
// Copies of a thread that arrives behind them.
struct LateArrival {
  std::vector<Copy> copies;
  unsigned long long* at;
};
inline thread_local std::vector<LateArrival> late_arrivals;
inline Mbarrier& mbarrier(unsigned long long* at) { return *reinterpret_cast<Mbarrier*>(at); }
inline void mbarrier_flip(Mbarrier& b) {
  if (b.pending == 0 && b.bytes == 0) b.phase ^= 1, b.pending = b.expected, mslx_change();
}
inline void mbarrier_start(unsigned long long* at, unsigned count) {
  bulk_copies.clear(), late_arrivals.clear();
  mbarrier(at) = {static_cast<unsigned char>(count), static_cast<unsigned char>(count), 0, 0, 0};
}
inline void mbarrier_arrive(unsigned long long* at) {
  Mbarrier& b = mbarrier(at);
  if (b.pending == 0) mslx_fail("more arrive on a barrier than it expects");
  --b.pending;
  mbarrier_flip(b);
}
inline void mbarrier_arrive_times(unsigned long long* at, unsigned times) {
  for (; times > 0; --times) mbarrier_arrive(at);
}
inline void mbarrier_expect(unsigned long long* at, unsigned bytes) {
  mbarrier(at).bytes += static_cast<int>(bytes);
  mbarrier_arrive(at);
}
// Copies that it waits for arrive, one after the other.
inline bool mbarrier_over(unsigned long long* at, unsigned parity) {
  if (mbarrier(at).phase != parity) return true;
  const auto is_here = [&](const auto& copy) { return copy.at == at; };
  if (std::any_of(late_arrivals.begin(), late_arrivals.end(), is_here) ||
      std::any_of(bulk_copies.begin(), bulk_copies.end(), is_here))
    mslx_yield();
  else
    mslx_yield_until_change();
  for (size_t i = late_arrivals.size(); i-- > 0;) {
    if (late_arrivals[i].at != at) continue;
    for (const Copy& c : late_arrivals[i].copies) {
      std::memset(c.to, 0, 16);
      std::memcpy(c.to, c.from, c.bytes);
    }
    late_arrivals.erase(late_arrivals.begin() + static_cast<long>(i));
    mbarrier_arrive(at);
    break;
  }
  for (size_t i = bulk_copies.size(); i-- > 0;) {
    const BulkCopy c = bulk_copies[i];
    if (c.at != at) continue;
    bulk_copies.erase(bulk_copies.begin() + static_cast<long>(i));
    std::memcpy(c.to, c.from, c.bytes);
    mbarrier(at).bytes -= static_cast<int>(c.bytes);
    mbarrier_flip(mbarrier(at));
    break;
  }
  return mbarrier(at).phase != parity;
}
inline void mbarrier_wait(unsigned long long* at, unsigned parity) {
  while (!mbarrier_over(at, parity)) {
  }
}
inline void arrive_behind_copies(unsigned long long* at) {
  Copies& mine = my_copies();
  for (const Copy& c : mine.open) std::memset(c.to, 0xff, 16);  // what was there is gone
  late_arrivals.push_back({std::move(mine.open), at});
  mslx_change();
  mine.open.clear();
}
inline void mbarrier_wait_both(unsigned long long* one, unsigned long long* other, unsigned parity) {
  mbarrier_wait(one, parity), mbarrier_wait(other, parity);
}
inline bool is_elected() { return mslx_current()->tiitg % 32 == 0; }
inline void copy_bulk(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  if (reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16 || bytes % 16)
    mslx_fail("a copy in bulk that is not of whole words");
  std::memset(to, 0xff, bytes);  // what a slot held is gone
  bulk_copies.push_back({to, from, bytes, at});
  mslx_change();
}

inline void copy_bulk_once(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  copy_bulk(to, from, bytes, at);
}

// A barrier of the first 256 threads of a block. Its memory begins as ones.
struct BlockMeeting {
  unsigned come, generation;
};
inline void meet_block() {
  constexpr unsigned site = 90001, all = 256;
  auto* const meeting = static_cast<BlockMeeting*>(mslx_tg_alloc(site, sizeof(BlockMeeting)));
  if (mslx_current()->tiitg >= all) mslx_fail("a thread that does not compute meets those that do");
  const unsigned generation = meeting->generation;
  if (++meeting->come == all - 1) {
    meeting->come = ~0U, ++meeting->generation;
    mslx_change();
    return;
  }
  while (meeting->generation == generation) mslx_yield_until_change();
}

// Blocks run on threads of the machine.
inline unsigned long long count_in(unsigned long long* counter) {
  return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}
inline unsigned long long count_seen(const unsigned long long* counter) {
  return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}
inline void pause() { mslx_yield(); }
inline unsigned clocks() {
  static thread_local unsigned now = 0;
  return now += 100;
}
inline void prefetch_l2(const void* at) { (void)*static_cast<const volatile char*>(at); }
template <int left>
void take_registers() {}
template <int then>
void give_registers() {}
inline void count_hint(unsigned long long* counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
inline unsigned long long hint_seen(const unsigned long long* counter) {
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
// Aligned words of 16 bytes, which the machine's vector moves write and read whole.
typedef unsigned WholeWord __attribute__((vector_size(16)));
inline void write_whole(uint4* to, const uint4 word) {
  if (reinterpret_cast<uintptr_t>(to) % 16) mslx_fail("a word that is not aligned");
  *reinterpret_cast<volatile WholeWord*>(to) = WholeWord{word.x, word.y, word.z, word.w};
}
inline uint4 read_whole(const uint4* from) {
  const WholeWord word = *reinterpret_cast<const volatile WholeWord*>(from);
  return {word[0], word[1], word[2], word[3]};
}
