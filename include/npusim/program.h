// A compiled program: load, save, describe, methods and their tensors. A program never changes; any number of threads
// and sessions may share one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "npusim/error.h"
#include "npusim/tensor.h"

namespace npusim {

struct Program;

// A program's kernels are proven when it is loaded, whoever wrote it. Its launches on devices that are compiled for
// ahead, and its calls of a plugin, are code (SECURITY.md).
struct LoadOptions {
  // False: launches are left out, the CPU runs the steps that they are of; a program that calls a plugin is refused.
  bool code = true;
  std::vector<std::string>* notes = nullptr;  // receives what was left out
};
// "-": standard input. Reads the file, which may change or vanish afterwards.
NPUSIM_API std::shared_ptr<const Program> load_program(const std::string& path, const LoadOptions& options = {});
// From a .npubin's bytes, which `where` names in messages. Throws bad_input for anything serialize() did not write.
NPUSIM_API std::shared_ptr<const Program> parse_program(std::string_view bytes, const std::string& where,
                                                        const LoadOptions& options = {});
NPUSIM_API void save_program(const Program& program, const std::string& path);  // whole or not at all
// The .npubin: the same for equal programs.
NPUSIM_API std::string serialize(const Program& program);

// For people, or as JSON (docs/cli.md).
NPUSIM_API std::string describe(const Program& program, bool json);
// What it does in order: every step with its buffers and the IR nodes it came from, every launch.
NPUSIM_API std::string describe_steps(const Program& program, bool json);

// Which device does what, and why: segments, transfers, their bytes and estimated times, reasons.
NPUSIM_API std::string describe_partition(const Program& program, bool json);
// What CompileOptions::plan takes: the nodes of the IR that the CPU does, by method, and why. JSON.
NPUSIM_API std::string partition_plan(const Program& program);
// Segments and transfers as an SVG picture.
NPUSIM_API std::string partition_picture(const Program& program);
// Writes such a text to a file, whole or not at all.
NPUSIM_API void save_text(const std::string& text, const std::string& path);

struct ProgramInfo {
  std::string model;
  DType dtype = DType::f32;          // compute dtype
  bool strict = false;               // numerics: rounded at every ATen edge
  std::vector<std::string> targets;  // of its devices; the first is the one that was compiled for
  uint64_t weights_bytes = 0;        // that it reads from weight files
};
NPUSIM_API ProgramInfo program_info(const Program& program);

struct TensorInfo {
  std::string name;  // the IR's
  TensorType type;
  bool state = false;  // stays on its device from run to run, updated in place (a KV cache)
  std::string role =
      "data";         // what it is to a text: tokens, positions, mask, logits, last; or generator: of random numbers
  bool kept = false;  // a state that is a buffer of the model, or a weight that it writes into: no argument of it
};
NPUSIM_API std::vector<std::string> method_names(const Program& program);
// In IR order, which is the order of positions. Throws usage naming the methods there are.
NPUSIM_API std::vector<TensorInfo> method_inputs(const Program& program, const std::string& method);
NPUSIM_API std::vector<TensorInfo> method_outputs(const Program& program, const std::string& method);

// How much a run of a method does at least.
struct Work {
  uint64_t read_bytes = 0;     // distinct bytes each argument of a kernel is read at, summed over the steps
  uint64_t written_bytes = 0;  // likewise
  uint64_t flops = 0;          // two per multiply-accumulate of matmuls, convolutions and attentions
};
NPUSIM_API Work method_work(const Program& program, const std::string& method);

// What a program takes, and what it may take; 0 there: as much as it needs.
struct Needs {
  uint64_t bytes = 0;  // of memory for a session, on all devices: weights, constants, what is prepared of them, states,
                       // inputs, outputs, and the intermediate values of its largest method
  uint64_t flops = 0;  // operations of a run of its longest method: two for each multiply-accumulate, and one for each
                       // expression of each element that it computes
};
struct Budget {
  uint64_t max_bytes = 0, max_flops = 0;
};
NPUSIM_API Needs program_needs(const Program& program);
// Throws unsupported, with what is needed and what is allowed, for a program that is beyond the budget.
NPUSIM_API void check_budget(const Program& program, const Budget& budget);

// One of a method's steps.
struct StepOverview {
  std::string kernel;                         // its name: of the fusion; "transfer" from one device to another
  int device = 0;                             // position among the program's devices
  int from = -1;                              // of a transfer: the device that it moves from
  Work work;                                  // of a transfer the bytes that it moves, as read ones
  std::vector<std::string> nodes, operators;  // of the IR that it does the work of, in the IR's order
  std::vector<std::string> weights;           // that it reads, as they are or as prepared at load: of more than
                                              // 256, or 1024 letters, a part
};
NPUSIM_API std::vector<StepOverview> method_steps(const Program& program, const std::string& method);
// Every weight that a run of any method, or what is prepared for one at load, reads.
NPUSIM_API std::vector<std::string> weights_read(const Program& program);

// The last node of the IR that each of the method's steps came from, in order; a step that came from none has its
// kernel's name.
NPUSIM_API std::vector<std::string> step_names(const Program& program, const std::string& method);

// Every dtype that the program computes or rounds something in; weights and constants are only stored in theirs.
NPUSIM_API std::vector<DType> used_dtypes(const Program& program);

}  // namespace npusim
