// Every op record against PyTorch's answers in tests/ops/golden: one test per operator, listing all failing samples.
// Each sample is evaluated by the reference, and compiled and run in the executable's place (random/place.h): with all
// tensors as inputs, and with all but the first as weights, which are folded, prepared and packed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "compiler/compile_for.h"
#include "graph/import.h"
#include "npusim/session.h"
#include "ops/goldens.h"
#include "ops/op.h"
#include "program/program.h"
#include "random/place.h"
#include "runtime/tensor_set.h"
#include "summed_sizes.h"

namespace npusim {
namespace {

// Distance of neighbouring numbers of the dtype near `magnitude`.
double rounding_step(DType dtype, double magnitude) {
  switch (dtype) {
    case DType::f16:
      return std::ldexp(1.0, std::max(std::ilogb(magnitude), -14) - 10);
    case DType::bf16:
      return std::ldexp(1.0, std::max(std::ilogb(magnitude), -126) - 7);
    case DType::f32:
      return std::ldexp(1.0, std::max(std::ilogb(magnitude), -126) - 23);
    default:
      return std::ldexp(1.0, std::max(std::ilogb(magnitude), -1022) - 52);
  }
}

std::string compare_integers(const HostTensor& got, const TensorView& want) {
  const int64_t count = element_count(want.type.shape);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t a = load_int(got.data.data(), got.type.dtype, i), b = load_int(want.data, want.type.dtype, i);
    if (a != b) return fmt::format("element {} of {}: {}, expected {}", i, to_string(want.type), a, b);
  }
  return {};
}

// `exact` is the float64 answer, or the stored one. Each element is held to steps at the size of what was summed for
// it, or at its own where that is larger.
std::string compare_reals(const HostTensor& got, const TensorView& want, const TensorView& exact, double tolerance,
                          const std::vector<double>& sizes) {
  const DType dtype = got.type.dtype;
  const int64_t count = element_count(want.type.shape);
  std::vector<double> answer(static_cast<size_t>(count));
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double& value = answer[static_cast<size_t>(i)];
    value = load_double(exact.data, exact.type.dtype, i);
    const double stored = load_double(want.data, want.type.dtype, i);
    // Numbers beyond the dtype are what it makes of them; where float64 has other limits the stored answer counts.
    if (!std::isfinite(round_through(dtype, value)) || !std::isfinite(stored)) value = stored;
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  double worst = 0;
  int64_t worst_at = -1;
  for (int64_t i = 0; i < count; ++i) {
    const double a = load_double(got.data.data(), dtype, i), b = answer[static_cast<size_t>(i)];
    const double size = std::min(largest, std::max(std::fabs(b), sizes[static_cast<size_t>(i)]));
    const double step = rounding_step(dtype, size > 0 ? size : 1e-300);
    if (std::isnan(b)   ? std::isnan(a)
        : std::isinf(b) ? a == b
                        : std::isfinite(a) && std::fabs(a - b) <= (tolerance + 0.5) * step)
      continue;
    const double steps =
        std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) / step : std::numeric_limits<double>::infinity();
    if (steps > worst || worst_at < 0) worst = steps, worst_at = i;
  }
  if (worst_at < 0) return {};
  return fmt::format("element {} of {}: {}, expected {} ({:.1f} steps, {} are allowed)", worst_at, to_string(want.type),
                     load_double(got.data.data(), dtype, worst_at), answer[static_cast<size_t>(worst_at)], worst,
                     tolerance + 0.5);
}

using Sizes = std::map<std::string, std::vector<double>>;  // by name of the result, and element

std::string compare(const HostTensor& got, const TensorSet& tensors, const std::string& name, double tolerance,
                    const std::vector<double>& sizes) {
  const TensorView& want = get_tensor(tensors, name);
  if (!is_float(want.type.dtype)) return compare_integers(got, want);
  const TensorView* exact = find_tensor(tensors, name + ".f64");
  return compare_reals(got, want, exact ? *exact : want, tolerance, sizes);
}

