// The CPU backend: buffers are host memory, a segment is a flat array of steps with final pointers, and work is done as
// soon as it is enqueued.
#include "backends/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "backends/cpu/implementations.h"
#include "backends/cpu/loops/loops.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/order/order.h"
#include "backends/cpu/product/distances.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/instruction_set.h"
#include "base/machine_memory.h"
#include "base/threads.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "program/work.h"

namespace npusim::cpu {
namespace {

std::string describe_cpu() {
  std::string model = "CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {}", model, instruction_set_name());
}

constexpr size_t slack = 64;  // vector loads may read past a value's end, never past its allocation

class HostBuffer : public DeviceBuffer {
 public:
  explicit HostBuffer(size_t bytes) : data_(aligned_bytes(bytes + slack, true)), bytes_(bytes) {}
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
class LoopsStep : public BoundStep {
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

class CpuSegment : public Segment {
 public:
  CpuSegment(const StepRange& range, std::vector<Choice> steps, int threads)
      : range_(range), steps_(std::move(steps)), threads_(threads) {
    size_t scratch = 0;
    for (const Choice& choice : steps_) scratch = std::max(scratch, choice.step->scratch_bytes());
    scratch_ = std::make_unique<HostBuffer>(scratch);
    for (const Choice& choice : steps_) choice.step->set_scratch(scratch_->host());
  }
  void enqueue() override {
    begun_ = 0;
    with_team(threads_, [this] {
      for (size_t i = 0; i < steps_.size(); ++i) {
        check_cancelled();
        ++begun_;
        run(i);
      }
    });
  }
  size_t begun() const override { return begun_; }
  void enqueue_step(size_t step) override {
    const size_t i = step - range_.first;
    with_team(threads_, [this, i] { run(i); });
  }
  StepInfo step_info(size_t step) const override {
    const Choice& choice = steps_[step - range_.first];
    return {choice.step->describe(), choice.declined};
  }

 private:
  void run(size_t i) {
    for (const std::span<std::byte> part : steps_[i].cleared) std::memset(part.data(), 0, part.size());
    try {
      steps_[i].step->run();
    } catch (const Error& error) {
      const Step& step = range_.sequence.steps[range_.first + i];
      throw Error(error.kind(), "node " + step_name(range_.program, step) + ": " + error.what());
    }
  }

  StepRange range_;
  std::vector<Choice> steps_;
  int threads_;
  size_t begun_ = 0;
  std::unique_ptr<HostBuffer> scratch_;
};

// Whether a team does these steps faster than one thread does. Sharing a step among threads that look for work costs
// some 4 us (digits: 12 steps, 46 us alone and 78 by two), and the second thread saves at most half of what one needs:
// the multiply-adds at some 100 GFLOP/s, what it reads and writes at 40 GB/s, elements of rows that it orders at 5 ns.
bool worth_a_team(const StepRange& range) {
  constexpr double flops_per_ns = 100, bytes_per_ns = 40, order_ns = 5, sharing_ns = 4000;
  double ns = 0;
  for (size_t i = 0; i < range.count; ++i) {
    const Step& step = range.sequence.steps[range.first + i];
    const Kernel& kernel = range.program.kernels[static_cast<size_t>(step.kernel)];
    const Work work = kernel_work(kernel);
    const double points = static_cast<double>(element_count(kernel.space)) * static_cast<double>(kernel.exprs.size());
    ns += (static_cast<double>(work.flops) + points) / flops_per_ns +
          static_cast<double>(work.read_bytes + work.written_bytes) / bytes_per_ns;
    if (has_order(kernel)) ns += static_cast<double>(element_count(kernel.space)) * order_ns;
  }
  return ns / 2 > sharing_ns * static_cast<double>(range.count);
}

// What steps share, made when the first of them needs it: for those of a team and for those of one thread, for which a
// library's plans are others.
class Contexts {
 public:
  explicit Contexts(int threads) : asked_(threads) {}
  const Context& context_for(const StepRange& range) {
    const int threads = asked_ > 0 ? asked_ : worth_a_team(range) ? thread_count() : 1;
    std::optional<Context>& context = threads == 1 ? alone_ : team_;
    if (!context) {
      reserve_threads(threads);
      context = make_context(threads);
    }
    return *context;
  }

