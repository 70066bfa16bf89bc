// stub
#include "backends/cpu/conv.h"
namespace npusim::cpu {
std::unique_ptr<Step> make_conv_step(const Kernel&, std::span<const Binding>, const Context&) { return nullptr; }
}  // namespace npusim::cpu
