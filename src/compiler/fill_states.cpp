// KV mappings: the side file of the extractor, or pairing by shape and order.
#include "compiler/fill_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "compiler/roles.h"
#include "kernel/builder.h"
#include "passes/states.h"

namespace npusim {
namespace {

constexpr size_t nothing = SIZE_MAX;

// An output of a prefill and the input of decode that it fills.
struct Pair {
  size_t output, input;
};

// One entry of a KV mapping.
struct Entry {
  size_t layer = 0;
  std::string output, input;
  std::optional<std::string> updated;  // decode's output that is the input's next value, where the mapping says it
};

// A KV mapping as its file has it.
struct Mapping {
  std::vector<Entry> entries;
  std::optional<int64_t> filled, longest;  // positions: those that the prefill fills, and those of a state
};

const std::string& input_name(const MethodGraph& decode, size_t input) {
  return value_of(decode.graph, decode.graph.inputs[input]).name;
}
const TensorType& input_type(const MethodGraph& decode, size_t input) {
  return value_of(decode.graph, decode.graph.inputs[input]).type;
}
TensorType output_type(const MethodGraph& prefill, size_t output) {
  const GraphOutput& o = prefill.graph.outputs[output];
  return {value_of(prefill.graph, o.value).type.dtype, o.shape};
}

// The first of each name.
using Names = std::unordered_map<std::string_view, size_t>;

Names output_names(const MethodGraph& method) {
  Names names;
  for (size_t i = 0; i < method.graph.outputs.size(); ++i) names.try_emplace(method.graph.outputs[i].name, i);
  return names;
}

size_t find(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? nothing : found->second;
}

// A prefill's cache fits a state when they differ in one dimension at most, in which the state is larger.
bool fits(const TensorType& from, const TensorType& to) {
  if (from.dtype != to.dtype || from.shape.size() != to.shape.size()) return false;
  int differing = 0;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (from.shape[d] == to.shape[d]) continue;
    if (from.shape[d] > to.shape[d] || ++differing > 1) return false;
  }
  return true;
}

std::vector<size_t> states_of(const MethodGraph& method) {
  std::vector<size_t> states;
  const std::vector<int> updates = updates_of_inputs(method.graph);
  for (size_t i = 0; i < updates.size(); ++i)
    if (updates[i] >= 0 && !value_of(method.graph, method.graph.inputs[i]).generator) states.push_back(i);
  return states;
}

// The types of decode's states, each once: those of all layers are few.
std::vector<TensorType> state_types(const MethodGraph& decode) {
  std::vector<TensorType> types;
  std::set<std::string> known;
  for (const size_t s : states_of(decode))
    if (const TensorType& type = input_type(decode, s); known.insert(to_string(type)).second) types.push_back(type);
  return types;
}

bool fits_any(const TensorType& from, const std::vector<TensorType>& types) {
  return std::any_of(types.begin(), types.end(), [&](const TensorType& to) { return fits(from, to); });
}

// Numbers that only say what the graphs say too: still no others than there could be.
void check_number(const nlohmann::ordered_json& object, const char* key, int64_t least, int64_t most,
                  const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  const bool whole = found->is_number_integer() && !(found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX);
  if (!whole || found->get<int64_t>() < least || found->get<int64_t>() > most)
    fail(ErrorKind::bad_input, "{}: {} is {}: expected a number from {} to {}", where, key, json_text(*found), least,
         most);
}

Mapping read_mapping(const JsonSource& source, const std::string& path) {
  const auto json = source.json.empty() ? read_json_object(path) : parse_json_object(source.json, path);
  if (!json.contains("layers") || !json["layers"].is_array())
    fail(ErrorKind::bad_input, "{}: expected an object with a list of layers", path);
  refuse_unknown_keys(json, {"num_layers", "prefill_seq_len", "max_cache_len", "layers"}, path);
  if (const auto count = json.find("num_layers"); count != json.end() && *count != json["layers"].size())
    fail(ErrorKind::bad_input, "{}: num_layers is {}, but there are {} layers", path, json_text(*count),
         json["layers"].size());
  Mapping mapping;
  const auto length = [&](const char* key, std::optional<int64_t>& found) {
    check_number(json, key, 1, INT32_MAX, path);
    if (json.contains(key)) found = json[key].get<int64_t>();
  };
  length("prefill_seq_len", mapping.filled), length("max_cache_len", mapping.longest);
  std::vector<Entry>& entries = mapping.entries;
  std::set<int64_t> layers;
  std::unordered_map<std::string, size_t> outputs, inputs;  // to the entry that names them
  for (size_t i = 0; i < json["layers"].size(); ++i) {
    const auto& layer = json["layers"][i];
    if (layer.is_object())
      refuse_unknown_keys(layer,
                          {"layer", "prefill_key_output", "prefill_value_output", "decode_key_input",
                           "decode_value_input", "decode_key_output", "decode_value_output"},
                          fmt::format("{}: layers[{}]", path, i));
    if (layer.is_object() && layer.contains("layer")) {
      const std::string where = fmt::format("{}: layers[{}]", path, i);
      check_number(layer, "layer", 0, static_cast<int64_t>(json["layers"].size()) - 1, where);
      if (!layers.insert(layer["layer"].get<int64_t>()).second)
        fail(ErrorKind::bad_input, "{}: layer {} after another one of this number", where, json_text(layer["layer"]));
    }
    for (const char* which : {"key", "value"}) {
      auto name_of = [&](const std::string& key) {
        if (!layer.is_object() || !layer.contains(key) || !layer[key].is_string())
          fail(ErrorKind::bad_input, "{}: layers[{}].{} must be a string", path, i, key);
        return layer[key].get<std::string>();
      };
      Entry entry{
          i, name_of(fmt::format("prefill_{}_output", which)), name_of(fmt::format("decode_{}_input", which)), {}};
      if (const auto next = fmt::format("decode_{}_output", which); layer.contains(next)) entry.updated = name_of(next);
      const auto output = outputs.try_emplace(entry.output, entries.size());
      const auto input = inputs.try_emplace(entry.input, entries.size());
      if (!output.second || !input.second) {
        const Entry& other = entries[output.second ? input.first->second : output.first->second];
        fail(ErrorKind::bad_input, "{}: layers[{}]: {} -> {} after {} -> {}: expected each once", path, i, entry.output,
             entry.input, other.output, other.input);
      }
      entries.push_back(std::move(entry));
    }
  }
  return mapping;
}

// What the mapping says of lengths is what the cache and the state have where they differ; "" if so.
std::string length_problem(const Mapping& mapping, const TensorType& from, const TensorType& to) {
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (from.shape[d] == to.shape[d]) continue;
    if (mapping.filled.value_or(from.shape[d]) != from.shape[d])
      return fmt::format("prefill_seq_len is {}, the output has {} positions", *mapping.filled, from.shape[d]);
    if (mapping.longest.value_or(to.shape[d]) != to.shape[d])
      return fmt::format("max_cache_len is {}, the state has {} positions", *mapping.longest, to.shape[d]);
  }
  return "";
}

