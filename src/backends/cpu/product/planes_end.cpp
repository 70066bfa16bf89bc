// The bias of planes apart from the rest of their epilogue.
#include "backends/cpu/product/planes_end.h"

#include <fmt/format.h>

#include <utility>

namespace npusim::cpu {
namespace {

// Whether it is one number for each channel.
bool is_along_channels(const Kernel& k, const Access& access) {
  if (!access.guards.empty() || !access.terms.empty() || k.args[static_cast<size_t>(access.arg)].dtype != DType::f32)
    return false;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (d != 1 && d != 2 && k.space[d] > 1 && access.strides[d] != 0) return false;
  return true;
}

}  // namespace

std::optional<PlanesEnd> planes_end(const Problem& p, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const Kernel& k = p.kernel;
  if (!p.chain) return none(no_chain(k));
  PlanesEnd ending;
  std::vector<EpilogueOp> others = *p.chain;
  if (!others.empty() && others[0].add >= 0) {
    const Access& first = k.accesses[static_cast<size_t>(others[0].add)];
    if (is_along_channels(k, first)) {
      ending.bias = &first;
      others.erase(others.begin());
    }
  }
  std::vector<int> pixels;
  for (size_t d = 3; d < k.space.size(); ++d) pixels.push_back(static_cast<int>(d));
  const ProductAxes axes{make_axis(k.space, {0}), make_axis(k.space, {1, 2}), make_axis(k.space, pixels), {}};
  ending.finishes = match_finishes(k, p.args, axes, std::move(others));
  if (ending.finishes.empty()) return none("a result that is no planes, or an epilogue that tiles do not end with");
  const Finish& first = ending.finishes[0];
  if (first.bias.data) return none("a sum along the pixels");
  if (first.residual.data && first.residual.dtype != first.out.dtype)
    return none(fmt::format("a residual of {}", dtype_name(first.residual.dtype)));
  return ending;
}

}  // namespace npusim::cpu
