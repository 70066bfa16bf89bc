// Kernels whose row is a window that slides over memory, and what else they compute.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/window/fold.h"
#include "kernel/kernel.h"

namespace npusim::cpu::window {

// A dimension of the window, which slides along a dimension of the space: tables by the index along that, then by tap.
struct WindowDim {
  static constexpr int64_t outside = std::numeric_limits<int64_t>::min();  // this tap does not count there
  int over = -1;                                                           // -1: along none
  int64_t size = 1;
  std::vector<int64_t> address, position;  // what it adds to them
  int64_t* at(std::vector<int64_t>& table, int64_t index) const { return &table[static_cast<size_t>(index * size)]; }
  const int64_t* addresses(int64_t index) const { return &address[static_cast<size_t>(index * size)]; }
  const int64_t* positions(int64_t index) const { return &position[static_cast<size_t>(index * size)]; }
};

// result[index] = fold over the window of memory[offset + Σ strides·index + Σ addresses].
struct SlidingWindow {
  WindowFold fold = WindowFold::sum;
  DType top = DType::f32;  // of the folds: f64 of such elements, i64 of integers
  int arg = -1;
  int64_t offset = 0;
  std::vector<int64_t> space, strides;  // over the dimensions that are not the row
  std::vector<WindowDim> dims;
  size_t line = 0;     // the dimension of the space along which lines of windows lie
  bool along = false;  // the last dimension of the window slides along it; else neighbours in it are those in memory
  // fold argmax: what dimensions of the space add to indices, where they add any; and the result of no elements.
  int64_t index_offset = 0, nowhere = 0;
  std::vector<std::vector<int64_t>> index_of;
  // The kernel without a row. Behind its arguments are the folds and the indices (i64), row-major.
  Kernel rest;
};

// nullopt: another kernel, or one that loops are as good for.
std::optional<SlidingWindow> match_window(const Kernel& kernel);

}  // namespace npusim::cpu::window
