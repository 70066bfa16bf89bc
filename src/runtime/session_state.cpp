// Places what belongs to one session, and keeps account of its states.
#include "runtime/session_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace npusim {
namespace {

std::vector<StateUse> state_uses(const Program& program, const Method& method) {
  std::vector<StateUse> uses;
  for (size_t s = 0; s < method.steps.size(); ++s) {
    const Step& step = method.steps[s];
    for (size_t i = 0; i < step.buffers.size(); ++i) {
      if (program.buffers[static_cast<size_t>(step.buffers[i])].kind != BufferKind::state) continue;
      uses.push_back({s, step.buffers[i], is_written(program, step, i)});
    }
  }
  return uses;
}

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

bool is_port(const Buffer& b) {
  return b.kind == BufferKind::input || b.kind == BufferKind::output || b.kind == BufferKind::state;
}

}  // namespace

void check_type(std::string_view what, const TensorSpec& spec, const TensorType& found) {
  if (found != spec.type)
    fail(ErrorKind::usage, "{} '{}': expected {}, found {}", what, spec.name, to_string(spec.type), to_string(found));
}

void check_size(std::string_view what, const TensorSpec& spec, size_t found) {
  if (found != byte_size(spec.type))
    fail(ErrorKind::usage, "{} '{}': expected {} bytes for {}, found {}", what, spec.name, byte_size(spec.type),
         to_string(spec.type), found);
}

void Session::State::place() {
  const Program& p = program();
  torn.assign(p.buffers.size(), false);
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

void Session::State::prepare() {
  for (const Method& m : program().methods) {
    Ready ready;
    ready.steps = std::make_unique<ReadySequence>(program(), m, placements, queues);
    for (const TensorSpec& spec : m.inputs) ready.inputs.push_back(port(spec));
    for (const TensorSpec& spec : m.outputs) ready.outputs.push_back(port(spec));
    ready.states = state_uses(program(), m);
    methods.push_back(std::move(ready));
  }
}

void Session::State::begin_generators() {
  const std::array<uint64_t, 2> begin = {seed, 0};
  for (size_t m = 0; m < methods.size(); ++m)
    for (size_t i = 0; i < methods[m].inputs.size(); ++i)
      if (const Port& port = methods[m].inputs[i]; program().methods[m].inputs[i].role == Role::generator) {
        busy = true;
        port.queue->upload(std::as_bytes(std::span(begin)), port.place);
        torn[static_cast<size_t>(program().methods[m].inputs[i].buffer)] = false;
      }
  wait();
}

void Session::State::begin_states() {
  if (!constants->weights) return;
  std::vector<HostTensor> converted;  // until they are uploaded
  std::vector<bool> begun(program().buffers.size(), false);
  const auto is_computed_in = [](DType dtype) {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  };
  for (size_t m = 0; m < methods.size(); ++m)
    for (size_t i = 0; i < methods[m].inputs.size(); ++i) {
      const Port& port = methods[m].inputs[i];
      const TensorSpec& spec = program().methods[m].inputs[i];
      if (!port.state || spec.role == Role::generator || begun[static_cast<size_t>(spec.buffer)]) continue;
      const TensorView* first = find_tensor(*constants->weights, spec.name);
      if (!first) continue;
      begun[static_cast<size_t>(spec.buffer)] = true;
      const bool same = first->type.dtype == spec.type.dtype;
      if (first->type.shape != spec.type.shape ||
          !(same || (is_computed_in(first->type.dtype) && is_computed_in(spec.type.dtype))))
        fail(ErrorKind::bad_input, "weight '{}': is the first value of a state: expected {}, found {}", spec.name,
             to_string(spec.type), to_string(first->type));
      if (!same) converted.push_back(convert_tensor(*first, spec.type.dtype));
      const std::byte* data = same ? first->data : converted.back().data.data();
      if (port.bytes == 0) continue;
      busy = true;
      port.queue->upload({data, port.bytes}, port.place);
    }
  wait();
}

void Session::State::wait() {
  if (!busy) return;
  busy = false;
  try {
    wait_for(queues);
  } catch (const std::exception& error) {
    tear_in_flight(error.what());
    forget_outputs();
    throw;
  }
  for (Ready& ready : methods) ready.in_flight = false;
}

void Session::State::need_states(size_t m) const {
  for (const StateUse& use : methods[m].states)
    if (torn[static_cast<size_t>(use.buffer)]) refuse_torn(use.buffer, owner(m));
}

void Session::State::refuse_torn(int32_t buffer, const std::string& who) const {
  fail(ErrorKind::usage,
       "{} uses state '{}', which a run that failed has left partly updated: reset the session's states, or set this "
       "one. The run ended with: {}",
       who, program().buffers[static_cast<size_t>(buffer)].name, tear);
}

bool Session::State::updates_states(size_t m, size_t first, size_t end) const {
  return std::any_of(methods[m].states.begin(), methods[m].states.end(),
                     [&](const StateUse& use) { return use.writes && use.step >= first && use.step < end; });
}

void Session::State::tear_states(size_t m, size_t first, size_t end, const char* why) {
  for (const StateUse& use : methods[m].states)
    if (use.writes && use.step >= first && use.step < end) {
      torn[static_cast<size_t>(use.buffer)] = true;
      tear = why;
    }
}

void Session::State::tear_in_flight(const char* why) {
  for (size_t m = 0; m < methods.size(); ++m)
    if (std::exchange(methods[m].in_flight, false)) tear_states(m, 0, SIZE_MAX, why);
}

Session::State::Found Session::State::input(const Key& method_key, const Key& key) {
  const size_t m = method(method_key), i = input_position(m, key);
  return {methods[m].inputs[i], program().methods[m].inputs[i]};
}

Session::State::Found Session::State::output(const Key& method_key, const Key& key) {
  const size_t m = method(method_key), i = output_position(m, key);
  return {methods[m].outputs[i], program().methods[m].outputs[i]};
}

size_t Session::State::method(const Key& key) const {
  return position_of(program().methods, key, "method", "the program");
}

size_t Session::State::input_position(size_t m, const Key& key) const {
  return position_of(program().methods[m].inputs, key, "input", owner(m));
}

size_t Session::State::output_position(size_t m, const Key& key) const {
  return position_of(program().methods[m].outputs, key, "output", owner(m));
}

std::string Session::State::owner(size_t m) const { return fmt::format("method '{}'", program().methods[m].name); }

DeviceMemory Session::State::device_memory(const Port& port, const TensorSpec& spec) {
  const std::uintptr_t address = port.place.buffer->address();
  const std::string device = constants->devices[device_of(static_cast<size_t>(spec.buffer))]->name();
  if (address == 0)
    fail(ErrorKind::usage, "'{}' lies on {}, whose memory has no addresses for others", spec.name, device);
  return {device, address + port.place.offset, spec.type};
}

void Session::State::bind_device(Port& port, const TensorSpec& spec, const char* what, const DeviceMemory& memory) {
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

void Session::State::abandon() {
  busy = false;
  try {
    wait_for(queues);
    for (Ready& ready : methods) ready.in_flight = false;
  } catch (const std::exception& error) {  // the first failure is the one to tell
    tear_in_flight(error.what());
  }
  forget_outputs();
}

DeviceBuffer* Session::State::allocate(size_t device, size_t bytes) {
  memory.push_back(constants->devices[device]->allocate(std::max<size_t>(bytes, 1)));
  return memory.back().get();
}

Port Session::State::port(const TensorSpec& spec) {
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

void Session::State::forget_outputs() {
  for (Ready& ready : methods)
    for (Port& port : ready.outputs) port.current = false;
}

}  // namespace npusim
