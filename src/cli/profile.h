// A method's measured steps, and what is told of them: as text, JSON, a trace, a page.
#pragma once
#include <string>
#include <vector>

#include "cli/measure.h"
#include "cli/timing.h"
#include "npusim/program.h"

namespace npusim::cli {

struct Profile {
  std::string model, method;
  std::vector<std::string> targets;
  std::vector<DeviceLimits> limits;  // of each target's device
  std::vector<StepOverview> steps;
  std::vector<StepTime> times;  // of each step alone
  Timing whole;
  double sum_ms = 0;  // of the steps
};

// Read and written; of a transfer those that it moves.
double bytes_of(const StepOverview& step);

// By step: the operators that it does the work of.
std::vector<std::string> operator_names(const Profile& profile);
// By step. One without weights belongs to the layer of the step before it.
std::vector<std::string> layer_names(const Profile& profile);

// The steps of one name together.
struct Share {
  std::string name;
  size_t steps = 0;
  double ms = 0, bytes = 0, flops = 0;
};
// `names` by step. The most expensive first if sorted, else in the order of the run.
std::vector<Share> shares_of(const Profile& profile, const std::vector<std::string>& names, bool sorted);

// One HTML page that needs nothing from outside: the run as a timeline, tables by operator, layer and step, transfers.
std::string profile_page(const Profile& profile);

}  // namespace npusim::cli
