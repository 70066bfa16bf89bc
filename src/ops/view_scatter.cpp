// A copy of self in which the part a view would see is replaced: slice_scatter, select_scatter and their kind.
#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"
#include "ops/placement.h"

namespace npusim {
namespace {

template <ViewMap (*seen)(const OpCall&)>
std::vector<TensorType> infer_view_scatter(const OpCall& call) {
  const Shape wanted = seen(call).shape;
  if (call.type("src").shape != wanted)
    fail(ErrorKind::bad_input, "{}: src must be {}, found {}", call.op->name(), to_string(wanted),
         to_string(call.type("src")));
  return {call.type("self")};
}

template <ViewMap (*seen)(const OpCall&)>
void lower_view_scatter(const OpCall& call, Lowering& lowering) {
  const ViewMap map = seen(call);
  const int target = in_result_dtype(lowering, lowering.input(0));
  OpKernel k(lowering, map.shape);
  const int from = k.read(target);
  const Ex x = k.load_broadcast(k.read(lowering.input(call.tensor("src"))));
  k.store(k.write(lowering.output(0), from), coordinates(map.from), x);
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_strided_scatter(const OpCall& call) {
  const Shape size = call.ints("size");
  strided_placement(call, 0);
  if (call.type("src").shape != size)
    fail(ErrorKind::bad_input, "{}: src must be {}, found {}", call.op->name(), to_string(size),
         to_string(call.type("src")));
  return {call.type("self")};
}

// Of a self that is the whole of its memory, row-major: functionalize leaves no other.
void lower_strided_scatter(const OpCall& call, Lowering& lowering) {
  const Strides element = strided_placement(call, 0);
  if (!fits_memory(element, call.ints("size"), element_count(call.type("self").shape)))
    fail(ErrorKind::bad_input, "{}: {} with strides {} from {} leaves {}", call.op->name(),
         to_string(call.ints("size")), to_string(element.strides), element.offset, to_string(call.type("self")));
  const TensorType flat_type{call.outputs[0].dtype, {element_count(call.outputs[0].shape)}};
  const int flat = lowering.temporary(flat_type), updated = lowering.temporary(flat_type);
  lower_flat(lowering, "view", lowering.input(0), flat);
  OpKernel k(lowering, call.ints("size"));
  const int from = k.read(flat);
  const Ex x = k.load_broadcast(k.read(lowering.input(call.tensor("src"))));
  const Coord at[] = {Affine{element.strides, element.offset}};
  k.store(k.write(updated, from), at, x);
  k.done("as_strided_scatter");
  lower_flat(lowering, "view", updated, lowering.output(0));
}

template <ViewMap (*seen)(const OpCall&)>
constexpr OpRecord scatter(std::string_view schema) {
  return indexed(schema, infer_view_scatter<seen>, lower_view_scatter<seen>);
}

constexpr OpRecord records[] = {
    scatter<slice_map>("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
                       "step=1) -> Tensor"),
    scatter<select_map>("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"),
    scatter<diagonal_map>("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"),
    in_memory(indexed("as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
                      "SymInt? storage_offset=None) -> Tensor",
                      infer_strided_scatter, lower_strided_scatter),
              Memory::strided_scatter),
};

}  // namespace

std::span<const OpRecord> view_scatter_ops() { return records; }

}  // namespace npusim
