// Reading of IR JSON (docs/ir_format.md sections 1-3 and 5) into plain structs.
#include "graph/document.h"

#include <algorithm>
#include <unordered_set>

#include "base/file_kind.h"
#include "base/json.h"
#include "kernel/kernel.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

// Of names: a program's steps show them again and again.
constexpr size_t most_name_bytes = 1024;

std::string too_long(std::string_view name) {
  return fmt::format("one of {} bytes (at most {})", name.size(), most_name_bytes);
}

// Where a JSON value stands; spelled out only when a problem is reported. The default is the whole file.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;
  int64_t index = -1;
};

std::string to_string(const Path& path) {
  const std::string parent = path.parent ? to_string(*path.parent) : "";
  if (path.index >= 0) return fmt::format("{}[{}]", parent, path.index);
  return fmt::format("{}{}{}", parent, parent.empty() ? "" : ".", path.key);
}

struct Reader {
  Problems& problems;

  void expected(const Path& path, const char* what, const Json& found) {
    problems.bad(to_string(path), "expected {}, found {}", what, found.type_name());
  }

  // The member, or nullptr after reporting that it is missing.
  const Json* member(const Json& object, const Path& parent, std::string_view key, bool required = true) {
    const auto it = object.find(key);
    if (it != object.end()) return &*it;
    if (required) problems.bad(to_string(Path{&parent, key}), "missing");
    return nullptr;
  }

  std::string_view text(const Json& object, const Path& parent, std::string_view key, bool& broken) {
    const Json* value = member(object, parent, key);
    const bool is_text = value && value->is_string();
    const std::string_view found = is_text ? std::string_view(value->get_ref<const std::string&>()) : "";
    const bool ends_early = found.find('\0') != std::string_view::npos;  // for whoever takes strings as C does
    if (!found.empty() && !ends_early && found.size() <= most_name_bytes) return found;
    if (is_text)
      problems.bad(to_string(Path{&parent, key}), "expected a string, found {}",
                   found.size() > most_name_bytes ? too_long(found)
                   : ends_early                   ? fmt::format("'{}', which has a NUL byte", found)
                                                  : "an empty one");
    else if (value)
      expected(Path{&parent, key}, "a string", *value);
    broken = true;
    return {};
  }

  void shape(const Json& list, const Path& path, IrTensor& tensor) {
    if (!list.is_array()) {
      expected(path, "a list of integers", list);
      tensor.broken = true;
      return;
    }
    if (list.size() > max_dims) {
      problems.bad(to_string(path), "tensor '{}': expected at most {} dimensions, found {}", tensor.name, max_dims,
                   list.size());
      tensor.broken = true;
      return;
    }
    Shape& shape = tensor.type.shape;
    for (const Json& extent : list) {
      const Path at{&path, {}, static_cast<int64_t>(shape.size())};
      shape.push_back(0);
      if (!extent.is_number_integer() || (extent.is_number_unsigned() && extent.get<uint64_t>() >> 63)) {
        expected(at, "an integer", extent);
      } else if (shape.back() = extent.get<int64_t>(); shape.back() < 0) {
        problems.bad(to_string(at), "tensor '{}': expected a static dimension of at least 0, found {}", tensor.name,
                     shape.back());
      } else {
        continue;
      }
      tensor.broken = true;
    }
    if (tensor.broken) return;
    try {
      element_count(shape);
    } catch (const Error& error) {
      problems.bad(to_string(path), "tensor '{}': {}", tensor.name, error.what());
      tensor.broken = true;
    }
  }

  void producer(const Json& object, const Path& path, IrTensor& tensor) {
    if (const Json* value = member(object, path, "producer_node", false); value && !value->is_null()) {
      if (value->is_string())
        tensor.producer = value->get_ref<const std::string&>();
      else
        expected(Path{&path, "producer_node"}, "a string", *value), tensor.broken = true;
    }
    if (const Json* value = member(object, path, "producer_output_idx", false); value && !value->is_null()) {
      if (value->is_number_integer()) tensor.index = value->get<int64_t>();
      if (tensor.index >= 0) return;
      problems.bad(to_string(path) + ".producer_output_idx", "expected an index, found {}", json_text(*value));
      tensor.broken = true;
    }
  }

