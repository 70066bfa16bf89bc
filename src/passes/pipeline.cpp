// The table of contents: every pass in the order it runs.
#include "passes/pass.h"

namespace npusim {

std::vector<Pass> pipeline() {
  return {
      // ATen nodes
      {"functionalize", functionalize, false},
      {"eliminate_noops", eliminate_noops, false},
      {"fold_constants", fold_constants, true},
      {"eliminate_common", eliminate_common, true},
      // ATen nodes to kernels
      {"lower", lower, false},
      {"keep_states", keep_states, false},
      {"check_constraints", check_constraints, false},
      // kernels
      {"take_rows", take_rows, true},
      {"fold_views", fold_views, true},
      {"fuse_parameters", fuse_parameters, true},
      {"fuse_pointwise", fuse_pointwise, true},
      {"fuse_epilogues", fuse_epilogues, true},
      {"fold_batch_norm", fold_batch_norm, true},
      {"fuse_attention", fuse_attention, true},
      {"bound_keys", bound_keys, true},
      {"fuse_rows", fuse_rows, true},
      {"choose_dtype", choose_dtype, false},
      {"convert_images", convert_images, true},
      {"choose_layout", choose_layout, true},
      {"count_fusions", count_fusions, false},
  };
}

}  // namespace npusim
