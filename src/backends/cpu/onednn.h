// oneDNN behind one door: the engine, convolutions, and the differences between its v2 and v3 API.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/contraction_postops.h"

namespace npusim::cpu {

struct PrimitiveCache;  // engine, primitives by shape, reordered weights by address
std::shared_ptr<PrimitiveCache> make_primitive_cache();

// A convolution of f32 tensors. Lists run over the spatial dimensions; strides over [n, channel, spatial…] and, of the
// weight, over [group, out channel, in channel, spatial…]. Channels of the weight are per group.
struct ConvSpec {
  int64_t batch = 1, groups = 1, out_channels = 1, in_channels = 1;
  std::vector<int64_t> input, output, kernel, stride, dilation, pad_low, pad_high;
  std::vector<int64_t> src_strides, weight_strides, dst_strides;
  bool bias = false;
  std::vector<PostOp> ops;
  std::vector<std::vector<int64_t>>
      add_strides;  // of each op that adds, over [n, channel, spatial…]; empty: along channels
};

struct ConvMemory {
  const void* src = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* dst = nullptr;
  std::vector<const void*> adds;
};

// A convolution bound to its memory, the weight already in the layout the primitive prefers.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual void run() = 0;
  virtual const char* implementation() const = 0;
  size_t scratch_bytes = 0;
  // Moves what lies in scratch: oneDNN's own workspace, and src or dst when not null.
  virtual void rebind(void* workspace, void* src, void* dst) = 0;
};
// nullptr when oneDNN has no implementation. The weight is kept in the cache under its address; `wide`, when not null,
// is what it holds as f32, and needed only now.
std::unique_ptr<Convolution> make_convolution(PrimitiveCache& cache, const ConvSpec& spec, const ConvMemory& memory,
                                              const float* wide);

}  // namespace npusim::cpu
