// Which products of a chain are multiplied together, and their call.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/product_text.h"
#include "backends/cuda/codegen/stream/text_printer.h"
#include "base/hash.h"
#include "print/point.h"

namespace npusim::cuda::codegen::stream {

// How many lines of products the block has, of some of the stages that are printed next.
Term StreamPrinter::lines_of(std::span<const StreamStage> chain, std::span<const StreamStage> run) {
  int at = row_;
  std::vector<Term> all;
  for (const StreamStage& stage : chain) {
    if (&stage >= run.data() && &stage < run.data() + run.size()) {
      const int args = static_cast<int>(plan_.kernels[stage.step].args.size());
      all.push_back(term("{0}.y - {0}.x", numbers(at + args + 1)));
    }
    at += entries_of(stage);
  }
  return sum_of(all);
}

void StreamPrinter::print_products(std::span<const StreamStage> run, Lines& c, std::string& to_publish) {
  const std::string name = products(run);
  if (!begun_) c.add(fmt::format("{}_begin(ring, words, {});", name, lines_of(run, run).text));
  begun_ = false;
  c.open("");
  const bool traps = takes_trap(plan_.kernels[run[0].step]);  // then it is alone
  if (traps) c.add("int raised = 0;");
  const int first = row_;
  std::vector<std::string> given;
  for (const StreamStage& stage : run) {
    given.push_back(arguments(stage));
    row_ += 2 + static_cast<int>(plan_.kernels[stage.step].args.size());
    given.back() += ", " + numbers(row_ - 1).text;
    if (const auto made = published(stage)) row_ += published_entries, publish(stage, *made, c, to_publish);
  }
  c.add(fmt::format("{}_stream(ring, words, own, (float*)scratch, half, {});", name, fmt::join(given, ", ")));
  if (traps) c.add(fmt::format("if (raised) *trap = (int)(long long)row[{}] + raised;", first));
  c.close();
}

// The first products of a chain that are multiplied together.
std::span<const StreamStage> StreamPrinter::first_products(std::span<const StreamStage> chain,
                                                           std::span<const char> meets) const {
  size_t n = 0;
  while (n < chain.size() && chain[n].kind != Kind::product) ++n;
  size_t end = std::min(n + 1, chain.size());
  while (end < chain.size() && !meets[end] && goes_with(chain.subspan(n, end - n), chain[end])) ++end;
  return chain.subspan(n, end - n);
}

// Whether a product can be multiplied with those before it, which multiply the same rows: none reads what another one
// of them makes, which threads leave in no order.
bool StreamPrinter::goes_with(std::span<const StreamStage> run, const StreamStage& next) const {
  if (next.kind != Kind::product || run.size() == 4) return false;
  const facts::StreamProduct &one = *plan_.products[run[0].step], &other = *plan_.products[next.step];
  const std::vector<int32_t>& values = m_.steps[next.step].values;
  const auto x = [&](const StreamStage& of) {
    return m_.steps[of.step].values[static_cast<size_t>(plan_.products[of.step]->x)];
  };
  if (x(run[0]) != x(next) || one.x_offset != other.x_offset || one.rows.size() != other.rows.size() ||
      one.depth.size() != other.depth.size() || one.dtype != other.dtype || takes_trap(plan_.kernels[next.step]))
    return false;
  return std::none_of(run.begin(), run.end(), [&](const StreamStage& s) {
    const Kernel& k = plan_.kernels[s.step];
    const std::vector<int32_t>& made = m_.steps[s.step].values;
    for (size_t i = 0; i < made.size(); ++i)
      if (k.args[i].written && std::find(values.begin(), values.end(), made[i]) != values.end()) return true;
    return takes_trap(k);
  });
}

// Products of the same rows.
std::string StreamPrinter::products(std::span<const StreamStage> run) {
  std::vector<NamedProduct> all;
  std::string joined;
  for (const StreamStage& stage : run) {
    const Kernel& k = plan_.kernels[stage.step];
    const facts::StreamProduct& p = *plan_.products[stage.step];
    all.push_back({&k, &p, name_of(stage)});
    joined += (joined.empty() ? "" : " ") + all.back().name;
    if (!parts_.insert(all.back().name).second) continue;
    PointFunction point;
    point.name = all.back().name + "_at";
    point.positions = {{"row", p.rows.dims}, {"line", p.lines.dims}};
    functions_ += print_point(k, d_, point);
  }
  scratch_ = std::max(scratch_, product_scratch());
  const std::string name = run.size() == 1 ? all[0].name : all[0].name + "_" + hash_hex(joined);
  if (parts_.insert(name + "_stream").second) functions_ += stream::print_products(all, name);
  return name;
}

}  // namespace npusim::cuda::codegen::stream
