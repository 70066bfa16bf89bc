// The emulator.
#include "backends/emulator/device.h"
#include "backends/emulator/target.h"
#include "random/place.h"

namespace npusim::test {

Place open_place() { return {&emulator::target(), {emulator::open_device(0)}}; }

}  // namespace npusim::test
