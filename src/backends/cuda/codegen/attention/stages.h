// The stages that a block of attention by warpgroups walks: those that a mask hides are found, and left out if what is
// in them shows no more than the mask does.
#pragma once
#include <fmt/format.h>

#include <optional>

#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/attention/text.h"

namespace npusim::cuda::codegen::attention {

inline constexpr int64_t panel = 64;  // elements of a line in memory that warpgroups read
inline int64_t panels_of(int64_t elements) { return (elements + panel - 1) / panel; }
inline int64_t stages_of(const Attention& a, const AttentionShape& s) { return (a.keys + s.keys() - 1) / s.keys(); }

class StageText : public AttentionText {
 protected:
  StageText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape,
            std::optional<MaskedScore> masked)
      : AttentionText(kernel, attention, shape), masked_(std::move(masked)) {
    if (masked_) summary_ = find_summary(kernel, attention, shape);
  }

  int64_t keys() const { return s_.keys(); }
  int64_t depth_panels() const { return panels_of(a_.axes.depth.size()); }
  // Whether stages that a mask hides are left out, once what the mask is added to is inspected.
  bool skips() const { return masked_ && masked_->most > 0; }
  Term at(const Term& n) const { return skips() ? term("list[{}]", n.text) : n; }
  int lanes() const { return a_.keys % word == 0 ? word : 1; }

  Kernel mask_kernel() const;
  // `walked` stages, which at() gives, and of each its state where there is a mask: 1, all scores of the block's rows
  // are open; 2, all are hidden; 0, neither. Uses `marks`, the threads' words of shared memory, and what lies behind
  // them.
  void stages();

  const std::optional<MaskedScore> masked_;

 private:
  // NAME[index] of an argument that holds, by the batch's dimensions, entries so far apart.
  Term entry(int arg, const std::vector<int64_t>& steps, const Term& index) const;
  void find_states();
  void close_states();
  void find_stages();
  void read_tops();
  void inspect_words();
  Term number(const Term& halves) const;  // the larger of two
  void fold(const std::string& top, const Term& words);
  void inspect(const std::string& name, const Operand& o, bool is_key, int64_t words);

  std::optional<AttentionSummary> summary_;
};

}  // namespace npusim::cuda::codegen::attention
