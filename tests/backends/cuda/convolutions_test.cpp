// Convolutions as tiles and as patches of few channels, beyond the image and with room for channels that are not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/choose/analysis.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/products/patch.h"
#include "backends/cuda/codegen/text.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

using cuda::codegen::GeneratedKernel;

// The product behind the packing of its weight.
Kernel packed(const Kernel& kernel) {
  const Unfused parts = cuda::codegen::choose::find_parts(kernel, hopper);
  EXPECT_EQ(parts.steps.size(), 2u);
  return parts.steps.back().kernel;
}

TEST(CudaProducts, Convolutions) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const ConvCase& c, const cuda::codegen::products::TileShape& s) {
    cases.push_back(tiled(name, s.specialized ? packed(conv(c, gelu)) : conv(c, gelu), s));
  };
  int number = 0;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes()) {
    ConvCase c;
    c.type = c.weight_type = DType::f16;
    c.in_channels = 16, c.out_channels = 24, c.batch = 2;
    const std::string of = std::to_string(number++);
    add("conv" + of, c, s);
    if (s.groups) continue;  // nothing of what differs below is theirs
    c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3}, c.in_channels = 3, c.input = {15, 14};
    add("stem" + of, c, s);
    if (s.rows != 64) continue;  // which coordinates there are is the same for all
    c.groups = 2, c.in_channels = 8, c.out_channels = 8, c.dilation = {2, 1}, c.kernel = {3, 3}, c.pad = {2, 1};
    add("grouped" + of, c, s);
    c.channels_last = false, c.type = c.weight_type = DType::bf16;
    add("channels_first" + of, c, s);
  }
  check(cases);
}

// Five channels of eight that an image has room for: what is in the others is nobody's.
TEST(CudaProducts, ChannelsThatFillWordsInPart) {
  ConvCase image;
  image.type = image.weight_type = DType::f16;
  image.in_channels = 8, image.out_channels = 24, image.input = {21, 18}, image.stride = {2, 2}, image.kernel = {7, 7};
  image.pad = {3, 3};
  Kernel stem = conv(image, gelu);
  auto contraction = std::make_shared<Contraction>(*stem.contraction);
  contraction->reduce[0] = 5;
  stem.contraction = contraction;
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes())
    if (s.rows == 64 || s.groups) {
      cases.push_back(tiled("stem" + name_of(s), s.specialized ? packed(stem) : stem, s));
      cases.back().given = [](std::vector<HostTensor>& memory) {
        for (int64_t i = 0; i < 21 * 18 * 8; ++i)
          if (i % 8 > 4) store_double(memory[0].data.data(), DType::f16, i, std::nan(""));
      };
    }
  check(cases);
  check_steps({{"packed_stem", stem, 2, {"rows", "tiles of 32x32, 8 stages, words by words"}}});
}

struct PatchCase {
  std::string name;
  ConvCase conv;
  int64_t channels = 3;  // of those that the image has room for
  bool lines = false;    // neighbours of a channel lie side by side
};

// The product behind the packing of its weight. Results are channels last, whatever the image is.
Case patched(const PatchCase& p, const cuda::codegen::products::PatchShape& shape) {
  const auto& [name, c, channels, lines] = p;
  Kernel kernel = conv(c, gelu);
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  contraction->reduce[0] = channels;
  if (lines) {
    const int64_t strides[] = {c.input[1], 1};
    for (size_t i = 0; i < 2; ++i) {
      if (contraction->a.guards.empty()) {
        contraction->a.strides[3 + i] = strides[i] * c.stride[i];
        contraction->a.strides[6 + i] = strides[i] * c.dilation[i];
      } else {
        contraction->a.guards[i].stride = strides[i];
      }
    }
    contraction->a.strides[5] = c.input[0] * c.input[1];
  }
  kernel.contraction = contraction;
  kernel = packed(kernel);
  kernel.name = name;
  EXPECT_EQ(check_kernel(kernel), std::vector<std::string>{}) << name;
  std::string why;
  auto product = plan::find_product(kernel, why);
  EXPECT_TRUE(product) << name << ": " << why;
  const cuda::codegen::choose::Analysis known = cuda::codegen::choose::analyse(kernel);
  EXPECT_TRUE(known.patches) << name << ": " << known.no_patches;
  EXPECT_EQ(cuda::codegen::products::patches_decline(*known.patches, *product), "") << name;
  std::vector<bool> ahead(kernel.args.size());
  ahead[static_cast<size_t>(product->b.arg)] = product->b.ahead = name.size() % 2;
  GeneratedKernel made = cuda::codegen::products::make_patches(kernel, *product, *known.patches, shape, any);
  made.symbol = cuda::codegen::function_name(kernel, *product);
  return {name, std::move(kernel), std::move(made), std::move(ahead)};
}

