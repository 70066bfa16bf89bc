// Sets of named tensors: weight files and their shards, files of inputs, the caller's own memory. A set never changes;
// any number of threads and sessions may share one.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "npusim/error.h"
#include "npusim/tensor.h"

namespace npusim {

struct TensorSet;

// A .safetensors file, or with a path that ends in ".json" an index of shards and the files beside it that it names.
// The files are mapped and must not change while the set lives: one that another process cuts shorter ends this one
// (SIGBUS). read_tensors() takes files that may change. Throws bad_input naming the file.
NPUSIM_API std::shared_ptr<const TensorSet> open_tensors(const std::string& path);
// The same files, or the one tensor of a .npy file, which has no name; read into memory. "-" is standard input. NumPy
// stores bfloat16 as two raw bytes, which say nothing of their meaning: they are read as `void16` says.
NPUSIM_API std::shared_ptr<const TensorSet> read_tensors(const std::string& path,
                                                         std::optional<DType> void16 = std::nullopt);
// The files that these read for a path: itself, and the shards that an index names. Throws nothing of what is in them.
NPUSIM_API std::vector<std::string> tensor_files(const std::string& path);
// The caller's memory, which `owner` keeps alive and which must not change while the set lives; without an owner the
// caller does. Data at an address that its dtype is not aligned to is copied. Throws usage for a name given twice.
NPUSIM_API std::shared_ptr<const TensorSet> make_tensors(std::vector<NamedTensor> tensors,
                                                         std::shared_ptr<const void> owner = nullptr);

// A tensor of a set, whose memory it is. A file may hold dtypes that npusim has no type for: then `unknown_dtype` is
// its name in the file, `tensor` has the shape but neither dtype nor data, and only asking for that tensor is an error.
struct TensorEntry {
  std::string name;  // any UTF-8, also empty
  TensorView tensor;
  std::string unknown_dtype;
};
// In the order of the file, the index or the list.
NPUSIM_API std::span<const TensorEntry> tensor_entries(const TensorSet& set);
// Null when there is no such tensor; throws unsupported when it has a dtype that npusim has no type for. Lives as long
// as the set.
NPUSIM_API const TensorView* find_tensor(const TensorSet& set, std::string_view name);
// As find_tensor, but throws bad_input naming the tensor and the file when it is not there.
NPUSIM_API const TensorView& get_tensor(const TensorSet& set, std::string_view name);

// Writes the header in the order given and the data by descending element size (ties in the order given), so that every
// tensor is aligned in the file. Same input, same bytes; whole or not at all; "-" is standard output.
// Throws bad_input for a duplicate, reserved ("__metadata__") or non-UTF-8 name.
NPUSIM_API void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata = {});
// A file of several that belong together: a text as it is, or tensors as write_safetensors() writes them.
struct NewFile {
  std::string path;
  std::variant<std::string, std::vector<NamedTensor>> what;
};
// Writes all of them into folders that are there: none is in its place before all are on the disk. What is `stale` is
// removed in between, so that nobody takes old and new files for one whole.
NPUSIM_API void save_files(const std::vector<NewFile>& files, const std::vector<std::string>& stale = {});
// Writes version 1.0, the same bytes that numpy.save writes (bf16 as <V2); whole or not at all.
NPUSIM_API void write_npy(const std::string& path, const TensorView& tensor);

}  // namespace npusim
