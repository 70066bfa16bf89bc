// A driver with host memory for a device's, which does everything but execute kernels: what the device half asks of a
// driver, and in which order, without a GPU. The environment says what device it is and what fails.
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

enum : int { success = 0, invalid_value = 1, out_of_memory = 2, invalid_image = 200, not_found = 500, illegal = 700 };

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
int number(const char* name, int otherwise) {
  return std::atoi(setting(name, std::to_string(otherwise).c_str()).c_str());
}

struct Node {
  std::string what;
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};
struct Stream {
  bool capturing = false;
  std::vector<Node> captured;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Function {
  std::string name;
};
struct Module {
  std::map<std::string, Function> functions;
};

std::mutex mutex;
std::map<char*, size_t> memory;  // allocations of the device
size_t used = 0;
// Of the calling thread. Not thread_local: LeakSanitizer takes such storage of a library that dlopen() loaded for lying
// somewhere else, and dies of it.
std::vector<void*>& contexts() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* stack) { delete static_cast<std::vector<void*>*>(stack); });
    return made;
  }();
  auto* stack = static_cast<std::vector<void*>*>(pthread_getspecific(key));
  if (!stack) pthread_setspecific(key, stack = new std::vector<void*>);
  return *stack;
}
// What a test asks for: the number of calls of each kind, and the word that a trap is to leave.
std::map<std::string, int> counts;
int trap = 0;

void count(const char* what) {
  const std::lock_guard lock(mutex);
  ++counts[what];
}

// Whether the memory is one allocation's.
bool is_ours(const void* at, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto after = memory.upper_bound(static_cast<char*>(const_cast<void*>(at)));
  if (after == memory.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return static_cast<const char*>(at) + bytes <= begin + size;
}

char* at(unsigned long long address) { return reinterpret_cast<char*>(address); }

int execute(const Node& node) {
  if (node.to && node.from) std::memcpy(node.to, node.from, node.bytes);
  static int executed = 0;
  if (node.what == "event") *static_cast<int*>(node.to) = executed;
  if (node.what == "launch") ++executed;
  if (node.what == "trap") *static_cast<int*>(node.to) = trap;
  return success;
}

int run(void* stream, Node node) {
  if (contexts().empty()) return 201;                                  // CUDA_ERROR_INVALID_CONTEXT
  if (reinterpret_cast<uintptr_t>(stream) == 1) return execute(node);  // the default stream
  auto* s = static_cast<Stream*>(stream);
  if (s->capturing) {
    s->captured.push_back(std::move(node));
    return success;
  }
  return execute(node);
}

}  // namespace

