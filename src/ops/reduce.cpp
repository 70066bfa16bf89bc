// Reductions to one value per row: sums, products, extremes, truth values, norms, moments.
#include "ops/reduce.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace npusim {
namespace {

// Terms that cancel leave a sum far smaller than what was rounded.
constexpr double sum_tolerance = 256;

constexpr auto sum = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::sum, x); };
// NaN is left out before it is converted.
void lower_nan_sum(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, reduced_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  k.store_row(lowering.output(0), k.reduce(Reduction::sum, converted(is_real(x) ? select(isnan(x), 0.0, x) : x, call)));
  k.done(kernel_name(call));
}
constexpr auto product = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::product, x); };
constexpr auto largest = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::max, x); };
constexpr auto smallest = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::min, x); };
// An empty row's extreme is its identity: no element is true, all are. As float32, the narrowest of numbers.
Ex truth(RowKernel& k, Ex x) {
  return is_real(x) ? k.select(x == 0, k.number(0), k.number(1)) : k.cast(k.cast(x, Scalar::boolean), Scalar::f32);
}
constexpr auto any = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::max, truth(k, x)) > 0; };
constexpr auto all = [](RowKernel& k, Ex x, const OpCall&) { return k.reduce(Reduction::min, truth(k, x)) > 0; };
constexpr auto count = [](RowKernel& k, Ex x, const OpCall&) {
  return k.reduce(Reduction::sum, k.cast(x, Scalar::boolean));
};

constexpr auto norm = [](RowKernel& k, Ex x, const OpCall& c) {
  const char* order = c.op->schema.find("p") >= 0 ? "p" : "ord";
  const double p = c.is_none(order) ? 2 : c.number(order);
  const Ex value = vector_norm(k, x, p);
  // An empty row's norm is 0, also where the reduction has no identity of its own.
  return k.size() == 0 && !(p < 0) ? k.number(0, value.type()) : value;
};
constexpr auto frobenius = [](RowKernel& k, Ex x, const OpCall&) { return vector_norm(k, x, 2); };

// The norm of the difference of broadcast operands.
std::vector<TensorType> infer_dist(const OpCall& call) {
  broadcast_shapes(call.type("self").shape, call.type("other").shape);
  return {{common_dtype(call), {}}};
}

void lower_dist(const OpCall& call, Lowering& lowering) {
  const Shape shape = broadcast_shapes(call.type("self").shape, call.type("other").shape);
  RowKernel k(lowering, shape, all_dims(shape.size()));
  const Ex x = k.load_broadcast_element(lowering.input(0)), y = k.load_broadcast_element(lowering.input(1));
  k.store_row(lowering.output(0), vector_norm(k, x - y, call.number("p")));
  k.done("dist");
}

std::vector<TensorType> infer_mean(const OpCall& call) {
  const std::vector<TensorType> result = infer_reduction(call);
  if (!is_float(result[0].dtype))
    fail(ErrorKind::bad_input, "{}: dtype {}: expected a floating one", call.op->name(), dtype_name(result[0].dtype));
  return result;
}

// Of what is added, unlike a sum's, nothing is rounded first: 16-bit dtypes are those of the result alone.
void lower_mean(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, reduced_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  const Ex sum = k.reduce(Reduction::sum, k.cast(x, scalar_of(call.outputs[0].dtype)));
  k.store_row(lowering.output(0), sum / k.size());
  k.done("mean");
}

constexpr OpRecord mean(std::string_view schema) {
  return in_memory(row_op(schema, infer_mean, lower_mean, sum_tolerance), Memory::row_major);
}

std::vector<TensorType> infer_extreme(const OpCall& call) {
  require_rows(call, reduced_dims(call));
  return infer_reduction(call);
}

// any.dims and all.dims reduce nothing when their list is empty, unlike every other reduction.
DimSet truth_dims(const OpCall& call) {
  const size_t rank = call.inputs[0]->shape.size();
  return !call.is_none("dim") && call.ints("dim").empty() ? DimSet(rank, false) : reduced_dims(call);
}

std::vector<TensorType> infer_truth_dims(const OpCall& call) {
  TensorType type = infer_truth(call)[0];
  type.shape = reduced_shape(call.inputs[0]->shape, truth_dims(call), keeps_dims(call));
  return {type};
}

template <auto meaning>
void lower_truth_dims(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, truth_dims(call));
  k.store_row(lowering.output(0), meaning(k, k.load_element(lowering.input(0)), call));
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_pair(const OpCall& call) {
  const TensorType type = infer_reduction(call)[0];
  return {type, type};
}

std::vector<TensorType> infer_min_max(const OpCall& call) {
  require_rows(call, reduced_dims(call));
  return infer_pair(call);
}

void lower_min_max(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, reduced_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  const Ex low = k.reduce(Reduction::min, x), high = k.reduce(Reduction::max, x);
  k.store_row(lowering.output(0), low);
  k.store_row(lowering.output(1), high);
  k.done("aminmax");
}

// How much less than the row's size the squared deviations are divided by.
double correction_of(const OpCall& call) {
  if (call.op->schema.find("unbiased") >= 0) return call.boolean("unbiased") ? 1 : 0;
  return call.is_none("correction") ? 1 : call.number("correction");
}

