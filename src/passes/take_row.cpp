// Upward from a row that is asked for: which values are asked for in one row only, and their kernels for that row.
#include "passes/take_row.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernel/builder.h"
#include "kernel/facts/memory.h"
#include "passes/pass.h"

namespace npusim {
namespace {

class RowTaker {
 public:
  RowTaker(Graph& graph, const RowNumber& number)
      : graph_(graph), number_(number), whole_(graph.values.size(), false), dead_(graph.nodes.size(), false) {}

  bool of_output(size_t output, const Rows& rows) {
    const ValueId all = graph_.outputs[output].value;
    graph_.outputs[output].value = row_of(all, rows);
    return go_up(all);
  }

  // Of a node that copies the row, instead of it.
  bool of_copy(size_t copy, const Rows& rows) {
    const Node& node = graph_.nodes[copy];
    const ValueId all = node.inputs[0];
    wanted_[all] = {{rows, node.outputs[0]}};
    dead_[copy] = true;
    add_origins(graph_.nodes[static_cast<size_t>(value_of(graph_, all).producer)], node.origins);
    return go_up(all);
  }

 private:
  struct Wanted {
    Rows rows;
    ValueId row = no_value;
  };

  // Whether the kernel of the value that the row is of computes it alone.
  bool go_up(ValueId all) {
    if (value_of(graph_, all).source != ValueSource::node) return false;
    for (const GraphOutput& output : graph_.outputs)
      if (static_cast<size_t>(output.value) < whole_.size()) whole_[static_cast<size_t>(output.value)] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;)
      if (!dead_[n] && !choose(n) && n == static_cast<size_t>(value_of(graph_, all).producer)) return false;
    std::vector<ValueId> given;
    for (const auto& [value, wanted] : wanted_) given.push_back(value);
    for (const ValueId value : given) take(value);
    compact(graph_, dead_, true);
    return true;
  }

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
      if (auto row = one_row(bound, value, wanted->second[0].rows, number_)) {
        const ValueId result = wanted->second[0].row;
        std::vector<ValueId> inputs;
        for (size_t i = 0; i + 1 < row->kernel.values.size(); ++i) {
          const ValueId operand = row->kernel.values[i];
          const auto rows = row->rows.find(operand);
          if (rows == row->rows.end() && operand != number_.value) whole_[static_cast<size_t>(operand)] = true;
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
      const bool loaded = number_.value >= 0;
      const Coord row_at = loaded ? Coord(k.load(k.input({DType::i64, {1}}), first)) : Coord(number_.known);
      const Coord at[] = {k.dim(0), row_at, k.dim(1)};
      const Ex x = k.load(from, at);
      k.store(k.output({type.dtype, {outer, rows.stride}}), x);
      Node node;
      node.name = value_of(graph_, row).name;
      node.inputs = {value};
      if (loaded) node.inputs.push_back(number_.value);
      node.outputs = {row};
      node.kernel = std::make_shared<const Kernel>(k.finish("row"));
      node.origins = origins_of(graph_, value);
      add_node(graph_, std::move(node));
    }
    wanted_.erase(value);
  }

  Graph& graph_;
  RowNumber number_;
  std::vector<bool> whole_;                        // by value: asked for as it is
  std::vector<bool> dead_;                         // by node
  std::map<ValueId, std::vector<Wanted>> wanted_;  // by value: rows that are asked for and not computed yet
};

// Readers of all values of a graph.
using Readers = std::vector<std::vector<int32_t>>;

// Whether `reader` alone reads the value, and what computes it can compute one row. Of copies that is nothing won: it
// must go on upward until there is work to be saved.
bool saves_work(const Graph& graph, const Readers& readers, ValueId value, size_t reader, const Rows& rows,
                int64_t number) {
  if (value_of(graph, value).source != ValueSource::node ||
      readers[static_cast<size_t>(value)] != std::vector{static_cast<int32_t>(reader)})
    return false;
  const auto n = static_cast<size_t>(value_of(graph, value).producer);
  const Node& node = graph.nodes[n];
  if (node.outputs.size() != 1 || node.kernel->call) return false;
  BoundKernel bound{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
  bound.values.push_back(value);
  const auto row = one_row(bound, value, rows, {.known = number});
  if (!row || !is_copy(*node.kernel)) return row.has_value();
  return row->rows.size() == 1 &&
         saves_work(graph, readers, row->rows.begin()->first, n, row->rows.begin()->second, number);
}

// The row that a node copies out of what it reads, where work is saved if it alone is computed.
struct CopiedRow {
  Rows rows;
  int64_t number = 0;
};
std::optional<CopiedRow> find_row(const Graph& graph, const Readers& readers, size_t n) {
  const Node& node = graph.nodes[n];
  if (node.kernel->call || !is_copy(*node.kernel)) return std::nullopt;
  const Shape& shape = value_of(graph, node.inputs[0]).type.shape;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    const Rows rows{stride, shape[d]};
    const auto number = copied_row(*node.kernel, rows);
    if (number && saves_work(graph, readers, node.inputs[0], n, rows, *number)) return CopiedRow{rows, *number};
  }
  return std::nullopt;
}

}  // namespace

bool take_row(Graph& graph, size_t output, const Rows& rows, ValueId index) {
  return RowTaker(graph, {.value = index}).of_output(output, rows);
}

// The last ones first. It ends: each time a kernel that is no copy computes less.
void take_rows(Graph& graph, PassContext&) {
  const auto is_away = [](const Node& node) { return node.device != 0; };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_away)) return;  // nodes have their places already
  bool again = true;
  while (std::exchange(again, false)) {
    const auto readers = readers_of(graph);
    for (size_t n = graph.nodes.size(); n-- > 0 && !again;)
      if (const auto row = find_row(graph, readers, n))
        again = RowTaker(graph, {.known = row->number}).of_copy(n, row->rows);
  }
}

}  // namespace npusim
