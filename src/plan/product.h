// A product of matrices as units that multiply tiles or lines see it: which dimensions are its rows, columns and depth,
// and how the memory of each operand is walked in words of 16 bytes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/facts/product_axes.h"

namespace npusim::plan {

inline constexpr int word = 8;  // elements of 16 bits

// A coordinate that the memory has only for 0 <= value < limit.
struct Bound {
  int64_t offset = 0, limit = 0;
  std::vector<int64_t> coeffs;
};

// An operand's elements at offset + Σ strides·index over space ++ reduce, 0 where a bound does not hold.
struct Operand {
  enum class Words : uint8_t {
    along_depth,  // neighbours of the depth's last dimension are a word
    across,       // neighbours of the rows' (or the columns') last dimension are
    none,
  };
  int arg = 0;
  int64_t elements = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  std::vector<Bound> bounds;
  Words words = Words::none;
  int word = plan::word;  // elements in 16 bytes
  bool ahead = false;  // there before the method runs, as weights are: read before what precedes the launch has ended
};

// result[batch, row, column] = Σ over depth of a[batch, row, depth] · b[batch, column, depth], of one 16-bit type or
// float32.
struct Product {
  DType dtype = DType::f16;
  std::vector<int64_t> extents;  // of space ++ reduce
  Axis batch, rows, columns, depth;
  Operand a, b;
  // Of each word along the depth, how many elements there are; less than a word: the depth counts all, and the others
  // are zeros, whatever memory has there.
  int filled = word;
  // Results side by side: the last dimension of the columns or of the rows, where what is stored lies in words; else
  // the one that stores walk in the smallest steps, and 1.
  bool lanes_are_rows = false;
  int lanes = 1;
  int reads = 0;      // of the epilogue, of values that each result has one of
  int work = 0;       // instructions for a result's expressions, roughly
  int second_b = -1;  // the argument that is another matrix like b: a result has two sums, see pair.h
  int copies = 1;     // products like this one, each of memory of its own, that one launch makes
};

// Elements of an operand in 16 bytes.
inline int word_of(const Product& p) { return p.a.word; }

Operand operand_of(const Kernel& kernel, const Access& access);
// Whether as many neighbours along the dimension as a word has lie in one, wherever the others stand.
bool has_words(const std::vector<int64_t>& extents, const Operand& operand, int dim);
void make_last(const std::vector<int64_t>& extents, Axis& axis, int dim);

// Why the kernel is no such product in `why`, then.
std::optional<Product> find_product(const Kernel& kernel, std::string& why);

}  // namespace npusim::plan
