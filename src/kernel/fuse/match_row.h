// Which dimensions of a consumer serve as the row that a producer reduces along.
#pragma once
#include <optional>
#include <vector>

#include "kernel/fuse/index_map.h"

namespace npusim {

// Gives the consumer the producer's row, as its last dimensions: those it has, moved there, or new ones along which
// all it computes is the same. `map` is how the consumer reads the value. False, with the consumer unchanged, where the
// rows do not match or a reduction would be computed more often than by the producer.
bool take_row(Kernel& consumer, const Kernel& producer, const StoredDims& stored, const std::vector<MappedIndex>& map);

}  // namespace npusim
