// Elements repeated or moved in blocks: repeat, tile, roll, pixel and channel shuffles, meshgrid.
#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

// The whole operand repeats[d] times along each dimension; missing leading dimensions are 1.
ViewMap repeated(const Shape& self, const std::vector<int64_t>& repeats) {
  ViewMap map;
  const size_t lead = repeats.size() - self.size();
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t extent = d < lead ? 1 : self[d - lead];
    const Affine copy = along(map.space.size()), own = along(map.space.size() + 1);
    map.shape.push_back(element_count({repeats[d], extent}));
    map.space.insert(map.space.end(), {repeats[d], extent});
    map.to.push_back(copy * extent + own);
    if (d >= lead) map.from.push_back(own);
  }
  return map;
}

ViewMaps repeat(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const bool tile = call.op->schema.find("dims") >= 0;
  std::vector<int64_t> repeats = call.ints(tile ? "dims" : "repeats");
  if (tile && repeats.size() < self.size()) repeats.insert(repeats.begin(), self.size() - repeats.size(), 1);
  if (repeats.size() < self.size() || std::any_of(repeats.begin(), repeats.end(), [](int64_t n) { return n < 0; }))
    fail(ErrorKind::bad_input, "{}: {} cannot be repeated {}", call.op->name(), to_string(self), to_string(repeats));
  if (repeats.empty()) return {identity_map(self)};
  return {repeated(self, repeats)};
}

// Every element (without a dimension: of the flat operand) `repeats` times in a row.
ViewMap interleaved(const Shape& self, size_t dim, int64_t repeats) {
  ViewMap map;
  for (size_t d = 0; d < self.size(); ++d) {
    map.from.push_back(along(map.space.size()));
    map.to.push_back(along(map.space.size()));
    map.space.push_back(self[d]);
    map.shape.push_back(self[d]);
    if (d != dim) continue;
    map.to.back() = map.to.back() * repeats + along(map.space.size());
    map.space.push_back(repeats);
    map.shape.back() *= repeats;
  }
  return map;
}

std::vector<TensorType> infer_interleave(const OpCall& call) {
  TensorType type = call.type("self");
  const int64_t repeats = call.integer("repeats");
  if (repeats < 0) fail(ErrorKind::bad_input, "{}: repeats must not be negative, found {}", call.op->name(), repeats);
  if (call.is_none("dim")) return {{type.dtype, {element_count(type.shape) * repeats}}};
  if (type.shape.empty()) type.shape = {1};
  type.shape[dim_argument(call, "dim", type.shape.size())] *= repeats;
  return {type};
}

void lower_interleave(const OpCall& call, Lowering& lowering) {
  Shape shape = call.type("self").shape;
  int from = lowering.input(0);
  size_t dim = 0;
  if (call.is_none("dim") || shape.empty()) {
    shape = {element_count(shape)};
    const int flat = lowering.temporary({call.type("self").dtype, shape});
    lower_flat(lowering, "view", from, flat);
    from = flat;
  } else {
    dim = dim_argument(call, "dim", shape.size());
  }
  lower_map(lowering, "repeat_interleave", interleaved(shape, dim, call.integer("repeats")), from, lowering.output(0));
}

// operand[…, index - shift, …], around the end; a choice of two loads for each rolled dimension.
Ex rolled(KernelBuilder& k, int from, const std::vector<std::pair<size_t, int64_t>>& shifts, size_t next,
          std::vector<Coord>& at) {
  if (next == shifts.size()) return k.load(from, at);
  const auto [dim, shift] = shifts[next];
  const Affine index = k.dim(static_cast<int>(dim));
  at[dim] = Coord(index + (-shift));
  const Ex x = rolled(k, from, shifts, next + 1, at);
  at[dim] = Coord(index + (k.shape(from)[dim] - shift));
  const Ex y = rolled(k, from, shifts, next + 1, at);
  return select(k.index(static_cast<int>(dim)) >= shift, x, y);
}

