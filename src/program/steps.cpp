// A method's steps as whoever profiles them wants to know them.
#include <set>

#include "program/program.h"
#include "program/work.h"

namespace npusim {
namespace {

// By buffer: the weights that it is, or was prepared from.
std::vector<std::set<std::string>> weights_of_buffers(const Program& program) {
  std::vector<std::set<std::string>> weights(program.buffers.size());
  for (size_t b = 0; b < weights.size(); ++b)
    if (program.buffers[b].kind == BufferKind::weight) weights[b].insert(program.buffers[b].fqn);
  for (const Step& step : program.recipes.steps) {
    std::set<std::string> all;
    for (const int32_t id : step.buffers) all.merge(std::set(weights[static_cast<size_t>(id)]));
    for (const int32_t id : step.buffers)
      if (program.buffers[static_cast<size_t>(id)].kind == BufferKind::prepared) weights[static_cast<size_t>(id)] = all;
  }
  return weights;
}

}  // namespace

std::vector<StepOverview> method_steps(const Program& program, const std::string& method) {
  const std::vector<std::set<std::string>> weights = weights_of_buffers(program);
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
      overview.work = kernel_work(kernel);
    }
    for (const int32_t origin : step.origins) {
      overview.nodes.push_back(program.origins[static_cast<size_t>(origin)].node);
      overview.operators.push_back(program.origins[static_cast<size_t>(origin)].op);
    }
    std::set<std::string> read;
    for (const int32_t id : step.buffers) read.merge(std::set(weights[static_cast<size_t>(id)]));
    overview.weights.assign(read.begin(), read.end());
  }
  return steps;
}

}  // namespace npusim
