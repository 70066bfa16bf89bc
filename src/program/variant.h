// Programs for several architectures.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// Why the variant's methods are not the program's to a caller: positions, names, inputs and outputs. Empty when they
// are.
std::vector<std::string> check_methods_of_variant(const Program& program, const Variant& variant);

}  // namespace npusim
