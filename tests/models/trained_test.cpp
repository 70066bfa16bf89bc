// The two trained models: digits classifies its test images, tinyqwen writes PyTorch's tokens.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "models/model.h"
#include "text/generate.h"
#include "text/tokenizer.h"

namespace npusim {
namespace {

using namespace std::string_literals;

class Trained : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Dtype, Trained, ::testing::Values("auto", "float32"),
                         [](const auto& info) { return std::string(info.param); });

int64_t largest(const std::vector<double>& values, size_t begin, size_t count) {
  const auto first = values.begin() + static_cast<int64_t>(begin);
  return std::max_element(first, first + static_cast<int64_t>(count)) - first;
}

TEST_P(Trained, Digits) {
  MATERIALIZE_OR_SKIP(folder, "models/digits");
  const std::string source = examples + "models/digits/";
  Model model = load_model({{.path = source + "ir.json", .json = {}}}, source + "model.safetensors", GetParam());
  const TensorSet test = map_tensors(folder + "test.safetensors");
  const TensorView &images = get_tensor(test, "images"), &labels = get_tensor(test, "labels");
  const std::vector<double> golden = to_doubles(get_tensor(test, "logits"));
  const TensorType input = method_inputs(*model.program, "main")[0].type,
                   output = method_outputs(*model.program, "main")[0].type;
  const int64_t pixels = element_count(input.shape), count = images.type.shape[0];
  ASSERT_EQ(count, 397);
  std::vector<double> logits;
  int64_t right = 0, same = 0;
  for (int64_t image = 0; image < count; ++image) {
    for (int64_t i = 0; i < pixels; ++i)
      store_double(model.session->input(0, 0).data(), input.dtype, i,
                   load_double(images.data, images.type.dtype, image * pixels + i));
    model.session->run(0);
    const std::vector<double> found = to_doubles({output, model.session->output(0, 0).data()});
    logits.insert(logits.end(), found.begin(), found.end());
    const int64_t digit = largest(found, 0, 10);
    right += digit == load_int(labels.data, labels.type.dtype, image);
    same += digit == largest(golden, static_cast<size_t>(image) * 10, 10);
  }
  EXPECT_GE(right * 100, count * 99);
  EXPECT_EQ(same, count);
  const std::vector<double> half = to_doubles(get_tensor(test, "half"));
  const Bars rounded{2 * one_minus_r(half, golden), 1.5 * relative_l2(half, golden)};
  expect_close(logits, golden, 10, GetParam() == "float32"s ? Bars{1e-12, 1e-6} : rounded, GetParam());
}

Model load_tinyqwen(const std::string& dtype) {
  const std::string source = examples + "models/tinyqwen/";
  return load_model({{"prefill", source + "prefill_ir.json", {}}, {"decode", source + "decode_ir.json", {}}},
                    source + "model.safetensors", dtype, source + "kv_mapping.json");
}

TEST(Tinyqwen, HasTheRolesOfAText) {
  const Model model = load_tinyqwen("auto");
  for (const Method& method : model.program->methods) {
    if (method.name == "greedy" || method.name == "sample" || method.name == "nucleus") continue;  // greedy_test.cpp
    const bool prompt = method.name == "prompt";
    ASSERT_EQ(method.inputs.size(), method.name == "decode" ? 12U : prompt ? 5U : 4U);
    const Role roles[] = {Role::tokens, Role::mask, Role::positions, Role::positions};
    for (size_t i = 0; i < method.inputs.size(); ++i)
      EXPECT_EQ(method.inputs[i].role, i < 4    ? roles[i]
                                       : prompt ? Role::last
                                                : Role::data)
          << method.name << " " << method.inputs[i].name;
    for (size_t i = 0; i < method.outputs.size(); ++i)
      EXPECT_EQ(method.outputs[i].role, i == 0 ? Role::logits : Role::data) << method.name << " " << i;
  }
  EXPECT_NE(describe(*model.program, false).find("attention_mask           bfloat16[1, 1, 1, 256]  (mask)"),
            std::string::npos);
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

// PyTorch's tokens as far as its margin says that they are no matter of rounding.
// Prefill and decode run on the device and must write what PyTorch wrote.
TEST_P(Trained, TinyqwenWritesPyTorchsTokens) {
  const double sure = std::string(GetParam()) == "float32" ? 0.001 : 0.1;
  Model model = load_tinyqwen(GetParam());
  const TextFacts& text = text_facts(*model.program);
  const Tokenizer tokenizer = load_tokenizer(examples + "models/tinyqwen/tokenizer.json");
  for (const nlohmann::json& example : read_json(examples + "models/tinyqwen/golden_greedy.json")) {
    const std::string prompt = example.at("prompt");
    const std::vector<int64_t> ids = encode(tokenizer, prompt), expected = example.at("fp32");
    EXPECT_EQ(ids, example.at("prompt_ids").get<std::vector<int64_t>>()) << prompt;
    const std::vector<double> margins = example.at("fp32_margin");
    GenerateOptions options;
    options.max_new_tokens = static_cast<int64_t>(expected.size());
    int64_t streamed = 0;
    const Generation found = generate(*model.session, text, ids, options, [&](int64_t) { ++streamed; });
    EXPECT_EQ(streamed, options.max_new_tokens);
    ASSERT_EQ(found.tokens.size(), expected.size());
    size_t checked = 0;
    for (; checked < expected.size() && margins[checked] > sure; ++checked)
      ASSERT_EQ(found.tokens[checked], expected[checked]) << "'" << prompt << "', token " << checked;
    std::printf("  '%s': %zu of %zu tokens checked\n", prompt.c_str(), checked, expected.size());
  }
}

// The same text again: the states of the run before are overwritten, whatever they hold.
TEST(Tinyqwen, RepeatsItself) {
  Model model = load_tinyqwen("auto");
  const TextFacts& text = text_facts(*model.program);
  GenerateOptions options;
  options.max_new_tokens = 24;
  const std::vector<int64_t> one = {321, 564, 262, 8}, other = {285, 314, 263};
  const auto write = [&](const std::vector<int64_t>& prompt) {
    return generate(*model.session, text, prompt, options, [](int64_t) {}).tokens;
  };
  const std::vector<int64_t> first = write(one);
  write(other);
  EXPECT_EQ(write(one), first);
}

// Prefill alone on 64 real tokens with a causal mask.
TEST_P(Trained, TinyqwenPrefillLogits) {
  MATERIALIZE_OR_SKIP(folder, "models/tinyqwen");
  const TensorSet golden = map_tensors(folder + "golden_logits.safetensors");
  std::vector<double> expected = to_doubles(get_tensor(golden, "logits"));  // [1, 68, 2048]
  expected.resize(64 * 2048);
  const std::vector<double> ids = to_doubles(get_tensor(golden, "ids"));
  Model model = load_tinyqwen(GetParam());
  const size_t prefill = model.session->method("prefill");
  const std::vector<TensorInfo> inputs = method_inputs(*model.program, "prefill");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = inputs[i].type.dtype;
    std::byte* to = model.session->input(prefill, i).data();
    if (inputs[i].name == "attention_mask") {
      for (int64_t q = 0; q < 64; ++q)
        for (int64_t k = 0; k < 64; ++k) store_double(to, dtype, q * 64 + k, k <= q ? 0 : -1e9);
    } else {
      for (int64_t t = 0; t < 64; ++t)
        store_int(to, dtype, t, inputs[i].name == "input_ids" ? static_cast<int64_t>(ids[static_cast<size_t>(t)]) : t);
    }
  }
  const int64_t before = allocation_count().own;
  model.session->run(prefill);
  EXPECT_EQ(allocation_count().own, before);
  const TensorInfo logits = method_outputs(*model.program, "prefill")[0];
  const std::vector<double> found = to_doubles({logits.type, model.session->output(prefill, 0).data()});
  expect_close(found, expected, 2048, GetParam() == "float32"s ? Bars{1e-12, 1.6e-6} : Bars{4e-5, 1e-2}, GetParam());
}

}  // namespace
}  // namespace npusim
