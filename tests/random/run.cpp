// Compiling, running and comparing one graph.
#include "random/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/build_program.h"
#include "compiler/reference.h"
#include "npusim/session.h"
#include "partition/partition.h"
#include "random/compare.h"
#include "random/eager.h"
#include "random/place.h"
#include "random/values.h"
#include "runtime/weights.h"
// The targets must be chosen before Highway is read.
// clang-format off
#include "backends/cpu/vector_targets.h"
#include "runtime/tensor_set.h"
#include <hwy/highway.h>
// clang-format on

namespace npusim::test {
namespace {

struct Failure {
  Result result;
  std::string what;
};

struct Given {
  Tensors by_name;
  std::vector<HostTensor> inputs;
  TensorSet weights;  // borrows by_name
};

Given make_given(const Graph& graph, uint64_t seed) {
  Given given;
  for (const Value& value : graph.values) {
    if (value.source != ValueSource::input && value.source != ValueSource::weight) continue;
    const HostTensor& tensor = given.by_name[value.name] = make_values(value.name, value.type, seed);
    if (value.source == ValueSource::input) continue;
    given.weights.by_name.emplace(value.fqn, given.weights.entries.size());
    given.weights.entries.push_back({value.fqn, view_of(tensor), {}});
  }
  given.weights.path = "weights";
  for (const ValueId id : graph.inputs) given.inputs.push_back(given.by_name.at(value_of(graph, id).name));
  return given;
}

// What must come out: exact arithmetic, and the same with rounding errors.
struct Expected {
  std::vector<HostTensor> outputs;
  std::vector<bool> exact;
  std::vector<std::vector<HostTensor>> noisy;  // by output
  bool much = false;                           // as many runs as an accusation takes
};

// What 16 bits hold of the graph's values is not more than they hold of its results.
DType widest_step(const Graph& graph, DType dtype) {
  for (const Value& value : graph.values)
    if (value.type.dtype == DType::bf16 || (value.type.dtype == DType::f16 && dtype != DType::bf16))
      dtype = value.type.dtype;
  return dtype;
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

HostTensor widened(const HostTensor& tensor) {
  if (!is_half(tensor.type.dtype)) return tensor;
  HostTensor wide = make_tensor({DType::f32, tensor.type.shape});
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
    store_double(wide.data.data(), DType::f32, i, load_double(tensor.data.data(), tensor.type.dtype, i));
  return wide;
}

// The graph with float32 in place of 16 bits: within a kernel, and at --dtype float32, nothing is rounded to those.
Graph widened(const Graph& graph) {
  Graph wide = graph;
  for (Value& value : wide.values) {
    if (value.data) value.data = std::make_shared<const HostTensor>(widened(*value.data));
    if (is_half(value.type.dtype)) value.type.dtype = DType::f32;
  }
  for (Node& node : wide.nodes)
    for (Attr& attr : node.attrs)
      if (DType* dtype = std::get_if<DType>(&attr); dtype && is_half(*dtype)) *dtype = DType::f32;
  return wide;
}

void add_run(const Graph& graph, const Tensors& given, const Noise* noise, Expected& expected) {
  std::vector<HostTensor> outputs = run_eager(graph, given, noise).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) expected.noisy[i].push_back(std::move(outputs[i]));
}

Tensors widened(const Tensors& given) {
  Tensors wide;
  for (const auto& [name, tensor] : given) wide.emplace(name, widened(tensor));
  return wide;
}

// Weights as the program has them.
Tensors stored_weights(const Graph& graph, Tensors given, DType dtype) {
  for (const Value& value : graph.values)
    if (value.source == ValueSource::weight && value.type.dtype == DType::f32) round_to(given.at(value.name), dtype);
  return given;
}

Expected expect(const Graph& graph, const Given& given, DType dtype, uint64_t values) {
  Expected expected;
  EagerResult eager = run_eager(graph, given.by_name);
  expected.outputs = std::move(eager.outputs);
  expected.exact = std::move(eager.exact);
  expected.noisy.resize(expected.outputs.size());
  const Tensors stored = stored_weights(graph, given.by_name, dtype);
  // Twice the same errors with opposite signs, and others; what 16 bits make equal is met by rounding to them: all that
  // is rounded and the operands of sums, and the weights and what is rounded.
  for (uint64_t run = 0; run < (dtype == DType::f32 ? 4 : 5); ++run) {
    const Noise noise{3 * values + (run + 1) / 2, dtype, dtype != DType::f32 && run >= 3, run == 1 || run == 4};
    add_run(graph, run == 4 ? stored : given.by_name, &noise, expected);
  }
  if (is_half(widest_step(graph, DType::f32))) add_run(widened(graph), widened(given.by_name), nullptr, expected);
  return expected;
}

// A few runs may all miss what a rounding can do: more of them, with larger errors, before an answer is called wrong.
void expect_more(const Graph& graph, const Given& given, DType dtype, uint64_t values, Expected& expected) {
  expected.much = true;
  const Noise plain{.plain = true};
  add_run(graph, given.by_name, &plain, expected);
  for (uint64_t run = 0; run < 24; ++run) {
    const Noise noise{.seed = 1000003 * values + run,
                      .storage = dtype,
                      .round = dtype != DType::f32 && run % 2 == 1,
                      .opposite = run % 4 == 1,
                      .overturned = run % 2 == 0,
                      .scale = run % 3 == 0 ? 1.0 : 6.0};
    add_run(graph, given.by_name, &noise, expected);
  }
  for (const double overflow : {INFINITY, -INFINITY, NAN}) {
    const Noise noise{.seed = values, .storage = dtype, .overflow = overflow};
    add_run(graph, given.by_name, &noise, expected);
  }
  const Graph wide = widened(graph);
  const Tensors tensors = widened(given.by_name), stored = stored_weights(graph, tensors, dtype);
  for (uint64_t run = 0; run < 16; ++run) {
    const Noise noise{.seed = 1000003 * values + run, .storage = dtype, .apart = true};
    add_run(wide, run % 2 ? stored : tensors, &noise, expected);
  }
}

bool identical(const HostTensor& a, const HostTensor& b) {
  if (a.type != b.type) return false;
  for (int64_t i = 0; i < element_count(a.type.shape); ++i) {
    const double x = load_double(a.data.data(), a.type.dtype, i), y = load_double(b.data.data(), b.type.dtype, i);
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

void check_reference(const Graph& graph, const Given& given, const Expected& expected) {
  std::vector<HostTensor> outputs;
  try {
    outputs = run_reference(graph, given.inputs, &given.weights);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) throw;
    throw Failure{Result::reference, fmt::format("eager execution does not fail: {}", error.what())};
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!identical(outputs[i], expected.outputs[i]))
      throw Failure{Result::reference,
                    fmt::format("output {}: the reference is not what eager execution gives", graph.outputs[i].name)};
}

// A tenth, a third or two thirds of the nodes.
void send_some_away(Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t of_thirty = std::array<uint64_t, 3>{3, 10, 20}[random() % 3];
  for (Origin& origin : graph.origins)
    if (random() % 30 < of_thirty) origin.reason = "chosen by the seed";
}

std::shared_ptr<const Program> compile_graph(const Graph& graph, const Way& way, const CodegenTarget& target) {
  PassContext context;
  context.target = target.config();
  const CodegenTarget& host = *find_target("cpu");
  context.reads_as_it_lies = [&](const Kernel& kernel) { return target.reads_as_it_lies(kernel); };
  context.refuse = [&](const Kernel& kernel, int32_t device) { return (device ? host : target).refuse(kernel); };
  context.fallback = &host.config();
  context.dtype = way.dtype;
  context.strict = way.strict;
  context.disabled = way.disabled;
  std::vector<MethodGraph> methods(1);
  methods[0].name = "main";
  methods[0].graph = graph;
  if (way.away) set_origins(methods[0].graph);
  const auto check = [&](const char* after) {
    for (const std::string& problem : check_graph(methods[0].graph))
      throw Failure{Result::problem, fmt::format("after {}: {}", after, problem)};
  };
  for (const Pass& pass : pipeline()) {
    if (pass.optional && !context.enabled(pass.name)) continue;
    pass.run(methods[0].graph, context);
    // Here every run begins with the weights as they are given.
    std::erase_if(methods[0].graph.outputs, [&](const GraphOutput& output) {
      return output.next_of != no_value && value_of(methods[0].graph, output.next_of).source != ValueSource::input;
    });
    check(pass.name);
    if (way.away && pass.run == check_constraints) {
      send_some_away(methods[0].graph, way.away);
      assign_devices(methods);
    }
  }
  if (way.away) {
    divide(methods[0].graph);
    check("dividing");
  }
  auto [program, plans] = build_program(methods, context, &target);
  raise_refused(program, context);
  target.plan(program, plans);
  for (const std::string& problem : check_program(program)) throw Failure{Result::problem, problem};
  return std::make_shared<const Program>(std::move(program));
}

std::vector<HostTensor> run_program(const std::shared_ptr<const Program>& program, const Given& given, const Way& way,
                                    const Place& place) {
  hwy::GetChosenTarget().Update(way.instructions ? way.instructions : hwy::SupportedTargets());
  Session session(
      program,
      {.weights = {std::shared_ptr<void>(), &given.weights}, .devices = place.devices, .threads = way.threads});
  const Method& method = program->methods[0];
  std::vector<HostTensor> outputs;
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < method.inputs.size(); ++i) {
      const DType wanted = method.inputs[i].type.dtype;
      inputs.push_back(wanted == given.inputs[i].type.dtype ? given.inputs[i]
                                                            : convert_tensor(view_of(given.inputs[i]), wanted));
      session.set_input(0, i, inputs[i].data);
    }
    session.run(0);
    for (size_t i = 0; i < method.inputs.size(); ++i)
      if (program->buffers[static_cast<size_t>(method.inputs[i].buffer)].kind != BufferKind::state &&
          !std::equal(inputs[i].data.begin(), inputs[i].data.end(), session.input(0, i).begin()))
        throw Failure{Result::changed, fmt::format("input {} is no state and was written", method.inputs[i].name)};
    std::vector<HostTensor> found;
    for (size_t i = 0; i < method.outputs.size(); ++i) {
      const auto memory = session.output(0, i);
      found.push_back({method.outputs[i].type, {memory.begin(), memory.end()}});
    }
    if (repeat == 1)
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i].data != outputs[i].data)
          throw Failure{Result::wrong,
                        fmt::format("output {}: the second run gives another result", method.outputs[i].name)};
    outputs = std::move(found);
  }
  return outputs;
}

