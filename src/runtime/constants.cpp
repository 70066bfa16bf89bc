// Loads weights, uploads constants, runs recipes; what only recipes read is released behind them.
#include "runtime/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "runtime/sequence.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

constexpr size_t alignment = 64;                   // of values within a block
constexpr size_t most_pending = size_t{64} << 20;  // bytes of converted weights that wait for their upload

std::vector<bool> read_by_methods(const Program& program) {
  std::vector<bool> read(program.buffers.size(), false);
  for (const Method& method : program.methods) {
    for (const Step& step : method.steps)
      for (int32_t buffer : step.buffers) read[static_cast<size_t>(buffer)] = true;
    for (const TensorSpec& spec : method.outputs) read[static_cast<size_t>(spec.buffer)] = true;
  }
  return read;
}

// The position of the first number that is infinite or NaN, that is, all ones in these bits; or `count`.
template <typename Bits>
int64_t first_not_finite(const std::byte* data, int64_t count, Bits exponent) {
  const auto* first = reinterpret_cast<const Bits*>(data);
  return std::find_if(first, first + count, [&](Bits bits) { return (bits & exponent) == exponent; }) - first;
}

// A block of each device, and the placements of what was put there.
class Blocks {
 public:
  explicit Blocks(size_t devices) : blocks_(devices) {}
  void add(int32_t buffer, const Buffer& b) {
    placed_.push_back({buffer, b.device, blocks_[static_cast<size_t>(b.device)].add(byte_size(b.type))});
  }
  // Zeros where only the device reaches it: it reads whole words, of which a value may end within one.
  void allocate(const std::vector<std::shared_ptr<Backend>>& devices, const Queues& queues,
                std::vector<std::unique_ptr<DeviceBuffer>>& memory, std::vector<Placement>& placements) {
    std::vector<DeviceBuffer*> of_device(blocks_.size());
    for (const Placed& p : placed_) {
      const auto d = static_cast<size_t>(p.device);
      if (!of_device[d]) {
        memory.push_back(devices[d]->allocate(std::max<size_t>(blocks_[d].bytes, 1)));
        of_device[d] = memory.back().get();
        if (!of_device[d]->host()) queues[d]->clear({of_device[d]}, of_device[d]->bytes());
      }
      placements[static_cast<size_t>(p.buffer)] = {of_device[d], p.offset, false};
    }
  }

 private:
  struct Placed {
    int32_t buffer, device;
    size_t offset;
  };
  std::vector<Block> blocks_;
  std::vector<Placed> placed_;
};

class Loader {
 public:
  Loader(Constants& constants, const Queues& queues)
      : c_(constants),
        program_(*constants.program),
        queues_(queues),
        kept_(read_by_methods(program_)),
        mine_(c_.devices.size()),
        passing_(c_.devices.size()) {}

  // After a failure devices may still be at work on what is enqueued.
  ~Loader() {
    try {
      wait_for(queues_);
    } catch (const std::exception&) {  // what load() threw is the failure to tell
    }
  }

  void load() {
    place();
    upload();
    if (!program_.recipes.steps.empty()) {
      recipes_.emplace(program_, program_.recipes, c_.placements, queues_);
      recipes_->enqueue();
      wait_for(queues_);
      check_recipes();
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferKind kind = program_.buffers[i].kind;
      if (!kept_[i]) c_.placements[i] = {};
      if (kind == BufferKind::prepared && kept_[i]) c_.placements[i].constant = true;
    }
  }

 private:
  static bool is_loaded(const Buffer& b) {
    return b.kind == BufferKind::weight || b.kind == BufferKind::constant || b.kind == BufferKind::prepared;
  }

  // Weights are where they are if their device can read them there. Problems of all weights are told together.
  void place() {
    std::vector<Problem> problems;
    found_.resize(program_.buffers.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      if (!is_loaded(b)) continue;
      if (b.kind == BufferKind::weight) {
        found_[i] = locate_weight(c_.weights.get(), b, problems);
        if (const TensorView* mapped = found_[i].as_it_is()) {
          if (auto wrapped = c_.devices[static_cast<size_t>(b.device)]->wrap({mapped->data, byte_size(b.type)})) {
            c_.placements[i] = {wrapped.get(), 0, true};
            (kept_[i] ? c_.memory : temporary_).push_back(std::move(wrapped));
            continue;
          }
        }
      }
      (kept_[i] ? mine_ : passing_).add(static_cast<int32_t>(i), b);
    }
    if (!problems.empty()) throw Error(ErrorKind::bad_input, std::move(problems));
    mine_.allocate(c_.devices, queues_, c_.memory, c_.placements);
    passing_.allocate(c_.devices, queues_, temporary_, c_.placements);
  }

