// Reading and writing of safetensors: u64 header length, JSON header, data.
#include "runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/json.h"
#include "base/utf8.h"

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and used in place");

namespace npusim {
namespace {

using nlohmann::json;

constexpr uint64_t header_limit = 100'000'000;  // bytes; the reference implementation's limit

constexpr std::array<std::string_view, dtype_count> file_names = {"BOOL", "U8",  "I8",   "I16", "I32",
                                                                  "I64",  "F16", "BF16", "F32", "F64"};

std::optional<DType> parse_file_dtype(std::string_view name) {
  const auto found = std::find(file_names.begin(), file_names.end(), name);
  if (found == file_names.end()) return std::nullopt;
  return static_cast<DType>(found - file_names.begin());
}

struct ParsedObject {
  json root;
  std::vector<std::string> keys;  // of the root, in the order of the text
};

// Parses a JSON object; two equal keys in one object of its first two levels throw.
ParsedObject parse_object(std::string_view text, const std::string& what) {
  ParsedObject result;
  std::unordered_set<std::string> seen_keys, seen_fields;
  result.root = parse_json(text, what, [&](int depth, const std::string& key) {
    if (depth == 1) {
      if (!seen_keys.insert(key).second) fail(ErrorKind::bad_input, "{}: duplicate name {}", what, json_quoted(key));
      seen_fields.clear();
      result.keys.push_back(key);
    } else if (depth == 2 && !result.keys.empty() && !seen_fields.insert(key).second) {  // no keys: a list of objects
      fail(ErrorKind::bad_input, "{}: {}: duplicate name {}", what, json_quoted(result.keys.back()), json_quoted(key));
    }
  });
  if (!result.root.is_object()) {
    fail(ErrorKind::bad_input, "{}: expected a JSON object, found {}", what, json_found(result.root));
  }
  return result;
}

const json& field(const json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end()) fail(ErrorKind::bad_input, "{}: missing \"{}\"", where, key);
  return *it;
}

int64_t natural(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX})
    fail(ErrorKind::bad_input, "{}: expected an integer from 0 to 2^63-1, found {}", where, json_found(value));
  return value.get<int64_t>();
}

struct ByteRange {
  uint64_t begin = 0, end = 0;  // in bytes from the start of the data
};

ByteRange parse_range(const json& info, const std::string& where, uint64_t data_size) {
  const json& offsets = field(info, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2)
    fail(ErrorKind::bad_input, "{}: data_offsets: expected [begin, end], found {}", where,
         offsets.is_array() ? fmt::format("{} elements", offsets.size()) : json_found(offsets));
  const ByteRange range = {static_cast<uint64_t>(natural(offsets[0], where + ": data_offsets[0]")),
                           static_cast<uint64_t>(natural(offsets[1], where + ": data_offsets[1]"))};
  if (range.begin > range.end)
    fail(ErrorKind::bad_input, "{}: data_offsets [{}, {}]: begin is beyond end", where, range.begin, range.end);
  if (range.end > data_size)
    fail(ErrorKind::bad_input, "{}: data_offsets [{}, {}] are beyond the file's {} bytes of data", where, range.begin,
         range.end, data_size);
  return range;
}

Shape parse_shape(const json& info, const std::string& where) {
  const json& extents = field(info, "shape", where);
  if (!extents.is_array())
    fail(ErrorKind::bad_input, "{}: shape: expected an array, found {}", where, json_found(extents));
  Shape shape;
  for (size_t i = 0; i < extents.size(); ++i)
    shape.push_back(natural(extents[i], fmt::format("{}: shape[{}]", where, i)));
  return shape;
}

