// Rounds, in each of which every kernel that still has a candidate left is made by that one.
#include "npusim/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "codegen/target.h"
#include "program/program.h"

namespace npusim {
namespace {

// Launches of the method that are the same but for their arguments.
struct Alike {
  std::vector<size_t> launches;
  std::vector<LaunchCandidate> candidates;  // other than theirs
  double before = 0;                        // milliseconds of all of them
  std::vector<double> ms;                   // likewise, by candidate
};

bool is_made_alike(const Launch& a, const Launch& b) {
  return a.symbol == b.symbol && a.how == b.how && a.code == b.code && a.grid == b.grid;
}

// Everything but what it is done with.
void remake(Launch& launch, const Launch& candidate) {
  launch.symbol = candidate.symbol, launch.how = candidate.how, launch.code = candidate.code;
  launch.grid = candidate.grid, launch.block = candidate.block;
  launch.shared_bytes = candidate.shared_bytes, launch.own_bytes = candidate.own_bytes;
}

std::vector<Alike> find_alike(const Tuner& tuner, const Method& method, size_t candidates) {
  std::vector<Alike> found;
  std::map<std::string, std::vector<size_t>> by_symbol;
  for (size_t i = 0; i < method.launches.size(); ++i) {
    const Launch& launch = method.launches[i];
    std::vector<size_t>& same = by_symbol[launch.symbol];
    const auto known = std::find_if(same.begin(), same.end(), [&](size_t n) {
      return is_made_alike(method.launches[found[n].launches[0]], launch);
    });
    if (known != same.end()) {
      found[*known].launches.push_back(i);
      continue;
    }
    same.push_back(found.size());
    Alike one;
    one.launches = {i}, one.candidates = tuner.candidates(method, launch, candidates);
    std::erase_if(one.candidates, [&](const LaunchCandidate& candidate) { return candidate.launch.how == launch.how; });
    found.push_back(std::move(one));
  }
  std::erase_if(found, [](const Alike& one) { return one.candidates.empty(); });
  return found;
}

double time_of(const Alike& one, const Method& method, const std::vector<double>& ms) {
  double sum = 0;
  for (const size_t launch : one.launches) sum += ms.at(static_cast<size_t>(method.launches[launch].first));
  return sum;
}

// Code that no launch names any more.
void drop_unused_code(Variant& program) {
  std::vector<int32_t> now(program.code.size(), -1);
  const auto of_all = [&](const auto& visit) {
    for (Launch& launch : program.recipes.launches) visit(launch);
    for (Method& method : program.methods)
      for (Launch& launch : method.launches) visit(launch);
  };
  of_all([&](const Launch& launch) { now[static_cast<size_t>(launch.code)] = 0; });
  std::vector<CodeSet> kept;
  for (size_t n = 0; n < now.size(); ++n) {
    if (now[n] < 0) continue;
    now[n] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(program.code[n]));
  }
  of_all([&](Launch& launch) { launch.code = now[static_cast<size_t>(launch.code)]; });
  program.code = std::move(kept);
}

bool is_same_code(const Code& a, const Code& b) {
  return a.format == b.format && a.architecture == b.architecture && a.bytes == b.bytes;
}

// Puts what was made of `taken` in its place.
Program put_back(const Program& program, const Program& taken, const Variant& tuned) {
  Program whole = program;
  const auto is_taken = [&](const Variant& one) {
    const auto is_same = [](const CodeSet& a, const CodeSet& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_code);
    };
    return std::equal(one.code.begin(), one.code.end(), taken.code.begin(), taken.code.end(), is_same);
  };
  const auto variant = std::find_if(whole.variants.begin(), whole.variants.end(), is_taken);
  (variant == whole.variants.end() ? static_cast<Variant&>(whole) : *variant) = tuned;
  return whole;
}

