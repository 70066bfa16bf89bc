// Images as the sums of their windows.
#pragma once
#include <span>
#include <string>

#include "ops/window.h"

namespace npusim {

// Each pixel of `result` [lead…, extent…] is the sum of what falls on it of `columns` [lead…, size…, count…], and the
// bias of its channel, the last of `lead` (-1: none).
void lower_overlap(Lowering& lowering, std::string name, std::span<const Window> dims, int columns, int bias,
                   int result);

}  // namespace npusim
