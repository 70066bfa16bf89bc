// Flags of invalid operations, taken from all threads.
#include "backends/cpu/product/onednn/nan_guard.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "backends/cpu/product/onednn/onednn.h"
#include "backends/cpu/product/simd.h"
#include "base/threads.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace npusim::cpu::product::onednn {
namespace {

// This thread's flag, which is lowered.
bool take_flag() {
#if defined(__x86_64__)
  const unsigned state = _mm_getcsr();
  if (!(state & _MM_EXCEPT_INVALID)) return false;
  _mm_setcsr(state & ~static_cast<unsigned>(_MM_EXCEPT_INVALID));
#endif
  return true;
}

// Any thread's of the team: no other has done any of the step's work.
bool take_flags() {
  std::atomic<bool> found = false;
  auto take = [&](int) {
    if (take_flag()) found = true;
  };
  on_team(take);
  return found;
}

// Two steps of one kernel, of which a run takes the first or, where its results are not to be had so, the second.
class TwoSteps : public BoundStep {
 public:
  TwoSteps(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact)
      : fast_(std::move(fast)), exact_(std::move(exact)) {
    scratch_bytes_ = std::max(fast_->scratch_bytes(), exact_->scratch_bytes());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    fast_->set_scratch(scratch);
    exact_->set_scratch(scratch);
  }
  std::string describe() const override { return fast_->describe(); }

 protected:
  std::unique_ptr<BoundStep> fast_, exact_;
};

class GuardedStep final : public TwoSteps {
 public:
  using TwoSteps::TwoSteps;
  void run() override {
    fast_->run();
    if (!take_flags()) return;
    fast_->run();  // the flag may have been raised by a step before
    if (!take_flags()) return;
    exact_->run();
    take_flags();
    met_nan_ = true;
  }
  std::string describe() const override { return fast_->describe() + (met_nan_ ? ", again for NaN" : ""); }

 private:
  bool met_nan_ = false;
};

class FiniteStep final : public TwoSteps {
 public:
  FiniteStep(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact, DType dtype, const std::byte* data,
             int64_t count, int threads)
      : TwoSteps(std::move(fast), std::move(exact)), dtype_(dtype), data_(data), count_(count), threads_(threads) {}
  void run() override {
    std::atomic<bool> finite = true;
    on_threads(threads_, [&](int thread) {
      const int64_t begin = count_ * thread / threads_, end = count_ * (thread + 1) / threads_;
      if (!all_finite(dtype_, data_ + begin * static_cast<int64_t>(dtype_size(dtype_)), 0, 1, end - begin))
        finite = false;
    });
    (finite ? fast_ : exact_)->run();
  }

 private:
  DType dtype_;
  const std::byte* data_;
  int64_t count_;
  int threads_;
};

}  // namespace

bool sees_lost_nan(PrimitiveCache& primitives) {
  constexpr int64_t share = 16 << 10;  // floats, enough for oneDNN to give every thread some
  const int64_t count = thread_count() * share;
  std::vector<float> values(static_cast<size_t>(count), 1);
  take_flags();
  apply_relu(primitives, values.data(), count);
  if (take_flags()) return false;
  values.back() = std::numeric_limits<float>::quiet_NaN();  // the last thread's
  apply_relu(primitives, values.data(), count);
  return take_flags();
}

bool repeatable(const Kernel& kernel) {
  const auto kept = [&](const Access& read) {
    return std::none_of(kernel.args.begin(), kernel.args.end(),
                        [&](const KernelArg& arg) { return arg.updates >= 0 && arg.updates == read.arg; });
  };
  return kept(kernel.contraction->a) && kept(kernel.contraction->b) &&
         std::all_of(kernel.accesses.begin(), kernel.accesses.end(), kept);
}

bool may_lose_nan(const std::vector<EpilogueOp>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const EpilogueOp& op) {
    return op.activation == Activation::clip || op.activation == Activation::logistic;
  });
}

std::unique_ptr<BoundStep> guard_nan(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact) {
  return std::make_unique<GuardedStep>(std::move(fast), std::move(exact));
}

std::unique_ptr<BoundStep> guard_finite(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact, DType dtype,
                                        const void* data, int64_t count, const Context& context) {
  return std::make_unique<FiniteStep>(std::move(fast), std::move(exact), dtype, static_cast<const std::byte*>(data),
                                      count, context.threads);
}

}  // namespace npusim::cpu::product::onednn
