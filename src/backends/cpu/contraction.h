// Steps that execute kernels with a contraction (matmul, convolution, attention) on the host CPU.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernel/kernel.h"

namespace npusim::cpu {

struct WeightCache;     // prepacked weights (matmul.h)
struct PrimitiveCache;  // oneDNN engine and primitives (onednn.h)

// What the steps of one process share. The caches hold data derived from constant bindings, keyed by address: they
// must not outlive the weights they were given.
struct Context {
  int threads = 1;
  std::shared_ptr<WeightCache> weights;
  std::shared_ptr<PrimitiveCache> primitives;
  bool bf16 = false;      // the machine has arithmetic for bf16 operands
  bool sees_nan = false;  // where a library loses a NaN is seen (nan_guard.h): it may apply activations
  bool multiplies(DType type) const { return type == DType::f32 || (type == DType::bf16 && bf16); }  // else widened
};
Context make_context(int threads);

// Memory of one kernel argument. constant: the contents never change after construction and may be packed then.
struct Binding {
  void* data = nullptr;
  bool constant = false;
};

// One entry of an executor with everything bound at construction. Steps run one after another, so all of an
// executor's steps share one block of scratch: the largest scratch_bytes(), 64-byte aligned, set before run().
class Step {
 public:
  virtual ~Step() = default;
  virtual void run() = 0;  // allocates nothing
  virtual std::string describe() const = 0;
  size_t scratch_bytes() const { return scratch_bytes_; }
  virtual void set_scratch(void* scratch) { scratch_ = static_cast<std::byte*>(scratch); }

 protected:
  size_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
};

// One binding per kernel argument, those written included. The kernel must satisfy check_kernel().
std::unique_ptr<Step> make_contraction_step(const Kernel& kernel, std::span<const Binding> args,
                                            const Context& context);

}  // namespace npusim::cpu
