// What a program does in order: its recipes and each method step by step, with buffers, origins and launches, as text
// for people and as JSON for scripts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json.h"
#include "npusim/message.h"
#include "program/buffer_kind.h"
#include "program/program.h"

namespace npusim {
namespace {

using Json = nlohmann::ordered_json;

// More are those of a whole method, or what a stranger wrote; JSON has them all.
constexpr size_t most_listed = 16, most_letters = 256;

std::string shortened(std::string_view name) {
  return name.size() <= most_letters ? printable(name) : printable(name.substr(0, most_letters)) + "…";
}

// The first of `count` texts, and how many more there are.
template <typename Text>
std::string listed(size_t count, Text text) {
  std::string list;
  for (size_t n = 0; n < std::min(count, most_listed); ++n) list += (n > 0 ? ", " : "") + text(n);
  return count <= most_listed ? list : list + fmt::format(", and {} more", count - most_listed);
}

bool has_offset(const Buffer& b) { return b.kind == BufferKind::arena || b.kind == BufferKind::local; }

class StepsText {
 public:
  explicit StepsText(const Program& program) : p_(program) {
    for (const Buffer& b : program.buffers) ++named_[b.name];
  }

  std::string run() {
    if (!p_.recipes.steps.empty()) sequence("recipes", p_.recipes);
    for (const Method& method : p_.methods)
      sequence(fmt::format("method {}{}", printable(method.name),
                           method.declined.empty() ? "" : "; " + shortened(method.declined)),
               method);
    for (size_t n = 0; n < p_.variants.size(); ++n)
      text_ += fmt::format("\nvariant {}\n\n", n) + StepsText(with_variant(p_, n)).run();
    return std::move(text_);
  }

 private:
  // The second buffer of that name bears its number.
  std::string buffer(int32_t id) const {
    const Buffer& b = p_.buffers[static_cast<size_t>(id)];
    const bool unique = named_.at(b.name) == 1;
    return fmt::format("{}{} ({}{})", shortened(b.name), unique ? "" : fmt::format("#{}", id), kind_name(b.kind),
                       has_offset(b) ? fmt::format(" +{}", b.offset) : "");
  }

  std::string buffers(const Step& step) const {
    std::vector<int32_t> read, written;
    for (size_t i = 0; i < step.buffers.size(); ++i)
      (is_written(p_, step, i) ? written : read).push_back(step.buffers[i]);
    const auto names = [this](const std::vector<int32_t>& ids) {
      return listed(ids.size(), [&](size_t i) { return buffer(ids[i]); });
    };
    return fmt::format("{} -> {}", names(read), names(written));
  }

  std::string origin(int32_t id) const {
    const Origin& o = p_.origins[static_cast<size_t>(id)];
    return fmt::format("{} ({}{})", shortened(o.node), shortened(o.op),
                       o.reason.empty() ? "" : "; " + shortened(o.reason));
  }

  void sequence(const std::string& title, const Sequence& sequence) {
    text_ += fmt::format("{}{}\n", text_.empty() ? "" : "\n", title);
    auto launch = sequence.launches.begin();
    for (size_t s = 0; s < sequence.steps.size(); ++s) {
      if (launch != sequence.launches.end() && static_cast<size_t>(launch->first) == s) launched(*launch++);
      const Step& step = sequence.steps[s];
      const std::string what =
          step.is_transfer() ? "transfer" : shortened(p_.kernels[static_cast<size_t>(step.kernel)].name);
      text_ += fmt::format("{:>4}  {} on {}: {}\n", s, what, device(step.device), buffers(step));
      const auto from = [&](size_t i) { return origin(step.origins[i]); };
      if (!step.origins.empty()) text_ += fmt::format("      from {}\n", listed(step.origins.size(), from));
    }
  }