// Whether a mapping is about this method's states, by the first of them.
bool has_states_of(const MethodGraph& method, const Mapping& mapping) {
  const std::vector<size_t> states = states_of(method);
  return mapping.entries.empty() || std::any_of(states.begin(), states.end(), [&](size_t state) {
           return input_name(method, state) == mapping.entries[0].input;
         });
}

std::vector<Pair> pair_by_mapping(const MethodGraph& prefill, const MethodGraph& decode, const Mapping& mapping,
                                  const std::string& path) {
  const Names outputs = output_names(prefill);
  const std::vector<int> updates = updates_of_inputs(decode.graph);
  Names states;
  for (const size_t i : states_of(decode)) states.try_emplace(input_name(decode, i), i);
  std::vector<Pair> pairs;
  for (const Entry& entry : mapping.entries) {
    const auto wrong = [&](const std::string& problem) {
      fail(ErrorKind::bad_input, "{}: layers[{}]: {}", path, entry.layer, problem);
    };
    const size_t output = find(outputs, entry.output), input = find(states, entry.input);
    if (output == nothing) wrong(fmt::format("{} has no output {}", prefill.name, entry.output));
    if (input == nothing) wrong(fmt::format("{} has no input {} that it updates", decode.name, entry.input));
    const TensorType from = output_type(prefill, output), to = input_type(decode, input);
    if (!fits(from, to))
      wrong(fmt::format("{} {} does not fit {} {}", entry.output, to_string(from), entry.input, to_string(to)));
    if (const std::string problem = length_problem(mapping, from, to); !problem.empty())
      wrong(fmt::format("{} -> {}: {}", entry.output, entry.input, problem));
    const int update = updates[input];
    if (entry.updated && decode.graph.outputs[static_cast<size_t>(update)].name != *entry.updated)
      wrong(fmt::format("{} of {} is updated by {}, not by {}", entry.input, decode.name,
                        decode.graph.outputs[static_cast<size_t>(update)].name, json_quoted(*entry.updated)));
    pairs.push_back({output, input});
    states.erase(entry.input);
  }
  if (!states.empty())
    fail(ErrorKind::bad_input, "{}: no layer fills {}, which {} updates", path, states.begin()->first, decode.name);
  return pairs;
}

