// The interfaces a device implements: memory, and methods made ready to run. backends/null is the folder to copy.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// Device memory. The backend that allocated it must outlive it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual size_t bytes() const = 0;
  // Address for the host, or nullptr when the host cannot reach it.
  virtual std::byte* host() = 0;
};

// Where one of the program's buffers is.
struct Placement {
  DeviceBuffer* buffer = nullptr;
  size_t offset = 0;      // bytes
  bool constant = false;  // contents are final: may be packed now
};

// The steps of one method with everything resolved: pointers, packed parameters, code, scratch.
class DeviceMethod {
 public:
  virtual ~DeviceMethod() = default;
  // Runs all steps in order and waits. Allocates nothing. Throws device errors (an index out of range, …).
  virtual void run() = 0;
  // Runs one step: profiling and bisecting.
  virtual void run_step(size_t step) = 0;
  // How a step is executed ("oneDNN gemm 128x768x768 f32", "loops"), for describe and profiles.
  virtual std::string step_info(size_t step) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;                              // "cpu"
  virtual std::string description() const = 0;                       // "Intel Xeon …, 2 threads, AVX-512"
  virtual std::unique_ptr<DeviceBuffer> allocate(size_t bytes) = 0;  // zero-filled
  // Memory that already is there (a mapped weight file), copied only when the device cannot read it.
  virtual std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) = 0;
  virtual void upload(DeviceBuffer& to, size_t offset, std::span<const std::byte> from) = 0;
  virtual void download(const DeviceBuffer& from, size_t offset, std::span<std::byte> to) = 0;
  // `placements[i]` is where program.buffers[i] is (only those the steps name must be set).
  virtual std::unique_ptr<DeviceMethod> prepare(const Program& program, std::span<const Step> steps,
                                                std::span<const Placement> placements) = 0;
};

struct DeviceOptions {
  int index = 0;    // cuda:1
  int threads = 0;  // host threads; 0: all available
};

struct DeviceInfo {
  std::string name;         // "cpu"
  std::string description;  // what it is, or why it cannot be used
  bool usable = false;
};

// "cpu", "null", "cuda:0": throws usage for an unknown name, device when it cannot be opened.
std::unique_ptr<Backend> open_backend(const std::string& device, int threads);
// Every backend of this build and what it found. Both are generated from the folders of backends/.
std::vector<DeviceInfo> list_devices();

}  // namespace npusim
