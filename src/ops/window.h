// What pooling and resampling share: tensors [(N), C, spatial…] whose last dimensions are walked by windows.
#pragma once
#include "ops/reduce.h"

namespace npusim {

// How windows of one spatial dimension lie: window o covers start(o) + dilation · j for 0 <= j < size.
struct Window {
  int64_t extent = 0;  // of the input
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t count = 0;  // of windows: the output's extent
};

// The attributes kernel_size, stride (empty: kernel_size), padding, dilation and ceil_mode with ATen's output size.
std::vector<Window> windows_of(const OpCall& call, size_t spatial);
// The input's type with its last dimensions replaced.
TensorType with_spatial(const TensorType& input, const std::vector<Window>& windows);
// Throws bad_input unless the input has `spatial` dimensions after one or two others.
void check_spatial(const OpCall& call, const TensorType& input, size_t spatial);

// A kernel with a row per window: space = leading dimensions, windows, positions in the window.
class WindowKernel : public OpKernel {
 public:
  WindowKernel(Lowering& lowering, const TensorType& input, const std::vector<Window>& windows);
  // The element under the window's position, `outside` where that is padding.
  Ex load_window(int operand, Ex outside);
  Ex inside();       // whether the position is no padding
  Ex plane_index();  // row-major position within the input's spatial dimensions
  void store_window(int operand, Ex x);
  int lead() const { return lead_; }
  int rank() const { return static_cast<int>(windows_.size()); }
  Affine window(int d) const { return dim(lead_ + d); }

 private:
  Affine coordinate(int d) const;
  bool can_leave(int d) const;
  std::vector<Window> windows_;
  int lead_;
};

}  // namespace npusim
