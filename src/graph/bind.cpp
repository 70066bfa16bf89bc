// The extractor leaves out None operands and flattens lists: this puts every tensor back to its argument.
#include "graph/bind.h"

#include <algorithm>
#include <bit>

#include "base/json.h"
#include "graph/attrs.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

// One Tensor or Tensor[] argument while binding.
struct Slot {
  const SchemaArg* arg = nullptr;
  size_t position = 0;          // among the schema's arguments
  bool from_attrs = false;      // given in attrs: takes none of the node's tensors
  std::vector<int32_t> values;  // when from attrs
  int count = 0;                // list: tensors it takes
  std::vector<bool> none_mask;  // list: true where an element is None
  bool required() const { return !from_attrs && arg->kind == ArgKind::tensor && !arg->optional; }
  bool optional() const { return !from_attrs && arg->kind == ArgKind::tensor && arg->optional; }
  bool open_list() const { return !from_attrs && arg->kind == ArgKind::tensor_list; }
};

const Json* find_attr(const IrNode& node, std::string_view name) {
  if (!node.attrs) return nullptr;
  const auto it = node.attrs->find(name);
  return it == node.attrs->end() ? nullptr : &*it;
}

// "layers.0.norm.running_mean" -> "running_mean"
std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// How strongly a tensor's name and kind speak for (or against) it being the argument.
int evidence(const BoundTensor& tensor, const SchemaArg& arg) {
  const std::string_view name = leaf(tensor.name);
  static constexpr std::pair<std::string_view, std::string_view> synonyms[] = {
      {"gamma", "weight"}, {"scale", "weight"}, {"w", "weight"},          {"beta", "bias"},
      {"shift", "bias"},   {"b", "bias"},       {"mean", "running_mean"}, {"var", "running_var"}};
  int score = 0;
  if (name == arg.name)
    score = 8;
  else if (name.ends_with(arg.name) || name.starts_with(arg.name))
    score = 6;
  else
    for (const auto& [word, meaning] : synonyms)
      if (name == word && arg.name == meaning) score = 4;
  // torch.diff: eager code puts a first element before far more often than a last one behind, and nothing in the file
  // tells them apart.
  if (arg.name == "prepend") score += 1;
  const bool statistic = arg.name.starts_with("running_");
  if (tensor.is_buffer) score += statistic ? 1 : -1;
  if (tensor.is_parameter) score += statistic ? -1 : 1;
  return score;
}

// In inference batch_norm reads its statistics: then they are not optional.
bool needs_statistics(const Schema& schema, const IrNode& node, const SchemaArg& arg) {
  if (!arg.name.starts_with("running_") || schema.find("training") < 0) return false;
  const Json* training = find_attr(node, "training");
  return training && training->is_boolean() && !training->get<bool>();
}

struct Binder {
  const Schema& schema;
  const IrNode& node;
  std::span<const BoundTensor> tensors;
  const std::function<BoundTensor(std::string_view)>& named;
  const std::function<bool(const Binding&)>& fits;
  std::vector<Slot> slots;
  std::vector<Attr> attrs;

