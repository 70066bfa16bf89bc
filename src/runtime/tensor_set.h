// What a set of named tensors holds and keeps alive.
#pragma once
#include <memory>
#include <optional>
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
  // Of names that wrappers of a model made longer: by bare_name(); nothing where two names are the same without them.
  std::unordered_map<std::string, std::optional<size_t>> by_bare_name;
};

TensorSet map_tensors(const std::string& path);  // as open_tensors

// A weight's name without what PyTorch's wrappers put into it: torch.compile's `_orig_mod.`, those of FSDP and of
// activation checkpointing wherever they stand, and the leading `module.` of data parallel training.
std::string bare_name(std::string_view name);
// As find_tensor(), where the two names are the same without those parts.
const TensorView* find_bare_tensor(const TensorSet& set, std::string_view name);

}  // namespace npusim
