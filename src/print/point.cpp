// A kernel's expressions at a position that the caller gives.
#include "print/point.h"

#include <fmt/format.h>

#include "print/writer.h"

namespace npusim {

namespace {

// Of the lines that define indices, those whose index the statements mention.
std::string used(const std::string& indices, const std::string& statements) {
  std::string kept;
  for (size_t begin = 0; begin < indices.size();) {
    const size_t end = indices.find('\n', begin) + 1, is = indices.find(" =", begin);
    const size_t name = indices.rfind(' ', is - 1) + 1;
    if (mentions(statements, indices.substr(name, is - name))) kept += indices.substr(begin, end - begin);
    begin = end;
  }
  return kept;
}

}  // namespace

std::string print_point(const Kernel& kernel, const Dialect& d, const PointFunction& f) {
  const PrintPlan plan = plan_points(kernel);
  BodyContext context{d.block, d.thread};
  context.leaf = f.lanes == 1 ? "leaf[0]" : "leaf[lane]";
  context.second_leaf = fmt::format(fmt::runtime(f.pair ? "leaf[{} + lane]" : "leaf[{}]"), f.lanes);
  context.lanes = f.lanes;
  context.lane_dim = f.lane_dim;
  KernelWriter writer(plan, d, context);
  std::string positions, passed, indices;
  std::vector<bool> named(kernel.space.size(), false);
  for (const PointPosition& p : f.positions) {
    positions += fmt::format(",\n    const {} {}", d.narrow, p.name);
    passed += fmt::format(", {}", p.name);
    std::vector<size_t> dims;
    for (int dim : p.dims) {
      dims.push_back(static_cast<size_t>(dim));
      named[dims.back()] = true;
    }
    indices += writer.indices_of(std::string(p.name), dims);
  }
  for (size_t dim = 0; dim < named.size(); ++dim)
    if (!named[dim]) indices += writer.zero_index(dim);
  std::vector<KernelWriter::Words> words;
  std::string reads, text = "\n";
  const std::string body = writer.at_point(words, reads);
  const auto function = [&](std::string_view suffix, const std::string& more, const std::string& statements) {
    text += fmt::format("{} void {}{}(\n    {}{}{}) {{\n{}}}\n", d.function, f.name, suffix, parameters(kernel, d),
                        positions, more, statements);
  };
  const std::string leaf = ",\n    const float* leaf";
  if (f.lanes == 1) {
    function("", leaf, indices + body);
    return text;
  }
  text += fmt::format("struct {}_words {{\n", f.name);
  for (const KernelWriter::Words& w : words) text += fmt::format("  {} {};\n", w.type, w.name);
  text += "};\n";
  function("_read", fmt::format(",\n    {}_words& words", f.name), used(indices, reads) + reads);
  function("_rest", fmt::format("{},\n    const {}_words& words", leaf, f.name), used(indices, body) + body);
  const std::string arguments = parameter_names(kernel) + passed;
  function(
      "", leaf,
      fmt::format("  {0}_words words;\n  {0}_read({1}, words);\n  {0}_rest({1}, leaf, words);\n", f.name, arguments));
  return text;
}

}  // namespace npusim
