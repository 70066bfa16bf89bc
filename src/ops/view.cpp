// Copy kernels of views.
#include "ops/view.h"

#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"

namespace npusim {

Affine along(int d) {
  Affine a;
  a.coeffs.assign(static_cast<size_t>(d) + 1, 0);
  a.coeffs.back() = 1;
  return a;
}

std::vector<Affine> identity_coordinates(size_t rank) {
  std::vector<Affine> at;
  for (size_t d = 0; d < rank; ++d) at.push_back(along(d));
  return at;
}

std::vector<Coord> coordinates(const std::vector<Affine>& at) { return {at.begin(), at.end()}; }

ViewMap identity_map(const Shape& shape) { return {shape, identity_coordinates(shape.size())}; }

size_t dim_argument(const OpCall& call, std::string_view arg, size_t rank) {
  return static_cast<size_t>(normalize_dim(call.integer(arg), rank));
}

std::vector<size_t> dim_list(const OpCall& call, std::string_view arg, size_t rank) {
  std::vector<size_t> dims;
  for (int64_t d : call.ints(arg)) {
    const auto dim = static_cast<size_t>(normalize_dim(d, rank));
    if (std::find(dims.begin(), dims.end(), dim) != dims.end())
      fail(ErrorKind::bad_input, "{}: {} names dimension {} twice", call.op->name(), arg, dim);
    dims.push_back(dim);
  }
  return dims;
}

void lower_map(Lowering& lowering, std::string name, const ViewMap& map, int from, int to) {
  OpKernel k(lowering, map.to.empty() ? map.shape : map.space);
  const Ex x = k.load(k.read(from), coordinates(map.from));
  const int result = k.write(to);
  if (map.to.empty())
    k.store(result, x);
  else
    k.store(result, coordinates(map.to), x);
  k.done(std::move(name));
}

void lower_flat(Lowering& lowering, std::string name, int from, int to) {
  OpKernel k(lowering, {element_count(lowering.type(from).shape)});
  const Ex x = k.load_flat(k.read(from));
  k.store_flat(k.write(to), x);
  k.done(std::move(name));
}

void lower_copy(Lowering& lowering, std::string name,
                const std::function<std::vector<Coord>(const KernelBuilder&)>& coordinates, int operand, int result) {
  OpKernel k(lowering, lowering.type(lowering.output(result)).shape);
  const int from = k.read(lowering.input(operand));
  const Ex x = k.load(from, coordinates(k));
  k.store(k.write(lowering.output(result)), x);
  k.done(std::move(name));
}

void lower_reshape(Lowering& lowering, std::string name, int operand, int result) {
  lower_flat(lowering, std::move(name), lowering.input(operand), lowering.output(result));
}

std::vector<TensorType> types_of(const OpCall& call, const ViewMaps& maps) {
  std::vector<TensorType> types;
  for (const ViewMap& map : maps) types.push_back({call.inputs[0]->dtype, map.shape});
  return types;
}

void lower_maps(const OpCall& call, Lowering& lowering, const ViewMaps& maps) {
  for (size_t i = 0; i < maps.size(); ++i)
    lower_map(lowering, kernel_name(call), maps[i], lowering.input(0), lowering.output(static_cast<int>(i)));
}

}  // namespace npusim
