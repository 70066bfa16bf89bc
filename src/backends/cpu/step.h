// What executes one step of a program on the host CPU: a kernel bound to its memory, and what such steps share.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "kernel/kernel.h"

namespace npusim::cpu {

namespace product {
struct WeightCache;   // prepacked weights (product/packed_weight.h)
struct SharedInputs;  // of one segment's steps (product/packed_weight.h)
namespace onednn {
struct PrimitiveCache;  // oneDNN engine and primitives (product/onednn/onednn.h)
}
}  // namespace product

// What the steps of one process share. The caches hold data derived from constant bindings, keyed by address: they
// must not outlive the weights they were given.
struct Context {
  int threads = 1;
  std::shared_ptr<product::WeightCache> weights;
  std::shared_ptr<product::onednn::PrimitiveCache> primitives;
  std::shared_ptr<product::SharedInputs> inputs;  // of the segment that steps are made for
  bool bf16 = false;                              // the machine has arithmetic for bf16 operands
  bool sees_nan = false;  // a lost NaN is seen (product/onednn/nan_guard.h): libraries may apply activations
  bool multiplies(DType type) const { return type == DType::f32 || (type == DType::bf16 && bf16); }  // else widened
};

// Memory of one kernel argument. constant: the contents never change after construction and may be packed then.
struct Binding {
  void* data = nullptr;
  bool constant = false;
};

// One step with everything bound at construction. Steps run one after another, so all steps of a method share one block
// of scratch: the largest scratch_bytes(), 64-byte aligned, set before run().
class BoundStep {
 public:
  virtual ~BoundStep() = default;
  virtual void run() = 0;  // allocates nothing
  virtual std::string describe() const = 0;
  size_t scratch_bytes() const { return scratch_bytes_; }
  virtual void set_scratch(void* scratch) { scratch_ = static_cast<std::byte*>(scratch); }

 protected:
  size_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
};

// What an implementation says to a kernel: its step, or why it declines, in words for who reads "gemv: 128 rows". To
// know whether a library has an implementation is to have made it, so asking and making are one.
struct Answer {
  std::unique_ptr<BoundStep> step;
  std::string declined;
};
inline Answer accept(std::unique_ptr<BoundStep> step) { return {std::move(step), {}}; }
inline Answer decline(std::string why) { return {nullptr, std::move(why)}; }

// About how long one thread takes, of what is in its caches: an estimate by bytes and arithmetic.
double step_ns(const Kernel& kernel);
// From how much work on a team pays: to share it costs some 4 us where threads search for work, which they do behind a
// step that was shared, and 20 where they sleep. The second thread saves at most half of it, and more where its half is
// in its cache.
inline constexpr double worth_sharing_ns = 8000, worth_team_ns = 20000;

// Stores that add to memory need the order of one thread.
int usable_threads(const Kernel& kernel, const Context& context);

}  // namespace npusim::cpu
