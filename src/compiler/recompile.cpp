// A program's steps back to graphs of kernels, of which it is built anew for a target.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "codegen/build_program.h"
#include "codegen/target.h"
#include "compiler/adopt.h"
#include "compiler/text_facts.h"
#include "kernel/builder.h"
#include "kernel/facts/memory.h"
#include "npusim/compiler.h"
#include "partition/partition.h"
#include "program/program.h"
#include "program/recipes.h"
#include "program/variant.h"

namespace npusim {
namespace {

// By position in Program::kernels: what the nodes of all graphs share, so that a step costs nothing of its kernel's
// size.
class SharedKernels {
 public:
  explicit SharedKernels(const Program& program) : program_(program), keeping_(program.kernels.size()) {
    for (const Kernel& kernel : program.kernels) as_is_.push_back(std::make_shared<const Kernel>(kernel));
  }

  // A part of a value that a step reads and writes, and stores nothing in, is what it read: in a graph that is an
  // update, whether or not the kernel says so. What memory has beside the value's elements is nobody's.
  std::shared_ptr<const Kernel> of(const Step& step) {
    const auto number = static_cast<size_t>(step.kernel);
    const std::shared_ptr<const Kernel>& kernel = as_is_[number];
    std::vector<int> updates;
    for (size_t to = 0; to < kernel->args.size(); ++to) {
      const KernelArg& arg = kernel->args[to];
      updates.push_back(arg.updates);
      for (size_t from = 0; from < to && arg.written && updates[to] < 0; ++from)
        if (step.buffers[from] == step.buffers[to] && reached(number)[to] < elements(step.buffers[to]))
          updates[to] = static_cast<int>(from);
    }
    const auto updates_of = [](const Kernel& k, const std::vector<int>& wanted) {
      return std::equal(wanted.begin(), wanted.end(), k.args.begin(),
                        [](int update, const KernelArg& arg) { return update == arg.updates; });
    };
    if (updates_of(*kernel, updates)) return kernel;
    std::shared_ptr<const Kernel>& known = keeping_[number];
    if (known && updates_of(*known, updates)) return known;
    auto keeping = std::make_shared<Kernel>(*kernel);
    for (size_t a = 0; a < updates.size(); ++a) keeping->args[a].updates = updates[a];
    return known = keeping;
  }

 private:
  const std::vector<int64_t>& reached(size_t number) {
    const auto [known, added] = reached_.try_emplace(number);
    if (added) known->second = reached_elements(*as_is_[number]);
    return known->second;
  }
  int64_t elements(int32_t buffer) const {
    return element_count(program_.buffers[static_cast<size_t>(buffer)].type.shape);
  }

  const Program& program_;
  std::vector<std::shared_ptr<const Kernel>> as_is_, keeping_;
  std::unordered_map<size_t, std::vector<int64_t>> reached_;
};

// The graph of one method: each time a step writes a buffer that is another value.
class GraphMaker {
 public:
  GraphMaker(const Program& program, SharedKernels& kernels, const Method& method, const std::vector<size_t>& recipes,
             int32_t first_origin)
      : program_(program),
        kernels_(kernels),
        method_(method),
        first_origin_(first_origin),
        recipes_(recipes),
        current_(program.buffers.size(), no_value) {
    made_.name = method.name;
    made_.fusions = method.fusions;
    made_.materialized = method.materialized;
    made_.graph.name = program.model;
  }

  MethodGraph run() {
    add_given();
    for (const size_t recipe : recipes_) add_step(program_.recipes.steps[recipe]);
    for (const Step& step : method_.steps) add_step(step);
    for (const TensorSpec& spec : method_.outputs) {
      graph().outputs.push_back({spec.name, value(spec.buffer), spec.type.shape});
      made_.output_roles.push_back(spec.role);
    }
    // What a run leaves of the generator's state is an output of the graph and of nobody else.
    for (const TensorSpec& spec : method_.inputs)
      if (spec.role == Role::generator) graph().outputs.push_back({spec.name, value(spec.buffer), spec.type.shape});
    const auto first = program_.origins.begin() + first_origin_;
    graph().origins.assign(first, first + method_.nodes);
    set_producers(graph());
    if (const auto problems = check_graph(graph()); !problems.empty())
      fail(ErrorKind::unsupported, "recompile: method '{}': {}", method_.name, fmt::join(problems, "; "));
    return std::move(made_);
  }

 private:
  Graph& graph() { return made_.graph; }
  const Buffer& at(int32_t buffer) const { return program_.buffers[static_cast<size_t>(buffer)]; }
  ValueId& value(int32_t buffer) { return current_[static_cast<size_t>(buffer)]; }

