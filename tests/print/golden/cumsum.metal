#include <metal_stdlib>
using namespace metal;

static inline long wrap_add(long a, long b) { return (long)((ulong)a + (ulong)b); }

// cumsum: [3, 21], the last 1 the row
// in0 int32[63] out0 int64[63] out1 float32[63]
// 1 blocks of 128 threads, one thread a row
kernel void cumsum_95258cd00067ce6d(
    device const int* in0 [[buffer(0)]],
    device long* out0 [[buffer(1)]],
    device float* out1 [[buffer(2)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int row = block_index * 128 + thread_index;
  if (row >= 3) return;
  const int i0 = row;
  long cumsum_1 = 0L;
  long max_2 = (-9223372036854775807L - 1);
  for (int i1 = 0; i1 < 21; ++i1) {
    const int x_0 = in0[i0 * 21 + i1];
    cumsum_1 = wrap_add(cumsum_1, x_0);
    max_2 = max(max_2, (long)cumsum_1);
  }
  const long add_4 = wrap_add(max_2, 1);
  const float cast_6 = (float)add_4;
  cumsum_1 = 0L;
  for (int i1 = 0; i1 < 21; ++i1) {
    const int x_0 = in0[i0 * 21 + i1];
    cumsum_1 = wrap_add(cumsum_1, x_0);
    out0[i0 * 21 + i1] = cumsum_1;
    const float cast_5 = (float)cumsum_1;
    const float div_7 = cast_5 / cast_6;
    out1[i0 * 21 + i1] = div_7;
  }
}
