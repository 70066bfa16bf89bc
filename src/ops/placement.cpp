// ATen's rules of strides.
#include "ops/placement.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/view.h"

namespace npusim {
namespace {

using Kind = ResultMemory::Kind;

// Channels of images and volumes innermost.
std::optional<Shape> channels_last_strides(const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 5) return std::nullopt;
  Shape strides(shape.size());
  int64_t next = strides[1] = 1;
  next = shape[1];
  for (size_t d = shape.size(); d-- > 2;) {
    strides[d] = next;
    next *= shape[d];
  }
  strides[0] = next;
  return strides;
}

// Equal where there is more than one element to step over.
bool same_order(const Shape& a, const Shape& b, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && a[d] != b[d]) return false;
  return true;
}

bool has_elements(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) == shape.end(); }

// Whether ATen takes an image for one with channels innermost (suggest_memory_format): by its strides, also those of
// extents of 1, which views do not keep here. None where it depends on them.
std::optional<bool> is_channels_last(const Strides& at, const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  if (shape[1] > 1 && at.strides[1] == 0) return false;
  std::vector<size_t> outward{1};
  for (size_t d = shape.size(); d-- > 2;) outward.push_back(d);
  outward.push_back(0);
  int64_t least = 0;
  for (size_t d : outward) {
    if (shape[d] == 0 || (shape[d] > 1 && at.strides[d] < least)) return false;
    if (shape[d] > 1) least = at.strides[d] * shape[d];
  }
  if (std::find(shape.begin(), shape.end(), 1) != shape.end()) return std::nullopt;
  return true;
}

// The dimensions from innermost to outermost as TensorIterator sorts them: by the first operand that tells two of them
// apart (a stride of 0 tells nothing), the smaller of equal strides by extent; ambiguous ones stay in order. The sort
// is an insertion that stops at the first smaller one, which the result depends on.
std::vector<size_t> iteration_order(const Shape& shape, const std::vector<Shape>& operands) {
  std::vector<size_t> order(shape.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  const auto compare = [&](size_t a, size_t b) {
    for (const Shape& strides : operands) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t at = i, k = i; k-- > 0;) {
      const int found = compare(order[k], order[at]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[k], order[at]);
      at = k;
    }
  return order;
}

Shape strides_in_order(const Shape& shape, const std::vector<size_t>& order) {
  Shape strides(shape.size());
  int64_t next = 1;
  for (size_t d : order) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

// empty_like(preserve_format): the operand's strides where it is dense, else dense ones in their order.
Shape preserved_strides(const Shape& shape, const Strides& at) {
  if (is_dense(at, shape)) return at.strides;
  return strides_in_order(shape, iteration_order(shape, {at.strides}));
}

// TensorIterator's result: what all operands agree on, or dense in the order of their strides.
Shape iterated_strides(const OpCall& call, const Shape& shape, std::span<const Residence* const> operands) {
  std::vector<Shape> strides;
  bool same_shape = true, row_major_all = true, channels_last = true, dense = true;
  const auto last = channels_last_strides(shape);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    const Shape& own = call.inputs[i]->shape;
    const Strides& at = operands[i]->at;
    if (own.size() > shape.size()) continue;
    const size_t lead = shape.size() - own.size();
    Shape broadcast(shape.size(), 0);
    for (size_t d = 0; d < own.size(); ++d)
      broadcast[lead + d] = own[d] == 1 && shape[lead + d] != 1 ? 0 : at.strides[d];
    strides.push_back(std::move(broadcast));
    same_shape = same_shape && own == shape;
    if (!same_shape) continue;
    row_major_all = row_major_all && is_row_major(at, shape);
    channels_last = channels_last && last && same_order(at.strides, *last, shape);
    dense = dense && is_dense(at, shape) && at.strides == strides[0];
  }
  const std::vector<SchemaArg>& args = call.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i)  // a number is a tensor without dimensions
    if (args[i].kind == ArgKind::tensor && !std::holds_alternative<std::monostate>(call.attrs[i]))
      same_shape = same_shape && shape.empty();
  if (strides.empty() || (same_shape && row_major_all)) return row_major_strides(shape);
  if (same_shape && channels_last) return *last;
  if (same_shape && dense) return strides[0];
  return strides_in_order(shape, iteration_order(shape, strides));
}

