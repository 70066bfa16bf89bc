// Every zoo model with a golden: as near to PyTorch's float32 as its own half precision is, and near in float32.
#include <algorithm>
#include <cstring>

#include "models/model.h"

namespace npusim {
namespace {

struct Golden {
  const char* name;
  Bars float32;  // three times what was measured
};

// t5_enc_2l has not scaled scores: its softmax multiplies their errors.
const Golden with_golden[] = {
    {"resnet18", {3e-13, 1.2e-6}},    {"resnet50", {3e-13, 1.2e-6}},    {"mobilenet_v2", {4e-13, 1.6e-6}},
    {"densenet121", {1e-13, 7e-7}},   {"convnext_tiny", {6e-13, 2e-6}}, {"vit_b_16", {4e-12, 5e-6}},
    {"minilm_l6", {1.2e-12, 2.7e-6}}, {"gpt2_2l", {1.8e-12, 3.3e-6}},   {"t5_enc_2l", {8e-11, 2.2e-5}},
    {"qwen2_2l", {3e-12, 4.2e-6}},
};

std::string position(const char* name, size_t i) { return name + std::to_string(i); }

class Zoo : public ::testing::TestWithParam<Golden> {};

// At the default dtype ours rounds once per kernel, PyTorch's half precision at every operator: 1.5 times the distance
// of that one leaves room for which of the two happens to cancel more.
Bars bars_of(const Golden& model, const std::string& dtype, const std::vector<double>& golden,
             const std::vector<double>& half) {
  if (dtype == "float32") return model.float32;
  return {2 * one_minus_r(half, golden), 1.5 * relative_l2(half, golden)};
}

void check_outputs(const Golden& model, const std::vector<HostTensor>& outputs, const TensorSet& golden,
                   const std::string& dtype) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<double> expected = to_doubles(get_tensor(golden, position("out", i)));
    const std::vector<double> half = to_doubles(get_tensor(golden, position("half", i)));
    const Shape& shape = outputs[i].type.shape;
    expect_close(to_doubles(view_of(outputs[i])), expected, shape.empty() ? 1 : shape.back(),
                 bars_of(model, dtype, expected, half), dtype + " " + position("out", i));
  }
}

// Also: run() allocates nothing (run_model), and the same bits come out of every run.
void check_model(const Golden& golden_model, const std::string& folder, const std::string& dtype) {
  const std::string ir = examples + "zoo/" + golden_model.name + "/ir.json";
  Model model = load_model({{.path = ir, .json = {}}}, folder + "model.safetensors", dtype);
  const TensorSet inputs = map_tensors(folder + "inputs.safetensors"),
                  golden = map_tensors(folder + "golden.safetensors");
  const std::vector<HostTensor> outputs = run_model(model, "main", inputs);
  check_outputs(golden_model, outputs, golden, dtype);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<HostTensor> again = run_model(model, "main", inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_TRUE(again[i].data == outputs[i].data) << dtype << ", output " << i;
  }
}

TEST_P(Zoo, HalfPrecisionIsAsNearAsPyTorch) {
  MATERIALIZE_OR_SKIP(folder, std::string("zoo/") + GetParam().name);
  check_model(GetParam(), folder, "auto");
}

TEST_P(Zoo, Float32) {
  MATERIALIZE_OR_SKIP(folder, std::string("zoo/") + GetParam().name);
  check_model(GetParam(), folder, "float32");
}

INSTANTIATE_TEST_SUITE_P(Golden, Zoo, ::testing::ValuesIn(with_golden),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace npusim
