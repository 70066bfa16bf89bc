// Runs a kernel with a contraction as a CPU step and compares it with evaluate().
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <random>

#include "backends/cpu/implementations.h"
#include "backends/cpu/instruction_sets.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"

namespace npusim::cpu {

struct ContractionRun {
  std::vector<std::vector<std::byte>> memory, expected;
  std::vector<Binding> bindings;
  std::vector<std::byte> scratch;
  std::unique_ptr<BoundStep> step;
};

// Random numbers in [-1, 1] for attention, whose exponentials larger ones would drown, else up to ±8, small ones as
// often as large ones; integers are 0 or 1.
inline double draw(std::mt19937& random, const Kernel& kernel) {
  const double x = std::uniform_real_distribution<double>(-1, 1)(random);
  return kernel.contraction->kind == ContractionKind::attention ? x
                                                                : std::ldexp(x, static_cast<int>(random() % 10) - 6);
}

// Arguments filled with random numbers; `constant` are weights. Filled by `fill` afterwards.
inline ContractionRun prepare(const Kernel& kernel, const std::vector<int>& constant, const Context& context,
                              const std::function<void(ContractionRun&)>& fill = {}) {
  ContractionRun run;
  std::mt19937 random(7);
  const auto draw_all = [&](const KernelArg& arg, std::vector<std::byte>& data) {
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (is_float(arg.dtype))
        store_double(data.data(), arg.dtype, i, draw(random, kernel));
      else
        store_int(data.data(), arg.dtype, i, random() % 2);
    }
  };
  for (const KernelArg& arg : kernel.args) {
    run.memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64);
    draw_all(arg, run.memory.back());
  }
  if (fill) fill(run);
  for (size_t i = 0; i < run.memory.size(); ++i)
    run.bindings.push_back(
        {run.memory[i].data(), std::count(constant.begin(), constant.end(), static_cast<int>(i)) > 0});
  run.step = choose_implementation(kernel, run.bindings, context).step;
  // What is not constant is another by the time of the run.
  for (size_t i = 0; i < run.memory.size(); ++i)
    if (!run.bindings[i].constant) draw_all(kernel.args[i], run.memory[i]);
  if (fill) fill(run);
  run.expected = run.memory;
  run.scratch.resize(run.step->scratch_bytes() + 64);
  const auto at = (reinterpret_cast<uintptr_t>(run.scratch.data()) + 63) / 64 * 64;
  std::memset(run.scratch.data(), 0xff, run.scratch.size());  // NaN: nothing may be read before it is written
  run.step->set_scratch(reinterpret_cast<void*>(at));
  return run;
}

// What was summed for each element of the results: Σ|a·b| and the magnitudes of what the epilogue loads. Of
// attention 1.
inline std::vector<std::vector<double>> magnitudes(const Kernel& kernel, std::vector<std::vector<std::byte>> memory) {
  Kernel sums = kernel;
  sums.exprs = {{.op = ExprOp::contraction, .type = Scalar::f32}};
  int32_t total = 0;
  for (const Expr& e : kernel.exprs) {
    if (e.op != ExprOp::load || e.type != Scalar::f32) continue;
    const auto load = static_cast<int32_t>(sums.exprs.size());
    sums.exprs.push_back(e);
    sums.exprs.push_back({.op = ExprOp::add, .type = Scalar::f32, .in = {total, load, -1}});
    total = load + 1;
  }
  for (Store& store : sums.stores) store.expr = total;
  std::vector<std::vector<double>> found(kernel.args.size());
  std::vector<void*> pointers;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    KernelArg& arg = sums.args[i];
    if (arg.written) {
      arg.dtype = DType::f64;
      found[i].assign(static_cast<size_t>(arg.elements), 1);
      pointers.push_back(found[i].data());
      continue;
    }
    for (int64_t e = 0; is_float(arg.dtype) && e < arg.elements; ++e)
      store_double(memory[i].data(), arg.dtype, e, std::fabs(load_double(memory[i].data(), arg.dtype, e)));
    pointers.push_back(memory[i].data());
  }
  if (kernel.contraction->kind != ContractionKind::attention) evaluate(sums, pointers);
  return found;
}

// Errors are of the sum, `tolerance` of what was summed; of the epilogue, relative; and of storing. Where the summed
// magnitude says nothing, since one term outweighs all others, the sum's are relative too.
inline void compare(const Kernel& kernel, const ContractionRun& run, const std::vector<std::vector<double>>& summed,
                    double tolerance) {
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (!arg.written) continue;
    const double relative = arg.dtype == DType::f16 ? 0x1p-10 : arg.dtype == DType::bf16 ? 0x1p-7 : 2e-6;
    const double least = arg.dtype == DType::f16 ? 0x1p-24 : 1e-37;  // below, numbers have fewer digits
    for (int64_t e = 0; e < arg.elements; ++e) {
      const double want = load_double(run.expected[i].data(), arg.dtype, e),
                   got = load_double(run.memory[i].data(), arg.dtype, e);
      if (got == want || (std::isnan(want) && std::isnan(got))) continue;
      const double magnitude = summed[i][static_cast<size_t>(e)];
      const double error = tolerance * (magnitude < 1e20 ? magnitude : std::fabs(want));
      ASSERT_LE(std::fabs(got - want), error + relative * std::fabs(want) + least)
          << run.step->describe() << ", element " << e << " of %" << i << ": " << got << " for " << want << "\n"
          << to_text(kernel);
    }
  }
}

// Whether oneDNN has AVX-512: then also arithmetic for bf16, emulated or not, and epilogues of any number of channels.
inline bool library_has_avx512() { return instruction_set() >= InstructionSet::avx512; }

// Whether an argument is stored as bf16. The kernel then also runs as on a machine with arithmetic for it, which oneDNN
// emulates.
inline bool has_bf16(const Kernel& kernel) {
  return std::any_of(kernel.args.begin(), kernel.args.end(), [](const KernelArg& a) { return a.dtype == DType::bf16; });
}

// With one thread and with two, which gives the same bits every time.
inline void check_contraction(const Kernel& kernel, const std::vector<int>& constant = {},
                              const std::function<void(ContractionRun&)>& fill = {}, double tolerance = 5e-6) {
  const auto problems = check_kernel(kernel);
  ASSERT_TRUE(problems.empty()) << problems.front() << "\n" << to_text(kernel);
  std::vector<std::vector<std::byte>> expected;
  std::vector<std::vector<double>> summed;
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
        summed = magnitudes(kernel, expected);
        evaluate(kernel, pointers, true);
      }
      run.expected = expected;
      run.step->run();
      run.step->run();
      compare(kernel, run, summed, tolerance);
      if (::testing::Test::HasFatalFailure()) return;
      if (threads == 1) continue;
      if (first.empty()) first = run.memory.back();
      ASSERT_EQ(first, run.memory.back()) << "not repeatable: " << run.step->describe();
    }
  };
  on_every_instruction_set([&] { check(false); });
  if (has_bf16(kernel) && !::testing::Test::HasFatalFailure()) check(true);
}

}  // namespace npusim::cpu
