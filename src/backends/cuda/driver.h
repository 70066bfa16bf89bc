// The functions of the CUDA driver that are used, found when they are needed: no toolkit is needed to build or to run.
#pragma once
#include <cstddef>
#include <string>

namespace npusim::cuda {

// What the driver calls CUdeviceptr, CUresult, and its opaque handles.
using DevicePointer = unsigned long long;
using Status = int;
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;
using Graph = void*;
using GraphExec = void*;

// What the driver calls CUlaunchAttribute and CUlaunchConfig, of the only attribute that is used.
struct LaunchAttribute {
  int id = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  char unused[4] = {};
  int value = 1;
  char rest[60] = {};
};
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned count;
};

struct Driver {
  Status (*init)(unsigned) = nullptr;
  Status (*version)(int*) = nullptr;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*error_string)(Status, const char**) = nullptr;
  Status (*device_count)(int*) = nullptr;
  Status (*device)(int*, int) = nullptr;
  Status (*device_name)(char*, int, int) = nullptr;
  Status (*device_attribute)(int*, int, int) = nullptr;
  Status (*device_memory)(size_t*, int) = nullptr;
  Status (*retain_context)(Context*, int) = nullptr;
  Status (*release_context)(int) = nullptr;
  Status (*push_context)(Context) = nullptr;
  Status (*pop_context)(Context*) = nullptr;
  Status (*memory_info)(size_t*, size_t*) = nullptr;
  Status (*allocate)(DevicePointer*, size_t) = nullptr;
  Status (*release)(DevicePointer) = nullptr;
  Status (*allocate_host)(void**, size_t) = nullptr;
  Status (*release_host)(void*) = nullptr;
  Status (*to_device)(DevicePointer, const void*, size_t, Stream) = nullptr;
  Status (*to_host)(void*, DevicePointer, size_t, Stream) = nullptr;
  Status (*copy)(DevicePointer, DevicePointer, size_t, Stream) = nullptr;
  Status (*set_bytes)(DevicePointer, unsigned char, size_t, Stream) = nullptr;
  Status (*create_stream)(Stream*, unsigned) = nullptr;
  Status (*destroy_stream)(Stream) = nullptr;
  Status (*wait_stream)(Stream) = nullptr;
  Status (*create_event)(Event*, unsigned) = nullptr;
  Status (*destroy_event)(Event) = nullptr;
  Status (*record_event)(Event, Stream) = nullptr;
  Status (*wait_event)(Event) = nullptr;
  Status (*follow_event)(Stream, Event, unsigned) = nullptr;
  Status (*record_event_with)(Event, Stream, unsigned) = nullptr;
  Status (*elapsed)(float*, Event, Event) = nullptr;
  Status (*load_module)(Module*, const void*, unsigned, int*, void**) = nullptr;
  Status (*unload_module)(Module) = nullptr;
  Status (*find_function)(Function*, Module, const char*) = nullptr;
  Status (*function_attribute)(int*, int, Function) = nullptr;
  Status (*set_function_attribute)(Function, int, int) = nullptr;
  Status (*parameter)(Function, size_t, size_t*, size_t*) = nullptr;  // since 12.4: may be missing
  Status (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                   void**) = nullptr;
  Status (*launch_with)(const void* config, Function, void**, void**) = nullptr;  // since 11.8: may be missing
  // With all blocks at the same time, or not at all; how many of a function fit on a multiprocessor.
  Status (*launch_together)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                            void**) = nullptr;
  Status (*blocks_at_once)(int*, Function, int, size_t) = nullptr;
  Status (*begin_capture)(Stream, int) = nullptr;
  Status (*end_capture)(Stream, Graph*) = nullptr;
  Status (*instantiate)(GraphExec*, Graph, unsigned long long) = nullptr;
  Status (*upload_graph)(GraphExec, Stream) = nullptr;
  Status (*destroy_graph)(Graph) = nullptr;
  Status (*destroy_graph_exec)(GraphExec) = nullptr;
  Status (*launch_graph)(GraphExec, Stream) = nullptr;
};

// The library of the environment's NPUSIM_CUDA_DRIVER, or the system's, initialized; throws device with what was looked
// for.
const Driver& driver();

inline constexpr Status out_of_memory = 2;

// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory".
std::string status_text(const char* call, Status status);
// Throws device naming the call and what it returned, unless that is success.
void check(Status status, const char* call);

}  // namespace npusim::cuda
