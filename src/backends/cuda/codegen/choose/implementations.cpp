// All implementations, in the order in which they are asked.
#include "backends/cuda/codegen/choose/implementations.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/attention/attention.h"
#include "backends/cuda/codegen/choose/side_by_side.h"
#include "backends/cuda/codegen/products/columns.h"
#include "backends/cuda/codegen/products/depthwise.h"
#include "backends/cuda/codegen/products/dot.h"
#include "backends/cuda/codegen/products/patch.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/rows/combine.h"
#include "backends/cuda/codegen/rows/order.h"
#include "backends/cuda/codegen/rows/pairs.h"
#include "backends/cuda/codegen/rows/scan.h"
#include "backends/cuda/codegen/text.h"
#include "base/error.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/unfuse.h"
#include "print/point.h"

namespace npusim::cuda::codegen::choose {
namespace {

constexpr size_t most_steps = 4;  // of a launch

// One implementation of launches. Of several steps, `joins` says how many of them, from the first on, are one launch,
// and notes in the plan what it found; less than two: none, with the reason, or "" if it does not concern them. Of one
// kernel, or equal ones, `concerns` says whether it is asked at all, and `declines` why it does not take them ("" if it
// does).
struct Implementation {
  By by;
  std::string_view name;
  size_t (*joins)(std::span<const GroupStep> steps, std::span<const plan::Contracted> contracted,
                  const Features& features, StepsPlan& plan, std::string& why);
  bool (*concerns)(const Kernel& kernel, const Analysis& known);
  std::string (*declines)(const Kernel& kernel, const Analysis& known, const Product* product,
                          const Features& features);
  std::vector<GeneratedKernel> (*make)(const LaunchKernels& launch, const Product* product, const Features& features,
                                       size_t most);
};

// Why `next` is not made side by side with `first`. A launch has one word for traps, in which the last one stays: the
// first of the steps that trap would be lost.
std::string next_declines(const GroupStep& first, const GroupStep& next, const Features& features) {
  const std::string why = side_by_side_declines(*next.kernel, features);
  if (!why.empty()) return "the next: " + why;
  return takes_trap(*first.kernel) && takes_trap(*next.kernel) ? "both report what they meet" : "";
}

bool is_plain(const Kernel& k) { return !k.contraction && !k.call; }

bool is_equal(const GroupStep& first, const GroupStep& next) {
  return next.kernel->contraction && next.values.size() == first.values.size() &&
         kernel_name(*next.kernel) == kernel_name(*first.kernel) && products::are_apart(first, next);
}

// How many steps, from the first on, are what each of them is to all before it.
template <typename Relation>
size_t count_related(std::span<const GroupStep> steps, const Relation& is_related) {
  size_t count = 1;
  const auto joins = [&](const GroupStep& next) {
    return std::all_of(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(count),
                       [&](const GroupStep& step) { return is_related(step, next); });
  };
  while (count < std::min(most_steps, steps.size()) && joins(steps[count])) ++count;
  return count;
}

// What the first of two products makes is stored too where others have to do with it.
size_t join_pair(std::span<const GroupStep> steps, std::span<const plan::Contracted>, const Features& features,
                 StepsPlan& plan, std::string& why) {
  const GroupStep& first = steps[0];
  if (steps.size() < 2 || !first.kernel->contraction) return 0;
  bool keep = false;
  for (size_t i = 0; i < first.kept.size(); ++i)
    if (first.kernel->args[i].written) keep = first.kept[i];
  plan.pair = products::find_pair(first, steps[1], features, keep, why);
  return plan.pair ? 2 : 0;
}

size_t join_columns(std::span<const GroupStep> steps, std::span<const plan::Contracted> contracted,
                    const Features& features, StepsPlan& plan, std::string& why) {
  plan.columns = products::find_columns(steps, contracted, features, why);
  return plan.columns.size();
}

size_t join_side_by_side(std::span<const GroupStep> steps, std::span<const plan::Contracted>, const Features& features,
                         StepsPlan&, std::string& why) {
  if (steps.size() < 2 || !is_plain(*steps[0].kernel) || !is_plain(*steps[1].kernel) ||
      !products::are_apart(steps[0], steps[1]))
    return 0;
  why = side_by_side_declines(*steps[0].kernel, features);
  if (!why.empty()) return 0;
  const size_t count = count_related(steps, [&](const GroupStep& a, const GroupStep& b) {
    if (!products::are_apart(a, b)) return false;
    why = next_declines(a, b, features);
    return why.empty();
  });
  if (count > 1) why = {};
  return count;
}

bool is_attention(const Kernel& k, const Analysis&) {
  return k.contraction && k.contraction->kind == ContractionKind::attention;
}
bool is_product(const Kernel&, const Analysis& known) { return known.contracted.product.has_value(); }
bool combines(const Kernel& k, const Analysis&) {
  return is_plain(k) && std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; });
}
bool orders(const Kernel& k, const Analysis&) { return is_plain(k) && has_order(k); }
bool scans(const Kernel& k, const Analysis&) {
  return is_plain(k) && std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::scan; });
}
bool pairs_up(const Kernel& k, const Analysis&) { return is_plain(k) && rows::has_pairs(k); }

