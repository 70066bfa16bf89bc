// The NVRTC functions the tests need, and the memory of what compiled.
#include "nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/hash.h"

namespace npusim {
namespace {

using Program = void*;
struct Nvrtc {
  int (*version)(int* major, int* minor) = nullptr;
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
    // Where scripts/install-packages puts it. It looks its own library of built-in functions up by name.
    const std::string own = NPUSIM_SOURCE_DIR "/build/nvrtc/";
    dlopen((own + "libnvrtc-builtins.so.13.0").c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* library = dlopen((own + "libnvrtc.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    n.loaded = library && find(library, "nvrtcVersion", n.version) && find(library, "nvrtcCreateProgram", n.create) &&
               find(library, "nvrtcCompileProgram", n.compile) && find(library, "nvrtcGetProgramLogSize", n.log_size) &&
               find(library, "nvrtcGetProgramLog", n.log) && find(library, "nvrtcGetCUBINSize", n.cubin_size) &&
               find(library, "nvrtcGetCUBIN", n.cubin) && find(library, "nvrtcDestroyProgram", n.destroy);
    return n;
  }();
  return table;
}

constexpr const char* standard = "--std=c++17";

// Where a text that compiled is remembered: by its contents, how and with what it was compiled.
std::filesystem::path mark_of(const std::string& source, const std::string& architecture) {
  int major = 0, minor = 0;
  nvrtc().version(&major, &minor);
  const std::string key = fmt::format("{}.{} {} {}\n{}", major, minor, architecture, standard, source);
  return std::filesystem::path(NPUSIM_BINARY).parent_path() / "nvrtc" / fmt::format("{:016x}", hash_bytes(key));
}

}  // namespace

bool has_nvrtc() { return nvrtc().loaded; }

Cubin compile_cuda(const std::string& source, const std::string& architecture, std::span<const std::string> options) {
  const Nvrtc& n = nvrtc();
  if (!n.loaded) return {{}, "no NVRTC"};
  Program program = nullptr;
  if (n.create(&program, source.c_str(), "printed.cu", 0, nullptr, nullptr)) return {{}, "nvrtcCreateProgram failed"};
  const std::string option = "--gpu-architecture=" + architecture;
  std::vector<const char*> all{option.c_str(), standard};
  for (const std::string& one : options) all.push_back(one.c_str());
  Cubin result;
  size_t size = 0;
  const int status = n.compile(program, static_cast<int>(all.size()), all.data());
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

CudaCheck check_cuda(std::span<const std::string> sources, std::span<const std::string> architectures) {
  std::vector<std::pair<const std::string*, const std::string*>> jobs;
  for (const std::string& source : sources)
    for (const std::string& architecture : architectures)
      if (!std::filesystem::exists(mark_of(source, architecture))) jobs.emplace_back(&source, &architecture);
  std::vector<std::string> problems(jobs.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      const auto& [source, architecture] = jobs[i];
      const Cubin cubin = compile_cuda(*source, *architecture);
      problems[i] = cubin.problem;
      if (cubin.problem.empty() && cubin.image.empty()) problems[i] = "no code";
      if (!problems[i].empty()) continue;
      const std::filesystem::path mark = mark_of(*source, *architecture);
      std::filesystem::create_directories(mark.parent_path());
      std::ofstream(mark).put('\n');
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) threads.emplace_back(work);
  }
  CudaCheck result{jobs.size(), {}};
  for (size_t i = 0; i < jobs.size(); ++i)
    if (!problems[i].empty()) result.problems.push_back(*jobs[i].second + ": " + problems[i]);
  return result;
}

}  // namespace npusim