  IrTensor tensor(const Json& object, const Path& path) {
    IrTensor tensor;
    if (!object.is_object()) {
      expected(path, "a tensor object", object);
      tensor.broken = true;
      return tensor;
    }
    tensor.name = text(object, path, "name", tensor.broken);
    tensor.dtype = text(object, path, "dtype", tensor.broken);
    if (const auto dtype = parse_dtype(tensor.dtype)) tensor.type.dtype = *dtype, tensor.known_dtype = true;
    if (const Json* list = member(object, path, "shape"))
      shape(*list, Path{&path, "shape"}, tensor);
    else
      tensor.broken = true;
    producer(object, path, tensor);
    return tensor;
  }

  std::vector<IrTensor> tensors(const Json& object, const Path& parent, std::string_view key) {
    std::vector<IrTensor> list;
    const Json* value = member(object, parent, key);
    if (!value) return list;
    const Path path{&parent, key};
    if (!value->is_array()) {
      expected(path, "a list of tensors", *value);
      return list;
    }
    list.reserve(value->size());
    for (const Json& item : *value) list.push_back(tensor(item, Path{&path, {}, static_cast<int64_t>(list.size())}));
    return list;
  }

  IrNode node(const Json& object, const Path& path) {
    IrNode node;
    if (!object.is_object()) {
      expected(path, "a node object", object);
      node.broken = true;
      return node;
    }
    node.name = text(object, path, "name", node.broken);
    node.op_type = text(object, path, "op_type", node.broken);
    node.inputs = tensors(object, path, "inputs");
    node.outputs = tensors(object, path, "outputs");
    if (const Json* attrs = member(object, path, "attrs", false); attrs && !attrs->is_null()) {
      if (attrs->is_object())
        node.attrs = attrs;
      else
        expected(Path{&path, "attrs"}, "an object", *attrs), node.broken = true;
    }
    return node;
  }

  void nodes(IrDocument& document) {
    const Path top;
    const Json* list = member(document.root, top, "nodes");
    const Path path{nullptr, "nodes"};
    if (!list) return;
    if (!list->is_array()) return expected(path, "a list of nodes", *list);
    document.nodes.reserve(list->size());
    for (const Json& item : *list)
      document.nodes.push_back(node(item, Path{&path, {}, static_cast<int64_t>(document.nodes.size())}));
  }

  void weight_names(IrDocument& document) {
    const Json* map = member(document.root, {}, "weight_name_mapping", false);
    if (!map || map->is_null()) return;
    const Path path{nullptr, "weight_name_mapping"};
    if (!map->is_object()) return expected(path, "an object", *map);
    for (const auto& [placeholder, name] : map->items()) {
      const std::string* text = name.is_string() ? &name.get_ref<const std::string&>() : nullptr;
      if (!text || text->empty())
        expected(Path{&path, placeholder}, "a name", name);
      else if (text->size() > most_name_bytes)
        problems.bad(to_string(path), "expected a name, found {}", too_long(*text));
      else
        document.weight_names.emplace(placeholder, *text);
    }
  }

  // Which outputs are the next values of which inputs: of the same type.
  void states(IrDocument& document) {
    const Json* map = member(document.root, {}, "states", false);
    if (!map || map->is_null()) return;
    const Path path{nullptr, "states"};
    if (!map->is_object()) return expected(path, "an object", *map);
    const auto is_broken = [](const IrTensor& tensor) { return tensor.broken; };
    for (const auto* side : {&document.inputs, &document.outputs})
      if (std::any_of(side->begin(), side->end(), is_broken)) return;
    const auto by_name = [](const std::vector<IrTensor>& tensors) {
      std::unordered_map<std::string_view, int> found;
      for (size_t i = 0; i < tensors.size(); ++i) found.emplace(tensors[i].name, static_cast<int>(i));
      return found;
    };
    const auto inputs = by_name(document.inputs), outputs = by_name(document.outputs);
    std::unordered_set<int> taken;
    for (const auto& [name, value] : map->items()) {
      const Path at{&path, name};
      if (name.size() > most_name_bytes) {
        problems.bad(to_string(path), "expected a name, found {}", too_long(name));
      } else if (!value.is_string()) {
        expected(at, "an output's name", value);
      } else if (const auto& next = value.get_ref<const std::string&>(); next.size() > most_name_bytes) {
        problems.bad(to_string(at), "expected an output's name, found {}", too_long(next));
      } else if (const auto input = inputs.find(name); input == inputs.end()) {
        problems.bad(to_string(at), "expected an input of the graph ({})", names_of(document.inputs));
      } else if (const auto output = outputs.find(next); output == outputs.end()) {
        problems.bad(to_string(at), "expected an output of the graph ({}), found '{}'", names_of(document.outputs),
                     next);
      } else if (const IrTensor& one = document.inputs[static_cast<size_t>(input->second)],
                 &to = document.outputs[static_cast<size_t>(output->second)];
                 one.dtype != to.dtype || one.type.shape != to.type.shape) {
        problems.bad(to_string(at), "expected an output of the input's type, found '{}' of {}{} and '{}' of {}{}",
                     one.name, one.dtype, npusim::to_string(one.type.shape), to.name, to.dtype,
                     npusim::to_string(to.type.shape));
      } else if (!taken.insert(output->second).second) {
        problems.bad(to_string(at), "expected an output of its own, '{}' is another input's next value", next);
      } else {
        document.states.emplace_back(input->second, output->second);
      }
    }
  }

