// The zoo's kernels as MSL: all text is checked; all kernels are executed, large ones in part, and compared with
// evaluate().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// Whether the kernel sums products of two operands along its row, as a contraction does.
bool is_product(const Kernel& k) {
  const auto is = [&](int32_t id, ExprOp op) { return k.exprs[static_cast<size_t>(id)].op == op; };
  return std::any_of(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) {
    if (e.op != ExprOp::reduce || e.reduction != Reduction::sum || !is(e.in[0], ExprOp::mul)) return false;
    const Expr& product = k.exprs[static_cast<size_t>(e.in[0])];
    return is(product.in[0], ExprOp::load) && is(product.in[1], ExprOp::load);
  });
}

// Integers that are indices into every dimension they may be looked up in; different ones where they say where to
// store.
PrintSample sample_of(const Kernel& kernel) {
  PrintSample sample{.name = kernel.name, .kernel = kernel, .tolerance = 16};
  if (is_product(kernel)) {  // sums of about 3, whatever they are of: rounding grows with what is summed
    const std::vector<int64_t> row(kernel.space.end() - kernel.row_dims, kernel.space.end());
    sample.high = 3 / std::pow(static_cast<double>(std::max<int64_t>(element_count(row), 1)), 0.25);
    sample.low = -sample.high;
  }
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

// All that cost little, the cheapest of each name, and of the others a corner.
TEST(MetalZoo, every_kernel_computes_what_evaluate_does) {
  constexpr int64_t little = 1 << 15, affordable = 1 << 20, corner = 1 << 12;
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : zoo_kernels())
    if (!cannot_print(kernel, metal_dialect)) kernels.push_back(&kernel);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel* a, const Kernel* b) { return cost_of(*a) < cost_of(*b); });
  std::set<std::string> names;
  std::vector<PrintSample> samples;
  size_t whole = 0;
  for (const Kernel* kernel : kernels) {
    const int64_t most = names.insert(kernel->name).second ? affordable : little;
    const bool is_whole = cost_of(*kernel) <= most;
    whole += is_whole;
    samples.push_back(sample_of(is_whole ? *kernel : clipped(*kernel, most == affordable ? affordable : corner)));
    samples.back().schedule = choose_schedule(*kernel, metal_dialect);
    for (const std::string& problem : check_kernel(samples.back().kernel)) ADD_FAILURE() << problem;
  }
  const mslx::Library library = compile_samples(samples);
  ASSERT_EQ(library.error, "");
  for (const PrintSample& sample : samples) {
    std::vector<HostTensor> found;
    EXPECT_EQ(run_sample(sample, library, {.force_fibers = false}, found), 0) << sample.name;
    EXPECT_EQ(sample_difference(sample, sample_reference(sample), found), "") << to_text(sample.kernel);
  }
  std::printf("  %zu kernels of %zu names executed, %zu of them whole\n", samples.size(), names.size(), whole);
}

}  // namespace
}  // namespace npusim
