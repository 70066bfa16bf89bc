// The CPU backend: buffers are host memory, a method is a flat array of steps with final pointers.
#include "backends/cpu/device.h"

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "backends/cpu/contraction.h"
#include "backends/cpu/loops.h"
#include "backends/cpu/memory.h"
#include "base/error.h"
#include "base/instruction_set.h"
#include "base/threads.h"

namespace npusim::cpu {
namespace {

std::string describe_cpu(int threads) {
  std::string model = "CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {} threads, {}", model, threads, instruction_set_name());
}

class HostBuffer : public DeviceBuffer {
 public:
  explicit HostBuffer(size_t bytes) : data_(aligned_bytes(bytes, true)), bytes_(bytes) {}
  size_t bytes() const override { return bytes_; }
  std::byte* host() override { return data_.get(); }

 private:
  std::shared_ptr<std::byte> data_;
  size_t bytes_;
};

// Memory owned by someone else: a mapped weight file. Never written.
class BorrowedBuffer : public DeviceBuffer {
 public:
  explicit BorrowedBuffer(std::span<const std::byte> memory) : memory_(memory) {}
  size_t bytes() const override { return memory_.size(); }
  std::byte* host() override { return const_cast<std::byte*>(memory_.data()); }

 private:
  std::span<const std::byte> memory_;
};

// A kernel without contraction: tile bytecode shared by all steps that run it.
class LoopsStep : public Step {
 public:
  LoopsStep(std::shared_ptr<Loops> loops, std::vector<void*> args) : loops_(std::move(loops)), args_(std::move(args)) {}
  void run() override {
    if (!loops_->run(args_.data())) fail(ErrorKind::bad_input, "{}", loops_->trap_message());
  }
  std::string describe() const override { return "loops"; }

 private:
  std::shared_ptr<Loops> loops_;
  std::vector<void*> args_;
};

class CpuMethod : public DeviceMethod {
 public:
  CpuMethod(std::vector<std::unique_ptr<Step>> steps, std::vector<std::string> nodes)
      : steps_(std::move(steps)), nodes_(std::move(nodes)) {
    size_t scratch = 0;
    for (const auto& step : steps_) scratch = std::max(scratch, step->scratch_bytes());
    scratch_ = std::make_unique<HostBuffer>(scratch + 64);
    for (const auto& step : steps_) step->set_scratch(scratch_->host());
  }
  void run() override {
    for (size_t i = 0; i < steps_.size(); ++i) run_step(i);
  }
  void run_step(size_t i) override {
    try {
      steps_[i]->run();
    } catch (const Error& error) {
      throw Error(error.kind(), "node " + nodes_[i] + ": " + error.what());
    }
  }
  std::string step_info(size_t i) const override { return steps_[i]->describe(); }

 private:
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::string> nodes_;
  std::unique_ptr<HostBuffer> scratch_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : context_(make_context(threads)) {}
  std::string name() const override { return "cpu"; }
  std::string description() const override { return describe_cpu(context_.threads); }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<HostBuffer>(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override {
    return std::make_unique<BorrowedBuffer>(memory);
  }
  void upload(DeviceBuffer& to, size_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to.host() + offset, from.data(), from.size());
  }
  void download(const DeviceBuffer& from, size_t offset, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), const_cast<DeviceBuffer&>(from).host() + offset, to.size());
  }

  std::unique_ptr<DeviceMethod> prepare(const Program& program, std::span<const npusim::Step> steps,
                                        std::span<const Placement> placements) override {
    std::vector<std::unique_ptr<Step>> ready;
    std::vector<std::string> nodes;
    for (const npusim::Step& step : steps) {
      const Kernel& kernel = program.kernels[static_cast<size_t>(step.kernel)];
      std::vector<Binding> bindings;
      std::vector<void*> args;
      for (int32_t buffer : step.buffers) {
        const Placement& p = placements[static_cast<size_t>(buffer)];
        args.push_back(p.buffer->host() + p.offset);
        bindings.push_back({args.back(), p.constant});
      }
      if (kernel.contraction) {
        ready.push_back(make_contraction_step(kernel, bindings, context_));
      } else {
        auto& loops = loops_[&kernel];
        if (!loops) loops = std::make_shared<Loops>(kernel, context_.threads);
        ready.push_back(std::make_unique<LoopsStep>(loops, std::move(args)));
      }
      nodes.push_back(step.node);
    }
    return std::make_unique<CpuMethod>(std::move(ready), std::move(nodes));
  }

 private:
  Context context_;
  std::map<const Kernel*, std::shared_ptr<Loops>> loops_;  // identical layers share one
};

}  // namespace

std::unique_ptr<Backend> open_device(const DeviceOptions& options) {
  if (options.threads > 0) set_thread_count(options.threads);
  return std::make_unique<CpuBackend>(options.threads > 0 ? options.threads : thread_count());
}

DeviceInfo probe_device() { return {"cpu", describe_cpu(thread_count()), true}; }

}  // namespace npusim::cpu
