// What views and rearrangements share: a map from the result's elements to the operand's, which is the whole meaning.
//
// A view is a copy kernel, which lowering turns into strides of its readers.
#pragma once
#include <functional>

#include "ops/op.h"

namespace npusim {

// result[to(i)] = operand[from(i)] for every index i of `space`; every coordinate stays in bounds.
struct ViewMap {
  Shape shape;               // of the result
  std::vector<Affine> from;  // one coordinate per dimension of the operand
  Shape space = {};          // the result's shape where `to` is empty: the coordinates of the result are its index
  std::vector<Affine> to = {};
};
using ViewMaps = std::vector<ViewMap>;  // one per result

// The index along dimension d, of extent not known yet.
Affine along(int d);
inline Affine along(size_t d) { return along(static_cast<int>(d)); }
// along(0), along(1), …
std::vector<Affine> identity_coordinates(size_t rank);
std::vector<Coord> coordinates(const std::vector<Affine>& at);
// The map that changes nothing.
ViewMap identity_map(const Shape& shape);
// A dimension argument of an operand of this rank, as a position.
size_t dim_argument(const OpCall& call, std::string_view arg, size_t rank);
// The same for a list; throws where one dimension is named twice.
std::vector<size_t> dim_list(const OpCall& call, std::string_view arg, size_t rank);

// What slice.Tensor, select.int and diagonal see of their operand (view_slice.cpp, view_affine.cpp).
ViewMap slice_map(const OpCall& call);
ViewMap select_map(const OpCall& call);
ViewMap diagonal_map(const OpCall& call);

// Appends the copy kernel from operand to operand of the lowering.
void lower_map(Lowering& lowering, std::string name, const ViewMap& map, int from, int to);
// The same elements in the same order under another shape.
void lower_flat(Lowering& lowering, std::string name, int from, int to);

// The same for one result of one operand of the call, by position.
void lower_copy(Lowering& lowering, std::string name,
                const std::function<std::vector<Coord>(const KernelBuilder&)>& coordinates, int operand = 0,
                int result = 0);
void lower_reshape(Lowering& lowering, std::string name, int operand = 0, int result = 0);

std::vector<TensorType> types_of(const OpCall& call, const ViewMaps& maps);
void lower_maps(const OpCall& call, Lowering& lowering, const ViewMaps& maps);

constexpr OpRecord view(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                        void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::view;
  record.infer = infer;
  record.lower = lower;
  record.tolerance = 0;
  return record;
}

// `maps(call)` says what each result is of the first operand.
template <auto maps>
constexpr OpRecord mapped_view(std::string_view schema) {
  OpRecord record = view(
      schema, [](const OpCall& call) { return types_of(call, maps(call)); },
      [](const OpCall& call, Lowering& lowering) { lower_maps(call, lowering, maps(call)); });
  record.memory = Memory::mapped;
  record.maps = maps;
  return record;
}

// `shape(call)` is the result's; the elements stay in their order.
template <auto shape>
constexpr OpRecord reshaped_view(std::string_view schema) {
  OpRecord record = view(
      schema,
      [](const OpCall& call) {
        return std::vector<TensorType>{{call.inputs[0]->dtype, shape(call)}};
      },
      [](const OpCall& call, Lowering& lowering) {
        lower_reshape(lowering, std::string(call.op->name()).substr(5, call.op->name().rfind('.') - 5));
      });
  record.memory = Memory::reshaped;
  return record;
}

// The same meaning, but the result is memory of its own.
constexpr OpRecord fresh(OpRecord record) { return in_memory(record, Memory::dense); }

}  // namespace npusim
