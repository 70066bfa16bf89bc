// Runs a kernel with a contraction as a CPU step and compares it with evaluate().
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "backends/cpu/contraction.h"
#include "backends/instruction_sets.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"

namespace npusim::cpu {

struct ContractionRun {
  std::vector<std::vector<std::byte>> memory, expected;
  std::vector<Binding> bindings;
  std::vector<std::byte> scratch;
  std::unique_ptr<Step> step;
};

// Arguments filled with small random numbers (integers 0 or 1); `constant` are weights. Filled by `fill` afterwards.
inline ContractionRun prepare(const Kernel& kernel, const std::vector<int>& constant, const Context& context,
                              const std::function<void(ContractionRun&)>& fill = {}) {
  ContractionRun run;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const KernelArg& arg : kernel.args) {
    std::vector<std::byte> data(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64);
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (is_float(arg.dtype))
        store_double(data.data(), arg.dtype, i, uniform(random));
      else
        store_int(data.data(), arg.dtype, i, random() % 2);
    }
    run.memory.push_back(std::move(data));
  }
  if (fill) fill(run);
  run.expected = run.memory;
  for (size_t i = 0; i < run.memory.size(); ++i)
    run.bindings.push_back(
        {run.memory[i].data(), std::count(constant.begin(), constant.end(), static_cast<int>(i)) > 0});
  run.step = make_contraction_step(kernel, run.bindings, context);
  run.scratch.resize(run.step->scratch_bytes() + 64);
  const auto at = (reinterpret_cast<uintptr_t>(run.scratch.data()) + 63) / 64 * 64;
  std::memset(run.scratch.data(), 0xff, run.scratch.size());  // NaN: nothing may be read before it is written
  run.step->set_scratch(reinterpret_cast<void*>(at));
  return run;
}

inline void compare(const Kernel& kernel, const ContractionRun& run, double tolerance) {
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (!arg.written) continue;
    const double step = arg.dtype == DType::f16 ? 2e-3 : arg.dtype == DType::bf16 ? 1.6e-2 : tolerance;
    for (int64_t e = 0; e < arg.elements; ++e) {
      const double want = load_double(run.expected[i].data(), arg.dtype, e),
                   got = load_double(run.memory[i].data(), arg.dtype, e);
      if (got == want || (std::isnan(want) && std::isnan(got))) continue;
      ASSERT_NEAR(got, want, step * (1 + std::fabs(want)))
          << run.step->describe() << ", element " << e << " of %" << i << "\n"
          << to_text(kernel);
    }
  }
}

// Whether an argument is stored as bf16. The kernel then also runs as on a machine with arithmetic for it, which oneDNN
// emulates; not with numbers of `fill`, as its relu does not keep NaN (docs/numerics.md).
inline bool has_bf16(const Kernel& kernel) {
  return std::any_of(kernel.args.begin(), kernel.args.end(), [](const KernelArg& a) { return a.dtype == DType::bf16; });
}

// With one thread and with two, which gives the same bits every time.
inline void check_contraction(const Kernel& kernel, const std::vector<int>& constant = {},
                              const std::function<void(ContractionRun&)>& fill = {}, double tolerance = 2e-5) {
  const auto problems = check_kernel(kernel);
  ASSERT_TRUE(problems.empty()) << problems.front() << "\n" << to_text(kernel);
  std::vector<std::vector<std::byte>> expected;
  const auto check = [&](bool bf16) {
    std::vector<std::byte> first;
    for (int threads : {2, 1, 2}) {
      SCOPED_TRACE(fmt::format("{} threads{}", threads, bf16 ? ", bf16 operands" : ""));
      Context context = make_context(threads);
      context.bf16 = bf16;
      ContractionRun run = prepare(kernel, constant, context, fill);
      if (expected.empty()) {
        expected = run.expected;
        std::vector<void*> pointers;
        for (auto& data : expected) pointers.push_back(data.data());
        evaluate(kernel, pointers, true);
      }
      run.expected = expected;
      run.step->run();
      run.step->run();
      compare(kernel, run, tolerance);
      if (::testing::Test::HasFatalFailure()) return;
      if (threads == 1) continue;
      if (first.empty()) first = run.memory.back();
      ASSERT_EQ(first, run.memory.back()) << "not repeatable: " << run.step->describe();
    }
  };
  on_every_instruction_set([&] { check(false); });
  if (has_bf16(kernel) && !fill && !::testing::Test::HasFatalFailure()) check(true);
}

}  // namespace npusim::cpu
