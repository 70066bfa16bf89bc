// Validation of launches: what check_program proves of them.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// Launches are in the order of their steps, they cover all kernel steps of a device or none, each names all that its
// steps touch, and a local buffer is of one launch. The steps are sound. Empty when the launches are.
std::vector<std::string> check_launches(const Program& program, const Sequence& sequence);

}  // namespace npusim