  // Which states are given the memory of which buffers. A buffer is an input, or a weight.
  void aliases(IrDocument& document) {
    const Json* map = member(document.root, {}, "aliases", false);
    if (!map || map->is_null()) return;
    const Path path{nullptr, "aliases"};
    if (!map->is_object()) return expected(path, "an object", *map);
    std::unordered_set<std::string_view> states;
    for (const auto& [input, output] : document.states) states.insert(document.inputs[static_cast<size_t>(input)].name);
    for (const auto& [name, value] : map->items()) {
      const Path at{&path, name};
      if (name.size() > most_name_bytes)
        problems.bad(to_string(path), "expected a name, found {}", too_long(name));
      else if (!value.is_string())
        expected(at, "a buffer's name", value);
      else if (const auto& of = value.get_ref<const std::string&>(); of.size() > most_name_bytes)
        problems.bad(to_string(at), "expected a buffer's name, found {}", too_long(of));
      else if (!states.contains(name))
        problems.bad(to_string(at), "expected one of the graph's states");
      else
        document.aliases.emplace_back(name, of);
    }
  }

  static std::string names_of(const std::vector<IrTensor>& tensors) {
    constexpr size_t most = 8;
    std::string names;
    for (size_t i = 0; i < std::min(tensors.size(), most); ++i) names.append(i ? ", " : "").append(tensors[i].name);
    return tensors.empty() ? "it has none" : tensors.size() > most ? names + ", …" : names;
  }

  void constants(IrDocument& document) {
    const Json* map = member(document.root, {}, "constants", false);
    if (!map || map->is_null()) return;
    const Path path{nullptr, "constants"};
    if (!map->is_object()) return expected(path, "an object", *map);
    for (const auto& [name, value] : map->items()) {
      const Path at{&path, name};
      if (name.size() > most_name_bytes) {
        problems.bad(to_string(path), "expected a name, found {}", too_long(name));
        continue;
      }
      if (!value.is_object()) {
        expected(at, "an object with data and dtype", value);
        continue;
      }
      bool broken = false;
      IrConstant constant{member(value, at, "data"), text(value, at, "dtype", broken)};
      if (constant.data && !broken) document.constants.emplace(name, constant);
    }
  }
};

Json parse(std::string_view text, const std::string& where) {
  std::string storage;
  return parse_json(quote_words(text, storage), where);
}

}  // namespace

Json parse_ir(std::string_view text, const std::string& where) {
  refuse_other_kinds(text, FileKind::ir, where);
  return parse(text, where);
}

IrDocument read_document(std::string_view json, Problems& problems) {
  IrDocument document;
  document.root = parse_ir(json, problems.where);
  if (!document.root.is_object())
    fail(ErrorKind::bad_input, "{}: expected a JSON object with nodes, found {}", problems.where,
         document.root.type_name());
  Reader reader{problems};
  if (const Json* name = reader.member(document.root, {}, "model_name", false); name && name->is_string()) {
    if (const auto& text = name->get_ref<const std::string&>(); text.size() > most_name_bytes)
      problems.bad("model_name", "expected a name, found {}", too_long(text));
    else if (!text.empty())
      document.model_name = text;
  }
  document.inputs = reader.tensors(document.root, {}, "graph_inputs");
  document.outputs = reader.tensors(document.root, {}, "graph_outputs");
  document.weights = reader.tensors(document.root, {}, "weights");
  reader.weight_names(document);
  reader.nodes(document);
  reader.constants(document);
  reader.states(document);
  reader.aliases(document);
  return document;
}

}  // namespace npusim