// Variance from the deviations of the mean (two passes), optionally its root, optionally the mean beside it.
template <bool root, bool with_mean>
void lower_moments(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, reduced_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  const auto size = static_cast<double>(k.size());
  const Ex average = k.reduce(Reduction::sum, x) / size;
  const Ex deviation = x - average;
  const double correction = correction_of(call), divisor = size > 0 && size > correction ? size - correction : 0;
  const Ex variance = k.reduce(Reduction::sum, deviation * deviation) / divisor;
  k.store_row(lowering.output(0), root ? sqrt(variance) : variance);
  if (with_mean) k.store_row(lowering.output(1), average);
  k.done(kernel_name(call));
}

template <bool root>
constexpr OpRecord moment(std::string_view schema) {
  return row_op(schema, infer_reduction, lower_moments<root, false>);
}
template <bool root>
constexpr OpRecord moments(std::string_view schema) {
  return row_op(schema, infer_pair, lower_moments<root, true>);
}

// Σ over bins: elements x with low <= x <= high, the last bin closed. low == high means the operand's own extremes.
std::vector<TensorType> infer_histogram(const OpCall& call) {
  if (call.integer("bins") < 1)
    fail(ErrorKind::bad_input, "aten.histc: bins must be positive, found {}", call.integer("bins"));
  return {{call.inputs[0]->dtype, {call.integer("bins")}}};
}

std::string refuse_histogram(const OpCall& call) {
  const double low = call.number("min"), high = call.number("max");
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
    return fmt::format("bins from min {} to max {}", low, high);
  return low == high ? "min equals max: the range would depend on the data" : "";
}

void lower_histogram(const OpCall& call, Lowering& lowering) {
  const TensorType counts{DType::i64, {call.integer("bins")}};
  const int none = lowering.temporary(counts), sums = lowering.temporary(counts);
  OpKernel zero(lowering, counts.shape);
  zero.store(zero.write(none), zero.integer(0));
  zero.done("zeros");
  OpKernel k(lowering, call.inputs[0]->shape);
  const int from = k.read(none);
  const double low = call.number("min"), high = call.number("max");
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const Ex real = is_real(x) ? x : k.cast(x, Scalar::f32);
  const auto bins = static_cast<double>(call.integer("bins"));
  const Ex inside = real >= low && real <= high;
  const Ex bin = min(k.cast(floor(select(inside, (real - low) * bins / (high - low), 0.0)), Scalar::i64),
                     call.integer("bins") - 1);
  const Coord at[] = {bin};
  k.store(k.write(sums, from), at, k.cast(inside, Scalar::i64), Reduction::sum);
  k.done("histc");
  OpKernel result(lowering, counts.shape);
  const Ex sum = result.load_broadcast(result.read(sums));
  result.store(result.write(lowering.output(0)), result.cast(sum, scalar_of(call.outputs[0].dtype)));
  result.done("counts");
}

constexpr OpRecord histogram(std::string_view schema) {
  OpRecord record = row_op(schema, infer_histogram, lower_histogram, 0);
  record.refuse = refuse_histogram;
  return record;
}

constexpr OpRecord records[] = {
    reduction<sum>("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", infer_sum, sum_tolerance),
    reduction<sum>("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
                   infer_sum, sum_tolerance),
    in_memory(row_op("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
                     infer_sum, lower_nan_sum, sum_tolerance),
              Memory::row_major),
    mean("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    mean("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),
    reduction<product>("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", infer_sum),
    reduction<product>("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
                       infer_sum),
    reduction<largest>("max(Tensor self) -> Tensor", infer_extreme, 0),
    reduction<smallest>("min(Tensor self) -> Tensor", infer_extreme, 0),
    reduction<largest>("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", infer_extreme, 0),
    reduction<smallest>("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", infer_extreme, 0),
    row_op("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", infer_min_max,
           lower_min_max, 0),
    reduction<any>("any(Tensor self) -> Tensor", infer_truth, 0),
    reduction<any>("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", infer_truth, 0),
    row_op("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", infer_truth_dims,
           lower_truth_dims<any>, 0),
    reduction<all>("all(Tensor self) -> Tensor", infer_truth, 0),
    reduction<all>("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", infer_truth, 0),
    row_op("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", infer_truth_dims,
           lower_truth_dims<all>, 0),
    reduction<count>("count_nonzero(Tensor self, int? dim=None) -> Tensor", infer_index, 0),
    reduction<count>("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", infer_index, 0),
    moment<false>("var(Tensor self, bool unbiased=True) -> Tensor"),
    moment<false>("var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    moment<false>(
        "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
    moment<true>("std(Tensor self, bool unbiased=True) -> Tensor"),
    moment<true>("std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    moment<true>(
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
    moments<false>("var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"),
    moments<false>(
        "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"),
    moments<false>("var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
                   "-> (Tensor, Tensor)"),
    moments<true>("std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"),
    moments<true>("std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"),
    moments<true>("std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
                  "-> (Tensor, Tensor)"),
    reduction<norm>("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", infer_reduction),
    reduction<norm>("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
                    infer_reduction),
    reduction<norm>("norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) "
                    "-> Tensor",
                    infer_reduction),
    reduction<norm>("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", infer_reduction),
    reduction<norm>("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
                    "ScalarType? dtype=None) -> Tensor",
                    infer_reduction),
    reduction<frobenius>("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", infer_reduction),
    row_op("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", infer_dist, lower_dist),
    histogram("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> reduce_ops() { return records; }

}  // namespace npusim
