// Products of 16 x 8 x 16 elements by a warp (mma), their operands, and what lanes have of them.
#pragma once

// ---- load_matrices
// Four matrices of 8 x 8 elements; lane 8 i + r gives where row r of matrix i is.
__device__ __forceinline__ void load_matrices(unsigned* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}

// ---- load_matrices_transposed
__device__ __forceinline__ void load_matrices_transposed(unsigned* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}

// ---- transpose_matrix
// Of 8 x 8 elements, lane 4 r + c has two of row r: those of column r, which stand in a row of the result.
__device__ __forceinline__ unsigned transpose_matrix(unsigned two) {
  unsigned transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(two));
  return transposed;
}

// ---- multiply_f16
// sums += a (16 x 16) · b (16 x 8)
__device__ __forceinline__ void multiply_f16(float* sums, const unsigned* a, const unsigned* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- multiply_bf16
__device__ __forceinline__ void multiply_bf16(float* sums, const unsigned* a, const unsigned* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- pack_f16
// Two elements of a fragment, the first below.
__device__ __forceinline__ unsigned pack_f16(float first, float second) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
}

// ---- pack_bf16
__device__ __forceinline__ unsigned pack_bf16(float first, float second) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
}

// ---- own_columns
// A lane's own two columns of each of `count` of four tiles of eight, and zeros behind them.
__device__ __forceinline__ void own_columns(float* columns, const float (*sums)[4], const int half, const int count) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) columns[2 * n + e] = n < count ? sums[n][half * 2 + e] : 0;
}

// ---- take_columns
// Of four neighbouring lanes, each has two columns of `count` tiles of eight: the n-th gets all columns of tile n.
__device__ __forceinline__ void take_columns(float* columns, const float (*sums)[4], const int half, const int count) {
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
}
