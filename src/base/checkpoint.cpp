// The first bytes of PyTorch's files.
#include "base/checkpoint.h"

namespace npusim {

bool is_pytorch_file(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04")) return true;
  // A pickle names its protocol, 2 to 5, after the opcode 0x80: so may the length at the start of a .safetensors file,
  // but its ninth byte is the brace that opens the header.
  const bool safetensors = bytes.size() > 8 && bytes[8] == '{';
  return !safetensors && bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

}  // namespace npusim
