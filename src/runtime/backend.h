// The interfaces a device implements: memory, a queue of work, steps made ready. backends/null is the folder to copy,
// and tests/conformance says whether a device does what is written here.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "npusim/device.h"
#include "program/program.h"

namespace npusim {

// Device memory; its contents are unspecified until they are written. The backend that allocated it outlives it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual size_t bytes() const = 0;
  // Address for the host, which may use the memory whenever no queue is at work on it; nullptr when the host cannot
  // reach it.
  virtual std::byte* host() = 0;
  // Address for code of others on the same device; 0 where there is none.
  virtual std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(host()); }
};

// Where one of the program's buffers is.
struct Placement {
  DeviceBuffer* buffer = nullptr;
  size_t offset = 0;      // bytes
  bool constant = false;  // contents are final: may be packed now
};

// `count` consecutive steps of a method or of the recipes, none of them a transfer.
struct StepRange {
  const Program& program;
  const Sequence& sequence;
  size_t first = 0, count = 0;
};

// Steps with everything resolved: addresses, packed parameters, code, scratch. Belongs to the queue that prepared it.
class Segment {
 public:
  virtual ~Segment() = default;
  // All steps in order. Allocates nothing.
  virtual void enqueue() = 0;
  // After an enqueue() that threw, or a wait() behind it: how many of its steps were begun, at most. A device that does
  // not know says all.
  virtual size_t begun() const { return SIZE_MAX; }
  // The step at this position of the sequence, alone: profiling and bisecting. What is executed as one launch runs with
  // its first step, and its other steps do nothing.
  virtual void enqueue_step(size_t step) = 0;
  virtual StepInfo step_info(size_t step) const = 0;
  // All steps in order, done when it returns, and the milliseconds of each by the device's clock: `ms` has one for each
  // of the segment's steps, that of a launch at its first. False, and nothing was done: the device has no such clock.
  virtual bool time_steps(std::span<double>) { return false; }
};

// Work on one device in the order it was enqueued, for one session and so for one thread at a time. A function that
// enqueues may return before the work is done, or do it at once; either it or wait() throws what goes wrong (an index
// out of range, a lost device). After wait(), whether it threw or not, the queue is empty and can be used again.
class Queue {
 public:
  virtual ~Queue() = default;
  // The host's memory must stay as it is until wait() returns.
  virtual void upload(std::span<const std::byte> from, const Placement& to) = 0;
  virtual void download(const Placement& from, std::span<std::byte> to) = 0;
  // The same from and to memory of others on the device, as DeviceBuffer::address() tells it, behind what its default
  // stream was given before.
  virtual void copy_in(std::uintptr_t from, const Placement& to, size_t bytes) {
    upload({reinterpret_cast<const std::byte*>(from), bytes}, to);
  }
  virtual void copy_out(const Placement& from, std::uintptr_t to, size_t bytes) {
    download(from, {reinterpret_cast<std::byte*>(to), bytes});
  }
  virtual void clear(const Placement& place, size_t bytes) = 0;  // to zero
  virtual void wait() = 0;
  // All that is expensive happens here, once. `placements[i]` is where program.buffers[i] is; those that the steps name
  // are set, and constant ones hold their contents: what was enqueued before is done.
  virtual std::unique_ptr<Segment> prepare(const StepRange& steps, std::span<const Placement> placements) = 0;
};

// A device, which any number of sessions may share: its functions may be called from several threads at once.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;                              // "cpu"
  virtual std::string description() const = 0;                       // "Intel Xeon …, AVX-512"
  virtual std::unique_ptr<DeviceBuffer> allocate(size_t bytes) = 0;  // throws device when there is no memory left
  // Host memory used in place (a mapped weight file, never written); nullptr if the device cannot read it.
  virtual std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) = 0;
  // `threads`: of the host, for work that runs on it; 0: thread_count(), or fewer where the work is not worth them.
  virtual std::unique_ptr<Queue> open_queue(int threads) = 0;
  virtual DeviceLimits measure() { return {}; }
  // How much memory it has, where more than that is not to be asked of allocate().
  virtual uint64_t memory_bytes() const { return UINT64_MAX; }
  // How well code of a program fits the device, 0 not at all: a session takes the best of the program's variants.
  virtual int fit(const Code&) const { return 0; }
};

}  // namespace npusim
