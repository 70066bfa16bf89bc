// Safetensors files: a strict reader over mapped bytes, sharded sets of files, and a deterministic writer.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/tensor.h"

namespace npusim {

// One tensor of a file. `data` borrows the file's bytes (little-endian, row-major) and is what the file holds: BF16
// stays bf16. A file may hold dtypes that npusim has no type for: then `unknown_dtype` is its name in the file,
// `tensor` has the shape but neither dtype nor data, and only asking for that tensor is an error.
struct TensorEntry {
  std::string name;  // any UTF-8, also empty
  TensorView tensor;
  std::string unknown_dtype;
};

struct Safetensors {
  std::vector<TensorEntry> entries;  // in header order, names unique
  std::map<std::string, std::string> metadata;
};

// Parses one file's bytes; the entries borrow them, at any alignment. `origin` names the file in errors.
// Throws bad_input unless the header is a JSON object without duplicate keys whose byte ranges match their dtypes and
// shapes and together cover the data exactly, without overlap or gap.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin);

// {tensor name, file name}, sorted, of a model.safetensors.index.json. Throws bad_input unless every file name is plain
// (no folder), so that an index reaches nothing outside its own folder.
std::vector<std::pair<std::string, std::string>> parse_safetensors_index(std::string_view text,
                                                                         const std::string& origin);

// Mapped weights, from one file or a sharded set. Every tensor's data is aligned to its element size: the rare tensor
// that its file misaligns is a copy in `realigned`. Moving keeps the views valid.
struct WeightFiles {
  std::string path;
  std::vector<MappedFile> files;
  std::vector<std::vector<std::byte>> realigned;
  std::vector<TensorEntry> entries;  // in header order (one file) or index order
  std::unordered_map<std::string, size_t> by_name;
};

// Opens a .safetensors file, or with a path that ends in ".json" an index and the files beside it that it names.
WeightFiles open_weights(const std::string& path);
// Null when there is no such tensor; throws unsupported when it has a dtype that npusim has no type for.
const TensorView* find_weight(const WeightFiles& weights, std::string_view name);
// As find_weight, but throws bad_input naming the tensor and the file when it is not there.
const TensorView& get_weight(const WeightFiles& weights, std::string_view name);

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// Writes the header in the order given and the data by descending element size (ties in the order given), so that every
// tensor is aligned in the file. Same input, same bytes; atomic as write_file is.
// Throws bad_input for a duplicate, reserved ("__metadata__") or non-UTF-8 name.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace npusim