 private:
  int asked_;
  std::optional<Context> alone_, team_;
};

// Results of which the kernel is not known to store every element. Where one takes the memory of what is read, that is
// what the others keep.
std::vector<std::span<std::byte>> unfilled(const Kernel& kernel, std::span<const Binding> args) {
  std::vector<std::span<std::byte>> parts;
  if (kernel.call) return parts;
  const std::vector<bool> filled = filled_arguments(kernel);
  std::multiset<const void*> memory;
  for (size_t i = 0; i < args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (!arg.written || arg.updates >= 0 || filled[i]) continue;
    if (memory.empty())
      for (const Binding& any : args) memory.insert(any.data);
    const size_t bytes = static_cast<size_t>(arg.elements) * dtype_size(arg.dtype);
    if (memory.count(args[i].data) == 1) parts.emplace_back(static_cast<std::byte*>(args[i].data), bytes);
  }
  return parts;
}

class CpuQueue : public Queue {
 public:
  explicit CpuQueue(int threads) : contexts_(threads) {}

  void upload(std::span<const std::byte> from, const Placement& to) override {
    if (!from.empty()) std::memcpy(to.buffer->host() + to.offset, from.data(), from.size());
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from.buffer->host() + from.offset, to.size());
  }
  void clear(const Placement& place, size_t bytes) override {
    if (bytes > 0) std::memset(place.buffer->host() + place.offset, 0, bytes);
  }
  void wait() override {}

  std::unique_ptr<Segment> prepare(const StepRange& range, std::span<const Placement> placements) override {
    const Context& context = contexts_.context_for(range);
    std::vector<Choice> ready;
    with_team(context.threads, [&] { ready = choose(range, placements, context); });
    return std::make_unique<CpuSegment>(range, std::move(ready), context.threads);
  }

 private:
  std::vector<Choice> choose(const StepRange& range, std::span<const Placement> placements, const Context& context) {
    std::vector<Choice> ready;
    for (size_t i = 0; i < range.count; ++i) {
      check_cancelled();
      const Step& step = range.sequence.steps[range.first + i];
      const Kernel& kernel = range.program.kernels[static_cast<size_t>(step.kernel)];
      std::vector<Binding> bindings;
      std::vector<void*> args;
      for (int32_t buffer : step.buffers) {
        const Placement& p = placements[static_cast<size_t>(buffer)];
        args.push_back(p.buffer->host() + p.offset);
        bindings.push_back({args.back(), p.constant});
      }
      if (kernel.contraction) {
        ready.push_back(choose_implementation(kernel, bindings, context));
      } else if (has_order(kernel)) {
        ready.push_back({make_order_step(kernel, std::move(args), context.threads), {}});
      } else if (auto step = make_distances_step(kernel, bindings, context)) {
        ready.push_back({std::move(step), {}});
      } else {
        auto& loops = loops_[{&kernel, context.threads}];
        if (!loops) loops = std::make_shared<Loops>(kernel, context.threads);
        ready.push_back({std::make_unique<LoopsStep>(loops, std::move(args)), {}});
      }
      ready.back().cleared = unfilled(kernel, bindings);
    }
    return ready;
  }

  Contexts contexts_;
  std::map<std::pair<const Kernel*, int>, std::shared_ptr<Loops>> loops_;  // identical layers share one
};

class CpuBackend : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::string description() const override { return describe_cpu(); }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<HostBuffer>(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override {
    return std::make_unique<BorrowedBuffer>(memory);
  }
  std::unique_ptr<Queue> open_queue(int threads) override { return std::make_unique<CpuQueue>(threads); }
  uint64_t memory_bytes() const override { return machine_memory(); }
};

}  // namespace

std::shared_ptr<Backend> open_device(int) { return std::make_shared<CpuBackend>(); }
DeviceInfo probe_device() { return {"cpu", describe_cpu(), true}; }

}  // namespace npusim::cpu
