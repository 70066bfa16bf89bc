// The generator that a graph's random calls draw from, made explicit.
#pragma once
#include "graph/graph.h"

namespace npusim {

// Where calls draw: adds an input that holds the generator's state, gives it to each of them with the number of calls
// before it, and a kernel behind all that counts them. Nothing is hidden then: each call is a function of its operands,
// and the state is one like any other.
void add_generator(Graph& graph);

}  // namespace npusim
