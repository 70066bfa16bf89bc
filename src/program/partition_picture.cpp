// A partition as a picture: a lane for each device, a box for each segment from left to right, an arrow for what is
// transferred between them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "program/partition.h"

namespace npusim {
namespace {

constexpr int margin = 20, label_width = 90, lane_height = 90, box_height = 50, gap = 34;
constexpr int narrowest = 56, widest = 220;  // of boxes, which grow with the logarithm of their time

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string readable(double bytes) {
  return bytes < 1e3   ? fmt::format("{:.0f} B", bytes)
         : bytes < 1e6 ? fmt::format("{:.3g} kB", bytes / 1e3)
                       : fmt::format("{:.3g} MB", bytes / 1e6);
}

int width_of(const DeviceSegment& segment) {
  const double microseconds = std::max(segment.seconds * 1e6, 1.0);
  return std::min(widest, narrowest + static_cast<int>(18 * std::log2(microseconds)));
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

  void draw(const Method& method) {
    const std::vector<DeviceSegment> segments = segments_of(p_, method);
    top_ += margin + 10;
    text(margin, top_, "start", method.name);
    top_ += 14;
    for (size_t d = 0; d < p_.devices.size(); ++d)
      text(margin, lane_top(static_cast<int32_t>(d)) + box_height / 2 + 4, "start", p_.devices[d].target);
    int x = margin + label_width, previous = 0;
    for (const DeviceSegment& segment : segments) {
      const int y = lane_top(segment.device), width = width_of(segment);
      double bytes = 0;
      for (const Crossing& crossing : segment.before) bytes += static_cast<double>(crossing.bytes);
      if (bytes > 0) arrow(previous, x, segment, bytes);
      body_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" "
          "stroke=\"#333\"><title>{}</title></rect>\n",
          x, y, width, box_height, segment.device == 0 ? "#cfe8cf" : "#f6dcb8", escaped(nodes_of(segment)));
      text(x + width / 2, y + 21, "middle", fmt::format("{} step{}", segment.steps, segment.steps == 1 ? "" : "s"));
      text(x + width / 2, y + 38, "middle", fmt::format("{:.3g} ms", segment.seconds * 1e3));
      previous = x + width;
      x = previous + gap;
    }
    width_ = std::max(width_, x);
    top_ += static_cast<int>(p_.devices.size()) * lane_height - (lane_height - box_height);
  }

  // From the segment before, whose right edge is given; what enters at the first comes from its left.
  void arrow(int from_x, int to_x, const DeviceSegment& segment, double bytes) {
    const int32_t from = segment.before[0].from;
    const int y1 = lane_top(from) + box_height / 2, y2 = lane_top(segment.device) + box_height / 2;
    const int x1 = from_x ? from_x : to_x - gap;
    body_ += fmt::format(
        "<path d=\"M{} {} L{} {} L{} {}\" fill=\"none\" stroke=\"#a33\"/>\n<path d=\"M{} {} l-6 -4 l0 8 z\" "
        "fill=\"#a33\"/>\n",
        x1, y1, x1 + 8, y1, to_x, y2, to_x, y2);
    text((x1 + to_x) / 2 - 8, lane_top(std::max(from, segment.device)) - (lane_height - box_height) / 2 + 4, "end",
         readable(bytes));
  }

  std::string nodes_of(const DeviceSegment& segment) const {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(segment.origins.size(), 40); ++i)
      names += fmt::format("{}{}", i ? ", " : "", p_.origins[static_cast<size_t>(segment.origins[i])].node);
    return names + (segment.origins.size() > 40 ? ", …" : "");
  }

  const Program& p_;
  std::string body_;
  int top_ = 0, width_ = 0;
};

}  // namespace

std::string partition_picture(const Program& program) { return Picture(program).run(); }

}  // namespace npusim
