// A pass: one function over the graph, its name for --dump and --disable-fusion, and what passes share.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "program/target_config.h"

namespace npusim {

// Why the target cannot run a node.
struct Violation {
  std::string node;  // and its op, for messages
  ErrorKind kind = ErrorKind::unsupported;
  std::string reason;
};

struct PassContext {
  TargetConfig target;
  std::optional<DType> dtype;  // compute dtype; nullopt: chosen by choose_dtype
  // The rules of the device, the program's second, that does what the target does not; null: there is none.
  const TargetConfig* fallback = nullptr;
  bool planned = false;  // it does what the user's plan says; what else the target cannot run is an error
  // Why a device cannot run a kernel; "" if it can. Fusion asks before it merges.
  std::function<std::string(const Kernel&, int32_t device)> refuse;
  // Whether the target reads the image of a convolution as it lies; none: never.
  std::function<bool(const Kernel&)> reads_as_it_lies;
  bool strict = false;                      // numerics: round at every ATen edge
  std::set<std::string> disabled;           // fusions switched off by name; "all"
  std::map<std::string, int> fusions;       // what fused, for the report
  std::map<std::string, int> materialized;  // views that became copies, images converted to the target's layout
  std::vector<Violation> violations;        // found up to check_constraints, which reports them together
  bool enabled(const std::string& fusion) const { return !disabled.contains(fusion) && !disabled.contains("all"); }
};

struct Pass {
  const char* name;
  void (*run)(Graph&, PassContext&);
  bool optional;  // can be switched off by name
};

// Throws what was found, one line each; nothing when that is nothing.
void raise_violations(const PassContext& context);

// Every pass in order: the compiler's table of contents.
std::vector<Pass> pipeline();

// Fusions that can be switched off by name beside the passes themselves.
std::vector<std::string> fusion_names();

// On ATen nodes.
void functionalize(Graph& graph, PassContext& context);
void eliminate_noops(Graph& graph, PassContext& context);
void fold_constants(Graph& graph, PassContext& context);
void eliminate_common(Graph& graph, PassContext& context);
// From ATen nodes to kernel nodes.
void lower(Graph& graph, PassContext& context);
void keep_states(Graph& graph, PassContext& context);
void check_constraints(Graph& graph, PassContext& context);
// On kernel nodes.
void take_rows(Graph& graph, PassContext& context);
void fold_views(Graph& graph, PassContext& context);
void fuse_parameters(Graph& graph, PassContext& context);
void fuse_pointwise(Graph& graph, PassContext& context);
void fuse_epilogues(Graph& graph, PassContext& context);
void fuse_attention(Graph& graph, PassContext& context);
void bound_keys(Graph& graph, PassContext& context);
void fuse_rows(Graph& graph, PassContext& context);
void fold_batch_norm(Graph& graph, PassContext& context);
void choose_dtype(Graph& graph, PassContext& context);
void convert_images(Graph& graph, PassContext& context);
void choose_layout(Graph& graph, PassContext& context);
void count_fusions(Graph& graph, PassContext& context);

}  // namespace npusim
