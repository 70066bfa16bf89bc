// Reading and writing of .npy: magic, version, header length, a Python dict literal, data.
#include "runtime/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and copied as they are");

namespace npusim {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr size_t header_limit = 1 << 20;  // bytes; a header of ours has 128
constexpr size_t rank_limit = 64;         // NumPy's own

// NumPy's type codes without the byte order, in the order of DType.
constexpr std::array<std::string_view, dtype_count> codes = {"b1", "u1", "i1", "i2", "i4",
                                                             "i8", "f2", "V2", "f4", "f8"};

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// Reads the dict literal, of which NumPy writes one form only: string keys, and a string, a bool and a tuple of
// non-negative integers as values.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  Header parse() {
    Header header;
    std::array<bool, 3> seen = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      const size_t which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      if (which == 3) fail(ErrorKind::bad_input, "{}: npy header: unknown key '{}'", origin_, printable(key));
      if (seen[which]) fail(ErrorKind::bad_input, "{}: npy header: duplicate key '{}'", origin_, key);
      seen[which] = true;
      expect(':');
      if (which == 0) header.descr = descr();
      if (which == 1) header.fortran_order = boolean();
      if (which == 2) header.shape = tuple();
      if (accept('}')) break;
      expect(',');
    }
    skip_space();
    if (at_ != text_.size()) stop("the end of the header");
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i])
        fail(ErrorKind::bad_input, "{}: npy header: missing key '{}'", origin_,
             std::array{"descr", "fortran_order", "shape"}[i]);
    return header;
  }

 private:
  static std::string printable(std::string_view text) {
    std::string result;
    for (char c : text) result += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", c & 0xff);
    return result;
  }
  [[noreturn]] void stop(std::string_view expected) {
    fail(ErrorKind::bad_input, "{}: npy header: expected {} at byte {}, found {}", origin_, expected, at_,
         at_ < text_.size() ? "'" + printable(text_.substr(at_, 1)) + "'" : "the end of the header");
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) stop(fmt::format("'{}'", c));
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') stop("a string");
    const size_t end = text_.find(quote, at_ + 1);
    const std::string value(text_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1));
    if (end == std::string_view::npos || value.find('\\') != std::string::npos) stop("a string without escapes");
    at_ = end + 1;
    return value;
  }
  std::string descr() {
    if (accept('[')) fail(ErrorKind::unsupported, "{}: npy arrays of records are not supported", origin_);
    return printable(string());
  }
  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    stop("True or False");
  }
  int64_t integer() {
    skip_space();
    if (at_ == text_.size() || text_[at_] < '0' || text_[at_] > '9') stop("a non-negative integer");
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        stop("an integer below 2^63");
    return value;
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == rank_limit) stop(fmt::format("at most {} dimensions", rank_limit));
      shape.push_back(integer());
      if (accept(',')) continue;
      if (shape.size() == 1) stop("','");  // (3) is no tuple
      expect(')');
      break;
    }
    return shape;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t at_ = 0;
};

DType parse_descr(const std::string& descr, const std::string& origin, std::optional<DType> void16) {
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view code = std::string_view(descr).substr(std::min<size_t>(descr.size(), 1));
  const auto known = std::find(codes.begin(), codes.end(), code);
  const DType dtype = known == codes.end() ? DType::boolean : static_cast<DType>(known - codes.begin());
  const bool order_free = dtype_size(dtype) == 1 || dtype == DType::bf16;
  if (known == codes.end() || (order != '<' && !(order == '|' && order_free)))
    fail(ErrorKind::unsupported,
         "{}: npy element type '{}' is not supported (supported: |b1 |u1 |i1 <i2 <i4 <i8 <f2 <f4 <f8, and |V2 declared "
         "as bfloat16)",
         origin, descr);
  if (dtype == DType::bf16 && void16 != DType::bf16)
    fail(ErrorKind::bad_input, "{}: npy element type '{}' is 2 raw bytes, which only a bfloat16 input takes", origin,
         descr);
  return dtype;
}

