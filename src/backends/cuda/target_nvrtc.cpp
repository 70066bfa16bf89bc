// Finding NVRTC and calling it.
#include "backends/cuda/target_nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <type_traits>

#include "base/error.h"
#include "base/file.h"

namespace npusim::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "NPUSIM_NVRTC";

std::vector<std::string> library_names() {
  if (const char* given = std::getenv(variable); given && *given) return {given};
  std::vector<std::string> names;
  for (const char* version : {".13", ".12", ""}) names.push_back(fmt::format("libnvrtc.so{}", version));
  for (const char* version : {".13", ".12", ""})
    names.push_back(fmt::format("/usr/local/cuda/lib64/libnvrtc.so{}", version));
  return names;
}

// It looks its library of built-in functions up by name, which finds nothing in a folder of its own.
void load_builtins(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so") && no_file_at(entry.path()).empty())
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// What is wrong with the library; "" when it is complete.
std::string load(const std::string& name, Nvrtc& n) {
  if (const std::string what = no_file_at(name); !what.empty()) return what + ", and no library";
  if (const fs::path folder = fs::path(name).parent_path(); !folder.empty()) load_builtins(folder);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return "not found";
  const bool complete =
      find(library, "nvrtcVersion", n.get_version) && find(library, "nvrtcGetErrorString", n.error_string) &&
      find(library, "nvrtcCreateProgram", n.create) && find(library, "nvrtcCompileProgram", n.compile) &&
      find(library, "nvrtcGetProgramLogSize", n.log_size) && find(library, "nvrtcGetProgramLog", n.log) &&
      find(library, "nvrtcGetCUBINSize", n.cubin_size) && find(library, "nvrtcGetCUBIN", n.cubin) &&
      find(library, "nvrtcGetPTXSize", n.ptx_size) && find(library, "nvrtcGetPTX", n.ptx) &&
      find(library, "nvrtcDestroyProgram", n.destroy);
  int major = 0, minor = 0;
  if (!complete || n.get_version(&major, &minor) != 0) return "not an NVRTC of CUDA 11.1 or later";
  n.version = fmt::format("{}.{}", major, minor);
  Dl_info info{};
  n.path = dladdr(reinterpret_cast<void*>(n.get_version), &info) && info.dli_fname ? info.dli_fname : name;
  int count = 0;
  int (*count_architectures)(int*) = nullptr;
  int (*list_architectures)(int*) = nullptr;
  if (find(library, "nvrtcGetNumSupportedArchs", count_architectures) &&
      find(library, "nvrtcGetSupportedArchs", list_architectures) && count_architectures(&count) == 0 && count > 0) {
    n.architectures.resize(static_cast<size_t>(count));
    if (list_architectures(n.architectures.data()) != 0) n.architectures.clear();
  }
  return {};
}

struct Search {
  Nvrtc nvrtc;
  std::string problem;
};

Search search() {
  Search result;
  for (const std::string& name : library_names()) {
    const std::string problem = load(name, result.nvrtc);
    if (problem.empty()) return {result.nvrtc, {}};
    result.problem += fmt::format("{}{} ({})", result.problem.empty() ? "" : ", ", name, problem);
  }
  return result;
}

}  // namespace

const Nvrtc& find_nvrtc() {
  static const Search found = search();
  if (!found.problem.empty())
    fail(ErrorKind::device,
         "target cuda: compiling needs NVRTC, the library libnvrtc.so of CUDA 12 or 13; looked for {}; {} may name it",
         found.problem, variable);
  return found.nvrtc;
}

// Sums and products round each by itself, as kernel IR says: a formula that was written as two roundings may depend on
// them (an index that is computed, x − q·⌊x/q⌋). Subnormal numbers stay, quotients and roots are rounded correctly.
std::vector<std::string> compile_options(const std::string& architecture, Effort effort) {
  std::vector<std::string> options = {"--gpu-architecture=" + architecture,
                                      "--std=c++17",
                                      "--fmad=false",
                                      "--ftz=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true"};
  if (effort == Effort::less) options.emplace_back("--Ofast-compile=min");  // from NVRTC 12.8 on
  if (effort == Effort::least) options.emplace_back("--device-debug");
  return options;
}

Compiled compile_text(const Nvrtc& n, const std::string& text, const std::string& architecture, Effort effort) {
  Nvrtc::Program program = nullptr;
  const auto check = [&](int status, const char* call) {
    if (status != 0) fail(ErrorKind::internal, "{}: {} ({})", call, n.error_string(status), status);
  };
  check(n.create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  const std::unique_ptr<Nvrtc::Program, void (*)(Nvrtc::Program*)> owner(
      &program, [](Nvrtc::Program* p) { find_nvrtc().destroy(p); });
  std::vector<std::string> options = compile_options(architecture, effort);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  if (const int status = n.compile(program, static_cast<int>(pointers.size()), pointers.data()); status != 0) {
    size_t size = 0;
    std::string log;
    if (n.log_size(program, &size) == 0) {
      log.resize(size);
      n.log(program, log.data());
    }
    if (log.find("--gpu-architecture") != std::string::npos)
      fail(ErrorKind::unsupported, "target cuda: NVRTC {} does not compile for {}", n.version, architecture);
    fail(ErrorKind::internal, "NVRTC {} for {}: {}\n{}", n.version, architecture, n.error_string(status), log);
  }
  Compiled result;
  size_t size = 0;
  check(n.cubin_size(program, &size), "nvrtcGetCUBINSize");
  result.cubin.resize(size);
  check(n.cubin(program, result.cubin.data()), "nvrtcGetCUBIN");
  check(n.ptx_size(program, &size), "nvrtcGetPTXSize");
  result.ptx.resize(size);
  check(n.ptx(program, result.ptx.data()), "nvrtcGetPTX");
  while (!result.ptx.empty() && result.ptx.back() == '\0') result.ptx.pop_back();
  return result;
}

}  // namespace npusim::cuda
