// Tensors from files, bound to a method's inputs by name.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "npusim/session.h"

namespace npusim::cli {

struct InputFlags {
  std::vector<NamedFile> each;
  std::string all;    // a safetensors file, keys = input names
  uint64_t seed = 0;  // of what the model draws
  bool given() const { return !each.empty() || !all.empty(); }
};
void add_input_flags(CLI::App& verb, InputFlags& flags);

// One tensor per entry of `inputs`, in their order; states that are not given are what `weights`, if there are any,
// have under their names. Throws bad_input naming every one that is missing, unknown, given twice, or of another shape
// or dtype.
std::vector<HostTensor> read_inputs(const InputFlags& flags, const std::vector<TensorInfo>& inputs,
                                    const TensorSet* weights);

// Values that any model takes: floats in [-1, 1), booleans, integers in [0, 2). The same for the same seed.
HostTensor random_tensor(const TensorType& type, uint64_t seed);
// What is given, or random ones; states and the generator as above.
std::vector<HostTensor> inputs_or_random(const InputFlags& flags, const std::vector<TensorInfo>& inputs,
                                         const TensorSet* weights);

void write_inputs(Session& session, size_t method, const std::vector<HostTensor>& tensors);

}  // namespace npusim::cli
