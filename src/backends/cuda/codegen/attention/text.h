// What texts of attention have in common: functions of one point, positions, the epilogue.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/codegen/attention/attention.h"
#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::attention {

// Words of whole fragments.
inline int64_t words_of(int64_t elements) { return (elements + 15) / 16 * 2; }

// A kernel whose one store is a local variable of the caller.
// Of the sums of all warps along the keys.
int64_t result_bytes(const Attention& attention, const AttentionShape& shape);

class AttentionText {
 protected:
  AttentionText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape);

  bool counted() const { return k_.contraction->score->keys >= 0; }
  int64_t depth_words() const { return words_of(a_.axes.depth.size()); }
  int64_t column_words() const { return words_of(a_.columns); }
  std::string_view type() const { return a_.dtype == DType::f16 ? "f16" : "bf16"; }

  // NAME_suffix of a kernel over the score's dimensions (or, of the columns, over this kernel's).
  std::string point(const std::string& suffix, const Kernel& kernel, PointPosition last, int lanes) const;
  // The functions and the kernel's head.
  std::string head(const std::string& functions) const;
  // Σ stride·index over the axes that `parts` names.
  static Term address(const Operand& o, const std::vector<std::pair<const Axis*, const char*>>& parts);
  // Indices of the batch, where its keys and values begin, this thread's two rows, the number of keys.
  void positions();
  // A loop over the words of some lines, which all threads share.
  void open_words(int64_t lines, int64_t words);
  // What is copied of a query, or of the line `first + line` of keys or values: `to` is where its word goes.
  void load_queries(const Term& to);
  void copy_words(const Operand& o, bool keys, int64_t lines, int64_t words, int64_t size, const Term& to);
  // What the warps of a row found is put together through shared memory, in the order of their keys, and stored.
  void epilogue();

  const Kernel& k_;
  const Attention& a_;
  const AttentionShape& s_;
  const std::string name_;
  const int64_t rows_;
  int inputs_ = 0;
  std::string reads_;  // the arguments that the kernel reads, as they are passed on
  Lines t_;
};

}  // namespace npusim::cuda::codegen::attention
