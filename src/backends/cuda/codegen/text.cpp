// Sums and quotients as text.
#include "backends/cuda/codegen/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "print/point.h"

namespace npusim::cuda::codegen {

void take_apart(Lines& to, const Term& flat, const Axis& axis, const std::string& name) {
  int64_t inner = 1;
  for (size_t n = axis.dims.size(); n-- > 0; inner *= axis.extents[n]) {
    Term index = flat;
    if (inner != 1) index = term("{:*} / {}", index, inner);
    if (n != 0) index = term("{:*} % {}", index, axis.extents[n]);
    to.add(fmt::format("const int {}_{} = {};", name, n, index.text));
  }
}

Term put_together(const std::vector<int64_t>& factors, const Axis& axis, const std::string& name) {
  std::vector<Term> parts;
  for (size_t n = 0; n < axis.dims.size(); ++n) {
    const int64_t factor = factors[static_cast<size_t>(axis.dims[n])];
    if (factor == 0) continue;
    const std::string index = fmt::format("{}_{}", name, n);
    const bool wide = factor >= int64_t{1} << 31 || factor < -(int64_t{1} << 31);
    parts.emplace_back(factor == 1 ? index : fmt::format("{} * {}{}", index, factor, wide ? "LL" : ""));
  }
  return parts.empty() ? Term() : sum_of(parts);
}

Term sum_of(const std::vector<Term>& parts) {
  Term sum;
  for (const Term& part : parts)
    if (!part.empty() && part.text != "0") sum = sum.empty() ? part : term("{:+} + {:+}", sum, part);
  return sum.empty() ? "0" : sum;
}

std::string function_name(const Kernel& kernel, const Product& product) {
  std::string name = kernel_name(kernel);
  if (product.a.ahead) name += "_a";
  if (product.b.ahead) name += "_b";
  if (product.second_b >= 0) name += fmt::format("_and{}", product.second_b);
  return product.copies == 1 ? name : fmt::format("{}_x{}", name, product.copies);
}

std::string function_head(const Kernel& kernel, const Product& product, const LaunchShape& one,
                          const Features& features, int pieces, bool alone) {
  const int copies = product.copies;
  std::vector<std::string> all;
  for (int c = 0; c < copies; ++c)
    all.push_back(parameters(kernel, cuda_dialect, copies == 1 ? "" : fmt::format("_{}", c)));
  const std::string cluster = pieces == 1 ? (alone ? ", 1" : "") : fmt::format(") __cluster_dims__({}, 1, 1", pieces);
  std::string head = fmt::format(fmt::runtime(cuda_dialect.kernel), function_name(kernel, product),
                                 fmt::format("{}", fmt::join(all, ",\n    ")), std::to_string(one.threads) + cluster);
  // Blocks of the next launch would take room from those of this one that have not begun.
  if (one.blocks * copies * pieces <= features.units) head += "  lead();\n";
  Term grid_index = "blockIdx.x";
  if (pieces != 1) {
    head += fmt::format("  const int piece = blockIdx.x % {};\n", pieces);
    grid_index = term("{} / {}", grid_index, pieces);
  }
  if (copies == 1) return head + fmt::format("  const int block = {};\n", grid_index.text);
  head += fmt::format("  const int copy = {0:*} / {1}, block = {0:*} % {1};\n", grid_index, one.blocks);
  int reads = 0, writes = 0;
  for (const KernelArg& arg : kernel.args) {
    const std::string name = fmt::format("{}{}", arg.written ? "out" : "in", arg.written ? writes++ : reads++);
    std::string choice;
    for (int c = 0; c + 1 < copies; ++c) choice += fmt::format("copy == {1} ? {0}_{1} : ", name, c);
    head += fmt::format("  {}{}* {} = {}{}_{};\n", arg.written ? "" : "const ",
                        cuda_dialect.elements[static_cast<size_t>(arg.dtype)].type, name, choice, name, copies - 1);
  }
  return head;
}

std::vector<std::string> follow_text(const Kernel& kernel, const std::vector<int>& ahead, const std::string& suffix) {
  std::vector<std::string> statements{"follow();"};
  int reads = 0;
  for (int i = 0; i < static_cast<int>(kernel.args.size()); ++i) {
    if (kernel.args[static_cast<size_t>(i)].written) continue;
    if (std::find(ahead.begin(), ahead.end(), i) == ahead.end())
      statements.push_back(fmt::format("in{0}{1} = behind(in{0}{1});", reads, suffix));
    ++reads;
  }
  return statements;
}

std::vector<std::string> follow_text(const Kernel& kernel, const Product& product, const std::string& suffix) {
  std::vector<int> ahead;
  for (const Operand* o : {&product.a, &product.b})
    if (o->ahead) ahead.push_back(o->arg);
  if (product.b.ahead && product.second_b >= 0) ahead.push_back(product.second_b);
  return follow_text(kernel, ahead, suffix);
}

std::string_view address_type(const Operand& operand) {
  return operand.elements < int64_t{1} << 29 ? "int" : "long long";
}

std::string pointer_of(const Kernel& kernel, const Operand& operand) { return pointer_of(kernel, operand.arg); }

std::string pointer_of(const Kernel& kernel, int arg) {
  int reads = 0;
  for (int i = 0; i < arg; ++i) reads += !kernel.args[static_cast<size_t>(i)].written;
  return fmt::format("in{}", reads);
}

std::string_view element_type(const Product& product) {
  return product.dtype == DType::f32 ? "float" : product.dtype == DType::f16 ? "f16" : "bf16";
}

std::string as_float(const Product& product, const Term& element) {
  return product.dtype == DType::f32 ? element.text
                                     : fmt::format("{}_to_float({})", element_type(product), element.text);
}

}  // namespace npusim::cuda::codegen
