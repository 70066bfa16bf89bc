// A partition as a picture: a lane for each device, a box for each segment from left to right, an arrow for what is
// transferred between them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/utf8.h"
#include "npusim/message.h"
#include "program/partition.h"

namespace npusim {
namespace {

constexpr int margin = 20, label_width = 90, lane_height = 106, box_height = 66, gap = 34, row_gap = 26;
constexpr int page_width = 1200;                  // where a row of segments ends and the next begins
constexpr int narrowest = 56, widest = 260;       // of boxes, which grow with the logarithm of their time
constexpr double letter = 7.2, text_margin = 12;  // pixels of one at this font's size, and left and right of a line
constexpr size_t longest_line = 34;               // letters of the operators in a box

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

std::string readable(double bytes) {
  return bytes < 1e3   ? fmt::format("{:.0f} B", bytes)
         : bytes < 1e6 ? fmt::format("{:.3g} kB", bytes / 1e3)
                       : fmt::format("{:.3g} MB", bytes / 1e6);
}

// In letters, whatever their bytes.
size_t letters_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

int width_of(const DeviceSegment& segment, const std::vector<std::string>& lines) {
  size_t letters = 0;
  for (const std::string& line : lines) letters = std::max(letters, letters_of(line));
  const int for_text = static_cast<int>(std::ceil(static_cast<double>(letters) * letter + text_margin));
  const double microseconds = std::max(segment.seconds * 1e6, 1.0);
  const int for_time = std::min(widest, narrowest + static_cast<int>(18 * std::log2(microseconds)));
  return std::max(for_text, for_time);
}

class Picture {
 public:
  explicit Picture(const Program& program) : p_(program) {}

  std::string run() {
    for (const Method& method : p_.methods) draw(method);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
        width_ + margin, top_ + margin, body_);
  }

 private:
  void text(int x, int y, std::string_view anchor, std::string_view words) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(words));
  }

  int lane_top(int32_t device) const { return top_ + device * lane_height; }

  // Segments from left to right, in as many rows as they need.
  void draw(const Method& method) {
    const std::vector<DeviceSegment> segments = segments_of(p_, works_, method);
    top_ += margin + 10;
    text(margin, top_, "start", method.name);
    top_ += 14;
    begin_row();
    int x = margin + label_width, previous = 0;
    for (const DeviceSegment& segment : segments) {
      const std::vector<std::string> lines = {fmt::format("{} step{}", segment.steps, segment.steps == 1 ? "" : "s"),
                                              fmt::format("{:.3g} ms", segment.seconds * 1e3), operators_of(segment)};
      const int width = width_of(segment, lines);
      if (previous && x + width > page_width) {
        top_ += static_cast<int>(p_.devices.size()) * lane_height + row_gap;
        begin_row();
        x = margin + label_width, previous = 0;
      }
      const int y = lane_top(segment.device);
      double bytes = 0;
      for (const Crossing& crossing : segment.before) bytes += static_cast<double>(crossing.bytes);
      if (bytes > 0) arrow(previous, x, segment, bytes);
      body_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" "
          "stroke=\"#333\"><title>{}</title></rect>\n",
          x, y, width, box_height, segment.device == 0 ? "#cfe8cf" : "#f6dcb8", escaped(nodes_of(segment)));
      for (size_t i = 0; i < lines.size(); ++i)
        text(x + width / 2, y + 19 + 18 * static_cast<int>(i), "middle", lines[i]);
      previous = x + width;
      width_ = std::max(width_, previous);
      x = previous + gap;
    }
    top_ += static_cast<int>(p_.devices.size()) * lane_height - (lane_height - box_height);
  }

  // What each lane is: the device that was compiled for, and the one that runs what it does not.
  void begin_row() {
    for (size_t d = 0; d < p_.devices.size(); ++d) {
      const int y = lane_top(static_cast<int32_t>(d)) + box_height / 2;
      text(margin, y - 4, "start", d == 0 ? "target" : "fallback");
      text(margin, y + 12, "start", p_.devices[d].target);
    }
  }

  // From the segment before, whose right edge is given; what enters at the first of a row comes from its left.
  void arrow(int from_x, int to_x, const DeviceSegment& segment, double bytes) {
    const int32_t from = segment.before[0].from;
    const int y1 = lane_top(from) + box_height / 2, y2 = lane_top(segment.device) + box_height / 2;
    const int x1 = from_x ? from_x : to_x - gap / 2;
    body_ += fmt::format(
        "<path d=\"M{} {} L{} {} L{} {}\" fill=\"none\" stroke=\"#a33\"/>\n<path d=\"M{} {} l-6 -4 l0 8 z\" "
        "fill=\"#a33\"/>\n",
        x1, y1, x1 + 8, y1, to_x, y2, to_x, y2);
    text((x1 + to_x) / 2 - 8, lane_top(std::max(from, segment.device)) - (lane_height - box_height) / 2 + 4, "end",
         readable(bytes));
  }

  // "conv2d, relu x3, …": as many as a line has room for, the most frequent first.
  std::string operators_of(const DeviceSegment& segment) const {
    std::map<std::string, int> counts;
    for (const int32_t origin : segment.origins) {
      std::string name = p_.origins[static_cast<size_t>(origin)].op;
      if (name.starts_with("aten.")) name.erase(0, 5);
      ++counts[name.substr(0, name.find('.'))];
    }
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [name, count] : counts) order.emplace_back(-count, name);
    std::sort(order.begin(), order.end());
    std::string line;
    for (const auto& [count, name] : order) {
      const std::string more =
          fmt::format("{}{}{}", line.empty() ? "" : ", ", name, count < -1 ? fmt::format(" x{}", -count) : "");
      if (!line.empty() && letters_of(line) + letters_of(more) > longest_line) return line + ", …";
      line += more;
    }
    return letters_of(line) > longest_line ? shortened(line, longest_line) : line;
  }

  std::string nodes_of(const DeviceSegment& segment) const {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(segment.origins.size(), 40); ++i)
      names += fmt::format("{}{}", i ? ", " : "", p_.origins[static_cast<size_t>(segment.origins[i])].node);
    return names + (segment.origins.size() > 40 ? ", …" : "");
  }

  const Program& p_;
  KernelWorks works_{p_};
  std::string body_;
  int top_ = 0, width_ = 0;
};

}  // namespace

std::string partition_picture(const Program& program) { return Picture(program).run(); }

}  // namespace npusim
