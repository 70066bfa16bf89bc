// MessagePack in its one shortest form: a writer, and a strict reader that names the path of what it refuses.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npusim {

class PackWriter {
 public:
  void nil() { byte(0xc0); }
  void boolean(bool value) { byte(value ? 0xc3 : 0xc2); }
  void integer(int64_t value);
  void natural(uint64_t value);
  void number(double value);  // bit for bit, NaN too
  void text(std::string_view value);
  void bytes(std::span<const std::byte> value);
  void array(size_t count);
  void map(size_t count);
  std::string take() { return std::move(out_); }

 private:
  void byte(unsigned value) { out_.push_back(static_cast<char>(value)); }
  void big_endian(uint64_t value, int bytes);
  void header(size_t count, unsigned fixed, size_t fixed_limit, unsigned code8, unsigned code16);
  std::string out_;
};

// Throws bad_input for anything that PackWriter would not have written. Counts are bounded by the bytes that are left,
// so nothing is allocated that the input does not pay for.
class PackReader {
 public:
  PackReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool nil();  // consumes a nil if there is one
  bool boolean();
  int64_t integer(int64_t low, int64_t high);
  uint64_t natural(uint64_t high);
  double number();
  std::string_view text();  // valid UTF-8
  std::span<const std::byte> bytes();
  size_t array();
  size_t map();
  bool at_end() const { return at_ == bytes_.size(); }

  // Where the reader is, for messages: a field's name or an element's position.
  void enter(std::string_view field) { path_.push_back({field, 0}); }
  void enter(size_t element) { path_.push_back({{}, element}); }
  void leave() { path_.pop_back(); }
  // "FILE: kernels[3].space: expected …, found …"
  [[noreturn]] void mismatch(std::string_view expected, std::string_view found) const;

 private:
  struct PathPart {
    std::string_view field;
    size_t element = 0;
  };
  unsigned take_byte();
  uint64_t big_endian(int bytes);
  // Whether an integer comes next: sets its bits and sign.
  void any_integer(uint64_t& bits, bool& negative);
  size_t length(unsigned code, unsigned code8, unsigned code16, size_t fixed_limit);
  std::string_view raw(size_t count);

  std::string_view bytes_;
  size_t at_ = 0;
  const std::string& where_;
  std::vector<PathPart> path_;
};

}  // namespace npusim
