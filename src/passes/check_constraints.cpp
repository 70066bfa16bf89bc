// The target's rules: every node that breaks one is reported, all together, and the compilation ends.
#include <fmt/format.h>

#include "passes/image_layout.h"
#include "passes/pass.h"

namespace npusim {
namespace {

// An image that must stay as it is needs channels the target can take.
void check_channels(const Graph& graph, const Node& node, ValueId image, int64_t channel_stride, PassContext& context) {
  const Value& value = value_of(graph, image);
  if (!is_image(*node.kernel, value, channel_stride)) return;
  DType dtype = value.type.dtype;
  if (dtype == DType::f32 && context.dtype && !context.strict) dtype = *context.dtype;
  const int64_t multiple = aligned_channels(dtype, context.target), channels = value.type.shape[1];
  if (channels % multiple == 0) return;
  context.violations.push_back({node.name, ErrorKind::unsupported,
                                fmt::format("'{}' has {} channels of {}: target {} takes multiples of {} ({} bytes) "
                                            "and does not pad",
                                            value.name, channels, dtype_name(dtype), context.target.name, multiple,
                                            context.target.channel_alignment_bytes)});
}

void check_node(const Graph& graph, const Node& node, PassContext& context) {
  for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values) {
      const auto rank = static_cast<int64_t>(value_of(graph, v).type.shape.size());
      if (rank <= context.target.max_rank) continue;
      context.violations.push_back(
          {node.name, ErrorKind::unsupported,
           fmt::format("'{}' has {} dimensions: target {} takes at most {}", value_of(graph, v).name, rank,
                       context.target.name, context.target.max_rank)});
    }
  const Kernel& k = *node.kernel;
  if (context.target.pad_channels || !k.contraction || k.contraction->kind != ContractionKind::conv) return;
  check_channels(graph, node, node.inputs[static_cast<size_t>(k.contraction->a.arg)], read_channel_stride(k), context);
  for (const Store& store : k.stores)
    check_channels(graph, node, node.outputs[static_cast<size_t>(store.access.arg) - node.inputs.size()],
                   written_channel_stride(k, store), context);
}

}  // namespace

void check_constraints(Graph& graph, PassContext& context) {
  if (context.violations.empty())
    for (const Node& node : graph.nodes) check_node(graph, node, context);
  raise_violations(context);
}

void raise_violations(const PassContext& context) {
  if (context.violations.empty()) return;
  std::vector<Problem> problems;
  for (const Violation& violation : context.violations)
    problems.push_back({"node " + violation.node, violation.reason});
  throw Error(context.violations.front().kind, std::move(problems));
}

}  // namespace npusim
