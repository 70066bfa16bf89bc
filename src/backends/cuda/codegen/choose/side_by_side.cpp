// A function for each kernel, and the entry that gives each block to one of them.
#include "backends/cuda/codegen/choose/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/text.h"
#include "print/part.h"
#include "print/point.h"

namespace npusim::cuda::codegen::choose {

std::string side_by_side_declines(const Kernel& kernel, const Features& features) {
  if (kernel.contraction || kernel.call) return "not printed as it is";
  if (has_own_text(kernel, features)) return "has a text of its own";
  return choose_lanes(kernel, cuda_dialect, features.units).row == RowLoop::none ? "" : "its points are rows";
}

GeneratedKernel make_side_by_side(std::span<const Kernel* const> kernels, const Features& features) {
  GeneratedKernel made;
  made.how = fmt::format("{} kernels side by side", kernels.size());
  made.symbol = kernel_name(*kernels[0]);
  for (const Kernel* kernel : kernels.subspan(1)) made.symbol += fmt::format("_{:016x}", content_hash(*kernel));
  std::vector<std::string> declared;
  std::string waits = "  follow();\n", calls;
  int64_t first = 0;  // block of the next kernel
  for (const Kernel* k : kernels)
    made.shape.threads = std::max(made.shape.threads, choose_lanes(*k, cuda_dialect, features.units).threads);
  int traps = 0;
  bool takes = false;
  for (size_t n = 0; n < kernels.size(); ++n) {
    const Kernel& k = *kernels[n];
    const Schedule schedule = choose_lanes(k, cuda_dialect, features.units);
    const LaunchShape shape = launch_of(k, cuda_dialect, schedule);
    const std::string suffix = fmt::format("_{}", n), name = fmt::format("{}_part{}", made.symbol, n);
    PartContext context{std::vector<bool>(k.args.size()), traps, true};
    made.functions += print_part(k, cuda_dialect, schedule, name, context).function;
    declared.push_back(parameters(k, cuda_dialect, suffix, false));
    for (int read = 0; read < std::count_if(
                                  k.args.begin(), k.args.end(), [](const auto& a) { return !a.written; });
         ++read)
      waits += fmt::format("  in{0}{1} = behind(in{0}{1});\n", read, suffix);
    const bool last = n + 1 == kernels.size();
    calls += n == 0 ? "  " : "  else ";
    if (!last) calls += fmt::format("if (blockIdx.x < {}) ", first + shape.blocks);
    const std::string call =
        fmt::format("{}({}, blockIdx.x - {}, threadIdx.x);", name, parameter_names(k, suffix), first);
    calls += shape.threads < made.shape.threads ? fmt::format("{{ if (threadIdx.x < {}) {} }}\n", shape.threads, call)
                                                : call + "\n";
    if (takes_trap(k)) {
      takes = true;
      for (int code = 1; code <= trap_count(k); ++code, ++traps) {
        made.traps.push_back(trap_message(k, code));
        made.trap_steps.push_back(n);
      }
    }
    first += shape.blocks;
  }
  made.shape.blocks = first;
  if (takes) declared.emplace_back(fmt::format(fmt::runtime(cuda_dialect.trap_arg), declared.size()));
  made.functions += fmt::format("\n// {} blocks of {} threads, {}\n", first, made.shape.threads, made.how) +
                    fmt::format(fmt::runtime(cuda_dialect.kernel), made.symbol,
                                fmt::format("{}", fmt::join(declared, ",\n    ")), made.shape.threads) +
                    "  lead();\n" + waits + calls + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::choose
