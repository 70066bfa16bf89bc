// What the fusion passes share: kernels bound to values, who reads what, and merging two of them in place.
#pragma once
#include <functional>

#include "kernel/facts/memory.h"
#include "kernel/fuse/fuse.h"
#include "passes/pass.h"

namespace npusim {

class Fuser {
 public:
  Fuser(Graph& graph, const PassContext& context);

  size_t size() const { return kernels_.size(); }
  bool alive(size_t node) const { return !dead_[node]; }
  const BoundKernel& at(size_t node) const { return kernels_[node]; }
  const Kernel& kernel(size_t node) const { return kernels_[node].kernel; }
  // The node that writes a value; -1 for inputs, weights and constants.
  int producer(int value) const { return producer_[static_cast<size_t>(value)]; }
  bool is_output(int value) const { return output_[static_cast<size_t>(value)]; }
  DType dtype(int value) const { return value_of(graph_, value).type.dtype; }
  // Nodes that read a value now, in order.
  std::vector<size_t> readers(int value);
  bool only_reader(int value, size_t node);
  // Whether every reader of every result of `node` other than `value`'s reader `reader` comes after `reader`.
  bool can_move_to(size_t node, size_t reader);
  // Whether a node only makes its operand wider, for kernels that can all read the narrower value themselves: with what
  // makes the operand it would put the wider one into memory.
  bool widens_for_readers(size_t node);
  std::vector<int> reads(size_t node) const;
  std::vector<int> writes(size_t node) const;

  void replace(size_t node, BoundKernel bound);
  // Removes `node`, whose work another does now.
  void remove(size_t node, size_t into);
  // `into` does work of `node`.
  void join(size_t node, size_t into) { add_origins(graph_.nodes[into], graph_.nodes[node].origins); }
  // Removes `node` if nothing reads what it writes.
  void remove_if_unread(size_t node);

  // producer → consumer by inline_value; the producer stays for its other readers. False if it cannot be.
  bool inline_into(size_t producer, size_t consumer, int value, bool aligned);
  // Inlines what `node` reads as long as there is a producer that inline_into() takes and `wanted`(producer, value)
  // too.
  void inline_producers(size_t node, bool aligned, const std::function<bool(size_t, int)>& wanted);
  // consumer's work as producer's epilogue, at the consumer's position.
  bool append_to(size_t producer, size_t consumer, int value);

  // Writes the kernels back into the graph.
  void finish();

  const FuseOptions options;

  // Whether the merged kernel, of that device, is one to have: small, in place, no fusion that is switched off.
  bool allowed(const BoundKernel& merged, int32_t device) const;
  int32_t device(size_t node) const { return graph_.nodes[node].device; }

 private:
  void bury(size_t node);
  void join_names(BoundKernel& merged, const Kernel& first, const Kernel& second) const;
  Graph& graph_;
  const PassContext& context_;
  std::vector<BoundKernel> kernels_;
  std::vector<bool> dead_;
  std::vector<int> producer_;
  std::vector<bool> output_;
  std::vector<std::vector<size_t>> readers_;  // may hold nodes that read no more: checked when asked
};

// Kernels stay small enough to compile and to hold in registers.
inline constexpr size_t max_fused_exprs = 160;
inline constexpr size_t max_fused_args = 24;

}  // namespace npusim
