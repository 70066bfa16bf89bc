// Which products have the same rows, and the head of what makes them.
#include "backends/cuda/codegen/products/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/products/dot.h"
#include "backends/cuda/codegen/products/tile_text.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda::codegen::products {
namespace {

constexpr size_t most = 4;

bool same_axis(const Axis& a, const Axis& b) { return a.dims == b.dims && a.extents == b.extents; }

// Lines in even steps that are all there, as the first one's.
bool is_plain(const Product& p) {
  return p.batch.dims.empty() && p.rows.dims.size() == 1 && p.columns.dims.size() == 1 && p.filled == word_of(p) &&
         p.a.bounds.empty() && p.b.bounds.empty() && p.a.words == Operand::Words::along_depth &&
         p.b.words == Operand::Words::along_depth;
}

bool same_rows(const Product& p, const Product& q) {
  return p.dtype == q.dtype && same_axis(p.rows, q.rows) && same_axis(p.depth, q.depth) &&
         p.columns.dims == q.columns.dims && p.a.strides == q.a.strides && p.a.offset == q.a.offset &&
         p.b.strides == q.b.strides && p.b.offset == q.b.offset && address_type(p.a) == address_type(q.a) &&
         address_type(p.b) == address_type(q.b);
}

// Why a product cannot be one of them; "" if it can.
std::string column_declines(const Kernel& kernel, const plan::Contracted& contracted) {
  const auto written = [](const KernelArg& arg) { return arg.written; };
  if (kernel.contraction->kind != ContractionKind::matmul) return "no matmul";
  if (takes_trap(kernel)) return "reports what it meets";
  if (std::count_if(kernel.args.begin(), kernel.args.end(), written) != 1) return "several results";
  if (!contracted.product) return contracted.no_product;
  if (!is_plain(*contracted.product)) return "lines not in even steps along the depth";
  return dots_decline(*contracted.product).empty() ? "few rows, as dots" : "";
}

// What a product's rows are; -1 of what is none.
int32_t rows_of(const GroupStep& step, const plan::Contracted& contracted) {
  const Contraction& c = *step.kernel->contraction;
  if (c.kind != ContractionKind::matmul) return -1;
  return step.values[static_cast<size_t>(contracted.product ? contracted.product->a.arg : c.a.arg)];
}

// Why the next step's product does not join those of the steps before it.
std::string join_declines(std::span<const GroupStep> steps, size_t next, std::span<const Product> products,
                          const plan::Contracted& contracted) {
  std::string why = column_declines(*steps[next].kernel, contracted);
  if (!why.empty() || next == 0) return why;
  const Product& product = *contracted.product;
  const auto rows = [&](size_t n, const Product& p) { return steps[n].values[static_cast<size_t>(p.a.arg)]; };
  if (!same_rows(products[0], product) || rows(0, products[0]) != rows(next, product)) return "other rows";
  const auto apart = [&](const GroupStep& step) { return are_apart(step, steps[next]); };
  return std::all_of(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(next), apart)
             ? ""
             : "one has to do with the other's result";
}

// Cycles of the launches that there are without.
double cycles_apart(std::span<const GroupStep> steps, const std::vector<Product>& products, const Features& features) {
  double apart = 0;
  const auto name = [&](size_t n) { return kernel_name(*steps[n].kernel); };
  for (size_t n = 0, last = 0; n < products.size(); n = last) {
    while (last < products.size() && name(last) == name(n)) ++last;
    if (n == 0 && last == products.size()) return 0;  // equal ones are launched together anyhow
    Product copies = products[n];
    copies.copies = static_cast<int>(last - n);
    apart += rate_tiles(copies, features)[0].cycles;
  }
  return apart;
}

}  // namespace

bool are_apart(const GroupStep& a, const GroupStep& b) {
  for (size_t i = 0; i < a.values.size(); ++i)
    for (size_t j = 0; j < b.values.size(); ++j)
      if ((a.kernel->args[i].written || b.kernel->args[j].written) && a.values[i] == b.values[j]) return false;
  return true;
}

