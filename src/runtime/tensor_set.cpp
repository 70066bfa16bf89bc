// Opening of tensor files, and lookup by name.
#include "runtime/tensor_set.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "runtime/npy.h"
#include "runtime/safetensors.h"

namespace npusim {
namespace {

// Points `tensor` to an aligned copy if the file has its data at an odd place.
void realign(TensorSet& set, TensorView& tensor) {
  if (!tensor.data || reinterpret_cast<uintptr_t>(tensor.data) % dtype_size(tensor.type.dtype) == 0) return;
  tensor.data = set.held.emplace_back(tensor.data, tensor.data + byte_size(tensor.type)).data();
}

void add_entry(TensorSet& set, TensorEntry entry) {
  realign(set, entry.tensor);
  set.by_name.emplace(entry.name, set.entries.size());
  if (std::string bare = bare_name(entry.name); bare != entry.name) {
    const auto [found, fresh] = set.by_bare_name.try_emplace(std::move(bare), set.entries.size());
    if (!fresh) found->second = std::nullopt;
  }
  set.entries.push_back(std::move(entry));
}

const TensorView& tensor_at(const TensorSet& set, size_t position) {
  const TensorEntry& entry = set.entries[position];
  if (!entry.unknown_dtype.empty())
    fail(ErrorKind::unsupported, "{}: tensor {}: dtype {} is not supported", set.path, json_quoted(entry.name),
         json_quoted(entry.unknown_dtype));
  return entry.tensor;
}

// The bytes of a file, mapped or read, for as long as the set lives.
std::span<const std::byte> bytes_of(TensorSet& set, const std::string& path, bool mapped) {
  if (mapped) return set.files.emplace_back(path).bytes();
  return std::as_bytes(std::span(*set.texts.emplace_back(std::make_unique<const std::string>(read_file(path)))));
}

void open_shards(TensorSet& set, bool mapped) {
  const auto folder = std::filesystem::path(set.path).parent_path();
  std::map<std::string, std::unordered_map<std::string, TensorEntry>> shards;
  for (const auto& [name, file] : parse_safetensors_index(read_file(set.path), set.path)) {
    const std::string path = (folder / file).string();
    auto [shard, fresh] = shards.try_emplace(file);
    if (fresh)
      for (auto& entry : parse_safetensors(bytes_of(set, path, mapped), path).entries) {
        std::string key = entry.name;
        shard->second.emplace(std::move(key), std::move(entry));
      }
    const auto entry = shard->second.find(name);
    if (entry == shard->second.end())
      fail(ErrorKind::bad_input, "{}: weight_map places tensor {} in {}, which does not have it", set.path,
           json_quoted(name), path);
    add_entry(set, std::move(entry->second));
  }
}

}  // namespace

TensorSet map_tensors(const std::string& path) {
  TensorSet set;
  set.path = path;
  if (path.ends_with(".json")) {
    open_shards(set, true);
  } else {
    for (auto& entry : parse_safetensors(bytes_of(set, path, true), path).entries) add_entry(set, std::move(entry));
  }
  return set;
}

std::vector<std::string> tensor_files(const std::string& path) {
  std::vector<std::string> files = {path};
  if (!path.ends_with(".json")) return files;
  try {
    std::set<std::string> shards;
    for (const auto& [name, file] : parse_safetensors_index(read_file(path), path)) shards.insert(file);
    for (const std::string& file : shards) files.push_back((std::filesystem::path(path).parent_path() / file).string());
  } catch (const Error&) {  // who opens it tells
  }
  return files;
}

std::shared_ptr<const TensorSet> open_tensors(const std::string& path) {
  return std::make_shared<const TensorSet>(map_tensors(path));
}

std::shared_ptr<const TensorSet> read_tensors(const std::string& path, std::optional<DType> void16) {
  auto set = std::make_shared<TensorSet>();
  set->path = path == "-" ? "standard input" : path;
  set->from_memory = path == "-";
  if (path.ends_with(".json")) {
    open_shards(*set, false);
    return set;
  }
  const std::span<const std::byte> bytes = bytes_of(*set, path, false);
  if (set->texts.back()->starts_with("\x93NUMPY") || path.ends_with(".npy")) {
    HostTensor tensor = parse_npy(bytes, set->path, void16);
    set->texts.clear();
    set->held.push_back(std::move(tensor.data));
    add_entry(*set, {"", {std::move(tensor.type), set->held.back().data()}, ""});
  } else {
    for (auto& entry : parse_safetensors(bytes, set->path).entries) add_entry(*set, std::move(entry));
  }
  return set;
}

std::shared_ptr<const TensorSet> make_tensors(std::vector<NamedTensor> tensors, std::shared_ptr<const void> owner) {
  auto set = std::make_shared<TensorSet>();
  set->path = "memory";
  set->from_memory = true;
  set->owner = std::move(owner);
  for (NamedTensor& tensor : tensors) {
    if (set->by_name.contains(tensor.name))
      fail(ErrorKind::usage, "tensor {} is given twice", json_quoted(tensor.name));
    if (!tensor.tensor.data && byte_size(tensor.tensor.type) > 0)
      fail(ErrorKind::usage, "tensor {} of {} has no data", json_quoted(tensor.name), to_string(tensor.tensor.type));
    add_entry(*set, {std::move(tensor.name), std::move(tensor.tensor), ""});
  }
  return set;
}

std::string bare_name(std::string_view name) {
  constexpr std::string_view wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."};
  std::string bare;
  bool begins = true;  // a component of the name
  while (!name.empty()) {
    const auto is_next = [&](std::string_view part) { return name.starts_with(part); };
    const auto wrapper = std::find_if(std::begin(wrappers), std::end(wrappers), is_next);
    if (begins && wrapper != std::end(wrappers)) {
      name.remove_prefix(wrapper->size());
    } else if (begins && bare.empty() && is_next("module.")) {
      name.remove_prefix(std::string_view("module.").size());
    } else {
      begins = name[0] == '.';
      bare += name[0];
      name.remove_prefix(1);
    }
  }
  return bare;
}

std::span<const TensorEntry> tensor_entries(const TensorSet& set) { return set.entries; }

const TensorView* find_tensor(const TensorSet& set, std::string_view name) {
  const auto it = set.by_name.find(std::string(name));
  return it == set.by_name.end() ? nullptr : &tensor_at(set, it->second);
}

const TensorView* find_bare_tensor(const TensorSet& set, std::string_view name) {
  const std::string bare = bare_name(name);
  if (bare != name)
    if (const TensorView* found = find_tensor(set, bare)) return found;
  const auto it = set.by_bare_name.find(bare);
  return it == set.by_bare_name.end() || !it->second ? nullptr : &tensor_at(set, *it->second);
}

const TensorView& get_tensor(const TensorSet& set, std::string_view name) {
  const TensorView* tensor = find_tensor(set, name);
  if (!tensor)
    fail(ErrorKind::bad_input, "{}: no tensor {} among its {} tensors", set.path, json_quoted(name),
         set.entries.size());
  return *tensor;
}

}  // namespace npusim
