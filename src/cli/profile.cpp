// npusim profile: where a method's time goes, by step, by operator and by layer.
#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/fail.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  SessionFlags session;
  InputFlags inputs;
  std::string method, trace, html;
  double seconds = 2;
  int64_t top = 15;
  bool json = false;
};

// "aten.conv2d.default" and "aten.relu.default" -> "conv2d+relu".
std::string operators_of(const StepOverview& step) {
  std::string text;
  std::vector<std::string> seen;
  for (std::string op : step.operators) {
    if (op.starts_with("aten.")) op.erase(0, 5);
    op.resize(std::min(op.size(), op.find('.')));
    if (std::find(seen.begin(), seen.end(), op) != seen.end()) continue;
    text += (seen.empty() ? "" : "+") + op;
    seen.push_back(op);
  }
  if (step.kernel == "transfer") return "transfer";
  return text.empty() ? step.kernel : text;
}

// What a weight belongs to: its name up to the last number, or without its last word. "layer1.0.conv1.weight" ->
// "layer1.0", "fc.weight" -> "fc".
std::string layer_of(const std::string& weight) {
  size_t end = weight.rfind('.');
  for (size_t at = 0; at < weight.size();) {
    const size_t dot = std::min(weight.find('.', at), weight.size());
    if (dot > at &&
        std::all_of(weight.begin() + static_cast<ptrdiff_t>(at), weight.begin() + static_cast<ptrdiff_t>(dot),
                    [](char c) { return c >= '0' && c <= '9'; }))
      end = dot;
    at = dot + 1;
  }
  return weight.substr(0, end);
}

}  // namespace

double bytes_of(const StepOverview& step) {
  return static_cast<double>(step.work.read_bytes + step.work.written_bytes);
}

std::vector<std::string> layer_names(const Profile& p) {
  std::vector<std::string> layers;
  std::string layer = "(before)";
  for (const StepOverview& step : p.steps) {
    if (!step.weights.empty()) layer = layer_of(step.weights.front());
    layers.push_back(layer);
  }
  return layers;
}

std::vector<Share> shares_of(const Profile& p, const std::vector<std::string>& names, bool sorted) {
  std::vector<Share> shares;
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const auto [known, fresh] = position.try_emplace(names[i], shares.size());
    if (fresh) shares.push_back({names[i]});
    Share& share = shares[known->second];
    ++share.steps;
    share.ms += p.times[i].min_ms;
    share.bytes += bytes_of(p.steps[i]);
    share.flops += static_cast<double>(p.steps[i].work.flops);
  }
  if (sorted)
    std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.ms > b.ms; });
  return shares;
}

std::vector<std::string> operator_names(const Profile& p) {
  std::vector<std::string> names;
  for (const StepOverview& step : p.steps) names.push_back(operators_of(step));
  return names;
}

namespace {

std::string rates_text(double ms, double bytes, double flops, const DeviceLimits& limits) {
  const double read = ms > 0 ? bytes / ms / 1e6 : 0, computed = ms > 0 ? flops / ms / 1e6 : 0;
  std::string text = fmt::format("{:>8.2f} GB/s{}", read, share_text(read, limits.read_gb_s));
  if (flops > 0) text += fmt::format(" {:>9.1f} GFLOP/s{}", computed, share_text(computed, limits.gflop_s));
  return text;
}

std::string shares_text(const Profile& p, std::string_view title, const std::vector<Share>& shares, size_t top) {
  std::string text = fmt::format("\nby {}\n", title);
  for (size_t i = 0; i < std::min(top, shares.size()); ++i) {
    const Share& s = shares[i];
    text += fmt::format("{:>9.4f} ms {:>5.1f} % {:>5} step{}  {:<36.36} {}\n", s.ms, 100 * s.ms / p.sum_ms, s.steps,
                        s.steps == 1 ? " " : "s", printable(s.name),
                        rates_text(s.ms, s.bytes, s.flops, p.limits.size() == 1 ? p.limits[0] : DeviceLimits{}));
  }
  if (shares.size() > top) text += fmt::format("          … and {} more\n", shares.size() - top);
  return text;
}

std::string report_text(const Profile& p, size_t top) {
  std::string text = fmt::format("{}: median {:.3f} ms (min {:.3f}); {} steps, each alone at its fastest: {:.3f} ms\n",
                                 p.method, p.whole.median_ms, p.whole.min_ms, p.steps.size(), p.sum_ms);
  text += shares_text(p, "operators", shares_of(p, operator_names(p), true), top);
  text += shares_text(p, "layer", shares_of(p, layer_names(p), false), top);
  std::vector<size_t> order;
  for (size_t i = 0; i < p.steps.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p.times[a].min_ms > p.times[b].min_ms; });
  text += "\nby step\n";
  for (size_t i = 0; i < std::min(top, order.size()); ++i) {
    const StepOverview& step = p.steps[order[i]];
    const StepTime& time = p.times[order[i]];
    text += fmt::format("{:>9.4f} ms {:>5.1f} %  {:>4} {:<36.36} {}  {}{}\n", time.min_ms, 100 * time.min_ms / p.sum_ms,
                        order[i], printable(time.node),
                        rates_text(time.min_ms, bytes_of(step), static_cast<double>(step.work.flops),
                                   p.limits[static_cast<size_t>(step.device)]),
                        p.targets.size() > 1 ? p.targets[static_cast<size_t>(step.device)] + ": " : "", time.info.how);
  }
  return text;
}

