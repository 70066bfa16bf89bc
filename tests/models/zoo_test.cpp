// Every zoo model with a golden: as near to PyTorch's float32 as its own half precision is, and near in float32.
#include <algorithm>
#include <cstring>

#include "models/model.h"

namespace npusim {
namespace {

const char* const with_golden[] = {"resnet18", "resnet50",  "mobilenet_v2", "densenet121", "convnext_tiny",
                                   "vit_b_16", "minilm_l6", "gpt2_2l",      "t5_enc_2l",   "qwen2_2l"};

std::string position(const char* name, size_t i) { return name + std::to_string(i); }

class Zoo : public ::testing::TestWithParam<const char*> {};

// 1 − r that an output may have.
double bound(const std::string& dtype, const std::vector<double>& golden, const std::vector<double>& half) {
  if (dtype == "float32") return 1e-6;
  return std::max(4 * one_minus_r(half, golden), 2e-6);
}

void check_outputs(const std::vector<HostTensor>& outputs, const WeightFiles& golden, const std::string& dtype) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<double> expected = to_doubles(get_weight(golden, position("out", i)));
    const std::vector<double> half = to_doubles(get_weight(golden, position("half", i)));
    const std::vector<double> found = to_doubles(view_of(outputs[i]));
    const Shape& shape = outputs[i].type.shape;
    const double error = one_minus_r(found, expected), allowed = bound(dtype, expected, half);
    EXPECT_LE(error, allowed) << dtype << ", output " << i;
    EXPECT_EQ(argmax_differences(found, expected, shape.empty() ? 1 : shape.back()), 0) << dtype << ", output " << i;
    std::printf("  %s out%zu: 1 - r = %.2e, allowed %.2e\n", dtype.c_str(), i, error, allowed);
  }
}

// Also: run() allocates nothing (run_model), and the same bits come out of every run.
void check_model(const std::string& name, const std::string& folder, const std::string& dtype) {
  const std::string ir = examples + "zoo/" + name + "/ir.json";
  Model model = load_model({{.path = ir, .json = {}}}, folder + "model.safetensors", dtype);
  const WeightFiles inputs = open_weights(folder + "inputs.safetensors"),
                    golden = open_weights(folder + "golden.safetensors");
  const std::vector<HostTensor> outputs = run_model(model, "main", inputs);
  check_outputs(outputs, golden, dtype);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<HostTensor> again = run_model(model, "main", inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_TRUE(again[i].data == outputs[i].data) << dtype << ", output " << i;
  }
}

TEST_P(Zoo, HalfPrecisionIsAsNearAsPyTorch) {
  MATERIALIZE_OR_SKIP(folder, std::string("zoo/") + GetParam());
  check_model(GetParam(), folder, "auto");
}

TEST_P(Zoo, Float32) {
  MATERIALIZE_OR_SKIP(folder, std::string("zoo/") + GetParam());
  check_model(GetParam(), folder, "float32");
}

INSTANTIATE_TEST_SUITE_P(Golden, Zoo, ::testing::ValuesIn(with_golden),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace npusim
