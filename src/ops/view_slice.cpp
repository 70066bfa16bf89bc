// Views of a part of the operand: slice, select, narrow, the splits, and strided windows on its memory.
#include <algorithm>

#include "base/error.h"
#include "ops/placement.h"
#include "ops/view.h"

namespace npusim {
namespace {

ViewMap sliced(const Shape& self, size_t dim, int64_t start, int64_t length, int64_t step = 1) {
  ViewMap map = identity_map(self);
  map.shape[dim] = length;
  map.from[dim] = along(dim) * step + start;
  return map;
}

void need_dimension(const OpCall& call, const Shape& self) {
  if (self.empty()) fail(ErrorKind::bad_input, "{}: a scalar has no dimension to cut", call.op->name());
}

ViewMaps slice(const OpCall& call) { return {slice_map(call)}; }

ViewMap selected(const Shape& self, size_t dim, int64_t index) {
  ViewMap map{self, {}};
  map.shape.erase(map.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  for (size_t d = 0; d < self.size(); ++d) map.from.push_back(d == dim ? Affine{{}, index} : along(d - (d > dim)));
  return map;
}

ViewMaps select(const OpCall& call) { return {select_map(call)}; }

ViewMaps narrow(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  need_dimension(call, self);
  const size_t dim = dim_argument(call, "dim", self.size());
  int64_t start = call.integer("start");
  if (start < 0) start += self[dim];
  const int64_t length = call.integer("length");
  if (start < 0 || start > self[dim] || length < 0 || length > self[dim] - start)
    fail(ErrorKind::bad_input, "{}: {} elements from {} exceed a dimension of {}", call.op->name(), length, start,
         self[dim]);
  return {sliced(self, dim, start, length)};
}

std::vector<TensorType> infer_narrow_tensor(const OpCall& call) {
  TensorType type = call.type("self");
  need_dimension(call, type.shape);
  int64_t& extent = type.shape[dim_argument(call, "dim", type.shape.size())];
  if (call.integer("length") < 0 || call.integer("length") > extent)
    fail(ErrorKind::bad_input, "{}: length {} exceeds a dimension of {}", call.op->name(), call.integer("length"),
         extent);
  if (element_count(call.type("start").shape) != 1)
    fail(ErrorKind::bad_input, "{}: start must be one element, found {}", call.op->name(),
         to_string(call.type("start")));
  extent = call.integer("length");
  return {type};
}

// The start is known only at run time: a gather.
void lower_narrow_tensor(const OpCall& call, Lowering& lowering) {
  const Shape& self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", self.size());
  OpKernel k(lowering, call.outputs[0].shape);
  std::vector<Coord> at = coordinates(identity_coordinates(self.size()));
  const int from = k.read(lowering.input(call.tensor("self")));
  const Ex start = k.load_broadcast(k.read(lowering.input(call.tensor("start"))));
  at[dim] = Coord(k.index(static_cast<int>(dim)) + select(start < 0, start + self[dim], start));
  const Ex x = k.load(from, at);
  k.store(k.write(lowering.output(0)), x);
  k.done("narrow");
}

constexpr int64_t most_results = 65536;

void need_few_results(const OpCall& call, int64_t count) {
  if (count > most_results)
    fail(ErrorKind::unsupported, "{}: {} results: expected at most {}", call.op->name(), count, most_results);
}

// Consecutive pieces of the lengths `sizes`.
ViewMaps pieces(const OpCall& call, size_t dim, const std::vector<int64_t>& sizes) {
  const Shape& self = call.type("self").shape;
  ViewMaps maps;
  int64_t start = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > self[dim] - start)
      fail(ErrorKind::bad_input, "{}: a piece of {} elements from {} on, of {}", call.op->name(), size, start,
           self[dim]);
    maps.push_back(sliced(self, dim, start, size));
    start += size;
  }
  if (start != self[dim])
    fail(ErrorKind::bad_input, "{}: pieces of {} elements for a dimension of {}", call.op->name(), start, self[dim]);
  return maps;
}

size_t split_dim(const OpCall& call) {
  need_dimension(call, call.type("self").shape);
  return dim_argument(call, "dim", call.type("self").shape.size());
}

// Pieces of `size` elements, the last one shorter.
ViewMaps equal_pieces(const OpCall& call, size_t dim, int64_t size) {
  const int64_t n = call.type("self").shape[dim];
  if (size < 0 || (size == 0 && n != 0)) fail(ErrorKind::bad_input, "{}: pieces of {} elements", call.op->name(), size);
  if (size > 0) need_few_results(call, n / size);
  std::vector<int64_t> sizes;
  for (int64_t left = n; left > 0; left -= size) sizes.push_back(std::min(left, size));
  if (n == 0) sizes.push_back(0);
  return pieces(call, dim, sizes);
}

ViewMaps split(const OpCall& call) { return equal_pieces(call, split_dim(call), call.integer("split_size")); }
ViewMaps split_at_sizes(const OpCall& call) {
  const bool plain = call.op->schema.find("split_sizes") < 0;
  return pieces(call, split_dim(call), call.ints(plain ? "split_size" : "split_sizes"));
}

ViewMaps chunk(const OpCall& call) {
  const size_t dim = split_dim(call);
  const int64_t chunks = call.integer("chunks"), n = call.type("self").shape[dim];
  if (chunks < 1) fail(ErrorKind::bad_input, "{}: chunks must be positive, found {}", call.op->name(), chunks);
  need_few_results(call, n == 0 ? chunks : std::min(n, chunks));
  if (n == 0) return pieces(call, dim, std::vector<int64_t>(static_cast<size_t>(chunks), 0));
  return equal_pieces(call, dim, n / chunks + (n % chunks != 0));
}

ViewMaps unbind(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const size_t dim = split_dim(call);
  need_few_results(call, self[dim]);
  ViewMaps maps;
  for (int64_t i = 0; i < self[dim]; ++i) maps.push_back(selected(self, dim, i));
  return maps;
}

// `sections` pieces, the first ones one element longer where it does not divide.
ViewMaps sections_of(const OpCall& call, size_t dim, int64_t sections, bool must_divide = false) {
  const int64_t n = call.type("self").shape[dim];
  if (sections < 1 || (must_divide && n % sections != 0))
    fail(ErrorKind::bad_input, "{}: a dimension of {} in {} sections", call.op->name(), n, sections);
  need_few_results(call, sections);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(n / sections + (i < n % sections));
  return pieces(call, dim, sizes);
}

// Slices between consecutive indices; where they fall back the piece is empty.
ViewMaps pieces_at(const OpCall& call, size_t dim, const std::vector<int64_t>& indices) {
  const Shape& self = call.type("self").shape;
  const int64_t n = self[dim];
  ViewMaps maps;
  int64_t start = 0;
  for (size_t i = 0; i <= indices.size(); ++i) {
    int64_t end = n;
    if (i < indices.size()) end = std::clamp<int64_t>(indices[i] < 0 ? indices[i] + n : indices[i], 0, n);
    maps.push_back(sliced(self, dim, start, std::max<int64_t>(end - start, 0)));
    start = end;
  }
  return maps;
}

ViewMaps tensor_split_sections(const OpCall& call) {
  return sections_of(call, split_dim(call), call.integer("sections"));
}
ViewMaps tensor_split_indices(const OpCall& call) { return pieces_at(call, split_dim(call), call.ints("indices")); }

// hsplit cuts dimension 1 (0 of a vector), vsplit 0, dsplit 2.
template <size_t wanted>
size_t fixed_split_dim(const OpCall& call) {
  const size_t rank = call.type("self").shape.size();
  const size_t dim = wanted == 1 && rank == 1 ? 0 : wanted;
  if (dim >= rank)
    fail(ErrorKind::bad_input, "{}: {} has too few dimensions", call.op->name(), to_string(call.type("self").shape));
  return dim;
}
template <size_t dim>
ViewMaps split_sections(const OpCall& call) {
  return sections_of(call, fixed_split_dim<dim>(call), call.integer("sections"), true);
}
template <size_t dim>
ViewMaps split_indices(const OpCall& call) {
  return pieces_at(call, fixed_split_dim<dim>(call), call.ints("indices"));
}

// Elements of the memory that self is a part of: what they are of self only functionalize knows, and whether they are
// there.
std::vector<TensorType> infer_as_strided(const OpCall& call) {
  strided_placement(call, 0);
  return {{call.type("self").dtype, call.ints("size")}};
}

// Of a self that is the whole of its memory, row-major: functionalize leaves no other.
void lower_as_strided(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const Shape size = call.ints("size");
  const Strides at = strided_placement(call, 0);
  if (!fits_memory(at, size, element_count(self.shape)))
    fail(ErrorKind::bad_input, "{}: {} with strides {} from {} leaves {}", call.op->name(), to_string(size),
         to_string(at.strides), at.offset, to_string(self));
  const int flat = lowering.temporary({self.dtype, {element_count(self.shape)}});
  lower_flat(lowering, "view", lowering.input(0), flat);
  lower_map(lowering, "as_strided", {size, {{at.strides, at.offset}}}, flat, lowering.output(0));
}

constexpr OpRecord records[] = {
    mapped_view<slice>(
        "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"),
    fresh(mapped_view<slice>(
        "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor")),
    mapped_view<select>("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"),
    fresh(mapped_view<select>("select_copy.int(Tensor self, int dim, SymInt index) -> Tensor")),
    mapped_view<narrow>("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"),
    fresh(mapped_view<narrow>("narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor")),
    in_memory(view("narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
                   infer_narrow_tensor, lower_narrow_tensor),
              Memory::computed),
    mapped_view<split>("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"),
    fresh(mapped_view<split>("split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]")),
    mapped_view<split>("unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"),
    mapped_view<split_at_sizes>("split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"),
    mapped_view<split_at_sizes>("split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"),
    mapped_view<split_at_sizes>(
        "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"),
    fresh(
        mapped_view<split_at_sizes>("split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]")),
    mapped_view<split_at_sizes>("unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"),
    mapped_view<chunk>("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"),
    mapped_view<chunk>("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"),
    mapped_view<unbind>("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"),
    fresh(mapped_view<unbind>("unbind_copy.int(Tensor self, int dim=0) -> Tensor[]")),
    mapped_view<tensor_split_sections>(
        "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"),
    mapped_view<tensor_split_indices>(
        "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"),
    mapped_view<split_sections<1>>("hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"),
    mapped_view<split_indices<1>>("hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"),
    mapped_view<split_sections<0>>("vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"),
    mapped_view<split_indices<0>>("vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"),
    mapped_view<split_sections<2>>("dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"),
    mapped_view<split_indices<2>>("dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"),
    in_memory(
        view("as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
             infer_as_strided, lower_as_strided),
        Memory::strided),
    in_memory(view("_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", infer_as_strided,
                   lower_as_strided),
              Memory::strided),
    in_memory(
        view("as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
             infer_as_strided, lower_as_strided),
        Memory::strided_own),
};

}  // namespace

