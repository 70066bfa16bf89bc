// A profile as one HTML page without scripts: a timeline with a lane for each device, and tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/profile.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

// The page may load nothing; it is read by day and by night. Colours c0 to c7 are of operators, c8 of all others.
constexpr std::string_view head = R"(<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: light-dark(#ddd, #444); --bar: light-dark(#dbe7f5, #24405e) }
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }
h1 { font-size: 1.4em; margin: 0 } h2 { font-size: 1.1em; margin: 2em 0 .4em } p { margin: .3em 0 }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
th, td { border-bottom: 1px solid var(--line); padding: .15em .6em; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.w { min-width: 8em; overflow-wrap: break-word }
.scroll { overflow-x: auto }
.lane { display: flex; align-items: center; margin: .3em 0 } .lane b { width: 9em; font-weight: 600 }
.line { position: relative; flex: 1; height: 2.4em; background: var(--line) }
.line i { position: absolute; top: 0; height: 100%; min-width: 1px }
.axis { display: flex; justify-content: space-between; margin-left: 9em; opacity: .7 }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em }
.c0 { background: #4c78a8 } .c1 { background: #f58518 } .c2 { background: #54a24b } .c3 { background: #b279a2 }
.c4 { background: #eeca3b } .c5 { background: #72b7b2 } .c6 { background: #ff9da6 } .c7 { background: #9d755d }
.c8 { background: #999 } .t { background: repeating-linear-gradient(45deg, #d33 0 3px, #fff 3px 6px) }
</style>
)";
constexpr size_t colours = 8;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
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
      result += c;
  }
  return result;
}

// A name that may be broken where its parts end, and nowhere else.
std::string breakable(std::string_view name) {
  std::string result;
  for (size_t begin = 0, end = 0; begin < name.size(); begin = end) {
    end = std::min(name.find_first_of("._/+", begin + 1), name.size());
    result += escaped(name.substr(begin, end - begin)) + (end < name.size() ? "<wbr>" : "");
  }
  return result;
}

bool is_transfer(const StepOverview& step) { return step.kernel == "transfer"; }

std::string readable(double bytes) {
  return bytes < 1e3   ? fmt::format("{:.0f} B", bytes)
         : bytes < 1e6 ? fmt::format("{:.3g} kB", bytes / 1e3)
                       : fmt::format("{:.4g} MB", bytes / 1e6);
}

struct Cell {
  std::string html;
  std::string style = {};
};
struct Column {
  std::string title;
  char kind;  // n: numbers, to the right; w: names, which may be long; t: other text
};

// A table that leaves out the columns in which no row has anything.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

  std::string html() const {
    std::vector<size_t> shown;
    for (size_t c = 0; c < columns_.size(); ++c)
      if (std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) { return !row[c].html.empty(); }))
        shown.push_back(c);
    const auto kind = [&](size_t c) {
      return columns_[c].kind == 't' ? std::string() : fmt::format(" class={}", columns_[c].kind);
    };
    std::string text = "<div class=scroll><table><tr>";
    for (const size_t c : shown) text += fmt::format("<th{}>{}", kind(c), columns_[c].title);
    text += "</tr>\n";
    for (const auto& row : rows_) {
      text += "<tr>";
      for (const size_t c : shown)
        text += fmt::format("<td{}{}>{}", kind(c),
                            row[c].style.empty() ? "" : fmt::format(" style=\"{}\"", row[c].style), row[c].html);
      text += "</tr>\n";
    }
    return text + "</table></div>\n";
  }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Of 10^9 in a second, and beside it the share of what the device was found to reach.
void add_rate(std::vector<Cell>& row, double ms, double amount, double possible) {
  const bool none = amount <= 0 || ms <= 0;
  const double rate = none ? 0 : amount / ms / 1e6;
  row.push_back({none ? "" : fmt::format("{:.2f}", rate)});
  row.push_back({none ? "" : share_text(rate, possible)});
}

// Time with its share of all as a bar behind it, then what is moved and computed in it.
std::vector<Cell> cost_cells(const Profile& p, double ms, double bytes, double flops, const DeviceLimits& limits) {
  const double share = p.sum_ms > 0 ? 100 * ms / p.sum_ms : 0;
  std::vector<Cell> row = {
      {fmt::format("{:.4f}", ms),
       fmt::format("background:linear-gradient(to left,var(--bar) {0:.1f}%,transparent {0:.1f}%)", share)},
      {fmt::format("{:.1f}", share)},
      {readable(bytes)}};
  add_rate(row, ms, bytes, limits.read_gb_s);
  add_rate(row, ms, flops, limits.gflop_s);
  return row;
}

std::vector<Column> with_costs(std::vector<Column> columns) {
  for (const char* title : {"ms", "% of all", "bytes", "GB/s", "of reached", "GFLOP/s", "of reached"})
    columns.push_back({title, 'n'});
  return columns;
}

