// Small IR files, written by hand in tests.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

namespace npusim::test {

using Strings = std::vector<std::string>;

inline std::string list(const Strings& items) { return fmt::format("[{}]", fmt::join(items, ",")); }

// A tensor object; with `producer`, as the extractor writes node inputs.
inline std::string tensor(std::string name, std::string shape, std::string dtype = "float32", std::string producer = "",
                          int index = 0) {
  std::string text = fmt::format(R"({{"name":"{}","shape":{},"dtype":"{}")", name, shape, dtype);
  if (!producer.empty()) text += fmt::format(R"(,"producer_node":"{}","producer_output_idx":{})", producer, index);
  return text + "}";
}
// What a node reads of a node with one output (or of a graph input): its own producer.
inline std::string read(std::string name, std::string shape, std::string dtype = "float32") {
  return tensor(name, shape, dtype, name);
}
inline std::string node(std::string name, std::string op, const Strings& inputs, const Strings& outputs,
                        std::string attrs = "{}") {
  return fmt::format(R"({{"name":"{}","op_type":"{}","inputs":{},"outputs":{},"attrs":{}}})", name, op, list(inputs),
                     list(outputs), attrs);
}

struct Ir {
  Strings inputs, outputs, weights, nodes;
  std::string mapping = "{}";  // weight_name_mapping
  std::string constants = "{}";
  std::string json() const {
    return fmt::format(R"({{"model_name":"test","graph_inputs":{},"graph_outputs":{},"weights":{},)"
                       R"("weight_name_mapping":{},"nodes":{},"constants":{}}})",
                       list(inputs), list(outputs), list(weights), mapping, list(nodes), constants);
  }
};

}  // namespace npusim::test