// The entry without its data pointer, and where its data is.
std::pair<TensorEntry, ByteRange> parse_entry(const std::string& name, const json& info, const std::string& where,
                                              uint64_t data_size) {
  if (!info.is_object()) fail(ErrorKind::bad_input, "{}: expected an object, found {}", where, json_found(info));
  const json& dtype_text = field(info, "dtype", where);
  if (!dtype_text.is_string())
    fail(ErrorKind::bad_input, "{}: dtype: expected a string, found {}", where, json_found(dtype_text));
  if (dtype_text.get_ref<const std::string&>().empty())
    fail(ErrorKind::bad_input, "{}: dtype: expected a name, found an empty one", where);
  TensorEntry entry;
  entry.name = name;
  entry.tensor.type.shape = parse_shape(info, where);
  const ByteRange range = parse_range(info, where, data_size);
  const auto dtype = parse_file_dtype(dtype_text.get_ref<const std::string&>());
  if (!dtype) {
    entry.unknown_dtype = dtype_text.get<std::string>();
    return {std::move(entry), range};
  }
  entry.tensor.type.dtype = *dtype;
  uint64_t expected = 0;
  try {
    expected = byte_size(entry.tensor.type);
  } catch (const Error& e) {
    fail(ErrorKind::bad_input, "{}: {}", where, e.what());
  }
  if (range.end - range.begin != expected)
    fail(ErrorKind::bad_input, "{}: {} needs {} bytes, data_offsets [{}, {}] give {}", where,
         to_string(entry.tensor.type), expected, range.begin, range.end, range.end - range.begin);
  return {std::move(entry), range};
}

// Requires the ranges to tile [0, data_size) exactly; zero-size ranges may stand at any boundary.
void check_cover(const std::vector<TensorEntry>& entries, const std::vector<ByteRange>& ranges, uint64_t data_size,
                 const std::string& origin) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(ranges[a].begin, ranges[a].end, a) < std::tie(ranges[b].begin, ranges[b].end, b);
  });
  uint64_t reached = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const ByteRange& range = ranges[order[k]];
    const std::string name = json_quoted(entries[order[k]].name);
    if (range.begin < reached)
      fail(ErrorKind::bad_input, "{}: tensor {} at [{}, {}] overlaps tensor {}, which ends at {}", origin, name,
           range.begin, range.end, json_quoted(entries[order[k - 1]].name), reached);
    if (range.begin > reached)
      fail(ErrorKind::bad_input, "{}: bytes [{}, {}] before tensor {} belong to no tensor", origin, reached,
           range.begin, name);
    reached = range.end;
  }
  if (reached != data_size)
    fail(ErrorKind::bad_input, "{}: the tensors end at byte {} of {} bytes of data", origin, reached, data_size);
}

std::map<std::string, std::string> parse_metadata(const json& value, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::bad_input, "{}: expected an object, found {}", where, json_found(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(ErrorKind::bad_input, "{}: {}: expected a string, found {}", where, json_quoted(key), json_found(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& origin) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    fail(ErrorKind::bad_input, "{}: not a safetensors file: expected 8 bytes of header length, found {} bytes", origin,
         bytes.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > header_limit)
    fail(ErrorKind::bad_input, "{}: not a safetensors file: header length {} is over the limit of {}", origin, length,
         header_limit);
  if (length > bytes.size() - sizeof length)
    fail(ErrorKind::bad_input, "{}: the file is cut: header length {}, but {} bytes follow", origin, length,
         bytes.size() - sizeof length);
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof length, static_cast<size_t>(length)};
}

std::string header_of(std::span<const NamedTensor> tensors, const std::vector<uint64_t>& begins,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json_text(json(metadata)) + ",";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [dtype, shape] = tensors[i].tensor.type;
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}},)", json_quoted(tensors[i].name),
                        file_names[static_cast<size_t>(dtype)], json_text(json(shape)), begins[i],
                        begins[i] + byte_size(tensors[i].tensor.type));
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  return text;
}

void check_header(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata,
                  const std::string& path) {
  bool readable = true;
  for (const auto& [key, text] : metadata) readable = readable && is_utf8(key) && is_utf8(text);
  std::set<std::string_view> names = {"__metadata__"};
  for (const auto& [name, tensor] : tensors) {
    readable = readable && is_utf8(name);
    if (!names.insert(name).second)
      fail(ErrorKind::bad_input, "cannot write {}: {} tensor name {}", path,
           name == "__metadata__" ? "reserved" : "duplicate", json_quoted(name));
  }
  if (!readable) fail(ErrorKind::bad_input, "cannot write {}: a tensor name or metadata text is not UTF-8", path);
}

