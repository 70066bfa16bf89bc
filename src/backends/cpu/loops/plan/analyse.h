// What the expressions of a kernel depend on: the dimensions they vary along, the reductions they wait for.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/loops/plan/plan.h"
#include "kernel/drawn_word.h"
#include "kernel/facts/depend.h"

namespace npusim::cpu::loops::plan {

inline DimSet bit(int d) { return d < 0 ? 0 : dim_bit(static_cast<size_t>(d)); }

// start·xⁿ + terms[0]·xⁿ⁻¹ + …, by Horner's rule.
struct Polynomial {
  int32_t x = -1, start = -1;  // start: the highest coefficient, any expression
  std::vector<double> terms;
};

// x·half·(1 + erf(x·inner)).
struct Gelu {
  int32_t x = -1;
  double half = 0, inner = 0;
};

// A tensor between `from` and `to`: by weights of less than a half in size from + weight · (to − from), else
// to − (to − from) · (1 − weight).
struct Between {
  int32_t from = -1, to = -1, weight = -1;
};

// (x − mean) · scale · weight + bias, of one mean and one scale for a row of a tile.
struct Normed {
  int32_t x = -1, mean = -1, scale = -1, weight = -1, bias = -1;
};

struct Analysis {
  DimSet row = 0;   // the dimensions of the row
  DimSet tile = 0;  // those of the tile
  int last_stage = 0;
  tiles::IntLane integers = tiles::IntLane::i64;  // the lanes of all expressions of type i64
  Dependence depends;  // what comes from a reduction or a scan lies in the tile, and so varies along it
  // By expression:
  std::vector<int> uses;
  std::vector<int> copies;     // of a load: stores of it as it lies
  std::vector<int> fused;      // which operand is computed in the same instruction, or -1
  std::vector<char> absorbed;  // is such an operand or what a fold takes apart, or computed in a draw's instruction
  std::vector<std::optional<DrawnWord>> drawn;
  std::vector<int32_t> signs;           // whose sign flips the operand of a choice; else -1
  std::vector<int32_t> leaks;           // what the lesser values of a choice are multiplied by; else -1
  std::vector<int32_t> deviations;      // whose squares a sum is of, from what is one for a row; else -1
  std::vector<Gelu> gelus;              // that the expression is; without x: none
  std::vector<Between> between;         // that the expression is; without weight: none
  std::vector<Normed> normed;           // that the expression is; without x: none
  std::vector<int32_t> shares;          // of what it is 1 + erf, not within a gelu; else -1
  std::vector<Polynomial> polynomials;  // that the expression is; without terms: none
};

Analysis analyse(const Plan& plan);

// How the expression joins its operand `n` with its other one, where that is one lane or varies with it.
std::optional<tiles::Link> link_of(const Kernel& k, const Expr& e, size_t n, bool fixed);

// Whether its tensors are more than a core's cache holds, about.
bool is_large(const Kernel& kernel);

// ns per element, roughly; from 0.5 on worth keeping along a row.
double cost_of(ExprOp op);

}  // namespace npusim::cpu::loops::plan