// The strides of the same elements under another shape; none where they do not follow each other (ATen's
// computeStride).
std::optional<Shape> reshaped_strides(const Shape& from, const Shape& strides, const Shape& to) {
  if (from.empty()) return Shape(to.size(), 1);
  if (!has_elements(from)) return from == to ? strides : row_major_strides(to);
  Shape result(to.size());
  auto next = static_cast<std::ptrdiff_t>(to.size()) - 1;
  int64_t base = strides.back(), count = 1, placed = 1;
  for (size_t d = from.size(); d-- > 0;) {
    count *= from[d];
    const bool ends = d == 0 || (from[d - 1] != 1 && strides[d - 1] != count * base);
    if (!ends) continue;
    for (; next >= 0 && (placed < count || to[static_cast<size_t>(next)] == 1); --next) {
      result[static_cast<size_t>(next)] = placed * base;
      placed *= to[static_cast<size_t>(next)];
    }
    if (placed != count) return std::nullopt;
    if (d == 0) break;
    base = strides[d - 1];
    count = placed = 1;
  }
  if (next >= 0) return std::nullopt;
  return result;
}

Strides mapped_placement(const ViewMap& map, const Strides& from) {
  Strides at{from.offset, Shape(map.shape.size(), 0)};
  std::vector<bool> named(map.shape.size(), false);
  for (size_t d = 0; d < map.from.size(); ++d) {
    at.offset += map.from[d].offset * from.strides[d];
    for (size_t i = 0; i < map.from[d].coeffs.size(); ++i) {
      at.strides[i] += map.from[d].coeffs[i] * from.strides[d];
      named[i] = named[i] || map.from[d].coeffs[i] != 0;
    }
  }
  for (size_t i = map.shape.size(); i-- > 0;)  // a new dimension of 1 encloses the next
    if (!named[i] && map.shape[i] == 1)
      at.strides[i] = i + 1 == map.shape.size() ? 1 : map.shape[i + 1] * at.strides[i + 1];
  return at;
}

// The memory format a call asks for; none where it preserves its operand's.
std::optional<Shape> asked_strides(const OpCall& call, const Shape& shape) {
  const int at = call.op->schema.find("memory_format");
  const Memory memory = call.op->record.memory;
  const bool is_contiguous = memory == Memory::contiguous || memory == Memory::contiguous_raveled;
  std::string format;
  if (at >= 0)
    if (const auto* text = std::get_if<std::string>(&call.attrs[static_cast<size_t>(at)])) format = *text;
  if (format.find("channels_last") != std::string::npos) return channels_last_strides(shape);
  if (is_contiguous || format.find("contiguous_format") != std::string::npos) return row_major_strides(shape);
  return std::nullopt;
}

struct Placer {
  const OpCall& call;
  std::span<const Residence* const> operands;

