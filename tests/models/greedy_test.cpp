// The method that feeds itself: the same tokens as decode, one number to the host per step, and no key behind the
// position.
#include <algorithm>
#include <cstring>

#include "models/model.h"
#include "random/place.h"
#include "text/generate.h"

namespace npusim {
namespace {

const std::string source = examples + "models/tinyqwen/";

Model load(const std::string& dtype, std::optional<bool> text = {}) {
  CompileOptions options;
  options.dtype = dtype;
  options.kv_map.path = source + "kv_mapping.json";
  options.text = text;
  return load_model({{"prefill", source + "prefill_ir.json", {}}, {"decode", source + "decode_ir.json", {}}},
                    source + "model.safetensors", options);
}

std::vector<int64_t> write(Session& session, const TextFacts& text, const std::vector<int64_t>& prompt, int64_t count) {
  GenerateOptions options;
  options.max_new_tokens = count;
  return generate(session, text, prompt, options, [](int64_t) {}).tokens;
}

std::vector<int64_t> prompt_of(int64_t length) {
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back((i * 37 + 321) % 2048);
  return prompt;
}

size_t find_method(const Program& program, const std::string& name) {
  const auto found =
      std::find_if(program.methods.begin(), program.methods.end(), [&](const Method& m) { return m.name == name; });
  return static_cast<size_t>(found - program.methods.begin());
}

TEST(Greedy, IsAddedAmongSeveralMethods) {
  EXPECT_EQ(method_names(*load("auto").program),
            (std::vector<std::string>{"prefill", "decode", "prompt", "greedy", "sample", "nucleus"}));
  EXPECT_EQ(method_names(*load("auto", false).program), (std::vector<std::string>{"prefill", "decode"}));
  CompileOptions options;
  EXPECT_EQ(method_names(*compile({{"decode", source + "decode_ir.json", {}}}, options).program),
            std::vector<std::string>{"decode"});
  options.text = true;
  EXPECT_EQ(method_names(*compile({{"decode", source + "decode_ir.json", {}}}, options).program),
            (std::vector<std::string>{"decode", "greedy", "sample", "nucleus"}));
}

// Its attention loads how many keys there are, reads no mask, and every state of decode is its own too.
TEST(Greedy, ReadsNoMask) {
  if (test::open_place().target != find_target("cpu")) GTEST_SKIP() << "attention may be there in parts";
  const Model model = load("auto");
  const Program& program = *model.program;
  const Method &decode = program.methods[find_method(program, "decode")],
               &greedy = program.methods[find_method(program, "greedy")];
  EXPECT_EQ(greedy.fusions.at("bound_keys"), 4);
  size_t attentions = 0;
  for (const Step& step : greedy.steps) {
    const Kernel& k = program.kernels[static_cast<size_t>(step.kernel)];
    if (!k.contraction || !k.contraction->score) continue;
    ++attentions;
    EXPECT_GE(k.contraction->score->keys, 0);
    EXPECT_EQ(std::count_if(k.args.begin(), k.args.end(), [](const KernelArg& a) { return a.dtype == DType::i64; }), 1);
  }
  EXPECT_EQ(attentions, 4U);
  EXPECT_EQ(greedy.steps.size(), decode.steps.size() + 3);  // the likeliest of parts and of all, the next position
  for (const TensorSpec& spec : greedy.inputs) {
    EXPECT_EQ(program.buffers[static_cast<size_t>(spec.buffer)].kind, BufferKind::state) << spec.name;
    if (spec.role != Role::data) continue;
    EXPECT_TRUE(std::any_of(decode.inputs.begin(), decode.inputs.end(), [&](const TensorSpec& s) {
      return s.buffer == spec.buffer;
    })) << spec.name;
  }
  EXPECT_EQ(greedy.inputs.size(), 10U);  // token, position, eight states
}

// Token by token and up to the last position, from prompts of every kind of length.
TEST(Greedy, WritesWhatDecodeWrites) {
  for (const char* dtype : {"auto", "float32"}) {
    Model model = load(dtype);
    const TextFacts& text = text_facts(*model.program);
    ASSERT_GE(text.greedy, 0);
    TextFacts plain = text;
    plain.greedy = -1;
    for (int64_t length : {1, 2, 63, 64, 65, 127, 255, 256}) {
      const std::vector<int64_t> found = write(*model.session, text, prompt_of(length), 40);
      EXPECT_EQ(found, write(*model.session, plain, prompt_of(length), 40)) << dtype << " " << length;
      EXPECT_EQ(found.size(), std::min<size_t>(40, static_cast<size_t>(257 - length)));
    }
  }
}

// Where a prompt has been read: by a prefill, whose logits the host draws from, and token by token.
TEST(Greedy, DrawsWhatTheHostDraws) {
  Model model = load("float32");
  const TextFacts& text = text_facts(*model.program);
  ASSERT_GE(text.sample, 0);
  TextFacts host = text;
  host.sample = -1;
  for (const uint64_t seed : {0, 1, 2})
    for (const int64_t length : {3, 80}) {
      const GenerateOptions options{40, 1, 1, seed, {}};
      const auto draw = [&](const TextFacts& m) {
        return generate(*model.session, m, prompt_of(length), options, [](int64_t) {}).tokens;
      };
      EXPECT_EQ(draw(text), draw(host)) << seed << " " << length;
    }
}

// Runs follow each other without the host.
TEST(Greedy, StepsChain) {
  Model model = load("float32");
  const TextFacts& text = text_facts(*model.program);
  const std::vector<int64_t> tokens = write(*model.session, text, prompt_of(5), 20);
  write(*model.session, text, prompt_of(5), 1);
  const TextMethod m = text_method(*model.program, text.greedy);
  const auto greedy = m.method;
  const int64_t position = 5;
  model.session->set_input(greedy, static_cast<size_t>(m.tokens), std::as_bytes(std::span(&tokens[0], 1)));
  model.session->set_input(greedy, static_cast<size_t>(m.positions[0]), std::as_bytes(std::span(&position, 1)));
  const int64_t before = allocation_count().own;
  model.session->run(greedy, 19);
  EXPECT_EQ(allocation_count().own, before);
  EXPECT_EQ(load_int(model.session->output(greedy, static_cast<size_t>(m.next)).data(), DType::i64, 0), tokens[19]);
}

// Whatever the states hold behind the position.
TEST(Greedy, RowsBehindThePositionAreNotRead) {
  Model model = load("float32");
  const TextFacts& text = text_facts(*model.program);
  const std::vector<int64_t> expected = write(*model.session, text, prompt_of(7), 30);
  const auto greedy = static_cast<size_t>(text.greedy);
  const Method& method = model.program->methods[greedy];
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    if (method.inputs[i].role != Role::data) continue;
    std::vector<std::byte> nothing(byte_size(method.inputs[i].type));
    for (int64_t e = 0; e < element_count(method.inputs[i].type.shape); ++e)
      store_double(nothing.data(), method.inputs[i].type.dtype, e, std::nan(""));
    model.session->set_input(greedy, i, nothing);
  }
  EXPECT_EQ(write(*model.session, text, prompt_of(7), 30), expected);
}

}  // namespace
}  // namespace npusim
