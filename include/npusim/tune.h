// Timing decides which of a target's candidates for a kernel a program takes.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "npusim/program.h"

namespace npusim {

struct TuneOptions {
  std::string method;
  std::string device;     // as the choices name it: "NVIDIA H200"
  size_t candidates = 8;  // of each kernel, that are timed at most
  double least = 0.03;    // of its time that another one must save to be taken; of a whole method's a tenth of that
  std::function<void(const std::string&)> progress = {};  // receives the name of each stage as it begins
};

struct TimedCandidate {
  std::string how;
  double ms = 0;  // of all launches that were made so
};

// Kernels of one name and implementation.
struct TunedKernel {
  std::string kernel;
  size_t launches = 0;                     // of the method
  std::vector<TimedCandidate> candidates;  // that were timed, the one before first
  std::string before, after;               // how it is made
  double before_ms = 0, after_ms = 0;      // of all these launches
};

struct Tuning {
  std::shared_ptr<const Program> program;  // the one that was given where nothing else was chosen
  std::vector<TunedKernel> kernels;        // with several candidates, in the order of the method
};

// The fastest milliseconds of each of the method's steps, in a session of this program.
using TimeSteps = std::function<std::vector<double>(const std::shared_ptr<const Program>&)>;

// Times the method as it is and with each kernel's other candidates, one of each at a time: each is timed where it is
// used, among its neighbours. `taken` is the program as the device takes it (Session::shared_program()), of which only
// the launches change, in all its methods; other architectures keep theirs. What was chosen is stored in the program
// and described. Throws unsupported for a target that has one candidate for each kernel.
NPUSIM_API Tuning tune(const std::shared_ptr<const Program>& program, const std::shared_ptr<const Program>& taken,
                       const TuneOptions& options, const TimeSteps& time);

}  // namespace npusim
