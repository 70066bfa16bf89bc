// Loads from memories and stores into them, as kernels.
#include "passes/memories.h"

#include <fmt/format.h>

namespace npusim {
namespace {

Access access(int arg, const Strides& at) {
  Access a;
  a.arg = arg;
  a.offset = at.offset;
  a.strides = at.strides;
  return a;
}

// Where a dimension has no second element its stride addresses nothing.
Strides addressed(Strides at, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] <= 1) at.strides[d] = 0;
  return at;
}

// to[to_at] = from[from_at] over `space`, cast where the dtypes differ; `updates` keeps the rest of another value.
Node move_node(const Graph& graph, const Shape& space, ValueId from, Strides from_at, ValueId to, Strides to_at,
               ValueId updates, std::string kernel) {
  const TensorType &source = value_of(graph, from).type, &target = value_of(graph, to).type;
  Kernel k;
  k.name = std::move(kernel);
  k.space = space;
  k.args.push_back({source.dtype, element_count(source.shape), false, -1});
  if (updates != no_value) k.args.push_back({target.dtype, element_count(target.shape), false, -1});
  const int written = static_cast<int>(k.args.size());
  k.args.push_back({target.dtype, element_count(target.shape), true, updates == no_value ? -1 : 1});
  k.accesses = {access(0, addressed(std::move(from_at), space))};
  k.exprs = {{.op = ExprOp::load, .type = scalar_of(source.dtype)}};
  if (scalar_of(source.dtype) != scalar_of(target.dtype)) {
    Expr cast{.op = ExprOp::cast, .type = scalar_of(target.dtype)};
    cast.in[0] = 0;
    k.exprs.push_back(cast);
  }
  k.stores = {{access(written, addressed(std::move(to_at), space)), static_cast<int32_t>(k.exprs.size()) - 1, false}};
  Node node;
  node.inputs = {from};
  if (updates != no_value) node.inputs.push_back(updates);
  node.outputs = {to};
  node.kernel = std::make_shared<const Kernel>(std::move(k));
  return node;
}

}  // namespace

Memories::Memories(Graph& graph, PassContext& context) : graph_(graph), context_(context) {
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].source != ValueSource::node)
      make_own(static_cast<ValueId>(v), {row_major(graph.values[v].type.shape), true});
}

void Memories::add(ValueId v, Tensor tensor) {
  if (static_cast<size_t>(v) >= names_.size()) names_.resize(static_cast<size_t>(v) + 1, -1);
  names_[static_cast<size_t>(v)] = static_cast<int32_t>(tensors_.size());
  tensors_.push_back(std::move(tensor));
}

void Memories::name(ValueId v, ValueId as) {
  if (static_cast<size_t>(v) >= names_.size()) names_.resize(static_cast<size_t>(v) + 1, -1);
  names_[static_cast<size_t>(v)] = names_[static_cast<size_t>(as)];
}

void Memories::make_own(ValueId v, Residence residence) {
  Block memory;
  memory.elements = element_count(shape(v));
  memory.known = residence.known;
  memory.holder = v;
  memory.order = residence.at;
  add(v, {static_cast<int32_t>(memories_.size()), std::move(residence.at), shape(v), v, 0});
  memories_.push_back(std::move(memory));
}

void Memories::share(ValueId v, ValueId of, Strides at) {
  add(v, {tensor(of).memory, std::move(at), shape(v), v, memory_of(of).version});
}

void Memories::may_share(ValueId a, ValueId b, std::string why) {
  const int32_t joined = memory_of(a).group, group = memory_of(b).group;
  const auto id = static_cast<int32_t>(groups_.size());
  groups_.push_back(std::move(why));
  for (Block& memory : memories_)
    if (memory.group != -1 && (memory.group == joined || memory.group == group)) memory.group = id;
  memory_of(a).group = memory_of(b).group = id;
}

void Memories::change(ValueId v, ValueId result, Strides at) {
  Tensor& changed = tensor(v);
  changed.at = std::move(at);
  changed.shape = shape(result);
  changed.current = result;
  changed.version = memory_of(v).version;
  name(result, v);
}

Residence Memories::residence(ValueId v) const { return {tensor(v).at, memory_of(v).known}; }

void Memories::refuse(const std::string& node, std::string reason) {
  context_.violations.push_back({node, ErrorKind::unsupported, std::move(reason)});
}

