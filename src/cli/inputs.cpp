// Reading of input files, checks against what a method declares, random values.
#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "cli/fail.h"

namespace npusim::cli {
namespace {

// The seed, and that nothing was drawn yet.
HostTensor generator(const TensorType& type, uint64_t seed) {
  HostTensor tensor = make_tensor(type);
  store_int(tensor.data.data(), type.dtype, 0, static_cast<int64_t>(seed));
  return tensor;
}

class InputReader {
 public:
  InputReader(const std::vector<TensorInfo>& inputs, uint64_t seed)
      : inputs_(inputs), seed_(seed), found_(inputs.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) positions_.try_emplace(inputs[i].name, i);
  }

  void add_file(const std::string& path) {
    const std::shared_ptr<const TensorSet> file = read_tensors(path);
    for (const TensorEntry& entry : tensor_entries(*file)) take(entry.name, entry, display(path));
  }

  // An .npy file, the tensor of that name in a safetensors file, or the only one in it.
  void add_one(const NamedFile& given) {
    const auto& [name, path] = given;
    const size_t at = position(name);
    const bool bf16 = at < inputs_.size() && inputs_[at].type.dtype == DType::bf16;
    const std::shared_ptr<const TensorSet> file = read_tensors(path, bf16 ? std::optional(DType::bf16) : std::nullopt);
    const std::span<const TensorEntry> entries = tensor_entries(*file);
    const TensorEntry* entry = entries.size() == 1 ? &entries[0] : nullptr;
    for (const TensorEntry& candidate : entries)
      if (candidate.name == name) entry = &candidate;
    if (!entry) return problem("input '{}': {} holds no tensor of that name", name, display(path));
    take(name, *entry, display(path));
  }

  // What nobody gives begins as the weights have it.
  void begin_states(const TensorSet& weights) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (const TensorView* first = inputs_[i].state && !found_[i] ? find_tensor(weights, inputs_[i].name) : nullptr)
        take(inputs_[i].name, copy_tensor(*first), "the weights");
  }

  void fill_at_random() {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!found_[i] && inputs_[i].role != "generator") found_[i] = random_tensor(inputs_[i].type, i);
  }

  std::vector<HostTensor> finish() {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!found_[i] && inputs_[i].role == "generator") found_[i] = generator(inputs_[i].type, seed_);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!found_[i])
        problem("{} '{}' of {} is missing", inputs_[i].state ? "state" : "input", inputs_[i].name,
                to_string(inputs_[i].type));
    if (!problems_.empty()) throw Error(ErrorKind::bad_input, std::move(problems_));
    std::vector<HostTensor> tensors;
    for (auto& tensor : found_) tensors.push_back(std::move(*tensor));
    return tensors;
  }

 private:
  static std::string display(const std::string& path) { return path == "-" ? "standard input" : path; }

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back({"", fmt::format(format, std::forward<Args>(args)...)});
  }

  size_t position(const std::string& name) const {
    const auto at = positions_.find(name);
    return at == positions_.end() ? inputs_.size() : at->second;
  }
  // In each message of an unknown one, of which there may be as many.
  std::string expected_names() const {
    constexpr size_t most_listed = 16;
    std::string names;
    for (size_t i = 0; i < std::min(inputs_.size(), most_listed); ++i) names += (i > 0 ? ", " : "") + inputs_[i].name;
    return inputs_.size() <= most_listed ? names
                                         : fmt::format("{}, or one of {} more", names, inputs_.size() - most_listed);
  }

  void take(const std::string& name, const TensorEntry& entry, const std::string& from) {
    if (!entry.unknown_dtype.empty())
      return problem("input '{}': dtype {} in {} is not supported", name, entry.unknown_dtype, from);
    take(name, copy_tensor(entry.tensor), from);
  }
  void take(const std::string& name, HostTensor tensor, const std::string& from) {
    const size_t at = position(name);
    if (at == inputs_.size())
      return problem("input '{}' from {} is unknown: expected {}", name, from, expected_names());
    const TensorType& expected = inputs_[at].type;
    if (found_[at]) return problem("input '{}' is given twice, the second time by {}", name, from);
    // --dtype float32 makes the 16-bit inputs of a model float32: widening loses nothing.
    const bool half = tensor.type.dtype == DType::f16 || tensor.type.dtype == DType::bf16;
    if (half && expected.dtype == DType::f32 && tensor.type.shape == expected.shape)
      tensor = convert_tensor(view_of(tensor), DType::f32);
    if (tensor.type != expected) problem("{}", mismatch(name, expected, tensor.type, from));
    found_[at] = std::move(tensor);
  }

  static std::string mismatch(const std::string& name, const TensorType& expected, const TensorType& found,
                              const std::string& from) {
    std::string text =
        fmt::format("input '{}': expected {}, found {} in {}", name, to_string(expected), to_string(found), from);
    if (expected.shape != found.shape || !is_float(expected.dtype) || !is_float(found.dtype)) return text;
    text += fmt::format(" (nothing is converted silently: store it as {}", dtype_name(expected.dtype));
    return text + (expected.dtype == DType::bf16 ? ", in a safetensors file)" : ")");
  }

  const std::vector<TensorInfo>& inputs_;
  std::unordered_map<std::string_view, size_t> positions_;  // of inputs_
  uint64_t seed_ = 0;
  std::vector<std::optional<HostTensor>> found_;
  std::vector<Problem> problems_;
};

uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t x = state += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

void add_input_flags(CLI::App& verb, InputFlags& flags) {
  add_named_files(verb, "--input", flags.each, "NAME=FILE",
                  "an input's tensor, from .npy or .safetensors; once per input");
  add_file(verb, "--inputs", flags.all, "FILE.safetensors", "inputs under their names");
  const auto store = [&flags](uint64_t seed) { flags.seed = seed; };
  add_seed(verb, "--seed", store, "of the random numbers that the model draws")->default_str("0");
}

std::vector<HostTensor> read_inputs(const InputFlags& flags, const std::vector<TensorInfo>& inputs,
                                    const TensorSet* weights) {
  InputReader reader(inputs, flags.seed);
  if (!flags.all.empty()) reader.add_file(flags.all);
  for (const NamedFile& given : flags.each) reader.add_one(given);
  if (weights) reader.begin_states(*weights);
  return reader.finish();
}

HostTensor random_tensor(const TensorType& type, uint64_t seed) {
  HostTensor tensor = make_tensor(type);
  uint64_t state = seed;
  const int64_t count = element_count(type.shape);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = next_random(state);
    if (is_float(type.dtype))
      store_double(tensor.data.data(), type.dtype, i, static_cast<double>(bits >> 11) * 0x1p-52 - 1);
    else
      store_int(tensor.data.data(), type.dtype, i, static_cast<int64_t>(bits >> 63));
  }
  return tensor;
}

void write_inputs(Session& session, size_t method, const std::vector<HostTensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) session.set_input(method, i, tensors[i].data);
}

std::vector<HostTensor> inputs_or_random(const InputFlags& flags, const std::vector<TensorInfo>& inputs,
                                         const TensorSet* weights) {
  if (flags.given()) return read_inputs(flags, inputs, weights);
  InputReader reader(inputs, flags.seed);
  if (weights) reader.begin_states(*weights);
  reader.fill_at_random();
  return reader.finish();
}

}  // namespace npusim::cli
