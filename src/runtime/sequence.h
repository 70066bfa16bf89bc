// A sequence of steps made ready on its devices: segments of steps on one device, and the transfers between them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/constants.h"

namespace npusim {

class ReadySequence {
 public:
  // The program, the queues and the placements' memory outlive it.
  ReadySequence(const Program& program, const Sequence& sequence, const std::vector<Placement>& placements,
                const Queues& queues);

  // Segments follow each other in their devices' queues; a transfer waits for both.
  void enqueue();
  void enqueue_step(size_t step);
  StepInfo step_info(size_t step) const;
  // All steps, one after the other: the milliseconds of each, by the device's clock where it has one, else by the host's.
  void time_steps(std::span<double> ms);

 private:
  struct Part {
    size_t first = 0, count = 1;       // steps
    std::unique_ptr<Segment> segment;  // none: a transfer
    Queue* from_queue = nullptr;
    Queue* to_queue = nullptr;
    Placement from, to;
    size_t bytes = 0;
  };
  const Part& part_of(size_t step) const;
  void transfer(const Part& part);

  std::vector<Part> parts_;
  std::vector<std::byte> staging_;  // for transfers between devices whose memory the host cannot reach
};

}  // namespace npusim
