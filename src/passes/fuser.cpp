// Bookkeeping of the fusion passes.
#include "passes/fuser.h"

#include <algorithm>

#include "passes/recognize.h"

namespace npusim {
namespace {

// An assertion of the model's that does not hold ends a run before something is overwritten, under its own name.
bool asserts(const Kernel& k) {
  return std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) {
    return e.op == ExprOp::require && e.integer == static_cast<int64_t>(Requirement::assertion);
  });
}
bool updates(const Kernel& k) {
  return std::any_of(k.args.begin(), k.args.end(), [](const KernelArg& a) { return a.updates >= 0; });
}

}  // namespace

Fuser::Fuser(Graph& graph, const PassContext& context)
    : options{context.strict},
      graph_(graph),
      context_(context),
      producer_(graph.values.size(), -1),
      output_(graph.values.size(), false),
      readers_(graph.values.size()) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    BoundKernel bound{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
    bound.values.insert(bound.values.end(), node.outputs.begin(), node.outputs.end());
    kernels_.push_back(std::move(bound));
    for (ValueId v : node.inputs) readers_[static_cast<size_t>(v)].push_back(n);
    for (ValueId v : node.outputs) producer_[static_cast<size_t>(v)] = static_cast<int>(n);
  }
  dead_.assign(kernels_.size(), false);
  for (const GraphOutput& output : graph.outputs) output_[static_cast<size_t>(output.value)] = true;
}

std::vector<int> Fuser::reads(size_t node) const {
  std::vector<int> values;
  for (size_t i = 0; i < kernels_[node].values.size(); ++i)
    if (!kernels_[node].kernel.args[i].written) values.push_back(kernels_[node].values[i]);
  return values;
}

std::vector<int> Fuser::writes(size_t node) const {
  std::vector<int> values;
  for (size_t i = 0; i < kernels_[node].values.size(); ++i)
    if (kernels_[node].kernel.args[i].written) values.push_back(kernels_[node].values[i]);
  return values;
}

std::vector<size_t> Fuser::readers(int value) {
  auto& list = readers_[static_cast<size_t>(value)];
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  std::erase_if(list, [&](size_t n) {
    if (dead_[n]) return true;
    const BoundKernel& b = kernels_[n];
    for (size_t i = 0; i < b.values.size(); ++i)
      if (b.values[i] == value && !b.kernel.args[i].written) return false;
    return true;
  });
  return list;
}

bool Fuser::only_reader(int value, size_t node) {
  if (is_output(value)) return false;
  const auto list = readers(value);
  return list.size() == 1 && list[0] == node;
}

bool Fuser::widens_for_readers(size_t node) {
  const Kernel& k = kernel(node);
  if (!is_copy_or_cast(k) || k.exprs.size() != 1) return false;
  const std::vector<int> operands = reads(node);
  if (operands.size() != 1) return false;  // a copy within what it updates reads nothing else
  const int from = operands[0], to = writes(node)[0];
  if (is_output(to) || dtype_size(dtype(to)) <= dtype_size(dtype(from))) return false;
  const std::vector<size_t> list = readers(to);
  return std::none_of(list.begin(), list.end(), [&](size_t n) { return kernel(n).contraction != nullptr; });
}

bool Fuser::can_move_to(size_t node, size_t reader) {
  for (int v : writes(node))
    for (size_t r : readers(v))
      if (r < reader) return false;
  return true;
}

void Fuser::replace(size_t node, BoundKernel bound) {
  kernels_[node] = std::move(bound);
  for (int v : reads(node)) readers_[static_cast<size_t>(v)].push_back(node);
  for (int v : writes(node)) producer_[static_cast<size_t>(v)] = static_cast<int>(node);
}

void Fuser::remove(size_t node, size_t into) {
  join(node, into);
  bury(node);
}

void Fuser::remove_if_unread(size_t node) {
  for (int v : writes(node))
    if (is_output(v) || !readers(v).empty()) return;
  bury(node);
}

// Its origins are those of whoever does its work now: in a long chain each would keep all before it.
void Fuser::bury(size_t node) {
  dead_[node] = true;
  graph_.nodes[node].origins = std::vector<int32_t>();
}

bool Fuser::allowed(const BoundKernel& merged, int32_t device) const {
  if (!updates_in_place(merged.kernel)) return false;  // what it updates would be copied first
  if (context_.refuse && !context_.refuse(merged.kernel, device).empty()) return false;
  if (merged.kernel.exprs.size() > max_fused_exprs || merged.values.size() > max_fused_args) return false;
  if (context_.disabled.empty()) return true;
  for (const std::string& name : recognize(merged.kernel))
    if (!context_.enabled(name)) return false;
  return true;
}

void Fuser::join_names(BoundKernel& merged, const Kernel& first, const Kernel& second) const {
  std::string name = first.name;
  if (!is_copy(first) && !is_copy(second))
    name += "_" + second.name;
  else if (is_copy(first))
    name = second.name;
  if (name.size() > 48) name.resize(48);
  merged.kernel.name = name;
}

bool Fuser::inline_into(size_t producer, size_t consumer, int value, bool aligned) {
  if (device(producer) != device(consumer) ||
      kernels_[producer].kernel.exprs.size() + kernels_[consumer].kernel.exprs.size() > 2 * max_fused_exprs)
    return false;
  if (asserts(kernel(producer)) && updates(kernel(consumer))) return false;
  auto merged = inline_value(kernels_[consumer], kernels_[producer], value, aligned, options);
  if (!merged || !allowed(*merged, device(consumer))) return false;
  join_names(*merged, kernels_[producer].kernel, kernels_[consumer].kernel);
  replace(consumer, std::move(*merged));
  join(producer, consumer);
  remove_if_unread(producer);
  return true;
}

void Fuser::inline_producers(size_t node, bool aligned, const std::function<bool(size_t, int)>& wanted) {
  const auto inline_one = [&] {
    const std::vector<int> values = reads(node);
    return std::any_of(values.begin(), values.end(), [&](int value) {
      const int p = producer(value);
      return p >= 0 && wanted(static_cast<size_t>(p), value) &&
             inline_into(static_cast<size_t>(p), node, value, aligned);
    });
  };
  while (inline_one()) {
  }
}

bool Fuser::append_to(size_t producer, size_t consumer, int value) {
  if (device(producer) != device(consumer)) return false;
  const bool keep = is_output(value) || readers(value).size() > 1;
  auto merged = append_consumer(kernels_[producer], kernels_[consumer], value, keep, options);
  if (!merged || !allowed(*merged, device(consumer))) return false;
  join_names(*merged, kernels_[producer].kernel, kernels_[consumer].kernel);
  remove(producer, consumer);
  replace(consumer, std::move(*merged));
  return true;
}

void Fuser::finish() {
  std::vector<bool> dead(dead_.begin(), dead_.end());
  for (size_t n = 0; n < kernels_.size(); ++n) {
    if (dead_[n]) {
      graph_.nodes[n].outputs.clear();
      continue;
    }
    Node& node = graph_.nodes[n];
    const auto in = reads(n), out = writes(n);
    node.inputs.assign(in.begin(), in.end());
    node.outputs.assign(out.begin(), out.end());
    node.kernel = std::make_shared<const Kernel>(std::move(kernels_[n].kernel));
  }
  compact(graph_, dead, true);
}

}  // namespace npusim
