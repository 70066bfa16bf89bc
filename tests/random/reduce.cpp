// Reductions, scans, orders, normalizations and pooling.
#include <algorithm>

#include "random/maker.h"

namespace npusim::test {
namespace {

std::vector<int64_t> dims_of(Maker& m, ValueId x) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < m.rank(x); ++d)
    if (m.chance(d + 1 == m.rank(x) ? 65 : 30)) dims.push_back(m.chance(30) ? d - m.rank(x) : d);
  if (dims.empty()) dims.push_back(-1);
  return dims;
}

bool reduce(Maker& m) {
  static const std::vector<std::string> lists{"aten.sum.dim_IntList",
                                              "aten.sum.dim_IntList",
                                              "aten.mean.dim",
                                              "aten.mean.dim",
                                              "aten.amax.default",
                                              "aten.amin.default",
                                              "aten.var.correction",
                                              "aten.std.dim",
                                              "aten.logsumexp.default",
                                              "aten.nansum.default",
                                              "aten.linalg_vector_norm.default"};
  static const std::vector<std::string> ones{"aten.prod.dim_int",   "aten.any.dim",        "aten.all.dim",
                                             "aten.argmax.default", "aten.argmin.default", "aten.max.dim",
                                             "aten.min.dim"};
  static const std::vector<std::string> whole{"aten.sum.default",  "aten.mean.default",   "aten.max.default",
                                              "aten.min.default",  "aten.any.default",    "aten.all.default",
                                              "aten.prod.default", "aten.argmax.default", "aten.count_nonzero.default"};
  const ValueId integers = m.chance(15) ? m.some([](const TensorType& t) { return !is_float(t.dtype); }) : no_value;
  const ValueId x = integers != no_value ? integers : m.floats(1);
  switch (m.pick(5)) {
    case 0:
      return !m.call(m.choose(whole), {x}).empty();
    case 1:
      return !m.call(m.choose(ones), {x}, {{"dim", m.dim(m.shape_of(x))}, {"keepdim", m.chance(50)}}).empty();
    default:
      return !m.call(m.choose(lists), {x}, {{"dim", dims_of(m, x)}, {"keepdim", m.chance(50)}}).empty();
  }
}

bool scan(Maker& m) {
  static const std::vector<std::string> names{"aten.cumsum.default", "aten.cumsum.default", "aten.cumprod.default",
                                              "aten.logcumsumexp.default", "aten.cummax.default"};
  const ValueId integers = m.chance(20) ? m.some([](const TensorType& t) { return is_integer(t.dtype); }) : no_value;
  const ValueId x = integers != no_value ? integers : m.floats(1);
  return !m.call(m.choose(names), {x}, {{"dim", m.dim(m.shape_of(x))}}).empty();
}

bool order(Maker& m) {
  const ValueId x = m.floats(1);
  const int64_t dim = m.dim(m.shape_of(x));
  switch (m.pick(3)) {
    case 0:
      return !m.call("aten.sort.stable", {x}, {{"stable", true}, {"dim", dim}, {"descending", m.chance(50)}}).empty();
    case 1: {
      const int64_t n = m.shape_of(x)[static_cast<size_t>(dim < 0 ? dim + m.rank(x) : dim)];
      return n > 0 && !m.call("aten.topk.default", {x}, {{"k", 1 + m.pick(n)}, {"dim", dim}}).empty();
    }
    default:
      return !m.call("aten.median.dim", {x}, {{"dim", dim}, {"keepdim", m.chance(50)}}).empty();
  }
}

bool softmax(Maker& m) {
  const ValueId x = m.floats(1);
  const int64_t dim = m.chance(70) ? -1 : m.dim(m.shape_of(x));
  if (m.chance(60))
    return m.one(m.chance(70) ? "aten.softmax.int" : "aten.log_softmax.int", {x}, {{"dim", dim}}) != no_value;
  const ValueId top = m.one("aten.amax.default", {x}, {{"dim", std::vector<int64_t>{dim}}, {"keepdim", true}});
  const ValueId low = top == no_value ? top : m.one("aten.sub.Tensor", {x, top});
  const ValueId e = low == no_value ? low : m.one("aten.exp.default", {low});
  const ValueId sum =
      e == no_value ? e : m.one("aten.sum.dim_IntList", {e}, {{"dim", std::vector<int64_t>{dim}}, {"keepdim", true}});
  return sum != no_value && m.one("aten.div.Tensor", {e, sum}) != no_value;
}

