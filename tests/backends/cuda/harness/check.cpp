// Random memory, the interpreter's answers and the machine's.
#include "backends/cuda/harness/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/device/texts.h"
#include "backends/cuda/harness/machine.h"
#include "kernel/evaluate.h"
#include "print/nvrtc.h"
#include "print/print.h"

namespace npusim {
using cuda::codegen::GeneratedKernel;

std::vector<bool> second_ahead(const Kernel& kernel) {
  std::vector<bool> ahead(kernel.args.size());
  ahead[1] = !kernel.args[1].written;
  return ahead;
}

std::vector<HostTensor> random_memory(const Kernel& kernel, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  std::vector<HostTensor> memory;
  for (const KernelArg& arg : kernel.args) {
    HostTensor t = make_tensor({arg.dtype, {arg.elements}});
    std::fill(t.data.begin(), t.data.end(), std::byte{0xff});
    if (arg.updates >= 0)
      t.data = memory[static_cast<size_t>(arg.updates)].data;
    else if (!arg.written)
      for (int64_t i = 0; i < arg.elements; ++i) {
        if (is_float(arg.dtype))
          store_double(t.data.data(), arg.dtype, i, real(random));
        else
          store_int(t.data.data(), arg.dtype, i, static_cast<int64_t>(random() % 4));
      }
    memory.push_back(std::move(t));
  }
  return memory;
}

std::vector<HostTensor> execute(const Case& c, TextRunner& machine, std::vector<HostTensor> memory, mslx::Order order) {
  EXPECT_EQ(
      machine.run(c.kernel, c.made, memory, order, c.ahead.empty() ? std::vector<bool>(c.kernel.args.size()) : c.ahead),
      "")
      << c.name;
  return memory;
}

// Sums of n terms of random signs, in another order: a few steps of float32 each, and one of the result's dtype.
std::string difference(const Case& c, const std::vector<HostTensor>& expected, const std::vector<HostTensor>& found,
                       bool together) {
  for (size_t n = 0; n < expected.size(); ++n) {
    const KernelArg& arg = c.kernel.args[n];
    if (!arg.written) continue;
    const double step = arg.dtype == DType::f32 ? 0x1p-16 : arg.dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < arg.elements; ++i) {
      const double a = load_double(expected[n].data.data(), arg.dtype, i),
                   b = load_double(found[n].data.data(), arg.dtype, i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= step * std::max(1.0, std::fabs(a))) {
        if (std::isfinite(a)) apart += (a - b) * (a - b), whole += a * a;
        continue;
      }
      return fmt::format("{}: argument {} element {}: expected {}, found {}", c.name, n, i, a, b);
    }
    const double most = arg.dtype == DType::f32 ? 0x1p-11 : 2 * step;
    if (together && std::sqrt(apart) > most * std::sqrt(whole))
      return fmt::format("{}: argument {}: {:.3g} apart (relative L2)", c.name, n, std::sqrt(apart / whole));
  }
  return {};
}

Case chosen(std::string name, Kernel kernel, const std::string& how) {
  kernel.name = name;
  const std::vector<bool> ahead = second_ahead(kernel);
  GeneratedKernel made = cuda::codegen::choose::make_kernel(kernel, any, ahead);
  EXPECT_TRUE(made.how.starts_with(how)) << name << ": " << made.how;
  return {std::move(name), std::move(kernel), std::move(made), ahead};
}

void check_nvrtc(const std::string& functions, const std::vector<std::string>& architectures) {
  const std::vector<std::string> source{with_helpers(functions, cuda::codegen::device::device_dialect())};
  if (functions.empty() || !has_nvrtc()) return;
  for (const std::string& problem : check_cuda(source, architectures).problems) ADD_FAILURE() << problem;
}

void check(const std::vector<Case>& cases, bool drawn) {
  std::string functions, of_groups;
  std::vector<cuda::Source> sources;
  std::set<std::string> symbols;
  for (const Case& c : cases)
    if (symbols.insert(c.made.symbol).second) {
      (c.made.groups ? of_groups : functions) += c.made.functions;
      sources.push_back({c.made.symbol, c.made.functions});
    }
  ASSERT_EQ(symbols.size(), cases.size());
  if (!drawn) {
    check_nvrtc(functions);
    check_nvrtc(of_groups, {"sm_90a"});
  }
  TextRunner machine(sources);
  ASSERT_EQ(machine.error(), "");
  unsigned seed = 1;
  for (const Case& c : cases) {
    std::vector<HostTensor> memory = random_memory(c.kernel, seed++);
    if (c.given) c.given(memory);
    std::vector<HostTensor> expected = memory;
    std::vector<void*> args;
    for (HostTensor& t : expected) args.push_back(t.data.data());
    evaluate(c.kernel, args);
    const std::vector<HostTensor> found = execute(c, machine, memory, mslx::Order::forward);
    EXPECT_EQ(difference(c, expected, found, drawn), "");
    const std::vector<HostTensor> again = execute(c, machine, memory, mslx::Order::random);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].data == again[i].data) << c.name << " depends on the order of threads";
  }
}

