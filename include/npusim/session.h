// A program made ready on its devices, with the memory and the states of one user.
//
// Thread rules: one Session is used by one thread at a time, not always the same one. Any number of Sessions run at
// once, also of one program, on one device and over the same weights. A Session owns or shares all that it needs: the
// caller may let go of program, weights and devices.
//
// An exception out of any function leaves the Session usable: what was enqueued is over, and outputs that the failed
// run would have written are unspecified. States that it had not begun to update are as they were; with those that it
// had, nothing runs (usage) before they are set, or all states are reset.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "npusim/cancel.h"
#include "npusim/device.h"
#include "npusim/program.h"
#include "npusim/tensor_set.h"

namespace npusim {

// A method, an input or an output: by its name in the IR, or by its position, which costs no search.
class Key {
 public:
  Key(size_t position) : position_(position) {}
  template <std::convertible_to<std::string_view> Name>
  Key(const Name& name) : name_(name), named_(true) {}
  bool named() const { return named_; }
  std::string_view name() const { return name_; }
  size_t position() const { return position_; }

 private:
  size_t position_ = 0;
  std::string_view name_;
  bool named_ = false;
};

struct SessionOptions {
  std::shared_ptr<const TensorSet> weights = {};       // none: the program has no weights
  std::vector<std::shared_ptr<Backend>> devices = {};  // of the program's first ones; the others: the targets' own
  int threads = 0;     // of the host, at most most_threads; 0: one per core, one for a program of little work
  Budget budget = {};  // checked before anything is allocated or read: check_budget()
};

// A port's memory on its device, for code of the caller's own that reads or writes it there.
struct DeviceMemory {
  std::string device;          // "cuda:0"
  std::uintptr_t address = 0;  // of the device's memory; the host's where that is the device's
  TensorType type;             // row-major
};

class NPUSIM_API Session {
  struct State;

 public:
  // Loads the weights that the program names, runs its recipes once, resolves every step. Throws bad_input naming each
  // weight that is missing or has another shape.
  explicit Session(std::shared_ptr<const Program> program, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // A session of its own, with new states, over the same program, devices, weights and results of recipes. May be
  // called while another thread uses this session.
  Session sibling() const;

  // Of a program for several architectures, what the first device takes.
  const Program& program() const;
  std::shared_ptr<const Program> shared_program() const;
  int threads() const;  // that it takes at most
  DeviceInfo device(size_t nth) const;

  // Positions, for whoever asks often. Throw usage listing the names there are, as all functions that take a Key do.
  size_t method(Key method) const;
  size_t input_position(Key method, Key input) const;
  size_t output_position(Key method, Key output) const;

  // Gives an input a value, or a state: that is transferred now, and runs update it. Copies. Throws usage when the
  // tensor, or the number of bytes, is not the input's.
  void set_input(Key method, Key input, const TensorView& tensor);
  void set_input(Key method, Key input, std::span<const std::byte> bytes);
  // An input's memory on the host: written before a run, read by every run that follows. Zero at first. Waits for what
  // is enqueued. Not for states. On a device whose memory the host cannot reach this is a copy that a run transfers.
  std::span<std::byte> input(Key method, Key input);
  // What the last run left in an output, or in a state that is one. Waits; transfers when asked, not before. Valid
  // until the method runs again.
  std::span<const std::byte> output(Key method, Key output);
  TensorView output_view(Key method, Key output);
  // The caller's own memory: each run reads the input from it, or leaves the output in it, until it is bound anew. It
  // must live, and an input's stay as it is, until wait() returns. An empty span gives the port its own memory back.
  // Throws usage for another size or type, and for a state.
  void bind_input(Key method, Key input, const TensorView& memory);
  void bind_input(Key method, Key input, std::span<const std::byte> memory);
  void bind_output(Key method, Key output, const TensorSpan& memory);
  void bind_output(Key method, Key output, std::span<std::byte> memory);

  // Memory of the caller's own on the device where the input or output lies: runs copy it there, behind what the
  // device's default stream was given before. Until it is bound anew, also to memory of the host or to none. Throws
  // usage for another device or type, for a state, and where the device has no addresses for others.
  void bind_device_input(Key method, Key input, const DeviceMemory& memory);
  void bind_device_output(Key method, Key output, const DeviceMemory& memory);

  // Allocates nothing. `run` is `enqueue` and `wait`; `times` runs follow each other with the same inputs, each on the
  // states that the one before it left.
  void run(Key method, int times = 1);
  void enqueue(Key method, int times = 1);
  void wait();

  // From any thread: what is under way ends between two of its steps, with Error of kind cancelled. False where nothing
  // is. What is enqueued on a device by whole methods ends between those.
  bool cancel();

  // While one lives in the thread that works with the session, cancel() is for all that is done within it: for work of
  // several runs, as generate() is one. Throws usage when another thread is at work with the session.
  class NPUSIM_API Task {
   public:
    explicit Task(Session& session);
    ~Task();
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    State& state_;
    std::optional<CancelScope> scope_;
  };

  // Whether a run that failed has left states that it had begun to update.
  bool states_are_torn() const;
  // How many runs and single steps that update states were begun and did not fail. For callers that keep values of
  // their own beside the states, or run a method by its steps: where they did not come to the end of what they began,
  // they find by this number that states have moved on, and say so with tear().
  uint64_t updates() const;
  // As after a run of the method that failed when it had begun to update all its states. `why`: how it ended.
  void tear(Key method, std::string_view why);

  // Where an input or output, a state too, lies on its device: the same as long as the session lives. Throws usage
  // where the device has no addresses for others.
  DeviceMemory device_input(Key method, Key input);
  DeviceMemory device_output(Key method, Key output);
  // As run(), on what is in the inputs' memory on their devices, with outputs left there: no transfer from or to the
  // host. The caller's own work on that memory is done before, or begins after.
  void run_on_device(Key method, int times = 1);

  // All states as they began: zeros, or the weights of their names. The generator to its seed. After a failed run too.
  void reset_states();
  // The seed of the random numbers that runs draw, 0 at first: their sequence starts anew. Nothing for a program that
  // draws none. States of the caller's own (set_input) win where they come later.
  void seed(uint64_t seed);
  uint64_t seed() const;

  // One step alone, for profiling and bisecting; waits. Steps are those of step_names().
  void run_step(Key method, size_t step);
  StepInfo step_info(Key method, size_t step) const;
  // What is in the memory of the n-th buffer of a step now, as it lies there; of a value that lives within one launch
  // it says nothing.
  std::vector<std::byte> step_memory(Key method, size_t step, size_t buffer);
  // All steps, one after the other, on the inputs that the last run had, and the milliseconds of each: by the device's
  // clock where it has one, else by the host's around the step. Steps that one launch does together are timed with the
  // first of them, the others took 0.
  std::vector<double> time_steps(Key method);

 private:
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace npusim
