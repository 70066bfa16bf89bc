// Safetensors files: a strict reader over their bytes. The writer is npusim/tensor_set.h's.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "npusim/tensor_set.h"

namespace npusim {

struct Safetensors {
  std::vector<TensorEntry> entries;  // in header order, names unique; they borrow the file's bytes
  std::map<std::string, std::string> metadata;
};

// Parses one file's bytes, at any alignment. `origin` names the file in errors.
// Throws bad_input unless the header is a JSON object without duplicate keys whose byte ranges match their dtypes and
// shapes and together cover the data exactly, without overlap or gap.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin);

// {tensor name, file name}, sorted, of a model.safetensors.index.json. Throws bad_input unless every file name is plain
// (no folder), so that an index reaches nothing outside its own folder.
std::vector<std::pair<std::string, std::string>> parse_safetensors_index(std::string_view text,
                                                                         const std::string& origin);

}  // namespace npusim
