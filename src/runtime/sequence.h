// A sequence of steps made ready on its devices: segments of steps on one device, the transfers between them, and
// calls, which the host does in memory that it reaches.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aten/calls.h"
#include "runtime/constants.h"

namespace npusim {

class ReadySequence {
 public:
  // The program, its sequence, the queues and the placements' memory outlive it.
  ReadySequence(const Program& program, const Sequence& sequence, const std::vector<Placement>& placements,
                const Queues& queues);

  // Segments follow each other in their devices' queues; a transfer waits for both. May be cancelled between its parts.
  void enqueue();
  // After an enqueue() that threw: how many of its steps were begun, at most.
  size_t begun() const;
  void enqueue_step(size_t step);
  StepInfo step_info(size_t step) const;
  // All steps, one after the other: the milliseconds of each, by the device's clock where it has one, else by the
  // host's.
  void time_steps(std::span<double> ms);

 private:
  struct Part {
    size_t first = 0, count = 1;       // steps
    std::unique_ptr<Segment> segment;  // or
    std::unique_ptr<ReadyCall> call;   // or, with neither, a transfer
    std::vector<void*> args;           // of a call
    Queue* from_queue = nullptr;
    Queue* to_queue = nullptr;
    Placement from, to;
    size_t bytes = 0;
  };
  const Part& part_of(size_t step) const;
  void transfer(const Part& part);
  void call(const Part& part);
  void enqueue(const Part& part);
  Part make_call(const Step& step, const std::vector<Placement>& placements) const;

  const Program& program_;
  const Sequence& sequence_;
  std::vector<Part> parts_;
  size_t begun_ = 0;                // of `parts_`
  std::vector<std::byte> staging_;  // for transfers between devices whose memory the host cannot reach
};

}  // namespace npusim
