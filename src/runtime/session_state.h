// What one session has: memory and queues on its devices, its methods made ready, who is at work with it, and which of
// its states a run that failed has left torn.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "npusim/session.h"
#include "program/program.h"
#include "runtime/backend.h"
#include "runtime/constants.h"
#include "runtime/sequence.h"

namespace npusim {

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

// A step's use of a state.
struct StateUse {
  size_t step = 0;
  int32_t buffer = -1;
  bool writes = false;
};

enum class Stop { idle, working, asked };

// Throw usage when a tensor, or a number of bytes, is not the port's.
void check_type(std::string_view what, const TensorSpec& spec, const TensorType& found);
void check_size(std::string_view what, const TensorSpec& spec, size_t found);

struct Session::State {
  std::shared_ptr<const Constants> constants;
  int asked_threads = 0, threads = 0;
  Queues queues;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<Placement> placements;  // by buffer
  struct Ready {
    std::unique_ptr<ReadySequence> steps;
    std::vector<Port> inputs, outputs;
    std::vector<StateUse> states;  // in the order of steps
    bool in_flight = false;        // was enqueued and not waited for
    size_t runs = 0;               // that the call under way has begun

    void enqueue_steps(int times) {
      for (Port& port : outputs) port.current = false;
      for (int i = 0; i < times; ++i) {
        ++runs;
        steps->enqueue();
      }
    }
    // Behind the last step that the call under way has begun, of any of its runs.
    size_t begun() const { return runs == 0 ? 0 : runs == 1 ? steps->begun() : SIZE_MAX; }
  };
  std::vector<Ready> methods;
  std::vector<bool> torn;  // by buffer: a state that a run which failed has begun to update
  std::string tear;        // how it failed
  uint64_t updates = 0;    // Session::updates()
  uint64_t seed = 0;
  bool busy = false;  // something was enqueued

  // Who is at work, how deep in tasks, and whether cancel() has asked for an end.
  std::atomic<std::thread::id> worker = std::thread::id();
  int depth = 0;
  std::atomic<Stop> stop = Stop::idle;

  // What is enqueued works on the segments and the memory until it is done.
  ~State() { abandon(); }

  const Program& program() const { return *constants->program; }

  // On each device one block for ports and states, and one for arenas: it is as large as the largest method's, since
  // a queue runs one method after the other.
  void place();

  void prepare();

  void begin_generators();
  // States whose names weights have begin with these, from memory that holds zeros. Throws bad_input where one is of
  // another shape, or no number of its kind.
  void begin_states();

  void wait();

  // Throws where a method's states are not what runs that ended have left, or the caller.
  void need_states(size_t m) const;
  [[noreturn]] void refuse_torn(int32_t buffer, const std::string& who) const;
  bool updates_states(size_t m, size_t first, size_t end) const;
  // The states that steps [first, end) of a method update.
  void tear_states(size_t m, size_t first, size_t end, const char* why);
  void tear_in_flight(const char* why);

  size_t method(const Key& key) const;

  // An input or output of a method, and what the program says of it.
  struct Found {
    Port& port;
    const TensorSpec& spec;
  };
  Found input(const Key& method_key, const Key& key);
  Found output(const Key& method_key, const Key& key);
  size_t input_position(size_t m, const Key& key) const;
  size_t output_position(size_t m, const Key& key) const;
  std::string owner(size_t m) const;

  DeviceMemory device_memory(const Port& port, const TensorSpec& spec);

  // The caller's memory, where a port that is no state can be copied on its device.
  void bind_device(Port& port, const TensorSpec& spec, const char* what, const DeviceMemory& memory);

  // Does what enqueues work of a method; a failure leaves nothing enqueued. `begun()`: which of the method's steps were
  // begun then, from the first to behind the last.
  template <typename Work, typename Begun>
  void attempt(size_t m, const Work& work, const Begun& begun) {
    busy = true;
    methods[m].runs = 0;
    try {
      work();
      methods[m].in_flight = true;
      const std::pair<size_t, size_t> steps = begun();
      updates += updates_states(m, steps.first, steps.second);
    } catch (const std::exception& error) {
      const std::pair<size_t, size_t> steps = begun();
      tear_states(m, steps.first, steps.second, error.what());
      abandon();
      throw;
    }
  }
  template <typename Work>
  void attempt(size_t m, const Work& work) {
    attempt(m, work, [&] { return std::pair(size_t{0}, methods[m].begun()); });
  }

  // After a failure: nothing is enqueued any more, and no output is what a run left.
  void abandon();

 private:
  void forget_outputs();
  size_t device_of(size_t buffer) const { return static_cast<size_t>(program().buffers[buffer].device); }

  DeviceBuffer* allocate(size_t device, size_t bytes);

  Port port(const TensorSpec& spec);
};

}  // namespace npusim
