__device__ __forceinline__ long long wrap_add(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }

// cumsum: [3, 21], the last 1 the row
// in0 int32[63] out0 int64[63] out1 float32[63]
// 1 blocks of 128 threads, one thread a row
extern "C" __global__ void __launch_bounds__(128) cumsum_95258cd00067ce6d(
    const int* __restrict__ in0,
    long long* __restrict__ out0,
    float* __restrict__ out1) {
  const int row = blockIdx.x * 128 + threadIdx.x;
  if (row >= 3) return;
  const int i0 = row;
  long long cumsum_1 = 0LL;
  long long max_2 = (-9223372036854775807LL - 1);
  for (int i1 = 0; i1 < 21; ++i1) {
    const int x_0 = in0[i0 * 21 + i1];
    cumsum_1 = wrap_add(cumsum_1, x_0);
    max_2 = max(max_2, (long long)cumsum_1);
  }
  const long long add_4 = wrap_add(max_2, 1);
  const float cast_6 = (float)add_4;
  cumsum_1 = 0LL;
  for (int i1 = 0; i1 < 21; ++i1) {
    const int x_0 = in0[i0 * 21 + i1];
    cumsum_1 = wrap_add(cumsum_1, x_0);
    out0[i0 * 21 + i1] = cumsum_1;
    const float cast_5 = (float)cumsum_1;
    const float div_7 = cast_5 / cast_6;
    out1[i0 * 21 + i1] = div_7;
  }
}