std::string attention_declines(const Kernel&, const Analysis& known, const Product*, const Features&) {
  const auto& attention = known.contracted.attention;
  return attention ? attention::attention_declines(*attention) : known.contracted.no_attention;
}
template <std::string (*declines)(const Product&)>
std::string product_declines(const Kernel&, const Analysis&, const Product* p, const Features&) {
  return declines(*p);
}
std::string patches_decline(const Kernel&, const Analysis& known, const Product* p, const Features&) {
  return known.patches ? products::patches_decline(*known.patches, *p) : known.no_patches;
}
std::string depthwise_declines(const Kernel& k, const Analysis& known, const Product*, const Features&) {
  if (!known.no_depthwise.empty()) return known.no_depthwise;
  return products::depthwise_packing(k, *known.contracted.windows).empty() ? "" : "the weight is not packed";
}
template <std::string (*declines)(const Kernel&)>
std::string kernel_declines(const Kernel& k, const Analysis&, const Product*, const Features&) {
  return declines(k);
}
std::string scan_declines(const Kernel& k, const Analysis&, const Product*, const Features& features) {
  return rows::scan_decline(k, features);
}
std::string takes_all(const Kernel&, const Analysis&, const Product*, const Features&) { return {}; }

std::vector<GeneratedKernel> make_pair(const LaunchKernels& l, const Product*, const Features& features, size_t most) {
  return products::make_joined(*l.plan->pair, l.ahead, features, most);
}
std::vector<GeneratedKernel> make_columns(const LaunchKernels& l, const Product*, const Features& features,
                                          size_t most) {
  return products::make_columns(l.kernels, l.plan->columns, l.ahead, features, most);
}
std::vector<GeneratedKernel> make_all_side_by_side(const LaunchKernels& l, const Product*, const Features& features,
                                                   size_t) {
  return {make_side_by_side(l.kernels, features)};
}
std::vector<GeneratedKernel> make_attention(const LaunchKernels& l, const Product*, const Features& features, size_t) {
  const plan::Attention& a = *l.plan->known.contracted.attention;
  GeneratedKernel made = attention::make_attention(*l.kernels[0], a, attention::choose_attention(a, features));
  made.symbol = kernel_name(*l.kernels[0]);
  return {std::move(made)};
}
std::vector<GeneratedKernel> make_dots(const LaunchKernels& l, const Product* p, const Features& features, size_t) {
  return {products::make_dots(*l.kernels[0], *p, products::choose_dots(*p), features)};
}
std::vector<GeneratedKernel> make_patches(const LaunchKernels& l, const Product* p, const Features& features, size_t) {
  const products::PatchConv& conv = *l.plan->known.patches;
  return {products::make_patches(*l.kernels[0], *p, conv, products::choose_patch(conv, features), features)};
}
std::vector<GeneratedKernel> make_depthwise(const LaunchKernels& l, const Product* p, const Features& features,
                                            size_t most) {
  const ConvWindows& windows = *l.plan->known.contracted.windows;
  std::vector<GeneratedKernel> candidates;
  for (const int pixels : products::rate_depthwise(windows, features))
    if (candidates.size() < most)
      candidates.push_back(products::make_depthwise(*l.kernels[0], *p, windows, pixels, features));
  return candidates;
}
std::vector<GeneratedKernel> make_tiles(const LaunchKernels& l, const Product* p, const Features& features,
                                        size_t most) {
  std::vector<GeneratedKernel> candidates;
  for (const products::TileShape& shape : products::likeliest(products::rate_tiles(*p, features), most))
    candidates.push_back(products::make_tiles(*l.kernels[0], *p, shape, features));
  return candidates;
}
template <GeneratedKernel (*make)(const Kernel&, const Features&)>
std::vector<GeneratedKernel> make_one(const LaunchKernels& l, const Product*, const Features& features, size_t) {
  return {make(*l.kernels[0], features)};
}
std::vector<GeneratedKernel> make_as_rows(const LaunchKernels& l, const Product*, const Features& features, size_t) {
  return {make_rows(*l.kernels[0], l.ahead, features)};
}

