// Segments and transfers of a program, as text, as JSON and as the plan that made them.
#include "program/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "npusim/message.h"
#include "program/work.h"

namespace npusim {
namespace {

using Json = nlohmann::ordered_json;

const TargetConfig& config_of(const Program& program, int32_t device) {
  return program.devices[static_cast<size_t>(device)].config;
}

const std::string& target_of(const Program& program, int32_t device) {
  return program.devices[static_cast<size_t>(device)].target;
}

Crossing crossing_of(const Program& program, const Step& step, size_t position) {
  const Buffer& from = program.buffers[static_cast<size_t>(step.buffers[0])];
  const TargetConfig &a = config_of(program, from.device), &b = config_of(program, step.device);
  // A buffer's name is that of the first of the values that it holds one after another.
  const std::string& value =
      step.origins.empty() ? from.name : program.origins[static_cast<size_t>(step.origins.back())].node;
  Crossing crossing{position, value, from.device, step.device, stored_bytes(from), 0};
  crossing.seconds = 1e-6 * static_cast<double>(std::max(a.machine.link_us, b.machine.link_us)) +
                     1e-9 * static_cast<double>(crossing.bytes) /
                         static_cast<double>(std::min(a.machine.link_gb_s, b.machine.link_gb_s));
  return crossing;
}

struct Sums {
  size_t transfers = 0;
  uint64_t bytes = 0;
  double seconds = 0;
};

Sums sums_of(const std::vector<DeviceSegment>& segments) {
  Sums sums;
  for (const DeviceSegment& segment : segments) {
    sums.seconds += segment.seconds;
    for (const Crossing& crossing : segment.before) {
      ++sums.transfers;
      sums.bytes += crossing.bytes;
      sums.seconds += crossing.seconds;
    }
  }
  return sums;
}

// For people: its target, and its part where both have one target.
std::string lane_of(const Program& program, int32_t device) {
  const std::string& name = target_of(program, device);
  const auto same = [&](const ProgramDevice& other) { return other.target == name; };
  if (std::count_if(program.devices.begin(), program.devices.end(), same) < 2) return name;
  return name + (device == 0 ? " (target)" : " (fallback)");
}

std::string mb(uint64_t bytes) { return fmt::format("{:.3g}", static_cast<double>(bytes) / 1e6); }

// "aten.add.Tensor 3, aten.relu.default", the most frequent first.
std::string ops_of(const Program& program, const std::vector<int32_t>& origins, size_t shown) {
  std::map<std::string, int> counts;
  for (const int32_t origin : origins) ++counts[program.origins[static_cast<size_t>(origin)].op];
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [op, count] : counts) order.emplace_back(-count, op);
  std::sort(order.begin(), order.end());
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), shown); ++i)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", order[i].second,
                        order[i].first < -1 ? fmt::format(" x{}", -order[i].first) : "");
  return text + (order.size() > shown ? ", …" : "");
}

std::string times(size_t count) { return count > 1 ? fmt::format(" x{}", count) : std::string(); }

std::string first_of(const std::vector<std::string>& names) {
  const std::span shown = std::span(names).first(std::min<size_t>(names.size(), 6));
  return printable(fmt::format("{}{}", fmt::join(shown, ", "), names.size() > shown.size() ? ", …" : ""));
}

std::string reasons_text(const Program& program) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> nodes;  // by operator and reason
  for (const Origin& origin : program.origins)
    if (!origin.reason.empty()) nodes[{origin.op, origin.reason}].push_back(origin.node);
  std::string text;
  for (const auto& [key, names] : nodes)
    text += fmt::format("  {}{}: {}\n    {}\n", printable(key.first), times(names.size()), printable(key.second),
                        first_of(names));
  return text.empty() ? "" : "\nnot on the first device, because\n" + text;
}

// The nodes that a plugin does, by operator.
std::map<std::string, std::vector<std::string>> calls_of(const Program& program, const Sequence& sequence) {
  std::map<std::string, std::vector<std::string>> nodes;
  for (const Step& step : sequence.steps) {
    if (step.is_transfer()) continue;
    const auto& call = program.kernels[static_cast<size_t>(step.kernel)].call;
    if (call) nodes[call->op].push_back(step_name(program, step));
  }
  return nodes;
}

std::string calls_text(const Program& program) {
  std::map<std::string, std::vector<std::string>> nodes = calls_of(program, program.recipes);
  for (const Method& method : program.methods)
    for (auto& [op, names] : calls_of(program, method)) nodes[op].insert(nodes[op].end(), names.begin(), names.end());
  std::string text;
  for (const auto& [op, names] : nodes)
    text += fmt::format("  {}{}\n    {}\n", printable(op), times(names.size()), first_of(names));
  return text.empty() ? "" : "\nwithout a kernel, run by the ATen plugin\n" + text;
}

