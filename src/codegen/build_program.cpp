// Assigns every value a buffer and every kernel an index in the program.
#include "codegen/build_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/group_nodes.h"
#include "codegen/split_kernels.h"
#include "passes/states.h"
#include "program/plan_memory.h"

namespace npusim {
namespace {

class Builder {
 public:
  Builder(const PassContext& context, const CodegenTarget* target, bool with_fallback) : target_(target) {
    program_.devices = {{context.target.name, context.target}};
    if (with_fallback) program_.devices.push_back({context.fallback->name, *context.fallback});
    program_.strict = context.strict;
    if (context.dtype) program_.dtype = *context.dtype;
  }

  void add_method(MethodGraph& method) {
    Whole whole = target_ ? launch_whole(method.graph, *target_) : Whole{};
    if (!whole.plan) {
      if (target_) split_kernels(method.graph, *target_);
      protect_updated_values(method.graph);
      keep_states(method.graph);  // those that were not safe to update where a node did
    }
    const Graph& g = method.graph;
    buffers_.assign(g.values.size(), -1);
    is_recipe_ = find_recipes(g);
    roots_ = UpdateRoots(g);
    Method out;
    out.name = method.name;
    out.nodes = static_cast<int64_t>(g.origins.size());
    out.fusions = method.fusions;
    out.materialized = method.materialized;
    share_inputs_and_weights(g, method.fills);
    for (size_t n = 0; n < g.nodes.size(); ++n)
      if (is_recipe_[n]) add_recipe(g, g.nodes[n]);
    assign_outputs(g);
    NodeGroups found = whole.plan ? group_all(is_recipe_, whole.plan) : group_nodes(g, is_recipe_, target_, roots_);
    groups_ = std::move(found.groups);
    launches_ = launches_ || found.launched;
    plan_arena(g, out);
    SequencePlans& plans = plans_.methods.emplace_back();
    for (NodeGroup& group : groups_) {
      if (launches_ && is_launched(g, g.nodes[group.nodes[0]])) {
        out.launches.push_back(launch_of(out.steps.size(), group.nodes.size()));
        plans.launches.push_back(std::move(group.plan));
      }
      for (size_t n : group.nodes) out.steps.push_back(step_of(g, g.nodes[n]));
    }
    if (!out.launches.empty()) out.launches[0].together = whole.plan != nullptr;
    plans.declined = std::move(whole.declined);
    for (size_t i = 0; i + method.fills.size() < g.inputs.size(); ++i)
      out.inputs.push_back(spec(g, value_of(g, g.inputs[i]).name, g.inputs[i]));
    for (size_t i = 0; i < std::min(method.input_roles.size(), out.inputs.size()); ++i)
      out.inputs[i].role = method.input_roles[i];
    std::vector<bool> generator(program_.buffers.size(), false);
    for (size_t i = 0; i < out.inputs.size(); ++i)
      if (value_of(g, g.inputs[i]).generator) {
        out.inputs[i].role = Role::generator;
        generator[static_cast<size_t>(out.inputs[i].buffer)] = true;
      }
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      TensorSpec output = spec(g, g.outputs[i].name, g.outputs[i].value);
      if (generator[static_cast<size_t>(output.buffer)]) continue;  // what becomes of it is nobody's result
      output.type.shape = g.outputs[i].shape;
      if (i < method.output_roles.size()) output.role = method.output_roles[i];
      out.outputs.push_back(std::move(output));
    }
    program_.methods.push_back(std::move(out));
    program_.origins.insert(program_.origins.end(), g.origins.begin(), g.origins.end());
  }

  BuiltProgram take() {
    if (launches_ || recipes_are_launched())
      for (size_t i = 0; i < program_.recipes.steps.size(); ++i)
        if (const Step& step = program_.recipes.steps[i]; !step.is_transfer() && step.device == 0)
          program_.recipes.launches.push_back(launch_of(i, 1));
    return {std::move(program_), std::move(plans_)};
  }

 private:
  ValueId root(ValueId id) { return roots_.of(id); }
  int32_t& buffer(ValueId id) { return buffers_[static_cast<size_t>(root(id))]; }

  int32_t add_buffer(Buffer b) {
    program_.buffers.push_back(std::move(b));
    return static_cast<int32_t>(program_.buffers.size()) - 1;
  }