// Formulas, PyTorch's too, that add 1 to what may be near -1 or beside it nothing: 1 + erf(x), log(1 + the other
// terms), x + 1 of a grid from -1 to 1. Where the operands' noise says less they are held to steps of 1.
const std::set<std::string, std::less<>> adds_one{
    "aten.gelu.default",
    "aten._addmm_activation.default",
    "aten.log_softmax.int",
    "aten._log_softmax.default",
    "aten.grid_sampler.default",
    "aten.grid_sampler_2d.default",
    "aten.grid_sampler_3d.default",
};

// Of the sample's results, by the reference. Numbers among the attributes are operands too.
Sizes sample_sizes(const test::GoldenSample& sample, const TensorSet& tensors) {
  const std::string& prefix = sample.prefix;
  Graph graph = import_ir(sample.ir.dump(), prefix);
  if (graph.nodes.empty()) return {};
  Node& node = graph.nodes.at(0);
  std::vector<HostTensor> inputs;
  for (ValueId id : node.inputs)
    inputs.push_back(id == no_value ? make_tensor({DType::i64, {0}})
                                    : copy_tensor(get_tensor(tensors, prefix + value_of(graph, id).name)));
  std::vector<double*> numbers;
  for (Attr& attr : node.attrs)
    if (double* number = std::get_if<double>(&attr)) numbers.push_back(number);
  inputs.push_back(make_tensor({DType::f64, {static_cast<int64_t>(numbers.size())}}));
  for (size_t i = 0; i < numbers.size(); ++i)
    store_double(inputs.back().data.data(), DType::f64, static_cast<int64_t>(i), *numbers[i]);
  constexpr double largest = std::numeric_limits<float>::max();  // with noise it would be refused
  const auto in_range = [largest](double x) { return std::isfinite(x) ? std::clamp(x, -largest, largest) : x; };
  const auto evaluate = [&](const std::vector<HostTensor>& given, double) {
    std::vector<TensorView> views;
    for (const HostTensor& tensor : given) views.push_back(view_of(tensor));
    std::vector<const TensorView*> pointers;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      pointers.push_back(node.inputs[i] == no_value ? nullptr : &views[i]);
    for (size_t i = 0; i < numbers.size(); ++i)
      *numbers[i] = in_range(load_double(views.back().data, DType::f64, static_cast<int64_t>(i)));
    return evaluate_call(call_of(graph, node), pointers);
  };
  const double least = adds_one.contains(node.op->name()) ? 1 : 0;
  std::vector<std::vector<double>> found = test::summed_sizes(inputs, evaluate(inputs, 0), evaluate);
  Sizes sizes;
  for (size_t i = 0; i < found.size(); ++i) {
    for (double& size : found[i]) size = std::max(size, least);
    sizes[value_of(graph, node.outputs[i]).name] = std::move(found[i]);
  }
  return sizes;
}

// Empty when the call's results are PyTorch's.
std::string run_sample(const test::GoldenSample& sample, const TensorSet& tensors, const Sizes& sizes) {
  const std::string& prefix = sample.prefix;
  const Graph graph = import_ir(sample.ir.dump(), prefix);
  if (graph.nodes.empty()) return {};  // a check, of which import keeps nothing
  const Node& node = graph.nodes.at(0);
  const OpCall call = call_of(graph, node);
  if (const std::string problem = check_call(call); !problem.empty()) return problem;
  std::vector<const TensorView*> inputs;
  for (ValueId id : node.inputs)
    inputs.push_back(id == no_value ? nullptr : &get_tensor(tensors, prefix + value_of(graph, id).name));
  const Lowering lowering = lower_call(call);
  for (const Lowering::Call& step : lowering.calls)
    if (const auto problems = check_kernel(step.kernel); !problems.empty())
      return fmt::format("kernel {}: {}\n{}", step.kernel.name, problems[0], to_text(step.kernel));
  // In double, the reference; and in float32, as devices compute: the tolerance must leave room for that.
  for (const bool single : {false, true}) {
    const std::vector<HostTensor> results = evaluate_call(call, inputs, single);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = value_of(graph, node.outputs[i]).name;
      const std::string problem =
          compare(results[i], tensors, prefix + name, node.op->record.tolerance, sizes.at(name));
      if (!problem.empty()) return fmt::format("result {}{}: {}", i, single ? " in float32" : "", problem);
    }
  }
  return {};
}

