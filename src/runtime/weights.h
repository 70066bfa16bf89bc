// Finding a program's weights in a checkpoint: wrapper prefixes, tied names, values a checkpoint leaves out.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/safetensors.h"

namespace npusim {

// The weight a buffer asks for, as the file has it. Tried in order: the name itself; the name without or with leading
// "model." components; a tied embedding's other names (Buffer::tied). nullptr when none is there.
const TensorView* find_program_weight(const WeightFiles& weights, const Buffer& buffer);

// Rotary frequencies are a non-persistent buffer that checkpoints leave out: computed in float32 from rope_theta and
// the head size of the config.json beside the weights. nullopt when the buffer is no such thing or there is no config.
std::optional<HostTensor> rotary_frequencies(const WeightFiles& weights, const Buffer& buffer);

// What a buffer is loaded with: the file's own bytes, or values made from them in the declared dtype.
struct LoadedWeight {
  const TensorView* mapped = nullptr;
  std::optional<HostTensor> made;
};
// Neither is set when the weight cannot be had; `problems` then has one line more, which names it.
LoadedWeight load_program_weight(const WeightFiles* weights, const Buffer& buffer, std::vector<std::string>& problems);

// The tensor in another dtype, each element rounded once.
HostTensor convert_tensor(const TensorView& from, DType dtype);

}  // namespace npusim
