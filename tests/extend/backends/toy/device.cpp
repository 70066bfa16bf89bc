// A remote device in miniature: the host reaches its memory through the queue only, work is done later and by another
// thread, and memory is full of NaN until it is written. It finds what a device that shares the host's memory forgives.
#include "backends/toy/device.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "kernel/evaluate.h"

namespace npusim::toy {
namespace {

class ToyBuffer : public DeviceBuffer {
 public:
  explicit ToyBuffer(size_t bytes) : data_(bytes, std::byte{0xff}) {}
  size_t bytes() const override { return data_.size(); }
  std::byte* host() override { return nullptr; }
  std::byte* at(size_t offset) { return data_.data() + offset; }

 private:
  std::vector<std::byte> data_;
};

std::byte* memory_at(const Placement& place) { return static_cast<ToyBuffer*>(place.buffer)->at(place.offset); }

struct BoundStep {
  const Kernel* kernel = nullptr;
  std::vector<void*> args;  // final addresses
  std::string name;
};

// One entry of the queue. Host memory is read and written when the entry's turn comes.
struct Command {
  enum class Kind { upload, download, clear, step } kind = Kind::step;
  std::span<const std::byte> from = {};
  std::span<std::byte> to = {};
  std::byte* device = nullptr;  // upload, download, clear
  size_t bytes = 0;
  const BoundStep* step = nullptr;
};

void execute(const Command& c) {
  switch (c.kind) {
    case Command::Kind::upload:
      std::memcpy(c.device, c.from.data(), c.from.size());
      break;
    case Command::Kind::download:
      std::memcpy(c.to.data(), c.device, c.to.size());
      break;
    case Command::Kind::clear:
      std::memset(c.device, 0, c.bytes);
      break;
    case Command::Kind::step:
      try {
        evaluate(*c.step->kernel, c.step->args, true);
      } catch (const Error& error) {
        throw Error(error.kind(), "node " + c.step->name + ": " + error.what());
      }
  }
}

class ToySegment : public Segment {
 public:
  ToySegment(const StepRange& range, std::span<const Placement> placements, class ToyQueue& queue)
      : first_(range.first), queue_(queue) {
    for (size_t i = 0; i < range.count; ++i) {
      const Step& step = range.sequence.steps[first_ + i];
      BoundStep& bound = steps_.emplace_back();
      bound.kernel = &range.program.kernels[static_cast<size_t>(step.kernel)];
      bound.name = step_name(range.program, step);
      for (int32_t id : step.buffers) bound.args.push_back(memory_at(placements[static_cast<size_t>(id)]));
    }
  }
  void enqueue() override;
  void enqueue_step(size_t step) override;
  StepInfo step_info(size_t) const override { return {"scalar interpreter", {}}; }

 private:
  size_t first_;
  ToyQueue& queue_;
  std::vector<BoundStep> steps_;
};

class ToyQueue : public Queue {
 public:
  ToyQueue() : worker_([this] { work(); }) {}
  ~ToyQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void upload(std::span<const std::byte> from, const Placement& to) override {
    if (!from.empty()) push({.kind = Command::Kind::upload, .from = from, .device = memory_at(to)});
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    if (!to.empty()) push({.kind = Command::Kind::download, .to = to, .device = memory_at(from)});
  }
  void clear(const Placement& place, size_t bytes) override {
    if (bytes > 0) push({.kind = Command::Kind::clear, .device = memory_at(place), .bytes = bytes});
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == commands_.size(); });
    commands_.clear();
    done_ = 0;
    if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  }
  std::unique_ptr<Segment> prepare(const StepRange& range, std::span<const Placement> placements) override {
    return std::make_unique<ToySegment>(range, placements, *this);
  }

  void push(const Command& command) {
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(command);
    }
    changed_.notify_all();
  }

 private:
  // After a failure what is left in the queue is dropped: wait() tells.
  void work() {
    std::unique_lock lock(mutex_);
    for (size_t turn = 0;; ++turn) {
      changed_.wait(lock, [&] { return stop_ || done_ < commands_.size(); });
      if (done_ == commands_.size()) return;
      const Command command = commands_[done_];
      const bool failed = failure_ != nullptr;
      lock.unlock();
      std::exception_ptr failure;
      if (turn % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      try {
        if (!failed) execute(command);
      } catch (const Error&) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;  // since the last wait()
  size_t done_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread worker_;
};

void ToySegment::enqueue() {
  for (const BoundStep& step : steps_) queue_.push({.step = &step});
}
void ToySegment::enqueue_step(size_t step) { queue_.push({.step = &steps_[step - first_]}); }

class ToyBackend : public Backend {
 public:
  std::string name() const override { return "toy"; }
  std::string description() const override { return "the scalar interpreter, in memory of its own"; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override {
    if (bytes > size_t{1} << 32)
      fail(ErrorKind::device, "toy: expected at most {} bytes, found {}", size_t{1} << 32, bytes);
    return std::make_unique<ToyBuffer>(bytes);
  }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte>) override { return nullptr; }
  std::unique_ptr<Queue> open_queue(int) override { return std::make_unique<ToyQueue>(); }
};

}  // namespace

std::shared_ptr<Backend> open_device(int) { return std::make_shared<ToyBackend>(); }
DeviceInfo probe_device() { return {"toy", "the scalar interpreter, in memory of its own", true}; }

}  // namespace npusim::toy
