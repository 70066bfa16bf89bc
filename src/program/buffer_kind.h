// What kinds of buffers are called, in reports and messages.
#pragma once
#include <string_view>

#include "program/program.h"

namespace npusim {

std::string_view kind_name(BufferKind kind);  // "weight"

}  // namespace npusim
