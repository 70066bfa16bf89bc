// The ways in which kernels are made for this device, in the order in which they are asked.
#pragma once
#include <optional>
#include <vector>

#include "backends/cuda/codegen/made.h"
#include "backends/cuda/codegen/product.h"

namespace npusim::cuda::codegen::choose {

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
// Whether one launch can make several kernels like this one, each of memory of its own.
bool several_at_once(const Kernel& kernel);

}  // namespace npusim::cuda::codegen::choose
