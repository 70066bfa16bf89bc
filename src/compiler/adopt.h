// A program made of the same graphs for other architectures, as a variant.
#pragma once
#include "program/program.h"

namespace npusim {

// Its constants become those of the program, each once.
Variant adopt(Program& program, Program made);

}  // namespace npusim