Comparison compare_outputs(const Graph& graph, const Method& method, const std::vector<HostTensor>& found,
                           const Expected& expected, const Way& way) {
  if (found.size() != expected.outputs.size()) throw Failure{Result::problem, "another number of outputs"};
  Comparison sum;
  for (size_t i = 0; i < found.size(); ++i) {
    if (method.outputs[i].name != graph.outputs[i].name)
      throw Failure{Result::problem,
                    fmt::format("output {} is called {}", graph.outputs[i].name, method.outputs[i].name)};
    const Comparison c = compare_tensor(found[i], expected.outputs[i], expected.noisy[i], expected.exact[i],
                                        widest_step(graph, way.dtype));
    sum.elements += c.elements;
    sum.skipped += c.skipped;
    sum.loose += c.loose;
    if (!c.wrong.empty() && sum.wrong.empty()) sum.wrong = fmt::format("output {}: {}", graph.outputs[i].name, c.wrong);
  }
  return sum;
}

void run_way(const Graph& graph, const Given& given, uint64_t values, Expected& expected, const Way& way,
             Outcome& outcome) {
  outcome.way = way;
  const Tensors before = given.by_name;
  const Place place = open_place();
  const auto program = compile_graph(graph, way, *place.target);
  const std::vector<HostTensor> found = run_program(program, given, way, place);
  for (const auto& [name, tensor] : before)
    if (given.by_name.at(name).data != tensor.data)
      throw Failure{Result::changed, fmt::format("weight {} was written", name)};
  Comparison compared = compare_outputs(graph, program->methods[0], found, expected, way);
  if (!compared.wrong.empty() && !expected.much) {
    expect_more(graph, given, widest_step(graph, way.dtype), values, expected);
    compared = compare_outputs(graph, program->methods[0], found, expected, way);
  }
  outcome.elements += compared.elements;
  outcome.skipped += compared.skipped;
  outcome.loose += compared.loose;
  if (!compared.wrong.empty()) throw Failure{Result::wrong, compared.wrong};
}

}  // namespace

