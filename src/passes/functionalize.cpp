// In-place ops become out-of-place: every later read of the same storage, through whatever view, sees the new values.
#include <algorithm>

#include "base/error.h"
#include "kernel/fuse.h"
#include "passes/pass.h"

namespace npusim {
namespace {

class Functionalizer {
 public:
  explicit Functionalizer(Graph& graph)
      : graph_(graph), views_(graph.values.size()), current_(graph.values.size(), no_value) {}

  void run() {
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), [](const Node& n) { return n.in_place; })) return;
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old) {
      const std::vector<ValueId> operands = node.inputs;
      for (ValueId& v : node.inputs)
        if (v >= 0) v = read(v);
      if (!node.in_place) {
        const bool view = node.op && node.op->record.is_view && !operands.empty();
        const size_t position = graph_.nodes.size();
        graph_.nodes.push_back(std::move(node));
        if (view)
          for (ValueId out : graph_.nodes[position].outputs) make_view(out, operands[0], graph_.nodes[position]);
        continue;
      }
      node.in_place = false;
      const ValueId target = operands[0], result = node.outputs[0];
      const std::string name = node.name;
      graph_.nodes.push_back(std::move(node));
      write(target, result, name);
      // The op's own result is the operand from now on.
      grow(result);
      views_[static_cast<size_t>(result)] = {target, {}, true, 0};
    }
    for (GraphOutput& output : graph_.outputs) output.value = read(output.value);
    compact(graph_, std::vector<bool>(graph_.nodes.size(), false), true);
  }

 private:
  struct View {
    ValueId parent = no_value;
    Node op;            // the view op that made it
    bool same = false;  // another name of the parent
    int version = 0;    // of its storage when it was last made
  };

  void grow(ValueId v) {
    if (static_cast<size_t>(v) >= views_.size()) {
      views_.resize(static_cast<size_t>(v) + 1);
      current_.resize(static_cast<size_t>(v) + 1, no_value);
    }
  }

  ValueId base(ValueId v) const {
    while (views_[static_cast<size_t>(v)].parent != no_value) v = views_[static_cast<size_t>(v)].parent;
    return v;
  }

  int& version(ValueId root) {
    if (static_cast<size_t>(root) >= versions_.size()) versions_.resize(static_cast<size_t>(root) + 1, 0);
    return versions_[static_cast<size_t>(root)];
  }

  void make_view(ValueId out, ValueId parent, const Node& op) {
    grow(out);
    views_[static_cast<size_t>(out)] = {parent, op, false, version(base(parent))};
  }

  // The value that holds v's elements now: views older than their storage are made again.
  ValueId read(ValueId v) {
    grow(v);
    View& view = views_[static_cast<size_t>(v)];
    if (view.parent == no_value)
      return current_[static_cast<size_t>(v)] == no_value ? v : current_[static_cast<size_t>(v)];
    if (view.same) return read(view.parent);
    const int now = version(base(v));
    if (view.version == now) return current_[static_cast<size_t>(v)] == no_value ? v : current_[static_cast<size_t>(v)];
    const ValueId parent = read(view.parent);
    Node again = views_[static_cast<size_t>(v)].op;
    again.inputs[0] = parent;
    again.name += "_again";
    ValueId fresh = no_value;
    for (ValueId& out : again.outputs) {
      const ValueId copy = add_value(graph_, value_of(graph_, out).name + "_again", value_of(graph_, out).type);
      if (out == v) fresh = copy;
      out = copy;
    }
    graph_.nodes.push_back(std::move(again));
    grow(fresh);
    views_[static_cast<size_t>(v)].version = now;
    return current_[static_cast<size_t>(v)] = fresh;
  }

  // v's elements are now those of `result`: stored back through v's views into its storage.
  void write(ValueId v, ValueId result, const std::string& name) {
    grow(v);
    const View view = views_[static_cast<size_t>(v)];
    if (view.parent == no_value) {
      ++version(v);
      current_[static_cast<size_t>(v)] = result;
      return;
    }
    if (view.same) return write(view.parent, result, name);
    const ValueId parent = read(view.parent);
    const ValueId updated =
        add_value(graph_, value_of(graph_, parent).name + "_updated", value_of(graph_, parent).type);
    graph_.nodes.push_back(store_through(view.op, v, parent, result, updated, name));
    write(view.parent, updated, name);
    views_[static_cast<size_t>(v)].version = version(base(v));
    current_[static_cast<size_t>(v)] = result;
  }

  // parent with the elements `op` shows replaced by `result`'s: the view's copy kernel, turned around.
  Node store_through(const Node& op, ValueId v, ValueId parent, ValueId result, ValueId updated,
                     const std::string& name) {
    Node question = op;
    question.inputs[0] = parent;
    const OpCall call = call_of(graph_, question);
    const Lowering lowering = lower_call(call);
    const auto nth = static_cast<size_t>(std::find(op.outputs.begin(), op.outputs.end(), v) - op.outputs.begin());
    const Kernel& copy = lowering.calls.size() > nth ? lowering.calls[nth].kernel : Kernel{};
    bool invertible = is_copy(copy);
    if (invertible) {
      const Access& from =
          copy.accesses[static_cast<size_t>(copy.exprs[static_cast<size_t>(copy.stores[0].expr)].integer)];
      for (size_t d = 0; d < copy.space.size(); ++d)
        invertible = invertible && (copy.space[d] <= 1 || from.strides[d] != 0);
    }
    if (!invertible)
      fail(ErrorKind::unsupported,
           "node {}: writes in place through {} (node {}), which shows an element more than once or is computed", name,
           op.op->name(), op.name);
    Kernel k;
    k.name = "store_through_view";
    k.space = copy.space;
    const TensorType& big = value_of(graph_, parent).type;
    const TensorType& small = value_of(graph_, result).type;
    k.args = {{small.dtype, element_count(small.shape), false, -1},
              {big.dtype, element_count(big.shape), false, -1},
              {big.dtype, element_count(big.shape), true, 1}};
    Access load = copy.stores[0].access,
           store = copy.accesses[static_cast<size_t>(copy.exprs[static_cast<size_t>(copy.stores[0].expr)].integer)];
    load.arg = 0;
    store.arg = 2;
    k.accesses = {load};
    k.exprs = {{.op = ExprOp::load, .type = scalar_of(small.dtype)}};
    int32_t expr = 0;
    if (scalar_of(small.dtype) != scalar_of(big.dtype)) {
      Expr cast{.op = ExprOp::cast, .type = scalar_of(big.dtype)};
      cast.in[0] = 0;
      k.exprs.push_back(cast);
      expr = 1;
    }
    k.stores = {{store, expr, false}};
    Node node;
    node.name = name;
    node.inputs = {result, parent};
    node.outputs = {updated};
    node.kernel = std::make_shared<const Kernel>(std::move(k));
    return node;
  }

  Graph& graph_;
  std::vector<View> views_;
  std::vector<ValueId> current_;
  std::vector<int> versions_;  // by storage: how often it was written
};

}  // namespace

void functionalize(Graph& graph, PassContext&) { Functionalizer(graph).run(); }

}  // namespace npusim
