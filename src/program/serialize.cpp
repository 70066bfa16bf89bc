// The .npubin file: "NPUSIM\0", version (u32), body size (u64), MessagePack body, XXH3 of all before it (u64); integers
// outside the body are little-endian.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/hash.h"
#include "program/fields.h"
#include "program/pack.h"
#include "program/without_code.h"

namespace npusim {
namespace {

constexpr std::string_view magic{"NPUSIM\0", 7};
constexpr size_t header_size = 7 + 4 + 8;

// How many fields a struct has.
struct Counter {
  size_t count = 0;
  template <typename T>
  void operator()(std::string_view, const T&) {
    ++count;
  }
  bool has(const std::vector<Variant>& variants) const { return !variants.empty(); }
};

template <typename T>
size_t field_count(const T& value) {
  Counter counter;
  fields(counter, value);
  return counter.count;
}

class Writer {
 public:
  template <typename T>
  void operator()(std::string_view name, const T& value) {
    if (named_) out_.text(name);
    put(value);
  }
  bool has(const std::vector<Variant>& variants) const { return !variants.empty(); }

  std::string take() { return out_.take(); }

  void put(bool value) { out_.boolean(value); }
  void put(double value) { out_.number(value); }
  void put(const std::string& value) { out_.text(value); }
  void put(const std::vector<std::byte>& value) { out_.bytes(value); }
  template <std::signed_integral T>
  void put(T value) {
    out_.integer(value);
  }
  template <std::unsigned_integral T>
  void put(T value) {
    out_.natural(value);
  }
  template <typename E>
  requires std::is_enum_v<E>
  void put(E value) { out_.natural(static_cast<uint64_t>(value)); }

  template <typename T>
  void put(const std::vector<T>& values) {
    out_.array(values.size());
    for (const T& value : values) put(value);
  }
  template <typename T, size_t N>
  void put(const std::array<T, N>& values) {
    out_.array(N);
    for (const T& value : values) put(value);
  }
  template <typename T>
  void put(const std::map<std::string, T>& values) {
    out_.map(values.size());
    for (const auto& [key, value] : values) {
      out_.text(key);
      put(value);
    }
  }
  template <typename T>
  void put(const std::shared_ptr<const T>& value) {
    if (value)
      put(*value);
    else
      out_.nil();
  }
  template <typename T>
  requires std::is_class_v<T>
  void put(const T& value) {
    const bool outer = named_;
    named_ = !is_compact<T>;
    if (named_)
      out_.map(field_count(value));
    else
      out_.array(field_count(value));
    fields(*this, value);
    named_ = outer;
  }

 private:
  PackWriter out_;
  bool named_ = true;
};

class Reader {
 public:
  Reader(std::string_view body, const std::string& where) : in_(body, where) {}
  bool at_end() const { return in_.at_end(); }

  template <typename T>
  void operator()(std::string_view name, T& value) {
    in_.enter(name);
    if (named_)
      if (const std::string_view key = in_.text(); key != name) in_.mismatch("this field", fmt::format("'{}'", key));
    get(value);
    in_.leave();
  }
  bool has(const std::vector<Variant>&) const { return variants_; }

