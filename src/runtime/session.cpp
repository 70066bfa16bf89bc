// Places what belongs to one session, and walks a program's methods.
#include "npusim/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"
#include "runtime/backend.h"
#include "runtime/constants.h"
#include "runtime/sequence.h"

namespace npusim {
namespace {

struct Port {
  Placement place;
  Queue* queue = nullptr;
  size_t bytes = 0;
  bool state = false;
  std::byte* host = nullptr;         // the device's own memory, or `staging`
  std::vector<std::byte> staging;    // where the host cannot reach the device's memory
  std::span<const std::byte> reads;  // an input bound to the caller's memory
  std::span<std::byte> writes;       // an output bound to it
  std::uintptr_t copies = 0;         // or either to memory of the caller's on the device: its address
  bool current = false;              // output: `host` holds what the last run left
};

// Of a list of methods or tensors. `owner` has the list: "the program", "method 'decode'".
template <typename Named>
size_t position_of(const std::vector<Named>& list, const Key& key, std::string_view kind, const std::string& owner) {
  if (!key.named() && key.position() < list.size()) return key.position();
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    if (key.named() && list[i].name == key.name()) return i;
    names.push_back(list[i].name);
  }
  const std::string asked = key.named() ? std::string(key.name()) : fmt::format("at position {}", key.position());
  fail(ErrorKind::usage, "no {} {}: {} has {}", kind, asked, owner,
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void check_type(std::string_view what, const TensorSpec& spec, const TensorType& found) {
  if (found != spec.type)
    fail(ErrorKind::usage, "{} '{}': expected {}, found {}", what, spec.name, to_string(spec.type), to_string(found));
}

void check_size(std::string_view what, const TensorSpec& spec, size_t found) {
  if (found != byte_size(spec.type))
    fail(ErrorKind::usage, "{} '{}': expected {} bytes for {}, found {}", what, spec.name, byte_size(spec.type),
         to_string(spec.type), found);
}

void check_step(const Method& method, size_t step) {
  if (step >= method.steps.size())
    fail(ErrorKind::usage, "no step {}: method '{}' has {}", step, method.name, method.steps.size());
}

// The program as it is on this device, its first: what has the code that fits it best.
std::shared_ptr<const Program> variant_for(const Backend& device, std::shared_ptr<const Program> program) {
  const auto fit = [&](const Variant& variant) {
    int best = 0;
    for (const Code& code : variant.code) best = std::max(best, device.fit(code));
    return best;
  };
  size_t taken = program->variants.size();
  for (size_t n = 0; n < program->variants.size(); ++n)
    if (fit(program->variants[n]) > fit(taken < n ? program->variants[taken] : *program)) taken = n;
  return taken < program->variants.size() ? std::make_shared<const Program>(with_variant(*program, taken)) : program;
}

}  // namespace

struct Session::State {
  std::shared_ptr<const Constants> constants;
  int threads = 0;
  Queues queues;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<Placement> placements;  // by buffer
  struct Ready {
    std::unique_ptr<ReadySequence> steps;
    std::vector<Port> inputs, outputs;

    void enqueue_steps(int times) {
      for (Port& port : outputs) port.current = false;
      for (int i = 0; i < times; ++i) steps->enqueue();
    }
  };
  std::vector<Ready> methods;
  uint64_t seed = 0;
  bool busy = false;  // something was enqueued

  // What is enqueued works on the segments and the memory until it is done.
  ~State() { abandon(); }

  const Program& program() const { return *constants->program; }

  // On each device one block for ports and states, and one for arenas: it is as large as the largest method's, since
  // a queue runs one method after the other.
  void place() {
    const Program& p = program();
    placements = constants->placements;
    struct Memory {
      Block ports, arena;
      size_t workspace_at = 0;
      DeviceBuffer* port_buffer = nullptr;
      DeviceBuffer* arena_buffer = nullptr;
    };
    std::vector<Memory> of_device(p.devices.size());
    for (size_t d = 0; d < of_device.size(); ++d) {
      uint64_t arena = 0, workspace = 0;
      for (const Method& m : p.methods) {
        arena = std::max(arena, m.arenas[d].bytes);
        workspace = std::max(workspace, m.arenas[d].workspace_bytes);
      }
      of_device[d].arena.add(arena);
      of_device[d].workspace_at = of_device[d].arena.add(workspace);
    }
    std::vector<size_t> offsets(p.buffers.size());
    for (size_t i = 0; i < p.buffers.size(); ++i)
      if (is_port(p.buffers[i])) offsets[i] = of_device[device_of(i)].ports.add(byte_size(p.buffers[i].type));
    for (size_t d = 0; d < of_device.size(); ++d) {
      Memory& m = of_device[d];
      m.port_buffer = allocate(d, m.ports.bytes);
      m.arena_buffer = allocate(d, m.arena.bytes);
      queues[d]->clear({m.port_buffer}, m.port_buffer->bytes());
      // Of what only the device reaches it reads whole words, of which a value may end within one.
      if (!m.arena_buffer->host()) queues[d]->clear({m.arena_buffer}, m.arena_buffer->bytes());
      queues[d]->wait();
    }
    for (size_t i = 0; i < p.buffers.size(); ++i) {
      const Buffer& b = p.buffers[i];
      const Memory& m = of_device[device_of(i)];
      if (is_port(b)) placements[i] = {m.port_buffer, offsets[i]};
      if (b.kind == BufferKind::arena) placements[i] = {m.arena_buffer, b.offset};
      if (b.kind == BufferKind::local) placements[i] = {m.arena_buffer, m.workspace_at + b.offset};
    }
  }

