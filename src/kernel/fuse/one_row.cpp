// Finding the dimension that runs along the rows, in the space and in every operand, and taking it out.
#include "kernel/fuse/one_row.h"

#include <algorithm>

#include "kernel/fuse/index_map.h"
#include "kernel/fuse/simplify.h"
#include "kernel/fuse/substitute.h"

namespace npusim {
namespace {

// The dimensions [outer, extent, stride] that are longer than 1; `at` is the index of the middle one.
struct RowDims {
  StoredDims stored;
  size_t at = 0;
};
std::optional<RowDims> row_dims(int64_t elements, const Rows& rows) {
  const int64_t block = rows.stride * rows.extent;
  if (rows.stride < 1 || rows.extent < 2 || elements < block || elements % block != 0) return std::nullopt;
  RowDims dims;
  const auto add = [&](int64_t stride, int64_t extent) {
    if (extent == 1) return;
    dims.stored.dims.push_back(dims.stored.dims.size());
    dims.stored.strides.push_back(stride);
    dims.stored.extents.push_back(extent);
  };
  add(block, elements / block);
  dims.at = dims.stored.dims.size();
  add(rows.stride, rows.extent);
  add(1, rows.stride);
  return dims;
}

// The strides of one row by itself.
std::vector<int64_t> without_row(const RowDims& dims, const Rows& rows) {
  std::vector<int64_t> strides = dims.stored.strides;
  for (size_t i = 0; i < dims.at; ++i) strides[i] /= rows.extent;
  strides[dims.at] = 0;
  return strides;
}

class RowTaker {
 public:
  RowTaker(const BoundKernel& bound, int value, const Rows& rows, const RowNumber& number)
      : out_(bound), k_(out_.kernel), value_(value), rows_(rows), number_(number) {}

  std::optional<OneRow> run() {
    if (k_.stores.size() != 1 || k_.stores[0].accumulate) return std::nullopt;
    if (k_.contraction && k_.contraction->kind != ContractionKind::matmul) return std::nullopt;
    for (const KernelArg& arg : k_.args)
      if (arg.updates >= 0) return std::nullopt;
    if (find_arg(out_, value_, true) != k_.stores[0].access.arg) return std::nullopt;
    for (int rounds = 0; rounds <= 64; ++rounds) {
      split_.reset();
      operands_.clear();
      if (find_dim() && find_operands()) return take();
      if (!split_ || !may_split(k_, split_->dim)) return std::nullopt;
      split_dim(k_, split_->dim, split_->inner);
    }
    return std::nullopt;
  }

 private:
  std::vector<int64_t> all_dims() const {
    std::vector<int64_t> dims = k_.space;
    if (k_.contraction) dims.insert(dims.end(), k_.contraction->reduce.begin(), k_.contraction->reduce.end());
    return dims;
  }

  // The dimension of the space that the access's rows run along, and nothing else does.
  std::optional<size_t> dim_of(const Access& access, const std::vector<int64_t>& extents, const RowDims& dims) {
    const auto map = map_access(access, extents, dims.stored, split_);
    if (!map) return std::nullopt;
    const MappedIndex& row = (*map)[dims.at];
    if (row.guarded || row.term >= 0 || row.offset != 0) return std::nullopt;
    std::optional<size_t> found;
    for (size_t d = 0; d < row.coeffs.size(); ++d) {
      if (row.coeffs[d] == 0) continue;
      if (found || row.coeffs[d] != 1 || extents[d] != rows_.extent) return std::nullopt;
      found = d;
    }
    return found;
  }

  bool find_dim() {
    const Access& store = k_.stores[0].access;
    const auto dims = row_dims(k_.args[static_cast<size_t>(store.arg)].elements, rows_);
    if (!dims) return false;
    const auto found = dim_of(store, k_.space, *dims);
    if (!found || *found >= k_.space.size() - static_cast<size_t>(k_.row_dims)) return false;
    dim_ = *found;
    return true;
  }

  // By argument: the rows of those that vary along the dimension.
  bool find_operands() {
    bool ok = true;
    each_access([&](Access& access, const std::vector<int64_t>& extents) { ok = ok && find_operand(access, extents); });
    return ok;
  }

  bool find_operand(const Access& access, const std::vector<int64_t>& extents) {
    for (const Guard& guard : access.guards)
      if (guard.coeffs[dim_] != 0) return false;
    const int64_t stride = access.strides[dim_];
    const auto [known, fresh] = operands_.try_emplace(access.arg, Rows{stride, rows_.extent});
    if (known->second.stride != stride) return false;
    if (stride == 0) return true;
    const auto dims = row_dims(k_.args[static_cast<size_t>(access.arg)].elements, known->second);
    return dims && dim_of(access, extents, *dims) == dim_;
  }

