// The target's rules: every node that breaks one is done by the fallback device, or all are reported together, and the
// compilation ends.
#include <fmt/format.h>

#include <algorithm>

#include "passes/image_layout.h"
#include "passes/pass.h"

namespace npusim {
namespace {

using Reasons = std::vector<std::string>;

// An image that must stay as it is needs channels the device can take.
void check_channels(const Graph& graph, const Node& node, ValueId image, int64_t channel_stride,
                    const PassContext& context, const TargetConfig& rules, Reasons& reasons) {
  const Value& value = value_of(graph, image);
  if (!is_image(*node.kernel, value, channel_stride)) return;
  DType dtype = value.type.dtype;
  if (dtype == DType::f32 && context.dtype && !context.strict) dtype = *context.dtype;
  const int64_t multiple = aligned_channels(dtype, rules), channels = value.type.shape[1];
  if (channels % multiple == 0) return;
  reasons.push_back(
      fmt::format("'{}' has {} channels of {}: target {} takes multiples of {} ({} bytes) and does not pad", value.name,
                  channels, dtype_name(dtype), rules.name, multiple, rules.channel_alignment_bytes));
}

// Why a device with these rules cannot do the node's work.
Reasons broken_rules(const Graph& graph, const Node& node, const PassContext& context, const TargetConfig& rules,
                     int32_t device) {
  Reasons reasons;
  if (node.kernel->call && context.refuse)
    if (std::string reason = context.refuse(*node.kernel, device); !reason.empty())
      reasons.push_back(std::move(reason));
  for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values)
      if (const auto rank = static_cast<int64_t>(value_of(graph, v).type.shape.size()); rank > rules.max_rank)
        reasons.push_back(fmt::format("'{}' has {} dimensions: target {} takes at most {}", value_of(graph, v).name,
                                      rank, rules.name, rules.max_rank));
  const Kernel& k = *node.kernel;
  if (rules.pad_channels || !k.contraction || k.contraction->kind != ContractionKind::conv) return reasons;
  check_channels(graph, node, node.inputs[static_cast<size_t>(k.contraction->a.arg)], read_channel_stride(k), context,
                 rules, reasons);
  for (const Store& store : k.stores)
    check_channels(graph, node, node.outputs[static_cast<size_t>(store.access.arg) - node.inputs.size()],
                   written_channel_stride(k, store), context, rules, reasons);
  return reasons;
}

}  // namespace

void check_constraints(Graph& graph, PassContext& context) {
  if (!context.violations.empty()) raise_violations(context);
  for (const Node& node : graph.nodes) {
    const Reasons reasons = broken_rules(graph, node, context, context.target, 0);
    if (reasons.empty()) continue;
    const bool sent = std::any_of(node.origins.begin(), node.origins.end(), [&](int32_t origin) {
      return !graph.origins[static_cast<size_t>(origin)].reason.empty();
    });
    if (context.fallback && (sent || !context.planned) &&
        broken_rules(graph, node, context, *context.fallback, 1).empty()) {
      send_away(graph, node, reasons.front());
      continue;
    }
    for (const std::string& reason : reasons) context.violations.push_back({node.name, ErrorKind::unsupported, reason});
  }
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
