// npusim_random: random programs through the compiler and the CPU, compared with eager execution.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "graph/text.h"
#include "random/generate.h"
#include "random/isolate.h"
#include "random/run.h"
#include "random/shrink.h"
// The targets must be chosen before Highway is read.
// clang-format off
#include "backends/cpu/vector_targets.h"
#include <hwy/highway.h>
// clang-format on

namespace npusim::test {
namespace {

struct Flags {
  uint64_t seed = 1, values = 0;
  int64_t count = 1000;
  int threads = 0, tries = 400, most_failures = 20;
  double most_blurred = 10;
  std::vector<std::string> off, disabled;
  std::string graph, dtype = "float32", instructions;
  uint64_t away = 0;
  bool strict = false, shrink = false, json = false, print = false, quiet = false, list = false;
};

struct Found {
  uint64_t seed = 0;
  Outcome outcome;
};

struct Summary {
  std::map<std::string, int64_t> results, refusals, unspecified;
  int64_t elements = 0, skipped = 0, loose = 0;
  std::vector<Found> failures;
  double seconds = 0;
  int64_t count(Result result) const {
    const auto at = results.find(std::string(result_name(result)));
    return at == results.end() ? 0 : at->second;
  }
};

// The message without the name of the node, which comes first, and without numbers: refusals by reason.
std::string reason_of(const std::string& what) {
  std::string text = what.substr(0, what.find('\n'));
  if (const size_t colon = text.find(": "); text.starts_with("node ") && colon != std::string::npos)
    text = text.substr(colon + 2);
  if (text.size() > 110) text.resize(110);
  for (char& c : text)
    if (c >= '0' && c <= '9') c = '#';
  return text;
}

Case case_of(const Flags& flags, uint64_t seed) {
  if (flags.graph.empty())
    return {generate(seed, {flags.off.begin(), flags.off.end()}), seed, ways_for(seed, flags.threads)};
  Way way;
  way.dtype = *parse_dtype(flags.dtype);
  way.strict = flags.strict;
  way.away = flags.away;
  way.disabled = {flags.disabled.begin(), flags.disabled.end()};
  way.threads = std::max(1, flags.threads);
  for (const int64_t set : instruction_sets())
    if (hwy::TargetName(set) == flags.instructions) way.instructions = set;
  if (!flags.instructions.empty() && !way.instructions)
    fail(ErrorKind::usage, "--instructions {}: not on this machine", flags.instructions);
  return {parse_graph(read_file(flags.graph)), seed, {way}};
}

void show_progress(const Flags& flags, const Summary& summary, int64_t done) {
  if (flags.quiet || !isatty(STDERR_FILENO)) return;
  fmt::print(stderr, "\r{} of {}, {} failed ", done, flags.count, summary.failures.size());
  std::fflush(stderr);
}

void add_outcome(Summary& summary, uint64_t seed, Outcome outcome) {
  ++summary.results[std::string(result_name(outcome.result))];
  summary.elements += outcome.elements;
  summary.skipped += outcome.skipped;
  summary.loose += outcome.loose;
  if (outcome.result == Result::refused) ++summary.refusals[reason_of(outcome.what)];
  if (is_failure(outcome.result)) summary.failures.push_back({seed, std::move(outcome)});
}

nlohmann::json to_json(uint64_t seed, const Outcome& outcome, size_t way) {
  return {{"seed", seed},
          {"result", static_cast<int>(outcome.result)},
          {"what", outcome.what},
          {"way", way},
          {"elements", outcome.elements},
          {"skipped", outcome.skipped},
          {"loose", outcome.loose}};
}

// Children run the seeds one after another; one that dies is followed by another, which begins behind the seed it had.
Summary run_seeds(const Flags& flags) {
  constexpr int patience = 60;  // seconds for one program
  Summary summary;
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t end = flags.seed + static_cast<uint64_t>(flags.count);
  for (uint64_t next = flags.seed; next < end && static_cast<int>(summary.failures.size()) < flags.most_failures;) {
    const size_t known = summary.failures.size();
    const std::string ended = in_child(
        patience,
        [&](const auto& send) {
          size_t failures = known;
          for (uint64_t seed = next; seed < end && static_cast<int>(failures) < flags.most_failures; ++seed) {
            const Case one = case_of(flags, seed);
            const Outcome outcome = check_graph_runs(one.graph, one.values, one.ways);
            size_t way = 0;
            while (way + 1 < one.ways.size() && to_string(one.ways[way]) != to_string(outcome.way)) ++way;
            failures += is_failure(outcome.result);
            send(to_json(seed, outcome, way).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
          }
        },
        [&](const std::string& text) {
          const auto json = nlohmann::json::parse(text);
          Outcome outcome;
          outcome.result = static_cast<Result>(json["result"].get<int>());
          outcome.what = json["what"];
          outcome.elements = json["elements"];
          outcome.skipped = json["skipped"];
          outcome.loose = json["loose"];
          const uint64_t seed = json["seed"];
          if (is_failure(outcome.result)) outcome.way = case_of(flags, seed).ways[json["way"].get<size_t>()];
          add_outcome(summary, seed, outcome);
          next = seed + 1;
          show_progress(flags, summary, static_cast<int64_t>(next - flags.seed));
        });
    if (ended.empty()) break;
    Outcome crash;
    crash.result = Result::crashed;
    crash.what = ended;
    // Which way it was is found by running them one by one.
    Case one = case_of(flags, next);
    for (const Way& way : one.ways) {
      crash.way = way;
      if (check_case({one.graph, one.values, {way}}).result == Result::crashed) break;
    }
    add_outcome(summary, next++, crash);
  }
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!flags.quiet && isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  return summary;
}

std::string failure_text(const Flags& flags, const Found& found) {
  Case one = case_of(flags, found.seed);
  Outcome outcome = found.outcome;
  if (flags.shrink) {
    one = shrink(std::move(one), outcome, flags.tries);
    outcome = check_case(one);
    outcome.way = one.ways[0];
  }
  return fmt::format("seed {}: {}: {}\n  {}\n{}", found.seed, result_name(outcome.result), outcome.what,
                     to_string(outcome.way), flags.shrink || flags.print ? to_text(one.graph) : "");
}

double blurred_percent(const Summary& summary) {
  const int64_t ran = summary.count(Result::passed) + summary.count(Result::blurred);
  return ran ? 100.0 * static_cast<double>(summary.count(Result::blurred)) / static_cast<double>(ran) : 0;
}

void report(const Flags& flags, const Summary& summary) {
  const double blurred = blurred_percent(summary);
  if (flags.json) {
    nlohmann::json failures = nlohmann::json::array();
    for (const Found& f : summary.failures)
      failures.push_back({{"seed", f.seed},
                          {"result", result_name(f.outcome.result)},
                          {"what", f.outcome.what},
                          {"way", to_string(f.outcome.way)}});
    const nlohmann::json json{{"results", summary.results},   {"refusals", summary.refusals},
                              {"elements", summary.elements}, {"skipped", summary.skipped},
                              {"loose", summary.loose},       {"blurred_percent", blurred},
                              {"seconds", summary.seconds},   {"failures", failures}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const auto& [reason, count] : summary.refusals) fmt::print("refused {:5}  {}\n", count, reason);
  std::string line;
  for (const auto& [name, count] : summary.results)
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, name);
  fmt::print("{}; {} elements, {} unstable, {} loose; {:.1f} % of programs blurred; {:.1f} s\n", line, summary.elements,
             summary.skipped, summary.loose, blurred, summary.seconds);
}

int run(const Flags& flags) {
  const std::vector<std::string> features = feature_names();
  for (const std::string& name : flags.off)
    if (std::find(features.begin(), features.end(), name) == features.end())
      fail(ErrorKind::usage, "--without {}: expected one of {}", name, fmt::join(features, ", "));
  if (!parse_dtype(flags.dtype)) fail(ErrorKind::usage, "--dtype {}: no such dtype", flags.dtype);
  for (uint64_t seed = flags.seed; flags.list && seed < flags.seed + static_cast<uint64_t>(flags.count); ++seed) {
    const Case one = case_of(flags, seed);
    for (const Way& way : one.ways) fmt::print("# {}\n", to_string(way));
    fmt::print("{}\n", to_text(one.graph));
  }
  if (flags.list) return 0;
  const Summary summary = run_seeds(flags);
  for (const Found& found : summary.failures) fmt::print(stderr, "{}\n", failure_text(flags, found));
  report(flags, summary);
  const bool blurred = flags.graph.empty() && blurred_percent(summary) > flags.most_blurred;
  if (blurred) fmt::print(stderr, "error: more than {} % of the programs are blurred\n", flags.most_blurred);
  return summary.failures.empty() && !blurred ? 0 : 1;
}

}  // namespace
}  // namespace npusim::test

int main(int argc, char** argv) {
  // Threads that wait must not spin: most of these programs take less than a spin does. OpenMP reads this when it is
  // loaded.
  if (!std::getenv("OMP_WAIT_POLICY")) {
    setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
    execv("/proc/self/exe", argv);
  }
  npusim::test::Flags flags;
  CLI::App app("Random programs: compiled, run on the CPU, compared with eager execution.");
  app.add_option("--seed", flags.seed, "the first program's; with --graph that of the values");
  app.add_option("--count", flags.count, "how many programs, each with the next seed");
  app.add_option("--threads", flags.threads, "of the CPU; default: 1 or 2 by the seed");
  app.add_option("--without", flags.off, "features to leave out")->delimiter(',');
  app.add_flag("--shrink", flags.shrink, "print each failure as the smallest program that fails the same way");
  app.add_option("--tries", flags.tries, "programs that shrinking may try for each");
  app.add_flag("--print", flags.print, "print the programs that fail");
  app.add_flag("--list", flags.list, "print the programs and run none");
  app.add_option("--failures", flags.most_failures, "stop after this many");
  app.add_option("--blurred", flags.most_blurred, "percentage of programs that may say nothing");
  app.add_flag("--json", flags.json, "the summary as JSON");
  app.add_flag("--quiet", flags.quiet, "no progress");
  app.add_option("--graph", flags.graph, "run this graph's text instead, once for each seed of its values");
  app.add_option("--dtype", flags.dtype, "of --graph");
  app.add_flag("--strict", flags.strict, "of --graph");
  app.add_option("--away", flags.away, "of --graph: the seed that says which nodes a second device does");
  app.add_option("--disable-fusion", flags.disabled, "of --graph")->delimiter(',');
  app.add_option("--instructions", flags.instructions, "of --graph: AVX3, AVX2, SSE4");
  CLI11_PARSE(app, argc, argv);
  if (!flags.graph.empty() && app.count("--count") == 0) flags.count = 1;
  try {
    return npusim::test::run(flags);
  } catch (const npusim::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
