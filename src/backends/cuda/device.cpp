// Queues are streams; a segment is a graph of its launches, made once.
#include "backends/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/memory.h"
#include "backends/cuda/probe.h"
#include "backends/cuda/segment.h"
#include "base/error.h"
#include "base/threads.h"

namespace npusim::cuda {
namespace {

constexpr size_t staged = size_t{1} << 20;  // bytes from which on an upload goes through pinned memory

class CudaQueue : public Queue {
 public:
  CudaQueue(Device& device, Staging& staging, int threads) : device_(device), staging_(staging), threads_(threads) {
    const Current current(device.context());
    constexpr unsigned apart_from_others = 1;  // CU_STREAM_NON_BLOCKING
    check(driver().create_stream(&work_.stream, apart_from_others), "cuStreamCreate");
    constexpr unsigned without_time = 2;  // CU_EVENT_DISABLE_TIMING
    const Status status = driver().create_event(&others_, without_time);
    if (status != 0) driver().destroy_stream(work_.stream);
    check(status, "cuEventCreate");
  }
  ~CudaQueue() override {
    if (driver().push_context(device_.context()) != 0) return;
    driver().wait_stream(work_.stream);
    driver().destroy_event(others_);
    driver().destroy_stream(work_.stream);
    Context popped = nullptr;
    driver().pop_context(&popped);
  }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void upload(std::span<const std::byte> from, const Placement& to) override {
    if (from.empty()) return;
    const Current current(device_.context());
    if (from.size() < staged) {
      check(driver().to_device(address_of(to), from.data(), from.size(), work_.stream), "cuMemcpyHtoDAsync");
      return;
    }
    const ThreadCount threads(threads_);
    staging_.upload(from, address_of(to), work_.stream);
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    if (to.empty()) return;
    const Current current(device_.context());
    check(driver().to_host(to.data(), address_of(from), to.size(), work_.stream), "cuMemcpyDtoHAsync");
  }
  void copy_in(std::uintptr_t from, const Placement& to, size_t bytes) override {
    copy(static_cast<DevicePointer>(from), address_of(to), bytes);
  }
  void copy_out(const Placement& from, std::uintptr_t to, size_t bytes) override {
    copy(address_of(from), static_cast<DevicePointer>(to), bytes);
  }
  void clear(const Placement& placement, size_t bytes) override {
    if (bytes == 0) return;
    const Current current(device_.context());
    check(driver().set_bytes(address_of(placement), 0, bytes, work_.stream), "cuMemsetD8Async");
  }
  void wait() override {
    const Current current(device_.context());
    work_.wait();
  }
  std::unique_ptr<Segment> prepare(const StepRange& range, std::span<const Placement> placements) override {
    const Current current(device_.context());
    return std::make_unique<CudaSegment>(device_, work_, range, placements);
  }

 private:
  // The stream waits for what others have given the default stream; the host does not.
  void copy(DevicePointer from, DevicePointer to, size_t bytes) {
    const Current current(device_.context());
    auto* const default_stream = reinterpret_cast<Stream>(std::uintptr_t{1});  // CU_STREAM_LEGACY
    check(driver().record_event(others_, default_stream), "cuEventRecord");
    check(driver().follow_event(work_.stream, others_, 0), "cuStreamWaitEvent");
    check(driver().copy(to, from, bytes, work_.stream), "cuMemcpyDtoDAsync");
  }

  Device& device_;
  Staging& staging_;
  int threads_;
  Work work_;
  Event others_ = nullptr;  // what the default stream has done
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int index) : device_(index), staging_(device_) {}
  std::string name() const override { return device_.name(); }
  std::string description() const override { return device_.description(); }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<CudaBuffer>(device_, bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte>) override { return nullptr; }
  std::unique_ptr<Queue> open_queue(int threads) override {
    return std::make_unique<CudaQueue>(device_, staging_, threads);
  }
  DeviceLimits measure() override { return measure_limits(device_); }
  int fit(const Code& code) const override { return cuda::fit(code, device_.architecture()); }

 private:
  Device device_;
  Staging staging_;
};

std::string describe_devices() {
  int count = 0, version = 0;
  check(driver().device_count(&count), "cuDeviceGetCount");
  if (count == 0) fail(ErrorKind::device, "cuda: the driver has no devices");
  check(driver().version(&version), "cuDriverGetVersion");
  const std::string first = ask_device(0).description;
  const std::string more = count > 1 ? fmt::format("; {} devices", count) : "";
  return fmt::format("{}, driver {}.{}{}", first, version / 1000, version % 1000 / 10, more);
}

}  // namespace

std::shared_ptr<Backend> open_device(int index) { return std::make_shared<CudaBackend>(index); }

DeviceInfo probe_device() {
  try {
    return {"cuda", describe_devices(), true};
  } catch (const Error& error) {
    std::string text = error.what();
    if (text.starts_with("cuda: ")) text.erase(0, 6);
    return {"cuda", text, false};
  }
}

}  // namespace npusim::cuda
