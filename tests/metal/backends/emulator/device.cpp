// A device without a host's view of its memory, which does nothing before it is waited for: dispatches of compiled
// Metal.
#include "backends/emulator/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "compile.h"

namespace npusim::emulator {
namespace {

// NaN until it is written; what lies behind its end cannot be touched.
class EmulatorBuffer : public DeviceBuffer {
 public:
  explicit EmulatorBuffer(size_t bytes) : bytes_(bytes), memory_(bytes) {}
  size_t bytes() const override { return bytes_; }
  std::byte* host() override { return nullptr; }
  std::byte* at(size_t offset) { return memory_.as<std::byte>() + offset; }

 private:
  size_t bytes_;
  mslx::GuardedBuffer memory_;
};

std::byte* memory_at(const Placement& place) { return static_cast<EmulatorBuffer*>(place.buffer)->at(place.offset); }

// A launch with its function and addresses.
struct BoundLaunch {
  size_t first = 0;  // step
  std::string symbol;
  const mslx_kernel_desc* function = nullptr;
  mslx::Extent grid, block;
  mslx::Bindings bindings;
  std::unique_ptr<EmulatorBuffer> trap;  // none: nothing to report
  std::vector<std::string> traps;
};

int32_t& trap_of(const BoundLaunch& launch) { return *reinterpret_cast<int32_t*>(launch.trap->at(0)); }

// The launch that executes a launch of a program, resolved; throws what is wrong with its code.
class Binder {
 public:
  Binder(const Program& program, std::span<const Placement> placements) : p_(program), placements_(placements) {}

  BoundLaunch bind(const Launch& launch) {
    BoundLaunch bound;
    bound.first = static_cast<size_t>(launch.first);
    bound.symbol = launch.symbol;
    bound.function = library(static_cast<size_t>(launch.code)).find(launch.symbol);
    if (!bound.function)
      fail(ErrorKind::bad_input, "emulator: there is no function '{}' in code {}", launch.symbol, launch.code);
    bound.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
    bound.block = {launch.block[0], launch.block[1], launch.block[2]};
    size_t pointers = 0;
    for (int i = 0; i < bound.function->nparams; ++i) pointers += bound.function->params[i].kind != 2;
    if (launch.args.size() > std::size(bound.bindings.buffers))
      fail(ErrorKind::bad_input, "emulator: launch '{}' has {} pointers, at most {} are bound", launch.symbol,
           launch.args.size(), std::size(bound.bindings.buffers));
    if (pointers != launch.args.size())
      fail(ErrorKind::bad_input, "emulator: function '{}' takes {} pointers, its launch has {}", launch.symbol,
           pointers, launch.args.size());
    for (size_t i = 0; i < launch.args.size(); ++i) {
      std::byte* memory = nullptr;
      if (launch.args[i] == trap_word) {
        bound.trap = std::make_unique<EmulatorBuffer>(4);
        memory = bound.trap->at(0);
        trap_of(bound) = 0;
        bound.traps = launch.traps;
      } else {
        memory = memory_at(placements_[static_cast<size_t>(launch.args[i])]);
      }
      bound.bindings.buffer(static_cast<int>(i), memory);
    }
    return bound;
  }

 private:
  const mslx::Library& library(size_t number) {
    if (libraries_.size() <= number) libraries_.resize(number + 1);
    mslx::Library& library = libraries_[number];
    if (library.handle) return library;
    const CodeSet& set = p_.code[number];
    const auto code = std::find_if(set.begin(), set.end(), [](const Code& one) { return one.format == "msl"; });
    if (code == set.end())
      fail(ErrorKind::bad_input, "emulator: expected code {} as msl, found {}", number,
           set.empty() ? "none" : set[0].format);
    const std::string text(reinterpret_cast<const char*>(code->bytes.data()), code->bytes.size());
    library = mslx::compile_cached(text, "-O1");
    if (!library.error.empty())
      fail(ErrorKind::bad_input, "emulator: code {} does not compile: {}", number, library.error);
    return library;
  }

  const Program& p_;
  std::span<const Placement> placements_;
  std::vector<mslx::Library> libraries_;  // by code
};

// One entry of the queue.
struct Command {
  enum class Kind { upload, download, clear, launch } kind = Kind::launch;
  std::span<const std::byte> from = {};
  std::span<std::byte> to = {};
  std::byte* device = nullptr;  // upload, download, clear
  size_t bytes = 0;
  const BoundLaunch* launch = nullptr;
};

void execute(const Command& c, const mslx::Options& options) {
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
    case Command::Kind::launch:
      const BoundLaunch& l = *c.launch;
      if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) break;
      if (const mslx::Result result = mslx::dispatch_groups(l.function, l.grid, l.block, l.bindings, options);
          !result.ok())
        fail(ErrorKind::device, "emulator: {}", result.error);
  }
}

