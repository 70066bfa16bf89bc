// A plan bound to the memory of one thread.
#pragma once
#include <memory>
#include <vector>

#include "backends/cpu/loops/moves/move.h"
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops {

class Frame {
 public:
  Frame(const plan::Plan& plan, char* scratch, tiles::Trap& trap);

  // Writes the constants into the scratch, which several frames of one thread may share.
  void fill_constants();
  // The outer tiles [first, last) of the box [begin, end) of the piece's space, counted in the order of the loops.
  void run(void* const* args, const int64_t* begin, const int64_t* end, int64_t first, int64_t last);
  // How many outer tiles a box has.
  int64_t tiles(const int64_t* begin, const int64_t* end) const;

 private:
  struct Patch {  // operand `slot` (most_operands: the destination) of an instruction follows a move, or a kept row's
                  // tile
    int move = -1;
    int reg = -1;
    int inst = 0;
    int slot = 0;
  };
  struct Bound {
    const plan::Section* section = nullptr;
    std::vector<tiles::TileCall> calls;
    std::vector<moves::MoveCall> moves;
    std::vector<char> in_place;  // by move, at this shape
    std::vector<Patch> patches;  // all that may be
    std::vector<Patch> active;   // those at this shape, capacity reserved
    bool fetches = false;        // memory of the next tile
    int64_t rows = -1, columns = -1;
  };

  void run_section(Bound& b, int changed);
  void run_in_row(Bound& b);
  void run_tile(Bound& b, int changed, int64_t tile);
  void shape(Bound& b);
  void shape_call(Bound& b, size_t i);
  bool advance(const std::vector<plan::Loop>& loops, int& changed);
  char* reg(int r) const { return scratch_ + plan_.registers[static_cast<size_t>(r)].offset; }
  int64_t length(int dim, int64_t step) const;

  const plan::Plan& plan_;
  char* scratch_;
  tiles::Trap& trap_;
  void* const* args_ = nullptr;
  const int64_t* begin_ = nullptr;
  const int64_t* end_ = nullptr;
  std::vector<int64_t> index_;  // of the tile's first point
  std::vector<Bound> sections_;
};

}  // namespace npusim::cpu::loops
