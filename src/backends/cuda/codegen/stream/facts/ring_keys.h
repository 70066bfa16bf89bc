// Attentions whose keys and values come through the ring, as weights do.
#pragma once
#include <cstdint>

#include "backends/cuda/codegen/stream/facts/steps.h"

namespace npusim::cuda::codegen::stream::facts {

// The attentions of the steps whose keys and values can come through the ring, in `ring`: keys and values, and what a
// mask or the number of keys is made of, are the caller's or known before the run, and nobody writes them before the
// attention reads them, so that they can be asked for whatever stages wait for; all have the same layout. A row that a
// step writes among them stays a value of the method's own: that step makes it, the attention takes it from there and
// then writes it to its position, which is given.
void find_ring_keys(StreamSteps& steps);

}  // namespace npusim::cuda::codegen::stream::facts