  void get(bool& value) { value = in_.boolean(); }
  void get(double& value) { value = in_.number(); }
  void get(std::string& value) {
    value = in_.text();
    if (value.size() > most_text_bytes)
      in_.mismatch(fmt::format("text of at most {} bytes", most_text_bytes), fmt::format("{} bytes", value.size()));
  }
  void get(std::vector<std::byte>& value) {
    const auto bytes = in_.bytes();
    value.assign(bytes.begin(), bytes.end());
  }
  template <std::signed_integral T>
  void get(T& value) {
    value = static_cast<T>(in_.integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
  template <std::unsigned_integral T>
  void get(T& value) {
    value = static_cast<T>(in_.natural(std::numeric_limits<T>::max()));
  }
  template <typename E>
  requires std::is_enum_v<E>
  void get(E& value) { value = static_cast<E>(in_.natural(static_cast<uint64_t>(last_of<E>))); }

  // Elements are appended as they are read: memory grows with what the file really holds.
  template <typename T>
  void get(std::vector<T>& values) {
    const size_t count = in_.array();
    for (size_t i = 0; i < count; ++i) {
      in_.enter(i);
      get(values.emplace_back());
      in_.leave();
    }
  }
  template <typename T, size_t N>
  void get(std::array<T, N>& values) {
    expect_count(in_.array(), N);
    for (T& value : values) get(value);
  }
  template <typename T>
  void get(std::map<std::string, T>& values) {
    const size_t count = in_.map();
    for (size_t i = 0; i < count; ++i) {
      in_.enter(i);
      const std::string_view key = in_.text();
      if (!values.empty() && values.rbegin()->first >= key)
        in_.mismatch(fmt::format("a key after '{}'", values.rbegin()->first), fmt::format("'{}'", key));
      get(values.emplace_hint(values.end(), key, T{})->second);
      in_.leave();
    }
  }
  template <typename T>
  void get(std::shared_ptr<const T>& value) {
    if (in_.nil()) return;
    auto owned = std::make_shared<T>();
    get(*owned);
    value = std::move(owned);
  }
  template <typename T>
  requires std::is_class_v<T>
  void get(T& value) {
    if constexpr (std::same_as<T, Kernel> || std::same_as<T, Step>) check_cancelled();
    const bool outer = named_;
    named_ = !is_compact<T>;
    const size_t found = named_ ? in_.map() : in_.array(), expected = field_count(value);
    if constexpr (std::same_as<T, Program>) variants_ = found == expected + 1;
    expect_count(found, expected + (std::same_as<T, Program> && variants_));
    fields(*this, value);
    if constexpr (std::same_as<T, Program>)
      if (variants_ && value.variants.empty()) in_.mismatch("variants", "none");
    named_ = outer;
  }

 private:
  void expect_count(size_t found, size_t expected) {
    if (found != expected) in_.mismatch(fmt::format("{} fields", expected), std::to_string(found));
  }

  PackReader in_;
  bool named_ = true;
  bool variants_ = false;  // the program has the field
};

template <typename T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

template <typename T>
T little_endian(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

// The body, once everything around it is as it should be.
std::string_view check_envelope(std::string_view file, const std::string& where) {
  refuse_other_kinds(file, FileKind::program, where);
  if (!file.starts_with(magic))
    fail(ErrorKind::bad_input, "{}: expected a .npubin program, found another kind of file", where);
  if (file.size() < header_size + 8) fail(ErrorKind::bad_input, "{}: the program file is cut short", where);
  const auto version = little_endian<uint32_t>(file, magic.size());
  if (version != program_version)
    fail(ErrorKind::bad_input, "{}: expected program version {}, found {}: compile the model again", where,
         program_version, version);
  const auto size = little_endian<uint64_t>(file, magic.size() + 4);
  if (size != file.size() - header_size - 8)
    fail(ErrorKind::bad_input, "{}: expected a body of {} bytes, found {}", where, size, file.size() - header_size - 8);
  const auto checksum = little_endian<uint64_t>(file, file.size() - 8);
  if (const uint64_t found = hash_bytes(file.substr(0, file.size() - 8)); found != checksum)
    fail(ErrorKind::bad_input, "{}: the program file is damaged: expected checksum {:016x}, found {:016x}", where,
         checksum, found);
  return file.substr(header_size, size);
}

}  // namespace

std::string serialize(const Program& program) {
  Writer writer;
  writer.put(program);
  const std::string body = writer.take();
  std::string file(magic);
  append_little_endian(file, program_version);
  append_little_endian(file, static_cast<uint64_t>(body.size()));
  file += body;
  append_little_endian(file, hash_bytes(file));
  return file;
}

Program deserialize(std::string_view bytes, const std::string& where) {
  Reader reader(check_envelope(bytes, where), where);
  Program program;
  reader.get(program);
  if (!reader.at_end()) fail(ErrorKind::bad_input, "{}: expected the end of the program, found more data", where);
  const std::vector<std::string> problems = check_program(program);
  if (problems.empty()) return program;
  std::vector<Problem> list;
  for (const std::string& problem : problems) list.push_back({where, problem});
  throw Error(ErrorKind::bad_input, std::move(list));
}

std::shared_ptr<const Program> parse_program(std::string_view bytes, const std::string& where,
                                             const LoadOptions& options) {
  auto program = std::make_shared<Program>(deserialize(bytes, where));
  std::vector<std::string> ignored;
  if (!options.code) leave_out_code(*program, options.notes ? *options.notes : ignored);
  return program;
}

std::shared_ptr<const Program> load_program(const std::string& path, const LoadOptions& options) {
  return parse_program(read_file(path), path == "-" ? "standard input" : path, options);
}

void save_program(const Program& program, const std::string& path) {
  // What could not be loaded again is not written.
  if (const std::vector<std::string> problems = check_program(program); !problems.empty())
    fail(ErrorKind::internal, "the compiled program is not sound: {}", fmt::join(problems, "; "));
  write_file(path, serialize(program));
}

}  // namespace npusim