std::vector<Cell> joined_cells(std::vector<Cell> row, std::vector<Cell> more) {
  row.insert(row.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return row;
}

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
  // Its target, and its part where both devices have one target.
  std::string lane(size_t device) const {
    const std::string& name = p_.targets[device];
    if (std::count(p_.targets.begin(), p_.targets.end(), name) < 2) return escaped(name);
    return escaped(name) + (device == 0 ? " (target)" : " (fallback)");
  }
  std::string lane_of(int device) const { return lane(static_cast<size_t>(device)); }

  std::string style_of(size_t step) const {
    if (is_transfer(p_.steps[step])) return "t";
    const auto known = colour_.find(operators_[step]);
    return fmt::format("c{}", known == colour_.end() ? colours : known->second);
  }

  void devices() {
    body_ += "<h2>Devices</h2>\n";
    Table table({{"device", 't'}, {"steps", 'n'}, {"ms", 'n'}, {"reaches GB/s", 'n'}, {"reaches GFLOP/s", 'n'}});
    for (size_t d = 0; d < p_.targets.size(); ++d) {
      double ms = 0;
      size_t count = 0;
      for (size_t i = 0; i < p_.steps.size(); ++i)
        if (static_cast<size_t>(p_.steps[i].device) == d) ms += p_.times[i].min_ms, ++count;
      const auto reached = [](double rate) { return rate > 0 ? fmt::format("{:.1f}", rate) : std::string(); };
      table.add({{lane(d)},
                 {fmt::format("{}", count)},
                 {fmt::format("{:.4f}", ms)},
                 {reached(p_.limits[d].read_gb_s)},
                 {reached(p_.limits[d].gflop_s)}});
    }
    body_ += table.html() +
             "<p>What a device reaches was measured beside: reading from its memory, and multiply-adds in registers. A "
             "step is above 100 % of the first where it reads what a cache still has, which a run as a whole may not "
             "have.</p>\n";
  }

  void timeline() {
    body_ += "<h2>Timeline: the steps one after another</h2>\n";
    const double whole = p_.sum_ms > 0 ? p_.sum_ms : 1;
    for (size_t d = 0; d < p_.targets.size(); ++d) {
      body_ += fmt::format("<div class=lane><b>{}</b><div class=line>\n", lane(d));
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

  void shares(std::string_view title, const char* what, const std::vector<Share>& shares, bool with_key) {
    body_ += fmt::format("<h2>{}</h2>\n", title);
    Table table(with_costs({{what, 'w'}, {"steps", 'n'}}));
    for (const Share& s : shares) {
      const auto known = colour_.find(s.name);
      const std::string key =
          s.name == "transfer" ? "t" : fmt::format("c{}", known == colour_.end() ? colours : known->second);
      const std::string mark = with_key ? fmt::format("<span class=\"key {}\"></span>", key) : "";
      table.add(
          joined_cells({{mark + breakable(s.name)}, {fmt::format("{}", s.steps)}},
                       cost_cells(p_, s.ms, s.bytes, s.flops, p_.limits.size() == 1 ? p_.limits[0] : DeviceLimits{})));
    }
    body_ += table.html();
  }

  void transfers() {
    if (std::none_of(p_.steps.begin(), p_.steps.end(), is_transfer)) return;
    body_ += "<h2>Transfers</h2>\n";
    Table table(with_costs({{"step", 'n'}, {"value", 'w'}, {"from", 't'}, {"to", 't'}}));
    for (size_t i = 0; i < p_.steps.size(); ++i)
      if (const StepOverview& step = p_.steps[i]; is_transfer(step))
        table.add(joined_cells(
            {{fmt::format("{}", i)}, {breakable(p_.times[i].node)}, {lane_of(step.from)}, {lane_of(step.device)}},
            cost_cells(p_, p_.times[i].min_ms, bytes_of(step), 0, {})));
    body_ += table.html();
  }

  void steps() {
    const std::vector<std::string> layers = layer_names(p_);
    body_ += "<h2>By step</h2>\n";
    Table table(
        with_costs({{"step", 'n'}, {"device", 't'}, {"layer", 'w'}, {"nodes of the IR", 'w'}, {"run by", 'w'}}));
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const StepOverview& step = p_.steps[i];
      const DeviceLimits limits = is_transfer(step) ? DeviceLimits{} : p_.limits[static_cast<size_t>(step.device)];
      std::string nodes;
      for (const std::string& node : step.nodes) nodes += (nodes.empty() ? "" : ", ") + breakable(node);
      table.add(joined_cells(
          {{fmt::format("{}", i)},
           {p_.targets.size() > 1 ? lane_of(step.device) : ""},
           {breakable(layers[i])},
           {nodes},
           {escaped(p_.times[i].info.how)}},
          cost_cells(p_, p_.times[i].min_ms, bytes_of(step), static_cast<double>(step.work.flops), limits)));
    }
    body_ += table.html();
  }

  const Profile& p_;
  std::vector<std::string> operators_;    // by step
  std::map<std::string, size_t> colour_;  // of the most expensive
  std::string body_;
};

}  // namespace

std::string profile_page(const Profile& profile) { return Page(profile).run(); }

}  // namespace npusim::cli
