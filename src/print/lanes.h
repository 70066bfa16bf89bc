// Lanes: neighbours that one thread computes at a time, so that memory is read and written in words of 16 bytes.
#pragma once
#include <optional>
#include <string>

#include "print/plan.h"

namespace npusim {

// Why the plan's kernel cannot have the lanes of `schedule`; nullopt if it can.
std::optional<std::string> cannot_take_lanes(const PrintPlan& plan, const Dialect& dialect, const Schedule& schedule);
// Fills in what the plan says of the lanes of its schedule, which it can have.
void plan_lanes(PrintPlan& plan, const Dialect& dialect);

}  // namespace npusim