  template <typename Visit>
  void each_access(const Visit& visit) {
    for (Access& access : k_.accesses) visit(access, k_.space);
    if (!k_.contraction) return;
    auto contraction = std::make_shared<Contraction>(*k_.contraction);
    const std::vector<int64_t> dims = all_dims();
    visit(contraction->a, dims);
    visit(contraction->b, dims);
    k_.contraction = std::move(contraction);
  }

  void take_row(Access& access, const std::vector<int64_t>& extents, const Rows& rows) {
    const auto dims = row_dims(k_.args[static_cast<size_t>(access.arg)].elements, rows);
    access = restride(access, extents, dims->stored, without_row(*dims, rows));
  }

  OneRow take() {
    OneRow result;
    each_access([&](Access& access, const std::vector<int64_t>& extents) {
      if (const Rows& rows = operands_.at(access.arg); rows.stride != 0) take_row(access, extents, rows);
    });
    Access& store = k_.stores[0].access;
    take_row(store, k_.space, rows_);
    k_.args[static_cast<size_t>(store.arg)].elements /= rows_.extent;
    for (const auto& [arg, rows] : operands_) {
      if (rows.stride == 0) continue;
      k_.args[static_cast<size_t>(arg)].elements /= rows.extent;
      result.rows.emplace(out_.values[static_cast<size_t>(arg)], rows);
    }
    load_index();
    k_.space[dim_] = 1;
    order_args(out_);
    simplify(out_);
    result.kernel = std::move(out_);
    return result;
  }

  // Where the kernel asks which row it is.
  void load_index() {
    const auto is_row = [&](const Expr& e) { return e.op == ExprOp::index && static_cast<size_t>(e.integer) == dim_; };
    if (number_.value < 0) {
      for (Expr& e : k_.exprs)
        if (is_row(e)) e = {.op = ExprOp::constant, .type = Scalar::i64, .integer = number_.known};
      return;
    }
    if (std::none_of(k_.exprs.begin(), k_.exprs.end(), is_row)) return;
    Access access;
    access.arg = add_arg(out_, {DType::i64, 1, false, -1}, number_.value);
    access.strides.assign(k_.space.size(), 0);
    for (Expr& e : k_.exprs)
      if (is_row(e)) {
        e = {.op = ExprOp::load, .type = Scalar::i64};
        e.integer = static_cast<int64_t>(k_.accesses.size());
      }
    k_.accesses.push_back(std::move(access));
  }

  BoundKernel out_;
  Kernel& k_;
  int value_;
  Rows rows_;
  RowNumber number_;
  size_t dim_ = 0;
  std::map<int, Rows> operands_;  // by argument; stride 0: all of it
  std::optional<SplitRequest> split_;
};

}  // namespace

std::optional<OneRow> one_row(const BoundKernel& bound, int value, const Rows& rows, const RowNumber& number) {
  return RowTaker(bound, value, rows, number).run();
}

std::optional<int64_t> copied_row(const Kernel& copy, const Rows& rows) {
  const Store& store = copy.stores[0];
  const Access& load = copy.accesses[static_cast<size_t>(copy.exprs[static_cast<size_t>(store.expr)].integer)];
  const int64_t elements = copy.args[static_cast<size_t>(store.access.arg)].elements;
  const auto dims = row_dims(copy.args[static_cast<size_t>(load.arg)].elements, rows);
  if (!dims || elements * rows.extent != copy.args[static_cast<size_t>(load.arg)].elements ||
      element_count(copy.space) != elements)
    return std::nullopt;
  std::optional<SplitRequest> split;
  const auto map = map_access(load, copy.space, dims->stored, split);
  if (!map) return std::nullopt;
  const MappedIndex& row = (*map)[dims->at];
  if (std::any_of(row.coeffs.begin(), row.coeffs.end(), [](int64_t c) { return c != 0; })) return std::nullopt;
  const Access within = restride(load, copy.space, dims->stored, without_row(*dims, rows));
  if (within.offset != store.access.offset) return std::nullopt;
  for (size_t d = 0; d < copy.space.size(); ++d)
    if (copy.space[d] > 1 && within.strides[d] != store.access.strides[d]) return std::nullopt;
  return row.offset;
}

}  // namespace npusim
