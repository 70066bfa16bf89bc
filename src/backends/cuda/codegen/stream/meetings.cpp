// What stages do to memory, as far as the threads of a block must know of each other.
#include "backends/cuda/codegen/stream/meetings.h"

#include <algorithm>

#include "print/part.h"

namespace npusim::cuda::codegen::stream {
namespace {

using Kind = StreamStage::Kind;

// Not a value: the block's memory, and the sums of products, which alternate and are the scratch of rows.
constexpr int32_t in_block = -1, sums = -2;

struct Use {
  int32_t location = 0;
  int64_t from = 0, to = 1;  // bytes in the block's memory
  bool written = false;
  std::pair<int64_t, int64_t> lines = {};  // of a product of so many rows and lines: by the thread of each line
};

bool shares_scratch(const StreamPlan& plan, size_t step) {
  const Kernel& k = plan.kernels[step];
  const PartContext context{std::vector<bool>(k.args.size(), false), 0, true};
  return !print_part(k, stream_dialect(), plan.schedules[step], "", context).shared.empty();
}

std::vector<Use> uses_of(const WholeMethod& method, const StreamPlan& plan, const StreamStage& stage) {
  std::vector<Use> uses;
  const Kernel& k = plan.kernels[stage.step];
  const std::vector<int32_t>& values = method.steps[stage.step].values;
  const auto add = [&](int32_t v, const std::map<int32_t, int64_t>& homes, bool written) {
    if (const auto home = homes.find(v); home != homes.end())
      uses.push_back({in_block, home->second, home->second + plan.bytes[static_cast<size_t>(v)], written});
    else
      uses.push_back({v, 0, 1, written});
  };
  const auto add_seen = [&](bool written) {
    const int64_t at = plan.seen.at(stage.step);
    uses.push_back({in_block, at, at + plan.attentions[stage.step]->seen_bytes(), written});
  };
  switch (stage.kind) {
    case Kind::ahead:
      if (stage.inspected) add_seen(false);
      return uses;
    case Kind::exchange:
      for (int32_t v : stage.values) add(v, plan.homes, true);
      return uses;
    case Kind::gather:
      add(stage.values[0], plan.homes, false);
      add(stage.values[0], plan.copies, true);
      return uses;
    case Kind::attention: {
      if (plan.attentions[stage.step]->inspected_chunks > 0) add_seen(false);
      const int64_t at = plan.scratch.at(stage.step);
      uses.push_back({in_block, at, at + plan.attentions[stage.step]->shared_bytes(), true});
      break;
    }
    case Kind::inspect:
      add_seen(true);
      break;
    case Kind::merge:  // reads the parts word by word
      break;
    case Kind::product:
      uses.push_back({sums, 0, 1, false});
      break;
    case Kind::everywhere:
    case Kind::spread:
      if (shares_scratch(plan, stage.step)) uses.push_back({sums, 0, 1, true});
      break;
  }
  for (size_t i = 0; i < k.args.size(); ++i) {
    if ((stage.kind == Kind::attention || stage.kind == Kind::inspect) && k.args[i].written) continue;
    const bool x = stage.kind == Kind::product && static_cast<int>(i) == plan.products[stage.step]->x;
    add(values[i], x && !plan.homes.contains(values[i]) ? plan.copies : plan.homes, k.args[i].written);
    if (stage.kind != Kind::product || x) continue;
    const facts::StreamProduct& p = *plan.products[stage.step];
    uses.back().lines = {p.rows.size(), p.lines.size()};
  }
  return uses;
}

// A thread that reads what it wrote itself need not meet the others.
bool clash(const Use& a, const Use& b) {
  if (a.location != b.location || a.from >= b.to || b.from >= a.to || !(a.written || b.written)) return false;
  const bool own_lines = a.lines.first > 0 && a.lines == b.lines && a.from == b.from && a.to == b.to;
  return !own_lines;
}

}  // namespace

std::vector<char> stream_meetings(const WholeMethod& method, const StreamPlan& plan,
                                  std::span<const StreamStage> chain) {
  std::vector<char> meets;
  std::vector<Use> open;
  for (const StreamStage& stage : chain) {
    const std::vector<Use> mine = uses_of(method, plan, stage);
    const bool meet = std::any_of(mine.begin(), mine.end(), [&](const Use& a) {
      return std::any_of(open.begin(), open.end(), [&](const Use& b) { return clash(a, b); });
    });
    meets.push_back(meet);
    if (meet) open.clear();
    open.insert(open.end(), mine.begin(), mine.end());
  }
  return meets;
}

}  // namespace npusim::cuda::codegen::stream