std::vector<Pair> pair_by_order(const MethodGraph& prefill, const MethodGraph& decode) {
  const std::vector<size_t> states = states_of(decode);
  const std::vector<TensorType> types = state_types(decode);
  std::vector<Pair> pairs;
  size_t caches = 0;
  for (size_t o = 0; o < prefill.graph.outputs.size(); ++o) {
    const TensorType from = output_type(prefill, o);
    if (!fits_any(from, types)) continue;
    if (caches < states.size()) pairs.push_back({o, states[caches]});
    ++caches;
  }
  if (caches != states.size())
    fail(ErrorKind::bad_input, "{} has {} states, {} has {} outputs that fit them: give --kv-map", decode.name,
         states.size(), prefill.name, caches);
  for (const auto& [output, input] : pairs)
    if (!fits(output_type(prefill, output), input_type(decode, input)))
      fail(ErrorKind::bad_input, "{} {} does not fit {} {}: give --kv-map", prefill.name,
           prefill.graph.outputs[output].name, decode.name, input_name(decode, input));
  return pairs;
}

std::vector<Coord> indices(KernelBuilder& k, const Shape& shape) {
  std::vector<Coord> at;
  for (size_t d = 0; d < shape.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
  return at;
}

Kernel filled_kernel(const TensorType& rows, const TensorType& state) {
  KernelBuilder k(rows.shape);
  const Ex x = k.load(k.input(state), indices(k, rows.shape));
  k.store(k.output(rows), indices(k, rows.shape), x);
  return k.finish("filled");
}

// The outputs become states of the names and types of decode's, with the outputs' values in their first positions.
void fill(MethodGraph& prefill, const std::vector<Pair>& pairs, const MethodGraph& decode) {
  Graph& graph = prefill.graph;
  std::vector<Node> added;
  const auto add = [&](const std::string& name, Kernel kernel, std::vector<ValueId> from, ValueId to) {
    Node node;
    node.name = name;
    node.inputs = std::move(from);
    node.outputs = {to};
    node.kernel = std::make_shared<const Kernel>(std::move(kernel));
    added.push_back(std::move(node));
  };
  std::vector<ValueId> seen_as(graph.values.size());  // by value: where its readers find it
  std::iota(seen_as.begin(), seen_as.end(), 0);
  std::vector<std::pair<size_t, ValueId>> filled_outputs;
  for (const auto& [output, input] : pairs) {
    const std::string& name = input_name(decode, input);
    const TensorType rows = output_type(prefill, output), type = input_type(decode, input);
    const std::string& node_name = graph.outputs[output].name;
    ValueId& seen = seen_as[static_cast<size_t>(graph.outputs[output].value)];
    const ValueId value = seen, state = add_value(graph, name, type), filled = add_value(graph, name + "_filled", type);
    value_of(graph, state).source = ValueSource::input;
    graph.inputs.push_back(state);
    prefill.fills.push_back(name);
    // What is computed here need not be stored twice.
    if (value_of(graph, value).source == ValueSource::node) {
      seen = add_value(graph, name + "_rows", value_of(graph, value).type);
      add(node_name, filled_kernel(rows, type), {filled}, seen);
    }
    add(node_name, update_kernel("fill", rows, type), {state, value}, filled);
    filled_outputs.emplace_back(output, filled);
  }
  const auto see = [&](ValueId& v) {
    if (v != no_value) v = seen_as[static_cast<size_t>(v)];
  };
  for (Node& node : graph.nodes) std::for_each(node.inputs.begin(), node.inputs.end(), see);
  for (GraphOutput& o : graph.outputs) see(o.value);
  for (Node& node : added) add_node(graph, std::move(node));
  for (const auto& [output, filled] : filled_outputs) {
    graph.outputs[output].value = filled;
    graph.outputs[output].shape = value_of(graph, filled).type.shape;
  }
  compact(graph, {}, false);
}

}  // namespace

