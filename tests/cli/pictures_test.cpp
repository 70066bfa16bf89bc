// The partition's picture: words are inside their boxes, boxes on the page, lanes told apart.
#include <regex>

#include "cli/invoke.h"

namespace npusim {
namespace {

// x -> sin -> relu -> sin -> …: with relu on the CPU every node is a segment of its own.
std::string chain(int length) {
  const std::string type = R"("shape": [4, 4], "dtype": "float32")";
  std::string nodes, last = "x";
  for (int i = 0; i < length; ++i) {
    const std::string name = "node_with_a_long_name_" + std::to_string(i);
    nodes += fmt::format(R"({}{{"name": "{}", "op_type": "aten.{}.default", "attrs": {{}},
      "inputs": [{{"name": "{}", {}, "producer_node": "{}", "producer_output_idx": 0}}],
      "outputs": [{{"name": "{}", {}}}]}})",
                         i ? ", " : "", name, i % 2 ? "relu" : "sin", last, type, last, name, type);
    last = name;
  }
  return fmt::format(R"({{"graph_inputs": [{{"name": "x", {}}}], "graph_outputs": [{{"name": "{}", {}}}],
    "weights": [], "nodes": [{}]}})",
                     type, last, type, nodes);
}

struct Box {
  double x, y, width, height;
};

double number(const std::string& text) { return std::stod(text); }

TEST_F(CliTest, PicturesFitTheirText) {
  for (const int length : {1, 2, 3, 12, 61}) {
    write("chain.json", chain(length));
    const Invocation result =
        npusim({"partition", "chain.json", "--force-cpu", length > 1 ? "relu" : "sin", "--picture", "p.svg"});
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string svg = read_file(path("p.svg"));
    std::smatch size;
    ASSERT_TRUE(std::regex_search(svg, size, std::regex("<svg [^>]*width=\"(\\d+)\" height=\"(\\d+)\"")));
    EXPECT_LE(number(size[1]), 1300);
    std::vector<Box> boxes;
    const std::regex box("<rect x=\"(\\d+)\" y=\"(\\d+)\" width=\"(\\d+)\" height=\"(\\d+)\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), box), end; it != end; ++it)
      boxes.push_back({number((*it)[1]), number((*it)[2]), number((*it)[3]), number((*it)[4])});
    EXPECT_EQ(boxes.size(), static_cast<size_t>(length));
    for (const Box& a : boxes) {
      EXPECT_LE(a.x + a.width, number(size[1]));
      EXPECT_LE(a.y + a.height, number(size[2]));
      for (const Box& b : boxes) {
        const bool beside =
            a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        EXPECT_TRUE(&a == &b || beside);
      }
    }
    const std::regex line("<text x=\"(\\d+)\" y=\"(\\d+)\" text-anchor=\"middle\">([^<]*)<");
    size_t lines = 0;
    for (std::sregex_iterator it(svg.begin(), svg.end(), line), end; it != end; ++it, ++lines) {
      const double x = number((*it)[1]), y = number((*it)[2]), half = 3.2 * static_cast<double>((*it)[3].length());
      const auto inside = [&](const Box& b) {
        return x - half >= b.x && x + half <= b.x + b.width && y - 10 >= b.y && y <= b.y + b.height;
      };
      EXPECT_TRUE(std::any_of(boxes.begin(), boxes.end(), inside)) << (*it)[3];
    }
    EXPECT_EQ(lines, 3 * boxes.size());
    for (const char* word : {">sin<", ">target<", ">fallback<"}) EXPECT_NE(svg.find(word), std::string::npos) << word;
    EXPECT_NE(result.out.find("cpu (fallback)"), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace npusim
