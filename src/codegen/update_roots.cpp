// The forest of values and what they update.
#include "codegen/update_roots.h"

#include <numeric>

namespace npusim {

UpdateRoots::UpdateRoots(const Graph& g) : parent_(g.values.size()) {
  std::iota(parent_.begin(), parent_.end(), 0);
  for (const Node& node : g.nodes)
    for (size_t i = 0; i < node.kernel->args.size(); ++i)
      if (const int source = node.kernel->args[i].updates; source >= 0)
        parent_[static_cast<size_t>(of(node.outputs[i - node.inputs.size()]))] =
            of(node.inputs[static_cast<size_t>(source)]);
}

ValueId UpdateRoots::of(ValueId id) {
  while (parent_[static_cast<size_t>(id)] != id)
    id = parent_[static_cast<size_t>(id)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(id)])];
  return id;
}

}  // namespace npusim
