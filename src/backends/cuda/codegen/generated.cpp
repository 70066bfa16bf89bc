// The text of a kernel around its body.
#include "backends/cuda/codegen/generated.h"

#include <fmt/format.h>

#include <iterator>

#include "print/point.h"

namespace npusim::cuda::codegen {

Features features_of(bool groups, const TargetConfig& config) {
  const Machine& m = config.machine;
  Features f{groups, static_cast<int>(m.units), m.unit_bytes, m.block_bytes, config.own.at("cache_bytes"), {}};
  constexpr const char* clusters[] = {"cluster_3_blocks", "cluster_4_blocks", "cluster_6_blocks", "cluster_8_blocks"};
  for (size_t n = 0; n < std::size(clusters); ++n) f.cluster_blocks[n] = config.own.at(clusters[n]);
  return f;
}

void add_kernel(GeneratedKernel& made, const Kernel& kernel, const std::string& body, bool leads) {
  made.functions += fmt::format("\n// {}: {}\n", made.symbol, made.how);
  made.functions +=
      fmt::format(fmt::runtime(cuda_dialect.kernel), made.symbol, parameters(kernel, cuda_dialect), made.shape.threads);
  if (leads) made.functions += "  lead();\n";
  made.functions += body + "}\n";
}

}  // namespace npusim::cuda::codegen