  Residence own(const Shape& shape, bool known, Shape strides) const {
    // One order is left where there is at most one dimension to step along.
    const bool flat = std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n > 1; }) <= 1;
    if (!known || flat) strides = row_major_strides(shape);
    return {{0, std::move(strides)}, known || flat};
  }

  bool all_known() const {
    return std::all_of(operands.begin(), operands.end(), [](const Residence* r) { return !r || r->known; });
  }
  bool all_row_major() const {
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i] && !(operands[i]->known && is_row_major(operands[i]->at, call.inputs[i]->shape))) return false;
    return true;
  }

  // Whether what is joined to this shape may have channels innermost, which it has where all operands do.
  bool all_may_be_channels_last(const Shape& shape) const {
    if (!channels_last_strides(shape)) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool compares = operands[i] && operands[i]->known && call.inputs[i]->shape.size() == shape.size();
      if (compares && is_channels_last(operands[i]->at, call.inputs[i]->shape) == false) return false;
    }
    return true;
  }

  Residence preserved(const Shape& shape) const {
    if (const auto asked = asked_strides(call, shape)) return own(shape, true, *asked);
    if (operands.empty() || !operands[0] || call.inputs[0]->shape != shape)
      return own(shape, all_row_major(), row_major_strides(shape));
    return own(shape, operands[0]->known, preserved_strides(shape, operands[0]->at));
  }

  // Where nothing is added, a clone of what is left.
  Residence padded(const Shape& shape) const {
    const int mode = call.op->schema.find("mode");
    if (mode >= 0) {
      const Attr& asked = call.attrs[static_cast<size_t>(mode)];
      const auto* name = std::get_if<std::string>(&asked);
      const auto* number = std::get_if<int64_t>(&asked);
      if (!(name && *name == "constant") && !(number && *number == 3))
        return own(shape, all_row_major(), row_major_strides(shape));
    }
    const auto [at, known] = *operands[0];
    const std::vector<int64_t> added = call.ints("pad");
    if (std::none_of(added.begin(), added.end(), [](int64_t n) { return n > 0; }))
      return own(shape, known, preserved_strides(shape, at));
    const auto last = is_channels_last(at, call.inputs[0]->shape);
    const Shape rows = row_major_strides(shape);
    const Shape channels = channels_last_strides(shape).value_or(rows);
    return own(shape, known && (last || same_order(rows, channels, shape)), last == true ? channels : rows);
  }

  ResultMemory either(int operand, const Shape& shape, Residence residence, std::string why) const {
    if (!has_elements(shape)) return {Kind::own, -1, own(shape, false, {}), {}};
    return {Kind::either, operand, std::move(residence), std::move(why)};
  }

  ResultMemory reshaped(int operand, const Shape& shape, bool may_copy) const {
    const Residence& from = *operands[static_cast<size_t>(operand)];
    const Shape& old = call.inputs[static_cast<size_t>(operand)]->shape;
    if (call.op->schema.find("start_dim") >= 0 && old.size() == shape.size()) return {Kind::itself, operand, from, {}};
    auto strides = reshaped_strides(old, from.at.strides, shape);
    // Dimensions of 1 come and go whatever the strides are.
    Shape before = old, after = shape;
    std::erase(before, 1);
    std::erase(after, 1);
    if (strides && (from.known || !may_copy || before == after))
      return {Kind::shared, operand, {{from.at.offset, std::move(*strides)}, from.known}, {}};
    if (from.known && may_copy) return {Kind::own, -1, own(shape, true, row_major_strides(shape)), {}};
    return either(operand, shape, own(shape, false, {}),
                  from.known ? "it is a view that these strides do not allow"
                             : "whether it copies depends on strides that are not known");
  }

  ResultMemory contiguous(const Shape& shape) const {
    const Residence& from = *operands[0];
    const auto asked = asked_strides(call, shape);
    if (!asked) return either(0, shape, own(shape, false, {}), "its memory format does not fit its shape");
    if (from.known && same_order(from.at.strides, *asked, shape)) return {Kind::itself, 0, from, {}};
    if (from.known && !has_elements(shape)) return {Kind::itself, 0, from, {}};
    if (from.known) return {Kind::own, -1, own(shape, true, *asked), {}};
    return either(0, shape, own(shape, true, *asked), "whether it copies depends on strides that are not known");
  }

  ResultMemory converted(const TensorType& result) const {
    const auto asked = asked_strides(call, result.shape);
    const bool copies = call.op->schema.find("copy") >= 0 && call.boolean("copy");
    if (copies || result.dtype != call.inputs[0]->dtype) return {Kind::own, -1, preserved(result.shape), {}};
    if (!asked || !has_elements(result.shape)) return {Kind::itself, 0, *operands[0], {}};
    return contiguous(result.shape);
  }

  ResultMemory place(size_t result) const {
    const TensorType& type = call.outputs[result];
    const bool of_list = !call.op->schema.args.empty() && call.op->schema.args[0].kind == ArgKind::tensor_list;
    const int source = of_list ? static_cast<int>(result) : 0;
    const auto at = static_cast<size_t>(source);
    const auto fresh = [&](bool known, Shape strides) {
      return ResultMemory{Kind::own, -1, own(type.shape, known, std::move(strides)), {}};
    };
    switch (call.op->record.memory) {
      case Memory::dense:
        return fresh(all_row_major(), row_major_strides(type.shape));
      case Memory::joined:
        return fresh(all_row_major() || !all_may_be_channels_last(type.shape), row_major_strides(type.shape));
      case Memory::row_major:
        return fresh(true, row_major_strides(type.shape));
      case Memory::iterated:
        return fresh(all_known(), iterated_strides(call, type.shape, operands));
      case Memory::preserved:
        return {Kind::own, -1, preserved(type.shape), {}};
      case Memory::padded:
        return {Kind::own, -1, padded(type.shape), {}};
      case Memory::itself:
        if (draws(call)) return fresh(all_known(), iterated_strides(call, type.shape, operands));
        return {Kind::itself, source, *operands[at], {}};
      case Memory::same:
        return {Kind::shared, source, *operands[at], {}};
      case Memory::mapped: {
        const ViewMaps maps = call.op->record.maps(call);
        return {Kind::shared, source, {mapped_placement(maps[result], operands[at]->at), operands[at]->known}, {}};
      }
      case Memory::reshaped:
        return reshaped(source, type.shape, false);
      case Memory::reshaped_or_own:
        return reshaped(source, type.shape, true);
      case Memory::contiguous:
        return contiguous(type.shape);
      case Memory::contiguous_raveled: {
        ResultMemory line = contiguous(call.inputs[0]->shape);
        if (line.kind == Kind::itself) line.kind = Kind::shared;
        line.residence.at.strides = Shape{1};
        return line;
      }
      case Memory::converted:
        return converted(type);
      case Memory::computed:
        return either(0, type.shape, own(type.shape, false, {}), "where it starts is computed");
      case Memory::arbitrary:
      case Memory::strided:
      case Memory::strided_own:
      case Memory::strided_scatter:
        break;
    }
    return fresh(false, {});
  }
};

}  // namespace

