// Finding a program's weights in a checkpoint: wrapper prefixes, tied names, values a checkpoint leaves out.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/tensor_set.h"

namespace npusim {

// The weight a buffer asks for, as the file has it. Tried in order: the name itself; the name without or with leading
// "model." components; all these without what wrappers put into names (bare_name); a tied embedding's other names
// (Buffer::tied). nullptr when none is there.
const TensorView* find_program_weight(const TensorSet& weights, const Buffer& buffer);

// Rotary frequencies are a non-persistent buffer that checkpoints leave out: computed in float32 from rope_theta and
// the head size of the config.json beside the weights. nullopt when the buffer is no such thing or there is no config.
std::optional<HostTensor> rotary_frequencies(const TensorSet& weights, const Buffer& buffer);

// Where a buffer's contents come from: the file's own tensor, in its dtype or the declared one, or values that the
// checkpoint leaves out. Neither is set when they cannot be had.
struct LocatedWeight {
  const TensorView* file = nullptr;
  DType declared = DType::f32;
  std::optional<HostTensor> made;
  explicit operator bool() const { return file || made; }
  // The bytes to load are the file's.
  const TensorView* as_it_is() const { return file && file->type.dtype == declared ? file : nullptr; }
};
// `problems` gets an entry for a weight that is missing or has another shape or kind, which names it.
LocatedWeight locate_weight(const TensorSet* weights, const Buffer& buffer, std::vector<Problem>& problems);
// The contents of a located weight in the declared dtype.
HostTensor make_weight(LocatedWeight located, const Buffer& buffer);

}  // namespace npusim