  void share_inputs_and_weights(const Graph& g, const std::vector<std::string>& fills) {
    const size_t own = g.inputs.size() - fills.size();
    const auto state_name = [&](ValueId input) -> const std::string& {
      if (const std::string& name = value_of(g, input).state; !name.empty()) return name;
      const auto at = static_cast<size_t>(std::find(g.inputs.begin(), g.inputs.end(), input) - g.inputs.begin());
      return at < own ? value_of(g, input).name : fills[at - own];
    };
    updated_.assign(g.values.size(), false);
    for (size_t v = 0; v < g.values.size(); ++v)
      if (root(static_cast<ValueId>(v)) != static_cast<ValueId>(v))
        updated_[static_cast<size_t>(root(static_cast<ValueId>(v)))] = true;
    std::vector<bool> next_known(g.values.size(), false);
    for (const GraphOutput& output : g.outputs)
      if (output.next_of != no_value) next_known[static_cast<size_t>(output.next_of)] = true;
    for (size_t v = 0; v < g.values.size(); ++v) {
      const Value& value = g.values[v];
      Buffer b;
      b.name = value.name;
      b.type = value.type;
      b.device = value.device;
      std::string key;
      if (value.source == ValueSource::weight) {
        b.kind = BufferKind::weight;
        b.fqn = value.fqn;
        b.tied = value.tied;
        key = fmt::format("weight:{}:{}:{}", b.device, value.fqn, to_string(value.type));
      } else if (value.source == ValueSource::constant) {
        b.kind = BufferKind::constant;
        const auto* data = reinterpret_cast<const char*>(value.data->data.data());
        key = fmt::format("constant:{}:{}:{}", b.device, to_string(value.type),
                          hash_hex({data, value.data->data.size()}));
      } else if (value.source == ValueSource::input) {
        b.kind = updated_[v] || !value.state.empty() ? BufferKind::state : BufferKind::input;
        if (b.kind == BufferKind::state) {
          b.name = state_name(static_cast<ValueId>(v));
          b.kept = next_known[v] || !value.state.empty();
          key = "state:" + b.name + ":" + to_string(value.type);
        }
      } else {
        continue;
      }
      if (auto known = shared_.find(key); !key.empty() && known != shared_.end()) {
        buffers_[v] = known->second;
        if (b.kept) program_.buffers[static_cast<size_t>(known->second)].kept = true;
        continue;
      }
      if (b.kind == BufferKind::constant) {
        b.constant = static_cast<int32_t>(program_.constants.size());
        program_.constants.push_back(*value.data);
      }
      buffers_[v] = add_buffer(std::move(b));
      if (!key.empty()) shared_[key] = buffers_[v];
    }
  }

  int32_t kernel_id(const std::shared_ptr<const Kernel>& kernel) {
    const auto [shared, unseen] = ids_of_shared_.try_emplace(kernel, -1);
    if (!unseen) return shared->second;
    const auto next = static_cast<int32_t>(program_.kernels.size());
    const auto [known, fresh] = kernel_ids_.try_emplace(to_text(*kernel), next);
    if (fresh) program_.kernels.push_back(*kernel);
    return shared->second = known->second;
  }

  Step step_of(const Graph& g, const Node& node) {
    Step step;
    step.kernel = is_transfer(g, node) ? -1 : kernel_id(node.kernel);
    step.device = node.device;
    const auto first = static_cast<int32_t>(program_.origins.size());  // of this method's
    for (int32_t origin : node.origins) step.origins.push_back(first + origin);
    for (ValueId v : node.inputs) step.buffers.push_back(buffer(v));
    for (ValueId v : node.outputs) step.buffers.push_back(buffer(v));
    return step;
  }

