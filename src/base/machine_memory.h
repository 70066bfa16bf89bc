// How much memory there is.
#pragma once
#include <cstdint>
#include <string_view>

namespace npusim {

// Bytes that this process could have at most: the machine's memory and swap, or the limit of its control group.
uint64_t machine_memory();

// Throws device when `what`, alone, takes more than there is: asking for it would end in failures that name nothing.
void check_machine_memory(std::string_view what, uint64_t bytes);

}  // namespace npusim
