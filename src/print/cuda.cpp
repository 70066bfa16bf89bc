// CUDA C++ for NVRTC without headers: 16-bit floats are bits, converted by PTX or by integer arithmetic.
#include "print/cuda_group.h"
#include "print/dialect.h"

namespace npusim {
namespace {

constexpr Dialect::Call calls[] = {
    {ExprOp::abs, "fabsf", "fabs"},     {ExprOp::exp, "expf", "exp"},       {ExprOp::exp2, "exp2f", "exp2"},
    {ExprOp::expm1, "expm1f", "expm1"}, {ExprOp::log, "logf", "log"},       {ExprOp::log2, "log2f", "log2"},
    {ExprOp::log10, "log10f", "log10"}, {ExprOp::log1p, "log1pf", "log1p"}, {ExprOp::sqrt, "sqrtf", "sqrt"},
    {ExprOp::rsqrt, "rsqrtf", "rsqrt"}, {ExprOp::sin, "sinf", "sin"},       {ExprOp::cos, "cosf", "cos"},
    {ExprOp::tan, "tanf", "tan"},       {ExprOp::asin, "asinf", "asin"},    {ExprOp::acos, "acosf", "acos"},
    {ExprOp::atan, "atanf", "atan"},    {ExprOp::sinh, "sinhf", "sinh"},    {ExprOp::cosh, "coshf", "cosh"},
    {ExprOp::tanh, "tanhf", "tanh"},    {ExprOp::asinh, "asinhf", "asinh"}, {ExprOp::acosh, "acoshf", "acosh"},
    {ExprOp::atanh, "atanhf", "atanh"}, {ExprOp::erf, "erff", "erf"},       {ExprOp::erfc, "erfcf", "erfc"},
    {ExprOp::floor, "floorf", "floor"}, {ExprOp::ceil, "ceilf", "ceil"},    {ExprOp::round, "rintf", "rint"},
    {ExprOp::trunc, "truncf", "trunc"}, {ExprOp::isnan, "isnan", "isnan"},  {ExprOp::pow, "powf", "pow"},
    {ExprOp::fmod, "fmodf", "fmod"},    {ExprOp::atan2, "atan2f", "atan2"},
};

constexpr Dialect::Helper helpers[] = {
    {"INFINITY", "#define INFINITY __int_as_float(0x7f800000)"},
    {"NAN", "#define NAN __int_as_float(0x7fffffff)"},
    {"f16", "typedef unsigned short f16;"},
    {"bf16", "typedef unsigned short bf16;"},
    {"Lanes", R"(template <typename T, int N>
struct Lanes {
  union {
    uint4 words[N * sizeof(T) / 16];
    T at[N];
  };
};)"},
    {"read_lanes", R"(template <typename T, int N>
$fn void read_lanes(Lanes<T, N>& to, const T* from) {
#pragma unroll
  for (int i = 0; i < N * sizeof(T) / 16; ++i) to.words[i] = ((const uint4*)from)[i];
})"},
    {"clear_lanes", R"(template <typename T, int N>
$fn void clear_lanes(Lanes<T, N>& to) {
#pragma unroll
  for (int i = 0; i < N; ++i) to.at[i] = 0;
})"},
    {"write_lanes", R"(template <typename T, int N>
$fn void write_lanes(const Lanes<T, N>& from, T* to) {
#pragma unroll
  for (int i = 0; i < N * sizeof(T) / 16; ++i) ((uint4*)to)[i] = from.words[i];
})"},
    // Numbers that are ordered as elements are: NaN behind all others, both zeros the same.
    {"ordered_float", R"($fn unsigned ordered_float(float x) {
  const unsigned bits = x == 0.0f ? 0u : __float_as_uint(x);
  return x != x ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
})"},
    {"ordered_double", R"($fn unsigned long long ordered_double(double x) {
  const unsigned long long sign = 0x8000000000000000ull;
  const unsigned long long bits = x == 0.0 ? 0ull : (unsigned long long)__double_as_longlong(x);
  return x != x ? ~0ull : bits & sign ? ~bits : bits | sign;
})"},
    {"ordered_half", R"($fn unsigned ordered_half(unsigned bits, unsigned infinity) {
  const unsigned size = bits & 0x7fffu;
  return size > infinity ? 0xffffu : size == 0u || bits < 0x8000u ? size | 0x8000u : bits ^ 0xffffu;
})"},
    {"Placed", R"(struct Placed {
  unsigned long long number;
  unsigned place;
};
$fn bool operator<(const Placed& a, const Placed& b) {
  return a.number < b.number || (a.number == b.number && a.place < b.place);
})"},
    // Items of a thread lie one behind the other, with room between those of two threads, so that banks differ.
    {"spread", R"(template <int count>
$fn int spread(int n) {
  return count == 1 ? n : n + (int)((unsigned)n / count);
})"},
    {"sort_own", R"(template <int count, typename T>
$fn void sort_own(T* own) {
#pragma unroll
  for (int turn = 0; turn < count; ++turn) {
#pragma unroll
    for (int i = turn % 2; i + 1 < count; i += 2) {
      const T a = own[i], b = own[i + 1];
      const bool turns = b < a;
      own[i] = turns ? b : a;
      own[i + 1] = turns ? a : b;
    }
  }
})"},
    // Of two sorted runs, [begin, middle) and [middle, end): `count` items of the run that they come to, behind the
    // first `from`, of which as many are the left one's as come before what the right one would have there instead.
    {"merge_own", R"(template <int count, typename T>
$fn void merge_own(T* own, const T* items, int begin, int middle, int end, int from) {
  int low = max(0, from - (end - middle)), high = min(from, middle - begin);
  while (low < high) {
    const int taken = (low + high) / 2;
    if (items[spread<count>(middle + from - 1 - taken)] < items[spread<count>(begin + taken)])
      high = taken;
    else
      low = taken + 1;
  }
  int left = begin + low, right = middle + from - low;
  T a = items[spread<count>(left)], b = items[spread<count>(right)];
#pragma unroll
  for (int e = 0; e < count; ++e) {
    const bool is_left = right >= end || (left < middle && a < b);
    own[e] = is_left ? a : b;
    const T next = items[spread<count>(is_left ? ++left : ++right)];
    if (is_left)
      a = next;
    else
      b = next;
  }
})"},
    // What is behind this launch may start.
    {"lead", R"($fn void lead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
})"},
    // Until all before this launch has ended. What it wrote is read through pointers that went through behind(): reads
    // of a pointer that nothing writes through could be moved before the wait.
    {"follow", R"($fn void follow() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
})"},
    {"behind", R"(template <typename T>
$fn T* behind(T* memory) {
  asm volatile("" : "+l"(memory));
  return memory;
})"},
    // Of all threads of the blocks of a cluster.
    {"meet_cluster", R"(template <int blocks>
$fn void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
})"},
    // The same place of shared memory in the cluster's block of this number.
    {"of_piece", R"(template <int blocks, typename T>
$fn const T* of_piece(const T* mine, int block) {
  unsigned long long there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(block));
  return (const T*)there;
})"},
    // To shared memory, without waiting; zeros where it is not there.
    {"copy_async", R"($fn void copy_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
})"},
    // The same of a word's first bytes, through the first level of caches; zeros behind them.
    {"copy_part", R"($fn void copy_part(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes)
               : "memory");
})"},
    {"commit_copies", R"($fn void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); })"},
    // Until at most `later` of the commits are under way.
    {"wait_copies", R"(template <int later>
$fn void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
})"},
    // Four matrices of 8 x 8 elements; lane 8 i + r gives where row r of matrix i is.
    {"load_matrices", R"($fn void load_matrices(unsigned* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
})"},
    {"load_matrices_turned", R"($fn void load_matrices_turned(unsigned* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
})"},
    // Of 8 x 8 elements, lane 4 r + c has two of row r: those of column r, which stand in a row of the result.
    {"turn_matrix", R"($fn unsigned turn_matrix(unsigned two) {
  unsigned turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
  return turned;
})"},
    // sums += a (16 x 16) · b (16 x 8)
    {"multiply_f16", R"($fn void multiply_f16(float* sums, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
})"},
    {"multiply_bf16", R"($fn void multiply_bf16(float* sums, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
})"},
    // Lines of 64 elements of 16 bits, from element k on, whose words are turned by the number of the line; eight lines
    // are a kilobyte.
    {"group_matrix", R"($fn unsigned long long group_matrix(const void* lines, int k) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(lines) + k * 2;
  return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
})"},
    // Of a warpgroup, four warps: warp w has rows 16 w to 16 w + 15. They are under way until they are waited for.
    {"multiply_group_f16_64", multiply_group<64, false>.view()},
    {"multiply_group_f16_128", multiply_group<128, false>.view()},
    {"multiply_group_f16_96", multiply_group<96, false>.view()},
    {"multiply_group_f16_144", multiply_group<144, false>.view()},
    {"multiply_group_f16_160", multiply_group<160, false>.view()},
    {"multiply_group_f16_192", multiply_group<192, false>.view()},
    {"multiply_group_f16_256", multiply_group<256, false>.view()},
    {"multiply_group_bf16_64", multiply_group<64, true>.view()},
    {"multiply_group_bf16_128", multiply_group<128, true>.view()},
    {"multiply_group_bf16_96", multiply_group<96, true>.view()},
    {"multiply_group_bf16_144", multiply_group<144, true>.view()},
    {"multiply_group_bf16_160", multiply_group<160, true>.view()},
    {"multiply_group_bf16_192", multiply_group<192, true>.view()},
    {"multiply_group_bf16_256", multiply_group<256, true>.view()},
    // Lines of 64 elements turned likewise, of which 16 are the depth; the next 64 columns lie `lines` lines further.
    {"group_matrix_turned", R"($fn unsigned long long group_matrix_turned(const void* first, int lines) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(lines * 8) << 16 | 64ull << 32 | 1ull << 62;
})"},
    {"multiply_first_group_f16_64", multiply_group<64, false, GroupForm::first>.view()},
    {"multiply_first_group_f16_128", multiply_group<128, false, GroupForm::first>.view()},
    {"multiply_first_group_bf16_64", multiply_group<64, true, GroupForm::first>.view()},
    {"multiply_first_group_bf16_128", multiply_group<128, true, GroupForm::first>.view()},
    {"multiply_turned_group_f16_64", multiply_group<64, false, GroupForm::turned>.view()},
    {"multiply_turned_group_f16_128", multiply_group<128, false, GroupForm::turned>.view()},
    {"multiply_turned_group_f16_256", multiply_group<256, false, GroupForm::turned>.view()},
    {"multiply_turned_group_bf16_64", multiply_group<64, true, GroupForm::turned>.view()},
    {"multiply_turned_group_bf16_128", multiply_group<128, true, GroupForm::turned>.view()},
    {"multiply_turned_group_bf16_256", multiply_group<256, true, GroupForm::turned>.view()},
    // What a group made is read behind this and not before; what it takes is there before.
    {"hold", R"(template <int n>
$fn void hold(float (&sums)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}
template <int n>
$fn void hold(unsigned (&words)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("" : "+r"(words[i][0]), "+r"(words[i][1]), "+r"(words[i][2]), "+r"(words[i][3])::"memory");
})"},
    // The larger ones of the lower and of the upper halves.
    {"max_halves", R"($fn unsigned max_halves(unsigned a, unsigned b) {
  unsigned larger;
  asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
})"},
    {"begin_group", R"($fn void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); })"},
    {"commit_group", R"($fn void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); })"},
    {"wait_group", R"(template <int later>
$fn void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
})"},
    // What this thread wrote to shared memory, for warpgroups to multiply.
    {"show_words", R"($fn void show_words() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); })"},
    // Two elements of a fragment, the first below.
    {"pack_f16", R"($fn unsigned pack_f16(float first, float second) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
})"},
    {"pack_bf16", R"($fn unsigned pack_bf16(float first, float second) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
})"},
    // e to the x, to a few steps of float32.
    {"exp_near", R"($fn float exp_near(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
})"},
    // 2 to the x, to a few steps of float32; below the smallest normal number it is 0.
    {"exp2_near", R"($fn float exp2_near(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
})"},
    // The second half of a block's 256 threads waits for the first one to give it the turn, each as often as the other.
    {"take_turn", R"($fn void take_turn() { asm volatile("bar.sync 1, 256;" ::: "memory"); })"},
    {"give_turn", R"($fn void give_turn() { asm volatile("bar.arrive 1, 256;" ::: "memory"); })"},
    // What a method that is one launch needs, of sm_90: barriers in shared memory, on which copies arrive.
    {"mbarrier_start", R"($fn void mbarrier_start(unsigned long long* at, unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n"
               "fence.mbarrier_init.release.cluster;\n"
               "fence.proxy.async.shared::cta;" ::"r"((unsigned)__cvta_generic_to_shared(at)), "r"(count)
               : "memory");
})"},
    {"mbarrier_arrive", R"($fn void mbarrier_arrive(unsigned long long* at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
})"},
    {"mbarrier_arrive_times", R"($fn void mbarrier_arrive_times(unsigned long long* at, unsigned times) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(at)), "r"(times)
               : "memory");
})"},
    // Arrives, and expects copies of so many bytes.
    {"mbarrier_expect", R"($fn void mbarrier_expect(unsigned long long* at, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(at)),
               "r"(bytes)
               : "memory");
})"},
    // Until the phase of this parity is over.
    {"mbarrier_wait", R"($fn void mbarrier_wait(unsigned long long* at, unsigned parity) {
  unsigned over = 0;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(parity)
                 : "memory");
  } while (!over);
})"},
    // The same of two of one parity.
    {"mbarrier_wait_both",
     R"($fn void mbarrier_wait_both(unsigned long long* one, unsigned long long* other, unsigned parity) {
  unsigned over = 0;
  do {
    asm volatile("{\n.reg .pred p, q;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %3;\n"
                 "mbarrier.try_wait.parity.shared.b64 q, [%2], %3;\nand.pred p, p, q;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"((unsigned)__cvta_generic_to_shared(one)), "r"((unsigned)__cvta_generic_to_shared(other)), "r"(parity)
                 : "memory");
  } while (!over);
})"},
    // Of a warp that is together, one thread; what it does then is known to be done once.
    {"is_elected", R"($fn bool is_elected() {
  unsigned one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
  return one;
})"},
    // To shared memory, in multiples of 16 bytes; arrives on the barrier.
    {"copy_bulk", R"($fn void copy_bulk(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   (unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(at))
               : "memory");
})"},
    // The same of what is read once: the cache gives it up before anything else.
    {"copy_bulk_once", R"($fn void copy_bulk_once(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  unsigned long long first;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          (unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(at)), "l"(first)
      : "memory");
})"},
    // When all copies that this thread asked for before have come, it arrives.
    {"arrive_behind_copies", R"($fn void arrive_behind_copies(unsigned long long* at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"((unsigned)__cvta_generic_to_shared(at))
               : "memory");
})"},
    // A lane's own two columns of each of `count` of four tiles of eight, and zeros behind them.
    {"own_columns", R"($fn void own_columns(float* columns, const float (*sums)[4], const int half, const int count) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) columns[2 * n + e] = n < count ? sums[n][half * 2 + e] : 0;
})"},
    // Of four neighbouring lanes, each has two columns of `count` tiles of eight: the n-th gets all columns of tile n.
    {"take_columns", R"($fn void take_columns(float* columns, const float (*sums)[4], const int half, const int count) {
  float own[4][2];
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) own[n][e] = n < count ? sums[n][half * 2 + e] : 0;
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (!(n & bit)) {
          const float other = __shfl_xor_sync(0xffffffffu, upper ? own[n][e] : own[n | bit][e], bit);
          if (upper)
            own[n][e] = other;
          else
            own[n | bit][e] = other;
        }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) columns[2 * n + e] = own[n][e];
})"},
    // Of the first 256 threads.
    {"meet_block", R"($fn void meet_block() { asm volatile("bar.sync 1, 256;" ::: "memory"); })"},
    // Adds one to a counter that all blocks see, behind all that the thread knows to be done; what it was.
    {"count_in", R"($fn unsigned long long count_in(unsigned long long* counter) {
  unsigned long long before;
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(counter) : "memory");
  return before;
})"},
    {"count_seen", R"($fn unsigned long long count_seen(const unsigned long long* counter) {
  unsigned long long seen;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(counter) : "memory");
  return seen;
})"},
    // A line of memory into the cache that all blocks see, without waiting.
    {"bring_nearer",
     R"($fn void bring_nearer(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); })"},
    // Of four warps, which then have so many for each thread.
    {"take_registers", R"(template <int left>
$fn void take_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(left));
})"},
    {"give_registers", R"(template <int then>
$fn void give_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(then));
})"},
    {"pause", "$fn void pause() {}"},
    {"clocks", R"($fn unsigned clocks() {
  unsigned now;
  asm volatile("mov.u32 %0, %clock;" : "=r"(now));
  return now;
})"},
    // 16 bytes at once, so that who reads some of them has all, and in no order with other memory.
    {"write_whole", R"($fn void write_whole(uint4* to, const uint4 word) {
  const unsigned long long low = word.x | (unsigned long long)word.y << 32, high = word.z | (unsigned long long)word.w << 32;
  asm volatile("{\n.reg .b128 q;\nmov.b128 q, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], q;\n}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
})"},
    {"read_whole", R"($fn uint4 read_whole(const uint4* from) {
  unsigned long long low, high;
  asm volatile("{\n.reg .b128 q;\nld.relaxed.gpu.global.b128 q, [%2];\nmov.b128 {%0, %1}, q;\n}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  uint4 word;
  word.x = (unsigned)low, word.y = (unsigned)(low >> 32), word.z = (unsigned)high, word.w = (unsigned)(high >> 32);
  return word;
})"},
    {"count_hint", R"($fn void count_hint(unsigned long long* counter) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(counter) : "memory");
})"},
    {"hint_seen", R"($fn unsigned long long hint_seen(const unsigned long long* counter) {
  unsigned long long seen;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(counter) : "memory");
  return seen;
})"},
    // a / b, where neither they nor what is between them is too large or too small: who calls asks that of the least
    // and the most of many, and else divides. In the order in which the compiler divides.
    {"quotient", R"($fn float quotient(const float a, const float b, float& least, float& most) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1.0f), inverse);
  const float near = a * inverse;
  least = fminf(least, fminf(fabsf(a), fabsf(b)));
  most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));
  return __fmaf_rn(inverse, __fmaf_rn(-b, near, a), near);
})"},
    // a / b of a b that is at least 1, to a few steps of float32. The inverse of a quarter is never too small.
    {"quotient_near", R"($fn float quotient_near(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b * 0.25f));
  return a * 0.25f * inverse;
})"},
    {"f16_to_float", R"($fn float f16_to_float(f16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
})"},
    {"float_to_f16", R"($fn f16 float_to_f16(float x) {
  f16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
})"},
    {"bf16_to_float", "$fn float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }"},
    {"float_to_bf16", R"($fn bf16 float_to_bf16(float x) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(0.0f), "f"(x));
  return (bf16)bits;
})"},
    {"nan_min", R"($fn float nan_min(float a, float b) {
  float x;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
})"},
    {"nan_max", R"($fn float nan_max(float a, float b) {
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
})"},
};

}  // namespace

