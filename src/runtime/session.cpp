// Opens sessions, and walks a program's methods.
#include "npusim/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"
#include "program/budget.h"
#include "runtime/device_table.h"
#include "runtime/session_state.h"

namespace npusim {
namespace {

void check_step(const Method& method, size_t step) {
  if (step >= method.steps.size())
    fail(ErrorKind::usage, "no step {}: method '{}' has {}", step, method.name, method.steps.size());
}

// The program as it is on this device, its first: what has the code that fits it best.
std::shared_ptr<const Program> variant_for(const Backend& device, std::shared_ptr<const Program> program) {
  const auto fit = [&](const Variant& variant) {
    int best = 0;
    for (const CodeSet& set : variant.code)
      for (const Code& code : set) best = std::max(best, device.fit(code));
    return best;
  };
  size_t taken = program->variants.size();
  for (size_t n = 0; n < program->variants.size(); ++n)
    if (fit(program->variants[n]) > fit(taken < n ? program->variants[taken] : *program)) taken = n;
  return taken < program->variants.size() ? std::make_shared<const Program>(with_variant(*program, taken)) : program;
}

// Refuses by name what could only end in a failure to allocate.
void check_memory(const Program& program, const std::vector<std::shared_ptr<Backend>>& devices) {
  const std::vector<DeviceNeeds> needs = device_needs(program);
  for (size_t d = 0; d < needs.size(); ++d)
    if (needs[d].bytes > devices[d]->memory_bytes())
      fail(ErrorKind::device, "the program needs {} bytes of memory on {}, which has {}: {} takes {} of them",
           needs[d].bytes, devices[d]->name(), devices[d]->memory_bytes(), needs[d].largest, needs[d].largest_bytes);
}

// The device that a program was made for, which another build may have.
std::shared_ptr<Backend> open_own(const std::string& target) {
  std::vector<std::string> names;
  for (const DeviceRow& row : device_table()) names.emplace_back(row.name);
  if (std::find(names.begin(), names.end(), target.substr(0, target.find(':'))) == names.end())
    fail(ErrorKind::unsupported,
         "the program is for device '{}', which this build does not have: expected {}; a device given beside the "
         "program is taken in its place",
         target, fmt::join(names, ", "));
  return open_backend(target);
}

}  // namespace

Session::Session(std::shared_ptr<const Program> program, SessionOptions options) : state_(std::make_unique<State>()) {
  if (!program) fail(ErrorKind::usage, "expected a program, found none");
  if (std::count(options.devices.begin(), options.devices.end(), nullptr) > 0)
    fail(ErrorKind::usage, "expected a device at each place, found none at one");
  checked_threads("threads", options.threads);
  check_budget(*program, options.budget);
  if (options.devices.size() > program->devices.size())
    fail(ErrorKind::usage, "the program has {} devices: expected at most as many, found {}", program->devices.size(),
         options.devices.size());
  for (size_t d = options.devices.size(); d < program->devices.size(); ++d)
    options.devices.push_back(open_own(program->devices[d].target));
  program = variant_for(*options.devices[0], std::move(program));
  check_memory(*program, options.devices);
  state_->asked_threads = options.threads;
  state_->threads = options.threads > 0 ? options.threads : thread_count();
  state_->queues = open_queues(options.devices, options.threads);
  state_->constants = load_constants(std::move(program), options, state_->queues);
  state_->place();
  state_->prepare();
  state_->begin_states();
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session Session::sibling() const {
  auto state = std::make_unique<State>();
  state->constants = state_->constants;
  state->asked_threads = state_->asked_threads, state->threads = state_->threads;
  state->queues = open_queues(state->constants->devices, state->asked_threads);
  state->place();
  state->prepare();
  state->begin_states();
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
  state_->torn[static_cast<size_t>(spec.buffer)] = false;
}

std::span<const std::byte> Session::output(Key method, Key output) {
  state_->wait();
  const auto& [port, spec] = state_->output(method, output);
  if (port.state && state_->torn[static_cast<size_t>(spec.buffer)])
    state_->refuse_torn(spec.buffer, "output '" + spec.name + "'");
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

bool Session::cancel() {
  Stop expected = Stop::working;
  return state_->stop.compare_exchange_strong(expected, Stop::asked) || expected == Stop::asked;
}

bool Session::states_are_torn() const {
  return std::find(state_->torn.begin(), state_->torn.end(), true) != state_->torn.end();
}

uint64_t Session::updates() const { return state_->updates; }

void Session::tear(Key method, std::string_view why) {
  state_->wait();
  state_->tear_states(state_->method(method), 0, SIZE_MAX, std::string(why).c_str());
}

Session::Task::Task(Session& session) : state_(*session.state_) {
  const std::thread::id me = std::this_thread::get_id();
  if (state_.worker.load() != me) {
    std::thread::id nobody;
    if (!state_.worker.compare_exchange_strong(nobody, me))
      fail(ErrorKind::usage,
           "the session is at work in another thread, or was when this process was forked: open a session for each, "
           "with sibling()");
    state_.stop = Stop::working;
    scope_.emplace([state = &state_] { return state->stop.load(std::memory_order_relaxed) == Stop::asked; });
  }
  ++state_.depth;
}

Session::Task::~Task() {
  if (--state_.depth > 0) return;
  state_.stop = Stop::idle;
  state_.worker = std::thread::id();
}

void Session::enqueue(Key method, int times) {
  const Task task(*this);
  if (times < 0) fail(ErrorKind::usage, "a method runs 0 times or more often, found {}", times);
  const size_t m = state_->method(method);
  State::Ready& ready = state_->methods[m];
  if (times > 0) state_->need_states(m);
  state_->attempt(m, [&] {
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
  if (times < 0) fail(ErrorKind::usage, "a method runs 0 times or more often, found {}", times);
  const Task task(*this);
  const size_t m = state_->method(method);
  state_->need_states(m);
  state_->attempt(m, [&] { state_->methods[m].enqueue_steps(times); });
  state_->wait();
}

void Session::reset_states() {
  state_->busy = true;
  for (const State::Ready& ready : state_->methods)
    for (const Port& port : ready.inputs)
      if (port.state) port.queue->clear(port.place, port.bytes);
  state_->wait();
  state_->torn.assign(state_->torn.size(), false);
  state_->begin_states();
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
  const Task task(*this);
  check_step(state_->program().methods[m], step);
  state_->need_states(m);
  state_->attempt(
      m, [&] { state_->methods[m].steps->enqueue_step(step); }, [&] { return std::pair(step, step + 1); });
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
    state_->busy = true;
    state_->queues[static_cast<size_t>(b.device)]->download(place, bytes);
    state_->wait();
  }
  return bytes;
}

std::vector<double> Session::time_steps(Key method) {
  const size_t m = state_->method(method);
  const Task task(*this);
  std::vector<double> ms(state_->program().methods[m].steps.size());
  state_->need_states(m);
  state_->attempt(
      m, [&] { state_->methods[m].steps->time_steps(ms); }, [] { return std::pair(size_t{0}, SIZE_MAX); });
  state_->wait();
  return ms;
}

StepInfo Session::step_info(Key method, size_t step) const {
  const size_t m = state_->method(method);
  check_step(state_->program().methods[m], step);
  return state_->methods[m].steps->step_info(step);
}

}  // namespace npusim
