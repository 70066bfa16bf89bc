// The zoo's kernels as MSL: all text is checked; kernels of every name are executed and compared with evaluate().
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "print/print.h"
#include "print/zoo_kernels.h"
#include "run_printed.h"

namespace npusim {
namespace {

int64_t points_of(const Kernel& kernel) {
  return std::accumulate(kernel.space.begin(), kernel.space.end(), int64_t{1}, std::multiplies<>());
}

// What running it costs in points, which the emulator takes longer for than filling memory, as tables of embeddings.
int64_t cost_of(const Kernel& kernel) {
  constexpr int64_t elements_per_point = 16;
  int64_t cost = points_of(kernel);
  for (const KernelArg& arg : kernel.args) cost = std::max(cost, arg.elements / elements_per_point);
  return cost;
}

// Integers that are indices into every dimension they may be looked up in; different ones where they say where to
// store.
PrintSample sample_of(const Kernel& kernel) {
  PrintSample sample{.name = kernel.name, .kernel = kernel, .tolerance = 16};
  const auto visit = [&](const Access& access) {
    for (const IndexTerm& term : access.terms) sample.integers = std::min(sample.integers, term.extent);
  };
  for (const Access& access : kernel.accesses) visit(access);
  for (const Store& store : kernel.stores) {
    sample.distinct = sample.distinct || !store.access.terms.empty();
    visit(store.access);
  }
  return sample;
}

// Text is checked in few files: each is a run of the compiler.
TEST(MetalZoo, every_text_passes_the_check) {
  constexpr size_t in_one_file = 200;
  std::vector<const Kernel*> kernels;
  const auto check = [&] {
    if (kernels.empty()) return;
    const mslx::Outcome outcome =
        mslx::check_file(mslx::write_temporary("zoo.metal", print_kernels(kernels, metal_dialect)));
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_EQ(outcome.messages, "");
    kernels.clear();
  };
  for (const Kernel& kernel : zoo_kernels()) {
    if (cannot_print(kernel, metal_dialect)) continue;
    kernels.push_back(&kernel);
    if (kernels.size() == in_one_file) check();
  }
  check();
}

// The cheapest of each name, and all that cost little.
TEST(MetalZoo, every_name_computes_what_evaluate_does) {
  constexpr int64_t little = 1 << 15, affordable = 1 << 22;
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : zoo_kernels())
    if (!cannot_print(kernel, metal_dialect)) kernels.push_back(&kernel);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel* a, const Kernel* b) { return cost_of(*a) < cost_of(*b); });
  std::set<std::string> names;
  std::vector<PrintSample> samples;
  for (const Kernel* kernel : kernels) {
    const bool first = names.insert(kernel->name).second;
    EXPECT_TRUE(!first || cost_of(*kernel) <= affordable) << kernel->name << " is never executed";
    if (cost_of(*kernel) <= (first ? affordable : little)) samples.push_back(sample_of(*kernel));
  }
  const mslx::Library library = compile_samples(samples);
  ASSERT_EQ(library.error, "");
  for (const PrintSample& sample : samples) {
    std::vector<HostTensor> found;
    EXPECT_EQ(run_sample(sample, library, {.force_fibers = false}, found), 0) << sample.name;
    EXPECT_EQ(sample_difference(sample, sample_reference(sample), found), "") << to_text(sample.kernel);
  }
  std::printf("  %zu of %zu kernels executed, of %zu names\n", samples.size(), kernels.size(), names.size());
}

}  // namespace
}  // namespace npusim
