// IR JSON as plain structs, before anything is resolved; malformed or missing keys are reported with their path.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/tensor.h"
#include "graph/problems.h"

namespace npusim {

struct IrTensor {
  std::string_view name;
  TensorType type;         // float32 when `dtype` is none of ours
  std::string_view dtype;  // as written
  bool known_dtype = false;
  bool broken = false;        // a problem with it was reported already
  std::string_view producer;  // empty: not given
  int64_t index = -1;         // among the producer's tensors; -1: not given
};

struct IrNode {
  std::string_view name;
  std::string_view op_type;
  std::vector<IrTensor> inputs;
  std::vector<IrTensor> outputs;
  const nlohmann::json* attrs = nullptr;  // an object, or null
  bool broken = false;
};

struct IrConstant {
  const nlohmann::json* data = nullptr;
  std::string_view dtype;
};

// Strings and JSON values are views into `root`.
struct IrDocument {
  nlohmann::json root;
  std::string_view model_name = "unknown";
  std::vector<IrTensor> inputs;
  std::vector<IrTensor> outputs;
  std::vector<IrTensor> weights;
  std::vector<IrNode> nodes;
  std::unordered_map<std::string_view, std::string_view> weight_names;  // placeholder to FQN
  std::unordered_map<std::string_view, IrConstant> constants;           // by FQN
  std::vector<std::pair<int, int>> states;  // positions of an input and of the output that is its next value
  std::vector<std::pair<std::string, std::string>> aliases;  // a state, and the buffer whose memory it is given
};

// IR as JSON values, in which Python's NaN and Infinity are the strings "NaN", "Infinity" and "-Infinity": so are they
// written again, and read as numbers. Throws bad_input.
nlohmann::json parse_ir(std::string_view text, const std::string& where);

// Throws bad_input when the text is no JSON at all; everything else goes to `problems`.
IrDocument read_document(std::string_view json, Problems& problems);

}  // namespace npusim
