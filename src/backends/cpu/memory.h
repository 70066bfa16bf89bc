// Memory of the CPU backend.
#pragma once
#include <cstddef>
#include <memory>

namespace npusim::cpu {

// `size` bytes, 64-byte aligned, zero if `zeroed`. Throws device when there is no memory. (Huge pages were measured: no
// difference on ViT-B/16 and MiniLM.)
std::shared_ptr<std::byte> aligned_bytes(size_t size, bool zeroed = false);

}  // namespace npusim::cpu