ValueId Memories::read(ValueId v, const std::string& reader) {
  const Tensor now = tensor(v);
  if (now.shape != shape(v)) {
    refuse(reader, fmt::format("reads '{}' of {}, whose shape became {} in place", value_of(graph_, v).name,
                               to_string(shape(v)), to_string(now.shape)));
    return v;
  }
  Block& memory = memory_of(v);
  if (!memory.lost.empty()) {
    refuse(reader, fmt::format("reads '{}', {}", value_of(graph_, v).name, memory.lost));
    return v;
  }
  if (now.version == memory.version) return now.current;
  const TensorType type = value_of(graph_, v).type;
  ValueId fresh = memory.holder;
  const bool whole =
      now.at.offset == 0 && value_of(graph_, fresh).type == type && now.at.strides == memory.order.strides;
  if (!whole) {
    fresh = add_value(graph_, value_of(graph_, v).name + "_again", type);
    load(v, now.at, fresh, value_of(graph_, v).name + "_again");
  }
  tensor(v).current = fresh;
  tensor(v).version = memory.version;
  return fresh;
}

ValueId Memories::content(Block& memory, const std::string& name) {
  const TensorType type = value_of(graph_, memory.holder).type;
  if (is_row_major(memory.order, type.shape)) return memory.holder;
  const ValueId line = add_value(graph_, name + "_memory", {type.dtype, {memory.elements}});
  Node node = move_node(graph_, type.shape, memory.holder, row_major(type.shape), line, memory.order, no_value,
                        "to_memory_order");
  node.name = name + "_memory";
  graph_.nodes.push_back(std::move(node));
  memory.holder = line;
  memory.order = row_major({memory.elements});
  return line;
}

void Memories::load(ValueId v, const Strides& at, ValueId result, const std::string& name) {
  const ValueId from = content(memory_of(v), name);
  Node node =
      move_node(graph_, shape(result), from, at, result, row_major(shape(result)), no_value, "load_from_memory");
  node.name = name;
  graph_.nodes.push_back(std::move(node));
}

Node Memories::store_node(const Strides& at, ValueId source, ValueId content, ValueId updated,
                          const std::string& name) {
  Node node =
      move_node(graph_, shape(source), source, row_major(shape(source)), updated, at, content, "store_through_view");
  node.name = name;
  return node;
}

void Memories::write(ValueId v, ValueId result, const std::string& writer) {
  Block& memory = memory_of(v);
  const Strides at = tensor(v).at;
  if (shape(v) != shape(result))
    fail(ErrorKind::bad_input, "node {}: writes {} into '{}' of {}", writer, to_string(shape(result)),
         value_of(graph_, v).name, to_string(shape(v)));
  if (!is_injective(at, shape(v)))
    refuse(writer,
           fmt::format("writes in place into '{}', which shows an element more than once", value_of(graph_, v).name));
  if (at.offset == 0 && element_count(shape(v)) == memory.elements && is_dense(at, shape(v))) {
    memory.holder = result;
    memory.order = at;
  } else {
    const ValueId before = content(memory, writer);
    const ValueId updated = add_value(graph_, writer + "_updated", TensorType(value_of(graph_, before).type));
    graph_.nodes.push_back(store_node(at, result, before, updated, writer));
    memory.holder = updated;
  }
  ++memory.version;
  tensor(v).current = result;
  tensor(v).version = memory.version;
  name(result, v);
  if (memory.group == -1) return;
  for (Block& other : memories_)
    if (other.group == memory.group && &other != &memory)
      other.lost =
          fmt::format("which node {} may have changed: {}", writer, groups_[static_cast<size_t>(memory.group)]);
}

void Memories::scatter(ValueId v, const Strides& at, ValueId source, ValueId result, const std::string& name) {
  const Tensor shown = tensor(v);
  const ValueId before = content(memory_of(v), name);
  const TensorType type = value_of(graph_, before).type;
  if (!is_injective(at, shape(source))) refuse(name, "writes an element more than once");
  const bool whole = value_of(graph_, result).type == type && shown.at.offset == 0 &&
                     is_row_major(shown.at, type.shape) && memory_of(v).elements == element_count(type.shape);
  const ValueId updated = whole ? result : add_value(graph_, name + "_memory", type);
  graph_.nodes.push_back(store_node(at, source, before, updated, name));
  make_own(updated, {row_major(type.shape), memory_of(v).known});
  if (whole) return;
  load(updated, shown.at, result, name);
  share(result, updated, shown.at);
}

}  // namespace npusim
