// The ways in which kernels are made for this device, in the order in which they are asked.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/target/product.h"
#include "print/print.h"

namespace npusim::cuda {

struct Made {
  std::string symbol;
  std::string functions;  // without the helpers that they mention; the last one is the kernel's
  LaunchShape shape;
  int64_t shared_bytes = 0;        // of a block, beside what the text declares
  std::vector<std::string> traps;  // what its trap word says, from 1 on; none: it takes none
  std::vector<size_t> trap_steps;  // whose each of them is, of several steps; none: the first one's
  bool groups = false;             // uses what sm_90a alone has
  int pieces = 1;                  // blocks of a cluster
  std::string how;                 // the implementation, and why those before it declined
};

// `attention`, `dots`, `patches`, `depthwise`, `tiles`, without a contraction `combined lines` and `ordered rows`, and
// rows, which takes all: at most so many ways, the likeliest first, of which there always is one. The kernel is one
// that refuse() did not name; `ahead` says by argument what is in memory before the method runs. Several copies: only
// of what several_at_once() allows.
std::vector<Made> make_ways(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead, int copies,
                            size_t most);
Made make_kernel(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead, int copies = 1);
// As rows and points, where a contraction is spelled out as rows that sum; the schedule, if not given, is chosen.
Made make_rows(const Kernel& kernel, const std::vector<bool>& ahead, const std::optional<Schedule>& schedule = {});
// Whether a kernel without a contraction is made otherwise than as it is printed.
bool has_own_text(const Kernel& kernel);
// Puts the kernel itself behind made.functions: what it is, its head for made.shape, and the body. `leads`: the next
// launch may begin while this one runs.
void add_kernel(Made& made, const Kernel& kernel, const std::string& body, bool leads);
// Whether one launch can make several kernels like this one, each of memory of its own.
bool several_at_once(const Kernel& kernel);

}  // namespace npusim::cuda
