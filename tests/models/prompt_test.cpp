// Models that read a prompt for the logits of one token: the row that all logits have of it, with the last layer, but
// for its keys and values, of that token alone.
#include "base/file.h"
#include "models/model.h"

namespace npusim {
namespace {

// The zoo's name of its input is none that has a role.
std::string with_roles(std::string json) {
  const std::string name = "\"ids\"";
  for (size_t at = 0; (at = json.find(name, at)) != std::string::npos;) json.replace(at, name.size(), "\"input_ids\"");
  return json;
}

class Prompts : public testing::TestWithParam<const char*> {};

TEST_P(Prompts, HaveTheRowOfAllLogits) {
  const std::string name = GetParam();
  MATERIALIZE_OR_SKIP(folder, "zoo/" + name);
  CompileOptions options;
  options.dtype = "float32";
  options.text = true;
  Model model;
  model.program =
      compile({{"read", name, with_roles(read_file(examples + "zoo/" + name + "/ir.json"))}}, options).program;
  ASSERT_EQ(method_names(*model.program), (std::vector<std::string>{"read", "prompt"}));
  model.session = std::make_unique<Session>(
      model.program, SessionOptions{.weights = open_tensors(folder + "model.safetensors"), .devices = {}});
  const Method &read = model.program->methods[0], &prompt = model.program->methods[1];
  const int64_t length = read.inputs[0].type.shape[1], vocabulary = read.outputs[0].type.shape[2];
  // By attention: points of its result.
  const auto attentions = [&](const Method& method) {
    std::vector<int64_t> points;
    for (const Step& step : method.steps)
      if (const Kernel& k = model.program->kernels[static_cast<size_t>(step.kernel)];
          k.contraction && k.contraction->score)
        points.push_back(element_count(k.space));
    return points;
  };
  const std::vector<int64_t> whole = attentions(read);
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_EQ(attentions(prompt), (std::vector<int64_t>{whole[0], whole[1] / length}));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back((i * 131 + 7) % 5000);
  for (const size_t method : {0, 1}) model.session->set_input(method, 0, std::as_bytes(std::span(ids)));
  model.session->run(0);
  const std::vector<double> all = to_doubles(model.session->output_view(0, 0));
  for (const int64_t last : {int64_t{0}, int64_t{17}, length - 1}) {
    model.session->set_input(1, 1, std::as_bytes(std::span(&last, 1)));
    const int64_t before = allocation_count().own;
    model.session->run(1);
    EXPECT_EQ(allocation_count().own, before);
    const std::vector<double> expected(all.begin() + last * vocabulary, all.begin() + (last + 1) * vocabulary);
    expect_close(to_doubles(model.session->output_view(1, 0)), expected, vocabulary, {1e-12, 2e-6}, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Prompts, testing::Values("gpt2_2l", "qwen2_2l"));

}  // namespace
}  // namespace npusim