class EmulatorQueue;

class EmulatorSegment : public Segment {
 public:
  EmulatorSegment(const StepRange& range, std::span<const Placement> placements, EmulatorQueue& queue);
  void enqueue() override;
  void enqueue_step(size_t step) override;
  StepInfo step_info(size_t step) const override {
    const auto after = std::upper_bound(launches_.begin(), launches_.end(), step,
                                        [](size_t value, const BoundLaunch& l) { return value < l.first; });
    const BoundLaunch& l = *(after - 1);
    return {fmt::format("{} {}x{}", l.symbol, l.grid.x, l.block.x), {}};
  }

 private:
  std::vector<BoundLaunch> launches_;
  EmulatorQueue& queue_;
};

class EmulatorQueue : public Queue {
 public:
  explicit EmulatorQueue(const mslx::Options& options) : options_(options) {}

  void upload(std::span<const std::byte> from, const Placement& to) override {
    if (!from.empty()) push({.kind = Command::Kind::upload, .from = from, .device = memory_at(to)});
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    if (!to.empty()) push({.kind = Command::Kind::download, .to = to, .device = memory_at(from)});
  }
  void clear(const Placement& place, size_t bytes) override {
    if (bytes > 0) push({.kind = Command::Kind::clear, .device = memory_at(place), .bytes = bytes});
  }

  // All work is done here. Traps are found behind all of it, as on a device that runs ahead of the host: what came
  // after the first of them has run.
  void wait() override {
    const std::vector<Command> commands = std::exchange(commands_, {});
    std::string problem;
    std::exception_ptr failure;
    try {
      for (const Command& command : commands) execute(command, options_);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    for (const Command& command : commands) {
      if (command.kind != Command::Kind::launch || !command.launch->trap) continue;
      const auto number = static_cast<size_t>(std::exchange(trap_of(*command.launch), 0));
      if (number == 0 || !problem.empty()) continue;
      problem = number <= command.launch->traps.size()
                    ? command.launch->traps[number - 1]
                    : fmt::format("{}: unknown trap {}", command.launch->symbol, number);
    }
    if (failure) std::rethrow_exception(failure);
    if (!problem.empty()) throw Error(ErrorKind::bad_input, problem);
  }

  std::unique_ptr<Segment> prepare(const StepRange& range, std::span<const Placement> placements) override {
    return std::make_unique<EmulatorSegment>(range, placements, *this);
  }

  void push(const Command& command) { commands_.push_back(command); }

 private:
  mslx::Options options_;
  std::vector<Command> commands_;  // since the last wait()
};

EmulatorSegment::EmulatorSegment(const StepRange& range, std::span<const Placement> placements, EmulatorQueue& queue)
    : queue_(queue) {
  Binder binder(range.program, placements);
  size_t next = range.first;
  for (const Launch& launch : range.sequence.launches) {
    const auto first = static_cast<size_t>(launch.first);
    if (first < range.first || first >= range.first + range.count) continue;
    launches_.push_back(binder.bind(launch));
    next = first == next ? first + static_cast<size_t>(launch.count) : range.first;
  }
  if (next != range.first + range.count)
    fail(ErrorKind::bad_input, "emulator: the program was not compiled for this device: it has no launches for it");
}

void EmulatorSegment::enqueue() {
  for (const BoundLaunch& launch : launches_) queue_.push({.launch = &launch});
}

void EmulatorSegment::enqueue_step(size_t step) {
  for (const BoundLaunch& launch : launches_)
    if (launch.first == step) queue_.push({.launch = &launch});
}

class EmulatorBackend : public Backend {
 public:
  explicit EmulatorBackend(int order) {
    options_.order = order == 0 ? mslx::Order::forward : order == 1 ? mslx::Order::reverse : mslx::Order::random;
    options_.force_fibers = order != 0;  // elsewhere threads run in order where nothing lets them meet
    options_.flush_subnormals = false;   // the reference keeps them
  }
  std::string name() const override { return "emulator"; }
  std::string description() const override { return probe_device().description; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override {
    if (bytes > size_t{1} << 32)
      fail(ErrorKind::device, "emulator: expected at most {} bytes, found {}", size_t{1} << 32, bytes);
    return std::make_unique<EmulatorBuffer>(bytes);
  }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte>) override { return nullptr; }
  std::unique_ptr<Queue> open_queue(int) override { return std::make_unique<EmulatorQueue>(options_); }

 private:
  mslx::Options options_;
};

}  // namespace

std::shared_ptr<Backend> open_device(int order) { return std::make_shared<EmulatorBackend>(order); }
DeviceInfo probe_device() { return {"emulator", "Metal text, compiled for and executed on the CPU", true}; }

}  // namespace npusim::emulator
