// Compiling, running and comparing graphs written as text.
#include "passes/run_graph.h"

#include <cmath>
#include <numeric>
#include <random>

#include "codegen/build_program.h"
#include "compiler/reference.h"
#include "graph/text.h"
#include "npusim/session.h"
#include "runtime/tensor_set.h"
#include "summed_sizes.h"

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

// The graph's inputs and weights, by name.
using Tensors = std::map<std::string, HostTensor>;

Tensors make_tensors(const Graph& graph, const RunOptions& options) {
  Tensors tensors;
  std::mt19937 random(options.seed);
  for (const Value& value : graph.values) {
    if (value.source != ValueSource::input && value.source != ValueSource::weight) continue;
    const auto given = options.given.find(value.name);
    const bool positive = value.name.find("var") != std::string::npos;
    tensors[value.name] = given != options.given.end() ? given->second : random_tensor(value.type, positive, random);
  }
  return tensors;
}

// The same values in the dtypes of another graph.
Tensors tensors_of(const Graph& graph, const Tensors& tensors) {
  Tensors out = tensors;
  for (const Value& value : graph.values)
    if (const auto at = out.find(value.name); at != out.end() && at->second.type != value.type)
      at->second = tensor_of(value.type, values_of(at->second));
  return out;
}

std::vector<HostTensor> inputs_of(const Graph& graph, const Tensors& tensors) {
  std::vector<HostTensor> inputs;
  for (ValueId id : graph.inputs) inputs.push_back(tensors.at(value_of(graph, id).name));
  return inputs;
}

// Borrows the tensors.
TensorSet weights_of(const Graph& graph, const Tensors& tensors) {
  TensorSet weights;
  weights.path = "weights";
  for (const Value& value : graph.values) {
    if (value.source != ValueSource::weight) continue;
    weights.by_name.emplace(value.fqn, weights.entries.size());
    weights.entries.push_back({value.fqn, view_of(tensors.at(value.name)), {}});
  }
  return weights;
}

std::vector<HostTensor> evaluate_graph(const Graph& graph, const Tensors& tensors) {
  const TensorSet weights = weights_of(graph, tensors);
  return run_reference(graph, inputs_of(graph, tensors), &weights);
}

std::shared_ptr<const Program> compile_graph(const Graph& graph, const RunOptions& options, GraphRun& run) {
  const CodegenTarget& target = options.target ? *options.target : *find_target("cpu");
  PassContext context;
  context.target = target.config();
  context.refuse = [&](const Kernel& kernel, int32_t) { return target.refuse(kernel); };
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
    // Here every run begins with the weights as they are given.
    std::erase_if(methods[0].graph.outputs, [&](const GraphOutput& output) {
      return output.next_of != no_value && value_of(methods[0].graph, output.next_of).source != ValueSource::input;
    });
    if (!context.violations.empty()) continue;  // the graph has holes: check_constraints ends the compilation
    for (const std::string& problem : check_graph(methods[0].graph))
      ADD_FAILURE() << "after " << pass.name << ": " << problem;
  }
  run.fusions = context.fusions;
  auto [program, plans] = build_program(methods, context, &target);
  for (const Kernel& kernel : program.kernels) EXPECT_EQ(target.refuse(kernel), "");
  target.plan(program, plans);
  if (options.place) program = options.place(program);
  for (const std::string& problem : check_program(program)) ADD_FAILURE() << problem;
  return std::make_shared<const Program>(std::move(program));
}

std::vector<HostTensor> run_program(const GraphRun& run, const Graph& graph, const Tensors& tensors,
                                    const RunOptions& options) {
  const auto weights = std::make_shared<const TensorSet>(weights_of(graph, tensors));
  const std::vector<HostTensor> inputs = inputs_of(graph, tensors);
  Session session(run.program, {.weights = weights, .devices = options.devices, .threads = 2});
  const Method& method = run.method();
  std::vector<HostTensor> outputs;
  for (int repeat = 0; repeat < 2; ++repeat) {
    outputs.clear();
    for (size_t i = 0; i < method.inputs.size(); ++i) {
      const HostTensor given = method.inputs[i].type == inputs[i].type
                                   ? inputs[i]
                                   : tensor_of(method.inputs[i].type, values_of(inputs[i]));  // a widened one
      session.set_input(0, i, given.data);
    }
    session.run(0);
    for (size_t i = 0; i < method.outputs.size(); ++i) {
      const auto memory = session.output(0, i);
      outputs.push_back({method.outputs[i].type, {memory.begin(), memory.end()}});
    }
  }
  return outputs;
}

