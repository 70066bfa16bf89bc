// The two trained models whole on the emulator: every kernel is printed, compiled, and run as one launch or in a group.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "backends/emulator/device.h"
#include "backends/emulator/target.h"
#include "compiler/compile_for.h"
#include "models/model.h"
#include "text/generate.h"

namespace npusim {
namespace {

using namespace std::string_literals;

class EmulatedModels : public ::testing::TestWithParam<const char*> {
 protected:
  bool is_float32() const { return GetParam() == "float32"s; }

  Model load(const std::vector<MethodSource>& methods, const std::string& weights, const std::string& kv_map = "") {
    CompileOptions options;
    options.dtype = GetParam();
    options.kv_map.path = kv_map;
    Model model;
    model.program = compile_for(emulator::target(), methods, options).program;
    SessionOptions session;
    session.weights = open_tensors(weights);
    session.devices = {emulator::open_device(0)};
    model.session = std::make_unique<Session>(model.program, std::move(session));
    return model;
  }
  Model load_tinyqwen() {
    const std::string source = examples + "models/tinyqwen/";
    return load({{"prefill", source + "prefill_ir.json", {}}, {"decode", source + "decode_ir.json", {}}},
                source + "model.safetensors", source + "kv_mapping.json");
  }
};
INSTANTIATE_TEST_SUITE_P(Dtype, EmulatedModels, ::testing::Values("auto", "float32"),
                         [](const auto& info) { return std::string(info.param); });

int64_t largest(const std::vector<double>& values, size_t begin, size_t count) {
  const auto first = values.begin() + static_cast<int64_t>(begin);
  return std::max_element(first, first + static_cast<int64_t>(count)) - first;
}

TEST_P(EmulatedModels, Digits) {
  MATERIALIZE_OR_SKIP(folder, "models/digits");
  const std::string source = examples + "models/digits/";
  Model model = load({{.path = source + "ir.json", .json = {}}}, source + "model.safetensors");
  const std::shared_ptr<const TensorSet> test = open_tensors(folder + "test.safetensors");
  const TensorView& images = get_tensor(*test, "images");
  const std::vector<double> golden = to_doubles(get_tensor(*test, "logits"));
  const TensorType input = method_inputs(*model.program, "main")[0].type,
                   output = method_outputs(*model.program, "main")[0].type;
  const int64_t pixels = element_count(input.shape), count = images.type.shape[0];
  std::vector<double> logits;
  for (int64_t image = 0; image < count; ++image) {
    for (int64_t i = 0; i < pixels; ++i)
      store_double(model.session->input(0, 0).data(), input.dtype, i,
                   load_double(images.data, images.type.dtype, image * pixels + i));
    model.session->run(0);
    const std::vector<double> found = to_doubles({output, model.session->output(0, 0).data()});
    logits.insert(logits.end(), found.begin(), found.end());
    EXPECT_EQ(largest(found, 0, 10), largest(golden, static_cast<size_t>(image) * 10, 10)) << image;
  }
  expect_close(logits, golden, 10, is_float32() ? Bars{1e-12, 1e-6} : Bars{1e-5, 5e-3}, GetParam());
}

// Prefill of 64 real tokens, then four decode steps on what it left in the states.
TEST_P(EmulatedModels, TinyqwenLogits) {
  MATERIALIZE_OR_SKIP(folder, "models/tinyqwen");
  constexpr int64_t vocabulary = 2048, prompt = 64, steps = 4;
  const std::shared_ptr<const TensorSet> golden = open_tensors(folder + "golden_logits.safetensors");
  const std::vector<double> expected = to_doubles(get_tensor(*golden, "logits"));  // [1, 68, 2048]
  const std::vector<double> ids = to_doubles(get_tensor(*golden, "ids"));
  ASSERT_EQ(expected.size(), static_cast<size_t>((prompt + steps) * vocabulary));
  ASSERT_EQ(ids.size(), static_cast<size_t>(prompt + steps));
  Model model = load_tinyqwen();
  const Method& decode = model.program->methods[1];
  std::printf("  decode: %zu steps in %zu launches\n", decode.steps.size(), decode.launches.size());
  EXPECT_LT(decode.launches.size(), decode.steps.size());
  const auto run = [&](const std::string& method, int64_t first, int64_t count) {
    const size_t m = model.session->method(method);
    const std::vector<TensorInfo> inputs = method_inputs(*model.program, method);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorInfo& in = inputs[i];
      const bool mask = in.name == "attention_mask", tokens = in.name == "input_ids";
      if (!mask && is_float(in.type.dtype)) continue;  // a state
      std::byte* to = model.session->input(m, i).data();
      const int64_t keys = in.type.shape.back();
      for (int64_t q = 0; q < count; ++q)
        for (int64_t k = 0; mask && k < keys; ++k)
          store_double(to, in.type.dtype, q * keys + k, k <= first + q ? 0 : -1e9);
      for (int64_t t = 0; !mask && t < count; ++t)
        store_int(to, in.type.dtype, t, tokens ? static_cast<int64_t>(ids[static_cast<size_t>(first + t)]) : first + t);
    }
    model.session->run(m);
    return to_doubles({method_outputs(*model.program, method)[0].type, model.session->output(m, 0).data()});
  };
  std::vector<double> found = run("prefill", 0, prompt);
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<double> row = run("decode", prompt + step, 1);
    found.insert(found.end(), row.begin(), row.end());
  }
  expect_close(found, expected, vocabulary, is_float32() ? Bars{1e-12, 2e-6} : Bars{4e-5, 1e-2}, GetParam());
}

TEST_P(EmulatedModels, TinyqwenWritesPyTorchsTokens) {
  constexpr size_t tokens = 6;
  const double sure = is_float32() ? 0.001 : 0.1;
  Model model = load_tinyqwen();
  const TextFacts& text = text_facts(*model.program);
  std::ifstream in(examples + "models/tinyqwen/golden_greedy.json");
  const nlohmann::json example = nlohmann::json::parse(in).at(0);
  const std::vector<int64_t> prompt = example.at("prompt_ids"), expected = example.at("fp32");
  const std::vector<double> margins = example.at("fp32_margin");
  GenerateOptions options;
  options.max_new_tokens = tokens;
  const Generation found = generate(*model.session, text, prompt, options, [](int64_t) {});
  ASSERT_EQ(found.tokens.size(), tokens);
  size_t checked = 0;
  for (; checked < tokens && margins[checked] > sure; ++checked) EXPECT_EQ(found.tokens[checked], expected[checked]);
  EXPECT_GT(checked, 2U);
}

}  // namespace
}  // namespace npusim