std::string method_text(const Program& program, KernelWorks& works, const Method& method) {
  const std::vector<DeviceSegment> segments = segments_of(program, works, method);
  const Sums sums = sums_of(segments);
  std::string text = fmt::format("{}: {} segment{}, {} transfer{} of {} MB, about {:.3g} ms\n", printable(method.name),
                                 segments.size(), segments.size() == 1 ? "" : "s", sums.transfers,
                                 sums.transfers == 1 ? "" : "s", mb(sums.bytes), sums.seconds * 1e3);
  size_t width = std::string_view("device").size();
  for (const DeviceSegment& s : segments) width = std::max(width, lane_of(program, s.device).size());
  text += fmt::format("   #  {:<{}}  nodes  steps   GFLOP      MB       ms  transferred before, then done\n", "device",
                      width);
  for (size_t i = 0; i < segments.size(); ++i) {
    const DeviceSegment& s = segments[i];
    uint64_t bytes = 0;
    std::string values;
    for (const Crossing& crossing : s.before) {
      bytes += crossing.bytes;
      if (&crossing - s.before.data() < 3) values += (values.empty() ? "" : ", ") + printable(crossing.value);
    }
    if (s.before.size() > 3) values += ", …";
    if (!values.empty()) values = fmt::format("[{}: {} MB] ", values, mb(bytes));
    text += fmt::format("{:>4}  {:<{}} {:>6} {:>6} {:>7.3g} {:>7} {:>8.3g}  {}{}\n", i, lane_of(program, s.device),
                        width, s.origins.size(), s.steps, static_cast<double>(s.flops) / 1e9, mb(s.bytes),
                        s.seconds * 1e3, values, ops_of(program, s.origins, 3));
  }
  return text;
}

Json method_json(const Program& program, KernelWorks& works, const Method& method) {
  const std::vector<DeviceSegment> segments = segments_of(program, works, method);
  const Sums sums = sums_of(segments);
  Json json = {{"segments", Json::array()},
               {"transfers", sums.transfers},
               {"transfer_bytes", sums.bytes},
               {"seconds", sums.seconds}};
  for (const DeviceSegment& s : segments) {
    Json nodes = Json::array(), before = Json::array();
    for (const int32_t origin : s.origins) nodes.push_back(program.origins[static_cast<size_t>(origin)].node);
    for (const Crossing& c : s.before)
      before.push_back({{"step", c.step},
                        {"value", c.value},
                        {"from", target_of(program, c.from)},
                        {"to", target_of(program, c.to)},
                        {"bytes", c.bytes},
                        {"seconds", c.seconds}});
    json["segments"].push_back({{"device", s.device},
                                {"target", target_of(program, s.device)},
                                {"steps", s.steps},
                                {"flops", s.flops},
                                {"bytes", s.bytes},
                                {"seconds", s.seconds},
                                {"transfers", std::move(before)},
                                {"nodes", std::move(nodes)}});
  }
  return json;
}

// The origins of each method, in their order.
template <typename Visit>
void each_reason(const Program& program, Visit&& visit) {
  size_t first = 0;
  for (const Method& method : program.methods) {
    for (size_t i = first; i < first + static_cast<size_t>(method.nodes); ++i)
      if (!program.origins[i].reason.empty()) visit(method, program.origins[i]);
    first += static_cast<size_t>(method.nodes);
  }
}

}  // namespace

std::vector<DeviceSegment> segments_of(const Program& program, KernelWorks& works, const Method& method) {
  std::vector<DeviceSegment> segments;
  std::vector<Crossing> waiting;
  for (size_t s = 0; s < method.steps.size(); ++s) {
    const Step& step = method.steps[s];
    if (step.is_transfer()) {
      waiting.push_back(crossing_of(program, step, s));
      continue;
    }
    if (segments.empty() || segments.back().device != step.device || !waiting.empty()) {
      segments.emplace_back().device = step.device;
      segments.back().before = std::exchange(waiting, {});
    }
    DeviceSegment& segment = segments.back();
    ++segment.steps;
    segment.origins.insert(segment.origins.end(), step.origins.begin(), step.origins.end());
    const Work& work = works.of(step);
    const uint64_t bytes = work.read_bytes + work.written_bytes;
    segment.flops += work.flops;
    segment.bytes += bytes;
    segment.seconds += step.estimate.seconds;
  }
  for (DeviceSegment& segment : segments) {
    std::sort(segment.origins.begin(), segment.origins.end());
    segment.origins.erase(std::unique(segment.origins.begin(), segment.origins.end()), segment.origins.end());
  }
  return segments;
}

std::string describe_partition(const Program& program, bool json) {
  KernelWorks works(program);
  if (!json) {
    std::string text;
    for (const Method& method : program.methods)
      text += (text.empty() ? "" : "\n") + method_text(program, works, method);
    return printable_lines(text + reasons_text(program) + calls_text(program));
  }
  Json report = {{"devices", Json::array()}, {"methods", Json::object()}};
  for (const ProgramDevice& device : program.devices) report["devices"].push_back(device.target);
  for (const Method& method : program.methods) {
    report["methods"][method.name] = method_json(program, works, method);
    report["methods"][method.name]["reasons"] = Json::array();
    report["methods"][method.name]["calls"] = calls_of(program, method);
  }
  each_reason(program, [&](const Method& method, const Origin& origin) {
    report["methods"][method.name]["reasons"].push_back(
        {{"node", origin.node}, {"op", origin.op}, {"reason", origin.reason}});
  });
  return json_text(report, 2) + "\n";
}

void save_text(const std::string& text, const std::string& path) { write_file(path, text); }

std::string partition_plan(const Program& program) {
  Json plan = {{"methods", Json::object()}};
  for (const Method& method : program.methods) plan["methods"][method.name] = {{"cpu", Json::object()}};
  each_reason(program, [&](const Method& method, const Origin& origin) {
    plan["methods"][method.name]["cpu"][origin.node] = origin.reason;
  });
  return json_text(plan, 2) + "\n";
}

}  // namespace npusim
