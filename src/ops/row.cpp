// Rows of tensors: dimension sets, their shapes, and kernels over them.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

Shape space_of(const Shape& shape, const DimSet& row) {
  Shape space;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!row[d]) space.push_back(shape[d]);
  for (size_t d = 0; d < shape.size(); ++d)
    if (row[d]) space.push_back(shape[d]);
  if (std::find(row.begin(), row.end(), true) == row.end()) space.push_back(1);
  return space;
}

int row_dims_of(const DimSet& row) { return std::max(1, static_cast<int>(std::count(row.begin(), row.end(), true))); }

std::vector<TensorType> reduced(const OpCall& call, DType dtype) {
  return {{dtype, reduced_shape(call.inputs[0]->shape, reduced_dims(call), keeps_dims(call))}};
}

DType declared_dtype(const OpCall& call) {
  const DType own = call.inputs[0]->dtype;
  return call.op->schema.find("dtype") >= 0 ? call.dtype("dtype").value_or(own) : own;
}

bool has_dtype(const OpCall& call) { return call.op->schema.find("dtype") >= 0 && call.dtype("dtype").has_value(); }

}  // namespace

DimSet one_dim(int64_t dim, size_t rank) {
  DimSet set(rank, false);
  const auto at = static_cast<size_t>(normalize_dim(dim, rank));
  if (rank) set[at] = true;
  return set;
}

DimSet all_dims(size_t rank) { return DimSet(rank, true); }

DimSet last_dims(size_t count, size_t rank) {
  DimSet set(rank, false);
  std::fill(set.end() - static_cast<std::ptrdiff_t>(count), set.end(), true);
  return set;
}

DimSet dims_of(const OpCall& call, std::string_view arg, size_t rank) {
  const std::vector<int64_t> dims = call.ints(arg);
  if (dims.empty()) return all_dims(rank);
  DimSet set(rank, false);
  for (int64_t dim : dims) {
    const auto at = static_cast<size_t>(normalize_dim(dim, rank));
    if (rank == 0) continue;
    if (set[at]) fail(ErrorKind::bad_input, "{}: dimension {} is named twice", call.op->name(), dim);
    set[at] = true;
  }
  return set;
}

Shape reduced_shape(const Shape& shape, const DimSet& dims, bool keepdim) {
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!dims[d])
      result.push_back(shape[d]);
    else if (keepdim)
      result.push_back(1);
  }
  return result;
}

int64_t row_size(const Shape& shape, const DimSet& dims) {
  int64_t size = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (dims[d]) size *= shape[d];
  return size;
}

RowKernel::RowKernel(Lowering& lowering, const Shape& shape, const DimSet& row)
    : OpKernel(lowering, space_of(shape, row), row_dims_of(row)),
      shape_(shape),
      row_(row),
      size_(row_size(shape, row)) {
  int next_other = 0, next_row = static_cast<int>(std::count(row.begin(), row.end(), false));
  for (size_t d = 0; d < shape.size(); ++d) dim_.push_back(dim(row[d] ? next_row++ : next_other++));
}

std::vector<Coord> RowKernel::element() const {
  std::vector<Coord> at;
  for (const Affine& a : dim_) at.emplace_back(a);
  return at;
}

Ex RowKernel::load_element(int operand) { return load(read(operand), element()); }

Ex RowKernel::load_broadcast_element(int operand) {
  const int arg = read(operand);
  const Shape& own = shape(arg);
  std::vector<Coord> at;
  for (size_t d = 0; d < own.size(); ++d) {
    if (own[d] == 1)
      at.emplace_back(int64_t{0});
    else
      at.emplace_back(dim_[dim_.size() - own.size() + d]);
  }
  return load(arg, at);
}

Ex RowKernel::load_row(int operand) {
  std::vector<Coord> at;
  for (size_t d = 0; d < dim_.size(); ++d)
    if (row_[d]) at.emplace_back(dim_[d]);
  return load(read(operand), at);
}

void RowKernel::store_element(int operand, Ex x) {
  const int arg = write(operand);
  store(arg, element(), x);
}

void RowKernel::store_row(int operand, Ex x) {
  const int arg = write(operand);
  const bool keepdim = shape(arg).size() == shape_.size();
  std::vector<Coord> at;
  for (size_t d = 0; d < dim_.size(); ++d) {
    if (!row_[d])
      at.emplace_back(dim_[d]);
    else if (keepdim)
      at.emplace_back(int64_t{0});
  }
  store(arg, at, x);
}

Ex RowKernel::row_index() {
  Affine sum;
  for (size_t d = 0; d < dim_.size(); ++d)
    if (row_[d]) sum = sum * shape_[d] + dim_[d];
  return value(sum);
}

Ex vector_norm(KernelBuilder& k, Ex x, double p) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Ex real = is_real(x) ? x : k.cast(x, Scalar::f32);
  if (p != 0 && k.has_one_in_row()) return k.reduce(Reduction::sum, abs(real));  // as in ATen: whose power is no float
  if (p == 2) return sqrt(k.reduce(Reduction::sum, real * real));                // a square is the same of either sign
  const Ex size = abs(real);
  if (p == infinity) return k.reduce(Reduction::max, size);
  if (p == -infinity) return k.reduce(Reduction::min, size);
  if (p == 0) return k.reduce(Reduction::sum, k.cast(size != 0, size.type()));
  if (p == 1) return k.reduce(Reduction::sum, size);
  return pow(k.reduce(Reduction::sum, pow(size, p)), 1 / p);
}

Ex converted(Ex x, const OpCall& call) {
  if (!has_dtype(call)) return x;
  const DType dtype = *call.dtype("dtype");
  if (!is_float(dtype)) return x.builder->round_to(x, dtype);
  const Ex real = x.builder->cast(x, scalar_of(dtype));
  return dtype_size(dtype) == 2 && call.inputs[0]->dtype != dtype ? x.builder->round_to(real, dtype) : real;
}

bool keeps_dims(const OpCall& call) { return call.op->schema.find("keepdim") >= 0 && call.boolean("keepdim"); }

DimSet reduced_dims(const OpCall& call) {
  const size_t rank = call.inputs[0]->shape.size();
  return call.op->schema.find("dim") >= 0 ? dims_of(call, "dim", rank) : all_dims(rank);
}

std::vector<TensorType> infer_reduction(const OpCall& call) { return reduced(call, declared_dtype(call)); }

std::vector<TensorType> infer_sum(const OpCall& call) {
  const DType dtype = declared_dtype(call);
  return reduced(call, is_float(dtype) || has_dtype(call) ? dtype : DType::i64);
}

std::vector<TensorType> infer_real_reduction(const OpCall& call) {
  const DType dtype = declared_dtype(call);
  return reduced(call, is_float(dtype) ? dtype : DType::f32);
}

std::vector<TensorType> infer_truth(const OpCall& call) {
  return reduced(call, call.inputs[0]->dtype == DType::u8 ? DType::u8 : DType::boolean);
}

std::vector<TensorType> infer_index(const OpCall& call) { return reduced(call, DType::i64); }

void require_rows(const OpCall& call, const DimSet& dims) {
  const Shape& shape = call.inputs[0]->shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (dims[d] && shape[d] == 0)
      fail(ErrorKind::bad_input, "{}: no identity for the empty dimension {} of {}", call.op->name(), d,
           to_string(shape));
}

}  // namespace npusim