// A file in memory: its head, and views of the data behind that.
struct SafetensorsBytes {
  std::string path;
  std::string head;
  std::vector<std::span<const std::byte>> data;
};

SafetensorsBytes safetensors_bytes(const std::string& path, std::span<const NamedTensor> tensors,
                                   const std::map<std::string, std::string>& metadata = {}) {
  check_header(tensors, metadata, path);
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return dtype_size(tensors[a].tensor.type.dtype) > dtype_size(tensors[b].tensor.type.dtype);
  });
  std::vector<uint64_t> begins(tensors.size());
  SafetensorsBytes file{path, {}, {}};
  uint64_t end = 0;
  for (size_t i : order) {
    begins[i] = end;
    file.data.emplace_back(tensors[i].tensor.data, byte_size(tensors[i].tensor.type));
    end += file.data.back().size();
  }
  const std::string header = header_of(tensors, begins, metadata);
  const uint64_t length = header.size();
  file.head.assign(reinterpret_cast<const char*>(&length), sizeof length).append(header);
  return file;
}

OutputFile output_file(const SafetensorsBytes& bytes) {
  OutputFile file{bytes.path, {std::as_bytes(std::span(bytes.head))}};
  file.parts.insert(file.parts.end(), bytes.data.begin(), bytes.data.end());
  return file;
}

}  // namespace

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin) {
  refuse_other_kinds({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, FileKind::tensors, origin);
  const std::string_view text = header_text(bytes, origin);
  const std::span<const std::byte> data = bytes.subspan(sizeof(uint64_t) + text.size());
  const ParsedObject header = parse_object(text, origin + ": safetensors header");
  Safetensors result;
  std::vector<ByteRange> ranges;
  for (const std::string& name : header.keys) {
    const json& info = header.root.at(name);
    if (name == "__metadata__") {
      result.metadata = parse_metadata(info, origin + ": __metadata__");
      continue;
    }
    auto [entry, range] = parse_entry(name, info, fmt::format("{}: tensor {}", origin, json_quoted(name)), data.size());
    if (entry.unknown_dtype.empty()) entry.tensor.data = data.data() + range.begin;
    result.entries.push_back(std::move(entry));
    ranges.push_back(range);
  }
  check_cover(result.entries, ranges, data.size(), origin);
  return result;
}

std::vector<std::pair<std::string, std::string>> parse_safetensors_index(std::string_view text,
                                                                         const std::string& origin) {
  const json root = parse_object(text, origin).root;
  const json& map = field(root, "weight_map", origin);
  if (!map.is_object())
    fail(ErrorKind::bad_input, "{}: weight_map: expected an object, found {}", origin, json_found(map));
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, file] : map.items()) {
    const std::string where = fmt::format("{}: weight_map: tensor {}", origin, json_quoted(name));
    if (!file.is_string()) fail(ErrorKind::bad_input, "{}: expected a file name, found {}", where, json_found(file));
    const auto& file_name = file.get_ref<const std::string&>();
    if (file_name.empty() || file_name == "." || file_name == ".." ||
        file_name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      fail(ErrorKind::bad_input, "{}: expected a plain file name, found {}", where, json_quoted(file_name));
    result.emplace_back(name, file_name);
  }
  return result;
}

void save_files(const std::vector<NewFile>& files, const std::vector<std::string>& stale) {
  std::vector<SafetensorsBytes> tensors;
  tensors.reserve(files.size());  // what is written views them
  std::vector<OutputFile> outputs;
  for (const NewFile& file : files) {
    if (const auto* text = std::get_if<std::string>(&file.what)) {
      outputs.push_back(output_file(file.path, *text));
    } else {
      tensors.push_back(safetensors_bytes(file.path, std::get<std::vector<NamedTensor>>(file.what)));
      outputs.push_back(output_file(tensors.back()));
    }
  }
  write_files(outputs, stale);
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const SafetensorsBytes bytes = safetensors_bytes(path, tensors, metadata);
  const OutputFile file = output_file(bytes);
  write_files({&file, 1});
}

}  // namespace npusim
