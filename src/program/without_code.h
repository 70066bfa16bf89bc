// A program as what has been proven of it: its steps.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// Leaves out launches, their code and variants, which nobody can prove: devices that were compiled for ahead become the
// host, which runs steps. `notes` receives what was left out. The program is sound, and stays so. Throws unsupported
// naming each call of a plugin, which has no steps.
void leave_out_code(Program& program, std::vector<std::string>& notes);

}  // namespace npusim