  void launched(const Launch& launch) {
    const std::string args = listed(launch.args.size(), [&](size_t n) {
      const int32_t arg = launch.args[n];
      return arg == trap_word ? "trap word" : arg == own_memory ? "own memory" : buffer(arg);
    });
    const auto extents = [](const std::array<uint32_t, 3>& e) { return fmt::format("{}", fmt::join(e, "x")); };
    text_ += fmt::format("  launch of {} step{}: {} of code {}, grid {}{}, block {}{}\n      ({})\n", launch.count,
                         launch.count == 1 ? "" : "s", shortened(launch.symbol), launch.code, extents(launch.grid),
                         launch.together ? " together" : "", extents(launch.block),
                         launch.how.empty() ? "" : "\n      as " + shortened(launch.how), args);
    for (const Declined& d : launch.declined)
      text_ += fmt::format("      not as {}: {}\n", shortened(d.implementation), shortened(d.reason));
  }

  std::string device(int32_t number) const {
    const std::string& target = p_.devices[static_cast<size_t>(number)].target;
    return p_.devices.size() == 1 ? target : fmt::format("{}/{}", number, target);
  }

  const Program& p_;
  std::string text_;
  std::unordered_map<std::string_view, size_t> named_;  // how many buffers are called so
};

Json buffers_json(const Program& program) {
  Json list = Json::array();
  for (const Buffer& b : program.buffers) {
    list.push_back({{"name", b.name},
                    {"kind", kind_name(b.kind)},
                    {"dtype", dtype_name(b.type.dtype)},
                    {"shape", b.type.shape},
                    {"device", b.device}});
    if (!b.stored.empty()) list.back()["stored"] = b.stored;
    if (has_offset(b)) list.back()["offset"] = b.offset;
    if (b.kind == BufferKind::weight) list.back()["weight"] = b.fqn;
  }
  return list;
}

Json sequence_json(const Program& program, const Sequence& sequence) {
  Json json = {{"steps", Json::array()}, {"launches", Json::array()}};
  for (const Step& step : sequence.steps) {
    Json origins = Json::array();
    for (const int32_t origin : step.origins) {
      const Origin& o = program.origins[static_cast<size_t>(origin)];
      origins.push_back({{"node", o.node}, {"op", o.op}});
      if (!o.reason.empty()) origins.back()["reason"] = o.reason;
    }
    json["steps"].push_back({{"kernel", step.is_transfer() ? Json() : Json(step.kernel)},
                             {"buffers", step.buffers},
                             {"device", step.device},
                             {"origins", std::move(origins)}});
    if (!step.is_transfer())
      json["steps"].back()["estimate"] = {{"ms", 1e3 * step.estimate.seconds},
                                          {"bound", resource_name(step.estimate.bound)}};
  }
  for (const Launch& l : sequence.launches) {
    Json declined = Json::array();
    for (const auto& [implementation, reason] : l.declined)
      declined.push_back({{"implementation", implementation}, {"reason", reason}});
    json["launches"].push_back({{"first", l.first},
                                {"count", l.count},
                                {"code", l.code},
                                {"symbol", l.symbol},
                                {"grid", l.grid},
                                {"block", l.block},
                                {"args", l.args},
                                {"own_bytes", l.own_bytes},
                                {"together", l.together},
                                {"how", l.how},
                                {"declined", std::move(declined)},
                                {"traps", l.traps}});
  }
  return json;
}

Json steps_json(const Program& program) {
  Json report = {{"buffers", buffers_json(program)},
                 {"recipes", sequence_json(program, program.recipes)},
                 {"methods", Json::object()}};
  for (const Method& method : program.methods) {
    Json& json = report["methods"][method.name] = sequence_json(program, method);
    if (!method.declined.empty()) json["declined"] = method.declined;
  }
  return report;
}

}  // namespace

std::string describe_steps(const Program& program, bool json) {
  if (!json) return printable_lines(StepsText(program).run());
  Json report = steps_json(program);
  for (size_t n = 0; n < program.variants.size(); ++n)
    report["variants"].push_back(steps_json(with_variant(program, n)));
  return json_text(report, 2) + "\n";
}

}  // namespace npusim