void fill_states(std::vector<MethodGraph>& methods, const JsonSource& kv_map, std::vector<std::string>& notes) {
  if (methods.size() < 2) {
    if (kv_map.given()) fail(ErrorKind::usage, "--kv-map needs two methods");
    return;
  }
  const std::string path = kv_map.path.empty() ? "KV mapping" : kv_map.path;
  Mapping mapping = kv_map.given() ? read_mapping(kv_map, path) : Mapping{};
  const MethodGraph* decode = nullptr;
  std::vector<MethodGraph*> others, prefills;
  for (MethodGraph& method : methods) {
    // Shapes say something of the caches of a text only.
    if (!kv_map.given() && !takes_tokens(method.graph)) continue;
    if (states_of(method).empty())
      others.push_back(&method);
    else if (!decode || (!has_states_of(*decode, mapping) && has_states_of(method, mapping)))
      decode = &method;
  }
  if (!decode || others.empty()) {
    if (kv_map.given()) fail(ErrorKind::bad_input, "--kv-map: no method has states to fill, or every method has");
    return;
  }
  const std::vector<TensorType> types = state_types(*decode);
  // What has no such output is something else.
  for (MethodGraph* method : others) {
    const Names outputs = output_names(*method);
    bool fills = std::any_of(mapping.entries.begin(), mapping.entries.end(),
                             [&](const Entry& entry) { return find(outputs, entry.output) != nothing; });
    for (size_t o = 0; o < method->graph.outputs.size() && !kv_map.given(); ++o)
      fills = fills || fits_any(output_type(*method, o), types);
    if (fills) prefills.push_back(method);
  }
  if (prefills.empty()) prefills.push_back(others[0]);
  if (prefills.size() > 1) mapping.filled.reset();  // it is one number
  for (MethodGraph* prefill : prefills) {
    const std::vector<Pair> pairs =
        kv_map.given() ? pair_by_mapping(*prefill, *decode, mapping, path) : pair_by_order(*prefill, *decode);
    if (!kv_map.given())
      notes.push_back(fmt::format("paired {} outputs of {} with the states of {} by shape and order", pairs.size(),
                                  prefill->name, decode->name));
    fill(*prefill, pairs, *decode);
  }
}

}  // namespace npusim
