// Aligned allocation.
#include "backends/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace npusim::cpu {

std::shared_ptr<std::byte> aligned_bytes(size_t size, bool zeroed) {
  constexpr size_t line = 64;
  const size_t rounded = (std::max(size, line) + line - 1) / line * line;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(line, rounded));
  if (!data) fail(ErrorKind::device, "out of memory: {} bytes", size);
  if (zeroed) std::memset(data, 0, size);
  return {data, [](std::byte* memory) { std::free(memory); }};
}

}  // namespace npusim::cpu