std::string show(const TensorSpec& output) { return fmt::format("output '{}'", output.name); }

// Empty when the compiled sample's outputs are PyTorch's.
std::string run_compiled(const nlohmann::json& ir, const std::string& prefix, const TensorSet& tensors,
                         const Sizes& sizes) {
  CompileOptions options;
  options.dtype = "float32";
  const Graph graph = import_ir(ir.dump(), prefix);
  for (const Value& value : graph.values)
    if (value.type.dtype == DType::f16 || value.type.dtype == DType::bf16) options.dtype = "auto";
  MethodSource source;
  source.json = ir.dump();
  static const test::Place place = test::open_place();
  const std::shared_ptr<const Program> program = compile_for(*place.target, {source}, options).program;

  const auto weights = std::make_shared<TensorSet>();
  weights->path = prefix;
  for (const auto& weight : ir.at("weights")) {
    const auto name = weight.at("name").get<std::string>();
    weights->by_name.emplace(name, weights->entries.size());
    weights->entries.push_back({name, get_tensor(tensors, prefix + name), {}});
  }
  Session session(program, {.weights = weights, .devices = place.devices, .threads = 2});
  const Method& method = program->methods.at(0);
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    const TensorView& tensor = get_tensor(tensors, prefix + method.inputs[i].name);
    if (tensor.type != method.inputs[i].type)
      return fmt::format("input '{}' is {}", method.inputs[i].name, to_string(method.inputs[i].type));
    session.set_input(0, i, {tensor.data, byte_size(tensor.type)});
  }
  session.run(0);
  if (method.outputs.size() != graph.outputs.size()) return fmt::format("{} outputs", method.outputs.size());
  // Twice the reference's, and room for sums that cancel in another order.
  const double tolerance = 3 * graph.nodes.at(0).op->record.tolerance + 0.5;
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    const TensorSpec& output = method.outputs[i];
    const std::span<const std::byte> memory = session.output(0, i);
    const HostTensor got{output.type, {memory.begin(), memory.end()}};
    if (output.type != get_tensor(tensors, prefix + output.name).type || memory.size() != byte_size(output.type))
      return fmt::format("{} is {}", show(output), to_string(output.type));
    const std::string problem = compare(got, tensors, prefix + output.name, tolerance, sizes.at(output.name));
    if (!problem.empty()) {
      std::string steps;
      for (size_t step = 0; step < method.steps.size(); ++step)
        steps += fmt::format("; {}", session.step_info(0, step).how);
      return fmt::format("{}: {}{}", show(output), problem, steps);
    }
  }
  return {};
}

// The sample with every input but the first turned into a weight.
nlohmann::json with_weights(nlohmann::json ir) {
  auto& inputs = ir.at("graph_inputs");
  while (inputs.size() > 1) {
    ir.at("weights").insert(ir.at("weights").begin(), inputs.back());
    inputs.erase(inputs.size() - 1);
  }
  std::set<std::string> names;
  for (const auto& weight : ir.at("weights")) names.insert(weight.at("name").get<std::string>());
  for (auto& node : ir.at("nodes"))
    for (auto& input : node.at("inputs"))
      if (input.is_object() && names.contains(input.value("name", ""))) {
        input.erase("producer_node");
        input.erase("producer_output_idx");
      }
  return ir;
}

