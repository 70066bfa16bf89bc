// One random program: compiled in several ways, run, compared.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph/graph.h"

namespace npusim::test {

// How a graph is compiled and run.
struct Way {
  DType dtype = DType::f32;
  bool strict = false;
  std::set<std::string> disabled = {};
  int threads = 1;
  int64_t instructions = 0;  // Highway's target; 0: all that the machine has
  uint64_t away = 0;         // the seed that says which nodes another device does, the CPU; 0: none
};
// As the command's flags, which parse_way() reads.
std::string to_string(const Way& way);

// The ways this seed tries a graph: all fusions first, then another one. `threads` 0: by the seed.
std::vector<Way> ways_for(uint64_t seed, int threads);
std::vector<int64_t> instruction_sets();

enum class Result {
  passed,
  blurred,      // passed, but most elements are not certain enough to say more
  refused,      // not supported
  trapped,      // the reference says that this input is an error
  unspecified,  // eager execution would not run it or could give several results
  wrong,        // failures from here: values
  reference,    // the reference differs from eager execution
  changed,      // an input or weight that is no state was written
  problem,      // check_graph, check_program or a target that refuses
  error,        // any exception but a refusal
  crashed,      // filled in by the command, which sees it
};
constexpr bool is_failure(Result result) { return result >= Result::wrong; }
std::string_view result_name(Result result);

struct Outcome {
  Result result = Result::passed;
  Way way;           // that failed
  std::string what;  // where and how
  int64_t elements = 0, skipped = 0, loose = 0;
};

// `values`: the seed of inputs and weights (random/values.h). Stops at the first failure.
Outcome check_graph_runs(const Graph& graph, uint64_t values, const std::vector<Way>& ways);

}  // namespace npusim::test
