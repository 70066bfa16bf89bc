// Reads a TargetConfig from JSON.
#pragma once
#include "codegen/target.h"
#include "npusim/compiler.h"

namespace npusim {

// Sets the fields that the JSON names, those of the target's own section (config.own) within its ranges; throws
// bad_input for unknown fields and wrong types.
void read_config(const JsonSource& source, std::span<const OwnRange> own, TargetConfig& config);

}  // namespace npusim
