// A compiled program as plain data: all that the compiler hands to the runtime, and all that a .npubin holds.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "kernel/kernel.h"
#include "kernel/target_config.h"

namespace npusim {

inline constexpr uint32_t program_version = 1;

enum class BufferKind : uint8_t {
  input,     // written by the caller before a run
  output,    // read by the caller after it
  state,     // an input that the method updates in place: stays on the device between runs (KV cache)
  weight,    // read from the weight file
  constant,  // stored in the program
  prepared,  // computed once from weights and constants by the program's recipes
  arena,     // lives within a run, at `offset` of the method's arena
};

struct Buffer {
  std::string name;  // of the value
  BufferKind kind = BufferKind::arena;
  TensorType type;                // row-major unless `stored` says otherwise
  Shape stored;                   // arena: extents in memory, outermost first, of a value in the target's own layout
  uint64_t offset = 0;            // arena: bytes
  std::string fqn;                // weight: name in the weight file
  std::vector<std::string> tied;  // weight: other names of a tied embedding
  int32_t constant = -1;          // position in Program::constants
};

inline size_t stored_bytes(const Buffer& b) {
  return static_cast<size_t>(stored_elements(b.type, b.stored)) * dtype_size(b.type.dtype);
}

struct TensorSpec {
  std::string name;  // the IR's
  TensorType type;
  int32_t buffer = -1;
};

// One launch: a kernel and the buffer of each of its arguments.
struct Step {
  int32_t kernel = -1;
  std::vector<int32_t> buffers;
  std::string node;  // where it comes from
};

struct Method {
  std::string name;
  std::vector<TensorSpec> inputs;   // in IR order; states are among them
  std::vector<TensorSpec> outputs;  // in IR order; two may name one buffer, and one may be an input's
  std::vector<Step> steps;
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound_bytes = 0;
  // What the compiler did, for describe: nodes of the IR, named fusions, views that became copies.
  int64_t nodes = 0;
  std::map<std::string, int64_t> fusions;
  std::map<std::string, int64_t> materialized;
};

// A prefill output that fills the first part of a decode state, along the one dimension in which they differ.
struct StateLink {
  std::string from_method, output;
  std::string to_method, input;
};

struct KernelSource {
  std::string language;  // "cuda", "metal"
  std::string text;
  std::map<std::string, std::vector<std::byte>> binaries;  // per architecture
};

struct Program {
  std::string model;
  std::string target;
  DType dtype = DType::f32;  // compute dtype
  bool strict = false;       // numerics: one rounding per kernel, or at every ATen edge
  TargetConfig config;
  std::string toolchain;
  std::vector<Buffer> buffers;
  std::vector<HostTensor> constants;
  std::vector<Kernel> kernels;
  std::vector<KernelSource> sources;  // one per kernel, or none (cpu)
  std::vector<Step> recipes;          // run once at load: weights and constants in, prepared buffers out
  uint64_t recipe_arena_bytes = 0;
  std::vector<Method> methods;
  std::vector<StateLink> links;
};

uint64_t weights_bytes(const Program& program);

// Everything the runtime relies on: positions in range, kernels sound and fitting their buffers, arena offsets within
// the arena, steps of one method only. Empty when the program is sound.
std::vector<std::string> check_program(const Program& program);

// The .npubin: magic, version, msgpack body, checksum. Byte-identical for equal programs.
std::string serialize(const Program& program);
// Throws bad_input naming `where` for anything serialize() would not have written.
Program deserialize(std::string_view bytes, const std::string& where);

// For people, or as JSON.
std::string describe(const Program& program, bool json);

}  // namespace npusim
