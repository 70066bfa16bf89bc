// A profile as one HTML page without scripts: a timeline with a lane for each device, and tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/profile.h"

namespace npusim::cli {
namespace {

// The page may load nothing; it is read by day and by night. Colours c0 to c7 are of operators, c8 of all others.
constexpr std::string_view head = R"(<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: light-dark(#ddd, #444); --bar: light-dark(#dbe7f5, #24405e) }
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }
h1 { font-size: 1.4em; margin: 0 } h2 { font-size: 1.1em; margin: 2em 0 .4em } p { margin: .3em 0 }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
th, td { border-bottom: 1px solid var(--line); padding: .15em .6em; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.w { overflow-wrap: anywhere }
.lane { display: flex; align-items: center; margin: .3em 0 } .lane b { width: 6em; font-weight: 600 }
.line { position: relative; flex: 1; height: 2.4em; background: var(--line) }
.line i { position: absolute; top: 0; height: 100%; min-width: 1px }
.axis { display: flex; justify-content: space-between; margin-left: 6em; opacity: .7 }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em }
.c0 { background: #4c78a8 } .c1 { background: #f58518 } .c2 { background: #54a24b } .c3 { background: #b279a2 }
.c4 { background: #eeca3b } .c5 { background: #72b7b2 } .c6 { background: #ff9da6 } .c7 { background: #9d755d }
.c8 { background: #999 } .t { background: repeating-linear-gradient(45deg, #d33 0 3px, #fff 3px 6px) }
</style>
)";
constexpr size_t colours = 8;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

bool is_transfer(const StepOverview& step) { return step.kernel == "transfer"; }

std::string readable(double bytes) {
  return bytes < 1e3   ? fmt::format("{:.0f} B", bytes)
         : bytes < 1e6 ? fmt::format("{:.3g} kB", bytes / 1e3)
                       : fmt::format("{:.4g} MB", bytes / 1e6);
}

// Of 10^9 in a second, and beside it the share of what the device was found to reach.
std::string rate_cells(double ms, double amount, double possible) {
  if (amount <= 0 || ms <= 0) return "<td class=n></td><td class=n></td>";
  const double rate = amount / ms / 1e6;
  return fmt::format("<td class=n>{:.2f}</td><td class=n>{}</td>", rate, share_text(rate, possible));
}

// Time with its share of all as a bar behind it, then what is moved and computed in it.
std::string cost_cells(const Profile& p, double ms, double bytes, double flops, const DeviceLimits& limits) {
  const double share = p.sum_ms > 0 ? 100 * ms / p.sum_ms : 0;
  return fmt::format(
             "<td class=n style=\"background:linear-gradient(to left,var(--bar) {0:.1f}%,transparent {0:.1f}%)\">"
             "{1:.4f}</td><td class=n>{0:.1f}</td><td class=n>{2}</td>",
             share, ms, readable(bytes)) +
         rate_cells(ms, bytes, limits.read_gb_s) + rate_cells(ms, flops, limits.gflop_s);
}

constexpr std::string_view cost_heads =
    "<th class=n>ms<th class=n>% of all<th class=n>bytes<th class=n>GB/s<th class=n>of reached<th class=n>GFLOP/s"
    "<th class=n>of reached";

class Page {
 public:
  explicit Page(const Profile& profile) : p_(profile), operators_(operator_names(profile)) {
    for (const Share& share : shares_of(p_, operators_, true))
      if (share.name != "transfer" && colour_.size() < colours) colour_.emplace(share.name, colour_.size());
  }

  std::string run() {
    body_ = fmt::format("<!doctype html>\n<html lang=\"en\">\n<title>{0}: {1}</title>\n{2}<h1>{0}: {1}</h1>\n",
                        escaped(p_.model), escaped(p_.method), head);
    body_ += fmt::format(
        "<p>A run takes {:.3f} ms (median; at its fastest {:.3f}). Its {} steps, each alone at its fastest, take "
        "{:.3f} "
        "ms together.</p>\n",
        p_.whole.median_ms, p_.whole.min_ms, p_.steps.size(), p_.sum_ms);
    devices();
    timeline();
    shares("By operators", "operators", shares_of(p_, operators_, true), true);
    transfers();
    shares("By layer", "layer", shares_of(p_, layer_names(p_), false), false);
    steps();
    return body_ + "</html>\n";
  }

 private:
  const std::string& target(int device) const { return p_.targets[static_cast<size_t>(device)]; }

  std::string style_of(size_t step) const {
    if (is_transfer(p_.steps[step])) return "t";
    const auto known = colour_.find(operators_[step]);
    return fmt::format("c{}", known == colour_.end() ? colours : known->second);
  }

  void devices() {
    body_ +=
        "<h2>Devices</h2>\n<table><tr><th>device<th class=n>steps<th class=n>ms<th class=n>reaches GB/s"
        "<th class=n>reaches GFLOP/s</tr>\n";
    for (size_t d = 0; d < p_.targets.size(); ++d) {
      double ms = 0;
      size_t count = 0;
      for (size_t i = 0; i < p_.steps.size(); ++i)
        if (static_cast<size_t>(p_.steps[i].device) == d) ms += p_.times[i].min_ms, ++count;
      body_ += fmt::format("<tr><td>{}<td class=n>{}<td class=n>{:.4f}<td class=n>{:.1f}<td class=n>{:.1f}</tr>\n",
                           escaped(p_.targets[d]), count, ms, p_.limits[d].read_gb_s, p_.limits[d].gflop_s);
    }
    body_ += "</table>\n";
  }

  void timeline() {
    body_ += "<h2>Timeline: the steps one after another</h2>\n";
    const double whole = p_.sum_ms > 0 ? p_.sum_ms : 1;
    for (size_t d = 0; d < p_.targets.size(); ++d) {
      body_ += fmt::format("<div class=lane><b>{}</b><div class=line>\n", escaped(p_.targets[d]));
      double at = 0;
      for (size_t i = 0; i < p_.steps.size(); ++i) {
        const double ms = p_.times[i].min_ms;
        if (static_cast<size_t>(p_.steps[i].device) == d)
          body_ += fmt::format(
              "<i class={} style=\"left:{:.3f}%;width:{:.3f}%\" title=\"{}: {} ({}), {:.4f} ms\"></i>\n", style_of(i),
              100 * at / whole, 100 * ms / whole, i, escaped(p_.times[i].node), escaped(operators_[i]), ms);
        at += ms;
      }
      body_ += "</div></div>\n";
    }
    body_ += fmt::format("<div class=axis><span>0</span><span>{:.3f} ms</span></div>\n", p_.sum_ms);
  }

  void shares(std::string_view title, std::string_view what, const std::vector<Share>& shares, bool with_key) {
    body_ += fmt::format("<h2>{}</h2>\n<table><tr><th>{}<th class=n>steps{}</tr>\n", title, what, cost_heads);
    for (const Share& s : shares) {
      const auto known = colour_.find(s.name);
      const std::string key =
          s.name == "transfer" ? "t" : fmt::format("c{}", known == colour_.end() ? colours : known->second);
      body_ +=
          fmt::format("<tr><td class=w>{}{}<td class=n>{}{}</tr>\n",
                      with_key ? fmt::format("<span class=\"key {}\"></span>", key) : "", escaped(s.name), s.steps,
                      cost_cells(p_, s.ms, s.bytes, s.flops, p_.limits.size() == 1 ? p_.limits[0] : DeviceLimits{}));
    }
    body_ += "</table>\n";
  }

  void transfers() {
    if (std::none_of(p_.steps.begin(), p_.steps.end(), is_transfer)) return;
    body_ += fmt::format("<h2>Transfers</h2>\n<table><tr><th class=n>step<th>value<th>from<th>to{}</tr>\n", cost_heads);
    for (size_t i = 0; i < p_.steps.size(); ++i)
      if (const StepOverview& step = p_.steps[i]; is_transfer(step))
        body_ += fmt::format("<tr><td class=n>{}<td class=w>{}<td>{}<td>{}{}</tr>\n", i, escaped(p_.times[i].node),
                             escaped(target(step.from)), escaped(target(step.device)),
                             cost_cells(p_, p_.times[i].min_ms, bytes_of(step), 0, {}));
    body_ += "</table>\n";
  }

  void steps() {
    const std::vector<std::string> layers = layer_names(p_);
    body_ += fmt::format(
        "<h2>By step</h2>\n<table><tr><th class=n>step<th>device<th>layer<th>nodes of the IR<th>run by{}</tr>\n",
        cost_heads);
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const StepOverview& step = p_.steps[i];
      const DeviceLimits limits = is_transfer(step) ? DeviceLimits{} : p_.limits[static_cast<size_t>(step.device)];
      body_ += fmt::format(
          "<tr><td class=n>{}<td>{}<td class=w>{}<td class=w>{}<td class=w>{}{}</tr>\n", i,
          escaped(target(step.device)), escaped(layers[i]), escaped(joined(step.nodes)), escaped(p_.times[i].info.how),
          cost_cells(p_, p_.times[i].min_ms, bytes_of(step), static_cast<double>(step.work.flops), limits));
    }
    body_ += "</table>\n";
  }

  const Profile& p_;
  std::vector<std::string> operators_;    // by step
  std::map<std::string, size_t> colour_;  // of the most expensive
  std::string body_;
};

}  // namespace

std::string profile_page(const Profile& profile) { return Page(profile).run(); }

}  // namespace npusim::cli
