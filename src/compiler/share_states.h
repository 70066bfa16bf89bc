// Buffers that one method of a program changes and another one only reads.
#pragma once
#include <vector>

#include "codegen/build_program.h"

namespace npusim {

// Of imported methods: a weight that is called as a state of another method is that state, an input of the method too,
// the last. Throws bad_input where the types differ, and where one method gives a state the memory of another buffer
// and another method changes one of the two.
void share_states(std::vector<MethodGraph>& methods);

}  // namespace npusim