// The n-th other candidate of every kernel in the n-th round; as it is before and behind them, since clocks drift: the
// first figures are not of a device that is as warm as for the others.
void time_candidates(const Tuner& tuner, const std::shared_ptr<const Program>& taken, const Method& method,
                     std::vector<Alike>& alike, const TimeSteps& time,
                     const std::function<void(const std::string&)>& progress) {
  size_t rounds = 0;
  for (const Alike& one : alike) rounds = std::max(rounds, one.candidates.size());
  progress("time it as it is");
  std::vector<double> ms = time(taken);
  for (Alike& one : alike) one.before = time_of(one, method, ms);
  for (size_t round = 0; round < rounds; ++round) {
    progress(fmt::format("compile candidates {} of {}", round + 1, rounds));
    std::vector<LaunchCandidate> candidates;
    for (const Alike& one : alike)
      if (round < one.candidates.size()) candidates.push_back(one.candidates[round]);
    auto trial = std::make_shared<Program>(*taken);
    tuner.compile(*trial, candidates);
    Method& tried = trial->methods[static_cast<size_t>(&method - taken->methods.data())];
    auto candidate = candidates.begin();
    for (const Alike& one : alike) {
      if (round >= one.candidates.size()) continue;
      for (const size_t launch : one.launches) remake(tried.launches[launch], candidate->launch);
      ++candidate;
    }
    progress(fmt::format("time candidates {} of {}", round + 1, rounds));
    ms = time(trial);
    for (Alike& one : alike)
      if (round < one.candidates.size()) one.ms.push_back(time_of(one, method, ms));
  }
  progress("time it as it is");
  ms = time(taken);
  for (Alike& one : alike) one.before = std::min(one.before, time_of(one, method, ms));
}

}  // namespace

Tuning tune(const std::shared_ptr<const Program>& program, const std::shared_ptr<const Program>& taken,
            const TuneOptions& options, const TimeSteps& time) {
  const std::string& name = taken->devices[0].target;
  const CodegenTarget* known = find_target(name);
  const auto tuner = known ? known->tuner(*taken) : nullptr;
  if (!tuner)
    fail(ErrorKind::unsupported, "tune: target {} chooses when a session opens, there is nothing to time ahead", name);
  const Method& method = method_named(*taken, options.method);
  const auto progress = [&](const std::string& stage) {
    if (options.progress) options.progress(stage);
  };
  progress("find candidates");
  std::vector<Alike> alike = find_alike(*tuner, method, options.candidates);
  Tuning result{program, {}};
  if (alike.empty()) return result;
  time_candidates(*tuner, taken, method, alike, time, progress);

  std::vector<LaunchCandidate> chosen;
  // By symbol: what is replaced, and by which of `chosen`.
  std::multimap<std::string, std::pair<const Launch*, size_t>> replaced;
  Program tuned = *taken;
  std::vector<Choice> choices;
  for (const Alike& one : alike) {
    const Launch& launch = method.launches[one.launches[0]];
    const auto fastest = static_cast<size_t>(std::min_element(one.ms.begin(), one.ms.end()) - one.ms.begin());
    TunedKernel& kernel = result.kernels.emplace_back();
    kernel = {launch.symbol, one.launches.size(), {{launch.how, one.before}}, launch.how, launch.how,
              one.before,    one.before};
    for (size_t n = 0; n < one.candidates.size(); ++n)
      kernel.candidates.push_back({one.candidates[n].launch.how, one.ms[n]});
    // What is the whole method was timed as a whole.
    const double least = method.launches.size() == 1 ? options.least / 10 : options.least;
    if (one.ms[fastest] > one.before * (1 - least)) continue;
    kernel.after = one.candidates[fastest].launch.how, kernel.after_ms = one.ms[fastest];
    replaced.emplace(launch.symbol, std::pair{&launch, chosen.size()});
    chosen.push_back(one.candidates[fastest]);
    choices.push_back({launch.symbol, options.device, tuner->compiler(), kernel.after, kernel.before, kernel.after_ms,
                       kernel.before_ms});
  }
  if (chosen.empty()) return result;
  progress("compile what was chosen");
  tuner->compile(tuned, chosen);
  for (Method& each : tuned.methods)
    for (Launch& launch : each.launches) {
      const auto [begin, end] = replaced.equal_range(launch.symbol);
      const auto found =
          std::find_if(begin, end, [&](const auto& entry) { return is_made_alike(launch, *entry.second.first); });
      if (found != end) remake(launch, chosen[found->second.second].launch);
    }
  std::erase_if(tuned.choices, [&](const Choice& c) { return replaced.contains(c.kernel); });
  tuned.choices.insert(tuned.choices.end(), choices.begin(), choices.end());
  std::stable_sort(tuned.choices.begin(), tuned.choices.end(),
                   [](const Choice& a, const Choice& b) { return a.kernel < b.kernel; });
  drop_unused_code(tuned);
  auto whole = std::make_shared<Program>(put_back(*program, *taken, tuned));
  if (const auto problems = check_program(*whole); !problems.empty())
    fail(ErrorKind::internal, "the tuned program is unsound: {}", fmt::join(problems, "; "));
  result.program = std::move(whole);
  return result;
}

}  // namespace npusim
