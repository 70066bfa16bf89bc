// Moves between memory and scratch: strided, transposed, guarded, gathered and scattered.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/loops/moves/combine.h"
#include "backends/cpu/loops/rewrite/search.h"
#include "backends/cpu/loops/tiles/tile.h"
#include "kernel/kernel.h"

namespace npusim::cpu::loops::moves {

enum class Span : uint8_t { one, row, column, full };  // a register's lanes: one; one per row; one per column; all

// plain: between memory and scratch. addresses: of an access, the sums of its terms, i32; gather: a load from them.
// search: offsets in memory, i64, that are found there. condition: where the guards hold, and of no memory.
enum class MoveKind : uint8_t { plain, addresses, gather, search, condition };

// A bound condition 0 <= offset + Σ coeffs[d]·index[d] < limit of a move.
struct Move {
  MoveKind kind = MoveKind::plain;
  int arg = -1;
  size_t bytes = 4;  // of an element in memory
  bool store = false;
  CombineFn combine = nullptr;  // store: with what is there; else it is overwritten
  size_t lane_bytes = 4;        // combine: of what is stored
  rewrite::SearchFn search = nullptr;
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
  tiles::Trap* trap = nullptr;
};

void run_move(const MoveCall& call);

}  // namespace npusim::cpu::loops::moves
