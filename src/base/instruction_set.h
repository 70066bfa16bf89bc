// The instruction set that code chosen at run time may use: the machine's, or less where NPUSIM_ISA says so.
#pragma once
#include "npusim/machine.h"

namespace npusim {

enum class InstructionSet { portable, sse4, avx2, avx512, avx512_bf16, amx };  // each has all before it

// What is in use. The first call reads the environment and limits Highway's dispatch: it comes before any vector loop
// is run. A library with a dispatch of its own has to be told. Throws usage when NPUSIM_ISA is no name of an
// instruction set.
InstructionSet instruction_set();
// Whether NPUSIM_ISA asks for less than the machine has.
bool instruction_set_is_limited();

}  // namespace npusim
