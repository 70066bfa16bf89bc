// The first bytes of PyTorch's files.
#include "base/checkpoint.h"

namespace npusim {

bool is_pytorch_file(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04")) return true;
  // A pickle names its protocol, 2 to 5, after the opcode 0x80.
  return bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

}  // namespace npusim
