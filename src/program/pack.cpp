// Encoding and decoding of MessagePack values.
#include "program/pack.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"

namespace npusim {
namespace {

std::string_view kind_of(unsigned code) {
  if (code < 0x80 || code >= 0xe0 || (code >= 0xcc && code <= 0xd3)) return "an integer";
  if (code < 0x90 || code == 0xde || code == 0xdf) return "a map";
  if (code < 0xa0 || code == 0xdc || code == 0xdd) return "an array";
  if (code < 0xc0 || (code >= 0xd9 && code <= 0xdb)) return "text";
  if (code == 0xc0) return "nil";
  if (code == 0xc2 || code == 0xc3) return "a boolean";
  if (code >= 0xc4 && code <= 0xc6) return "bytes";
  if (code == 0xca || code == 0xcb) return "a number";
  return "an unknown type";
}

}  // namespace

void PackWriter::big_endian(uint64_t value, int bytes) {
  while (bytes-- > 0) byte(static_cast<unsigned>(value >> (8 * bytes)) & 0xff);
}

void PackWriter::natural(uint64_t value) {
  if (value < 0x80) return byte(static_cast<unsigned>(value));
  const int log = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
  byte(0xccu + static_cast<unsigned>(log));
  big_endian(value, 1 << log);
}

void PackWriter::integer(int64_t value) {
  if (value >= 0) return natural(static_cast<uint64_t>(value));
  if (value >= -32) return byte(static_cast<unsigned>(value & 0xff));
  const int log = value >= INT8_MIN ? 0 : value >= INT16_MIN ? 1 : value >= INT32_MIN ? 2 : 3;
  byte(0xd0u + static_cast<unsigned>(log));
  big_endian(static_cast<uint64_t>(value), 1 << log);
}

void PackWriter::number(double value) {
  byte(0xcb);
  big_endian(std::bit_cast<uint64_t>(value), 8);
}

// A count in the code itself, or after it in 8 (where the type has that form), 16 or 32 bits.
void PackWriter::header(size_t count, unsigned fixed, size_t fixed_limit, unsigned code8, unsigned code16) {
  if (count < fixed_limit) return byte(fixed + static_cast<unsigned>(count));
  if (code8 && count <= 0xff) {
    byte(code8);
    return big_endian(count, 1);
  }
  if (count > 0xffffffff) fail(ErrorKind::unsupported, "a program file holds no item of {} elements", count);
  byte(count <= 0xffff ? code16 : code16 + 1);
  big_endian(count, count <= 0xffff ? 2 : 4);
}

void PackWriter::text(std::string_view value) {
  header(value.size(), 0xa0, 32, 0xd9, 0xda);
  out_.append(value);
}

void PackWriter::bytes(std::span<const std::byte> value) {
  header(value.size(), 0, 0, 0xc4, 0xc5);
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void PackWriter::array(size_t count) { header(count, 0x90, 16, 0, 0xdc); }
void PackWriter::map(size_t count) { header(count, 0x80, 16, 0, 0xde); }

void PackReader::mismatch(std::string_view expected, std::string_view found) const {
  std::string path;
  for (const PathPart& part : path_) {
    if (part.field.empty())
      path += fmt::format("[{}]", part.element);
    else
      path += fmt::format("{}{}", path.empty() ? "" : ".", part.field);
  }
  fail(ErrorKind::bad_input, "{}: {}: expected {}, found {}", where_, path.empty() ? "body" : path, expected, found);
}

unsigned PackReader::take_byte() {
  if (at_end()) mismatch("more data", "the end of the program");
  return static_cast<unsigned char>(bytes_[at_++]);
}

uint64_t PackReader::big_endian(int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | take_byte();
  return value;
}

std::string_view PackReader::raw(size_t count) {
  if (count > bytes_.size() - at_) mismatch(fmt::format("{} bytes", count), fmt::format("{}", bytes_.size() - at_));
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

bool PackReader::nil() {
  if (at_end() || static_cast<unsigned char>(bytes_[at_]) != 0xc0) return false;
  ++at_;
  return true;
}

bool PackReader::boolean() {
  const unsigned code = take_byte();
  if (code != 0xc2 && code != 0xc3) mismatch("a boolean", kind_of(code));
  return code == 0xc3;
}

void PackReader::any_integer(uint64_t& bits, bool& negative) {
  const unsigned code = take_byte();
  negative = false;
  if (code < 0x80) {
    bits = code;
  } else if (code >= 0xe0) {
    bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(code)));
    negative = true;
  } else if (code >= 0xcc && code <= 0xcf) {
    constexpr uint64_t below[] = {0x80, 0x100, 0x10000, 0x100000000};
    bits = big_endian(1 << (code - 0xcc));
    if (bits < below[code - 0xcc]) mismatch("an integer in its shortest form", "a longer one");
  } else if (code >= 0xd0 && code <= 0xd3) {
    constexpr int64_t above[] = {-32, INT8_MIN, INT16_MIN, INT32_MIN};
    const int size = 1 << (code - 0xd0);
    const int64_t value = static_cast<int64_t>(big_endian(size) << (64 - 8 * size)) >> (64 - 8 * size);
    if (value >= above[code - 0xd0]) mismatch("an integer in its shortest form", "a longer one");
    bits = static_cast<uint64_t>(value);
    negative = true;
  } else {
    mismatch("an integer", kind_of(code));
  }
}

int64_t PackReader::integer(int64_t low, int64_t high) {
  uint64_t bits = 0;
  bool negative = false;
  any_integer(bits, negative);
  const auto value = static_cast<int64_t>(bits);
  if ((!negative && value < 0) || value < low || value > high)
    mismatch(fmt::format("{} to {}", low, high), negative ? std::to_string(value) : std::to_string(bits));
  return value;
}

uint64_t PackReader::natural(uint64_t high) {
  uint64_t bits = 0;
  bool negative = false;
  any_integer(bits, negative);
  if (negative || bits > high)
    mismatch(fmt::format("0 to {}", high),
             negative ? std::to_string(static_cast<int64_t>(bits)) : std::to_string(bits));
  return bits;
}

double PackReader::number() {
  const unsigned code = take_byte();
  if (code != 0xcb) mismatch("a number", kind_of(code));
  return std::bit_cast<double>(big_endian(8));
}

// The count that belongs to `code`: within it, or in 8, 16 or 32 bits after it.
size_t PackReader::length(unsigned code, unsigned code8, unsigned code16, size_t fixed_limit) {
  const int size = code == code8 ? 1 : code == code16 ? 2 : 4;
  const size_t count = big_endian(size);
  const size_t smallest = size == 4 ? 0x10000 : size == 2 && code8 ? 0x100 : fixed_limit;
  if (count < smallest) mismatch("a count in its shortest form", "a longer one");
  if (count > bytes_.size() - at_)
    mismatch(fmt::format("at most {} elements (the bytes left)", bytes_.size() - at_), std::to_string(count));
  return count;
}

std::string_view PackReader::text() {
  const unsigned code = take_byte();
  size_t count = code - 0xa0;
  if (code < 0xa0 || code >= 0xc0) {
    if (code < 0xd9 || code > 0xdb) mismatch("text", kind_of(code));
    count = length(code, 0xd9, 0xda, 32);
  }
  const std::string_view value = raw(count);
  if (!is_utf8(value)) mismatch("UTF-8 text", "other bytes");
  return value;
}

std::span<const std::byte> PackReader::bytes() {
  const unsigned code = take_byte();
  if (code < 0xc4 || code > 0xc6) mismatch("bytes", kind_of(code));
  const std::string_view value = raw(length(code, 0xc4, 0xc5, 0));
  return std::as_bytes(std::span(value));
}

size_t PackReader::array() {
  const unsigned code = take_byte();
  if (code >= 0x90 && code < 0xa0) return code - 0x90;
  if (code != 0xdc && code != 0xdd) mismatch("an array", kind_of(code));
  return length(code, 0, 0xdc, 16);
}

size_t PackReader::map() {
  const unsigned code = take_byte();
  if (code >= 0x80 && code < 0x90) return code - 0x80;
  if (code != 0xde && code != 0xdf) mismatch("a map", kind_of(code));
  return length(code, 0, 0xde, 16);
}

}  // namespace npusim
