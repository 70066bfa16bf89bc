// Constants of variants.
#include "compiler/adopt.h"

#include <algorithm>

namespace npusim {

Variant adopt(Program& program, Program made) {
  const auto equal = [](const HostTensor& a, const HostTensor& b) { return a.type == b.type && a.data == b.data; };
  std::vector<int32_t> at;
  for (HostTensor& constant : made.constants) {
    const auto known = std::find_if(program.constants.begin(), program.constants.end(),
                                    [&](const HostTensor& other) { return equal(constant, other); });
    at.push_back(static_cast<int32_t>(known - program.constants.begin()));
    if (known == program.constants.end()) program.constants.push_back(std::move(constant));
  }
  for (Buffer& buffer : made.buffers)
    if (buffer.kind == BufferKind::constant) buffer.constant = at[static_cast<size_t>(buffer.constant)];
  return made;
}

}  // namespace npusim
