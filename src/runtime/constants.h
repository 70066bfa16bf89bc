// What the sessions of one program share: its weights and constants on each device, and what the recipes made of them.
#pragma once
#include <memory>
#include <vector>

#include "npusim/session.h"
#include "runtime/backend.h"

namespace npusim {

// One allocation for many values.
struct Block {
  size_t bytes = 0;
  size_t add(size_t size);  // the offset of a value of this size
};

struct Constants {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const TensorSet> weights;  // devices that read host memory read weights in their files
  std::vector<std::shared_ptr<Backend>> devices;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<Placement> placements;  // by buffer; set for weights, constants and prepared buffers that methods read
};

using Queues = std::vector<std::unique_ptr<Queue>>;  // one per device of the program
Queues open_queues(const std::vector<std::shared_ptr<Backend>>& devices, int threads);
// Until all of them are empty, also when one throws: then the first failure is thrown.
void wait_for(const Queues& queues);

// Throws bad_input naming every weight that is missing or has another shape, and unsupported where a fusion does not
// hold for the weights (Buffer::finite_for).
std::shared_ptr<const Constants> load_constants(std::shared_ptr<const Program> program, const SessionOptions& options,
                                                const Queues& queues);

}  // namespace npusim
