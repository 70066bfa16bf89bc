// Where eager PyTorch keeps a tensor's elements. The IR says nothing of it, but a program can tell: results share
// memory or not by it (reshape, contiguous), and as_strided addresses memory.
#pragma once
#include <optional>
#include <span>

#include "ops/op.h"

namespace npusim {

// Element i of a tensor is element offset + Σ strides[d]·i[d] of the memory it is a part of.
struct Strides {
  int64_t offset = 0;
  Shape strides;
};

// A tensor's memory as far as it is known. Where it is not, `at` numbers the memory row-major: views then are what they
// are whatever the true strides, but which results are views is not known.
struct Residence {
  Strides at;
  bool known = true;
};

// What a result is.
struct ResultMemory {
  enum class Kind : uint8_t {
    own,     // memory of its own
    shared,  // `operand`'s memory
    itself,  // the operand: one tensor, which keeps its names when it is changed in place
    either,  // one or the other: `why` tells what it depends on
  };
  Kind kind = Kind::own;
  int operand = -1;     // position among the call's inputs
  Residence residence;  // in its own memory or in the operand's
  std::string why;
};

// Of each result, from where the operands are (null for None). Not for as_strided and its kind, which need the memory.
std::vector<ResultMemory> place_results(const OpCall& call, std::span<const Residence* const> operands);

Strides row_major(const Shape& shape);
// Whether the elements follow each other in row-major order (extents of 1 have any stride; no elements are in order).
bool is_row_major(const Strides& at, const Shape& shape);
// Whether the elements fill a piece of memory, in whatever order.
bool is_dense(const Strides& at, const Shape& shape);
// Whether no two elements are at one address.
bool is_injective(const Strides& at, const Shape& shape);
// Whether every element is in a memory of this many.
bool fits_memory(const Strides& at, const Shape& shape, int64_t elements);
// What as_strided and its kind address; self begins at `offset`. Throws bad_input where size and stride do not go
// together.
Strides strided_placement(const OpCall& call, int64_t offset);

}  // namespace npusim
