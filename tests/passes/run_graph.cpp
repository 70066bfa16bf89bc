// Compiling, running and comparing graphs written as text.
#include "passes/run_graph.h"

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/build_program.h"
#include "codegen/target.h"
#include "compiler/reference.h"
#include "graph/text.h"
#include "runtime/executor.h"

namespace npusim::test {
namespace {

// Variances are positive, integers small: fit to be indices into any dimension of 4 and more.
HostTensor random_tensor(const TensorType& type, bool positive, std::mt19937& random) {
  HostTensor tensor = make_tensor(type);
  std::uniform_real_distribution<double> real(positive ? 0.5 : -2.0, 2.0);
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    if (is_float(type.dtype))
      store_double(tensor.data.data(), type.dtype, i, real(random));
    else
      store_int(tensor.data.data(), type.dtype, i, static_cast<int64_t>(random() % (is_integer(type.dtype) ? 4 : 2)));
  }
  return tensor;
}

struct Tensors {
  std::map<std::string, HostTensor> by_name;
  std::vector<HostTensor> inputs;
  WeightFiles weights;  // borrows by_name
};

Tensors make_tensors(const Graph& graph, const RunOptions& options) {
  Tensors t;
  std::mt19937 random(options.seed);
  for (const Value& value : graph.values) {
    if (value.source != ValueSource::input && value.source != ValueSource::weight) continue;
    const auto given = options.given.find(value.name);
    const bool positive = value.name.find("var") != std::string::npos;
    HostTensor& tensor = t.by_name[value.name];
    tensor = given != options.given.end() ? given->second : random_tensor(value.type, positive, random);
    if (value.source == ValueSource::input) continue;
    t.weights.by_name.emplace(value.fqn, t.weights.entries.size());
    t.weights.entries.push_back({value.fqn, view_of(tensor), {}});
  }
  t.weights.path = "weights";
  for (ValueId id : graph.inputs) t.inputs.push_back(t.by_name.at(value_of(graph, id).name));
  return t;
}

std::shared_ptr<const Program> compile_graph(const Graph& graph, const RunOptions& options, GraphRun& run) {
  PassContext context;
  context.target = find_target("cpu")->config();
  if (options.configure) options.configure(context.target);
  context.dtype = options.dtype;
  context.strict = options.strict;
  context.disabled = options.disabled;
  std::vector<MethodGraph> methods(1);
  methods[0].name = "main";
  methods[0].graph = graph;
  for (const Pass& pass : pipeline()) {
    if (pass.optional && !context.enabled(pass.name)) continue;
    pass.run(methods[0].graph, context);
    for (const std::string& problem : check_graph(methods[0].graph))
      ADD_FAILURE() << "after " << pass.name << ": " << problem;
  }
  run.fusions = context.fusions;
  auto program = std::make_shared<const Program>(build_program(methods, context));
  for (const std::string& problem : check_program(*program)) ADD_FAILURE() << problem;
  for (const Kernel& kernel : program->kernels) EXPECT_EQ(find_target("cpu")->refuse(kernel), "");
  return program;
}

std::vector<HostTensor> run_program(const GraphRun& run, const Tensors& tensors) {
  Executor executor(run.program, &tensors.weights, open_backend("cpu", 2));
  const Method& method = run.method();
  std::vector<HostTensor> outputs;
  for (int repeat = 0; repeat < 2; ++repeat) {
    outputs.clear();
    for (size_t i = 0; i < method.inputs.size(); ++i)
      std::memcpy(executor.input(0, i).data(), tensors.inputs[i].data.data(), tensors.inputs[i].data.size());
    executor.run(0);
    for (size_t i = 0; i < method.outputs.size(); ++i) {
      const auto memory = executor.output(0, i);
      outputs.push_back({method.outputs[i].type, {memory.begin(), memory.end()}});
    }
  }
  return outputs;
}

void compare(const std::string& name, const HostTensor& found, const HostTensor& expected, double tolerance) {
  const DType dtype = expected.type.dtype;
  ASSERT_EQ(to_string(found.type), to_string(expected.type)) << name;
  double magnitude = 0;
  const std::vector<double> a = values_of(found), b = values_of(expected);
  for (double x : b)
    if (std::isfinite(x)) magnitude = std::max(magnitude, std::fabs(x));
  const double unit = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0;
  const double allowed = is_float(dtype) ? (tolerance + unit) * magnitude : 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::fabs(a[i] - b[i]) <= allowed)) {
      ADD_FAILURE() << name << " element " << i << ": " << a[i] << ", expected " << b[i];
      return;
    }
}

}  // namespace

HostTensor tensor_of(TensorType type, const std::vector<double>& values) {
  HostTensor tensor = make_tensor(std::move(type));
  for (size_t i = 0; i < values.size(); ++i)
    store_double(tensor.data.data(), tensor.type.dtype, static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values(static_cast<size_t>(element_count(tensor.type.shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_double(tensor.data.data(), tensor.type.dtype, static_cast<int64_t>(i));
  return values;
}

GraphRun run_graph(const std::string& text, const RunOptions& options) {
  const Graph graph = parse_graph("graph \"test\"\n" + text);
  const Tensors tensors = make_tensors(graph, options);
  GraphRun run;
  run.program = compile_graph(graph, options, run);
  if (testing::Test::HasFailure()) return run;
  run.expected = run_reference(graph, tensors.inputs, &tensors.weights);
  run.outputs = run_program(run, tensors);
  const Method& method = run.method();
  EXPECT_EQ(method.outputs.size(), graph.outputs.size());
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    EXPECT_EQ(method.outputs[i].name, graph.outputs[i].name);
    compare(method.outputs[i].name, run.outputs[i], run.expected[i], options.tolerance);
  }
  return run;
}

}  // namespace npusim::test
