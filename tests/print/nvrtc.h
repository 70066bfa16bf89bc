// NVRTC, loaded at run time: compiles CUDA C++ text to a cubin without a GPU.
#pragma once
#include <string>

namespace npusim {

struct Cubin {
  std::string image;
  std::string problem;  // the compiler's log, or why there is no compiler
};

bool has_nvrtc();
// `architecture` as in "sm_90".
Cubin compile_cuda(const std::string& source, const std::string& architecture);

}  // namespace npusim
