// Content hashes: names of kernels, checksums of files.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace npusim {

uint64_t hash_bytes(std::string_view bytes);   // XXH3, 64 bits
std::string hash_hex(std::string_view bytes);  // 16 lower-case hexadecimal digits

}  // namespace npusim
