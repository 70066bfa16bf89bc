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

#include "backends/cpu/loops/combine.h"
#include "backends/cpu/loops/search.h"
#include "backends/cpu/loops/split.h"
#include "backends/cpu/loops/tile.h"

namespace npusim::cpu {

enum class Span : uint8_t { one, row, column, full };  // a register's lanes: one; one per row; one per column; all

struct Loop {
  int dim = -1;
  int64_t step = 1;
};

// plain: between memory and scratch. addresses: of an access, the sums of its terms, i32; gather: a load from them.
// search: places in memory, i64, that are found there. condition: where the guards hold, and of no memory.
enum class MoveKind : uint8_t { plain, addresses, gather, search, condition };

// A bound condition 0 <= offset + Σ coeffs[d]·index[d] < limit of a move.
struct Move {
  MoveKind kind = MoveKind::plain;
  int arg = -1;
  size_t bytes = 4;  // of an element in memory
  bool store = false;
  CombineFn combine = nullptr;  // store: with what is there; else it is overwritten
  size_t lane_bytes = 4;        // combine: of what is stored
  SearchFn search = nullptr;
  int gathered = -1;  // combine: this gather's rows, which are read where they lie
  int scale = -1;     // gathered: the register of their factors, one for each row or (scale_span) in all
  Span scale_span = Span::one;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // by dimension; those of the tile's dimensions also step within it
  std::vector<Guard> guards;
  struct Term {
    int reg = -1;
    Span span = Span::full;
    int64_t stride = 0;
    int64_t extent = 0;
    int64_t added = 0;  // index_as_given()
  };
  std::vector<Term> terms;  // gather: one, of the addresses
  Span span = Span::full;
  int64_t row_stride = 0, column_stride = 0;  // elements in memory
  int reg = -1;                               // the raw elements in scratch
  int source_move = -1;                       // store: of this load's memory, where that is read in place
  int copied = -1;                            // store: straight from this load's memory, with these strides there
  int64_t copied_row = 0, copied_column = 0;
  bool only_copied = false;  // load: by stores, straight
  bool in_place = false;     // instructions may use the memory itself where the columns fill whole blocks
  // Load, in place: bytes to the next tile's memory, where that is worth fetching ahead, and which of `parts` equal
  // parts of it, from this one on, the section's instructions fetch, one each.
  int64_t ahead = 0, first_part = 0, parts = 0;
  int depth = -1;
};

struct InstOperand {
  int reg = -1;
  int move = -1;  // the register holds this move's elements, and the instruction may read them in place
  Span span = Span::full;
  bool scalar = false;  // one lane per row
};

struct Inst {
  TileFn fn = nullptr;
  int dst = -1;
  int dst_move = -1;  // may write in place of this store
  InstOperand in[most_operands];
  Span span = Span::full;
  Fold fold = Fold::none;
  bool folds = false;         // dst is the accumulator of a reduction
  int index_dim = -1;         // reads the tile's index along this dimension
  int move = -1;              // runs this move (a gather)
  std::vector<double> terms;  // of a polynomial
  int depth = -1;             // innermost loop of its section it depends on
};

struct Section {
  bool in_row = false;
  std::vector<Move> moves;  // loads, then stores
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
  Span span = Span::full;
  int lane_bytes = 4;
  int64_t per_tile = 0;  // bytes from one tile of the row to the next, where the row is kept
};

struct Plan {
  Piece piece;
  int row_dim = -1, column_dim = -1;  // the tile's; -1: extent 1
  int64_t tile_rows = 1, tile_columns = 1, pitch = lane_block;
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

// `turns`: how many times plans of one kernel take turns, each with a part of its tiles.
Plan make_plan(Piece piece, bool serial, int64_t turns);

}  // namespace npusim::cpu
