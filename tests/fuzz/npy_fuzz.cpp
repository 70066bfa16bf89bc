// Fuzzes the .npy reader: a hostile file gives an Error or a tensor of exactly the bytes that its type needs.
#include <cstdlib>

#include "base/error.h"
#include "runtime/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npusim;
  try {
    const HostTensor tensor = parse_npy(std::as_bytes(std::span(data, size)), "fuzz", DType::bf16);
    if (tensor.data.size() != byte_size(tensor.type)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