void lower_rolls(Lowering& lowering, std::vector<std::pair<size_t, int64_t>> shifts, int from, int to) {
  const Shape shape = lowering.type(from).shape;
  std::vector<std::pair<size_t, int64_t>> real;
  for (auto [dim, shift] : shifts) {
    if (shape[dim] == 0) continue;
    shift = ((shift % shape[dim]) + shape[dim]) % shape[dim];
    if (shift != 0) real.emplace_back(dim, shift);
  }
  constexpr size_t at_once = 3;  // 2^n loads
  while (real.size() > at_once) {
    const int partial = lowering.temporary(lowering.type(from));
    lower_rolls(lowering, {real.end() - at_once, real.end()}, from, partial);
    real.resize(real.size() - at_once);
    from = partial;
  }
  OpKernel k(lowering, shape);
  std::vector<Coord> at = coordinates(identity_coordinates(shape.size()));
  const Ex x = rolled(k, k.read(from), real, 0, at);
  k.store(k.write(to), x);
  k.done("roll");
}

void lower_roll(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const std::vector<int64_t> shifts = call.ints("shifts");
  if (!call.ints("dims").empty()) {
    std::vector<std::pair<size_t, int64_t>> list;
    const std::vector<int64_t> dims = call.ints("dims");
    if (dims.size() != shifts.size())
      fail(ErrorKind::bad_input, "{}: {} shifts for {} dimensions", call.op->name(), shifts.size(), dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {  // a dimension named twice is rolled twice
      const auto dim = static_cast<size_t>(normalize_dim(dims[i], self.shape.size()));
      if (self.shape.empty() || self.shape[dim] == 0) continue;
      const int64_t shift = shifts[i] % self.shape[dim];  // of any size: two are added below
      const auto known = std::find_if(list.begin(), list.end(), [&](const auto& s) { return s.first == dim; });
      if (known == list.end())
        list.emplace_back(dim, shift);
      else
        known->second += shift;
    }
    return lower_rolls(lowering, list, lowering.input(0), lowering.output(0));
  }
  if (shifts.size() != 1) fail(ErrorKind::bad_input, "{}: {} shifts for a flat roll", call.op->name(), shifts.size());
  const int flat = lowering.temporary({self.dtype, {element_count(self.shape)}}),
            moved = lowering.temporary(lowering.type(flat));
  lower_flat(lowering, "view", lowering.input(0), flat);
  lower_rolls(lowering, {{0, shifts[0]}}, flat, moved);
  lower_flat(lowering, "view", moved, lowering.output(0));
}

// [..., c·r², h, w] to [..., c, h·r, w·r]
ViewMaps pixel_shuffle(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const int64_t r = call.integer("upscale_factor");
  const size_t lead = self.size() - 3;
  if (self.size() < 3 || r < 1 || self[lead] % (r * r) != 0)
    fail(ErrorKind::bad_input, "{}: {} does not divide into {}x{} blocks", call.op->name(), to_string(self), r, r);
  ViewMap map{{self.begin(), self.end() - 3},
              identity_coordinates(lead),
              {self.begin(), self.end() - 3},
              identity_coordinates(lead)};
  const int64_t c = self[lead] / (r * r), h = self[lead + 1], w = self[lead + 2];
  map.shape.insert(map.shape.end(), {c, h * r, w * r});
  map.space.insert(map.space.end(), {c, h, r, w, r});
  const Affine channel = along(lead), y = along(lead + 1), i = along(lead + 2), x = along(lead + 3),
               j = along(lead + 4);
  map.from.insert(map.from.end(), {channel * (r * r) + i * r + j, y, x});
  map.to.insert(map.to.end(), {channel, y * r + i, x * r + j});
  return {map};
}

// The inverse: [..., c, h·r, w·r] to [..., c·r², h, w]
ViewMaps pixel_unshuffle(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const int64_t r = call.integer("downscale_factor");
  const size_t lead = self.size() - 3;
  if (self.size() < 3 || r < 1 || self[lead + 1] % r != 0 || self[lead + 2] % r != 0)
    fail(ErrorKind::bad_input, "{}: {} does not divide into {}x{} blocks", call.op->name(), to_string(self), r, r);
  ViewMap map{{self.begin(), self.end() - 3},
              identity_coordinates(lead),
              {self.begin(), self.end() - 3},
              identity_coordinates(lead)};
  const int64_t c = self[lead], h = self[lead + 1] / r, w = self[lead + 2] / r;
  map.shape.insert(map.shape.end(), {c * r * r, h, w});
  map.space.insert(map.space.end(), {c, r, r, h, w});
  const Affine channel = along(lead), i = along(lead + 1), j = along(lead + 2), y = along(lead + 3),
               x = along(lead + 4);
  map.from.insert(map.from.end(), {channel, y * r + i, x * r + j});
  map.to.insert(map.to.end(), {channel * (r * r) + i * r + j, y, x});
  return {map};
}

// Channels [groups, c] become [c, groups].
ViewMaps channel_shuffle(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const int64_t groups = call.integer("groups");
  if (self.size() < 3 || groups < 1 || self[1] % groups != 0)
    fail(ErrorKind::bad_input, "{}: the channels of {} are not in {} groups", call.op->name(), to_string(self), groups);
  ViewMap map{self,
              {along(0), along(1) * (self[1] / groups) + along(2)},
              {self[0], groups, self[1] / groups},
              {along(0), along(2) * groups + along(1)}};
  for (size_t d = 2; d < self.size(); ++d) {
    map.space.push_back(self[d]);
    map.from.push_back(along(d + 1));
    map.to.push_back(along(d + 1));
  }
  return {map};
}

// Result i holds operand i along dimension i; 'xy' exchanges the first two.
ViewMaps meshgrid(const OpCall& call) {
  const size_t rank = call.inputs.size();
  std::vector<size_t> where(rank);
  for (size_t i = 0; i < rank; ++i) where[i] = i;
  const std::string indexing = call.op->schema.find("indexing") >= 0 ? call.text("indexing") : "ij";
  if (indexing == "xy" && rank > 1)
    std::swap(where[0], where[1]);
  else if (indexing != "ij" && indexing != "xy")
    fail(ErrorKind::bad_input, "{}: indexing must be 'ij' or 'xy', found '{}'", call.op->name(), indexing);
  Shape shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (call.inputs[i]->shape.size() > 1)
      fail(ErrorKind::bad_input, "{}: operand {} is not a vector: {}", call.op->name(), i, to_string(*call.inputs[i]));
    shape[where[i]] = element_count(call.inputs[i]->shape);
  }
  ViewMaps maps;
  for (size_t i = 0; i < rank; ++i) {
    maps.push_back({shape, {}});
    if (!call.inputs[i]->shape.empty()) maps.back().from.push_back(along(where[i]));
  }
  return maps;
}

