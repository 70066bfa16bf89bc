// The CPU.
#include "random/place.h"

namespace npusim::test {

Place open_place() { return {find_target("cpu"), {open_backend("cpu")}}; }

}  // namespace npusim::test