  // Attributes, and operands that stand in attrs: a number, or the name of a tensor passed by keyword.
  void read_attrs() {
    attrs.resize(schema.args.size());
    for (size_t i = 0; i < schema.args.size(); ++i) {
      const SchemaArg& arg = schema.args[i];
      const Json* value = find_attr(node, arg.name);
      try {
        if (is_operand(arg))
          slots.push_back(operand(arg, i, value));
        else if (value)
          attrs[i] = read_attr(*value, arg);
        else if (arg.has_default || arg.optional || arg.kind == ArgKind::ignored)
          attrs[i] = default_attr(arg);
        else
          fail(ErrorKind::bad_input, "missing");
      } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("attribute '{}': {}", arg.name, error.what()));
      }
    }
    if (!node.attrs) return;
    for (const auto& [name, value] : node.attrs->items())
      if (schema.find(name) < 0 && name != "_tensor_list_sizes" && name != "_tensor_list_none_masks")
        fail(ErrorKind::bad_input, "attribute '{}' is no argument of the op", name);
  }

  Slot operand(const SchemaArg& arg, size_t position, const Json* value) {
    Slot slot;
    slot.arg = &arg;
    slot.position = position;
    if (!value) return slot;
    slot.from_attrs = true;
    auto element = [&](const Json& item) {
      if (item.is_null()) return -1;
      if (!item.is_string()) fail(ErrorKind::bad_input, "expected tensors, found {}", item.type_name());
      return named(item.get_ref<const std::string&>()).value;
    };
    if (arg.kind == ArgKind::tensor_list) {
      if (value->is_array())
        for (const Json& item : *value) slot.values.push_back(element(item));
      else if (!value->is_null() || !arg.optional)
        fail(ErrorKind::bad_input, "expected a list of tensors, found {}", value->type_name());
      slot.count = static_cast<int>(slot.values.size());
    } else if (value->is_string() && !is_special_number(value->get_ref<const std::string&>())) {
      slot.values.push_back(element(*value));
    } else {
      attrs[position] = read_attr(*value, arg);
      slot.values.push_back(-1);
    }
    return slot;
  }

  std::vector<int> list_sizes() const {
    std::vector<int> sizes;
    const Json* value = find_attr(node, "_tensor_list_sizes");
    if (!value) return sizes;
    if (!value->is_array()) fail(ErrorKind::bad_input, "_tensor_list_sizes: expected a list of integers");
    for (const Json& size : *value) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > tensors.size())
        fail(ErrorKind::bad_input, "_tensor_list_sizes: expected counts of at most {} tensors, found {}",
             tensors.size(), json_text(size));
      sizes.push_back(size.get<int>());
    }
    return sizes;
  }

  // Gives every open list its count: as the file says, or all that no other argument needs.
  void size_lists() {
    std::vector<Slot*> open;
    size_t lists = 0;
    int others = 0;
    for (Slot& slot : slots) {
      lists += slot.arg->kind == ArgKind::tensor_list;
      others += slot.required();
      if (slot.open_list()) open.push_back(&slot);
    }
    const std::vector<int> sizes = list_sizes();
    if (sizes.size() == open.size()) {
      for (size_t i = 0; i < open.size(); ++i) open[i]->count = sizes[i];
    } else if (sizes.size() == lists) {
      size_t list = 0;
      for (Slot& slot : slots)
        if (slot.arg->kind == ArgKind::tensor_list) slot.count = slot.from_attrs ? slot.count : sizes[list], ++list;
    } else if (sizes.empty() && open.size() == 1) {
      open[0]->count = std::max(0, static_cast<int>(tensors.size()) - others);
    } else {
      fail(ErrorKind::bad_input, "_tensor_list_sizes: expected {} sizes, found {}", open.size(), sizes.size());
    }
    mask_lists(open);
  }

  // Each mask belongs to the next list whose count of tensors it has.
  void mask_lists(const std::vector<Slot*>& open) const {
    const Json* masks = find_attr(node, "_tensor_list_none_masks");
    if (!masks) return;
    if (!masks->is_array()) fail(ErrorKind::bad_input, "_tensor_list_none_masks: expected a list of lists");
    size_t next = 0;
    for (const Json& mask : *masks) {
      std::vector<bool> none;
      if (mask.is_array())
        for (const Json& flag : mask)
          if (flag.is_boolean()) none.push_back(flag.get<bool>());
      if (!mask.is_array() || none.size() != mask.size())
        fail(ErrorKind::bad_input, "_tensor_list_none_masks: expected lists of true and false, found {}",
             json_text(mask));
      const auto present = static_cast<int>(std::count(none.begin(), none.end(), false));
      const size_t left = masks->size() - static_cast<size_t>(&mask - &masks->front());
      std::vector<size_t> candidates;
      for (size_t i = next; i < open.size(); ++i)
        if (open[i]->count == present) candidates.push_back(i);
      if (candidates.empty())
        fail(ErrorKind::bad_input, "_tensor_list_none_masks: {} holds {} tensors, no list does", json_text(mask),
             present);
      if (candidates.size() > left)
        fail(ErrorKind::unsupported, "_tensor_list_none_masks: {} fits more than one list", json_text(mask));
      open[candidates[0]]->none_mask = std::move(none);
      next = candidates[0] + 1;
    }
  }

  // The binding in which the optional slots of `present` (bits, in order) have a tensor.
  Binding binding(uint32_t present) const {
    Binding result;
    result.attrs = attrs;
    size_t next = 0;
    int nth_optional = 0;
    for (const Slot& slot : slots) {
      if (slot.arg->kind == ArgKind::tensor_list)
        append_list(slot, next, result);
      else if (slot.from_attrs)
        result.inputs.push_back(slot.values[0]);
      else if (slot.optional() && !(present >> nth_optional++ & 1))
        result.inputs.push_back(-1);
      else
        result.inputs.push_back(tensors[next++].value);
    }
    return result;
  }

  void append_list(const Slot& slot, size_t& next, Binding& result) const {
    const size_t before = result.inputs.size();
    if (slot.from_attrs) {
      result.inputs.insert(result.inputs.end(), slot.values.begin(), slot.values.end());
    } else if (!slot.none_mask.empty()) {
      for (bool none : slot.none_mask) result.inputs.push_back(none ? -1 : tensors[next++].value);
    } else {
      for (int i = 0; i < slot.count; ++i) result.inputs.push_back(tensors[next++].value);
    }
    result.list_sizes.push_back(static_cast<int>(result.inputs.size() - before));
  }

  // What names and kinds say for `present`; negative infinity (-1000) where a statistic inference needs is absent.
  int score(uint32_t present) const {
    int total = 0, nth_optional = 0;
    size_t next = 0;
    for (const Slot& slot : slots) {
      if (slot.from_attrs) continue;
      if (slot.arg->kind == ArgKind::tensor_list)
        next += static_cast<size_t>(slot.count);
      else if (slot.required())
        ++next;
      else if (present >> nth_optional++ & 1)
        total += evidence(tensors[next++], *slot.arg);
      else if (needs_statistics(schema, node, *slot.arg))
        total -= 1000;
    }
    return total;
  }

  // Chooses which optional operands the remaining tensors are; the count alone decides when it is none or all.
  Binding choose() const {
    int fixed = 0, optional = 0;
    for (const Slot& slot : slots) {
      fixed += slot.required() + (slot.open_list() ? slot.count : 0);
      optional += slot.optional();
    }
    const int remaining = static_cast<int>(tensors.size()) - fixed;
    if (remaining < 0 || remaining > optional) {
      const std::string most = optional ? fmt::format(" to {}", fixed + optional) : "";
      fail(ErrorKind::bad_input, "expected {}{} tensors, found {}", fixed, most, tensors.size());
    }
    if (remaining == 0) return binding(0);
    if (remaining == optional) return binding(~0u);
    if (optional > 16) fail(ErrorKind::unsupported, "too many optional operands to tell them apart");
    return choose(remaining, optional);
  }

  Binding choose(int remaining, int optional) const {
    int best = INT_MIN;
    std::vector<uint32_t> winners;
    for (uint32_t present = 0; present < 1u << optional; ++present) {
      if (std::popcount(present) != remaining) continue;
      const int points = score(present);
      if (points < best || !fits(binding(present))) continue;
      if (points > best) winners.clear();
      best = points;
      winners.push_back(present);
    }
    if (winners.size() == 1) return binding(winners[0]);
    std::string names;
    for (const Slot& slot : slots)
      if (slot.optional()) names += (names.empty() ? "" : ", ") + slot.arg->name;
    if (winners.empty()) fail(ErrorKind::bad_input, "the {} optional tensors fit none of {}", remaining, names);
    fail(ErrorKind::unsupported, "cannot tell which of {} the {} optional tensors are", names, remaining);
  }
};

}  // namespace

Binding bind_arguments(const Schema& schema, const IrNode& node, std::span<const BoundTensor> tensors,
                       const std::function<BoundTensor(std::string_view)>& named,
                       const std::function<bool(const Binding&)>& fits) {
  Binder binder{schema, node, tensors, named, fits, {}, {}};
  binder.read_attrs();
  binder.size_lists();
  return binder.choose();
}

}  // namespace npusim
