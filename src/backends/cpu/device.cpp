// The CPU backend: buffers are host memory, a segment is a flat array of steps with final pointers, and work is done as
// soon as it is enqueued.
#include "backends/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "backends/cpu/fourier/fourier.h"
#include "backends/cpu/implementations.h"
#include "backends/cpu/loops/loops.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/order/order.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/reductions/distances.h"
#include "backends/cpu/product/reductions/wide.h"
#include "backends/cpu/window/resample.h"
#include "backends/cpu/window/window.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/instruction_set.h"
#include "base/machine_memory.h"
#include "base/threads.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"

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
  LoopsStep(std::shared_ptr<loops::Loops> loops, std::vector<void*> args)
      : loops_(std::move(loops)), args_(std::move(args)) {}
  void run() override {
    if (!loops_->run(args_.data())) fail(ErrorKind::bad_input, "{}", loops_->trap_message());
  }
  std::string describe() const override { return "loops"; }

 private:
  std::shared_ptr<loops::Loops> loops_;
  std::vector<void*> args_;
};

// A step, and whether it is not worth the team.
struct ReadyStep {
  Choice choice;
  bool alone = false;
};

class CpuSegment : public Segment {
 public:
  CpuSegment(const StepRange& range, std::vector<ReadyStep> steps, const Context& context)
      : range_(range), steps_(std::move(steps)), threads_(context.threads), runs_(context.inputs->run) {
    size_t scratch = 0;
    for (const ReadyStep& ready : steps_) scratch = std::max(scratch, ready.choice.step->scratch_bytes());
    scratch_ = std::make_unique<HostBuffer>(scratch);
    for (const ReadyStep& ready : steps_) ready.choice.step->set_scratch(scratch_->host());
  }
  void enqueue() override {
    begun_ = 0;
    ++*runs_;
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
    ++*runs_;
    with_team(threads_, [this, i] { run(i); });
  }
  StepInfo step_info(size_t step) const override {
    const Choice& choice = steps_[step - range_.first].choice;
    return {choice.step->describe(), choice.declined};
  }

 private:
  void run(size_t i) {
    for (const std::span<std::byte> part : steps_[i].choice.cleared) std::memset(part.data(), 0, part.size());
    try {
      const ThreadCount limit(steps_[i].alone ? 1 : 0);
      steps_[i].choice.step->run();
    } catch (const Error& error) {
      const Step& step = range_.sequence.steps[range_.first + i];
      throw Error(error.kind(), "node " + step_name(range_.program, step) + ": " + error.what());
    }
  }

  StepRange range_;
  std::vector<ReadyStep> steps_;
  int threads_;
  std::shared_ptr<uint64_t> runs_;
  size_t begun_ = 0;
  std::unique_ptr<HostBuffer> scratch_;
};

// What is found of a kernel once, however many steps it has: identical layers share it.
struct KernelFacts {
  explicit KernelFacts(const Kernel& kernel)
      : ns(step_ns(kernel)), order(has_order(kernel)), fourier(has_fourier(kernel)), filled(filled_arguments(kernel)) {}

  double ns;
  bool order, fourier;
  std::vector<bool> filled;
  std::map<int, std::shared_ptr<loops::Loops>> loops;  // by the team's threads, where no other step takes the kernel
};

class KnownKernels {
 public:
  KernelFacts& of(const Kernel& kernel) { return known_.try_emplace(&kernel, kernel).first->second; }

 private:
  std::unordered_map<const Kernel*, KernelFacts> known_;
};

// What steps share, made when the first of them needs it: for those of a team and for those of one thread, for which a
// library's plans are others.
class Contexts {
 public:
  explicit Contexts(int threads) : asked_(threads) {}
  // Of steps of which some are worth a team, or none is.
  const Context& context_for(const StepRange& range, KnownKernels& known) {
    const auto shared = [&](size_t i) {
      const Step& step = range.sequence.steps[range.first + i];
      return known.of(range.program.kernels[static_cast<size_t>(step.kernel)]).ns >= worth_team_ns;
    };
    bool any = asked_ > 0;
    for (size_t i = 0; i < range.count && !any; ++i) any = shared(i);
    if (!any || asked_ == 1) return alone();
    if (!team_ && asked_ > 0) {
      reserve_threads(asked_);
      team_ = made(asked_);
    } else if (!team_) {
      team_ = made(given_threads(thread_count()));
    }
    return *team_;
  }
  const Context& alone() {
    if (!alone_) {
      reserve_threads(1);
      alone_ = made(1);
    }
    return *alone_;
  }

 private:
  Context made(int threads) {
    Context context = make_context(threads);
    if (weights_) context.weights = weights_;
    weights_ = context.weights;
    return context;
  }

