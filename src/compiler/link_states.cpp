// KV mappings: the side file of the extractor, or pairing by shape and order.
#include "compiler/link_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace npusim {
namespace {

const TensorSpec* find_spec(const std::vector<TensorSpec>& specs, const std::string& name) {
  for (const TensorSpec& spec : specs)
    if (spec.name == name) return &spec;
  return nullptr;
}

bool is_state(const Program& program, const TensorSpec& spec) {
  return program.buffers[static_cast<size_t>(spec.buffer)].kind == BufferKind::state;
}

// A prefill's cache fits a state when they differ in one dimension at most, in which the state is larger.
bool fits(const TensorSpec& from, const TensorSpec& to) {
  if (from.type.dtype != to.type.dtype || from.type.shape.size() != to.type.shape.size()) return false;
  int differing = 0;
  for (size_t d = 0; d < from.type.shape.size(); ++d) {
    if (from.type.shape[d] == to.type.shape[d]) continue;
    if (from.type.shape[d] > to.type.shape[d] || ++differing > 1) return false;
  }
  return true;
}

void link_by_file(Program& program, const Method& prefill, const Method& decode, const JsonSource& source) {
  const std::string path = source.path.empty() ? "KV mapping" : source.path;
  const auto json = source.json.empty() ? read_json_object(path) : parse_json_object(source.json, path);
  if (!json.contains("layers") || !json["layers"].is_array())
    fail(ErrorKind::bad_input, "{}: expected an object with a list of layers", path);
  for (size_t i = 0; i < json["layers"].size(); ++i) {
    const auto& layer = json["layers"][i];
    for (const char* which : {"key", "value"}) {
      auto name_of = [&](const std::string& key) {
        if (!layer.is_object() || !layer.contains(key) || !layer[key].is_string())
          fail(ErrorKind::bad_input, "{}: layers[{}].{} must be a string", path, i, key);
        return layer[key].get<std::string>();
      };
      const std::string from = name_of(fmt::format("prefill_{}_output", which)),
                        to = name_of(fmt::format("decode_{}_input", which));
      const TensorSpec* source = find_spec(prefill.outputs, from);
      const TensorSpec* target = find_spec(decode.inputs, to);
      if (!source) fail(ErrorKind::bad_input, "{}: layers[{}]: {} has no output {}", path, i, prefill.name, from);
      if (!target) fail(ErrorKind::bad_input, "{}: layers[{}]: {} has no input {}", path, i, decode.name, to);
      if (!fits(*source, *target))
        fail(ErrorKind::bad_input, "{}: layers[{}]: {} {} does not fit {} {}", path, i, from, to_string(source->type),
             to, to_string(target->type));
      program.links.push_back({prefill.name, from, decode.name, to});
    }
  }
}

void link_by_order(Program& program, const Method& prefill, const Method& decode, std::vector<std::string>& notes) {
  std::vector<const TensorSpec*> states, caches;
  for (const TensorSpec& spec : decode.inputs)
    if (is_state(program, spec)) states.push_back(&spec);
  if (states.empty()) return;
  for (const TensorSpec& spec : prefill.outputs)
    if (std::any_of(states.begin(), states.end(), [&](const TensorSpec* s) { return fits(spec, *s); }))
      caches.push_back(&spec);
  if (caches.size() != states.size())
    fail(ErrorKind::bad_input, "{} has {} states, {} has {} outputs that fit them: give --kv-map", decode.name,
         states.size(), prefill.name, caches.size());
  for (size_t i = 0; i < states.size(); ++i) {
    if (!fits(*caches[i], *states[i]))
      fail(ErrorKind::bad_input, "{} {} does not fit {} {}: give --kv-map", prefill.name, caches[i]->name, decode.name,
           states[i]->name);
    program.links.push_back({prefill.name, caches[i]->name, decode.name, states[i]->name});
  }
  notes.push_back(fmt::format("paired {} outputs of {} with the states of {} by shape and order", states.size(),
                              prefill.name, decode.name));
}

}  // namespace

void link_states(Program& program, const JsonSource& kv_map, std::vector<std::string>& notes) {
  if (program.methods.size() < 2) {
    if (kv_map.given()) fail(ErrorKind::usage, "--kv-map needs two methods");
    return;
  }
  auto has_states = [&](const Method& m) {
    return std::any_of(m.inputs.begin(), m.inputs.end(), [&](const TensorSpec& s) { return is_state(program, s); });
  };
  const auto decode = std::find_if(program.methods.begin(), program.methods.end(), has_states);
  const auto prefill = std::find_if_not(program.methods.begin(), program.methods.end(), has_states);
  if (decode == program.methods.end() || prefill == program.methods.end()) {
    if (kv_map.given()) fail(ErrorKind::bad_input, "--kv-map: no method has states to fill, or every method has");
    return;
  }
  if (!kv_map.given())
    link_by_order(program, *prefill, *decode, notes);
  else
    link_by_file(program, *prefill, *decode, kv_map);
}

}  // namespace npusim
