// NVRTC, NVIDIA's compiler as a library, loaded when it is needed: it asks for no GPU and no driver.
#pragma once
#include <string>
#include <vector>

namespace npusim::cuda {

struct Nvrtc {
  using Program = void*;
  int (*get_version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char* text, const char* name, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const* options) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  std::string version;  // "13.0"
};

// The library of the environment's NPUSIM_NVRTC, or the first that the system finds; throws device with all that was
// looked for.
const Nvrtc& find_nvrtc();

struct Compiled {
  std::string cubin, ptx;
};
// `architecture` as in "sm_90a".
std::vector<std::string> compile_options(const std::string& architecture);
Compiled compile_text(const Nvrtc& nvrtc, const std::string& text, const std::string& architecture);

}  // namespace npusim::cuda
