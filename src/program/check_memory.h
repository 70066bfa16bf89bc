// Where the buffers of a program lie and how much memory it asks for.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// A method whose steps, launches and buffers are otherwise sound: buffers of one arena or workspace that exist at the
// same time lie apart, and an arena is no larger than what lies in it.
std::vector<std::string> check_arenas(const Program& program, const Method& method);

// Every buffer is one of a step or of a method's inputs and outputs, and all that are not in an arena together are not
// beyond what addresses can tell apart.
std::vector<std::string> check_sizes(const Program& program);

}  // namespace npusim
