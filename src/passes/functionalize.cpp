// In-place ops become out-of-place: every later read of the same memory, through whatever view, sees the new values;
// and what addresses memory (as_strided) becomes a load from it.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "passes/memories.h"

namespace npusim {
namespace {

bool addresses_memory(const Node& node) {
  if (!node.op) return false;
  const Memory memory = node.op->record.memory;
  return memory == Memory::strided || memory == Memory::strided_own || memory == Memory::strided_scatter;
}

// In place, what gives its operand another shape or order writes nothing: the name becomes another view.
bool is_write(const Graph& graph, const Node& node) {
  if (!node.in_place) return false;
  switch (node.op->record.memory) {
    case Memory::itself:
      return draws(call_of(graph, node));
    case Memory::same:
    case Memory::mapped:
    case Memory::strided:
      return false;
    default:
      return true;
  }
}

class Functionalizer {
 public:
  Functionalizer(Graph& graph, PassContext& context) : graph_(graph), memories_(graph, context), context_(context) {}

  void run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old) {
      const std::vector<int32_t> origins = node.origins;
      const size_t before = graph_.nodes.size();
      if (node.kernel)
        keep_kernel(std::move(node));
      else if (addresses_memory(node))
        address(std::move(node));
      else if (is_write(graph_, node))
        write(std::move(node));
      else
        keep(std::move(node));
      for (size_t n = before; n < graph_.nodes.size(); ++n) graph_.nodes[n].origins = origins;
    }
    for (GraphOutput& output : graph_.outputs) output.value = memories_.read(output.value, "output " + output.name);
    give_written_weights();
    compact(graph_, std::vector<bool>(graph_.nodes.size(), false), true);
  }

 private:
  // What a weight or a constant became that nodes write into is one more output.
  void give_written_weights() {
    std::unordered_set<std::string> taken;  // by outputs
    for (size_t v = 0, count = graph_.values.size(); v < count; ++v) {
      const ValueSource source = graph_.values[v].source;
      if (source != ValueSource::weight && source != ValueSource::constant) continue;
      const auto weight = static_cast<ValueId>(v);
      if (!memories_.is_written(weight)) continue;
      const std::string fqn = value_of(graph_, weight).fqn;
      const ValueId next = memories_.read(weight, "weight " + fqn);
      if (taken.empty())
        for (const GraphOutput& output : graph_.outputs) taken.insert(output.name);
      std::string name = fqn + "_next";
      while (!taken.insert(name).second) name += "_";
      graph_.outputs.push_back({.name = std::move(name), .value = next, .next_of = weight});
    }
  }

  // False where an operand cannot be read: then nothing is known of where the results are.
  bool read_operands(Node& node) {
    const size_t before = context_.violations.size();
    for (ValueId& v : node.inputs)
      if (v != no_value) v = memories_.read(v, node.name);
    return context_.violations.size() == before;
  }

  void keep_kernel(Node node) {
    read_operands(node);
    make_own_results(std::move(node));
  }

  // What order eager PyTorch gives the results of a call is not known.
  void make_own_results(Node node) {
    const bool known = !node.kernel || !node.kernel->call;
    for (ValueId v : node.outputs) memories_.make_own(v, {row_major(value_of(graph_, v).type.shape), known});
    node.in_place = false;
    graph_.nodes.push_back(std::move(node));
  }

  void keep(Node node) {
    const std::vector<ValueId> operands = node.inputs;
    std::vector<Residence> residences(operands.size());
    std::vector<const Residence*> residences_of(operands.size(), nullptr);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == no_value || value_of(graph_, operands[i]).generator) continue;
      residences[i] = memories_.residence(operands[i]);
      residences_of[i] = &residences[i];
    }
    if (!read_operands(node) || node.op->record.is_check) return make_own_results(std::move(node));
    std::vector<ResultMemory> results = place_results(call_of(graph_, node), residences_of);
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId out = node.outputs[i];
      ResultMemory& result = results[i];
      const ValueId of = result.operand < 0 ? no_value : operands[static_cast<size_t>(result.operand)];
      if (node.in_place) {
        memories_.change(of, out, std::move(result.residence.at));
        continue;
      }
      if (result.kind == ResultMemory::Kind::itself) {
        memories_.name(out, of);
        continue;
      }
      if (result.kind == ResultMemory::Kind::shared) {
        memories_.share(out, of, std::move(result.residence.at));
        continue;
      }
      memories_.make_own(out, std::move(result.residence));
      if (result.kind == ResultMemory::Kind::either)
        memories_.may_share(
            out, of,
            fmt::format("'{}' may share its memory (node {}: {})", value_of(graph_, out).name, node.name, result.why));
    }
    node.in_place = false;
    graph_.nodes.push_back(std::move(node));
  }

  void write(Node node) {
    const ValueId target = node.inputs[0], result = node.outputs[0];
    const std::string name = node.name;
    if (element_count(value_of(graph_, target).type.shape) == 0) {  // there is nothing to write
      memories_.name(result, target);
      return;
    }
    if (!read_operands(node)) return make_own_results(std::move(node));
    node.in_place = false;
    graph_.nodes.push_back(std::move(node));
    memories_.write(target, result, name);
  }

  void address(Node node) {
    const ValueId self = node.inputs[0], result = node.outputs[0];
    const Memory kind = node.op->record.memory;
    const Residence from = memories_.residence(self);
    const OpCall call = call_of(graph_, node);
    const Strides at = strided_placement(call, from.at.offset);
    const Shape size = call.ints("size");
    const std::string self_name = value_of(graph_, self).name;
    if (!read_operands(node)) return make_own_results(std::move(node));
    std::optional<Violation> violation;
    if (!from.known)
      violation = {
          node.name, ErrorKind::unsupported,
          fmt::format("addresses the memory of '{}', whose order in eager PyTorch is not known here", self_name)};
    else if (!fits_memory(at, size, memories_.elements(self)))
      violation = {node.name, ErrorKind::bad_input,
                   fmt::format("{} with strides {} from {} leaves the {} elements of the memory of '{}'",
                               to_string(size), to_string(at.strides), at.offset, memories_.elements(self), self_name)};
    else if (kind == Memory::strided_scatter && !is_injective(from.at, value_of(graph_, self).type.shape))
      violation = {node.name, ErrorKind::unsupported,
                   fmt::format("replaces elements of '{}', which shows an element more than once", self_name)};
    if (violation) {
      context_.violations.push_back(std::move(*violation));
      // Something stands in its place until check_constraints ends the compilation.
      const Shape& shape = value_of(graph_, result).type.shape;
      memories_.load(self, {0, Shape(shape.size(), 0)}, result, node.name);
      memories_.make_own(result, {row_major(shape), true});
      return;
    }
    if (kind == Memory::strided_scatter) {
      memories_.scatter(self, at, node.inputs[1], result, node.name);
      return;
    }
    memories_.load(self, at, result, node.name);
    if (kind == Memory::strided_own)
      memories_.make_own(result, {row_major(size), true});
    else if (node.in_place)
      memories_.change(self, result, at);
    else
      memories_.share(result, self, at);
  }

  Graph& graph_;
  Memories memories_;
  PassContext& context_;
};

}  // namespace

void functionalize(Graph& graph, PassContext& context) {
  const auto matters = [](const Node& node) { return node.in_place || addresses_memory(node); };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), matters)) Functionalizer(graph, context).run();
}

}  // namespace npusim
