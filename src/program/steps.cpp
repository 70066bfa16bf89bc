// A method's steps as whoever profiles them wants to know them.
#include <algorithm>
#include <set>

#include "program/program.h"
#include "program/work.h"

namespace npusim {

std::string_view resource_name(Resource resource) {
  static constexpr std::array<std::string_view, resource_count> names = {"memory", "products"};
  return names[static_cast<size_t>(resource)];
}
namespace {

// Of what one step reads: a recipe in a chain would name all the weights before it, and each step them again.
constexpr size_t most_weights = 256, most_letters = 1024;

using Weights = std::set<int32_t>;  // their buffers

// Buffers of one step may be one, many times.
std::set<int32_t> buffers_of(const Step& step) { return {step.buffers.begin(), step.buffers.end()}; }

void add(Weights& to, const Weights& from) {
  for (auto buffer = from.begin(); buffer != from.end() && to.size() < most_weights; ++buffer) to.insert(*buffer);
}

std::vector<std::string> names_of(const Program& program, const Weights& weights) {
  std::vector<std::string> names;
  size_t letters = 0;
  for (const int32_t buffer : weights) {
    const std::string& name = program.buffers[static_cast<size_t>(buffer)].fqn;
    if ((letters += name.size()) <= most_letters || names.empty()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// By buffer: the weights that it is, or was prepared from.
std::vector<Weights> weights_of_buffers(const Program& program) {
  std::vector<Weights> weights(program.buffers.size());
  for (size_t b = 0; b < weights.size(); ++b)
    if (program.buffers[b].kind == BufferKind::weight) weights[b].insert(static_cast<int32_t>(b));
  for (const Step& step : program.recipes.steps) {
    Weights all;
    for (const int32_t id : buffers_of(step)) add(all, weights[static_cast<size_t>(id)]);
    for (const int32_t id : buffers_of(step))
      if (program.buffers[static_cast<size_t>(id)].kind == BufferKind::prepared) weights[static_cast<size_t>(id)] = all;
  }
  return weights;
}

}  // namespace

std::vector<StepOverview> method_steps(const Program& program, const std::string& method) {
  const std::vector<Weights> weights = weights_of_buffers(program);
  KernelWorks works(program);
  std::vector<StepOverview> steps;
  for (const Step& step : method_named(program, method).steps) {
    StepOverview& overview = steps.emplace_back();
    overview.device = step.device;
    if (step.is_transfer()) {
      overview.kernel = "transfer";
      const Buffer& from = program.buffers[static_cast<size_t>(step.buffers[0])];
      overview.from = from.device;
      overview.work.read_bytes = stored_bytes(from);
    } else {
      const Kernel& kernel = program.kernels[static_cast<size_t>(step.kernel)];
      overview.kernel = kernel.name;
      overview.work = works.of(step);
    }
    for (const int32_t origin : step.origins) {
      overview.nodes.push_back(program.origins[static_cast<size_t>(origin)].node);
      overview.operators.push_back(program.origins[static_cast<size_t>(origin)].op);
    }
    Weights read;
    for (const int32_t id : buffers_of(step)) add(read, weights[static_cast<size_t>(id)]);
    overview.weights = names_of(program, read);
  }
  return steps;
}

std::vector<std::string> weights_read(const Program& program) {
  std::vector<bool> asked(program.buffers.size());
  const auto ask = [&](const Step& step) {
    for (const int32_t id : step.buffers) asked[static_cast<size_t>(id)] = true;
  };
  for (const Method& method : program.methods) {
    for (const Step& step : method.steps) ask(step);
    for (const TensorSpec& spec : method.outputs) asked[static_cast<size_t>(spec.buffer)] = true;
  }
  const std::vector<Step>& recipes = program.recipes.steps;
  for (size_t r = recipes.size(); r-- > 0;) {
    bool needed = false;
    for (size_t i = 0; i < recipes[r].buffers.size(); ++i)
      needed = needed || (is_written(program, recipes[r], i) && asked[static_cast<size_t>(recipes[r].buffers[i])]);
    if (needed) ask(recipes[r]);
  }
  std::vector<std::string> names;
  for (size_t b = 0; b < asked.size(); ++b)
    if (asked[b] && program.buffers[b].kind == BufferKind::weight) names.push_back(program.buffers[b].fqn);
  return names;
}

}  // namespace npusim