std::string run_all(const test::GoldenSample& sample, const TensorSet& tensors) {
  const Sizes sizes = sample_sizes(sample, tensors);
  if (std::string problem = run_sample(sample, tensors, sizes); !problem.empty()) return problem;
  const nlohmann::json& ir = sample.ir;
  if (ir.at("graph_outputs").empty()) return {};  // a check
  const auto compiled = [&](const nlohmann::json& what, const char* how) -> std::string {
    std::string problem;
    try {
      problem = run_compiled(what, sample.prefix, tensors, sizes);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    return problem.empty() ? problem : fmt::format("compiled{}: {}", how, problem);
  };
  std::string problem = compiled(ir, "");
  if (problem.empty() && ir.at("graph_inputs").size() > 1) problem = compiled(with_weights(ir), " with weights");
  return problem;
}

// A small element is no less wrong for a large one beside it, and one that is left of a cancellation is as exact as
// what was cancelled.
TEST(GoldenCompare, EveryElementAtItsOwnScale) {
  const auto tensor = [](const std::vector<double>& values) {
    HostTensor result = make_tensor({DType::f32, {static_cast<int64_t>(values.size())}});
    for (size_t i = 0; i < values.size(); ++i)
      store_double(result.data.data(), DType::f32, static_cast<int64_t>(i), values[i]);
    return result;
  };
  const HostTensor a = tensor({1e6, 3, 1e6}), b = tensor({1, 2, 1e6 - 1});
  const auto subtract = [](const std::vector<HostTensor>& in, double) {
    std::vector<HostTensor> out = {make_tensor(in[0].type)};
    for (int64_t i = 0; i < 3; ++i)
      store_double(out[0].data.data(), DType::f32, i,
                   load_double(in[0].data.data(), DType::f32, i) - load_double(in[1].data.data(), DType::f32, i));
    return out;
  };
  const HostTensor exact = subtract({a, b}, 0)[0];
  const std::vector<double> sizes = test::summed_sizes({a, b}, {exact}, subtract)[0];
  EXPECT_LE(sizes[1], 12);
  EXPECT_GE(sizes[2], 1e6);
  const auto problem = [&](const std::vector<double>& found) {
    return compare_reals(tensor(found), view_of(exact), view_of(exact), 4, sizes);
  };
  EXPECT_EQ(problem({999999, 1, 1}), "");
  EXPECT_EQ(problem({999999, 1 + 4e-6, 1.25}), "");
  EXPECT_NE(problem({999999, 1 + 1e-4, 1}), "");
  EXPECT_NE(problem({999999, 1, 2}), "");
  EXPECT_NE(problem({999999, 1, NAN}), "");
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Agrees) {
  const std::string& op = GetParam();
  ASSERT_NE(find_op(op), nullptr) << "golden answers of an operator without a record";
  const std::vector<test::GoldenSample> samples = test::golden_samples(op);
  const std::shared_ptr<const TensorSet> tensors = test::golden_tensors(op);
  std::string failures;
  int failed = 0;
  for (const test::GoldenSample& sample : samples) {
    std::string problem;
    try {
      problem = run_all(sample, *tensors);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) continue;
    ++failed;
    failures += fmt::format("\n  {}: {}", sample.name, problem);
  }
  EXPECT_EQ(failed, 0) << op << ": " << failed << " of " << samples.size() << " samples" << failures;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(5);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Ops, Golden, testing::ValuesIn(test::golden_ops()), test_name);

// Records whose meaning another test of this folder checks by hand.
const std::set<std::string, std::less<>> tested_by_hand{
    // contract_test.cpp, attention_test.cpp: no CPU kernel in PyTorch
    "transformers.grouped_mm_fallback.default",
    "aten.mm.dtype",
    "aten.bmm.dtype",
    "aten.addmm.dtype",
    "aten.baddbmm.dtype",
    "aten._scaled_dot_product_efficient_attention.default",
    // check_test.cpp
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten._functional_assert_async.msg",
    "aten._functional_sym_constrain_range.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
};

// What draws is not PyTorch's on the CPU: random_test.cpp.
TEST(GoldenFiles, CoverEveryRecord) {
  std::set<std::string> covered;
  for (const std::string& name : test::golden_ops())
    if (const Op* op = find_op(name)) covered.insert(op->name());  // others fail in Agrees
  std::string missing;
  int count = 0;
  for (const auto& [name, op] : op_table())
    if (!covered.contains(name) && !tested_by_hand.contains(name) && !op.record.draws)
      missing += "\n  " + name, ++count;
  EXPECT_EQ(count, 0) << "op records without golden answers:" << missing;
}

}  // namespace
}  // namespace npusim
