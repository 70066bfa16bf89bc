// oneDNN behind one door: the engine, convolutions, products, and the differences between its v2 and v3 API.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/product/conv_spec.h"
#include "base/dtype.h"
#include "kernel/facts/epilogue_chain.h"

namespace npusim::cpu::product::onednn {

struct PrimitiveCache;  // engine, primitives by shape, reordered weights by address
std::shared_ptr<PrimitiveCache> make_primitive_cache();

// Whether this machine multiplies bf16 numbers and adds their products in f32 (AVX512_BF16, AMX).
bool multiplies_bf16();

// values[i] = max(values[i], 0), on all of oneDNN's threads; NaN may become 0.
void apply_relu(PrimitiveCache& cache, float* values, int64_t count);

// rows x depth times depth x columns; elements of a row of src and dst lie side by side.
struct ProductSpec {
  ElementTypes types;
  int64_t rows = 1, columns = 1, depth = 1;
  int64_t src_stride = 0, dst_stride = 0;               // between rows
  int64_t weight_column_stride = 0, weight_stride = 0;  // between columns, along the depth
  bool bias = false;
  std::vector<EpilogueOp> ops;
  std::vector<int64_t> add_strides;  // of each op that adds, between rows; 0: broadcast
};

struct PrimitiveMemory {
  const void* src = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* dst = nullptr;
  std::vector<const void*> adds;
  DType weight_type = DType::f32;  // of what is packed
  bool packs_weight = false;       // its contents change: every run packs it anew
};

// A primitive bound to its memory, a constant weight already in the layout it prefers.
class BoundPrimitive {
 public:
  virtual ~BoundPrimitive() = default;
  virtual void run() = 0;
  virtual std::string implementation() const = 0;
  // Of a convolution: it copies all windows and multiplies matrices.
  bool by_products() const { return implementation().find("gemm") != std::string::npos; }
  size_t scratch_bytes = 0;
  // What may lie in scratch, where not null, and oneDNN's own workspace, which does.
  struct Scratch {
    void* workspace = nullptr;
    void *src = nullptr, *weight = nullptr, *dst = nullptr;
  };
  virtual void rebind(const Scratch& scratch) = 0;
};
// A primitive, or why there is none: oneDNN has no implementation, only its reference, which is a hundred times slower
// than any other implementation, or one known to be wrong.
struct MadePrimitive {
  std::unique_ptr<BoundPrimitive> primitive;
  std::string declined;
};
// Activations may turn NaN into numbers: see nan_guard.h. The weight is kept in the cache under its address; `wide`,
// when not null, is what it holds as f32, and needed only now.
MadePrimitive make_convolution(PrimitiveCache& cache, const ConvSpec& spec, const PrimitiveMemory& memory,
                               const float* wide);
MadePrimitive make_product(PrimitiveCache& cache, const ProductSpec& spec, const PrimitiveMemory& memory);

}  // namespace npusim::cpu::product::onednn