// dtype: what the graph says of the output.
void compare(const std::string& name, DType dtype, const HostTensor& found, const HostTensor& expected,
             const std::vector<double>& sizes, const RunOptions& options) {
  const bool widened = options.dtype == DType::f32 && !options.strict && is_float(dtype) && dtype_size(dtype) == 2;
  ASSERT_EQ(to_string(found.type), to_string(TensorType{widened ? DType::f32 : dtype, expected.type.shape})) << name;
  double largest = 0;
  const std::vector<double> a = values_of(found), b = values_of(expected);
  for (double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  const double unit = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double size = std::min(largest, std::max(std::fabs(b[i]), sizes[i]));
    const double allowed = is_float(dtype) ? (options.tolerance + unit) * size : 0;
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::fabs(a[i] - b[i]) <= allowed) continue;
    ADD_FAILURE() << name << " element " << i << ": " << a[i] << ", expected " << b[i] << " within " << allowed;
    return;
  }
}

// The graph with a noise after every operator that computes something: a program may round there, or not.
Graph with_noise(const Graph& graph, double noise, std::mt19937& random) {
  Graph plain = graph;
  PassContext context;
  functionalize(plain, context);
  Graph noisy = plain;
  noisy.nodes.clear();
  std::vector<ValueId> now(plain.values.size());
  std::iota(now.begin(), now.end(), 0);
  for (Node node : plain.nodes) {
    for (ValueId& id : node.inputs)
      if (id != no_value) id = now[static_cast<size_t>(id)];
    add_node(noisy, node);
    const bool is_view =
        node.op && node.op->record.memory >= Memory::itself && node.op->record.memory <= Memory::computed;
    const auto dtype_of = [&](ValueId id) { return value_of(noisy, id).type.dtype; };
    // A view in another dtype is a cast, which rounds.
    if (!node.op || (is_view && dtype_of(node.outputs[0]) == dtype_of(node.inputs[0]))) continue;
    for (ValueId id : node.outputs) {
      const TensorType type = value_of(noisy, id).type;
      if (!is_float(type.dtype)) continue;
      HostTensor factor = make_tensor(type);
      for (int64_t i = 0; i < element_count(type.shape); ++i) store_double(factor.data.data(), type.dtype, i, 1);
      add_noise(factor, noise, random);
      Node product;
      product.name = "noise";
      product.op = find_op("aten.mul.Tensor");
      product.inputs = {id, add_constant(noisy, "factor", std::move(factor))};
      product.attrs.resize(product.op->schema.args.size());
      product.outputs = {add_value(noisy, "noisy", type)};
      now[static_cast<size_t>(id)] = product.outputs[0];
      add_node(noisy, std::move(product));
    }
  }
  return noisy;
}

// By output and element: what its errors are relative to.
std::vector<std::vector<double>> sizes_of(const Graph& graph, const Tensors& tensors,
                                          const std::vector<HostTensor>& expected) {
  std::vector<HostTensor> flat;
  for (const auto& [name, tensor] : tensors) flat.push_back(tensor);
  std::mt19937 random(2);
  return summed_sizes(flat, expected, [&](const std::vector<HostTensor>& given, double noise) {
    Tensors changed;
    auto next = given.begin();
    for (const auto& [name, tensor] : tensors) changed[name] = *next++;
    return evaluate_graph(with_noise(graph, noise, random), changed);
  });
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
  run.outputs = run_program(run, graph, tensors, options);
  const Graph reference = options.reference.empty() ? graph : parse_graph("graph \"reference\"\n" + options.reference);
  const Tensors theirs = tensors_of(reference, tensors);
  run.expected = evaluate_graph(reference, theirs);
  const std::vector<std::vector<double>> sizes = sizes_of(reference, theirs, run.expected);
  const Method& method = run.method();
  EXPECT_EQ(method.outputs.size(), graph.outputs.size());
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    EXPECT_EQ(method.outputs[i].name, graph.outputs[i].name);
    compare(method.outputs[i].name, value_of(graph, graph.outputs[i].value).type.dtype, run.outputs[i], run.expected[i],
            sizes[i], options);
  }
  return run;
}

}  // namespace npusim::test
