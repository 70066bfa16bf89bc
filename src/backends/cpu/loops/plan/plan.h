// What a kernel without contraction is compiled to: loops over tiles, and in them sections of loads, instructions and
// stores. Immutable while running; what changes stands in a Frame, one per thread.
//
// The dimensions that are not the row are walked by `outer` loops; at each of their tiles the sections run in order.
// A section in the row is walked by `inner` loops over the row. A tile covers two dimensions, its rows and columns;
// either may belong to the row.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/loops/moves/move.h"
#include "backends/cpu/loops/rewrite/split.h"
#include "backends/cpu/loops/tiles/tile.h"

namespace npusim::cpu::loops::plan {

struct Loop {
  int dim = -1;
  int64_t step = 1;
};

struct InstOperand {
  int reg = -1;
  int move = -1;  // the register holds this move's elements, and the instruction may read them in place
  moves::Span span = moves::Span::full;
  bool scalar = false;  // one lane per row
};

struct Inst {
  tiles::TileFn fn = nullptr;
  int dst = -1;
  int dst_move = -1;  // may write in place of this store
  InstOperand in[tiles::most_operands];
  moves::Span span = moves::Span::full;
  tiles::Fold fold = tiles::Fold::none;
  bool folds = false;         // dst is the accumulator of a reduction
  int index_dim = -1;         // reads the tile's index along this dimension
  int move = -1;              // runs this move (a gather)
  std::vector<double> terms;  // of a polynomial
  int depth = -1;             // innermost loop of its section it depends on
};

struct Section {
  bool in_row = false;
  std::vector<moves::Move> moves;  // loads, then stores
  std::vector<Inst> insts;
  struct Fill {
    int reg = -1;
    Scalar type = Scalar::f32;
    double number = 0;
    int64_t integer = 0;
  };
  std::vector<Fill> fills;                  // accumulators and carries, before the section's loops
  std::vector<int> first_load, first_inst;  // by the outermost loop that advanced + 1
  int stores = 0;                           // index of the first store in moves
};

struct Register {
  int64_t bytes = 0;
  int64_t offset = 0;  // in the scratch
  moves::Span span = moves::Span::full;
  int lane_bytes = 4;
  int64_t per_tile = 0;  // bytes from one tile of the row to the next, where the row is kept
};

struct Plan {
  rewrite::Piece piece;
  int row_dim = -1, column_dim = -1;  // the tile's; -1: extent 1
  int64_t tile_rows = 1, tile_columns = 1, pitch = tiles::lane_block;
  std::vector<Loop> outer, inner;
  std::vector<Section> sections;
  std::vector<Register> registers;
  struct Constant {
    int reg = -1;
    Scalar type = Scalar::f32;
    double number = 0;
    int64_t integer = 0;
  };
  std::vector<Constant> constants;
  int64_t scratch_bytes = 0;
  int64_t tiles = 0;     // of the outer loops over the whole space
  double tile_cost = 0;  // estimated ns per outer tile
  bool serial = false;
  int shared_dim = -1;  // serial: points that differ along it reach different elements, so that threads may share it
};

// `rounds`: in how many rounds plans of one kernel run, each with a part of its tiles in every round.
Plan make_plan(rewrite::Piece piece, bool serial, int64_t rounds);

}  // namespace npusim::cpu::loops::plan
