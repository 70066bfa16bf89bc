// The six NVRTC functions the tests need.
#include "nvrtc.h"

#include <dlfcn.h>

namespace npusim {
namespace {

using Program = void*;
struct Nvrtc {
  int (*create)(Program*, const char* source, const char* name, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  bool loaded = false;
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

const Nvrtc& nvrtc() {
  static const Nvrtc table = [] {
    Nvrtc n;
    void* library = nullptr;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    n.loaded = library && find(library, "nvrtcCreateProgram", n.create) &&
               find(library, "nvrtcCompileProgram", n.compile) && find(library, "nvrtcGetProgramLogSize", n.log_size) &&
               find(library, "nvrtcGetProgramLog", n.log) && find(library, "nvrtcGetCUBINSize", n.cubin_size) &&
               find(library, "nvrtcGetCUBIN", n.cubin) && find(library, "nvrtcDestroyProgram", n.destroy);
    return n;
  }();
  return table;
}

}  // namespace

bool has_nvrtc() { return nvrtc().loaded; }

Cubin compile_cuda(const std::string& source, const std::string& architecture) {
  const Nvrtc& n = nvrtc();
  if (!n.loaded) return {{}, "no NVRTC"};
  Program program = nullptr;
  if (n.create(&program, source.c_str(), "printed.cu", 0, nullptr, nullptr)) return {{}, "nvrtcCreateProgram failed"};
  const std::string option = "--gpu-architecture=" + architecture;
  const char* options[] = {option.c_str(), "--std=c++17"};
  Cubin result;
  size_t size = 0;
  const int status = n.compile(program, 2, options);
  n.log_size(program, &size);
  if (status || size > 1) {
    result.problem.resize(size);
    n.log(program, result.problem.data());
  }
  if (status == 0 && n.cubin_size(program, &size) == 0) {
    result.image.resize(size);
    n.cubin(program, result.image.data());
  }
  n.destroy(&program);
  return result;
}

}  // namespace npusim
