// Compiling IR JSON to a program. Functions may be called from any number of threads at once. They throw Error, whose
// problems() are every node, weight or tensor that is wrong or not supported.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "npusim/program.h"
#include "npusim/tensor_set.h"

namespace npusim {

struct MethodSource {
  std::string name = "main";
  std::string path = {};  // named in messages; read when `json` is empty ("-": standard input)
  std::string json = {};
};

// A JSON file of options.
struct JsonSource {
  std::string path = {};  // named in messages; read when `json` is empty. Both empty: not given
  std::string json = {};
  bool given() const { return !path.empty() || !json.empty(); }
};

struct CompileOptions {
  std::string target = "cpu";                   // "cpu", "null", "cuda", "cuda:sm_80,sm_90a"
  std::string dtype = "auto";                   // "auto", "float16", "bfloat16", "float32"
  JsonSource config = {};                       // overrides of the target's hardware rules: docs/cli.md
  bool strict = false;                          // numerics: round at every ATen edge
  std::set<std::string> disabled_fusions = {};  // names, or "all"
  // What the target cannot run is run by the CPU, in the same program; false: it is an error.
  bool fallback = true;
  std::set<std::string> force_cpu = {};  // operators for the CPU: "aten.relu.default", "aten.relu" or "relu"
  JsonSource plan = {};                  // partition_plan()'s, perhaps edited: it alone says which nodes the CPU runs
  // Of the program: checked before code is made for it; of what its IR takes and gives, before anything else.
  Budget budget = {};
  JsonSource kv_map = {};  // which outputs fill which states; without it they are paired by shape and order
  // Whether methods for one token get others that feed themselves; nothing: among several they do.
  std::optional<bool> text = std::nullopt;
  std::string dump_pass = {};                             // print the graph after this pass
  std::function<void(const std::string&)> dump = {};      // receives the text
  std::function<void(const std::string&)> progress = {};  // receives the name of each stage as it begins
};

struct CompileResult {
  std::shared_ptr<const Program> program;
  std::map<std::string, double> seconds;  // import, passes, codegen, plan, total
  std::vector<std::string> notes;         // worth telling: how states were paired, numbers beyond float16's range
};

NPUSIM_API CompileResult compile(const std::vector<MethodSource>& methods, const CompileOptions& options = {});

// A program's launches made anew, by the target ("": its own), from the kernels of its steps, which are proven: nothing
// of the launches and the code in it is used. What was tuned is not kept. Throws unsupported naming what the target
// refuses.
NPUSIM_API std::shared_ptr<const Program> recompile(const Program& program, const std::string& target = {});

// Names of all passes in order, and whether each can be switched off.
NPUSIM_API std::vector<std::pair<std::string, bool>> pass_names();

// The operators that can be compiled for a target, for people or as JSON.
NPUSIM_API std::string describe_ops(const std::string& target, bool json);
// Throw bad_input for a text that is no JSON object, as an IR has it (with Python's NaN) or any other file: for callers
// that read it with another reader, too, which may be laxer (keys that are there twice, numbers beyond double's range,
// depth).
NPUSIM_API void check_ir_text(const MethodSource& source);
NPUSIM_API void check_json_text(const JsonSource& source);
// What an IR file holds and what of it is not supported, for people or as JSON. Throws bad_input for a malformed file.
NPUSIM_API std::string describe_ir(const MethodSource& source, bool json);
// Numbers that the program stores in a dtype that makes them infinite: of its kernels and constants, and with `weights`
// those of the file. One line each, which names the first node; compile() has those without weights among its notes.
NPUSIM_API std::vector<std::string> overflow_notes(const Program& program, const TensorSet* weights);
// A part of an IR beside the reference.
struct PartError {
  std::vector<std::string> nodes, operators;  // of the IR, in its order
  double carried = 0;        // relative L2 of its last result when it reads what the program computed before it
  double isolated = 0;       // likewise when it reads what the reference computed: its own error
  double executed = 0;       // of its launch in the program itself, beside what the launch means, on the same memory
  std::string how = {};      // that launch is executed
  std::string problem = {};  // what it throws, if it does
};

// Where a program leaves the reference.
struct Bisection {
  double outputs = 0;            // largest relative L2 of the IR's outputs
  double tolerance = 0;          // how far each may be
  std::vector<PartError> parts;  // what becomes one step, in the order of the run
  int first = -1;                // the first part whose carried error is above the tolerance
  int culprit = -1;              // the first whose launch is wrong; if none is, the first whose own error is too large
  bool launch = false;           // the culprit is such a launch
  std::vector<PartError> nodes;  // of the culprit, each alone
  int node = -1;  // of those the first whose own error is above the tolerance; none: they are wrong together
  std::vector<std::string> fusions;  // each of which, switched off, makes the culprit right
};

inline constexpr const char* bisection_files[] = {"ir.json", "inputs.safetensors", "weights.safetensors",
                                                  "golden.safetensors"};

// Compiles the IR as it is and in parts, runs it on the target's device and compares with the reference. With `folder`
// the culprit is left there, all its files or none, weights only where it has any; none may be the IR or the weights.
// `tolerance` is relative L2; without one it is 1e-4, where steps leave float16 to each other 0.02, bfloat16 0.04.
// Throws what compile() throws for the IR as a whole.
NPUSIM_API Bisection bisect(const MethodSource& source, const CompileOptions& options,
                            const std::vector<HostTensor>& inputs, std::shared_ptr<const TensorSet> weights,
                            std::optional<double> tolerance = {}, const std::string& folder = {});
NPUSIM_API std::string describe_bisection(const Bisection& bisection, bool json);

// What the reference gives: an IR's outputs, and the dtypes of all its values, to which it rounds.
struct Evaluated {
  std::vector<HostTensor> outputs;
  std::vector<DType> dtypes;
};
// Operator by operator in double precision, without the compiler. `inputs` are in IR order; one that the program takes
// wider than the IR is rounded to what the IR declares.
NPUSIM_API Evaluated evaluate_ir(const MethodSource& source, const std::vector<HostTensor>& inputs,
                                 const TensorSet* weights);

}  // namespace npusim
