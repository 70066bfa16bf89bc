// The CPU as a device whose memory the host reaches through the queue only, and which counts what goes through it.
#pragma once
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/backend.h"

namespace npusim::test {

// Calls and bytes.
struct Crossings {
  std::atomic<uint64_t> uploads = 0, uploaded = 0, downloads = 0, downloaded = 0;
};

class HiddenBuffer : public DeviceBuffer {
 public:
  explicit HiddenBuffer(std::unique_ptr<DeviceBuffer> inner) : inner_(std::move(inner)) {}
  size_t bytes() const override { return inner_->bytes(); }
  std::byte* host() override { return nullptr; }
  DeviceBuffer* inner() { return inner_.get(); }

 private:
  std::unique_ptr<DeviceBuffer> inner_;
};

class HiddenQueue : public Queue {
 public:
  HiddenQueue(std::unique_ptr<Queue> inner, Crossings& count) : inner_(std::move(inner)), count_(count) {}
  void upload(std::span<const std::byte> from, const Placement& to) override {
    ++count_.uploads;
    count_.uploaded += from.size();
    inner_->upload(from, reached(to));
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    ++count_.downloads;
    count_.downloaded += to.size();
    inner_->download(reached(from), to);
  }
  void clear(const Placement& place, size_t bytes) override { inner_->clear(reached(place), bytes); }
  void wait() override { inner_->wait(); }
  std::unique_ptr<Segment> prepare(const StepRange& steps, std::span<const Placement> placements) override {
    std::vector<Placement> all(placements.size());
    for (size_t i = steps.first; i < steps.first + steps.count; ++i)
      for (const int32_t id : steps.sequence.steps[i].buffers)
        all[static_cast<size_t>(id)] = reached(placements[static_cast<size_t>(id)]);
    return inner_->prepare(steps, all);
  }

 private:
  static Placement reached(Placement place) {
    place.buffer = static_cast<HiddenBuffer*>(place.buffer)->inner();
    return place;
  }

  std::unique_ptr<Queue> inner_;
  Crossings& count_;
};

class HiddenMemory : public Backend {
 public:
  explicit HiddenMemory(std::shared_ptr<Crossings> count) : count_(std::move(count)) {}
  std::string name() const override { return "hidden"; }
  std::string description() const override { return "the CPU behind a queue"; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override {
    return std::make_unique<HiddenBuffer>(cpu_->allocate(bytes));
  }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte>) override { return nullptr; }
  std::unique_ptr<Queue> open_queue(int threads) override {
    return std::make_unique<HiddenQueue>(cpu_->open_queue(threads), *count_);
  }

 private:
  std::shared_ptr<Backend> cpu_ = open_backend("cpu");
  std::shared_ptr<Crossings> count_;
};

}  // namespace npusim::test
