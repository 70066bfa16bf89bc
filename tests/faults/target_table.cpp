// The targets of a command line for tests: the CPU's, and two that are wrong.
#include "codegen/target_table.h"

#include "backends/cpu/target.h"
#include "faulty.h"

namespace npusim {
namespace {

const CodegenTarget& wrong_fusion() {
  static const Faulty target(drop_bound);
  return target;
}

const CodegenTarget& wrong_operator() {
  static const Faulty target(round_roots);
  return target;
}

}  // namespace

std::vector<TargetRow> target_table() {
  return {{"cpu", cpu::target}, {"wrong_fusion", wrong_fusion}, {"wrong_operator", wrong_operator}};
}

}  // namespace npusim
