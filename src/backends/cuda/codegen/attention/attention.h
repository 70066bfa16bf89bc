// Attention in one kernel: a block keeps some rows, walks the keys once and never stores a score.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "plan/attention.h"

namespace npusim::cuda::codegen::attention {

using plan::Attention;

// 16 rows to a warp. Warps along the keys share rows: each has its own keys of every stage, and what they found is put
// together in their order.
struct AttentionShape {
  int warps_along_rows = 4, warps_along_keys = 1;
  int keys_of_warp = 64;  // of a stage, a multiple of 16
  int groups = 0;         // of four warps along the rows, which multiply what lies in shared memory; sm_90a alone
  int rows() const { return 16 * warps_along_rows; }
  int keys() const { return warps_along_keys * keys_of_warp; }
  int threads() const { return 32 * warps_along_rows * warps_along_keys; }
};

// Why it is better made of products; "" if it is not.
std::string attention_declines(const Attention& attention);
// Of the keys, where there are few rows, so that all multiprocessors have some: 1: it stays whole; 0: it needs them,
// but the keys do not have them.
int64_t pieces_of(const Attention& attention, const Features& features);
AttentionShape choose_attention(const Attention& attention, const Features& features);
GeneratedKernel make_attention(const Kernel& kernel, const Attention& attention, const AttentionShape& shape);

}  // namespace npusim::cuda::codegen::attention
