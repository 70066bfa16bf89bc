// The host CPU as a target: it runs kernel IR itself, whatever its form.
#include "backends/cpu/target.h"

#include <algorithm>

#include "base/shape.h"
#include "kernel/facts/depend.h"
#include "kernel/fuse/split_rows.h"

namespace npusim::cpu {
namespace {

// Into how many pieces each row, whatever the number of threads: 1 if there are rows for all of them, or a piece would
// be less than what sharing it costs. What a reduction waits for another for is read twice: it stays one.
int64_t pieces_of_rows(const Kernel& k, int64_t least_piece) {
  constexpr int64_t enough_rows = 16, pieces = 32;
  const auto outer = static_cast<size_t>(k.space.size()) - static_cast<size_t>(k.row_dims);
  int64_t rows = 1, length = 1;
  for (size_t d = 0; d < k.space.size(); ++d) (d < outer ? rows : length) *= k.space[d];
  if (rows == 0 || rows >= enough_rows || rows * length < 2 * least_piece) return 1;
  const std::vector<int> stages = dependence_of(k).stage;
  if (std::any_of(stages.begin(), stages.end(), [](int stage) { return stage > 1; })) return 1;
  if (std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::scan; })) return 1;
  return std::clamp<int64_t>(length / least_piece, 1, pieces);
}

// A product that is one number is a row, too.
Unfused long_rows_in_parts(const Kernel& kernel) {
  constexpr int64_t least_piece = 1 << 17, least_of_product = 1 << 14;
  if (kernel.call || (kernel.contraction && kernel.contraction->kind != ContractionKind::matmul)) return {};
  if (!kernel.contraction) {
    const int64_t pieces = pieces_of_rows(kernel, least_piece);
    return pieces > 1 ? split_rows(kernel, pieces) : Unfused{};
  }
  if (element_count(kernel.space) != 1) return {};
  Unfused rows = unfuse(kernel);
  if (rows.steps.size() != 1) return {};
  const Kernel row = rows.steps[0].kernel;
  const int64_t pieces = pieces_of_rows(row, least_of_product);
  Unfused parts = pieces > 1 ? split_rows(row, pieces) : Unfused{};
  if (parts.steps.empty()) return {};
  replace_step(rows, kernel.args.size(), 0, std::move(parts));
  return rows;
}

class CpuTarget : public CodegenTarget {
 public:
  CpuTarget() {
    config_.name = "cpu";
    config_.channel_alignment_bytes = 1;
    config_.max_rank = 16;
    config_.image_layout = ImageLayout::channels_last;
  }
  std::string refuse(const Kernel&) const override { return {}; }
  Unfused in_parts(const Kernel& kernel) const override { return long_rows_in_parts(kernel); }
};

}  // namespace

const CodegenTarget& target() {
  static const CpuTarget instance;
  return instance;
}

}  // namespace npusim::cpu
