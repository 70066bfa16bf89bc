// Runs a program of any contents, if it is small, on the CPU and with bytes of all kinds; a text's writes, too.
#pragma once
#include <algorithm>

#include "kernel/facts/score_kernel.h"
#include "npusim/text.h"
#include "program/program.h"
#include "runtime/tensor_set.h"

namespace npusim::hostile {

inline constexpr int64_t most_points = 1 << 16, most_bytes = 1 << 22, most_steps = 64;

// Multiply-adds of a kernel, none more than `most_points` + 1.
inline int64_t points(const Kernel& kernel) {
  int64_t count = 1;
  const auto times = [&](const std::vector<int64_t>& extents) {
    for (int64_t n : extents) count = n > most_points ? most_points + 1 : std::min(count * n, most_points + 1);
  };
  times(kernel.space);
  if (!kernel.contraction) return count;
  times(kernel.contraction->reduce);
  if (kernel.contraction->score) count += points(score_kernel(kernel));
  return count;
}

inline bool is_small(const Program& program) {
  int64_t bytes = 0, work = 0;
  for (const Buffer& b : program.buffers) {
    if (stored_bytes(b) > most_bytes) return false;
    bytes += static_cast<int64_t>(stored_bytes(b));
  }
  size_t steps = program.recipes.steps.size();
  const auto add = [&](const Sequence& sequence) {
    for (const Step& step : sequence.steps)
      if (!step.is_transfer()) work += points(program.kernels[static_cast<size_t>(step.kernel)]);
  };
  add(program.recipes);
  for (const Method& method : program.methods) {
    add(method);
    steps += method.steps.size();
    for (const Arena& arena : method.arenas)
      if (arena.bytes > most_bytes || arena.workspace_bytes > most_bytes) return false;
  }
  return steps <= most_steps && bytes <= most_bytes && work <= most_points;
}

// Every weight that the program asks for, with bytes of all kinds.
inline std::shared_ptr<const TensorSet> weights_for(const Program& program, std::vector<HostTensor>& memory) {
  auto weights = std::make_shared<TensorSet>();
  weights->path = "fuzz";
  memory.reserve(program.buffers.size());
  for (const Buffer& b : program.buffers) {
    if (b.kind != BufferKind::weight || weights->by_name.contains(b.fqn)) continue;
    memory.push_back(make_tensor(b.type));
    for (size_t i = 0; i < memory.back().data.size(); ++i) memory.back().data[i] = static_cast<std::byte>(i * 37);
    weights->by_name.emplace(b.fqn, weights->entries.size());
    weights->entries.push_back({b.fqn, view_of(memory.back()), {}});
  }
  return weights;
}

inline void run_program(const Program& program) {
  std::vector<HostTensor> memory;
  SessionOptions options;
  options.weights = weights_for(program, memory);
  options.devices.assign(program.devices.size(), open_backend("cpu"));
  options.threads = 1;
  Session session(std::make_shared<const Program>(program), std::move(options));
  for (size_t m = 0; m < program.methods.size(); ++m) {
    const Method& method = program.methods[m];
    for (size_t i = 0; i < method.inputs.size(); ++i) {
      std::vector<std::byte> bytes(byte_size(method.inputs[i].type));
      for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = static_cast<std::byte>(b % 8 ? 0 : b / 8 % 3);
      session.set_input(m, i, bytes);
    }
    session.run(m);
    for (size_t i = 0; i < method.outputs.size(); ++i) session.output(m, i);
  }
  if (program.text.decode < 0) return;
  for (const auto& [temperature, top_p] : {std::pair(0.0, 1.0), {0.8, 1.0}, {0.8, 0.7}})
    for (const std::vector<int64_t>& prompt : {std::vector<int64_t>{0}, {0, 0, 0}})
      generate(session, prompt, {4, temperature, top_p, 7, {}});
}

}  // namespace npusim::hostile
