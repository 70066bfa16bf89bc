// A kernel's expressions at a position that the caller gives.
#include "print/point.h"

#include <fmt/format.h>

#include "print/writer.h"

namespace npusim {

std::string print_point(const Kernel& kernel, const Dialect& d, const PointFunction& f) {
  const PrintPlan plan = plan_points(kernel);
  BodyPlace place{d.block, d.thread};
  place.leaf = f.lanes == 1 ? "leaf[0]" : "leaf[lane]";
  place.lanes = f.lanes;
  place.lane_dim = f.lane_dim;
  KernelWriter writer(plan, d, place);
  std::string positions, body;
  std::vector<bool> placed(kernel.space.size(), false);
  for (const PointPosition& p : f.positions) {
    positions += fmt::format(",\n    const {} {}", d.narrow, p.name);
    std::vector<size_t> dims;
    for (int dim : p.dims) {
      dims.push_back(static_cast<size_t>(dim));
      placed[dims.back()] = true;
    }
    body += writer.indices_of(std::string(p.name), dims);
  }
  for (size_t dim = 0; dim < placed.size(); ++dim)
    if (!placed[dim]) body += writer.zero_index(dim);
  return fmt::format("\n{} void {}(\n    {}{},\n    const float* leaf) {{\n{}{}}}\n", d.function, f.name,
                     parameters(kernel, d), positions, body, writer.at_point());
}

}  // namespace npusim
