// Parts of an IR: what is read from elsewhere becomes an input.
#include "compiler/bisect_parts.h"

#include <utility>

namespace npusim {
namespace {

using Json = nlohmann::json;

bool is_getitem(const Json& node) { return node["op_type"].get<std::string>().find("getitem") != std::string::npos; }

// The node that a tensor is said to be made by; "": none is.
std::string producer_of(const Json& tensor) {
  const auto node = tensor.find("producer_node");
  return node != tensor.end() && node->is_string() ? node->get<std::string>() : "";
}

Json output_of(const Json& node, size_t index) {
  Json output = node["outputs"][index];
  output["producer_node"] = node["name"];
  output["producer_output_idx"] = index;
  return output;
}

// In the order of the IR, the nodes of `names` and what takes out their results.
std::set<size_t> nodes_of(const Json& ir, const IrIndex& index, const std::set<std::string>& names) {
  std::set<size_t> found;
  std::vector<std::string> waiting(names.begin(), names.end());
  while (!waiting.empty()) {
    const std::string name = std::move(waiting.back());
    waiting.pop_back();
    const auto node = index.nodes.find(name);
    if (node == index.nodes.end() || !found.insert(node->second).second) continue;
    if (const auto taken = index.taken.find(name); taken != index.taken.end())
      for (const size_t i : taken->second) waiting.push_back(ir["nodes"][i]["name"]);
  }
  return found;
}

// Of the IR's weights and constants those that these operands name.
void take_weights(const Json& ir, const IrIndex& index, const std::set<std::string>& operands, Json& part) {
  part["weights"] = Json::array(), part["weight_name_mapping"] = Json::object();
  const auto mapping = ir.find("weight_name_mapping"), constants = ir.find("constants");
  std::set<std::string> taken;
  for (const std::string& operand : operands) {
    const bool mapped = mapping != ir.end() && mapping->is_object() && mapping->contains(operand);
    const std::string name = mapped ? (*mapping)[operand].get<std::string>() : operand;
    if (mapped) part["weight_name_mapping"][operand] = name;
    for (const std::string& one : {operand, name}) {
      if (!taken.insert(one).second) continue;
      if (const auto weight = index.weights.find(one); weight != index.weights.end())
        part["weights"].push_back(ir["weights"][weight->second]);
      if (constants != ir.end() && constants->is_object() && constants->contains(one))
        part["constants"][one] = (*constants)[one];
    }
  }
}

}  // namespace

OpenedIr with_outputs(Json ir, const std::set<std::string>* only) {
  OpenedIr open{std::move(ir), {}};
  Json& outputs = open.ir["graph_outputs"];
  std::set<std::string> names;
  std::map<std::pair<std::string, int64_t>, size_t> made;  // by node and position
  for (size_t i = 0; i < outputs.size(); ++i) {
    names.insert(outputs[i]["name"]);
    const auto index = outputs[i].find("producer_output_idx");
    const bool first = index == outputs[i].end() || index->is_null();
    if (const std::string node = producer_of(outputs[i]); !node.empty())
      made.emplace(std::pair(node, first ? 0 : index->get<int64_t>()), i);
    else
      open.at.emplace(outputs[i]["name"], i);
  }
  for (const Json& node : open.ir["nodes"]) {
    if (only && !only->contains(node["name"])) continue;
    for (size_t i = 0; i < node["outputs"].size(); ++i) {
      const std::string tensor = node["outputs"][i]["name"];
      const auto known = made.find({node["name"].get<std::string>(), static_cast<int64_t>(i)});
      if (open.at.contains(tensor)) continue;
      open.at.emplace(tensor, known == made.end() ? outputs.size() : known->second);
      if (known != made.end()) continue;
      Json output = output_of(node, i);
      std::string name = tensor;
      while (!names.insert(name).second) name += "_";
      output["name"] = name;
      outputs.push_back(std::move(output));
    }
  }
  return open;
}

void name_producers(Json& ir) {
  std::set<std::string> weights;
  for (const char* key : {"weight_name_mapping", "constants"})
    if (const auto named = ir.find(key); named != ir.end() && named->is_object())
      for (auto one = named->begin(); one != named->end(); ++one) weights.insert(one.key());
  if (const auto listed = ir.find("weights"); listed != ir.end())
    for (const Json& weight : *listed) weights.insert(weight["name"].get<std::string>());
  std::map<std::string, std::pair<std::string, size_t>> makers;  // by tensor
  for (const Json& input : ir["graph_inputs"]) makers.emplace(input["name"], std::pair(input["name"], 0));
  for (const Json& node : ir["nodes"])
    for (size_t i = 0; i < node["outputs"].size(); ++i)
      makers.emplace(node["outputs"][i]["name"], std::pair(node["name"], i));
  for (Json& node : ir["nodes"])
    for (Json& operand : node["inputs"]) {
      const std::string name = operand["name"];
      const auto maker = makers.find(name);
      if (!producer_of(operand).empty() || weights.contains(name) || maker == makers.end()) continue;
      operand["producer_node"] = maker->second.first;
      operand["producer_output_idx"] = maker->second.second;
    }
}

void give_weights(Json& ir, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::set<std::string> given(names.begin(), names.end());
  std::map<std::string, Json> tensors;
  Json others = Json::array();
  for (Json& weight : ir["weights"])
    if (const std::string name = weight["name"]; given.contains(name))
      tensors.emplace(name, std::move(weight));
    else
      others.push_back(std::move(weight));
  ir["weights"] = std::move(others);
  for (const std::string& name : names) ir["graph_inputs"].push_back(tensors.at(name));
  const auto mapped = ir.find("weight_name_mapping");
  const auto rename = [&](Json& operand) {
    std::string name = operand["name"];
    if (!producer_of(operand).empty()) return;
    if (mapped != ir.end() && mapped->is_object() && mapped->contains(name)) name = (*mapped)[name];
    if (given.contains(name))
      operand["name"] = name, operand["producer_node"] = name, operand["producer_output_idx"] = 0;
  };
  for (Json& node : ir["nodes"])
    for (Json& operand : node["inputs"]) rename(operand);
  for (Json& output : ir["graph_outputs"]) rename(output);
}

IrIndex::IrIndex(const Json& ir) {
  for (size_t i = 0; i < ir["nodes"].size(); ++i) {
    const Json& node = ir["nodes"][i];
    nodes.emplace(node["name"], i);
    if (is_getitem(node) && !node["inputs"].empty()) taken[producer_of(node["inputs"][0])].push_back(i);
  }
  const auto listed = ir.find("weights");
  for (size_t i = 0; listed != ir.end() && i < listed->size(); ++i) weights.emplace((*listed)[i]["name"], i);
}

Json part_of(const Json& ir, const IrIndex& index, const std::set<std::string>& names,
             std::vector<std::string>& inputs) {
  const std::set<size_t> inside = nodes_of(ir, index, names);
  const auto is_inside = [&](const std::string& node) {
    const auto found = index.nodes.find(node);
    return found != index.nodes.end() && inside.contains(found->second);
  };
  Json part = Json::object();
  for (const char* key : {"model_name", "pytorch_version"})
    if (ir.contains(key)) part[key] = ir[key];
  part["graph_inputs"] = part["graph_outputs"] = part["nodes"] = Json::array();
  std::set<std::string> given, weights;
  for (const size_t i : inside) {
    Json node = ir["nodes"][i];
    for (Json& operand : node["inputs"]) {
      const std::string producer = producer_of(operand);
      if (producer.empty()) weights.insert(operand["name"]);
      if (producer.empty() || is_inside(producer)) continue;
      const std::string name = operand["name"];
      if (given.insert(name).second) {
        part["graph_inputs"].push_back({{"name", name}, {"shape", operand["shape"]}, {"dtype", operand["dtype"]}});
        inputs.push_back(name);
      }
      operand["producer_node"] = name;
      operand["producer_output_idx"] = 0;
    }
    if (names.contains(node["name"])) {
      part["graph_outputs"] = Json::array();
      for (size_t n = 0; n < node["outputs"].size(); ++n) part["graph_outputs"].push_back(output_of(node, n));
    }
    part["nodes"].push_back(std::move(node));
  }
  take_weights(ir, index, weights, part);
  return part;
}

}  // namespace npusim
