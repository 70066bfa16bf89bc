// Boxes of an epilogue's space that a rectangle of the matrix covers.
#include "backends/cpu/product/epilogue.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/facts/attention_axes.h"

namespace npusim::cpu::product {

std::vector<void*> epilogue_args(const EpilogueKernel& epilogue, std::span<const Binding> args) {
  std::vector<void*> pointers;
  for (const Binding& binding : args) pointers.push_back(binding.data);
  pointers.insert(pointers.begin() + epilogue.leaf, nullptr);
  return pointers;
}

namespace {

Access log_of_rows(const Kernel& kernel, const Axis& rows, int64_t ld) {
  if (!takes_log(kernel)) return {};
  return {-1, ld - 1, tile_strides(kernel.space.size(), rows, {}, ld), {}, {}};
}

}  // namespace

TileEpilogue::TileEpilogue(const Kernel& kernel, std::span<const Binding> args, const Axis& batch, const Axis& rows,
                           const Axis& columns, int64_t ld, int threads, bool in_place)
    : batch_(batch),
      rows_(rows),
      columns_(columns),
      ld_(ld),
      in_place_(in_place),
      epilogue_(
          make_epilogue(kernel, tile_strides(kernel.space.size(), rows, columns, ld), log_of_rows(kernel, rows, ld))),
      loops_(epilogue_.kernel, threads, true) {
  PerThread state;
  state.args = epilogue_args(epilogue_, args);
  state.begin.assign(kernel.space.size(), 0);
  state.end = kernel.space;
  state.row_lo = state.row_hi = rows.extents;
  state.col_lo = state.col_hi = columns.extents;
  threads_.assign(static_cast<size_t>(threads), state);
}

void TileEpilogue::run(float* tile, int64_t at_batch, int64_t r0, int64_t r1, int64_t c0, int64_t c1, int thread) {
  PerThread& t = threads_[static_cast<size_t>(thread)];
  // The kernel's addresses count from (0, 0): the pointer is moved back, and never used outside the tile.
  const auto origin = reinterpret_cast<uintptr_t>(tile) - static_cast<uintptr_t>((r0 * ld_ + c0) * 4);
  t.args[static_cast<size_t>(epilogue_.leaf)] = reinterpret_cast<void*>(origin);
  if (in_place_) t.args.back() = reinterpret_cast<void*>(origin);
  for (size_t d = batch_.dims.size(); d-- > 0; at_batch /= batch_.extents[d]) {
    const auto dim = static_cast<size_t>(batch_.dims[d]);
    t.begin[dim] = at_batch % batch_.extents[d];
    t.end[dim] = t.begin[dim] + 1;
  }
  auto fill = [&](const Axis& axis, const std::vector<int64_t>& lo, const std::vector<int64_t>& hi) {
    for (size_t d = 0; d < axis.dims.size(); ++d) {
      t.begin[static_cast<size_t>(axis.dims[d])] = lo[d];
      t.end[static_cast<size_t>(axis.dims[d])] = hi[d];
    }
  };
  for_boxes(rows_.extents, r0, r1, t.row_lo.data(), t.row_hi.data(), [&] {
    fill(rows_, t.row_lo, t.row_hi);
    for_boxes(columns_.extents, c0, c1, t.col_lo.data(), t.col_hi.data(), [&] {
      fill(columns_, t.col_lo, t.col_hi);
      t.trapped |= !loops_.run_box(t.args.data(), t.begin.data(), t.end.data(), thread);
    });
  });
}

void TileEpilogue::check() {
  if (std::none_of(threads_.begin(), threads_.end(), [](const PerThread& t) { return t.trapped; })) return;
  const std::string message = loops_.trap_message();
  loops_.clear_trap();
  for (PerThread& t : threads_) t.trapped = false;
  fail(ErrorKind::bad_input, "{}: {}", epilogue_.kernel.name, message);
}

}  // namespace npusim::cpu::product
