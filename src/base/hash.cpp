// XXH3 behind a narrow interface.
#include "base/hash.h"

#include <fmt/core.h>
#include <xxhash.h>

namespace npusim {

uint64_t hash_bytes(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::string hash_hex(std::string_view bytes) { return fmt::format("{:016x}", hash_bytes(bytes)); }

}  // namespace npusim
