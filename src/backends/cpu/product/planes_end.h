// How convolutions end whose results are planes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/problem.h"

namespace npusim::cpu {

struct PlanesEnd {
  std::vector<Finish> finishes;  // of the images: [channel][pixel], without a bias
  const Access* bias = nullptr;  // along the channels, in float32: added first; null: none
};
// Why a tile cannot end so in `why`, then.
std::optional<PlanesEnd> planes_end(const Problem& problem, std::string& why);

}  // namespace npusim::cpu
