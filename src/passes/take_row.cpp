// From the output upward: which values are asked for in one row only, and their kernels for that row.
#include "passes/take_row.h"

#include <algorithm>
#include <map>

#include "kernel/builder.h"

namespace npusim {
namespace {

class RowTaker {
 public:
  RowTaker(Graph& graph, ValueId index) : graph_(graph), index_(index), whole_(graph.values.size(), false) {}

  bool run(size_t output, const Rows& rows) {
    const ValueId all = graph_.outputs[output].value;
    for (size_t o = 0; o < graph_.outputs.size(); ++o)
      if (o != output) whole_[static_cast<size_t>(graph_.outputs[o].value)] = true;
    graph_.outputs[output].value = row_of(all, rows);
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!choose(n) && n == static_cast<size_t>(value_of(graph_, all).producer)) return false;
    }
    if (value_of(graph_, all).source != ValueSource::node) return false;
    std::vector<ValueId> given;
    for (const auto& [value, wanted] : wanted_) given.push_back(value);
    for (const ValueId value : given) take(value);
    compact(graph_, {}, true);
    return true;
  }

 private:
  struct Wanted {
    Rows rows;
    ValueId row = no_value;
  };

  // The value that is one row of another, which is to be computed yet.
  ValueId row_of(ValueId value, const Rows& rows) {
    std::vector<Wanted>& wanted = wanted_[value];
    for (const Wanted& w : wanted)
      if (w.rows.stride == rows.stride) return w.row;
    TensorType type = value_of(graph_, value).type;
    int64_t stride = 1;
    size_t d = type.shape.size();
    while (d > 0 && (stride < rows.stride || type.shape[d - 1] == 1)) stride *= type.shape[--d];
    if (d > 0 && stride == rows.stride && type.shape[d - 1] == rows.extent)
      type.shape[d - 1] = 1;
    else
      type.shape = {element_count(type.shape) / rows.extent};
    const ValueId row = add_value(graph_, value_of(graph_, value).name + "_row", std::move(type));
    wanted.push_back({rows, row});
    return row;
  }

  // Its readers have been seen: the kernel for one row, where that is all they ask for, or all rows. Whether it is the
  // former.
  bool choose(size_t n) {
    Node& node = graph_.nodes[n];
    const ValueId value = node.outputs.size() == 1 ? node.outputs[0] : no_value;
    const auto wanted = wanted_.find(value);
    if (wanted != wanted_.end() && wanted->second.size() == 1 && !whole_[static_cast<size_t>(value)]) {
      BoundKernel bound{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
      bound.values.push_back(value);
      if (auto row = one_row(bound, value, wanted->second[0].rows, index_)) {
        const ValueId result = wanted->second[0].row;
        std::vector<ValueId> inputs;
        for (size_t i = 0; i + 1 < row->kernel.values.size(); ++i) {
          const ValueId operand = row->kernel.values[i];
          const auto rows = row->rows.find(operand);
          if (rows == row->rows.end() && operand != index_) whole_[static_cast<size_t>(operand)] = true;
          inputs.push_back(rows == row->rows.end() ? operand : row_of(operand, rows->second));
        }
        node.inputs = std::move(inputs);
        node.outputs = {result};
        node.kernel = std::make_shared<const Kernel>(std::move(row->kernel.kernel));
        wanted_.erase(value);
        return true;
      }
    }
    for (const ValueId operand : node.inputs) whole_[static_cast<size_t>(operand)] = true;
    for (const ValueId result : std::vector(node.outputs))
      if (wanted_.contains(result)) take(result);
    return false;
  }

  // Nodes that take the rows out of a value that is there.
  void take(ValueId value) {
    const std::vector<Wanted> wanted = wanted_.at(value);
    const TensorType type = value_of(graph_, value).type;
    for (const auto& [rows, row] : wanted) {
      const int64_t outer = element_count(type.shape) / (rows.extent * rows.stride);
      KernelBuilder k({outer, rows.stride});
      const int from = k.input({type.dtype, {outer, rows.extent, rows.stride}});
      const Coord first[] = {Coord(int64_t{0})};
      const Coord at[] = {k.dim(0), Coord(k.load(k.input({DType::i64, {1}}), first)), k.dim(1)};
      const Ex x = k.load(from, at);
      k.store(k.output({type.dtype, {outer, rows.stride}}), x);
      Node node;
      node.name = value_of(graph_, row).name;
      node.inputs = {value, index_};
      node.outputs = {row};
      node.kernel = std::make_shared<const Kernel>(k.finish("row"));
      node.origins = origins_of(graph_, value);
      add_node(graph_, std::move(node));
    }
    wanted_.erase(value);
  }

  Graph& graph_;
  ValueId index_;
  std::vector<bool> whole_;                        // by value: asked for as it is
  std::map<ValueId, std::vector<Wanted>> wanted_;  // by value: rows that are asked for and not computed yet
};

}  // namespace

bool take_row(Graph& graph, size_t output, const Rows& rows, ValueId index) {
  return RowTaker(graph, index).run(output, rows);
}

}  // namespace npusim
