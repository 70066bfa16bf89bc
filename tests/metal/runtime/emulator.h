// The MSL-on-CPU harness's runtime: executes compiled MSL kernels one threadgroup at a time, one fiber per GPU thread.
//
// It is strict where a GPU is silent: barriers that not all threads reach, collectives in divergent code, unbound
// arguments, writes past threadgroup arrays and past buffers are errors that name the thread. Threadgroup memory starts
// as 0xff bytes (NaN), and the order of threads and groups can be turned or shuffled: results must not depend on it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// What a compiled kernel and its host share: shim/msl_call.h has the same three structs.
struct mslx_call {
  void* const* buf;
  void* const* tgm;
  unsigned tpig[3], tgpig[3], tpitg[3], tptg[3], tgpg[3], tpg[3], tiitg, tiisg, sgitg, sgptg, tpsg, qgitg, tiiqg, qgptg;
};
struct mslx_param_desc {
  int kind, index, is_const;  // 0 buffer, 1 threadgroup memory, 2 built-in
  unsigned esize;
  const char* name;
  const char* attr;
};
struct mslx_kernel_desc {
  const char* name;
  void (*thunk)(const mslx_call*);
  void (*flat)(const mslx_call*);  // a whole threadgroup as one loop: kernels without barriers
  const mslx_param_desc* params;
  int nparams;
};

namespace mslx {

struct Library {
  void* handle = nullptr;
  const mslx_kernel_desc* kernels = nullptr;
  std::string error;
  const mslx_kernel_desc* find(const std::string& name) const;  // nullptr if there is none
};
Library load(const std::string& shared_object);

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};
enum class Order { forward, reverse, random };

struct Options {
  Order order = Order::forward;
  uint64_t seed = 1;
  bool force_fibers = false;     // also for kernels without barriers
  bool flush_subnormals = true;  // of float, as GPUs do
  bool poison = true;
  int workers = 1;
  unsigned threadgroup_bytes = 32768;
  unsigned max_threads = 1024;
};

struct Bindings {
  void* buffers[31] = {};
  bool bound[31] = {};
  size_t threadgroup_bytes[31] = {};
  Bindings& buffer(int index, void* memory);
  Bindings& threadgroup(int index, size_t bytes);
};

struct Result {
  std::string error;
  uint64_t switches = 0, barriers = 0, simd_ops = 0;
  size_t threadgroup_bytes = 0;
  bool flat = false;
  bool ok() const { return error.empty(); }
};

// dispatchThreads:threadsPerThreadgroup: and dispatchThreadgroups:threadsPerThreadgroup:.
Result dispatch_threads(const mslx_kernel_desc*, Extent grid, Extent threadgroup, const Bindings&, const Options& = {});
Result dispatch_groups(const mslx_kernel_desc*, Extent groups, Extent threadgroup, const Bindings&,
                       const Options& = {});

// Memory filled with 0xff whose end lies, but for alignment, at a page that faults.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes, size_t align = 16);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  void* data() { return data_; }

 private:
  void* map_ = nullptr;
  size_t mapped_ = 0;
  void* data_ = nullptr;
};

}  // namespace mslx
