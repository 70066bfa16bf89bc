// Files of helpers, in the order in which texts have them: what a part calls is of a file before its own, or before it.
#include "backends/cuda/codegen/device/texts.h"

#include <vector>

#include "backends/cuda/codegen/device/embedded.h"
#include "backends/cuda/codegen/device/multiply_group.h"

namespace npusim::cuda::codegen::device {
namespace {

constexpr auto own_helpers = joined(
    sorting, launches, copies, mma, wgmma, multiply_groups<GroupForm::adds, 64, 96, 128, 144, 160, 192, 256>,
    multiply_groups<GroupForm::first, 64, 128>, multiply_groups<GroupForm::transposed, 64, 128, 256>, mbarrier, blocks);

}  // namespace

const Dialect& device_dialect() {
  static const std::vector<Dialect::Helper> helpers = [] {
    std::vector<Dialect::Helper> all(cuda_dialect.helpers.begin(), cuda_dialect.helpers.end());
    all.insert(all.end(), own_helpers.begin(), own_helpers.end());
    return all;
  }();
  static const Dialect dialect = [] {
    Dialect d = cuda_dialect;
    d.helpers = helpers;
    return d;
  }();
  return dialect;
}

std::string_view stream_machine() { return machine[0].text; }
std::string_view stream_producer() { return producer[0].text; }
std::string_view stream_entry() { return entry[0].text; }

}  // namespace npusim::cuda::codegen::device
