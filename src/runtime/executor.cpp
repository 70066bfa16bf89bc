// Places a program's buffers, loads its weights, runs its recipes, and walks its methods.
#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

constexpr size_t slack = 64;  // vector loads may read past a value's end, never past its allocation

}  // namespace

struct Executor::State {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<Placement> placements;  // by buffer
  struct Port {
    int32_t buffer = -1;
    size_t bytes = 0;
    std::byte* host = nullptr;  // the device's own memory, or `staging`
    std::vector<std::byte> staging;
  };
  struct Ready {
    std::unique_ptr<DeviceMethod> code;
    std::vector<Port> inputs, outputs;
  };
  std::vector<Ready> methods;

  Placement place(size_t bytes) {
    memory.push_back(backend->allocate(bytes + slack));
    return {memory.back().get(), 0, false};
  }
};

Executor::Executor(std::shared_ptr<const Program> program, const WeightFiles* weights, std::unique_ptr<Backend> backend)
    : program_(std::move(program)), state_(std::make_unique<State>()) {
  State& s = *state_;
  s.backend = std::move(backend);
  s.placements.resize(program_->buffers.size());
  uint64_t arena_bytes = program_->recipe_arena_bytes;
  for (const Method& m : program_->methods) arena_bytes = std::max(arena_bytes, m.arena_bytes);
  const Placement arena = s.place(arena_bytes);
  std::vector<std::string> problems;
  for (size_t i = 0; i < program_->buffers.size(); ++i) {
    const Buffer& b = program_->buffers[i];
    Placement& p = s.placements[i];
    const size_t bytes = byte_size(b.type);
    switch (b.kind) {
      case BufferKind::arena:
        p = {arena.buffer, b.offset, false};
        break;
      case BufferKind::constant: {
        const HostTensor& c = program_->constants[static_cast<size_t>(b.constant)];
        p = s.place(bytes);
        s.backend->upload(*p.buffer, 0, c.data);
        p.constant = true;
        break;
      }
      case BufferKind::weight: {
        const LoadedWeight weight = load_program_weight(weights, b, problems);
        if (weight.made) {
          p = s.place(bytes);
          s.backend->upload(*p.buffer, 0, weight.made->data);
        } else if (weight.mapped) {
          s.memory.push_back(s.backend->wrap({weight.mapped->data, bytes}));
          p = {s.memory.back().get(), 0, false};
        }
        p.constant = true;
        break;
      }
      default:
        p = s.place(bytes);
        break;
    }
  }
  if (!problems.empty()) fail(ErrorKind::bad_input, "{}", fmt::join(problems, "\n"));

  if (!program_->recipes.empty()) s.backend->prepare(*program_, program_->recipes, s.placements)->run();
  for (size_t i = 0; i < program_->buffers.size(); ++i)
    if (program_->buffers[i].kind == BufferKind::prepared) s.placements[i].constant = true;

  for (const Method& m : program_->methods) {
    State::Ready ready;
    ready.code = s.backend->prepare(*program_, m.steps, s.placements);
    auto add_port = [&](std::vector<State::Port>& ports, const TensorSpec& spec) {
      State::Port port;
      port.buffer = spec.buffer;
      port.bytes = byte_size(spec.type);
      const Placement& p = s.placements[static_cast<size_t>(spec.buffer)];
      if (std::byte* host = p.buffer->host())
        port.host = host + p.offset;
      else {
        port.staging.resize(port.bytes);
        port.host = port.staging.data();
      }
      ports.push_back(std::move(port));
    };
    for (const TensorSpec& spec : m.inputs) add_port(ready.inputs, spec);
    for (const TensorSpec& spec : m.outputs) add_port(ready.outputs, spec);
    s.methods.push_back(std::move(ready));
  }
}

Executor::~Executor() = default;

size_t Executor::method(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < program_->methods.size(); ++i) {
    if (program_->methods[i].name == name) return i;
    names.push_back(program_->methods[i].name);
  }
  fail(ErrorKind::usage, "no method {}: the program has {}", name, fmt::join(names, ", "));
}

std::span<std::byte> Executor::input(size_t method, size_t nth) {
  State::Port& port = state_->methods[method].inputs[nth];
  return {port.host, port.bytes};
}

std::span<const std::byte> Executor::output(size_t method, size_t nth) {
  const State::Port& port = state_->methods[method].outputs[nth];
  return {port.host, port.bytes};
}

void Executor::run(size_t method) {
  State& s = *state_;
  State::Ready& ready = s.methods[method];
  for (State::Port& port : ready.inputs)
    if (!port.staging.empty()) {
      const Placement& p = s.placements[static_cast<size_t>(port.buffer)];
      s.backend->upload(*p.buffer, p.offset, port.staging);
    }
  ready.code->run();
  for (State::Port& port : ready.outputs)
    if (!port.staging.empty()) {
      const Placement& p = s.placements[static_cast<size_t>(port.buffer)];
      s.backend->download(*p.buffer, p.offset, port.staging);
    }
}

void Executor::follow_links(size_t from_method, int64_t count) {
  const Method& from = program_->methods[from_method];
  for (const StateLink& link : program_->links) {
    if (link.from_method != from.name) continue;
    const size_t to_method = method(link.to_method);
    const Method& to = program_->methods[to_method];
    const auto source = std::find_if(from.outputs.begin(), from.outputs.end(),
                                     [&](const TensorSpec& t) { return t.name == link.output; });
    const auto target =
        std::find_if(to.inputs.begin(), to.inputs.end(), [&](const TensorSpec& t) { return t.name == link.input; });
    const Shape& a = source->type.shape;
    const Shape& b = target->type.shape;
    size_t along = 0;  // the dimension positions run along
    while (along < a.size() && a[along] == b[along]) ++along;
    if (along == a.size()) along = a.size() - 2;
    const int64_t rows = std::min({count, a[along], b[along]});
    int64_t outer = 1;
    size_t inner = dtype_size(source->type.dtype);
    for (size_t d = 0; d < along; ++d) outer *= a[d];
    for (size_t d = along + 1; d < a.size(); ++d) inner *= static_cast<size_t>(a[d]);
    const auto* in = output(from_method, static_cast<size_t>(source - from.outputs.begin())).data();
    auto* out = input(to_method, static_cast<size_t>(target - to.inputs.begin())).data();
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(out + static_cast<size_t>(o * b[along]) * inner, in + static_cast<size_t>(o * a[along]) * inner,
                  static_cast<size_t>(rows) * inner);
  }
}

DeviceMethod& Executor::device_method(size_t method) { return *state_->methods[method].code; }
Backend& Executor::backend() { return *state_->backend; }

}  // namespace npusim