std::string to_string(const Way& way) {
  std::string text = fmt::format("--dtype {} --threads {}", dtype_name(way.dtype), way.threads);
  if (way.strict) text += " --strict";
  if (!way.disabled.empty()) text += fmt::format(" --disable-fusion {}", fmt::join(way.disabled, ","));
  if (way.away) text += fmt::format(" --away {}", way.away);
  if (way.instructions) text += fmt::format(" --instructions {}", hwy::TargetName(way.instructions));
  return text;
}

std::vector<int64_t> instruction_sets() {
  std::vector<int64_t> sets;
  for (const int64_t best : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON})
    if (hwy::SupportedTargets() & HWY_TARGETS & best) sets.push_back(best);
  return sets;
}

std::vector<Way> ways_for(uint64_t seed, int threads) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ULL + 3);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Way fused;
  fused.threads = threads ? threads : 1 + static_cast<int>(pick(2));
  const size_t dtype = pick(10);
  fused.dtype = dtype == 0 ? DType::f16 : dtype == 1 ? DType::bf16 : DType::f32;
  if (const std::vector<int64_t> sets = instruction_sets(); !sets.empty() && pick(2))
    fused.instructions = sets[pick(sets.size())];
  Way other = fused;
  std::vector<std::string> names = fusion_names();
  for (const Pass& pass : pipeline())
    if (pass.optional) names.emplace_back(pass.name);
  switch (pick(4)) {
    case 0:
      other.strict = true;
      break;
    case 1:
      other.disabled = {"all"};
      other.strict = pick(3) == 0;
      break;
    default:
      other.disabled = {names[pick(names.size())]};
      if (pick(2)) other.disabled.insert(names[pick(names.size())]);
      break;
  }
  if (pick(3) == 0) other.away = seed + 1;
  return {fused, other};
}