constinit const Dialect cuda_dialect{
    .name = "CUDA C++",
    .file_extension = ".cu",
    .scalars = {"bool", "long long", "float", "double"},
    .narrow = "int",
    .uint = "unsigned",
    .ulong = "unsigned long long",
    .long_suffix = "LL",
    .elements = {{{"unsigned char", "({0} != 0)", "{0}"},
                  {"unsigned char", "{0}", "(unsigned char){0}"},
                  {"signed char", "{0}", "(signed char){0}"},
                  {"short", "{0}", "(short){0}"},
                  {"int", "{0}", "(int){0}"},
                  {"long long", "{0}", "{0}"},
                  {"f16", "f16_to_float({0})", "float_to_f16({0})"},
                  {"bf16", "bf16_to_float({0})", "float_to_bf16({0})"},
                  {"float", "{0}", "{0}"},
                  {"double", "{0}", "{0}"}}},
    .prologue = "",
    .kernel = "extern \"C\" __global__ void __launch_bounds__({2}) {0}(\n    {1}) {{\n",
    .read_arg = "const {0}*{3} {1}",
    .write_arg = "{0}*{3} {1}",
    .no_alias = " __restrict__",
    .trap_arg = "int* __restrict__ trap",
    .index_args = "",
    .block = "blockIdx.x",
    .thread = "threadIdx.x",
    .shared = "__shared__ {0} {1}[{2}];",
    .barrier = "__syncthreads();",
    .memory_barrier = "__syncthreads();",
    .argument_space = "",
    .shared_space = "",
    .shuffles = {"", "__shfl_xor_sync(0xffffffffu, {0}, {1})", "__shfl_xor_sync(0xffffffffu, {0}, {1})",
                 "__shfl_xor_sync(0xffffffffu, {0}, {1})"},
    .quotients = true,
    .exp_near = "exp_near({0})",
    .exp_beside_one = "exp2_near({0} * 1.44269504f)",
    .quotient_near = "quotient_near({0}, {1})",
    .words = "Lanes<{0}, {1}>",
    .function = "__device__ __forceinline__",
    .trap_type = "int*",
    .raise = "*trap = code;",
    .calls = calls,
    .helpers = helpers,
    .max_threads = 1024,
    .max_args = 500,  // 4 KiB of parameters
    .max_blocks = 0x7fffffff,
};

}  // namespace npusim