std::vector<ResultMemory> place_results(const OpCall& call, std::span<const Residence* const> operands) {
  std::vector<ResultMemory> results;
  for (size_t i = 0; i < call.outputs.size(); ++i) results.push_back(Placer{call, operands}.place(i));
  return results;
}

Strides row_major(const Shape& shape) { return {0, row_major_strides(shape)}; }

bool is_row_major(const Strides& at, const Shape& shape) {
  return !has_elements(shape) || same_order(at.strides, row_major_strides(shape), shape);
}

bool is_dense(const Strides& at, const Shape& shape) {
  std::vector<size_t> order;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return at.strides[a] < at.strides[b]; });
  int64_t next = 1;
  for (size_t d : order) {
    if (at.strides[d] != next) return false;
    next *= shape[d];
  }
  return true;
}

bool is_injective(const Strides& at, const Shape& shape) {
  if (!has_elements(shape)) return true;
  std::vector<size_t> order;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return at.strides[a] < at.strides[b]; });
  int64_t reach = 0;  // of the dimensions so far
  bool nested = true;
  for (size_t d : order) {
    nested = nested && at.strides[d] > reach;
    reach += at.strides[d] * (shape[d] - 1);
  }
  constexpr int64_t largest = int64_t{1} << 30;  // that is looked through; beyond, only what is nested counts
  if (nested || reach + 1 < element_count(shape) || reach >= largest) return nested;
  std::vector<bool> taken(static_cast<size_t>(reach) + 1, false);
  Shape index(shape.size(), 0);
  for (int64_t left = element_count(shape), address = 0; left > 0; --left) {
    if (taken[static_cast<size_t>(address)]) return false;
    taken[static_cast<size_t>(address)] = true;
    for (size_t d = shape.size(); d-- > 0;) {
      address += at.strides[d];
      if (++index[d] < shape[d]) break;
      address -= at.strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return true;
}

bool fits_memory(const Strides& at, const Shape& shape, int64_t elements) {
  if (!has_elements(shape)) return true;
  int64_t last = at.offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(at.strides[d], shape[d] - 1, &reach) || __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return at.offset >= 0 && last < elements;
}

Strides strided_placement(const OpCall& call, int64_t offset) {
  const Shape size = call.ints("size");
  const bool from_self = call.op->schema.find("storage_offset") < 0 || call.is_none("storage_offset");
  Strides at{from_self ? offset : call.integer("storage_offset"), call.ints("stride")};
  if (size.size() != at.strides.size())
    fail(ErrorKind::bad_input, "{}: {} strides for {}", call.op->name(), at.strides.size(), to_string(size));
  for (int64_t stride : at.strides)
    if (stride < 0) fail(ErrorKind::bad_input, "{}: negative stride {}", call.op->name(), stride);
  if (at.offset < 0) fail(ErrorKind::bad_input, "{}: negative offset {}", call.op->name(), at.offset);
  element_count(size);
  return at;
}

}  // namespace npusim