std::string_view result_name(Result result) {
  constexpr std::string_view names[] = {"passed",    "blurred", "refused", "trapped", "unspecified", "wrong",
                                        "reference", "changed", "problem", "error",   "crashed"};
  return names[static_cast<size_t>(result)];
}

Outcome check_graph_runs(const Graph& graph, uint64_t values, const std::vector<Way>& ways) {
  Outcome outcome;
  const Given given = make_given(graph, values);
  Expected expected;
  try {
    expected = expect(graph, given, widest_step(graph, ways[0].dtype), values);
  } catch (const Unspecified& why) {
    outcome.result = Result::unspecified;
    outcome.what = why.what();
    return outcome;
  } catch (const Error& error) {
    outcome.result = error.kind() == ErrorKind::bad_input ? Result::trapped : Result::error;
    outcome.what = error.what();
    return outcome;
  }
  try {
    check_reference(graph, given, expected);
    for (const Way& way : ways) {
      try {
        run_way(graph, given, values, expected, way, outcome);
      } catch (const Error& error) {  // refused one way, it may be wrong another way
        if (error.kind() != ErrorKind::unsupported) throw;
        outcome.result = Result::refused;
        outcome.what = error.what();
      }
    }
    if (outcome.result == Result::passed && 2 * (outcome.skipped + outcome.loose) > outcome.elements)
      outcome.result = Result::blurred;
  } catch (const Failure& failure) {
    outcome.result = failure.result;
    outcome.what = failure.what;
  } catch (const Error& error) {
    outcome.result = error.kind() == ErrorKind::unsupported ? Result::refused : Result::error;
    outcome.what = error.what();
  } catch (const std::exception& error) {
    outcome.result = Result::error;
    outcome.what = error.what();
  }
  return outcome;
}

}  // namespace npusim::test