constexpr OpRecord grid(std::string_view schema) {
  OpRecord record = view(
      schema,
      [](const OpCall& call) {
        std::vector<TensorType> types;
        for (const ViewMap& map : meshgrid(call)) types.push_back({call.inputs[types.size()]->dtype, map.shape});
        return types;
      },
      [](const OpCall& call, Lowering& lowering) {
        const ViewMaps maps = meshgrid(call);
        for (int i = 0; i < static_cast<int>(maps.size()); ++i)
          lower_map(lowering, "meshgrid", maps[static_cast<size_t>(i)], lowering.input(i), lowering.output(i));
      });
  record.memory = Memory::mapped;
  record.maps = meshgrid;
  return record;
}

constexpr OpRecord records[] = {
    fresh(mapped_view<repeat>("repeat(Tensor self, SymInt[] repeats) -> Tensor")),
    fresh(mapped_view<repeat>("tile(Tensor self, SymInt[] dims) -> Tensor")),
    fresh(view(
        "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        infer_interleave, lower_interleave)),
    fresh(view("roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", infer_same, lower_roll)),
    fresh(mapped_view<pixel_shuffle>("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor")),
    fresh(mapped_view<pixel_unshuffle>("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor")),
    fresh(mapped_view<channel_shuffle>("channel_shuffle(Tensor self, SymInt groups) -> Tensor")),
    fresh(mapped_view<channel_shuffle>("native_channel_shuffle(Tensor self, SymInt groups) -> Tensor")),
    grid("meshgrid(Tensor[] tensors) -> Tensor[]"),
    grid("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"),
};

}  // namespace

std::span<const OpRecord> rearrange_ops() { return records; }

}  // namespace npusim
