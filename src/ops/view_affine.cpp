// Views whose elements are the operand's in another order or repeated: transpose, permute, expand, flip, diagonal,
// unfold.
#include <algorithm>

#include "base/error.h"
#include "ops/view.h"

namespace npusim {
namespace {

// Dimension d of the result is dimension order[d] of the operand.
ViewMaps permuted(const Shape& self, const std::vector<size_t>& order) {
  ViewMap map{{}, std::vector<Affine>(self.size())};
  for (size_t d = 0; d < order.size(); ++d) {
    map.shape.push_back(self[order[d]]);
    map.from[order[d]] = along(d);
  }
  return {map};
}

std::vector<size_t> in_order(size_t rank) {
  std::vector<size_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = d;
  return order;
}

ViewMaps swapped(const OpCall& call, std::string_view first, std::string_view second) {
  const Shape& self = call.type("self").shape;
  std::vector<size_t> order = in_order(self.size());
  const size_t a = dim_argument(call, first, self.size()), b = dim_argument(call, second, self.size());
  if (!self.empty()) std::swap(order[a], order[b]);
  return permuted(self, order);
}
ViewMaps transpose(const OpCall& call) { return swapped(call, "dim0", "dim1"); }
ViewMaps swap_axes(const OpCall& call) { return swapped(call, "axis0", "axis1"); }

ViewMaps permute(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const std::vector<size_t> order = dim_list(call, "dims", self.size());
  if (order.size() != self.size())
    fail(ErrorKind::bad_input, "{}: {} dimensions for {}", call.op->name(), order.size(), to_string(self));
  return permuted(self, order);
}

// t: at most a matrix. numpy_T reverses all dimensions.
ViewMaps reverse_dims(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  std::vector<size_t> order = in_order(self.size());
  std::reverse(order.begin(), order.end());
  return permuted(self, order);
}
ViewMaps transpose_matrix(const OpCall& call) {
  if (call.type("self").shape.size() > 2)
    fail(ErrorKind::bad_input, "{}: expected at most 2 dimensions, found {}", call.op->name(),
         to_string(call.type("self").shape));
  return reverse_dims(call);
}
ViewMaps transpose_last(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  std::vector<size_t> order = in_order(self.size());
  if (self.size() == 1) fail(ErrorKind::bad_input, "{}: expected a matrix, found {}", call.op->name(), to_string(self));
  if (!self.empty()) std::swap(order[self.size() - 1], order[self.size() - 2]);
  return permuted(self, order);
}

ViewMaps move_dims(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const std::vector<size_t> source = dim_list(call, "source", self.size());
  const std::vector<size_t> target = dim_list(call, "destination", self.size());
  if (source.size() != target.size())
    fail(ErrorKind::bad_input, "{}: {} sources for {} destinations", call.op->name(), source.size(), target.size());
  if (self.empty()) return permuted(self, {});
  const size_t unset = self.size();
  std::vector<size_t> order(self.size(), unset);
  for (size_t i = 0; i < source.size(); ++i) order[target[i]] = source[i];
  size_t next = 0;
  for (size_t& d : order) {
    if (d != unset) continue;
    while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
    d = next++;
  }
  return permuted(self, order);
}

// -1 keeps a dimension of self; new dimensions come first.
ViewMap expanded(const OpCall& call, const Shape& self, Shape size) {
  if (size.size() < self.size())
    fail(ErrorKind::bad_input, "{}: {} does not expand to {}", call.op->name(), to_string(self), to_string(size));
  const size_t lead = size.size() - self.size();
  std::vector<Affine> from;
  for (size_t d = 0; d < self.size(); ++d) {
    int64_t& extent = size[lead + d];
    if (extent == -1) extent = self[d];
    if (self[d] != extent && self[d] != 1)
      fail(ErrorKind::bad_input, "{}: {} does not expand to {}", call.op->name(), to_string(self), to_string(size));
    from.push_back(self[d] == extent ? along(lead + d) : Affine{});
  }
  return {std::move(size), std::move(from)};
}
ViewMaps expand(const OpCall& call) { return {expanded(call, call.type("self").shape, call.ints("size"))}; }
ViewMaps expand_as(const OpCall& call) { return {expanded(call, call.type("self").shape, call.type("other").shape)}; }

std::vector<TensorType> infer_broadcast_tensors(const OpCall& call) {
  Shape shape;
  for (const TensorType* input : call.inputs) shape = broadcast_shapes(shape, input->shape);
  std::vector<TensorType> types;
  for (const TensorType* input : call.inputs) types.push_back({input->dtype, shape});
  return types;
}
ViewMaps expand_all(const OpCall& call) {
  ViewMaps maps;
  for (const TensorType* input : call.inputs) maps.push_back(expanded(call, input->shape, call.outputs[0].shape));
  return maps;
}
void lower_broadcast_tensors(const OpCall& call, Lowering& lowering) {
  const ViewMaps maps = expand_all(call);
  for (int i = 0; i < static_cast<int>(maps.size()); ++i)
    lower_map(lowering, "expand", maps[static_cast<size_t>(i)], lowering.input(i), lowering.output(i));
}
constexpr OpRecord expansion(std::string_view schema) {
  OpRecord record = in_memory(view(schema, infer_broadcast_tensors, lower_broadcast_tensors), Memory::mapped);
  record.maps = expand_all;
  return record;
}

ViewMaps flipped(const Shape& self, const std::vector<size_t>& dims) {
  ViewMap map = identity_map(self);
  for (size_t d : dims)
    if (d < self.size()) map.from[d] = along(d) * -1 + (self[d] - 1);
  return {map};
}
ViewMaps flip(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  return flipped(self, dim_list(call, "dims", self.size()));
}
template <size_t dim>
ViewMaps flip_fixed(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  if (self.size() <= dim) fail(ErrorKind::bad_input, "{}: {} has too few dimensions", call.op->name(), to_string(self));
  return flipped(self, {dim});
}

// Rotations by quarters from the first named dimension towards the second.
ViewMaps rot90(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const std::vector<size_t> dims = dim_list(call, "dims", self.size());
  if (dims.size() != 2)
    fail(ErrorKind::bad_input, "{}: expected two dimensions, found {}", call.op->name(), dims.size());
  const size_t a = dims[0], b = dims[1];
  const int64_t rotations = ((call.integer("k") % 4) + 4) % 4;
  ViewMap map = identity_map(self);
  if (rotations % 2) std::swap(map.shape[a], map.shape[b]);
  const Affine i = along(a), j = along(b);
  if (rotations == 1) map.from[a] = j, map.from[b] = i * -1 + (self[b] - 1);
  if (rotations == 2) map.from[a] = i * -1 + (self[a] - 1), map.from[b] = j * -1 + (self[b] - 1);
  if (rotations == 3) map.from[a] = j * -1 + (self[a] - 1), map.from[b] = i;
  return {map};
}

ViewMaps diagonal(const OpCall& call) { return {diagonal_map(call)}; }

// Windows of `size` along a dimension, `step` apart; the position within the window becomes the last dimension.
ViewMaps unfold(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dimension", self.size());
  const int64_t size = call.integer("size"), step = call.integer("step"), extent = self.empty() ? 1 : self[dim];
  if (size < 0 || size > extent || step < 1)
    fail(ErrorKind::bad_input, "{}: windows of {} every {} do not fit {}", call.op->name(), size, step,
         to_string(self));
  ViewMap map = identity_map(self);
  if (self.empty()) return {{{size}, {}}};
  map.shape[dim] = (extent - size) / step + 1;
  map.from[dim] = along(dim) * step + along(self.size());
  map.shape.push_back(size);
  return {map};
}

constexpr OpRecord records[] = {
    mapped_view<transpose>("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    fresh(mapped_view<transpose>("transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor")),
    mapped_view<transpose>("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    mapped_view<swap_axes>("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)"),
    mapped_view<permute>("permute(Tensor(a) self, int[] dims) -> Tensor(a)"),
    fresh(mapped_view<permute>("permute_copy(Tensor self, int[] dims) -> Tensor")),
    mapped_view<transpose_matrix>("t(Tensor(a) self) -> Tensor(a)"),
    fresh(mapped_view<transpose_matrix>("t_copy(Tensor self) -> Tensor")),
    mapped_view<reverse_dims>("numpy_T(Tensor(a) self) -> Tensor(a)"),
    mapped_view<transpose_last>("mT(Tensor(a) self) -> Tensor(a)"),
    mapped_view<transpose_last>("mH(Tensor(a) self) -> Tensor(a)"),
    mapped_view<transpose_matrix>("matrix_H(Tensor(a) self) -> Tensor(a)"),
    mapped_view<transpose_last>("adjoint(Tensor(a) self) -> Tensor(a)"),
    mapped_view<move_dims>("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)"),
    mapped_view<move_dims>("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"),
    mapped_view<move_dims>("moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)"),
    mapped_view<move_dims>("moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"),
    mapped_view<expand>("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"),
    fresh(mapped_view<expand>("expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor")),
    mapped_view<expand>("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
    mapped_view<expand_as>("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"),
    expansion("broadcast_tensors(Tensor[] tensors) -> Tensor[]"),
    in_memory(mapped_view<flip>("flip(Tensor self, int[] dims) -> Tensor"), Memory::preserved),
    in_memory(mapped_view<flip_fixed<1>>("fliplr(Tensor self) -> Tensor"), Memory::preserved),
    in_memory(mapped_view<flip_fixed<0>>("flipud(Tensor self) -> Tensor"), Memory::preserved),
    in_memory(mapped_view<rot90>("rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"), Memory::arbitrary),
    mapped_view<diagonal>("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"),
    fresh(mapped_view<diagonal>("diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor")),
    mapped_view<unfold>("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"),
    fresh(mapped_view<unfold>("unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor")),
};

}  // namespace

// The diagonal becomes the last dimension.
ViewMap diagonal_map(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const size_t dim1 = dim_argument(call, "dim1", self.size()), dim2 = dim_argument(call, "dim2", self.size());
  const int64_t offset = call.integer("offset");
  if (dim1 == dim2 || self.size() < 2)
    fail(ErrorKind::bad_input, "{}: {} has no diagonal of dimensions {} and {}", call.op->name(), to_string(self), dim1,
         dim2);
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  ViewMap map{{}, std::vector<Affine>(self.size())};
  for (size_t d = 0; d < self.size(); ++d) {
    if (d == dim1 || d == dim2) continue;
    map.from[d] = along(map.shape.size());
    map.shape.push_back(self[d]);
  }
  map.from[dim1] = along(map.shape.size()) + down;
  map.from[dim2] = along(map.shape.size()) + right;
  map.shape.push_back(std::max<int64_t>(std::min(self[dim1] - down, self[dim2] - right), 0));
  return map;
}

std::span<const OpRecord> view_affine_ops() { return records; }

}  // namespace npusim