// Bounds count from the end when negative and are clamped to the dimension.
ViewMap slice_map(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  need_dimension(call, self);
  const size_t dim = dim_argument(call, "dim", self.size());
  const int64_t n = self[dim], step = call.integer("step");
  if (step < 1) fail(ErrorKind::bad_input, "{}: step must be positive, found {}", call.op->name(), step);
  auto bound = [&](std::string_view arg, int64_t open) {
    if (call.is_none(arg)) return open;
    const int64_t at = call.integer(arg);
    return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const int64_t start = bound("start", 0), end = std::max(bound("end", n), start);
  const int64_t length = (end - start) / step + ((end - start) % step != 0);
  return sliced(self, dim, start, length, std::min(step, std::max<int64_t>(n, 1)));  // a longer step leads nowhere
}

ViewMap select_map(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  need_dimension(call, self);
  const size_t dim = dim_argument(call, "dim", self.size());
  const int64_t index = call.integer("index");
  if (index < -self[dim] || index >= self[dim])
    fail(ErrorKind::bad_input, "{}: index {} is out of range for a dimension of {}", call.op->name(), index, self[dim]);
  return selected(self, dim, index < 0 ? index + self[dim] : index);
}

std::span<const OpRecord> view_slice_ops() { return records; }

}  // namespace npusim
