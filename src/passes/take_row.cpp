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

// Readers of all values of a graph.
using Readers = std::vector<std::vector<int32_t>>;

// A row that is asked for, and which one.
struct Asked {
  Rows rows;
  RowNumber number;
};

// Whether `reader` alone reads the value, and what computes it can compute one row. Of copies that is nothing won: it
// must go on upward until there is work to be saved.
bool saves_work(const Graph& graph, const Readers& readers, ValueId value, size_t reader, const Asked& asked) {
  if (value_of(graph, value).source != ValueSource::node ||
      readers[static_cast<size_t>(value)] != std::vector{static_cast<int32_t>(reader)})
    return false;
  const auto n = static_cast<size_t>(value_of(graph, value).producer);
  const Node& node = graph.nodes[n];
  if (node.outputs.size() != 1 || node.kernel->call) return false;
  BoundKernel bound{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
  bound.values.push_back(value);
  const auto row = one_row(bound, value, asked.rows, asked.number);
  if (!row || !is_copy(*node.kernel)) return row.has_value();
  return row->rows.size() == 1 &&
         saves_work(graph, readers, row->rows.begin()->first, n, {row->rows.begin()->second, asked.number});
}

// The row that a node copies out of what it reads, where work is saved if it alone is computed.
std::optional<Asked> find_row(const Graph& graph, const Readers& readers, size_t n) {
  const Node& node = graph.nodes[n];
  if (node.kernel->call || !is_copy(*node.kernel)) return std::nullopt;
  const Shape& shape = value_of(graph, node.inputs[0]).type.shape;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    if (shape[d] < 2) continue;
    const Rows rows{stride, shape[d]};
    const auto number = copied_row(*node.kernel, rows);
    if (!number) continue;
    const Asked asked{rows, {.known = *number}};
    if (saves_work(graph, readers, node.inputs[0], n, asked)) return asked;
  }
  return std::nullopt;
}

// One walk from the last node to the first.
class RowTaker {
 public:
  explicit RowTaker(Graph& graph)
      : graph_(graph), whole_(graph.values.size(), false), dead_(graph.nodes.size(), false) {}

  // Of an output. Whether the kernel of the value that the row is of computes it alone.
  bool of_output(size_t output, const Asked& asked) {
    const ValueId all = graph_.outputs[output].value;
    if (value_of(graph_, all).source != ValueSource::node) return false;
    graph_.outputs[output].value = row_of(all, asked);
    mark_outputs();
    for (size_t n = graph_.nodes.size(); n-- > 0;)
      if (!choose(n) && n == static_cast<size_t>(value_of(graph_, all).producer)) return false;
    finish();
    return true;
  }

  // Of all nodes that copy a row, instead of them. Whether there is one.
  bool of_copies() {
    const Readers readers = readers_of(graph_);
    bool any = false;
    mark_outputs();
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (node.outputs.size() == 1 && !wanted_.contains(node.outputs[0])) {
        if (const auto asked = find_row(graph_, readers, n)) {
          const ValueId all = node.inputs[0];
          wanted_[all] = {{*asked, node.outputs[0]}};
          dead_[n] = any = true;
          add_origins(graph_.nodes[static_cast<size_t>(value_of(graph_, all).producer)], node.origins);
          continue;
        }
      }
      choose(n);
    }
    if (any) finish();
    return any;
  }

 private:
  struct Wanted {
    Asked asked;
    ValueId row = no_value;
  };

  void mark_outputs() {
    for (const GraphOutput& output : graph_.outputs)
      if (static_cast<size_t>(output.value) < whole_.size()) whole_[static_cast<size_t>(output.value)] = true;
  }

  // What is asked for of values that no node computes, and the graph as it is then.
  void finish() {
    std::vector<ValueId> given;
    for (const auto& [value, wanted] : wanted_) given.push_back(value);
    for (const ValueId value : given) take(value);
    compact(graph_, dead_, true);
  }

  // The value that is one row of another, which is to be computed yet.
  ValueId row_of(ValueId value, const Asked& asked) {
    const Rows& rows = asked.rows;
    std::vector<Wanted>& wanted = wanted_[value];
    for (const Wanted& w : wanted)
      if (w.asked.rows.stride == rows.stride && w.asked.number == asked.number) return w.row;
    TensorType type = value_of(graph_, value).type;
    int64_t stride = 1;
    size_t d = type.shape.size();
    while (d > 0 && (stride < rows.stride || type.shape[d - 1] == 1)) stride *= type.shape[--d];
    if (d > 0 && stride == rows.stride && type.shape[d - 1] == rows.extent)
      type.shape[d - 1] = 1;
    else
      type.shape = {element_count(type.shape) / rows.extent};
    const ValueId row = add_value(graph_, value_of(graph_, value).name + "_row", std::move(type));
    wanted.push_back({asked, row});
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
      const auto [asked, result] = wanted->second[0];
      if (auto row = one_row(bound, value, asked.rows, asked.number)) {
        std::vector<ValueId> inputs;
        for (size_t i = 0; i + 1 < row->kernel.values.size(); ++i) {
          const ValueId operand = row->kernel.values[i];
          const auto rows = row->rows.find(operand);
          if (rows == row->rows.end() && operand != asked.number.value) whole_[static_cast<size_t>(operand)] = true;
          inputs.push_back(rows == row->rows.end() ? operand : row_of(operand, {rows->second, asked.number}));
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
    for (const auto& [asked, row] : wanted) {
      const auto& [rows, number] = asked;
      const int64_t outer = element_count(type.shape) / (rows.extent * rows.stride);
      KernelBuilder k({outer, rows.stride});
      const int from = k.input({type.dtype, {outer, rows.extent, rows.stride}});
      const Coord first[] = {Coord(int64_t{0})};
      const bool loaded = number.value >= 0;
      const Coord row_at = loaded ? Coord(k.load(k.input({DType::i64, {1}}), first)) : Coord(number.known);
      const Coord at[] = {k.dim(0), row_at, k.dim(1)};
      const Ex x = k.load(from, at);
      k.store(k.output({type.dtype, {outer, rows.stride}}), x);
      Node node;
      node.name = value_of(graph_, row).name;
      node.inputs = {value};
      if (loaded) node.inputs.push_back(number.value);
      node.outputs = {row};
      node.kernel = std::make_shared<const Kernel>(k.finish("row"));
      node.origins = origins_of(graph_, value);
      add_node(graph_, std::move(node));
    }
    wanted_.erase(value);
  }

  Graph& graph_;
  std::vector<bool> whole_;                        // by value: asked for as it is
  std::vector<bool> dead_;                         // by node
  std::map<ValueId, std::vector<Wanted>> wanted_;  // by value: rows that are asked for and not computed yet
};

}  // namespace

bool take_row(Graph& graph, size_t output, const Rows& rows, ValueId index) {
  return RowTaker(graph).of_output(output, {rows, {.value = index}});
}

// A row that is taken out of one row alone is found by another walk. It ends: each time a kernel that is no copy
// computes less.
void take_rows(Graph& graph, PassContext&) {
  const auto is_away = [](const Node& node) { return node.device != 0; };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_away)) return;  // nodes have their places already
  while (RowTaker(graph).of_copies()) {
  }
}

}  // namespace npusim
