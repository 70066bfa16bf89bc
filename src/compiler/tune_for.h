// tune() for a target that need not be in the build's table.
#pragma once
#include "codegen/target.h"
#include "npusim/tune.h"

namespace npusim {

// `target` is that of the program's launches.
Tuning tune_for(const CodegenTarget& target, const std::shared_ptr<const Program>& program,
                const std::shared_ptr<const Program>& taken, const TuneOptions& options, const TimeSteps& time);

}  // namespace npusim
