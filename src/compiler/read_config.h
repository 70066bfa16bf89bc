// Reads a TargetConfig from JSON.
#pragma once
#include "npusim/compiler.h"
#include "program/target_config.h"

namespace npusim {

// Sets the fields that the JSON names; throws bad_input for unknown fields and wrong types.
void read_config(const JsonSource& source, TargetConfig& config);

}  // namespace npusim
