// Names of an IR document to values of the graph (docs/ir_format.md sections 4 and 9).
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/document.h"
#include "graph/graph.h"

namespace npusim {

// "node 'add_3' (aten.add.Tensor)"
std::string label(const IrNode& node);

// Finds the value a tensor object means, making weights and constants when they are first read. A problem is reported
// once and yields a value marked broken, so that reading can go on and find others.
class Resolver {
 public:
  // Makes the graph inputs; reports names given twice.
  Resolver(const IrDocument& document, Problems& problems, Graph& graph);

  // What `reader` (a position in document.nodes) reads.
  ValueId input(const IrTensor& tensor, int32_t reader);
  // What an attribute of `reader` names: a node with one result, a graph input or a placeholder. Throws bad_input.
  ValueId named(std::string_view name, int32_t reader);
  // A graph output, by name unless it has a producer.
  ValueId output(const IrTensor& tensor);

  // The values of the node's tensors, in the file's order; readers may ask for them from now on.
  void publish(int32_t node, std::vector<ValueId> values);
  int32_t find_node(std::string_view name) const;
  const std::vector<ValueId>& results(int32_t node) const { return results_[static_cast<size_t>(node)]; }
  // The value declared by `tensor`, an output of `node` unless that is null; an unknown dtype is reported.
  ValueId make_value(const IrTensor& tensor, const IrNode* node, std::string_view what = "output");
  bool broken(ValueId id) const { return static_cast<size_t>(id) < broken_.size() && broken_[static_cast<size_t>(id)]; }

 private:
  // Outputs of one name: a node's one tensor, and elements of a tuple.
  struct Outputs {
    int32_t node = -1;
    int32_t tuple = -1;
    int64_t element = -1;
    bool several = false;  // elements of several tuples
  };

  void index_names();
  ValueId find(const IrTensor& tensor, int32_t reader);
  ValueId find_by_name(const IrTensor& tensor, int32_t reader);
  ValueId result(int32_t node, const IrTensor& tensor, int32_t reader);
  ValueId published(int32_t node, int64_t element, int32_t reader);
  bool is_weight(std::string_view name) const;
  ValueId weight(const IrTensor& tensor, std::string_view name);
  void fill_constant(Value& value, const IrConstant& constant);
  void check_type(const IrTensor& tensor, ValueId id, int32_t reader);
  ValueId make_broken(const IrTensor& tensor);
  void mark_broken(ValueId id);
  std::string reader_label(int32_t reader) const;
  std::string source_label(ValueId id) const;

  const IrDocument& document_;
  Problems& problems_;
  Graph& graph_;
  std::unordered_map<std::string_view, int32_t> nodes_;
  std::unordered_map<std::string_view, ValueId> inputs_;
  std::unordered_map<std::string_view, size_t> weights_;  // positions in document.weights
  std::unordered_map<std::string_view, Outputs> outputs_;
  std::unordered_map<std::string_view, ValueId> weight_values_;  // by FQN
  std::vector<std::vector<ValueId>> results_;
  std::vector<bool> published_;
  std::vector<bool> broken_;                  // by value
  std::vector<std::string_view> value_node_;  // by value: the IR node that makes it
};

}  // namespace npusim
