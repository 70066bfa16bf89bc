// Fuzzes the safetensors reader: a hostile file or index gives an Error, and every byte of an accepted one is readable.
#include <cstdlib>

#include "base/error.h"
#include "runtime/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npusim;
  try {
    size_t read = 0;
    for (const TensorEntry& entry : parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz").entries)
      if (entry.tensor.data) read += copy_tensor(entry.tensor).data.size();
    if (read > size) std::abort();  // tensors do not overlap
  } catch (const Error&) {
  }
  try {
    parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
