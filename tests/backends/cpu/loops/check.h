// Runs a kernel with Loops and with the reference evaluator on the same random arguments, and compares.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/loops/loops.h"
#include "base/dtype.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"

namespace npusim::cpu {

struct Check {
  unsigned seed = 1;
  double low = -2, high = 2;    // of float inputs
  int64_t least = 0, most = 5;  // of integer inputs
  double tolerance = 4e-6;      // relative to max(1, |expected|), for f32; 16-bit floats add their own unit
  std::vector<double> special;  // mixed into float inputs
};

using Memory = std::vector<std::vector<std::byte>>;

inline Memory random_arguments(const Kernel& k, const Check& check) {
  std::mt19937 random(check.seed);
  Memory memory;
  for (const KernelArg& arg : k.args) {
    std::vector<std::byte> bytes(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype));
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (is_float(arg.dtype)) {
        double value = std::uniform_real_distribution<double>(check.low, check.high)(random);
        if (!check.special.empty() && random() % 4 == 0) value = check.special[random() % check.special.size()];
        store_double(bytes.data(), arg.dtype, i, value);
      } else {
        store_int(bytes.data(), arg.dtype, i, std::uniform_int_distribution<int64_t>(check.least, check.most)(random));
      }
    }
    memory.push_back(std::move(bytes));
  }
  return memory;
}

inline std::vector<void*> pointers(const Kernel& k, Memory& memory) {
  std::vector<void*> args;
  for (size_t i = 0; i < k.args.size(); ++i)
    args.push_back(memory[k.args[i].updates >= 0 ? static_cast<size_t>(k.args[i].updates) : i].data());
  return args;
}

inline void compare(const Kernel& k, const Memory& expected, const Memory& actual, const Check& check) {
  for (size_t a = 0; a < k.args.size(); ++a) {
    const DType dtype = k.args[a].dtype;
    const double unit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : dtype == DType::f64 ? 1e-12 : 0;
    const double tolerance = check.tolerance + 2 * unit;
    int wrong = 0;
    for (int64_t i = 0; i < k.args[a].elements && wrong < 5; ++i) {
      if (is_float(dtype)) {
        const double want = load_double(expected[a].data(), dtype, i), got = load_double(actual[a].data(), dtype, i);
        const bool same = (std::isnan(want) && std::isnan(got)) || want == got ||
                          std::fabs(want - got) <= tolerance * std::max(1.0, std::fabs(want));
        if (!same)
          ADD_FAILURE() << k.name << " argument " << a << " element " << i << ": " << got << ", expected " << want,
              ++wrong;
      } else if (load_int(expected[a].data(), dtype, i) != load_int(actual[a].data(), dtype, i)) {
        ADD_FAILURE() << k.name << " argument " << a << " element " << i << ": " << load_int(actual[a].data(), dtype, i)
                      << ", expected " << load_int(expected[a].data(), dtype, i);
        ++wrong;
      }
    }
    if (wrong) FAIL() << to_text(k);
  }
}

// Box by box.
inline void check_boxes(const Kernel& k, const Check& check, const Memory& start, const Memory& expected) {
  loops::Loops boxes(k, 2, true);
  Memory boxed = start;
  std::vector<int64_t> begin(k.space.size(), 0), end = k.space;
  const int64_t step = k.space[0] / 2 + 1;
  for (int64_t i = 0; i < k.space[0]; i += step)
    for (int64_t j = 0, n = k.space.back(), part = k.space.size() > 1 ? n / 3 + 1 : n; j < n; j += part) {
      begin.back() = j;
      end.back() = std::min(n, j + part);
      if (k.space.size() > 1)
        begin[0] = i, end[0] = std::min(k.space[0], i + step);
      else if (i > 0)
        continue;
      ASSERT_TRUE(boxes.run_box(pointers(k, boxed).data(), begin.data(), end.data(), 1)) << boxes.trap_message();
    }
  bool sums = false;
  for (const Store& s : k.stores) sums = sums || s.accumulate || !s.access.terms.empty();
  if (!sums) compare(k, expected, boxed, check);
}

// The kernel as a whole, a second time (bitwise equal), and box by box when it has no row.
inline void check_kernel_runs(const Kernel& k, const Check& check = {}) {
  const auto problems = check_kernel(k);
  ASSERT_TRUE(problems.empty()) << problems[0] << "\n" << to_text(k);
  const Memory start = random_arguments(k, check);
  Memory expected = start;
  evaluate(k, pointers(k, expected), false);
  on_every_instruction_set([&] {
    Memory actual = start, again = start;
    loops::Loops loops(k, 2);
    ASSERT_TRUE(loops.run(pointers(k, actual).data())) << loops.trap_message() << "\n" << to_text(k);
    compare(k, expected, actual, check);
    ASSERT_TRUE(loops.run(pointers(k, again).data()));
    for (size_t a = 0; a < k.args.size(); ++a) EXPECT_TRUE(actual[a] == again[a]) << k.name;
    if (k.row_dims == 0 && !k.space.empty()) check_boxes(k, check, start, expected);
  });
}

}  // namespace npusim::cpu
