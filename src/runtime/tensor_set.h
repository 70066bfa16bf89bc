// What a set of named tensors holds and keeps alive.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "npusim/tensor_set.h"

namespace npusim {

// Every tensor's data is aligned to its element size: the rare tensor whose file or owner misaligns it is a copy in
// `held`. Moving keeps the views valid.
struct TensorSet {
  std::string path;          // names the set in messages
  bool from_memory = false;  // the path is no file, and nothing stands beside it
  std::vector<MappedFile> files;
  std::vector<std::unique_ptr<const std::string>> texts;  // of files that were read
  std::vector<std::vector<std::byte>> held;
  std::shared_ptr<const void> owner;  // of memory that is none of these
  std::vector<TensorEntry> entries;
  std::unordered_map<std::string, size_t> by_name;
};

TensorSet map_tensors(const std::string& path);  // as open_tensors

}  // namespace npusim
