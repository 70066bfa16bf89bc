// How often this executable has called operator new.
#pragma once
#include <cstdint>

int64_t allocations();
