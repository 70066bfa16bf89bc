// Graphs written as text in tests: taken through every pass, run on a device, compared with the reference.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "graph/graph.h"
#include "npusim/session.h"
#include "passes/pass.h"
#include "program/program.h"

namespace npusim::test {

struct RunOptions {
  DType dtype = DType::f32;  // compute dtype
  bool strict = false;
  std::function<void(TargetConfig&)> configure = {};  // the target's rules, from its own
  std::set<std::string> disabled = {};                // fusions
  // Relative to what each element is summed from; for 16 bits two rounding steps are added.
  double tolerance = 2e-6;
  unsigned seed = 1;
  std::map<std::string, HostTensor> given = {};  // inputs and weights by name; the others are random
  // The graph that says what is expected, where it is another: of the same inputs and weights, in its dtypes.
  std::string reference = {};
  const CodegenTarget* target = nullptr;  // to compile for; none: the CPU's
  // Where to run it: the program moved to other devices, and they. The CPU if not given.
  std::function<Program(const Program&)> place = {};
  std::vector<std::shared_ptr<Backend>> devices = {};
};

struct GraphRun {
  std::shared_ptr<const Program> program;
  std::vector<HostTensor> outputs, expected;  // of the device and of the reference
  std::map<std::string, int> fusions;
  const Method& method() const { return program->methods[0]; }
  size_t steps() const { return method().steps.size(); }
};

HostTensor tensor_of(TensorType type, const std::vector<double>& values);
std::vector<double> values_of(const HostTensor& tensor);

// Compiles `text`, checking the graph after every pass and the program at the end; runs it on the device twice and by
// the reference, operator by operator. Adds a failure where outputs differ, in names, types or values.
GraphRun run_graph(const std::string& text, const RunOptions& options = {});

}  // namespace npusim::test
