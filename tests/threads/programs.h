// Small programs of every kind of work that threads share, with sizes drawn at random, and what they give.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "npusim/session.h"

namespace npusim::test {

struct ThreadedProgram {
  std::string name;
  std::shared_ptr<const Program> program;
  std::shared_ptr<const TensorSet> weights;
  std::vector<HostTensor> inputs;
};

// Compiled, and compared with the reference by the session's own threads. `seed` draws the sizes.
std::vector<ThreadedProgram> threaded_programs(unsigned seed);

Session open(const ThreadedProgram& p, int threads);
// The bytes of all outputs after a run.
std::string outputs_of(const ThreadedProgram& p, Session& session);

}  // namespace npusim::test
