// Aligned allocation.
#include "backends/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace npusim::cpu {

std::shared_ptr<std::byte> aligned_bytes(size_t size, bool zeroed) {
  constexpr size_t line = 64, huge_page = size_t{2} << 20;
  const size_t alignment = size >= huge_page ? huge_page : line;
  const size_t rounded = (std::max(size, line) + line - 1) / line * line;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, rounded) != 0) fail(ErrorKind::device, "out of memory: {} bytes", size);
#ifdef MADV_HUGEPAGE
  if (size >= huge_page) madvise(data, size / huge_page * huge_page, MADV_HUGEPAGE);  // advice: failing does no harm
#endif
  if (zeroed) std::memset(data, 0, size);
  return {static_cast<std::byte*>(data), [](std::byte* memory) { std::free(memory); }};
}

}  // namespace npusim::cpu
