// An NVRTC with a fault: attention by warpgroups takes keys of its third stage and of those behind it from the wrong
// place, a sum before a product without parentheses. All else is the system's NVRTC, or what FAULTY_NVRTC_REAL names.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace {

void* real() {
  static void* const library = [] {
    if (const char* given = std::getenv("FAULTY_NVRTC_REAL"); given && *given)
      return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    void* found = nullptr;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (!found) found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return found;
  }();
  return library;
}

template <typename... Args>
int call(const char* name, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(real(), name));
  return function ? function(args...) : 1;
}

std::string with_fault(std::string text) {
  const std::string right = "(next + 1) * ", wrong = "next + 1 * ";
  for (size_t at = 0; (at = text.find(right, at)) != std::string::npos;) text.replace(at, right.size(), wrong);
  return text;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) { return call("nvrtcVersion", major, minor); }
const char* nvrtcGetErrorString(int) { return "an error of NVRTC"; }
int nvrtcCreateProgram(void** program, const char* text, const char* name, int count, const char* const* headers,
                       const char* const* names) {
  const std::string changed = with_fault(text);
  return call("nvrtcCreateProgram", program, changed.c_str(), name, count, headers, names);
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  return call("nvrtcCompileProgram", program, count, options);
}
int nvrtcGetProgramLogSize(void* program, size_t* size) { return call("nvrtcGetProgramLogSize", program, size); }
int nvrtcGetProgramLog(void* program, char* log) { return call("nvrtcGetProgramLog", program, log); }
int nvrtcGetCUBINSize(void* program, size_t* size) { return call("nvrtcGetCUBINSize", program, size); }
int nvrtcGetCUBIN(void* program, char* to) { return call("nvrtcGetCUBIN", program, to); }
int nvrtcGetPTXSize(void* program, size_t* size) { return call("nvrtcGetPTXSize", program, size); }
int nvrtcGetPTX(void* program, char* to) { return call("nvrtcGetPTX", program, to); }
int nvrtcDestroyProgram(void** program) { return call("nvrtcDestroyProgram", program); }

}  // extern "C"
