// The device that texts of the tests are chosen for.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "codegen/target.h"

namespace npusim {

// With what all architectures have, and with what sm_90a has alone.
inline const cuda::codegen::Features any = cuda::codegen::features_of(false, open_target("cuda:sm_90")->config());
inline const cuda::codegen::Features hopper = cuda::codegen::features_of(true, open_target("cuda:sm_90a")->config());

}  // namespace npusim
