// What texts of tiles have in common: where a tile stands, how words come into stages, sums.
#pragma once
#include <span>
#include <string>

#include "backends/cuda/codegen/products/tile.h"

namespace npusim::cuda::codegen::products {

inline bool across(const Operand& o) { return o.words == Operand::Words::across; }
// Words in a line of the stage's memory, and where a line's word lies: neighbours in a column of words lie in
// different banks.
int line_words(const Operand& o, int size);
Term stage_offset(int words, const Term& line, const Term& at, int word);

class TileText {
 public:
  TileText(const Kernel& kernel, const Product& product, const TileShape& shape);

 protected:
  void begin();  // where the stages lie
  // Where the tile of this number is.
  void stand_at(const Term& number);
  // Where this thread's words are, and functions that copy them to a stage.
  void declare_operands();
  // Whether lines follow each other in even steps, and all are there; of a pair, those before an end.
  bool is_plain(const Operand& o, const Axis& axis, int size) const;
  void declare_sums();
  // A stage's products of warpgroups.
  void group_step();

  const Kernel& k_;
  const Product& p_;
  TileShape s_;                      // columns are those of the tiles that are being written
  const int stage_columns_;          // lines of b for which a stage has room
  const int64_t all_steps_, steps_;  // and of a piece, at most
  const int word_, depth_;           // elements of a word, and of a stage's line
  Lines t_;

 private:
  void declare(char x, const Operand& o, const Axis& axis, int size, const std::string& what);
  void copy_words(char x, const Operand& o, const Axis& axis, int size);
  int matrix_lines(char x, int size) const;
  int passes(const Operand& o, int size) const;
  int lines_of_pass(const Operand& o, int size) const;
};

// The function of a result, or of eight side by side.
std::string results_text(const Kernel& kernel, const Product& product);

// A product of several that one launch makes; what its kernel's arguments are called is behind a suffix, "_0", "_1".
struct Part {
  const Kernel* kernel = nullptr;
  Product product;
};
// The text behind the function's head of warp-specialized tiles; of several products those of the first one come first.
std::string specialized_text(const Kernel& kernel, const Product& product, const TileShape& shape,
                             std::span<const Part> parts = {});

}  // namespace npusim::cuda::codegen::products
