// The text of a kernel around its body.
#include "backends/cuda/codegen/made.h"

#include <fmt/format.h>

#include "print/point.h"

namespace npusim::cuda::codegen {

void add_kernel(Made& made, const Kernel& kernel, const std::string& body, bool leads) {
  made.functions += fmt::format("\n// {}: {}\n", made.symbol, made.how);
  made.functions +=
      fmt::format(fmt::runtime(cuda_dialect.kernel), made.symbol, parameters(kernel, cuda_dialect), made.shape.threads);
  if (leads) made.functions += "  lead();\n";
  made.functions += body + "}\n";
}

}  // namespace npusim::cuda::codegen