constexpr Implementation implementations[] = {
    {By::pair, "pair", join_pair, nullptr, nullptr, make_pair},
    {By::columns, "columns", join_columns, nullptr, nullptr, make_columns},
    {By::side_by_side, "side by side", join_side_by_side, nullptr, nullptr, make_all_side_by_side},
    {By::attention, "attention", nullptr, is_attention, attention_declines, make_attention},
    {By::dots, "dots", nullptr, is_product, product_declines<products::dots_decline>, make_dots},
    {By::patches, "patches", nullptr, is_product, patches_decline, make_patches},
    {By::depthwise, "depthwise", nullptr, is_product, depthwise_declines, make_depthwise},
    {By::tiles, "tiles", nullptr, is_product, product_declines<products::tiles_decline>, make_tiles},
    {By::combined_lines, "combined lines", nullptr, combines, kernel_declines<rows::combine_decline>,
     make_one<rows::make_combined>},
    {By::ordered_rows, "ordered rows", nullptr, orders, kernel_declines<rows::order_decline>,
     make_one<rows::make_ordered>},
    {By::scanned_rows, "scanned rows", nullptr, scans, scan_declines, make_one<rows::make_scanned>},
    {By::pairs, "pairs", nullptr, pairs_up, kernel_declines<rows::pairs_decline>, make_one<rows::make_pairs>},
    {By::rows, "rows", nullptr, [](const Kernel&, const Analysis&) { return true; }, takes_all, make_as_rows},
};
constexpr size_t rows_as_printed = std::size(implementations) - 1;
static_assert(implementations[rows_as_printed].by == By::rows);

// The first implementation of one kernel, from this one on, that takes it; those that do not are noted. `rows` does.
size_t find_implementation(size_t from, const Kernel& kernel, const Analysis& known, const Product* product,
                           const Features& features, std::vector<Declined>& declined) {
  for (size_t n = from; n < std::size(implementations); ++n) {
    const Implementation& i = implementations[n];
    if (i.joins || !i.concerns(kernel, known)) continue;
    std::string why = i.declines(kernel, known, product, features);
    if (why.empty()) return n;
    declined.push_back({std::string(i.name), std::move(why)});
  }
  fail(ErrorKind::internal, "cuda: nobody takes kernel {}", kernel.name);
}

std::optional<Product> product_of(const Analysis& known, int copies) {
  std::optional<Product> product = known.contracted.product;
  if (product) product->copies = copies;
  return product;
}

std::vector<std::string> traps_of(const Kernel& printed) {
  std::vector<std::string> traps;
  if (takes_trap(printed))
    for (int code = 1; code <= trap_count(printed); ++code) traps.push_back(trap_message(printed, code));
  return traps;
}

}  // namespace

By StepsPlan::by() const { return implementations[implementation].by; }

StepsPlan plan_kernel(const Kernel& kernel, Analysis known, int copies, const Features& features) {
  StepsPlan plan;
  plan.known = std::move(known);
  const auto product = product_of(plan.known, copies);
  if (kernel.contraction && !is_attention(kernel, plan.known) && !product)
    plan.declined.push_back({"products", plan.known.contracted.no_product});
  plan.implementation =
      find_implementation(0, kernel, plan.known, product ? &*product : nullptr, features, plan.declined);
  return plan;
}

Group group_steps(std::span<const GroupStep> steps, const Features& features) {
  std::vector<plan::Contracted> contracted;  // of the steps up to the first without a contraction
  while (contracted.size() < std::min(most_steps, steps.size()) && steps[contracted.size()].kernel->contraction)
    contracted.push_back(plan::contracted(*steps[contracted.size()].kernel));
  std::vector<Declined> declined;
  for (size_t n = 0; n < std::size(implementations); ++n) {
    if (!implementations[n].joins) continue;
    StepsPlan plan;
    plan.implementation = n;
    std::string why;
    const size_t count = implementations[n].joins(steps, contracted, features, plan, why);
    if (count > 1) {
      plan.declined = std::move(declined);
      return {count, std::make_shared<const StepsPlan>(std::move(plan))};
    }
    if (!why.empty()) declined.push_back({std::string(implementations[n].name), std::move(why)});
  }
  const Kernel& kernel = *steps[0].kernel;
  Analysis known = contracted.empty() ? Analysis{} : analyse(kernel, std::move(contracted[0]));
  const size_t count = several_at_once(kernel, known, features) ? count_related(steps, is_equal) : 1;
  StepsPlan plan = plan_kernel(kernel, std::move(known), static_cast<int>(count), features);
  plan.declined.insert(plan.declined.begin(), declined.begin(), declined.end());
  return {count, std::make_shared<const StepsPlan>(std::move(plan))};
}

