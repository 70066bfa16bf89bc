// What ops along dimensions share: a kernel whose row holds the dimensions that are reduced, normalised or scanned.
#pragma once
#include "ops/formula.h"

namespace npusim {

// Which dimensions of a tensor form the row.
using DimSet = std::vector<bool>;
// Of the attribute `arg` (an integer, a list, or None); None and an empty list are all dimensions.
DimSet dims_of(const OpCall& call, std::string_view arg, size_t rank);
DimSet one_dim(int64_t dim, size_t rank);
DimSet all_dims(size_t rank);
DimSet last_dims(size_t count, size_t rank);
// The shape without the dimensions of the set, or with 1 instead of them.
Shape reduced_shape(const Shape& shape, const DimSet& dims, bool keepdim);
int64_t row_size(const Shape& shape, const DimSet& dims);

// A kernel over a tensor's elements: the space is its other dimensions in order, then the row's in order. A row of no
// dimensions gets one of extent 1, so that every such kernel has a row.
class RowKernel : public OpKernel {
 public:
  RowKernel(Lowering& lowering, const Shape& shape, const DimSet& row);
  Ex load_element(int operand);            // of an operand with the tensor's shape
  Ex load_broadcast_element(int operand);  // of an operand that broadcasts to that shape
  Ex load_row(int operand);                // of an operand shaped like the row alone
  void store_element(int operand, Ex x);   // one per element, into the tensor's shape
  void store_row(int operand, Ex x);       // one per row, into the reduced shape with or without its dimensions
  Ex row_index();                          // row-major position within the row
  Affine position(size_t dim) const { return dim_[dim]; }  // the index along dimension `dim` of the tensor
  int64_t size() const { return size_; }                   // elements of a row

 private:
  std::vector<Coord> element() const;
  Shape shape_;
  DimSet row_;
  std::vector<Affine> dim_;
  int64_t size_;
};

// (Σ |x|^p)^(1/p) along the row, with ATen's limits for p = 0 and ±infinity.
Ex vector_norm(KernelBuilder& k, Ex x, double p);
// x as ATen's `dtype` argument has it: converted, to 16 bits with what they round, before anything is computed.
Ex converted(Ex x, const OpCall& call);

// A reduction with one result. `meaning` is (RowKernel&, Ex element, const OpCall&) -> Ex, the same along the row.
std::vector<TensorType> infer_reduction(const OpCall& call);       // dtype of self, or the dtype attribute
std::vector<TensorType> infer_sum(const OpCall& call);             // the same, but integers become i64
std::vector<TensorType> infer_real_reduction(const OpCall& call);  // the same, but integers become f32
std::vector<TensorType> infer_truth(const OpCall& call);           // bool, but u8 stays u8
std::vector<TensorType> infer_index(const OpCall& call);           // i64
// Rows of extremes must have elements: throws bad_input.
void require_rows(const OpCall& call, const DimSet& dims);
// The dimensions the call reduces: `dim` when the schema has it, else all.
DimSet reduced_dims(const OpCall& call);
bool keeps_dims(const OpCall& call);

template <auto meaning>
void lower_reduction(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, reduced_dims(call));
  const Ex x = converted(k.load_element(lowering.input(0)), call);
  k.store_row(lowering.output(0), meaning(k, x, call));
  k.done(kernel_name(call));
}

// Small deviations of a large mean lose what the mean was rounded by.
inline constexpr double norm_tolerance = 64;

constexpr OpRecord row_op(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                          void (*lower)(const OpCall&, Lowering&), double tolerance = 16) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::reduce;
  record.infer = infer;
  record.lower = lower;
  record.tolerance = tolerance;
  return record;
}

template <auto meaning>
constexpr OpRecord reduction(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                             double tolerance = 16) {
  OpRecord record = row_op(schema, infer, lower_reduction<meaning>, tolerance);
  record.memory = Memory::row_major;
  return record;
}

}  // namespace npusim
