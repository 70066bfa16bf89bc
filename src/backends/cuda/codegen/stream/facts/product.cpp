// Which products lie in memory as a stream wants them.
#include "backends/cuda/codegen/stream/facts/product.h"

#include <fmt/format.h>

#include <algorithm>

namespace npusim::cuda::codegen::stream::facts {

bool is_dense(const Access& access, const Axis& axis, int64_t unit) {
  for (size_t n = axis.dims.size(); n-- > 0; unit *= axis.extents[n])
    if (access.strides[static_cast<size_t>(axis.dims[n])] != unit) return false;
  return true;
}

std::optional<StreamProduct> find_stream_product(const Kernel& kernel, const plan::Contracted& contracted,
                                                 std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const std::optional<Product>& found = contracted.product;
  if (!found) return none(contracted.no_product);
  if (found->dtype == DType::f32) return none("operands of float32");
  const Contraction& c = *kernel.contraction;
  StreamProduct p;
  p.dtype = found->dtype;
  p.lines_are_rows = found->columns.size() < found->rows.size();
  const Access &x = p.lines_are_rows ? c.b : c.a, &matrix = p.lines_are_rows ? c.a : c.b;
  p.x = x.arg, p.matrix = matrix.arg;
  p.x_offset = x.offset, p.matrix_offset = matrix.offset;
  p.rows = p.lines_are_rows ? found->columns : found->rows;
  p.lines = p.lines_are_rows ? found->rows : found->columns;
  p.depth = found->depth;
  walk_forward(p.rows, x), walk_forward(p.lines, matrix), walk_forward(p.depth, matrix);
  if (found->batch.size() != 1) return none(fmt::format("a batch of {} products", found->batch.size()));
  if (p.rows.size() > most_streamed_rows)
    return none(fmt::format("{} rows, not up to {}", p.rows.size(), most_streamed_rows));
  const int64_t depth = p.depth.size();
  if (depth % unit_depth != 0) return none(fmt::format("a depth of {}, no multiple of {}", depth, unit_depth));
  for (const Access* a : {&x, &matrix})
    if (!a->guards.empty() || !a->terms.empty() || a->offset % word != 0)
      return none("an operand that is not a whole one");
  if (kernel.args[static_cast<size_t>(p.x)].elements % word != 0) return none("rows that are no words");
  if (!is_dense(matrix, p.depth, 1) || !is_dense(matrix, p.lines, depth))
    return none("a matrix whose lines do not lie one behind the other");
  if (!is_dense(x, p.depth, 1) || !is_dense(x, p.rows, depth)) return none("rows that do not lie one behind the other");
  return p;
}

bool is_by_line(const Kernel& kernel, const StreamProduct& p, int arg) {
  if (kernel.args[static_cast<size_t>(arg)].elements != p.lines.size() || kernel.args[static_cast<size_t>(arg)].written)
    return false;
  return std::all_of(kernel.accesses.begin(), kernel.accesses.end(), [&](const Access& a) {
    if (a.arg != arg) return true;
    const bool for_all_rows = std::all_of(p.rows.dims.begin(), p.rows.dims.end(),
                                          [&](int dim) { return a.strides[static_cast<size_t>(dim)] == 0; });
    return a.offset == 0 && a.guards.empty() && a.terms.empty() && is_dense(a, p.lines, 1) &&
           (for_all_rows || p.rows.size() == 1);
  });
}

bool lies_flat(const Access& access, const StreamProduct& p) {
  if (access.offset != 0 || !access.guards.empty() || !access.terms.empty()) return false;
  return is_dense(access, p.lines, 1) && is_dense(access, p.rows, p.lines.size());
}

}  // namespace npusim::cuda::codegen::stream::facts