std::vector<GeneratedKernel> make_candidates(const LaunchKernels& launch, const Features& features, size_t most) {
  const StepsPlan& plan = *launch.plan;
  const Kernel& kernel = *launch.kernels[0];
  if (implementations[plan.implementation].joins) {
    std::vector<GeneratedKernel> candidates =
        implementations[plan.implementation].make(launch, nullptr, features, most);
    for (GeneratedKernel& made : candidates) made.early = true, made.declined = plan.declined;
    return candidates;
  }
  auto product = product_of(plan.known, static_cast<int>(launch.kernels.size()));
  if (product)
    for (Operand* o : {&product->a, &product->b}) o->ahead = launch.ahead[static_cast<size_t>(o->arg)];
  const Product* p = product ? &*product : nullptr;
  std::vector<GeneratedKernel> candidates;
  std::vector<Declined> declined = plan.declined;
  // Others than the first that are asked of the same kernels are candidates too.
  for (size_t n = plan.implementation; candidates.size() < most;
       n = find_implementation(n + 1, kernel, plan.known, p, features, declined)) {
    const Implementation& i = implementations[n];
    if (i.concerns != implementations[plan.implementation].concerns) break;
    for (GeneratedKernel& made : i.make(launch, p, features, most - candidates.size())) {
      if (n != rows_as_printed) {
        made.symbol = p ? function_name(kernel, *p) : made.symbol;
        made.traps = traps_of(kernel);
      }
      made.early = true;
      made.declined = declined;
      candidates.push_back(std::move(made));
    }
    if (n == rows_as_printed) break;
  }
  return candidates;
}

GeneratedKernel make_kernel(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead,
                            int copies) {
  const StepsPlan plan = plan_kernel(kernel, analyse(kernel), copies, features);
  const LaunchKernels launch{std::vector<const Kernel*>(static_cast<size_t>(copies), &kernel), &plan, ahead};
  return std::move(make_candidates(launch, features, 1)[0]);
}

GeneratedKernel make_rows(const Kernel& kernel, const std::vector<bool>& ahead, const Features& features,
                          const std::optional<Schedule>& schedule) {
  Kernel spelled;
  const Kernel* printed = &kernel;
  if (kernel.contraction) {
    const Unfused unfused = unfuse(kernel);
    if (unfused.steps.size() != 1)
      fail(ErrorKind::internal, "cuda: kernel {} has {} parts", kernel.name, unfused.steps.size());
    spelled = only_step(kernel, unfused.steps[0]);
    printed = &spelled;
  }
  Scheduled one{printed, schedule ? *schedule : choose_lanes(*printed, cuda_dialect, features.units)};
  one.opening = "  lead();\n";
  one.ahead = ahead;
  std::vector<int> early;
  for (int i = 0; i < static_cast<int>(ahead.size()); ++i)
    if (ahead[static_cast<size_t>(i)]) early.push_back(i), one.suffix += fmt::format("_{}", i);
  for (const std::string& statement : follow_text(*printed, early)) one.wait += "  " + statement + "\n";
  GeneratedKernel made;
  made.shape = launch_of(*printed, cuda_dialect, one.schedule);
  made.functions = print_functions({&one, 1}, cuda_dialect);
  made.symbol = kernel_name(*printed) + one.suffix;
  made.traps = traps_of(*printed);
  made.how = one.schedule.lanes > 1 ? fmt::format("rows, {} lanes", one.schedule.lanes) : "rows";
  return made;
}

bool has_own_text(const Kernel& kernel, const Analysis& known, const Features& features) {
  std::vector<Declined> declined;
  const auto product = product_of(known, 1);
  return find_implementation(0, kernel, known, product ? &*product : nullptr, features, declined) != rows_as_printed;
}

bool has_own_text(const Kernel& kernel, const Features& features) {
  return !kernel.contraction && has_own_text(kernel, {}, features);
}

bool several_at_once(const Kernel& kernel, const Analysis& known, const Features& features) {
  const auto written = [](const KernelArg& arg) { return arg.written; };
  return is_product(kernel, known) && !takes_trap(kernel) &&
         std::count_if(kernel.args.begin(), kernel.args.end(), written) == 1 && has_own_text(kernel, known, features);
}

}  // namespace npusim::cuda::codegen::choose
