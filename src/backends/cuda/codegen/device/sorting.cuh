// Rows in order: numbers for elements, runs of a thread, and of two runs what they come to.
#pragma once

// ---- ordered_float
// Numbers that are ordered as elements are: NaN behind all others, both zeros the same.
__device__ __forceinline__ unsigned ordered_float(float x) {
  const unsigned bits = x == 0.0f ? 0u : __float_as_uint(x);
  return x != x ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// ---- ordered_double
__device__ __forceinline__ unsigned long long ordered_double(double x) {
  const unsigned long long sign = 0x8000000000000000ull;
  const unsigned long long bits = x == 0.0 ? 0ull : (unsigned long long)__double_as_longlong(x);
  return x != x ? ~0ull : bits & sign ? ~bits : bits | sign;
}

// ---- ordered_half
__device__ __forceinline__ unsigned ordered_half(unsigned bits, unsigned infinity) {
  const unsigned size = bits & 0x7fffu;
  return size > infinity ? 0xffffu : size == 0u || bits < 0x8000u ? size | 0x8000u : bits ^ 0xffffu;
}

// ---- Indexed
struct Indexed {
  unsigned long long number;
  unsigned index;
};
__device__ __forceinline__ bool operator<(const Indexed& a, const Indexed& b) {
  return a.number < b.number || (a.number == b.number && a.index < b.index);
}

// ---- spread
// Items of a thread lie one behind the other, with room between those of two threads, so that banks differ.
template <int count>
__device__ __forceinline__ int spread(int n) {
  return count == 1 ? n : n + (int)((unsigned)n / count);
}

// ---- sort_own
template <int count, typename T>
__device__ __forceinline__ void sort_own(T* own) {
#pragma unroll
  for (int pass = 0; pass < count; ++pass) {
#pragma unroll
    for (int i = pass % 2; i + 1 < count; i += 2) {
      const T a = own[i], b = own[i + 1];
      const bool swaps = b < a;
      own[i] = swaps ? b : a;
      own[i + 1] = swaps ? a : b;
    }
  }
}

// ---- merge_own
// Of two sorted runs, [begin, middle) and [middle, end): `count` items of the run that they come to, behind the
// first `from`, of which as many are the left one's as come before what the right one would have there instead.
template <int count, typename T>
__device__ __forceinline__ void merge_own(T* own, const T* items, int begin, int middle, int end, int from) {
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
}