bool norm(Maker& m) {
  const ValueId x = m.floats(1);
  const Shape shape = m.shape_of(x);
  const Shape last{shape.back()};
  const auto parameter = [&](const Shape& s) { return m.chance(70) ? Operand(m.given_float(s, true)) : Operand(); };
  switch (m.pick(5)) {
    case 0:
      return m.one("aten.layer_norm.default", {x, parameter(last), parameter(last)}, {{"normalized_shape", last}}) !=
             no_value;
    case 1:
      return !m.call("aten.native_layer_norm.default", {x, parameter(last), parameter(last)},
                     {{"normalized_shape", last}, {"eps", 1e-5}})
                  .empty();
    case 2:
      return m.one("aten.rms_norm.default", {x, parameter(last)}, {{"normalized_shape", last}, {"eps", 1e-6}}) !=
             no_value;
    case 3: {
      const ValueId image = m.floats(3, 4);
      const int64_t c = m.shape_of(image)[1];
      return m.one("aten.group_norm.default", {image, parameter({c}), parameter({c})},
                   {{"num_groups", c % 2 ? int64_t{1} : int64_t{2}}}) != no_value;
    }
    default: {
      const ValueId square = m.chance(50) ? m.one("aten.pow.Tensor_Scalar", {x}, {{"exponent", int64_t{2}}})
                                          : m.one("aten.mul.Tensor", {x, x});
      if (square == no_value) return false;
      const ValueId mean = m.one("aten.mean.dim", {square}, {{"dim", std::vector<int64_t>{-1}}, {"keepdim", true}});
      const ValueId plus = mean == no_value ? mean : m.one("aten.add.Tensor", {mean, number_operand(1e-6)});
      const ValueId scale = plus == no_value ? plus : m.one("aten.rsqrt.default", {plus});
      const ValueId y = scale == no_value ? scale : m.one("aten.mul.Tensor", {x, scale});
      return y != no_value && m.one("aten.mul.Tensor", {y, m.given_float(last, true)}) != no_value;
    }
  }
}

bool pool(Maker& m) {
  const ValueId x = m.floats(3, 4);
  const bool flat = m.rank(x) == 3;
  const size_t spatial = flat ? 1 : 2;
  const auto list = [&](int64_t low, int64_t high) {
    std::vector<int64_t> values;
    while (values.size() < spatial) values.push_back(low + m.pick(high - low + 1));
    return values;
  };
  const std::vector<int64_t> kernel = list(1, 3), stride = list(1, 2);
  const std::vector<int64_t> padding(spatial, *std::min_element(kernel.begin(), kernel.end()) > 1 ? m.pick(2) : 0);
  switch (m.pick(3)) {
    case 0:
      return !m.call(flat ? "aten.max_pool1d.default" : "aten.max_pool2d_with_indices.default", {x},
                     {{"kernel_size", kernel}, {"stride", stride}, {"padding", padding}, {"ceil_mode", m.chance(30)}})
                  .empty();
    case 1:
      return m.one(flat ? "aten.avg_pool1d.default" : "aten.avg_pool2d.default", {x},
                   {{"kernel_size", kernel},
                    {"stride", stride},
                    {"padding", padding},
                    {"count_include_pad", m.chance(50)}}) != no_value;
    default:
      return m.one(flat ? "aten.adaptive_avg_pool1d.default" : "aten.adaptive_avg_pool2d.default", {x},
                   {{"output_size", list(1, 3)}}) != no_value;
  }
}

}  // namespace

std::vector<Action> reduce_actions() {
  return {{"reduce", 9, reduce},   {"scan", 3, scan}, {"order", 2, order},
          {"softmax", 3, softmax}, {"norm", 4, norm}, {"pool", 2, pool}};
}

}  // namespace npusim::test