  // The same recipe of two methods runs once, unless it has to do with a buffer that is updated: that holds another
  // value after each update, so neither its number nor the kernel that first wrote it says what it holds.
  void add_recipe(const Graph& g, const Node& node) {
    const auto updated = [&](ValueId v) { return updated_[static_cast<size_t>(root(v))]; };
    if (std::any_of(node.inputs.begin(), node.inputs.end(), updated) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), updated)) {
      for (ValueId v : node.outputs) make_prepared(g, v);
      program_.recipes.steps.push_back(step_of(g, node));
      return;
    }
    std::string key = fmt::format("recipe:{}:{}", node.device, is_transfer(g, node) ? -1 : kernel_id(node.kernel));
    for (ValueId v : node.inputs) key += "," + std::to_string(buffer(v));
    bool fresh = true;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string name = key + ":" + std::to_string(i);
      if (auto known = shared_.find(name); known != shared_.end()) {
        buffer(node.outputs[i]) = known->second;
        fresh = false;
        continue;
      }
      make_prepared(g, node.outputs[i]);
      shared_[name] = buffer(node.outputs[i]);
    }
    if (fresh) program_.recipes.steps.push_back(step_of(g, node));
    for (ValueId v : node.outputs)
      if (const std::string& fusion = value_of(g, v).finite_for; !fusion.empty())
        program_.buffers[static_cast<size_t>(buffer(v))].finite_for = fusion;
  }

  void make_prepared(const Graph& g, ValueId v) {
    const Value& value = value_of(g, v);
    if (buffer(v) < 0)  // it may update an earlier recipe's result
      buffer(v) = add_buffer({.name = value.name,
                              .kind = BufferKind::prepared,
                              .type = value.type,
                              .stored = {},
                              .fqn = {},
                              .tied = {},
                              .device = device_of(g, v)});
  }

  void assign_outputs(const Graph& g) {
    for (const GraphOutput& o : g.outputs) {
      const Value& value = value_of(g, o.value);
      if (buffer(o.value) < 0)
        buffer(o.value) = add_buffer({.name = o.name,
                                      .kind = BufferKind::output,
                                      .type = value.type,
                                      .stored = {},
                                      .fqn = {},
                                      .tied = {},
                                      .device = device_of(g, o.value)});
    }
  }

  static Launch launch_of(size_t first, size_t count) {
    Launch launch;
    launch.first = static_cast<int32_t>(first);
    launch.count = static_cast<int32_t>(count);
    return launch;
  }

  // Where no method has a step of its own, what the target makes of recipes decides.
  bool recipes_are_launched() const {
    const std::vector<Step>& recipes = program_.recipes.steps;
    return target_ && std::any_of(recipes.begin(), recipes.end(), [&](const Step& recipe) {
             if (recipe.is_transfer() || recipe.device != 0) return false;
             const GroupStep step{&program_.kernels[static_cast<size_t>(recipe.kernel)], recipe.buffers};
             return target_->group({&step, 1}).count > 0;
           });
  }

  // By value (root of its updates): the first and the last group that has to do with it.
  struct Uses {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Uses> uses_of(const Graph& g) {
    std::vector<Uses> uses(g.values.size());
    for (size_t group = 0; group < groups_.size(); ++group)
      for (size_t n : groups_[group].nodes)
        for (const std::vector<ValueId>* values : {&g.nodes[n].inputs, &g.nodes[n].outputs})
          for (ValueId v : *values) {
            Uses& of = uses[static_cast<size_t>(root(v))];
            of.first = std::min(of.first, group);
            of.last = group;
          }
    return uses;
  }

  // What is to be placed in the arena of one device.
  struct ArenaPlan {
    uint64_t alignment = 1;
    std::vector<Lifetime> lives;
    std::vector<int32_t> ids;  // of the buffers
  };

  void plan_arena(const Graph& g, Method& out) {
    std::vector<ArenaPlan> plans;
    for (const ProgramDevice& device : program_.devices) plans.push_back({buffer_alignment(device.config), {}, {}});
    out.arenas.resize(plans.size());
    std::unordered_map<ValueId, size_t> life_of;  // in the plan of the value's device
    const std::vector<Uses> uses = uses_of(g);
    uint64_t workspace = 0;  // of this group
    const auto plan_node = [&](const Node& node, size_t group) {
      const auto step = static_cast<int32_t>(group);
      // A result reuses the memory of an operand that ends here where its kernel allows. What a group does may overlap.
      auto reuse_memory = [&](ValueId result) {
        if (groups_[group].nodes.size() > 1 || is_transfer(g, node)) return false;
        for (size_t arg : in_place_arguments(*node.kernel)) {
          const auto known = life_of.find(root(node.inputs[arg]));
          if (known == life_of.end() || uses[static_cast<size_t>(known->first)].last != group) continue;
          const auto same = [&](ValueId v) { return root(v) == known->first; };
          if (std::count_if(node.inputs.begin(), node.inputs.end(), same) > 1) continue;
          buffers_[static_cast<size_t>(result)] = buffers_[static_cast<size_t>(known->first)];
          life_of.emplace(result, size_t{known->second});
          return true;
        }
        return false;
      };
      auto touch = [&](ValueId v, bool written) {
        const ValueId r = root(v);
        const int32_t device = device_of(g, v);
        ArenaPlan& plan = plans[static_cast<size_t>(device)];
        if (auto known = life_of.find(r); known != life_of.end()) {
          plan.lives[known->second].end = step;
          return;
        }
        if (buffers_[static_cast<size_t>(r)] >= 0 || (written && reuse_memory(r))) return;
        const Value& value = value_of(g, v);
        Buffer b;
        b.name = value.name;
        b.type = value.type;
        b.stored = value.stored;
        b.device = device;
        const Uses& of = uses[static_cast<size_t>(r)];
        if (groups_[group].nodes.size() > 1 && of.first == group && of.last == group) {
          b.kind = BufferKind::local;
          b.offset = workspace;
          workspace += (stored_bytes(b) + plan.alignment - 1) / plan.alignment * plan.alignment;
          Arena& arena = out.arenas[static_cast<size_t>(device)];
          arena.workspace_bytes = std::max(arena.workspace_bytes, workspace);
          buffers_[static_cast<size_t>(r)] = add_buffer(std::move(b));
          return;
        }
        life_of[r] = plan.lives.size();
        plan.lives.push_back({stored_bytes(b), step, step});
        buffers_[static_cast<size_t>(r)] = add_buffer(std::move(b));
        plan.ids.push_back(buffers_[static_cast<size_t>(r)]);
      };
      for (ValueId v : node.inputs) touch(v, false);
      for (ValueId v : node.outputs) touch(v, true);
    };
    for (size_t group = 0; group < groups_.size(); ++group) {
      workspace = 0;
      for (size_t n : groups_[group].nodes) plan_node(g.nodes[n], group);
    }
    for (size_t d = 0; d < plans.size(); ++d) {
      const MemoryPlan placed = plan_memory(plans[d].lives, plans[d].alignment);
      for (size_t i = 0; i < plans[d].ids.size(); ++i)
        program_.buffers[static_cast<size_t>(plans[d].ids[i])].offset = placed.offsets[i];
      out.arenas[d].bytes = placed.bytes;
      out.arenas[d].lower_bound_bytes = placed.lower_bound;
    }
  }

  TensorSpec spec(const Graph& g, const std::string& name, ValueId id) {
    return {name, value_of(g, id).type, buffer(id)};
  }

  const CodegenTarget* target_;
  bool launches_ = false;
  std::vector<NodeGroup> groups_;  // of the method
  Program program_;
  ProgramPlans plans_;
  std::vector<int32_t> buffers_;  // by value (root of its updates): its buffer
  UpdateRoots roots_;
  std::vector<bool> is_recipe_;
  std::vector<bool> updated_;                            // by value: the root of others, so written more than once
  std::unordered_map<std::string, int32_t> shared_;      // what methods share, by content
  std::unordered_map<std::string, int32_t> kernel_ids_;  // by body
  std::unordered_map<std::shared_ptr<const Kernel>, int32_t> ids_of_shared_;  // nodes that share one need no body
};