void check_steps(const std::vector<Steps>& all, bool drawn) {
  std::string functions;
  std::vector<cuda::Source> sources;
  std::set<std::string> symbols;
  std::vector<Unfused> parts;
  std::vector<std::vector<GeneratedKernel>> made;
  for (const Steps& s : all) {
    ASSERT_EQ(check_kernel(s.kernel), std::vector<std::string>{}) << s.name;
    parts.push_back(cuda::codegen::choose::find_parts(s.kernel, any));
    std::string made_as;
    for (const BoundKernel& step : parts.back().steps)
      made_as += cuda::codegen::choose::make_kernel(step.kernel, any, second_ahead(step.kernel)).how + "\n";
    if (parts.back().steps.empty()) {  // it stays whole
      parts.back().steps.push_back({s.kernel, std::vector<int>(s.kernel.args.size())});
      std::iota(parts.back().steps[0].values.begin(), parts.back().steps[0].values.end(), 0);
    }
    if (s.count != 0) {
      ASSERT_EQ(parts.back().steps.size(), s.count) << s.name << "\n" << made_as;
    }
    made.emplace_back();
    for (const BoundKernel& step : parts.back().steps) {
      ASSERT_EQ(check_kernel(step.kernel), std::vector<std::string>{}) << s.name << "\n" << to_text(step.kernel);
      made.back().push_back(cuda::codegen::choose::make_kernel(step.kernel, any, second_ahead(step.kernel)));
      const size_t n = made.back().size() - 1;
      if (n < s.how.size()) {
        EXPECT_TRUE(made.back()[n].how.starts_with(s.how[n])) << s.name << ": " << made.back()[n].how;
      }
      if (symbols.insert(made.back()[n].symbol).second) {
        functions += made.back()[n].functions;
        sources.push_back({made.back()[n].symbol, made.back()[n].functions});
      }
    }
  }
  if (!drawn) check_nvrtc(functions);
  TextRunner machine(sources);
  ASSERT_EQ(machine.error(), "");
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<HostTensor> given = random_memory(all[i].kernel, static_cast<unsigned>(i));
    std::vector<HostTensor> expected = given, found = given, interpreted;
    for (const Unfused::Scratch& s : parts[i].scratch) {
      found.push_back(make_tensor({s.dtype, {s.elements}}));
      std::fill(found.back().data.begin(), found.back().data.end(), std::byte{0xff});
    }
    interpreted = found;
    const auto begin_updates = [](const Kernel& kernel, std::vector<HostTensor>& memory,
                                  const std::vector<int>& values) {
      for (size_t v = 0; v < values.size(); ++v)
        if (const int before = kernel.args[v].updates; before >= 0)
          memory[static_cast<size_t>(values[v])].data =
              memory[static_cast<size_t>(values[static_cast<size_t>(before)])].data;
    };
    const auto interpret = [&](const Kernel& kernel, std::vector<HostTensor>& memory, const std::vector<int>& values) {
      begin_updates(kernel, memory, values);
      std::vector<void*> args;
      for (int v : values) args.push_back(memory[static_cast<size_t>(v)].data.data());
      evaluate(kernel, args);
    };
    std::vector<int> own(given.size());
    std::iota(own.begin(), own.end(), 0);
    interpret(all[i].kernel, expected, own);
    for (size_t n = 0; n < parts[i].steps.size(); ++n) {
      const BoundKernel& step = parts[i].steps[n];
      interpret(step.kernel, interpreted, step.values);
      std::vector<HostTensor> memory;
      begin_updates(step.kernel, found, step.values);
      for (int v : step.values) memory.push_back(found[static_cast<size_t>(v)]);
      const std::vector<HostTensor> after = execute({all[i].name, step.kernel, made[i][n], second_ahead(step.kernel)},
                                                    machine, memory, mslx::Order::random);
      for (size_t v = 0; v < step.values.size(); ++v)
        if (step.kernel.args[v].written) found[static_cast<size_t>(step.values[v])] = after[v];
    }
    EXPECT_EQ(difference({all[i].name + " interpreted", all[i].kernel, {}}, expected, interpreted), "");
    EXPECT_EQ(difference({all[i].name, all[i].kernel, {}}, expected, found, drawn), "");
  }
}

}  // namespace npusim