  int asked_;
  std::shared_ptr<product::WeightCache> weights_;
  std::optional<Context> alone_, team_;
};

// Results of which the kernel is not known to store every element. Where one takes the memory of what is read, that is
// what the others keep.
std::vector<std::span<std::byte>> unfilled(const Kernel& kernel, std::span<const Binding> args,
                                           const std::vector<bool>& filled) {
  std::vector<std::span<std::byte>> parts;
  if (kernel.call) return parts;
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
  void clear(const Placement& to, size_t bytes) override {
    if (bytes > 0) std::memset(to.buffer->host() + to.offset, 0, bytes);
  }
  void wait() override {}

  std::unique_ptr<Segment> prepare(const StepRange& range, std::span<const Placement> placements) override {
    Context context = contexts_.context_for(range, known_);
    context.inputs = std::make_shared<product::SharedInputs>();
    product::note_written(*context.inputs, written_by(range, placements));
    std::vector<ReadyStep> ready;
    with_team(context.threads, [&] { ready = choose(range, placements, context); });
    return std::make_unique<CpuSegment>(range, std::move(ready), context);
  }

 private:
  static std::vector<product::SharedInputs::Range> written_by(const StepRange& range,
                                                              std::span<const Placement> placements) {
    std::vector<product::SharedInputs::Range> written;
    for (size_t i = 0; i < range.count; ++i) {
      const Step& step = range.sequence.steps[range.first + i];
      const Kernel& kernel = range.program.kernels[static_cast<size_t>(step.kernel)];
      for (size_t n = 0; n < kernel.args.size(); ++n) {
        if (!kernel.args[n].written) continue;
        const Placement& p = placements[static_cast<size_t>(step.buffers[n])];
        const std::byte* at = p.buffer->host() + p.offset;
        written.emplace_back(at, at + static_cast<size_t>(kernel.args[n].elements) * dtype_size(kernel.args[n].dtype));
      }
    }
    return written;
  }

  std::vector<ReadyStep> choose(const StepRange& range, std::span<const Placement> placements, const Context& context) {
    std::vector<ReadyStep> ready;
    for (size_t i = 0; i < range.count; ++i) {
      check_cancelled();
      const Step& step = range.sequence.steps[range.first + i];
      const Kernel& kernel = range.program.kernels[static_cast<size_t>(step.kernel)];
      std::vector<Binding> bindings;
      for (int32_t buffer : step.buffers) {
        const Placement& p = placements[static_cast<size_t>(buffer)];
        bindings.push_back({p.buffer->host() + p.offset, p.constant});
      }
      KernelFacts& facts = known_.of(kernel);
      ready.push_back(choose_step(kernel, facts, bindings, context));
      ready.back().choice.cleared = unfilled(kernel, bindings, facts.filled);
    }
    return ready;
  }

  ReadyStep choose_step(const Kernel& kernel, KernelFacts& facts, std::span<const Binding> bindings,
                        const Context& team) {
    const bool alone = team.threads > 1 && facts.ns < worth_sharing_ns;
    Context context = alone ? contexts_.alone() : team;
    context.inputs = team.inputs;
    const ThreadCount limit(alone ? 1 : 0);
    if (kernel.contraction) return {choose_implementation(kernel, bindings, context), alone};
    std::vector<void*> args;
    for (const Binding& binding : bindings) args.push_back(binding.data);
    std::shared_ptr<loops::Loops>& loops = facts.loops[team.threads];  // which know better what they cost
    if (loops) return {{std::make_unique<LoopsStep>(loops, std::move(args)), {}}, false};
    if (facts.order) return {{order::make_order_step(kernel, std::move(args), context.threads), {}}, alone};
    if (facts.fourier) return {{fourier::make_fourier_step(kernel, std::move(args), context.threads), {}}, alone};
    if (auto step = product::reductions::make_distances_step(kernel, bindings, context))
      return {{std::move(step), {}}, alone};
    if (auto step = product::reductions::make_wide_step(kernel, bindings, context))
      return {{std::move(step), {}}, alone};
    if (auto step = window::make_window_step(kernel, bindings, team)) return {{std::move(step), {}}, false};
    if (auto step = window::make_resample_step(kernel, bindings, team)) return {{std::move(step), {}}, false};
    loops = std::make_shared<loops::Loops>(kernel, team.threads);
    return {{std::make_unique<LoopsStep>(loops, std::move(args)), {}}, false};
  }

  Contexts contexts_;
  KnownKernels known_;
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

std::shared_ptr<Backend> open_device(int index) {
  if (index != 0) fail(ErrorKind::usage, "device cpu:{}: there is one, cpu", index);
  return std::make_shared<CpuBackend>();
}
DeviceInfo probe_device() { return {"cpu", describe_cpu(), true}; }

}  // namespace npusim::cpu
