// Who is asked, in order.
#include "backends/cuda/codegen/choose/implementations.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/attention/attention.h"
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

// How products are made: why it declines one ("" if it does not), and at most so many ways to make one, the likeliest
// first.
struct Implementation {
  std::string_view name;
  std::string (*declines)(const Kernel& kernel, const Product& product);
  std::vector<Made> (*make)(const Kernel& kernel, const Product& product, const Features& features, size_t most);
};

std::vector<Made> make_likeliest_tiles(const Kernel& kernel, const Product& product, const Features& features,
                                       size_t most) {
  std::vector<Made> ways;
  for (const products::TileShape& shape : products::likeliest(products::rate_tiles(product, features), most))
    ways.push_back(products::make_tiles(kernel, product, shape));
  return ways;
}

std::vector<Made> make_likeliest_depthwise(const Kernel& kernel, const Product& product, const Features&, size_t most) {
  std::string why;
  std::vector<Made> ways;
  for (const int pixels : products::rate_depthwise(*products::find_depthwise(kernel, why)))
    if (ways.size() < most) ways.push_back(products::make_depthwise(kernel, product, pixels));
  return ways;
}

constexpr Implementation implementations[] = {
    {"dots", [](const Kernel&, const Product& p) { return products::dots_decline(p); },
     [](const Kernel& k, const Product& p, const Features&, size_t) {
       return std::vector{products::make_dots(k, p, products::choose_dots(p))};
     }},
    {"patches", products::patches_decline,
     [](const Kernel& k, const Product& p, const Features&, size_t) {
       return std::vector{products::make_patches(k, p, products::choose_patch(k))};
     }},
    {"depthwise", [](const Kernel& k, const Product&) { return products::depthwise_decline(k); },
     make_likeliest_depthwise},
    {"tiles", [](const Kernel&, const Product& p) { return products::tiles_decline(p); }, make_likeliest_tiles},
};

// How kernels without a contraction are made otherwise than as they are printed: of which it is asked, why it declines
// one ("" if it does not).
struct OwnText {
  std::string_view name;
  bool (*concerns)(const Kernel& kernel);
  std::string (*declines)(const Kernel& kernel);
  Made (*make)(const Kernel& kernel);
};

bool combines(const Kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; });
}

bool scans(const Kernel& k) {
  return std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::scan; });
}

constexpr OwnText own_texts[] = {
    {"combined lines", combines, rows::combine_decline, rows::make_combined},
    {"ordered rows", has_order, rows::order_decline, rows::make_ordered},
    {"scanned rows", scans, rows::scan_decline, rows::make_scanned},
    {"pairs", rows::has_pairs, rows::pairs_decline, rows::make_pairs},
};

// The first that takes it; else why none does.
const OwnText* find_own_text(const Kernel& kernel, std::string& declined) {
  if (kernel.contraction || kernel.call) return nullptr;
  for (const OwnText& one : own_texts) {
    if (!one.concerns(kernel)) continue;
    const std::string why = one.declines(kernel);
    if (why.empty()) return &one;
    declined += fmt::format("{}{}: {}", declined.empty() ? "" : "; ", one.name, why);
  }
  return nullptr;
}

std::vector<std::string> traps_of(const Kernel& printed) {
  std::vector<std::string> traps;
  if (takes_trap(printed))
    for (int code = 1; code <= trap_count(printed); ++code) traps.push_back(trap_message(printed, code));
  return traps;
}

}  // namespace

Made make_rows(const Kernel& kernel, const std::vector<bool>& ahead, const std::optional<Schedule>& schedule) {
  Kernel spelled;
  const Kernel* printed = &kernel;
  if (kernel.contraction) {
    const Unfused unfused = unfuse(kernel);
    if (unfused.steps.size() != 1)
      fail(ErrorKind::internal, "cuda: kernel {} has {} parts", kernel.name, unfused.steps.size());
    spelled = only_step(kernel, unfused.steps[0]);
    printed = &spelled;
  }
  Scheduled one{printed, schedule ? *schedule : choose_lanes(*printed, cuda_dialect, multiprocessors)};
  one.opening = "  lead();\n";
  one.ahead = ahead;
  std::vector<int> early;
  for (int i = 0; i < static_cast<int>(ahead.size()); ++i)
    if (ahead[static_cast<size_t>(i)]) early.push_back(i), one.suffix += fmt::format("_{}", i);
  for (const std::string& statement : follow_text(*printed, early)) one.wait += "  " + statement + "\n";
  Made made;
  made.shape = launch_of(*printed, cuda_dialect, one.schedule);
  made.functions = print_functions({&one, 1}, cuda_dialect);
  made.symbol = kernel_name(*printed) + one.suffix;
  made.traps = traps_of(*printed);
  made.how = one.schedule.lanes > 1 ? fmt::format("rows, {} lanes", one.schedule.lanes) : "rows";
  return made;
}

bool has_own_text(const Kernel& kernel) {
  std::string declined;
  return find_own_text(kernel, declined) != nullptr;
}

bool several_at_once(const Kernel& kernel) {
  std::string why;
  const auto written = [](const KernelArg& arg) { return arg.written; };
  if (!kernel.contraction || takes_trap(kernel) || std::count_if(kernel.args.begin(), kernel.args.end(), written) != 1)
    return false;
  const auto product = find_product(kernel, why);
  return product && std::any_of(std::begin(implementations), std::end(implementations),
                                [&](const Implementation& i) { return i.declines(kernel, *product).empty(); });
}

Made make_kernel(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead, int copies) {
  return std::move(make_ways(kernel, features, ahead, copies, 1)[0]);
}

std::vector<Made> make_ways(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead, int copies,
                            size_t most) {
  std::string declined;
  if (!kernel.contraction) {
    const OwnText* own = find_own_text(kernel, declined);
    Made made = own ? own->make(kernel) : make_rows(kernel, ahead);
    if (own) made.traps = traps_of(kernel);
    if (!declined.empty()) made.how += fmt::format(" ({})", declined);
    return {std::move(made)};
  }
  if (kernel.contraction->kind == ContractionKind::attention)
    if (const auto attention = attention::find_attention(kernel, declined)) {
      Made made = attention::make_attention(kernel, *attention, attention::choose_attention(*attention, features));
      made.symbol = kernel_name(kernel);
      made.traps = traps_of(kernel);
      return {std::move(made)};
    }
  std::vector<Made> ways;
  if (auto product = find_product(kernel, declined)) {
    for (Operand* o : {&product->a, &product->b}) o->ahead = ahead[static_cast<size_t>(o->arg)];
    product->copies = copies;
    for (const Implementation& i : implementations) {
      const std::string why = i.declines(kernel, *product);
      if (!why.empty()) {
        declined += fmt::format("{}{}: {}", declined.empty() ? "" : "; ", i.name, why);
        continue;
      }
      for (Made& made : i.make(kernel, *product, features, most - ways.size())) {
        made.symbol = function_name(kernel, *product);
        made.traps = traps_of(kernel);
        if (!declined.empty()) made.how += fmt::format(" ({})", declined);
        ways.push_back(std::move(made));
      }
      if (ways.size() == most) break;
    }
  }
  if (!ways.empty()) return ways;
  ways.push_back(make_rows(kernel, ahead));
  ways[0].how += fmt::format(" ({})", declined);
  return ways;
}

}  // namespace npusim::cuda::codegen::choose
