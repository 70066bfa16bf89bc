// NVRTC, NVIDIA's compiler as a library, loaded when it is needed: it asks for no GPU and no driver.
#pragma once
#include <cstdint>
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
  std::string version;             // "13.0"
  std::string path;                // the library's file
  std::vector<int> architectures;  // "sm_90a" is of 90; empty: it does not say
};

// The library of the environment's NPUSIM_NVRTC, or the first that the system finds; throws device with all that was
// looked for.
const Nvrtc& find_nvrtc();

struct Compiled {
  std::string cubin, ptx;
};
// How much NVRTC does: less where it dies of more. What is computed is the same.
enum class Effort : uint8_t { full, less, least };

// `architecture` as in "sm_90a". Throws internal with what NVRTC says against the text, unsupported for an architecture
// that it does not know.
std::vector<std::string> compile_options(const std::string& architecture, Effort effort = Effort::full);
Compiled compile_text(const Nvrtc& nvrtc, const std::string& text, const std::string& architecture,
                      Effort effort = Effort::full);

}  // namespace npusim::cuda