Json shares_json(const std::vector<Share>& shares) {
  Json list = Json::array();
  for (const Share& s : shares)
    list.push_back({{"name", s.name}, {"steps", s.steps}, {"ms", s.ms}, {"bytes", s.bytes}, {"flops", s.flops}});
  return list;
}

Json report_json(const Profile& p) {
  Json steps = Json::array();
  const std::vector<std::string> layers = layer_names(p);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const StepOverview& step = p.steps[i];
    steps.push_back({{"step", i},
                     {"kernel", step.kernel},
                     {"target", p.targets[static_cast<size_t>(step.device)]},
                     {"how", p.times[i].info.how},
                     {"min_ms", p.times[i].min_ms},
                     {"bytes", step.work.read_bytes + step.work.written_bytes},
                     {"flops", step.work.flops},
                     {"layer", layers[i]},
                     {"nodes", step.nodes},
                     {"operators", step.operators}});
  }
  Json limits = Json::array();
  for (size_t d = 0; d < p.limits.size(); ++d)
    limits.push_back(
        {{"target", p.targets[d]}, {"read_gb_s", p.limits[d].read_gb_s}, {"gflop_s", p.limits[d].gflop_s}});
  return {{"method", p.method},
          {"limits", std::move(limits)},
          {"median_ms", p.whole.median_ms},
          {"min_ms", p.whole.min_ms},
          {"steps_ms", p.sum_ms},
          {"operators", shares_json(shares_of(p, operator_names(p), true))},
          {"layers", shares_json(shares_of(p, layers, false))},
          {"steps", std::move(steps)}};
}

// Chrome's trace format (chrome://tracing, Perfetto): the steps one after another, a row for each device.
std::string trace_json(const Profile& p) {
  Json events = Json::array();
  for (size_t d = 0; d < p.targets.size(); ++d)
    events.push_back(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", d}, {"args", {{"name", p.targets[d]}}}});
  double at = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const StepOverview& step = p.steps[i];
    const double us = p.times[i].min_ms * 1e3;
    events.push_back({{"name", p.times[i].node},
                      {"cat", step.kernel == "transfer" ? "transfer" : "kernel"},
                      {"ph", "X"},
                      {"ts", at},
                      {"dur", us},
                      {"pid", 1},
                      {"tid", step.device},
                      {"args",
                       {{"kernel", step.kernel},
                        {"how", p.times[i].info.how},
                        {"nodes", step.nodes},
                        {"bytes", step.work.read_bytes + step.work.written_bytes},
                        {"flops", step.work.flops}}}});
    at += us;
  }
  return json_report({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}});
}

int run(const Flags& flags) {
  const bool reports = flags.trace != "-" && flags.html != "-";
  if (flags.json && !reports)
    fail(ErrorKind::usage, "--{} - leaves no standard output for --json", flags.trace == "-" ? "trace" : "html");
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  Profile p;
  p.method = choose_method(*program, flags.method);
  p.model = program_info(*program).model;
  p.targets = program_info(*program).targets;
  const std::vector<TensorInfo> infos = method_inputs(*program, p.method);
  const std::shared_ptr<const TensorSet> weights = open_session_weights(flags.session);
  const std::vector<HostTensor> inputs = inputs_or_random(flags.inputs, infos, weights.get());
  Session session = load_session(program, flags.session, weights);
  p.steps = method_steps(session.program(), p.method);
  const size_t position = session.method(p.method);
  write_inputs(session, position, inputs);
  const Rewind rewind = rewind_of(session, position, infos, inputs);
  {
    Progress progress;
    progress.stage("measure runs");
    p.whole = summarize(measure_runs(session, position, flags.seconds / 2, rewind));
    progress.stage("measure steps");
    p.times = measure_steps(session, position, flags.seconds / 2, rewind);
    progress.stage("measure devices");
    for (size_t d = 0; d < p.targets.size(); ++d) p.limits.push_back(limits_of(session, d));
  }
  for (const StepTime& time : p.times) p.sum_ms += time.min_ms;
  std::vector<NewFile> files;
  if (!flags.trace.empty()) files.push_back({flags.trace, trace_json(p)});
  if (!flags.html.empty()) files.push_back({flags.html, profile_page(p)});
  save_files(files);
  if (!reports) return 0;
  print_report(flags.json ? json_report(report_json(p)) : report_text(p, static_cast<size_t>(flags.top)));
  return 0;
}

}  // namespace

Action add_profile(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_session_flags(verb, flags->session);
  add_method_flag(verb, flags->method);
  add_input_flags(verb, flags->inputs);
  add_seconds_flag(verb, flags->seconds);
  add_integer(verb, "--top", flags->top, 0, most_listed, "N", "the longest lists of the text")->default_str("15");
  add_output(verb, "--trace", flags->trace, "OUT.json", "the steps in Chrome's trace format");
  add_output(verb, "--html", flags->html, "OUT.html", "all of it as one page for a browser");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
