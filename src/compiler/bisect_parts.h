// An IR's parts as IR of their own, as JSON.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace npusim {

// The IR with every node's results among its outputs, or those of some nodes, and where they are by the names of their
// tensors. Outputs have names of their own, which may be those of other tensors.
struct OpenedIr {
  nlohmann::json ir;
  std::map<std::string, size_t> at;
};
OpenedIr with_outputs(nlohmann::json ir, const std::set<std::string>* only);

// Says of every operand that is no weight what makes it: a node, or the graph's input itself. An IR may name it alone.
void name_producers(nlohmann::json& ir);

// Makes inputs, the last, of weights: states of the program that it became, which its nodes write into.
void give_weights(nlohmann::json& ir, const std::vector<std::string>& names);

// What is found in an IR by name, so that its parts cost what they hold.
struct IrIndex {
  explicit IrIndex(const nlohmann::json& ir);
  std::map<std::string, size_t> nodes, weights;
  std::map<std::string, std::vector<size_t>> taken;  // by node, the ones that take its results out of a list
};

// The nodes of `names` as an IR of their own: what they read of others is an input, what the last of them gives is an
// output. It has no states. The names of its inputs are appended to `inputs`.
nlohmann::json part_of(const nlohmann::json& ir, const IrIndex& index, const std::set<std::string>& names,
                       std::vector<std::string>& inputs);

}  // namespace npusim
