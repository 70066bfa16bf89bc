// Programs that write in place and address memory, against what eager PyTorch gives: the reference runs functionalize
// too, so that only PyTorch can tell. eager/make_programs.py writes them.
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/text.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::values_of;
using Numbers = std::vector<double>;

nlohmann::json programs() {
  std::ifstream file(NPUSIM_SOURCE_DIR "/tests/passes/eager/programs.json");
  return nlohmann::json::parse(file);
}

constexpr size_t parts = 8;  // of the programs, each a test

class Eager : public testing::TestWithParam<size_t> {};

TEST_P(Eager, RandomPrograms) {
  const nlohmann::json all = programs();
  ASSERT_GE(all.size(), 400U);
  for (size_t i = GetParam(); i < all.size(); i += parts) {
    const auto text = all[i]["text"].get<std::string>();
    SCOPED_TRACE(fmt::format("program {}:\n{}", i, text));
    test::RunOptions options;
    options.disabled = i % 3 == 0 ? std::set<std::string>{"all"} : std::set<std::string>{};
    const Graph graph = parse_graph("graph \"test\"\n" + text);
    for (ValueId v : graph.inputs)
      options.given[value_of(graph, v).name] =
          test::tensor_of(value_of(graph, v).type, all[i]["inputs"][value_of(graph, v).name].get<Numbers>());
    GraphRun run;
    try {
      run = run_graph(text, options);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    if (HasFailure()) return;
    const auto expected = all[i]["outputs"].get<std::vector<Numbers>>();
    ASSERT_EQ(run.outputs.size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_EQ(values_of(run.outputs[k]), expected[k]) << "output " << run.method().outputs[k].name;
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Memory, Eager, testing::Range<size_t>(0, parts));

}  // namespace
}  // namespace npusim