  static bool is_given(const Buffer& b) {
    return b.kind == BufferKind::input || b.kind == BufferKind::state || b.kind == BufferKind::weight ||
           b.kind == BufferKind::constant;
  }

  // Inputs, states, weights and constants, in the order of their buffers.
  void add_given() {
    std::map<int32_t, std::string> given;  // by buffer: the name of its value
    const auto visit = [&](int32_t id) {
      if (is_given(at(id))) given.try_emplace(id, at(id).name);
    };
    for (const TensorSpec& spec : method_.inputs) given[spec.buffer] = spec.name;
    for (const TensorSpec& spec : method_.outputs) visit(spec.buffer);
    const auto visit_buffers = [&](const Step& step) {
      std::for_each(step.buffers.begin(), step.buffers.end(), visit);
    };
    for (const size_t recipe : recipes_) visit_buffers(program_.recipes.steps[recipe]);
    for (const Step& step : method_.steps) visit_buffers(step);
    for (const auto& [id, name] : given) {
      const Buffer& b = at(id);
      value(id) = add_value(graph(), name, b.type);
      Value& v = value_of(graph(), value(id));
      v.device = b.device;
      v.fqn = b.fqn;
      v.tied = b.tied;
      v.source = b.kind == BufferKind::weight     ? ValueSource::weight
                 : b.kind == BufferKind::constant ? ValueSource::constant
                                                  : ValueSource::input;
      if (b.kind == BufferKind::constant)
        v.data = std::make_shared<const HostTensor>(program_.constants[static_cast<size_t>(b.constant)]);
    }
    for (const TensorSpec& spec : method_.inputs) {
      graph().inputs.push_back(value(spec.buffer));
      made_.input_roles.push_back(spec.role);
      value_of(graph(), value(spec.buffer)).generator = spec.role == Role::generator;
      if (at(spec.buffer).kind == BufferKind::state) value_of(graph(), value(spec.buffer)).state = at(spec.buffer).name;
    }
    for (const TensorSpec& spec : method_.outputs) {
      const auto is_same = [&](const TensorSpec& input) { return input.buffer == spec.buffer; };
      if (at(spec.buffer).kind != BufferKind::state ||
          std::any_of(method_.inputs.begin(), method_.inputs.end(), is_same))
        continue;
      graph().inputs.push_back(value(spec.buffer));
      made_.fills.push_back(at(spec.buffer).name);
    }
  }

  std::shared_ptr<const Kernel> transfer_of(const Buffer& b) const {
    const int64_t elements = stored_elements(b.type, b.stored);
    KernelBuilder k({elements});
    const Ex x = k.load_flat(k.input({b.type.dtype, {elements}}));
    k.store_flat(k.output({b.type.dtype, {elements}}), x);
    return std::make_shared<const Kernel>(k.finish("transfer"));
  }

  void add_step(const Step& step) {
    Node node;
    node.name = step_name(program_, step);
    node.device = step.device;
    for (const int32_t origin : step.origins)
      if (origin >= first_origin_ && origin < first_origin_ + method_.nodes)
        node.origins.push_back(origin - first_origin_);
    node.kernel = step.is_transfer() ? transfer_of(at(step.buffers[0])) : kernels_.of(step);
    for (size_t i = 0; i < step.buffers.size(); ++i)
      if (!is_written(program_, step, i)) node.inputs.push_back(value(step.buffers[i]));
    for (size_t i = 0; i < step.buffers.size(); ++i) {
      if (!is_written(program_, step, i)) continue;
      const Buffer& b = at(step.buffers[i]);
      const ValueId made = add_value(graph(), b.name, b.type);
      value_of(graph(), made).stored = b.stored;
      value_of(graph(), made).finite_for = b.finite_for;
      node.outputs.push_back(value(step.buffers[i]) = made);
    }
    add_node(graph(), std::move(node));
  }

