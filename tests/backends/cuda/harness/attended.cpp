// What the interpreter finds out for an attention, and numbers of keys.
#include "backends/cuda/harness/attended.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "kernel/evaluate.h"
#include "plan/contracted.h"
#include "print/print.h"

namespace npusim {

std::optional<plan::Attention> attention_of(const Kernel& kernel, std::string& why) {
  plan::Contracted known = plan::contracted(kernel);
  why = known.attention ? cuda::codegen::attention::attention_declines(*known.attention) : known.no_attention;
  return why.empty() ? std::move(known.attention) : std::nullopt;
}

Case shaped(std::string name, Kernel kernel, const cuda::codegen::attention::AttentionShape& shape) {
  kernel.name = name;
  std::string why;
  const auto attention = attention_of(kernel, why);
  EXPECT_TRUE(attention) << name << ": " << why;
  cuda::codegen::GeneratedKernel made = cuda::codegen::attention::make_attention(kernel, *attention, shape);
  made.symbol = kernel_name(kernel);
  return {std::move(name), std::move(kernel), std::move(made)};
}

Case summarized(std::string name, Kernel kernel, const cuda::codegen::attention::AttentionShape& shape) {
  kernel.name = name;
  std::string why;
  const Unfused parts = cuda::codegen::attention::summarize_attention(kernel, *attention_of(kernel, why), shape);
  EXPECT_EQ(parts.steps.size(), 3U) << name;
  for (const BoundKernel& step : parts.steps) EXPECT_EQ(check_kernel(step.kernel), std::vector<std::string>{}) << name;
  Case one = shaped(std::move(name), parts.steps.back().kernel, shape);
  EXPECT_TRUE(one.made.how.ends_with("by warpgroups, with a summary of the mask")) << one.made.how;
  one.given = [parts](std::vector<HostTensor>& memory) {
    const std::vector<int>& known = parts.steps.back().values;
    for (const BoundKernel& step : std::span(parts.steps).first(2)) {
      std::vector<void*> args;
      for (int value : step.values)
        args.push_back(
            memory[static_cast<size_t>(std::find(known.begin(), known.end(), value) - known.begin())].data.data());
      evaluate(step.kernel, args);
    }
  };
  return one;
}

Kernel with_keys(Kernel kernel) {
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  auto score = std::make_shared<Score>(*contraction->score);
  score->accesses.push_back({3, 0, std::vector<int64_t>(score->space.size(), 0), {}, {}});
  Expr load{.op = ExprOp::load, .type = Scalar::i64};
  load.integer = static_cast<int64_t>(score->accesses.size()) - 1;
  score->keys = static_cast<int32_t>(score->exprs.size());
  score->exprs.push_back(load);
  contraction->score = score;
  kernel.contraction = contraction;
  return kernel;
}

}  // namespace npusim
