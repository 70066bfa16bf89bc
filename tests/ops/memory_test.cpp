// Where results are in memory, and whose, against eager PyTorch: golden_memory.json, which make_memory.py writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "graph/import.h"
#include "ops/goldens.h"
#include "ops/placement.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

// Extents of 1 have no stride to compare.
std::string strides_text(const Shape& strides, const Shape& shape) {
  std::string text;
  for (size_t d = 0; d < shape.size(); ++d) text += shape[d] == 1 ? " -" : fmt::format(" {}", strides[d]);
  return text;
}

std::string expected_text(const Json& result, const Shape& shape) {
  const int operand = result[0].get<int>();
  return fmt::format("{} at {}:{}", operand, operand < 0 ? 0 : result[1].get<int64_t>(),
                     strides_text(result[2].get<Shape>(), shape));
}

std::string found_text(const ResultMemory& result, const std::vector<int>& positions, const Shape& shape) {
  if (result.kind == ResultMemory::Kind::either) return "either";
  const int operand = result.kind == ResultMemory::Kind::own ? -1 : positions[static_cast<size_t>(result.operand)];
  if (!result.residence.known) return "not known";
  return fmt::format("{} at {}:{}", operand, result.residence.at.offset,
                     strides_text(result.residence.at.strides, shape));
}

// What is not known is never wrong, but of row-major operands everything is known that has a rule.
void check_sample(const Node& node, const OpCall& call, const std::string& mode, const Json& truth) {
  std::vector<int> positions;  // of the call's inputs among the tensors that are there
  std::vector<Residence> residences(call.inputs.size());
  std::vector<const Residence*> operands(call.inputs.size(), nullptr);
  int there = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    positions.push_back(call.inputs[i] ? there : -1);
    if (!call.inputs[i]) continue;
    residences[i] = {{0, truth["in"][static_cast<size_t>(there++)].get<Shape>()}, true};
    operands[i] = &residences[i];
  }
  const std::vector<ResultMemory> results = place_results(call, operands);
  const Memory memory = node.op->record.memory;
  const bool may_be_unknown = mode != "rows" || memory == Memory::arbitrary || memory == Memory::computed;
  for (size_t i = 0; i < results.size() && i < truth["out"].size(); ++i) {
    const Shape& shape = call.outputs[i].shape;
    const std::string found = found_text(results[i], positions, shape);
    if (may_be_unknown && (found == "not known" || found == "either")) continue;
    EXPECT_EQ(found, expected_text(truth["out"][i], shape)) << mode << ", result " << i;
  }
}

TEST(MemoryRules, AreThoseOfEagerPyTorch) {
  const Json golden = Json::parse(read_file(NPUSIM_SOURCE_DIR "/tests/ops/golden_memory.json"));
  size_t checked = 0;
  for (const auto& [name, truths] : golden.items()) {
    const Op* op = find_op(name);
    if (!op) continue;  // without a record: there is nothing to place
    const Memory memory = op->record.memory;
    if (memory == Memory::strided || memory == Memory::strided_own || memory == Memory::strided_scatter) continue;
    for (const test::GoldenSample& sample : test::golden_samples(name)) {
      if (!truths.contains(sample.name)) continue;
      const Json& modes = truths[sample.name];
      const Graph graph = import_ir(sample.ir.dump(), name);
      for (const char* mode : {"rows", "columns", "channels"}) {
        if (!modes.contains(mode)) continue;
        SCOPED_TRACE(fmt::format("{} {}", name, sample.name));
        check_sample(graph.nodes[0], call_of(graph, graph.nodes[0]), mode, modes[mode]);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 3000U);
}

}  // namespace
}  // namespace npusim
