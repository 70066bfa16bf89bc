// Views that keep the order of all elements: view, flatten, squeeze, unsqueeze and their kind.
#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

// `wanted` with its one -1 replaced so that the count of elements stays.
Shape resolve_shape(const OpCall& call, const Shape& self, Shape wanted) {
  const int64_t count = element_count(self);
  Shape given;
  int64_t* open = nullptr;
  for (int64_t& extent : wanted) {
    if (extent >= 0)
      given.push_back(extent);
    else if (extent != -1 || open)
      fail(ErrorKind::bad_input, "{}: bad shape {}", call.op->name(), to_string(wanted));
    else
      open = &extent;
  }
  const int64_t known = element_count(given);
  if (open && known != 0 && count % known == 0)
    *open = count / known;
  else if (open && known == 0 && count == 0)
    fail(ErrorKind::bad_input, "{}: -1 in {} is ambiguous for no elements", call.op->name(), to_string(wanted));
  if ((open && *open < 0) || element_count(wanted) != count)
    fail(ErrorKind::bad_input, "{}: {} does not have the elements of {}", call.op->name(), to_string(wanted),
         to_string(self));
  return wanted;
}

template <const char* arg>
Shape view_shape(const OpCall& call) {
  return resolve_shape(call, call.type("self").shape, call.ints(arg));
}
constexpr char size_arg[] = "size", shape_arg[] = "shape";

Shape other_shape(const OpCall& call) { return resolve_shape(call, call.type("self").shape, call.type("other").shape); }

Shape flatten_shape(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const size_t begin = dim_argument(call, "start_dim", self.size()), end = dim_argument(call, "end_dim", self.size());
  if (begin > end) fail(ErrorKind::bad_input, "{}: start_dim {} comes after end_dim {}", call.op->name(), begin, end);
  if (self.empty()) return {1};
  Shape shape(self.begin(), self.begin() + static_cast<std::ptrdiff_t>(begin));
  int64_t joined = 1;
  for (size_t d = begin; d <= end; ++d) joined *= self[d];
  shape.push_back(joined);
  shape.insert(shape.end(), self.begin() + static_cast<std::ptrdiff_t>(end) + 1, self.end());
  return shape;
}

Shape ravel_shape(const OpCall& call) { return {element_count(call.type("self").shape)}; }

Shape unflatten_shape(const OpCall& call) {
  Shape shape = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", shape.size());
  if (shape.empty()) fail(ErrorKind::bad_input, "{}: a scalar has no dimension to split", call.op->name());
  const Shape parts = resolve_shape(call, {shape[dim]}, call.ints("sizes"));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), parts.begin(), parts.end());
  return shape;
}

// Without the dimensions of extent 1 among those named.
ViewMap squeezed(const Shape& self, const std::vector<bool>& named) {
  ViewMap map;
  for (size_t d = 0; d < self.size(); ++d) {
    if (named[d] && self[d] == 1) {
      map.from.emplace_back();
      continue;
    }
    map.from.push_back(along(map.shape.size()));
    map.shape.push_back(self[d]);
  }
  return map;
}
ViewMaps squeeze(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  return {squeezed(self, std::vector<bool>(self.size(), true))};
}
ViewMaps squeeze_dims(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  std::vector<bool> named(self.size() + 1, false);
  for (int64_t d : call.ints("dim")) named[static_cast<size_t>(normalize_dim(d, self.size()))] = true;
  return {squeezed(self, named)};
}

ViewMaps unsqueeze(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", self.size() + 1);
  ViewMap map{self, {}};
  map.shape.insert(map.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  for (size_t d = 0; d < self.size(); ++d) map.from.push_back(along(d + (d >= dim)));
  return {map};
}

// The elements stay in their order, which flat loops copy best.
template <auto maps>
constexpr OpRecord resized_view(std::string_view schema) {
  OpRecord record = mapped_view<maps>(schema);
  record.lower = [](const OpCall& call, Lowering& lowering) { lower_reshape(lowering, kernel_name(call)); };
  return record;
}

// atleast_3d puts a matrix before its new dimension and a vector in the middle.
template <size_t rank>
Shape atleast_shape_of(Shape shape) {
  if (rank == 3 && shape.size() == 2)
    shape.push_back(1);
  else if (rank == 3 && shape.size() == 1)
    shape = {1, shape[0], 1};
  while (shape.size() < rank) shape.insert(shape.begin(), 1);
  return shape;
}
template <size_t rank>
Shape atleast_shape(const OpCall& call) {
  return atleast_shape_of<rank>(call.type("self").shape);
}

template <size_t rank>
constexpr OpRecord atleast_all(std::string_view schema) {
  const OpRecord record = view(
      schema,
      [](const OpCall& call) {
        std::vector<TensorType> types;
        for (const TensorType* input : call.inputs)
          types.push_back({input->dtype, atleast_shape_of<rank>(input->shape)});
        return types;
      },
      [](const OpCall& call, Lowering& lowering) {
        for (int i = 0; i < static_cast<int>(call.inputs.size()); ++i) lower_reshape(lowering, "atleast", i, i);
      });
  return in_memory(record, Memory::reshaped);
}

constexpr OpRecord records[] = {
    reshaped_view<view_shape<size_arg>>("view(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
    fresh(reshaped_view<view_shape<size_arg>>("view_copy(Tensor self, SymInt[] size) -> Tensor")),
    in_memory(reshaped_view<view_shape<shape_arg>>("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"),
              Memory::reshaped_or_own),
    reshaped_view<view_shape<size_arg>>("_unsafe_view(Tensor self, SymInt[] size) -> Tensor"),
    in_memory(reshaped_view<other_shape>("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)"),
              Memory::reshaped_or_own),
    reshaped_view<other_shape>("view_as(Tensor(a) self, Tensor other) -> Tensor(a)"),
    in_memory(reshaped_view<flatten_shape>(
                  "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"),
              Memory::reshaped_or_own),
    in_memory(reshaped_view<ravel_shape>("ravel(Tensor(a) self) -> Tensor(a)"), Memory::contiguous_raveled),
    reshaped_view<unflatten_shape>("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"),
    resized_view<squeeze>("squeeze(Tensor(a) self) -> Tensor(a)"),
    resized_view<squeeze_dims>("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"),
    resized_view<squeeze_dims>("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"),
    fresh(resized_view<squeeze>("squeeze_copy(Tensor self) -> Tensor")),
    fresh(resized_view<squeeze_dims>("squeeze_copy.dim(Tensor self, int dim) -> Tensor")),
    fresh(resized_view<squeeze_dims>("squeeze_copy.dims(Tensor self, int[] dim) -> Tensor")),
    resized_view<unsqueeze>("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"),
    fresh(resized_view<unsqueeze>("unsqueeze_copy(Tensor self, int dim) -> Tensor")),
    reshaped_view<atleast_shape<1>>("atleast_1d(Tensor self) -> Tensor"),
    reshaped_view<atleast_shape<2>>("atleast_2d(Tensor self) -> Tensor"),
    reshaped_view<atleast_shape<3>>("atleast_3d(Tensor self) -> Tensor"),
    atleast_all<1>("atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]"),
    atleast_all<2>("atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]"),
    atleast_all<3>("atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]"),
};

}  // namespace

std::span<const OpRecord> view_reshape_ops() { return records; }

}  // namespace npusim
