// A device that is wrong where a program runs and right where its parts are tried alone: the CPU, but for attention of
// 16 bits without a mask, which from its third stage of keys on reads others than it should.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernel/evaluate.h"
#include "kernel/facts/attention_axes.h"
#include "runtime/backend.h"

namespace npusim {

inline constexpr int64_t keys_of_stage = 128;

// Keys of the stage n + 1 begin at n + 128 where they should at (n + 1) · 128: a sum before a product, pasted without
// parentheses.
inline int64_t wrong_key(int64_t key) {
  const int64_t stage = key / keys_of_stage;
  return stage < 2 ? key : stage - 1 + keys_of_stage + key % keys_of_stage;
}

class WrongKeys : public Backend {
 public:
  WrongKeys() : inner_(open_backend("cpu")) {}
  std::string name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override { return inner_->wrap(memory); }
  std::unique_ptr<Queue> open_queue(int threads) override { return std::make_unique<WrongQueue>(*inner_, threads); }

 private:
  static bool is_wrong(const Kernel& k) {
    if (!k.contraction || k.contraction->kind != ContractionKind::attention) return false;
    const bool halves = dtype_size(k.args[static_cast<size_t>(k.contraction->b.arg)].dtype) == 2;
    return halves && k.contraction->score->accesses.empty() && k.contraction->reduce[0] > 2 * keys_of_stage;
  }

  class WrongSegment : public Segment {
   public:
    WrongSegment(const StepRange& range, std::unique_ptr<Segment> inner, std::span<const Placement> placements)
        : range_(range), inner_(std::move(inner)), placements_(placements.begin(), placements.end()) {}
    void enqueue() override {
      for (size_t n = 0; n < range_.count; ++n) enqueue_step(range_.first + n);
    }
    void enqueue_step(size_t step) override {
      const Step& s = range_.sequence.steps[step];
      const Kernel& k = range_.program.kernels[static_cast<size_t>(s.kernel)];
      if (!is_wrong(k)) return inner_->enqueue_step(step);
      std::vector<void*> args;
      for (const int32_t id : s.buffers) {
        const Placement& place = placements_[static_cast<size_t>(id)];
        args.push_back(place.buffer->host() + place.offset);
      }
      const auto axes = attention_axes(k);
      const Access& keys = axes->swapped ? k.contraction->score->a : k.contraction->score->b;
      const auto row = static_cast<size_t>(keys.strides[static_cast<size_t>(axes->keys.dims[0])]) * 2;  // bytes
      const auto* from = static_cast<const std::byte*>(args[static_cast<size_t>(keys.arg)]);
      std::vector<std::byte> read(from, from + static_cast<size_t>(axes->keys.size()) * row);
      for (int64_t key = 0; key < axes->keys.size(); ++key)
        std::memcpy(read.data() + static_cast<size_t>(key) * row, from + static_cast<size_t>(wrong_key(key)) * row,
                    row);
      args[static_cast<size_t>(keys.arg)] = read.data();
      evaluate(k, args);
    }
    StepInfo step_info(size_t step) const override { return inner_->step_info(step); }

   private:
    const StepRange range_;
    std::unique_ptr<Segment> inner_;
    std::vector<Placement> placements_;
  };

  class WrongQueue : public Queue {
   public:
    WrongQueue(Backend& device, int threads) : inner_(device.open_queue(threads)) {}
    void upload(std::span<const std::byte> from, const Placement& to) override { inner_->upload(from, to); }
    void download(const Placement& from, std::span<std::byte> to) override { inner_->download(from, to); }
    void clear(const Placement& place, size_t bytes) override { inner_->clear(place, bytes); }
    void wait() override { inner_->wait(); }
    std::unique_ptr<Segment> prepare(const StepRange& steps, std::span<const Placement> placements) override {
      return std::make_unique<WrongSegment>(steps, inner_->prepare(steps, placements), placements);
    }

   private:
    std::unique_ptr<Queue> inner_;
  };

  std::shared_ptr<Backend> inner_;
};

}  // namespace npusim
