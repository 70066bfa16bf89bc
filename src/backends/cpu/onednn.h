// oneDNN behind one door: the engine and the differences between the v2 and v3 API stay in onednn.cpp.
#pragma once
#include <memory>

namespace npusim::cpu {
struct PrimitiveCache;
std::shared_ptr<PrimitiveCache> make_primitive_cache();
}  // namespace npusim::cpu