  void prepare() {
    for (const Method& m : program().methods) {
      Ready ready;
      ready.steps = std::make_unique<ReadySequence>(program(), m, placements, queues);
      for (const TensorSpec& spec : m.inputs) ready.inputs.push_back(port(spec));
      for (const TensorSpec& spec : m.outputs) ready.outputs.push_back(port(spec));
      methods.push_back(std::move(ready));
    }
  }

  void begin_generators() {
    const std::array<uint64_t, 2> begin = {seed, 0};
    for (size_t m = 0; m < methods.size(); ++m)
      for (size_t i = 0; i < methods[m].inputs.size(); ++i)
        if (const Port& port = methods[m].inputs[i]; program().methods[m].inputs[i].role == Role::generator) {
          busy = true;
          port.queue->upload(std::as_bytes(std::span(begin)), port.place);
        }
    wait();
  }

  void wait() {
    if (!busy) return;
    busy = false;
    try {
      wait_for(queues);
    } catch (...) {
      forget_outputs();
      throw;
    }
  }

  size_t method(const Key& key) const { return position_of(program().methods, key, "method", "the program"); }

  // An input or output of a method, and what the program says of it.
  struct Found {
    Port& port;
    const TensorSpec& spec;
  };
  Found input(const Key& method_key, const Key& key) {
    const size_t m = method(method_key), i = input_position(m, key);
    return {methods[m].inputs[i], program().methods[m].inputs[i]};
  }
  Found output(const Key& method_key, const Key& key) {
    const size_t m = method(method_key), i = output_position(m, key);
    return {methods[m].outputs[i], program().methods[m].outputs[i]};
  }
  size_t input_position(size_t m, const Key& key) const {
    return position_of(program().methods[m].inputs, key, "input", owner(m));
  }
  size_t output_position(size_t m, const Key& key) const {
    return position_of(program().methods[m].outputs, key, "output", owner(m));
  }
  std::string owner(size_t m) const { return fmt::format("method '{}'", program().methods[m].name); }

  DeviceMemory device_memory(const Port& port, const TensorSpec& spec) {
    const std::uintptr_t address = port.place.buffer->address();
    const std::string device = constants->devices[device_of(static_cast<size_t>(spec.buffer))]->name();
    if (address == 0)
      fail(ErrorKind::usage, "'{}' lies on {}, whose memory has no addresses for others", spec.name, device);
    return {device, address + port.place.offset, spec.type};
  }

  // The caller's memory, where a port that is no state can be copied on its device.
  void bind_device(Port& port, const TensorSpec& spec, const char* what, const DeviceMemory& memory) {
    if (port.state) fail(ErrorKind::usage, "{} '{}' is a state, which stays on its device", what, spec.name);
    check_type(what, spec, memory.type);
    const std::string expected = device_memory(port, spec).device;
    if (memory.device != expected || (memory.address == 0 && port.bytes > 0))
      fail(ErrorKind::usage, "{} '{}': expected memory of {}, found {}", what, spec.name, expected,
           memory.device != expected ? memory.device : "none");
    wait();
    port.reads = {}, port.writes = {};
    port.copies = port.bytes > 0 ? memory.address : 0;
  }

  // Does what enqueues; a failure leaves nothing enqueued.
  template <typename Work>
  void attempt(const Work& work) {
    busy = true;
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
  }

  // After a failure: nothing is enqueued any more, and no output is what a run left.
  void abandon() {
    busy = false;
    try {
      wait_for(queues);
    } catch (const std::exception&) {  // the first failure is the one to tell
    }
    forget_outputs();
  }