// Patches of every shape, whose windows are wider and narrower than words, begin at every pixel or at even ones, and
// reach beyond the image; several patches for a block and columns for several blocks.
TEST(CudaProducts, PatchesOfFewChannels) {
  std::vector<PatchCase> all;
  ConvCase c;
  c.type = c.weight_type = DType::f16;
  c.in_channels = 3, c.out_channels = 24, c.input = {21, 24}, c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3};
  all.push_back({"lines", c, 3, true});
  all.push_back({"elements", c, 3, false});
  c.stride = {1, 1}, c.kernel = {3, 3}, c.pad = {1, 1}, c.batch = 2, c.out_channels = 72;
  all.push_back({"every_pixel", c, 3, true});
  c.type = c.weight_type = DType::bf16;
  c.in_channels = 8, c.stride = {3, 4}, c.kernel = {2, 5}, c.pad = {0, 2}, c.dilation = {2, 1};
  all.push_back({"room", c, 3, false});
  c.in_channels = 4, c.stride = {1, 3}, c.kernel = {5, 6}, c.pad = {4, 0}, c.input = {9, 40};
  all.push_back({"room_for_four", c, 2, false});
  c.in_channels = 1, c.pad = {0, 0}, c.kernel = {1, 9}, c.dilation = {1, 1};
  all.push_back({"one_channel", c, 1, true});
  c.in_channels = 4, c.stride = {2, 2}, c.kernel = {4, 4}, c.pad = {1, 1}, c.out_channels = 8;
  all.push_back({"four_channels", c, 4, true});
  std::vector<Case> cases;
  for (PatchCase p : all) {
    const std::string name = p.name;
    for (const cuda::codegen::products::PatchShape& s : cuda::codegen::products::patch_shapes()) {
      if (s.lines * s.across != (s.columns == 64 ? 128 : 64) && name != "lines") continue;
      p.name = fmt::format("{}{}x{}x{}x{}", name, s.lines, s.across, s.columns, s.warps);
      cases.push_back(patched(p, s));
      Case& last = cases.back();
      if (s.lines == 8) last.made.shape.blocks = (p.conv.out_channels + s.columns - 1) / s.columns;
      const int64_t room = p.lines ? 0 : p.conv.in_channels, filled = p.channels;
      if (room > filled)  // what is in the others is nobody's
        last.given = [room, filled, type = p.conv.type](std::vector<HostTensor>& memory) {
          const auto elements = static_cast<int64_t>(memory[0].data.size() / 2);
          for (int64_t i = 0; i < elements; ++i)
            if (i % room >= filled) store_double(memory[0].data.data(), type, i, std::nan(""));
        };
    }
  }
  check(cases);
}

// The pixels right of a window are multiplied by nothing: what is no finite number there does not come into its sum.
TEST(CudaProducts, APatchWithoutFiniteNumbers) {
  ConvCase c;
  c.type = c.weight_type = DType::f16;
  c.in_channels = 3, c.out_channels = 8, c.input = {16, 48}, c.stride = {2, 2}, c.pad = {1, 1};
  std::vector<Case> cases;
  for (const int64_t width : {1, 2, 3, 5, 6, 7}) {
    c.kernel = {2, width};
    cases.push_back(
        patched({fmt::format("infinite{}", width), c, 3, true}, cuda::codegen::products::patch_shapes()[1]));
    cases.back().given = [](std::vector<HostTensor>& memory) {
      for (int64_t i = 0; i < 3 * 16 * 48; i += 97)
        store_double(memory[0].data.data(), DType::f16, i, i % 2 ? INFINITY : std::nan(""));
    };
  }
  check(cases);
}

// What patches decline, and which image is read as it lies.
TEST(CudaProducts, ConvolutionsThatAreNoPatches) {
  ConvCase stem;
  stem.type = stem.weight_type = DType::f16;
  stem.in_channels = 3, stem.out_channels = 16, stem.input = {32, 32}, stem.stride = {2, 2}, stem.channels_last = false;
  const auto find = [](const ConvCase& c, std::string& why) {
    cuda::codegen::choose::Analysis known = cuda::codegen::choose::analyse(conv(c, gelu));
    why = known.no_patches;
    return std::move(known.patches);
  };
  std::string why;
  ASSERT_TRUE(find(stem, why)) << why;
  EXPECT_EQ(find(stem, why)->pixels, cuda::codegen::products::PatchConv::Pixels::lines);
  ConvCase odd = stem;
  odd.input[1] = 33;
  EXPECT_EQ(find(odd, why)->pixels, cuda::codegen::products::PatchConv::Pixels::elements);
  const auto declines = [&](const std::string& reason, auto&& change) {
    ConvCase c = stem;
    change(c);
    EXPECT_FALSE(find(c, why)) << reason;
    EXPECT_EQ(why, reason);
  };
  declines("5 channels", [](ConvCase& c) { c.in_channels = 5; });
  declines("2 groups", [](ConvCase& c) { c.groups = 2; });
  declines("12 output channels", [](ConvCase& c) { c.out_channels = 12; });
  declines("its taps are not neighbours", [](ConvCase& c) { c.dilation = {1, 2}; });
  declines("windows too large for a block's memory", [](ConvCase& c) {
    c.kernel = c.stride = {32, 32}, c.pad = {0, 0};
  });
  declines("1 spatial dimensions",
           [](ConvCase& c) { c.input = {32}, c.kernel = {3}, c.stride = {2}, c.pad = {1}, c.dilation = {1}; });
}

}  // namespace
}  // namespace npusim
