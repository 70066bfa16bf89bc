// NumPy's .npy files (versions 1 to 3): reading into owned row-major tensors. The writer is
// npusim/tensor_set.h's.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "npusim/tensor_set.h"

namespace npusim {

// Parses one file's bytes: descr |b1 |u1 |i1 <i2 <i4 <i8 <f2 <f4 <f8, in C or Fortran order (which is converted).
// NumPy has no bfloat16 and stores it as two raw bytes, V2, which says nothing of their meaning: it is read only when
// the caller declares it with `void16` = DType::bf16. `origin` names the file in errors.
// Throws bad_input for a malformed file, unsupported for a well-formed one with another element type.
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& origin,
                     std::optional<DType> void16 = std::nullopt);
// As parse_npy, from a file; "-" reads standard input.
HostTensor read_npy(const std::string& path, std::optional<DType> void16 = std::nullopt);

}  // namespace npusim