extern "C" {
#define FAKE __attribute__((visibility("default")))

FAKE int fake_count(const char* what) {
  const std::lock_guard lock(mutex);
  return counts[what];
}
FAKE void fake_trap(int word) { trap = word; }
FAKE size_t fake_memory_in_use() { return used; }

FAKE int cuInit(unsigned) { return number("FAKE_INIT", 0); }
FAKE int cuDriverGetVersion(int* version) { return *version = 13000, success; }
FAKE int cuGetErrorName(int status, const char** text) {
  *text = status == out_of_memory   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == illegal       ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : status == invalid_image ? "CUDA_ERROR_INVALID_IMAGE"
          : status == 100           ? "CUDA_ERROR_NO_DEVICE"
                                    : "CUDA_ERROR_UNKNOWN";
  return success;
}
FAKE int cuGetErrorString(int, const char** text) { return *text = "as the fake says", success; }
FAKE int cuDeviceGetCount(int* count) { return *count = number("FAKE_DEVICES", 1), success; }
FAKE int cuDeviceGet(int* device, int index) { return *device = index, success; }
FAKE int cuDeviceGetName(char* name, int size, int) {
  return std::snprintf(name, static_cast<size_t>(size), "Fake GPU"), success;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = number("FAKE_CAPABILITY", 90);
  switch (attribute) {
    case 75:
      *value = capability / 10;
      break;
    case 76:
      *value = capability % 10;
      break;
    case 16:
      *value = 132;
      break;
    case 81:
      *value = 228 << 10;
      break;
    default:
      *value = 0;
  }
  return success;
}
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t{1} << 30, success; }
FAKE int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &memory, success; }
FAKE int cuDevicePrimaryCtxRelease_v2(int) { return success; }
FAKE int cuCtxPushCurrent_v2(void* context) { return contexts().push_back(context), success; }
FAKE int cuCtxPopCurrent_v2(void** context) {
  *context = contexts().back();
  return contexts().pop_back(), success;
}
FAKE int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = size_t{1} << 30;
  return *free = *total - used, success;
}
FAKE int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  count("cuMemAlloc");
  const std::lock_guard lock(mutex);
  if (used + bytes > size_t{1} << 30) return out_of_memory;
  auto* block = static_cast<char*>(std::malloc(bytes));
  std::memset(block, 0x7f, bytes);
  memory[block] = bytes;
  used += bytes;
  *address = reinterpret_cast<unsigned long long>(block);
  return success;
}
FAKE int cuMemFree_v2(unsigned long long address) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(at(address));
  if (found == memory.end()) return invalid_value;
  used -= found->second;
  std::free(found->first);
  memory.erase(found);
  return success;
}
FAKE int cuMemAllocHost_v2(void** data, size_t bytes) {
  count("cuMemAllocHost");
  return *data = std::malloc(bytes), success;
}
FAKE int cuMemFreeHost(void* data) { return std::free(data), success; }
FAKE int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  count("cuMemcpyHtoDAsync");
  if (!is_ours(at(to), bytes)) return invalid_value;
  return run(stream, {"upload", at(to), from, bytes});
}
FAKE int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  if (!is_ours(at(from), bytes)) return invalid_value;
  return run(stream, {"download", to, at(from), bytes});
}
FAKE int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  count("cuMemcpyDtoDAsync");
  if (!is_ours(at(to), bytes) || !is_ours(at(from), bytes)) return invalid_value;
  return run(stream, {"copy", at(to), at(from), bytes});
}
FAKE int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void* stream) {
  if (!is_ours(at(to), bytes) || static_cast<Stream*>(stream)->capturing) return invalid_value;
  if (value == 0) count((std::to_string(bytes) + " zeros").c_str());
  return std::memset(at(to), value, bytes), success;
}
FAKE int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, success; }
FAKE int cuStreamDestroy_v2(void* stream) { return delete static_cast<Stream*>(stream), success; }
FAKE int cuStreamSynchronize(void*) { return number("FAKE_WAIT", 0); }
FAKE int cuEventCreate(void** event, unsigned) { return *event = new int(0), success; }
FAKE int cuEventDestroy_v2(void* event) { return delete static_cast<int*>(event), success; }
FAKE int cuEventRecord(void* event, void* stream) { return run(stream, {"event", event}); }
FAKE int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  count("cuStreamWaitEvent");
  if (!event || flags != 0) return invalid_value;
  return run(stream, {"wait"});
}
FAKE int cuEventSynchronize(void*) { return success; }
FAKE int cuEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  if (flags != 1 || !static_cast<Stream*>(stream)->capturing) return invalid_value;
  return run(stream, {"event", event});
}
// The number of what was executed up to each event.
FAKE int cuEventElapsedTime(float* ms, void* from, void* to) {
  *ms = static_cast<float>(*static_cast<int*>(to) - *static_cast<int*>(from));
  return success;
}
// A cubin has the functions whose names are in it; the other images do not load.
FAKE int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  count("cuModuleLoadData");
  if (number("FAKE_LOAD", 0)) return number("FAKE_LOAD", 0);
  const bool text = std::memcmp(image, "\177ELF", 4) != 0;
  count(text ? "ptx" : "cubin");
  return *module = new Module, success;
}
FAKE int cuModuleUnload(void* module) { return delete static_cast<Module*>(module), success; }
FAKE int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (setting("FAKE_MISSING", "") == name) return not_found;
  Function& f = static_cast<Module*>(module)->functions[name];
  f.name = name;
  return *function = &f, success;
}
FAKE int cuFuncGetAttribute(int* value, int, void*) { return *value = 1024, success; }
FAKE int cuFuncSetAttribute(void*, int, int value) {
  if (value == 114 << 10) count("alone");
  return value <= 227 << 10 ? success : invalid_value;
}
// Puts the trap's word where the last argument is, if one was asked for.
FAKE int cuLaunchKernel(void*, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                        void* stream, void** parameters, void**) {
  count("cuLaunchKernel");
  if (x == 0 || threads == 0 || threads > 1024) return invalid_value;
  const int words = number("FAKE_TRAPS", -1);  // the position of the trap word among the arguments
  if (words < 0) return run(stream, {"launch"});
  return run(stream, {"trap", at(*static_cast<unsigned long long*>(parameters[words]))});
}
struct FakeConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  int* attribute;
  unsigned count;
};
FAKE int cuLaunchKernelEx(const void* config, void* function, void** parameters, void**) {
  const auto* c = static_cast<const FakeConfig*>(config);
  constexpr int starts_early = 6;
  if (c->count != 1 || c->attribute[0] != starts_early || c->attribute[2] != 1) return invalid_value;
  count("early");
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2],
                        c->shared_bytes, c->stream, parameters, nullptr);
}
FAKE int cuLaunchCooperativeKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                                   unsigned tz, unsigned shared, void* stream, void** parameters) {
  const std::string blocks = std::to_string(x) + " together";
  count(blocks.c_str());
  return cuLaunchKernel(function, x, y, z, threads, ty, tz, shared, stream, parameters, nullptr);
}
FAKE int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, size_t shared) {
  return *blocks = shared > 113 << 10 || threads > 512 ? (shared > 227 << 10 ? 0 : 1) : 2, success;
}
FAKE int cuStreamBeginCapture_v2(void* stream, int) { return static_cast<Stream*>(stream)->capturing = true, success; }
FAKE int cuStreamEndCapture(void* stream, void** graph) {
  auto* s = static_cast<Stream*>(stream);
  *graph = new Graph{std::move(s->captured)};
  s->captured.clear();
  return s->capturing = false, success;
}
FAKE int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  count("cuGraphInstantiate");
  return *exec = new Graph(*static_cast<Graph*>(graph)), success;
}
FAKE int cuGraphUpload(void*, void*) { return success; }
FAKE int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), success; }
FAKE int cuGraphExecDestroy(void* exec) { return delete static_cast<Graph*>(exec), success; }
FAKE int cuGraphLaunch(void* exec, void*) {
  count("cuGraphLaunch");
  for (const Node& node : static_cast<Graph*>(exec)->nodes) execute(node);
  return success;
}
}
