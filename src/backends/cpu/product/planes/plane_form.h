// Convolutions of planes into planes: what they read, where their weights are, and how they end.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::planes {

struct PlaneForm {
  const float *image = nullptr, *weight = nullptr;
  // Along the channels, added first; null: none.
  const float* bias = nullptr;
  int64_t bias_group = 0, bias_channel = 0;  // in elements
  std::vector<Finish> finishes;              // of the images: [channel][pixel], without a bias
};

// Why image and weight are not float32, the image's pixels side by side; empty: they are.
std::string refuse_planes(const Problem& problem);
// Of planes that are not refused. Why a tile cannot end so in `why`, then.
std::optional<PlaneForm> plane_form(const Problem& problem, std::string& why);

// Of a channel of a group and one of its taps, [in channel][tap of the window].
int64_t weight_at(const ConvWindows& windows, int64_t channel, int64_t tap);
// Of all channels, of all groups; zeros without a bias.
void read_bias(const PlaneForm& form, const ConvWindows& windows, float* to);

}  // namespace npusim::cpu::product::planes
