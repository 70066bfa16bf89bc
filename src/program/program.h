// A compiled program as plain data: all that the compiler hands to the runtime, and all that a .npubin holds.
//
// Steps are what a program means: kernels in order, each bound to buffers, and transfers between devices. Whoever runs
// kernel IR (the interpreter, the CPU) runs the steps. Launches are how a device that is compiled for ahead of time
// executes them: code of its own, a grid, arguments. Bounds are proven of the steps (check_program).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/origin.h"
#include "base/tensor.h"
#include "kernel/kernel.h"
#include "npusim/device.h"
#include "npusim/program.h"
#include "program/target_config.h"

namespace npusim {

inline constexpr uint32_t program_version = 7;

enum class BufferKind : uint8_t {
  input,     // written by the caller before a run
  output,    // read by the caller after it
  state,     // an input that a method updates in place: stays on the device between runs (KV cache); for a method that
             // only fills it, as a prefill does, an output and no input
  weight,    // read from the weight file
  constant,  // stored in the program
  prepared,  // computed once from weights and constants by the program's recipes
  arena,     // lives within a run, at `offset` of its device's arena
  local,     // lives within one launch, at `offset` of the workspace; the launch may keep it elsewhere
};

struct Buffer {
  std::string name;  // of the value
  BufferKind kind = BufferKind::arena;
  TensorType type;                // row-major unless `stored` says otherwise
  Shape stored;                   // arena, local: extents in memory, outermost first, in a layout of the target's own;
                                  // what they hold beyond the value's elements is never read
  uint64_t offset = 0;            // arena, local: bytes
  std::string fqn;                // weight: name in the weight file
  std::vector<std::string> tied;  // weight: other names of a tied embedding
  int32_t constant = -1;          // position in Program::constants
  int32_t device = 0;             // position in Program::devices
  std::string finite_for = {};    // prepared: the fusion that is right only if every element is finite
  bool kept = false;              // state: a buffer of the model, or a weight that it writes into: no argument of it
};

inline size_t stored_bytes(const Buffer& b) {
  return static_cast<size_t>(stored_elements(b.type, b.stored)) * dtype_size(b.type.dtype);
}

// What a tensor is to a method that reads and writes text, or that draws.
enum class Role : uint8_t {
  data,       // nothing that generation knows: a state, or an input of another kind of model
  tokens,     // ids [1, length]; the output of a method that feeds itself is the next one
  positions,  // where the tokens stand, [1, length] or [length]; as an output where the next one does
  mask,    // input: which keys count. [1, heads, length, keys] that is added to scores, or booleans; or ones [1, keys]
  logits,  // output: [1, length, vocabulary], or of one token [1, 1, vocabulary]
  last,    // input [1]: which of the tokens the logits are of
  generator,    // of any method: a state [2], the seed of its random numbers and how many calls have drawn since it was
                // set
  temperature,  // of a method that draws the next token: a state [1], 0 for the likeliest
  top_p,        // of one that draws it among the likeliest: a state [1], the probability that they have together
};
inline constexpr int role_count = static_cast<int>(Role::top_p) + 1;
std::string_view role_name(Role role);
// Whether a tensor of this type can have the role, as an input or an output of a method that takes `length` tokens.
bool fits(Role role, const TensorType& type, bool output, int64_t length);

struct TensorSpec {
  std::string name;  // the IR's
  TensorType type;
  int32_t buffer = -1;
  Role role = Role::data;
};

// How long the target expects a kernel to take by itself, and what it then waits for.
enum class Resource : uint8_t { memory, products };
inline constexpr int resource_count = static_cast<int>(Resource::products) + 1;
std::string_view resource_name(Resource resource);
struct Estimate {
  double seconds = 0;
  Resource bound = Resource::memory;
};

// A kernel and the buffer of each of its arguments, all on the step's device; or, with `kernel` -1, a transfer of
// buffers[0] to buffers[1], which is on another device: the step's.
struct Step {
  int32_t kernel = -1;
  std::vector<int32_t> buffers;
  int32_t device = 0;
  std::vector<int32_t> origins;  // positions in Program::origins, ascending: the IR nodes it does the work of
  Estimate estimate = {};        // none of a transfer
  bool is_transfer() const { return kernel < 0; }
};

// Arguments of a launch that are no buffers.
inline constexpr int32_t trap_word = -1;   // a word where it leaves the number of what it met
inline constexpr int32_t own_memory = -2;  // memory of its own

// Work that a device does at once, for consecutive kernel steps of one device. Each buffer that the steps touch is
// among `args`, unless it is local.
struct Launch {
  int32_t first = 0, count = 0;  // steps
  int32_t code = -1;             // position in Program::code
  std::string symbol;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // blocks, and threads of each; x first
  std::vector<int32_t> args;       // buffers in the order of the code's parameters, trap_word, own_memory
  std::vector<std::string> traps;  // what the numbers from 1 mean, for messages
  uint32_t shared_bytes = 0;       // of a block, besides what the code declares
  uint64_t own_bytes = 0;          // of its own memory: zeros before the first run, and kept from run to run
  // Its blocks wait for each other: all of them run at once, and there are as many as the device can run so, at most
  // `grid`. What each does depends on how many there are, what all of them do does not.
  bool together = false;
  std::string how = {};                 // which of the target's implementations it is, for people
  std::vector<Declined> declined = {};  // those asked before
  bool early = false;  // may start before what precedes it has ended: its code waits for that where it must
};

// Steps in order and their launches, in order: none, or one for each kernel step of a device.
struct Sequence {
  std::vector<Step> steps;
  std::vector<Launch> launches;
};

// A method's memory on one device.
struct Arena {
  uint64_t bytes = 0;
  uint64_t lower_bound_bytes = 0;  // the largest sum of the sizes of what must exist at one step
  uint64_t workspace_bytes = 0;    // of local buffers
};

struct Method : Sequence {
  std::string name;
  std::vector<TensorSpec> inputs;   // in IR order; states that it reads are among them
  std::vector<TensorSpec> outputs;  // in IR order; two may name one buffer, and one may be an input's
  std::vector<Arena> arenas;        // one per device
  // What the compiler did, for describe: nodes of the IR, named fusions, views that became copies.
  int64_t nodes = 0;
  std::string declined;  // why all its launches are not one, of a target that makes such
  std::map<std::string, int64_t> fusions;
  std::map<std::string, int64_t> materialized;
};

// What a device's own loader takes: text or a binary.
struct Code {
  std::string format;  // "msl", "cubin", "ptx"
  std::string architecture;
  std::vector<std::byte> bytes;
};
// The same functions for several formats and architectures, of which a device takes the one that fits it best.
using CodeSet = std::vector<Code>;

struct ProgramDevice {
  std::string target;
  TargetConfig config;
};

// What timing chose for a kernel, in place of what the target expects to be the fastest.
struct Choice {
  std::string kernel;            // the symbol of its launches
  std::string device;            // that it was timed on
  std::string compiler;          // of the code, with its version
  std::string how, before;       // how it is made, and how it was
  double ms = 0, before_ms = 0;  // of all its launches in a run of the method
};

// What may differ between architectures of the first device: steps, launches, and what they are bound to.
struct Variant {
  std::vector<ProgramDevice> devices;  // the first is the one that was compiled for; targets are the same in all
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<CodeSet> code;
  Sequence recipes;  // run once at load: weights and constants in, prepared buffers out
  std::vector<Method> methods;
  std::vector<Choice> choices = {};  // by kernel
};

// What a program is to whoever generates text with it: positions of its methods, whose tensors say by their roles what
// each is. Found when it is compiled (compiler/text_facts), proven when it is loaded (check_text).
struct TextFacts {
  int32_t decode = -1;  // one token of each text per run; -1: the program is for no text, and all below is empty
  // Many tokens: what reads prompts, from the shortest to the longest, one of each length. They fill decode's states.
  // Without any the prompt goes through decode.
  std::vector<int32_t> prefills;
  // Decode's likes that feed themselves, -1 where there is none: the token that a run takes is the one that the run
  // before found likeliest, or drew, or drew among the likeliest.
  int32_t greedy = -1, sample = -1, nucleus = -1;
  int64_t batch = 0;       // texts per run
  int64_t vocabulary = 0;  // logits of a token
  int64_t capacity = 0;    // positions the states hold
  // Whether decode stores all that it keeps at its position: what stands behind is never seen. Else a state has seen
  // every token before it, once each.
  bool by_position = false;
  std::vector<std::string> lacks;  // without decode: what the program would need to be a text's
};
inline constexpr size_t most_lacks = 20;

struct Program : Variant {
  std::string model;
  DType dtype = DType::f32;  // compute dtype
  bool strict = false;       // numerics: one rounding per kernel, or at every ATen edge
  std::vector<HostTensor> constants;
  std::vector<Origin> origins;  // of all methods, in their order
  TextFacts text;
  // The same methods, with the same inputs and outputs, for other architectures: a session takes what fits its device
  // best.
  std::vector<Variant> variants;
};

// The program as it is on the architectures of one of its variants; it has none itself.
Program with_variant(const Program& program, size_t variant);

// The first tensor with a role, -1 where there is none: of all roles but data and positions there is one at most.
int find_role(const std::vector<TensorSpec>& specs, Role role);
// Why a method's roles are not those of one text: empty when they are, or when it has none.
std::vector<std::string> check_roles(const Method& method);

// What messages call a step: the last IR node it came from, or its kernel.
std::string step_name(const Program& program, const Step& step);

// Of any text in a program. Steps share names, and whoever shows steps shows them again: long ones would make more of a
// file than is in it.
inline constexpr size_t most_text_bytes = 4096;
// Whether a step writes its n-th buffer.
bool is_written(const Program& program, const Step& step, size_t n);

// Throws usage naming the methods there are.
const Method& method_named(const Program& program, const std::string& name);

// Sums over a method's devices.
uint64_t arena_bytes(const Method& method);
uint64_t arena_lower_bound_bytes(const Method& method);

uint64_t weights_bytes(const Program& program);

// Everything the runtime relies on: positions in range, kernels sound and fitting their buffers, every buffer on the
// device of the step that names it, arena offsets within the arena, values written before they are read, launches that
// cover the steps of their device. Empty when the program is sound.
std::vector<std::string> check_program(const Program& program);

// What serialize() wrote: magic, version, msgpack body, checksum. Throws bad_input naming `where` for anything
// serialize() would not have written.
Program deserialize(std::string_view bytes, const std::string& where);

}  // namespace npusim
