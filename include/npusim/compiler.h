// Compiling IR JSON to a program. Throws npusim::Error; see docs/cli.md for the kinds.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "npusim/program.h"

namespace npusim {

struct MethodSource {
  std::string name = "main";
  std::string path;  // named in messages; read when `json` is empty ("-": standard input)
  std::string json;
};

struct CompileOptions {
  std::string target = "cpu";              // "cpu", "null"; "cuda[:sm_90]" and "metal" when their backends exist
  std::string dtype = "auto";              // "auto", "float16", "bfloat16", "float32"
  std::string config;                      // path of a TargetConfig JSON that overrides the target's own
  bool strict = false;                     // numerics: round at every ATen edge
  std::set<std::string> disabled_fusions;  // names, or "all"
  std::string kv_map;                      // path of a KV mapping; empty: methods' states are paired by shape and order
  std::optional<bool> text;  // whether methods for one token get another that feeds itself; nothing: among several are
  std::string dump_pass;                   // print the graph after this pass
  std::function<void(const std::string&)> dump;      // receives the text
  std::function<void(const std::string&)> progress;  // receives the name of each stage as it begins
};

struct CompileResult {
  std::shared_ptr<const Program> program;
  std::map<std::string, double> seconds;  // import, passes, codegen, plan, total
  std::vector<std::string> notes;         // worth telling: how states were paired, numbers beyond float16's range
};

CompileResult compile(const std::vector<MethodSource>& methods, const CompileOptions& options);

// Names of all passes in order, and whether each can be switched off.
std::vector<std::pair<std::string, bool>> pass_names();

// The operators that can be compiled for a target, for people or as JSON.
std::string describe_ops(const std::string& target, bool json);
// What an IR file holds and what of it is not supported, for people or as JSON. Throws bad_input for a malformed file.
std::string describe_ir(const MethodSource& source, bool json);
// Numbers that the program stores in a dtype that makes them infinite: of its kernels and constants, and with `weights`
// those of the file. One line each, which names the first node; compile() has those without weights among its notes.
struct WeightFiles;
std::vector<std::string> overflow_notes(const Program& program, const WeightFiles* weights);
// The IR's outputs as the reference gives them: operator by operator in double precision, without the compiler.
// `inputs` are in IR order; one that the program takes wider than the IR is rounded to what the IR declares.
std::vector<HostTensor> evaluate_ir(const MethodSource& source, const std::vector<HostTensor>& inputs,
                                    const WeightFiles* weights);

}  // namespace npusim
