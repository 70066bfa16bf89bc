// What the expressions of a kernel depend on: the dimensions they vary along, the reductions they wait for.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/loops/plan.h"

namespace npusim::cpu {

using Mask = uint64_t;  // a set of dimensions

inline Mask bit(int d) { return d < 0 ? 0 : Mask{1} << d; }

struct Analysis {
  Mask row = 0;   // the dimensions of the row
  Mask tile = 0;  // those of the tile
  int last_stage = 0;
  // By expression:
  std::vector<Mask> mask;  // which dimensions it varies along
  std::vector<int> stage;  // how many reductions it waits for
  std::vector<int> uses;
  std::vector<int> fused;      // which operand of a sum is a product computed in the same instruction, or -1
  std::vector<char> absorbed;  // is such a product
};

Analysis analyse(const Plan& plan);
Mask access_mask(const Analysis& analysis, const Access& access);

// ns per element, roughly; from 0.5 on worth keeping along a row.
double cost_of(ExprOp op);

}  // namespace npusim::cpu