std::vector<Product> find_columns(std::span<const GroupStep> steps, std::span<const plan::Contracted> contracted,
                                  const Features& features, std::string& why) {
  if (contracted.size() < 2) return {};
  const int32_t rows = rows_of(steps[0], contracted[0]);
  if (rows < 0 || rows != rows_of(steps[1], contracted[1])) return {};
  if (!features.groups) {
    why = "this device has no warpgroups";
    return {};
  }
  std::vector<Product> products;
  for (size_t n = 0; n < std::min(most, contracted.size()); ++n) {
    why = join_declines(steps, n, products, contracted[n]);
    if (!why.empty()) break;
    products.push_back(*contracted[n].product);
  }
  if (products.size() < 2) return {};
  why = {};
  const double apart = cycles_apart(steps, products, features);
  if (apart == 0) return {};
  const std::vector<RatedTile> together = rate_columns_tiles(products, features);
  if (together.empty()) why = "no tile fits their sizes";
  if (!together.empty() && together[0].cycles >= apart) why = "not faster than one by one";
  return why.empty() ? products : std::vector<Product>{};
}

std::vector<GeneratedKernel> make_columns(std::span<const Kernel* const> kernels, std::span<const Product> products,
                                          const std::vector<bool>& ahead, const Features& features, size_t most) {
  std::vector<GeneratedKernel> candidates;
  for (const TileShape& shape : likeliest(rate_columns_tiles(products, features), most))
    candidates.push_back(make_columns(kernels, products, ahead, features, shape));
  return candidates;
}

GeneratedKernel make_columns(std::span<const Kernel* const> kernels, std::span<const Product> products,
                             const std::vector<bool>& ahead, const Features& features, const TileShape& s) {
  std::vector<Part> parts;
  size_t arguments = 0;
  bool rows_ahead = true, columns_ahead = true;
  for (size_t n = 0; n < kernels.size(); ++n) {
    parts.push_back({kernels[n], products[n]});
    rows_ahead = rows_ahead && ahead[arguments + static_cast<size_t>(products[n].a.arg)];
    columns_ahead = columns_ahead && ahead[arguments + static_cast<size_t>(products[n].b.arg)];
    arguments += kernels[n]->args.size();
  }
  for (Part& part : parts) part.product.a.ahead = rows_ahead, part.product.b.ahead = columns_ahead;
  GeneratedKernel made;
  int64_t tiles = 0;
  std::vector<std::string> declared;
  for (size_t n = 0; n < parts.size(); ++n) {
    const Kernel& kernel = *parts[n].kernel;
    const Product& product = parts[n].product;
    tiles += tiles_of(product, s);
    declared.push_back(parameters(kernel, cuda_dialect, fmt::format("_{}", n)));
    const std::string name = function_name(kernel, product);
    made.symbol += n == 0 ? name : fmt::format("_{:016x}", content_hash(kernel));
    if (n == 0 || function_name(*parts[n - 1].kernel, parts[n - 1].product) != name)
      made.functions += results_text(kernel, product);
  }
  made.shape = {std::min<int64_t>(tiles, features.units), s.threads()};
  made.shared_bytes = shared_bytes_of(products[0], s);
  made.groups = true;
  made.how =
      fmt::format("tiles of {}x{}, {} stages, by warpgroups and a producer warpgroup, of {} products of the same rows",
                  s.rows, s.columns, s.stages, parts.size());
  made.functions += fmt::format("\n// {}: {}\n", made.symbol, made.how);
  made.functions += fmt::format(fmt::runtime(cuda_dialect.kernel), made.symbol,
                                fmt::format("{}", fmt::join(declared, ",\n    ")), fmt::format("{}, 1", s.threads()));
  made.functions += "  lead();\n  const int block = blockIdx.x;\n";
  made.functions += specialized_text(*parts[0].kernel, parts[0].product, s, parts) + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::products
