// Reads the files of tests/ops/golden: finds by their text what is of an operator, once in a process, and parses that.
#include "ops/goldens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "runtime/safetensors.h"

namespace npusim::test {
namespace {

namespace fs = std::filesystem;

struct Family {
  MappedFile json;
  std::string tensor_file;
  std::optional<MappedFile> tensors;  // from the first use on
};

struct Place {
  Family* family = nullptr;
  std::string_view samples;               // the list
  std::vector<std::string_view> tensors;  // of the header: "op/sample/name":{...}
};

struct Goldens {
  std::map<std::string, Family> families;
  std::map<std::string, Place, std::less<>> ops;
};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// A line that begins with a quote names an operator, whose samples end with a line that begins with a bracket.
void find_samples(Goldens& goldens, Family& family) {
  const std::string_view text = text_of(family.json);
  for (size_t at = 0; (at = text.find("\n\"", at)) != std::string_view::npos;) {
    const size_t name = at + 2, name_end = text.find("\":[\n", name);
    at = text.find("\n]", std::min(name_end, text.size()));
    if (at == std::string_view::npos) fail(ErrorKind::bad_input, "{}: the file is cut", family.json.path());
    const size_t begin = name_end + 2;
    const auto [place, fresh] = goldens.ops.try_emplace(std::string(text.substr(name, name_end - name)));
    if (!fresh) fail(ErrorKind::bad_input, "{}: {} is in two places", family.json.path(), place->first);
    place->second = {&family, text.substr(begin, at + 2 - begin), {}};
  }
}

Goldens& goldens() {
  static Goldens all = [] {
    Goldens found;
    for (const auto& entry : fs::directory_iterator(fs::path(NPUSIM_SOURCE_DIR) / "tests/ops/golden")) {
      fs::path path = entry.path();
      if (path.extension() != ".json") continue;
      Family family{MappedFile(path.string()), path.replace_extension(".safetensors").string(), {}};
      find_samples(found, found.families.emplace(path.stem().string(), std::move(family)).first->second);
    }
    return found;
  }();
  return all;
}

// What follows the header's length: the header, and the data.
std::pair<std::string_view, std::string_view> parts_of(const MappedFile& file) {
  const std::string_view text = text_of(file);
  uint64_t length = 0;
  if (text.size() >= sizeof length) std::memcpy(&length, text.data(), sizeof length);
  if (length == 0 || length > text.size() - sizeof length)
    fail(ErrorKind::bad_input, "{}: the file is cut", file.path());
  return {text.substr(sizeof length, length), text.substr(sizeof length + length)};
}

// An entry ends with its data_offsets, which the format's own library writes last.
void find_tensors(Goldens& goldens, const Family& family) {
  const std::string_view header = parts_of(*family.tensors).first;
  size_t at = 1;
  for (size_t end; (end = header.find("]}", at)) != std::string_view::npos; at = end + 3) {
    const std::string_view entry = header.substr(at, end + 2 - at);
    const auto found = goldens.ops.find(entry.substr(1, entry.find('/') - 1));
    if (found == goldens.ops.end() || found->second.family != &family)
      fail(ErrorKind::bad_input, "{}: of no operator of the family: {:.60}", family.tensor_file, entry);
    found->second.tensors.push_back(entry);
  }
}

// Bare NaN and Infinity, which Python writes, become the strings that import reads as numbers.
std::string quoted_numbers(std::string text) {
  for (const std::string_view bare : {"-Infinity", "Infinity", "NaN"})
    for (size_t at = 1; (at = text.find(bare, at)) != std::string::npos; at += bare.size()) {
      const char before = text[at - 1], after = text[at + bare.size()];
      if ((before != ':' && before != '[' && before != ',') || (after != ',' && after != '}' && after != ']')) continue;
      text.insert(at + bare.size(), 1, '"').insert(at, 1, '"');
    }
  return text;
}

}  // namespace

std::vector<std::string> golden_ops() {
  std::vector<std::string> names;
  for (const auto& [name, place] : goldens().ops) names.push_back(name);
  return names;
}

std::vector<GoldenSample> golden_samples(const std::string& op) {
  std::vector<GoldenSample> samples;
  const auto found = goldens().ops.find(op);
  if (found == goldens().ops.end()) return samples;
  for (auto& sample : nlohmann::json::parse(quoted_numbers(std::string(found->second.samples)))) {
    const auto name = sample.at("name").get<std::string>();
    samples.push_back({name, fmt::format("{}/{}/", op, name), std::move(sample.at("ir"))});
  }
  return samples;
}

std::shared_ptr<const TensorSet> golden_tensors(const std::string& op) {
  const Place& place = goldens().ops.at(op);
  Family& family = *place.family;
  if (!family.tensors) {
    family.tensors.emplace(family.tensor_file);
    find_tensors(goldens(), family);
  }
  const std::string_view data = parts_of(*family.tensors).second;
  // The operator's tensors as a file of their own, for the one reader of such files.
  nlohmann::json header = nlohmann::json::parse(fmt::format("{{{}}}", fmt::join(place.tensors, ",")));
  std::string mine;
  for (auto& info : header) {
    const auto [begin, end] = info.at("data_offsets").get<std::pair<size_t, size_t>>();
    info["data_offsets"] = {mine.size(), mine.size() + end - begin};
    mine += data.substr(begin, end - begin);
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  const auto bytes = std::make_shared<const std::string>(
      std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + mine);
  std::vector<NamedTensor> tensors;
  for (TensorEntry& entry : parse_safetensors(std::as_bytes(std::span(*bytes)), family.tensor_file).entries)
    tensors.push_back({std::move(entry.name), std::move(entry.tensor)});
  return make_tensors(std::move(tensors), bytes);
}

}  // namespace npusim::test
