// A program made ready on its devices, with the memory and the states of one user.
//
// Thread rules: one Session is used by one thread at a time, not always the same one. Any number of Sessions run at
// once, also of one program, on one device and over the same weights. A Session owns or shares all that it needs.
//
// An exception out of any function leaves the Session usable: what was enqueued is over, outputs and states that the
// failed run would have written are unspecified, and the next run starts anew.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/safetensors.h"

namespace npusim {

struct SessionOptions {
  std::shared_ptr<const WeightFiles> weights;     // none: the program has no weights
  std::vector<std::shared_ptr<Backend>> devices;  // one for each of the program's; empty: the targets' own
  int threads = 0;                                // of the host; 0: one per core
};

class Session {
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

  const Program& program() const;
  size_t method(const std::string& name) const;  // throws usage listing the names
  int threads() const;

  // An input's memory on the host: written before a run, read by every run that follows. Zero at first. Waits for what
  // is enqueued. Not for states. On a device whose memory the host cannot reach this is a copy that a run transfers.
  std::span<std::byte> input(size_t method, size_t nth);
  // Gives an input a value, or a state: that is transferred now, and runs update it. `bytes` are all of the tensor's.
  void set_input(size_t method, size_t nth, std::span<const std::byte> bytes);
  // What the last run left in an output, or in a state that is one. Waits; transfers when asked, not before. Valid
  // until the method runs again.
  std::span<const std::byte> output(size_t method, size_t nth);
  // The caller's own memory: each run reads the input from it, or leaves the output in it, until it is bound anew. An
  // empty span gives the port its own memory back. Throws usage for another size, and for a state.
  void bind_input(size_t method, size_t nth, std::span<const std::byte> memory);
  void bind_output(size_t method, size_t nth, std::span<std::byte> memory);

  // Allocates nothing. `run` is `enqueue` and `wait`; `times` runs follow each other with the same inputs, each on the
  // states that the one before it left.
  void run(size_t method, int times = 1);
  void enqueue(size_t method, int times = 1);
  void wait();

  // All states to zero.
  void reset_states();
  // Copies the first `count` rows of a method's outputs into states of another as the program's links say, on the
  // device.
  void follow_links(size_t from_method, int64_t count);

  // One step alone, for profiling and bisecting; waits.
  void run_step(size_t method, size_t step);
  StepInfo step_info(size_t method, size_t step) const;
  const Backend& device(size_t nth) const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace npusim
