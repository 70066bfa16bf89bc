// What the kernel says of memory.
#include "base/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"

namespace npusim {

uint64_t machine_memory() {
  static const uint64_t bytes = [] {
    uint64_t most = UINT64_MAX;
    struct sysinfo machine {};
    if (sysinfo(&machine) == 0) most = (uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      uint64_t limit = 0;
      if (std::ifstream(path) >> limit && limit > 0) most = std::min(most, limit);
    }
    return most;
  }();
  return bytes;
}

void check_machine_memory(std::string_view what, uint64_t bytes) {
  if (bytes > machine_memory())
    fail(ErrorKind::device, "{}: {} bytes are more than the {} that this machine has", what, bytes, machine_memory());
}

}  // namespace npusim
