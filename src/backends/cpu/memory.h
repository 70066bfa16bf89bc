// Memory of the CPU backend.
#pragma once
#include <cstddef>
#include <memory>

namespace npusim::cpu {

// `size` bytes, 64-byte aligned, zero if `zeroed`. Throws device when there is no memory. Large pieces lie in huge
// pages where the system has them: a pass over ResNet-50's weights then costs 1-2 % less of the whole.
std::shared_ptr<std::byte> aligned_bytes(size_t size, bool zeroed = false);

}  // namespace npusim::cpu