  const Program& program_;
  SharedKernels& kernels_;
  const Method& method_;
  int64_t first_origin_;
  const std::vector<size_t>& recipes_;
  std::vector<ValueId> current_;  // by buffer
  MethodGraph made_;
};

// Each graph has its method's recipes: those of methods that share them are more than the program's.
constexpr size_t most_recipe_arguments = 400'000;

std::vector<MethodGraph> graphs_of(const Program& program) {
  SharedKernels kernels(program);
  const RecipeWriters writers = recipe_writers(program);
  size_t budget = most_recipe_arguments;
  std::vector<MethodGraph> graphs;
  int32_t first = 0;
  for (const Method& method : program.methods) {
    const auto recipes = needed_recipes(program, writers, method, budget);
    if (!recipes)
      fail(ErrorKind::unsupported,
           "recompile: the recipes that methods need, counted for each, have more than {} arguments",
           most_recipe_arguments);
    graphs.push_back(GraphMaker(program, kernels, method, *recipes, first).run());
    first += static_cast<int32_t>(method.nodes);
  }
  return graphs;
}

// What asks which device runs a kernel, as compile() sets it up.
PassContext context_for(const Program& program, const CodegenTarget& target, const CodegenTarget& host) {
  PassContext context;
  const ProgramDevice& first = program.devices[0];
  context.target = target.config();
  if (first.target == target.config().name) {  // its rules, on the machine that is asked for
    context.target = first.config;
    context.target.machine = target.config().machine, context.target.own = target.config().own;
  }
  if (program.devices.size() > 1) context.fallback = &program.devices[1].config;
  context.dtype = program.dtype;
  context.strict = program.strict;
  context.refuse = [&target, &host](const Kernel& kernel, int32_t device) -> std::string {
    const CodegenTarget& of = device ? host : target;
    if (kernel.call) return &of == &host ? "" : "it has no kernel: ATen runs it";
    return of.refuse(kernel);
  };
  return context;
}

// What steps do not say of states. Inputs are the same.
void keep_as(const Program& from, Program& made) {
  for (size_t m = 0; m < made.methods.size(); ++m)
    for (size_t i = 0; i < made.methods[m].inputs.size(); ++i) {
      const auto buffer = [&](const Program& p) { return static_cast<size_t>(p.methods[m].inputs[i].buffer); };
      made.buffers[buffer(made)].kept = from.buffers[buffer(from)].kept;
    }
}

Program build(const Program& from, std::vector<MethodGraph> graphs, const PassContext& context,
              const CodegenTarget& target) {
  auto [made, plans] = build_program(graphs, context, &target);
  made.model = from.model;
  made.text = from.text;
  keep_as(from, made);
  raise_refused(made, context);
  target.plan(made, plans);
  return made;
}

std::set<std::string> architectures_of(const Variant& made) {
  std::set<std::string> architectures;
  for (const CodeSet& set : made.code)
    for (const Code& code : set) architectures.insert(code.architecture);
  return architectures;
}

// For the target's machine; for that which the program was made for where it is for the same architectures.
Program build_again(const Program& from, const std::vector<MethodGraph>& graphs, const CodegenTarget& target,
                    const CodegenTarget& host) {
  PassContext context = context_for(from, target, host);
  Program made = build(from, graphs, context, target);
  const TargetConfig& given = from.devices[0].config;
  const bool same = given.machine == context.target.machine && given.own == context.target.own;
  if (same || from.devices[0].target != target.config().name || architectures_of(from) != architectures_of(made))
    return made;
  context.target = given;
  const auto configured = target.with_config(given);
  return build(from, graphs, context, configured ? *configured : target);
}

}  // namespace

std::shared_ptr<const Program> recompile(const Program& program, const std::string& target_name) {
  const CodegenTarget& host = *find_target("cpu");
  if (program.devices.size() > 2 || (program.devices.size() == 2 && program.devices[1].target != host.config().name))
    fail(ErrorKind::unsupported, "recompile: expected one device, and the CPU beside it, found {} devices",
         program.devices.size());
  const std::string& own = program.devices[0].target;
  if (target_name.empty() && !find_target(own.substr(0, own.find(':'))))
    fail(ErrorKind::unsupported,
         "the program is for target '{}', which this build does not have: expected {} as --target", own,
         fmt::join(target_names(), ", "));
  const auto target = open_target(target_name.empty() ? own : target_name);
  const std::vector<MethodGraph> graphs = graphs_of(program);
  auto made = std::make_shared<Program>(build_again(program, graphs, *target, host));
  // What was cut into parts for one architecture stays so: where there are as many variants, each is made of its own.
  const auto others = target->variants();
  for (size_t n = 0; n < others.size(); ++n) {
    const bool own_steps = others.size() == program.variants.size();
    const Program variant = own_steps ? with_variant(program, n) : program;
    made->variants.push_back(
        adopt(*made, build_again(variant, own_steps ? graphs_of(variant) : graphs, *others[n], host)));
  }
  find_states(*made, made->text);
  std::vector<std::string> problems = check_program(*made);
  if (problems.empty()) problems = check_methods_of_variant(program, *made);
  if (!problems.empty())
    fail(ErrorKind::unsupported, "recompile: the steps of this program are none that npusim compiles: {}",
         fmt::join(problems, "; "));
  return made;
}

}  // namespace npusim
