// NVRTC, loaded at run time: compiles CUDA C++ text to a cubin without a GPU.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace npusim {

struct Cubin {
  std::string image;
  std::string problem;  // the compiler's log, or why there is no compiler
};

bool has_nvrtc();
// `architecture` as in "sm_90"; `options` beside it and the standard.
Cubin compile_cuda(const std::string& source, const std::string& architecture,
                   std::span<const std::string> options = {});

struct CudaCheck {
  size_t compiled = 0;                // the others compiled before
  std::vector<std::string> problems;  // warnings too
};
// Compiles every text for every architecture, on all cores; once in the life of a build folder.
CudaCheck check_cuda(std::span<const std::string> sources, std::span<const std::string> architectures);

}  // namespace npusim