  void upload() {
    size_t pending_bytes = 0;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      Placement& to = c_.placements[i];
      Queue& queue = *queues_[static_cast<size_t>(b.device)];
      if (b.kind == BufferKind::constant) {
        queue.upload(program_.constants[static_cast<size_t>(b.constant)].data, to);
        to.constant = true;
      } else if (b.kind == BufferKind::weight && !to.constant) {
        if (const TensorView* mapped = found_[i].as_it_is()) {
          queue.upload({mapped->data, byte_size(b.type)}, to);
        } else {
          pending_.push_back(make_weight(std::move(found_[i]), b));
          pending_bytes += pending_.back().data.size();
          queue.upload(pending_.back().data, to);
        }
        to.constant = true;
      }
      if (pending_bytes > most_pending) {
        wait_for(queues_);
        pending_.clear();
        pending_bytes = 0;
      }
    }
    wait_for(queues_);
    pending_.clear();
  }

  // A fusion may hold only for what its recipes give for most weights.
  void check_recipes() {
    std::vector<Problem> problems;
    for (const Step& recipe : program_.recipes.steps)
      for (size_t i = 0; i < recipe.buffers.size(); ++i) {
        const auto id = static_cast<size_t>(recipe.buffers[i]);
        const Buffer& b = program_.buffers[id];
        if (b.finite_for.empty() || recipe.is_transfer()) continue;
        if (!program_.kernels[static_cast<size_t>(recipe.kernel)].args[i].written) continue;
        const std::string found = first_infinity(b, c_.placements[id]);
        if (found.empty()) continue;
        problems.push_back(
            {fmt::format("node '{}'", step_name(program_, recipe)),
             fmt::format("expected finite numbers in '{}', which {} prepares from weights, found {}: compile with "
                         "--disable-fusion {}",
                         b.name, b.finite_for, found, b.finite_for)});
      }
    if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
  }

  // Or NaN; empty when every element is finite.
  std::string first_infinity(const Buffer& b, const Placement& p) {
    std::vector<std::byte> copy;
    const std::byte* data = p.buffer->host();
    if (data) {
      data += p.offset;
    } else {
      copy.resize(byte_size(b.type));
      Queue& queue = *queues_[static_cast<size_t>(b.device)];
      queue.download(p, copy);
      queue.wait();
      data = copy.data();
    }
    const int64_t count = element_count(b.type.shape);
    const int64_t at = b.type.dtype == DType::f32
                           ? first_not_finite<uint32_t>(data, count, 0x7f800000)
                           : first_not_finite<uint16_t>(data, count, b.type.dtype == DType::bf16 ? 0x7f80 : 0x7c00);
    if (at == count) return {};
    return fmt::format("{} as element {} of {}", load_double(data, b.type.dtype, at), at, to_string(b.type));
  }

  Constants& c_;
  const Program& program_;
  const Queues& queues_;
  std::vector<bool> kept_;  // by buffer: methods read it
  Blocks mine_, passing_;
  std::vector<std::unique_ptr<DeviceBuffer>> temporary_;
  std::vector<LocatedWeight> found_;  // by buffer
  std::vector<HostTensor> pending_;   // converted weights, until devices have read them
  std::optional<ReadySequence> recipes_;
};

}  // namespace

size_t Block::add(size_t size) {
  const size_t offset = bytes;
  bytes += (size + alignment - 1) / alignment * alignment;
  return offset;
}

Queues open_queues(const std::vector<std::shared_ptr<Backend>>& devices, int threads) {
  Queues queues;
  for (const auto& device : devices) queues.push_back(device->open_queue(threads));
  return queues;
}

void wait_for(const Queues& queues) {
  std::exception_ptr failure;
  for (const auto& queue : queues) try {
      queue->wait();
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  if (failure) std::rethrow_exception(failure);
}

std::shared_ptr<const Constants> load_constants(std::shared_ptr<const Program> program, const SessionOptions& options,
                                                const Queues& queues) {
  auto constants = std::make_shared<Constants>();
  constants->program = std::move(program);
  constants->weights = options.weights;
  constants->devices = options.devices;
  constants->placements.resize(constants->program->buffers.size());
  Loader(*constants, queues).load();
  return constants;
}

}  // namespace npusim