 private:
  void forget_outputs() {
    for (Ready& ready : methods)
      for (Port& port : ready.outputs) port.current = false;
  }
  static bool is_port(const Buffer& b) {
    return b.kind == BufferKind::input || b.kind == BufferKind::output || b.kind == BufferKind::state;
  }
  size_t device_of(size_t buffer) const { return static_cast<size_t>(program().buffers[buffer].device); }

  DeviceBuffer* allocate(size_t device, size_t bytes) {
    memory.push_back(constants->devices[device]->allocate(std::max<size_t>(bytes, 1)));
    return memory.back().get();
  }

  Port port(const TensorSpec& spec) {
    const auto id = static_cast<size_t>(spec.buffer);
    Port port;
    port.place = placements[id];
    port.queue = queues[device_of(id)].get();
    port.bytes = byte_size(spec.type);
    port.state = program().buffers[id].kind == BufferKind::state;
    if (std::byte* host = port.place.buffer->host()) {
      port.host = host + port.place.offset;
    } else {
      port.staging.resize(port.bytes);
      port.host = port.staging.data();
    }
    return port;
  }
};

Session::Session(std::shared_ptr<const Program> program, SessionOptions options) : state_(std::make_unique<State>()) {
  if (options.devices.size() > program->devices.size())
    fail(ErrorKind::usage, "the program has {} devices: expected at most as many, found {}", program->devices.size(),
         options.devices.size());
  for (size_t d = options.devices.size(); d < program->devices.size(); ++d)
    options.devices.push_back(open_backend(program->devices[d].target));
  state_->threads = options.threads > 0 ? options.threads : thread_count();
  program = variant_for(*options.devices[0], std::move(program));
  state_->queues = open_queues(options.devices, state_->threads);
  state_->constants = load_constants(std::move(program), options, state_->queues);
  state_->place();
  state_->prepare();
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session Session::sibling() const {
  auto state = std::make_unique<State>();
  state->constants = state_->constants;
  state->threads = state_->threads;
  state->queues = open_queues(state->constants->devices, state->threads);
  state->place();
  state->prepare();
  state->seed = state_->seed;
  state->begin_generators();
  return Session(std::move(state));
}

const Program& Session::program() const { return state_->program(); }
std::shared_ptr<const Program> Session::shared_program() const { return state_->constants->program; }
int Session::threads() const { return state_->threads; }
DeviceInfo Session::device(size_t nth) const {
  const auto& devices = state_->constants->devices;
  if (nth >= devices.size()) fail(ErrorKind::usage, "no device {}: the program has {}", nth, devices.size());
  return {devices[nth]->name(), devices[nth]->description(), true};
}

size_t Session::method(Key method) const { return state_->method(method); }
size_t Session::input_position(Key method, Key input) const {
  return state_->input_position(state_->method(method), input);
}
size_t Session::output_position(Key method, Key output) const {
  return state_->output_position(state_->method(method), output);
}

std::span<std::byte> Session::input(Key method, Key input) {
  state_->wait();
  const auto& [port, spec] = state_->input(method, input);
  if (port.state) fail(ErrorKind::usage, "input '{}' is a state, which stays on its device: use set_input", spec.name);
  return {port.host, port.bytes};
}

void Session::set_input(Key method, Key input, const TensorView& tensor) {
  check_type("input", state_->input(method, input).spec, tensor.type);
  set_input(method, input, {tensor.data, byte_size(tensor.type)});
}

void Session::set_input(Key method, Key input, std::span<const std::byte> bytes) {
  state_->wait();
  const auto& [port, spec] = state_->input(method, input);
  check_size("input", spec, bytes.size());
  if (bytes.empty()) return;
  if (!port.state) {
    std::memcpy(port.host, bytes.data(), bytes.size());
    return;
  }
  state_->busy = true;
  port.queue->upload(bytes, port.place);
  state_->wait();
}

std::span<const std::byte> Session::output(Key method, Key output) {
  state_->wait();
  Port& port = state_->output(method, output).port;
  if (!port.staging.empty() && (port.state || !port.current)) {
    state_->busy = true;
    port.queue->download(port.place, port.staging);
    state_->wait();
    port.current = true;
  }
  return {port.host, port.bytes};
}

TensorView Session::output_view(Key method, Key output) {
  const std::span<const std::byte> bytes = this->output(method, output);
  return {state_->output(method, output).spec.type, bytes.data()};
}

void Session::bind_input(Key method, Key input, const TensorView& memory) {
  check_type("input", state_->input(method, input).spec, memory.type);
  bind_input(method, input, std::span(memory.data, byte_size(memory.type)));
}

void Session::bind_input(Key method, Key input, std::span<const std::byte> memory) {
  const auto& [port, spec] = state_->input(method, input);
  if (port.state) fail(ErrorKind::usage, "input '{}' is a state, which stays on its device: use set_input", spec.name);
  if (!memory.empty()) check_size("input", spec, memory.size());
  state_->wait();
  port.reads = memory, port.copies = 0;
}

void Session::bind_output(Key method, Key output, const TensorSpan& memory) {
  check_type("output", state_->output(method, output).spec, memory.type);
  bind_output(method, output, std::span(memory.data, byte_size(memory.type)));
}

void Session::bind_output(Key method, Key output, std::span<std::byte> memory) {
  const auto& [port, spec] = state_->output(method, output);
  if (port.state) fail(ErrorKind::usage, "output '{}' is a state, which stays on its device: use output", spec.name);
  if (!memory.empty()) check_size("output", spec, memory.size());
  state_->wait();
  port.writes = memory, port.copies = 0;
}

void Session::bind_device_input(Key method, Key input, const DeviceMemory& memory) {
  const auto& [port, spec] = state_->input(method, input);
  state_->bind_device(port, spec, "input", memory);
}

void Session::bind_device_output(Key method, Key output, const DeviceMemory& memory) {
  const auto& [port, spec] = state_->output(method, output);
  state_->bind_device(port, spec, "output", memory);
}

void Session::run(Key method, int times) {
  enqueue(method, times);
  wait();
}

void Session::enqueue(Key method, int times) {
  State::Ready& ready = state_->methods[state_->method(method)];
  state_->attempt([&] {
    for (Port& port : ready.inputs) {
      if (port.copies != 0)
        port.queue->copy_in(port.copies, port.place, port.bytes);
      else if (!port.reads.empty())
        port.queue->upload(port.reads, port.place);
      else if (!port.staging.empty() && !port.state)
        port.queue->upload(port.staging, port.place);
    }
    ready.enqueue_steps(times);
    for (Port& port : ready.outputs) {
      if (port.copies != 0)
        port.queue->copy_out(port.place, port.copies, port.bytes);
      else if (!port.writes.empty())
        port.queue->download(port.place, port.writes);
    }
  });
}

void Session::wait() { state_->wait(); }

DeviceMemory Session::device_input(Key method, Key input) {
  const auto& [port, spec] = state_->input(method, input);
  return state_->device_memory(port, spec);
}

DeviceMemory Session::device_output(Key method, Key output) {
  const auto& [port, spec] = state_->output(method, output);
  return state_->device_memory(port, spec);
}

void Session::run_on_device(Key method, int times) {
  State::Ready& ready = state_->methods[state_->method(method)];
  state_->attempt([&] { ready.enqueue_steps(times); });
  state_->wait();
}

void Session::reset_states() {
  state_->busy = true;
  for (const State::Ready& ready : state_->methods)
    for (const Port& port : ready.inputs)
      if (port.state) port.queue->clear(port.place, port.bytes);
  state_->wait();
  state_->begin_generators();
}

void Session::seed(uint64_t seed) {
  state_->wait();
  state_->seed = seed;
  state_->begin_generators();
}

uint64_t Session::seed() const { return state_->seed; }

void Session::run_step(Key method, size_t step) {
  const size_t m = state_->method(method);
  check_step(state_->program().methods[m], step);
  state_->attempt([&] { state_->methods[m].steps->enqueue_step(step); });
  state_->wait();
}

std::vector<std::byte> Session::step_memory(Key method, size_t step, size_t buffer) {
  const Method& m = state_->program().methods[state_->method(method)];
  check_step(m, step);
  if (buffer >= m.steps[step].buffers.size())
    fail(ErrorKind::usage, "no buffer {}: step {} has {}", buffer, step, m.steps[step].buffers.size());
  const auto id = static_cast<size_t>(m.steps[step].buffers[buffer]);
  const Placement& place = state_->placements[id];
  const Buffer& b = state_->program().buffers[id];
  std::vector<std::byte> bytes(stored_bytes(b));
  state_->wait();
  if (const std::byte* host = place.buffer->host()) {
    std::copy_n(host + place.offset, bytes.size(), bytes.begin());
  } else if (!bytes.empty()) {
    Queue& queue = *state_->queues[static_cast<size_t>(b.device)];
    state_->attempt([&] { queue.download(place, bytes); });
    state_->wait();
  }
  return bytes;
}

std::vector<double> Session::time_steps(Key method) {
  const size_t m = state_->method(method);
  std::vector<double> ms(state_->program().methods[m].steps.size());
  state_->attempt([&] { state_->methods[m].steps->time_steps(ms); });
  state_->wait();
  return ms;
}

StepInfo Session::step_info(Key method, size_t step) const {
  const size_t m = state_->method(method);
  check_step(state_->program().methods[m], step);
  return state_->methods[m].steps->step_info(step);
}

}  // namespace npusim
