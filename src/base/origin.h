// A node of the IR, as everything that is made from it remembers it.
#pragma once
#include <string>

namespace npusim {

struct Origin {
  std::string node, op;     // names: "linear_3", "aten.linear.default"
  std::string reason = {};  // why its work is not done by the first device; empty: it is, or it follows other nodes
};

}  // namespace npusim
