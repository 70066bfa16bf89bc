// A device that allocates and copies like any other and whose kernels do nothing: for measuring what is not the device.
#include "backends/null/device.h"

#include <cstring>

#include "base/error.h"

namespace npusim::null {
namespace {

// Memory that the host cannot reach: host() is nullptr, and upload() and download() move data.
class NullBuffer : public DeviceBuffer {
 public:
  explicit NullBuffer(size_t bytes) : data_(bytes) {}
  size_t bytes() const override { return data_.size(); }
  std::byte* host() override { return nullptr; }
  std::byte* at(size_t offset) { return data_.data() + offset; }

 private:
  std::vector<std::byte> data_;
};

std::byte* memory_at(const Placement& placement) {
  return static_cast<NullBuffer*>(placement.buffer)->at(placement.offset);
}

// All that running needs is resolved when this is made: here a device loads code, packs parameters, records graphs.
class NullSegment : public Segment {
 public:
  void enqueue() override {}
  void enqueue_step(size_t) override {}
  StepInfo step_info(size_t) const override { return {"nothing", {}}; }
};

// Work is done at once here; a real device only notes it down, and wait() waits and throws what went wrong.
class NullQueue : public Queue {
 public:
  void upload(std::span<const std::byte> from, const Placement& to) override {
    if (!from.empty()) std::memcpy(memory_at(to), from.data(), from.size());
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), memory_at(from), to.size());
  }
  void clear(const Placement& placement, size_t bytes) override {
    if (bytes > 0) std::memset(memory_at(placement), 0, bytes);
  }
  void wait() override {}
  std::unique_ptr<Segment> prepare(const StepRange&, std::span<const Placement>) override {
    return std::make_unique<NullSegment>();
  }
};

class NullBackend : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::string description() const override { return "does nothing, on any machine"; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<NullBuffer>(bytes); }
  // A device that reads host memory keeps the pointer instead.
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte>) override { return nullptr; }
  std::unique_ptr<Queue> open_queue(int) override { return std::make_unique<NullQueue>(); }
};

}  // namespace

std::shared_ptr<Backend> open_device(int index) {
  if (index != 0) fail(ErrorKind::usage, "device null:{}: there is one, null", index);
  return std::make_shared<NullBackend>();
}
DeviceInfo probe_device() { return {"null", "does nothing, on any machine", true}; }

}  // namespace npusim::null
