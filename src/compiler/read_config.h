// Reads a TargetConfig from JSON.
#pragma once
#include <string>

#include "program/target_config.h"

namespace npusim {

// Sets the fields the file names; throws bad_input for unknown fields and wrong types.
void read_config(const std::string& path, TargetConfig& config);

}  // namespace npusim
