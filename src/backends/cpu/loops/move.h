// Moves between memory and scratch: strided, transposed, guarded, gathered and scattered.
#pragma once
#include "backends/cpu/loops/plan.h"

namespace npusim::cpu {

// A move bound to a tile and a thread.
struct MoveCall {
  const Move* move = nullptr;
  char* memory = nullptr;  // of the tile's first element
  char* scratch = nullptr;
  int64_t scratch_row = 0;  // elements
  int64_t rows = 0, columns = 0;
  int row_dim = -1, column_dim = -1;
  const int64_t* index = nullptr;  // of the tile's first point
  struct Term {
    const int64_t* values = nullptr;
    int64_t row = 0, column = 0;
  };
  std::vector<Term> terms;
  const MoveCall* gathered = nullptr;  // whose rows are combined
  const MoveCall* copied = nullptr;    // whose memory is stored
  const float* scales = nullptr;
  int64_t scales_row = 0;
  Trap* trap = nullptr;
};

void run_move(const MoveCall& call);

}  // namespace npusim::cpu
