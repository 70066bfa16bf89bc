// Types of elements that CUDA C++ lacks without headers, and words of 16 bytes of them.
#pragma once

// ---- INFINITY
#define INFINITY __int_as_float(0x7f800000)

// ---- NAN
#define NAN __int_as_float(0x7fffffff)

// ---- f16
typedef unsigned short f16;

// ---- bf16
typedef unsigned short bf16;

// ---- Lanes
template <typename T, int N>
struct Lanes {
  union {
    uint4 words[N * sizeof(T) / 16];
    T at[N];
  };
};

// ---- read_lanes
template <typename T, int N>
__device__ __forceinline__ void read_lanes(Lanes<T, N>& to, const T* from) {
#pragma unroll
  for (int i = 0; i < N * sizeof(T) / 16; ++i) to.words[i] = ((const uint4*)from)[i];
}

// ---- clear_lanes
template <typename T, int N>
__device__ __forceinline__ void clear_lanes(Lanes<T, N>& to) {
#pragma unroll
  for (int i = 0; i < N; ++i) to.at[i] = 0;
}

// ---- write_lanes
template <typename T, int N>
__device__ __forceinline__ void write_lanes(const Lanes<T, N>& from, T* to) {
#pragma unroll
  for (int i = 0; i < N * sizeof(T) / 16; ++i) ((uint4*)to)[i] = from.words[i];
}
