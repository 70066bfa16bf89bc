// From lowered graphs to a program: buffers, kernels, steps, recipes, the memory plan.
#pragma once
#include <string>
#include <vector>

#include "codegen/target.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "program/program.h"

namespace npusim {

struct MethodGraph {
  std::string name;
  Graph graph;  // kernel nodes only
  std::map<std::string, int64_t> fusions = {}, materialized = {};
  std::vector<Role> input_roles = {}, output_roles = {};  // by position; empty: all are data
  // The last inputs of the graph are states of another method, by these names, which this one only writes: they are
  // among its outputs, and no inputs of the method.
  std::vector<std::string> fills = {};
};

struct BuiltProgram {
  Program program;
  ProgramPlans plans;  // of its launches
};

// Kernels with equal bodies are one; weights, constants, recipes and states are shared between methods (states by the
// name of the input). The target says which kernels become several steps, and groups steps into launches, which it has
// yet to plan; without one there are none. With nodes on another device than the first the program has two.
BuiltProgram build_program(std::vector<MethodGraph>& methods, const PassContext& context,
                           const CodegenTarget* target = nullptr);

// The read arguments whose memory the kernel's one result may take if nobody needs them afterwards.
std::vector<size_t> in_place_arguments(const Kernel& kernel);

// Inserts copies where a kernel would update a value in place that is still needed, that it reads elsewhere than where
// it stores, or that is not the program's to change (weights, constants, inputs that are no state).
void protect_updated_values(Graph& graph);

}  // namespace npusim
