// What is packed, what is split, and how often.
#include "backends/cuda/codegen/choose/parts.h"

#include <algorithm>

#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/products/depthwise.h"
#include "backends/cuda/codegen/products/dot.h"
#include "backends/cuda/codegen/products/patch.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/rows/combine.h"
#include "backends/cuda/codegen/rows/scan.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/split_attention.h"
#include "kernel/fuse/split_combining.h"
#include "kernel/fuse/split_rows.h"

namespace npusim::cuda::codegen::choose {
namespace {

constexpr int64_t least_keys_of_summary = 1024;  // a block that inspects fewer by itself is done sooner

Unfused whole(const Kernel& kernel) {
  Unfused one;
  BoundKernel step{kernel, {}};
  for (size_t i = 0; i < kernel.args.size(); ++i) step.values.push_back(static_cast<int>(i));
  one.steps.push_back(std::move(step));
  return one;
}

// The order in which the weight of a convolution is read in words if it is stored so; empty: it is read so, or cannot
// be.
std::vector<int> find_packing(const Kernel& k, const Analysis& known, int64_t& padding) {
  const std::optional<Product>& product = known.contracted.product;
  if (!product || k.contraction->kind != ContractionKind::conv || !k.contraction->b.guards.empty()) return {};
  if (known.no_depthwise.empty()) return products::depthwise_packing(k, *known.contracted.windows);
  if (known.patches && products::makes_words(*product)) {
    if (known.patches->packed) return {};
    padding = products::patch_channels;
    const int in_channel = static_cast<int>(k.space.size());
    return {2, in_channel + 1, in_channel + 2, in_channel};
  }
  if (product->a.words != Operand::Words::along_depth || product->b.words != Operand::Words::none) return {};
  std::vector<int> order;
  if (product->filled != word_of(*product)) padding = word_of(*product);
  for (const Axis* axis : {&product->batch, &product->columns, &product->depth})
    for (int d : axis->dims)
      if (axis == &product->depth || depends_on(k.contraction->b, d)) order.push_back(d);
  return order;
}

// Few dots of long operands: a piece to a block, in words.
int64_t find_split_of_dots(const Kernel& k, const Product& product, const Features& features, size_t& along) {
  constexpr int64_t least_piece = 8192;
  const int64_t dots = product.batch.size() * product.rows.size() * product.columns.size();
  along = static_cast<size_t>(std::max_element(k.contraction->reduce.begin(), k.contraction->reduce.end()) -
                              k.contraction->reduce.begin());
  const int64_t extent = k.contraction->reduce[along];
  for (int64_t parts = std::min(2 * features.units / dots, extent / least_piece); parts > 1; --parts)
    if (extent % parts == 0 && extent / parts % word_of(product) == 0) return parts;
  return 1;
}

// Into how many pieces of which reduced dimension: 1 if it stays whole.
int64_t find_split(const Kernel& k, const Analysis& known, const Features& features, size_t& along) {
  const std::optional<Product>& product = known.contracted.product;
  const By by = plan_kernel(k, known, 1, features).by();
  if (by == By::dots) return find_split_of_dots(k, *product, features, along);
  if (by != By::tiles) return 1;
  constexpr double of_sum = 5500;  // cycles for the second kernel and what lies between
  double least = products::rate_tiles(*product, features)[0].cycles;
  int64_t best = 1;
  for (size_t j = 0; j < k.contraction->reduce.size(); ++j)
    for (const int64_t parts : {2, 3, 4, 6, 7, 8, 9, 12, 14, 16}) {
      const int64_t extent = k.contraction->reduce[j];
      if (extent % parts != 0 || product->depth.size() / parts < 2 * products::depth_of_stage(*product)) continue;
      const auto dim = static_cast<int>(k.space.size() + j);
      const bool last = !product->depth.dims.empty() && product->depth.dims.back() == dim;
      if (last && extent / parts % word_of(*product) != 0) continue;
      Product piece = *product;
      for (size_t n = 0; n < piece.depth.dims.size(); ++n)
        if (piece.depth.dims[n] == dim) piece.depth.extents[n] /= parts;
      piece.batch.extents.push_back(parts);
      piece.batch.dims.push_back(dim);
      double cycles = products::rate_tiles(piece, features)[0].cycles;
      const double results =
          static_cast<double>(product->rows.size() * product->columns.size() * product->batch.size());
      cycles += of_sum + results * static_cast<double>(parts) * 8 / features.units / 16;  // written and read again
      if (cycles < least) least = cycles, best = parts, along = j;
    }
  return best;
}

// Into how many pieces each row: 1 if there are rows enough, or the pieces would be less than what a step costs.
int64_t pieces_of_rows(const Kernel& k, const Features& features) {
  int64_t rows = 1, length = 1;
  for (size_t d = 0; d < k.space.size(); ++d)
    (d + static_cast<size_t>(k.row_dims) < k.space.size() ? rows : length) *= k.space[d];
  const auto has = [&](ExprOp op) {
    return std::any_of(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) { return e.op == op; });
  };
  if (rows == 0 || length == 0) return 1;
  if (has(ExprOp::scan) && rows::scan_problem(k, features).empty()) {  // a block has a piece
    constexpr int64_t least_piece = 2048;
    const int64_t blocks = int64_t{8} * features.units;
    return has_own_text(k, features)
               ? 1
               : std::clamp<int64_t>(blocks / rows, 1, std::max<int64_t>(length / least_piece, 1));
  }
  if (has(ExprOp::scan)) {  // one thread walks a piece: it waits for each element
    constexpr int64_t threads = 65536, least_length = 256, least_piece = 32;
    return length < least_length ? 1 : std::clamp<int64_t>(threads / rows, 1, length / least_piece);
  }
  // A block has a piece.
  constexpr int64_t least_elements = 1 << 17, least_piece = 4096;
  const int64_t blocks = int64_t{2} * features.units;
  if (!has(ExprOp::reduce) || rows > features.units / 2 || rows * length < least_elements) return 1;
  return std::max<int64_t>(std::min(blocks / rows, length / least_piece), 1);
}

// Into how many pieces what combines with what is there: 1 if threads enough have elements of their own, or warps
// enough lines.
int64_t pieces_of_combining(const Kernel& k, const Features& features) {
  const int along = dim_of_combining(k);
  if (along < 0 || has_own_text(k, features)) return 1;
  const std::vector<bool> meets = colliding_dims(k, k.stores[0].access);
  int64_t apart = 1, together = 1;
  for (size_t d = 0; d < k.space.size(); ++d) (meets[d] ? together : apart) *= k.space[d];
  const int64_t elements = k.args[static_cast<size_t>(k.stores[0].access.arg)].elements;
  constexpr int64_t threads = 16384, least_length = 128, least_piece = 32, results_of_point = 4;
  if (apart == 0 || together < least_length || elements == 0) return 1;
  const auto pieces_for = [&](int64_t workers, int64_t piece) {
    const int64_t most = std::min(k.space[static_cast<size_t>(along)], together / piece);
    return std::clamp<int64_t>(std::min(workers / apart, results_of_point * apart * together / elements), 1,
                               std::max<int64_t>(most, 1));
  };
  std::string why;
  if (rows::find_combined_lines(k, why)) {
    constexpr int64_t of_warp = 512;
    const int64_t warps = int64_t{16} * features.units;
    const int64_t pieces = pieces_for(warps, of_warp);
    const Unfused split = pieces > 1 ? split_combining(k, pieces) : Unfused{};
    if (split.steps.size() == 3 && has_own_text(split.steps[1].kernel, features)) return pieces;
  }
  return pieces_for(threads, least_piece);
}

// Those of the steps that have few long rows, or few elements for what they combine, as steps of pieces.
void split_long_rows(Unfused& parts, size_t arguments, const Features& features) {
  for (size_t n = 0; n < parts.steps.size();) {
    const Kernel step = parts.steps[n].kernel;
    const int64_t pieces = step.contraction || step.call ? 1 : pieces_of_rows(step, features);
    Unfused inner = pieces > 1 ? split_rows(step, pieces) : Unfused{};
    if (const int64_t results = pieces_of_combining(step, features); results > 1)
      inner = split_combining(step, results);
    if (inner.steps.empty())
      ++n;
    else
      replace_step(parts, arguments, n, std::move(inner));
  }
}

Unfused parts_of_rows(const Kernel& kernel, const Features& features) {
  if (has_order(kernel) && has_own_text(kernel, features)) return {};
  Unfused parts = has_order(kernel) ? unfuse(kernel) : whole(kernel);
  const size_t before = parts.steps.size();
  split_long_rows(parts, kernel.args.size(), features);
  return has_order(kernel) || parts.steps.size() > before ? std::move(parts) : Unfused{};
}

// Its products are in parts like any other.
Unfused parts_of_transform(const Kernel& kernel, const Features& features) {
  Unfused parts = unfuse(kernel);
  for (size_t n = 0; n < parts.steps.size(); ++n) {
    Unfused inner = find_parts(parts.steps[n].kernel, features);
    if (inner.steps.empty()) continue;
    const size_t count = inner.steps.size();
    replace_step(parts, kernel.args.size(), n, std::move(inner));
    n += count - 1;
  }
  return parts;
}

bool is_one_attention(const Kernel& k, const Analysis& known, const Features& features) {
  return plan_kernel(k, known, 1, features).by() == By::attention;
}

Unfused products_of_attention(const Kernel& kernel) {
  const DType values = kernel.args[static_cast<size_t>(kernel.contraction->b.arg)].dtype;
  const bool products = values == DType::f16 || values == DType::bf16 || values == DType::f32;
  return products ? attention_products(kernel, values) : unfuse(kernel);
}

// Steps of pieces of the keys, or with what is found out before; no steps: it is one kernel; nullopt: it is none.
std::optional<Unfused> parts_of_attention(const Kernel& kernel, const Features& features) {
  const Analysis known = analyse(kernel);
  if (!is_one_attention(kernel, known, features)) return std::nullopt;
  const plan::Attention& a = *known.contracted.attention;
  const int64_t pieces = attention::pieces_of(a, features);
  if (pieces == 0) return std::nullopt;
  if (pieces == 1) {
    const attention::AttentionShape shape = attention::choose_attention(a, features);
    const bool pays = shape.groups > 0 && a.keys >= least_keys_of_summary;
    return pays ? attention::summarize_attention(kernel, a, shape) : Unfused{};
  }
  Unfused parts = split_attention(kernel, pieces);
  const Kernel& first = parts.steps[0].kernel;
  if (!is_one_attention(first, analyse(first), features)) return std::nullopt;
  return parts;
}

// Split-K: products of which there are too few tiles, or too long ones, as pieces of their depth.
void split_products(Unfused& parts, size_t arguments, const Features& features) {
  for (size_t n = 0; n < parts.steps.size(); ++n) {
    const Kernel step = parts.steps[n].kernel;
    size_t along = 0;
    if (!step.contraction || step.contraction->kind == ContractionKind::attention) continue;
    const int64_t pieces = find_split(step, analyse(step), features, along);
    if (pieces > 1) replace_step(parts, arguments, n++, split_sum(step, along, pieces));
  }
}

Unfused parts_of_product(const Kernel& kernel, const Features& features) {
  const Analysis known = analyse(kernel);
  int64_t padding = 1;
  const std::vector<int> order = find_packing(kernel, known, padding);
  Unfused parts = order.empty() ? whole(kernel) : pack_operand(kernel, order, padding);
  split_products(parts, kernel.args.size(), features);
  if (parts.steps.size() > 1) return parts;
  Unfused rows = unfuse(kernel);  // what adds up is several
  if (!has_own_text(kernel, known, features)) split_long_rows(rows, kernel.args.size(), features);
  return rows.steps.size() > 1 ? rows : Unfused{};
}

}  // namespace

Unfused find_parts(const Kernel& kernel, const Features& features) {
  if (has_fourier(kernel)) return parts_of_transform(kernel, features);
  if (!kernel.contraction) return parts_of_rows(kernel, features);
  if (kernel.contraction->kind != ContractionKind::attention) return parts_of_product(kernel, features);
  if (auto parts = parts_of_attention(kernel, features)) return std::move(*parts);
  Unfused products = products_of_attention(kernel);
  split_products(products, kernel.args.size(), features);
  return products;
}

}  // namespace npusim::cuda::codegen::choose
