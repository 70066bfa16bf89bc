// Buffers that one method of a program changes and another one only reads.
#pragma once
#include <vector>

#include "codegen/build_program.h"

namespace npusim {

// Of imported methods: a weight that is called as a state of another method is that state, an input of the method too,
// the last. Throws bad_input where the types differ, and where one method gives a state the memory of another buffer
// and another method changes one of the two.
void share_states(std::vector<MethodGraph>& methods);

// A weight that the graph's own nodes write into (functionalize has made an output of what it became) becomes an input
// called as the weight, the last.
void keep_written_weights(Graph& graph);

}  // namespace npusim
