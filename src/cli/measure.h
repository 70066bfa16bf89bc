// Timed runs of a method and of its steps, which bench and profile share.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "npusim/device.h"
#include "npusim/session.h"

namespace npusim::cli {

inline constexpr int64_t most_listed = 1'000'000'000;  // steps or rows that a report may be asked for
void add_seconds_flag(CLI::App& verb, double& seconds);

// Each run is the same: one that goes on with its own token and position is put back to where the first began.
using Rewind = std::function<void()>;
// Everything it is given must outlive it.
Rewind rewind_of(Session& session, size_t method, const std::vector<TensorInfo>& infos,
                 const std::vector<HostTensor>& inputs);

// Milliseconds of each run, after a warm-up: at least 20 in about `seconds`, 5 of very slow methods.
std::vector<double> measure_runs(Session& session, size_t method, double seconds, const Rewind& rewind,
                                 bool on_device = false);

// The fastest of each step's runs, each alone and waited for.
struct StepTime {
  std::string node;
  StepInfo info;
  double min_ms = 0;
};
std::vector<StepTime> measure_steps(Session& session, size_t method, double seconds, const Rewind& rewind);

// What the session's `nth` device can do or, where it has no probe, the host, in the program's dtype where that has
// multiply-adds of it; zeros, and a note, where the probe fails. Takes about a second.
DeviceLimits limits_of(const Session& session, size_t nth);
// "  83 %" of what is possible; "" where that is not known.
std::string share_text(double rate, double possible);

}  // namespace npusim::cli