// Each kernel once for each device.
void estimate_steps(Program& program, const CodegenTarget* target) {
  std::map<std::pair<int32_t, int32_t>, Estimate> known;  // by kernel and device
  const auto estimate = [&](Sequence& sequence) {
    for (Step& step : sequence.steps) {
      if (step.is_transfer()) continue;
      const auto [at, fresh] = known.try_emplace({step.kernel, step.device});
      if (fresh) {
        const Kernel& kernel = program.kernels[static_cast<size_t>(step.kernel)];
        const ProgramDevice& device = program.devices[static_cast<size_t>(step.device)];
        const CodegenTarget* of = step.device == 0 ? target : find_target(device.target);
        at->second = of ? of->estimate(kernel, device.config) : plan::estimate(kernel, device.config.machine);
      }
      step.estimate = at->second;
    }
  };
  estimate(program.recipes);
  for (Method& method : program.methods) estimate(method);
}

}  // namespace

BuiltProgram build_program(std::vector<MethodGraph>& methods, const PassContext& context, const CodegenTarget* target) {
  const bool with_fallback = std::any_of(methods.begin(), methods.end(), [](const MethodGraph& method) {
    return std::any_of(method.graph.nodes.begin(), method.graph.nodes.end(),
                       [](const Node& node) { return node.device != 0; });
  });
  Builder builder(context, target, with_fallback);
  for (MethodGraph& method : methods) builder.add_method(method);
  BuiltProgram built = builder.take();
  estimate_steps(built.program, target);
  return built;
}

}  // namespace npusim
