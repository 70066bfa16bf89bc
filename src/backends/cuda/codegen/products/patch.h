// Convolutions of few channels on tensor cores: a block keeps a patch of the image in shared memory, and the windows of
// its pixels overlap there.
#pragma once
#include <optional>

#include "backends/cuda/codegen/generated.h"
#include "plan/contracted.h"

namespace npusim::cuda::codegen::products {

inline constexpr int patch_channels = 4;  // that a pixel of a patch has; those that the image does not have are zeros

// Two spatial dimensions, one group, no dilation along the lines.
struct PatchConv {
  // How pixels lie in the image: neighbours of one channel in words of 16 bytes, channels of one pixel in 8 bytes.
  enum class Pixels : uint8_t { lines, words, elements };
  ConvWindows windows;
  Operand image;
  Pixels pixels = Pixels::elements;
  bool packed = false;  // the weight's channels of one pixel are 8 bytes
  // A line of a window's depth: its pixels and some that are zeros, so that 16 elements are of one line.
  int pixels_of_line() const { return static_cast<int>((windows.kernel[1] + 3) / 4 * 4); }
};

// Of a block: output pixels, and the columns, which are output channels, of each. Warps share the pixels.
struct PatchShape {
  int lines = 16, across = 16;
  int columns = 64;
  int warps = 4;
  int threads() const { return 32 * warps; }
  int rows_of_warp() const { return lines * across / warps; }
};

// Why it is no such convolution in `why`, then. Neither where the weight lies nor where the result does is checked.
std::optional<PatchConv> find_patch_conv(const Kernel& kernel, const plan::Contracted& contracted, std::string& why);
std::span<const PatchShape> patch_shapes();
bool fits(const PatchConv& conv, const PatchShape& shape);
PatchShape choose_patch(const PatchConv& conv, const Features& features);
int64_t patches_of(const PatchConv& conv, const PatchShape& shape);  // of all images, with all columns

// Whether results are words of channels, of one product.
bool makes_words(const Product& product);
std::string patches_decline(const PatchConv& conv, const Product& product);  // "" if they do not
GeneratedKernel make_patches(const Kernel& kernel, const Product& product, const PatchConv& conv,
                             const PatchShape& shape, const Features& features);

}  // namespace npusim::cuda::codegen::products
