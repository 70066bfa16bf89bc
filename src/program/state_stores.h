// How a method's states are stored: at its positions or not, and how many positions there are.
#pragma once
#include "program/program.h"

namespace npusim {

struct StateStores {
  int64_t capacity = 0;     // the fewest positions there are for what is stored at a computed one, 0 where nothing is
  bool by_position = true;  // everything is stored at indices that follow from the method's positions only
};

// Of a sound program. By position is what is so in all its variants, whose steps may differ; their states do not.
StateStores state_stores(const Program& program, size_t method);

}  // namespace npusim