// The header's text and the data behind it.
std::pair<std::string_view, std::span<const std::byte>> split_header(std::span<const std::byte> bytes,
                                                                     const std::string& origin) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  refuse_other_kinds(text, FileKind::npy, origin);
  if (!text.starts_with(magic))
    fail(ErrorKind::bad_input, "{}: not a .npy file: expected \\x93NUMPY at its start", origin);
  if (text.size() < 8) fail(ErrorKind::bad_input, "{}: the file is cut: no .npy version", origin);
  const int major = text[6] & 0xff, minor = text[7] & 0xff;
  if (major < 1 || major > 3 || minor != 0)
    fail(ErrorKind::unsupported, "{}: .npy version {}.{} is not supported (supported: 1.0, 2.0, 3.0)", origin, major,
         minor);
  const size_t width = major == 1 ? 2 : 4, start = 8 + width;
  if (text.size() < start) fail(ErrorKind::bad_input, "{}: the file is cut: no .npy header length", origin);
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, width);
  if (length > header_limit)
    fail(ErrorKind::bad_input, "{}: npy header length {} is over the limit of {}", origin, length, header_limit);
  if (length > text.size() - start)
    fail(ErrorKind::bad_input, "{}: the file is cut: npy header length {}, but {} bytes follow", origin, length,
         text.size() - start);
  return {text.substr(start, length), bytes.subspan(start + length)};
}

// Copies column-major elements of `size` bytes to row-major order.
void copy_fortran(const std::byte* source, const Shape& shape, size_t size, std::byte* target) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> index(shape.size()), strides(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * std::max<int64_t>(shape[i - 1], 1);
  int64_t from = 0;
  for (int64_t to = 0; to < count; ++to) {
    std::memcpy(target + static_cast<size_t>(to) * size, source + static_cast<size_t>(from) * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

std::string header_of(const TensorType& type) {
  std::string shape;
  for (int64_t extent : type.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
  if (type.shape.size() == 1) shape += ",";
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                  dtype_size(type.dtype) == 1 ? '|' : '<', codes[static_cast<size_t>(type.dtype)], shape);
  // NumPy leaves room for the first extent to grow to 21 digits, then makes the data start at a multiple of 64.
  if (!type.shape.empty()) text.append(21 - std::to_string(type.shape[0]).size(), ' ');
  const size_t prefix = magic.size() + 4;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  return text + "\n";
}

}  // namespace

HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& origin, std::optional<DType> void16) {
  const auto [text, data] = split_header(bytes, origin);
  Header header = HeaderParser(text, origin).parse();
  const TensorType type = {parse_descr(header.descr, origin, void16), std::move(header.shape)};
  size_t expected = 0;
  try {
    expected = byte_size(type);
  } catch (const Error& e) {
    fail(ErrorKind::bad_input, "{}: npy header: {}", origin, e.what());
  }
  if (data.size() != expected)
    fail(ErrorKind::bad_input, "{}: {} needs {} bytes of data, found {}", origin, to_string(type), expected,
         data.size());
  HostTensor tensor = make_tensor(type);
  if (header.fortran_order)
    copy_fortran(data.data(), type.shape, dtype_size(type.dtype), tensor.data.data());
  else if (expected > 0)
    std::memcpy(tensor.data.data(), data.data(), expected);
  return tensor;
}

HostTensor read_npy(const std::string& path, std::optional<DType> void16) {
  const std::string text = read_file(path);
  return parse_npy(std::as_bytes(std::span(text)), path, void16);
}

void write_npy(const std::string& path, const TensorView& tensor) {
  const std::string header = header_of(tensor.type);
  if (header.size() > UINT16_MAX)
    fail(ErrorKind::bad_input, "cannot write {}: rank {} is too large for a .npy file", path, tensor.type.shape.size());
  const std::string prefix = std::string(magic) + std::string("\x01\x00", 2) + static_cast<char>(header.size() & 0xff) +
                             static_cast<char>(header.size() >> 8);
  const std::array parts = {std::as_bytes(std::span(prefix)), std::as_bytes(std::span(header)),
                            std::span(tensor.data, byte_size(tensor.type))};
  write_file(path, parts);
}

}  // namespace npusim
