// A GPU's context, its memory, and pinned host memory through which large uploads go.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/architecture.h"
#include "backends/cuda/driver.h"
#include "runtime/backend.h"

namespace npusim::cuda {

// What a device is, without opening it.
struct DeviceFacts {
  int handle = 0;
  Architecture architecture;
  std::string description;  // "NVIDIA H200, sm_90, 139.8 GiB"
  uint64_t multiprocessors = 0;
  uint32_t shared_bytes = 0;  // of a multiprocessor
};
DeviceFacts ask_device(int index);

// Code that was loaded.
struct LoadedModule {
  Module handle = nullptr;
  Context context = nullptr;
  ~LoadedModule();
};

// One device with its primary context, which the process shares; used by any number of threads.
class Device {
 public:
  explicit Device(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Context context() const { return context_; }
  const Architecture& architecture() const { return facts_.architecture; }
  const std::string& name() const { return name_; }  // "cuda:0"
  const std::string& description() const { return facts_.description; }
  const DeviceFacts& facts() const { return facts_; }

  // Equal code is loaded once, as long as somebody has it. `where` names it in messages.
  std::shared_ptr<const LoadedModule> load(const Code& code, const std::string& where);

 private:
  std::string name_;
  DeviceFacts facts_;
  Context context_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, size_t>, std::weak_ptr<const LoadedModule>> modules_;  // by hash and size of the image
};

// The context is the thread's while this lives.
class Current {
 public:
  explicit Current(Context context) { check(driver().push_context(context), "cuCtxPushCurrent"); }
  ~Current() {
    Context popped = nullptr;
    driver().pop_context(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

class CudaBuffer : public DeviceBuffer {
 public:
  CudaBuffer(const Device& device, size_t bytes);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  size_t bytes() const override { return bytes_; }
  std::byte* host() override { return nullptr; }
  std::uintptr_t address() override { return static_cast<std::uintptr_t>(address_); }
  DevicePointer at(size_t offset) const { return address_ + offset; }

 private:
  const Device& device_;
  size_t bytes_;
  DevicePointer address_ = 0;
};

inline DevicePointer address_of(const Placement& placement) {
  return static_cast<const CudaBuffer*>(placement.buffer)->at(placement.offset);
}

// Page-locked memory of the host, which the device reads and writes by itself.
class PinnedMemory {
 public:
  PinnedMemory(const Device& device, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  const Device& device_;
  std::byte* data_ = nullptr;
};

// A few pinned blocks: while the device reads one, the host's threads fill the next. Of a device, made by the first
// large upload.
class Staging {
 public:
  explicit Staging(const Device& device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // In the stream's order; `from` may change once this returns. The device's context is current.
  void upload(std::span<const std::byte> from, DevicePointer to, Stream stream);

 private:
  struct Slot {
    std::unique_ptr<PinnedMemory> memory;
    Event done = nullptr;
  };
  void make();

  const Device& device_;
  std::mutex mutex_;
  Slot slots_[4];
  size_t next_ = 0;
};

}  // namespace npusim::cuda
