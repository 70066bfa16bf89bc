// Prefills that write into the states of a decode: which output fills which state, and what else reads it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "npusim/compiler.h"
#include "npusim/session.h"
#include "program/program.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

Json tensor(const std::string& name, const Shape& shape, const std::string& dtype = "float32") {
  return {{"name", name}, {"shape", shape}, {"dtype", dtype}};
}

// Of the node that bears the tensor's name.
Json made(const std::string& name, const Shape& shape) {
  Json json = tensor(name, shape);
  json["producer_node"] = name;
  json["producer_output_idx"] = 0;
  return json;
}

Json node(const std::string& name, const std::string& op, const std::vector<Json>& inputs, const Shape& shape,
          const Json& attrs = Json::object()) {
  return {{"name", name}, {"op_type", op}, {"inputs", inputs}, {"outputs", {tensor(name, shape)}}, {"attrs", attrs}};
}

std::string ir(const std::vector<Json>& inputs, const std::vector<Json>& nodes, const std::vector<Json>& outputs) {
  return Json{{"graph_inputs", inputs}, {"graph_outputs", outputs}, {"weights", Json::array()}, {"nodes", nodes}}
      .dump();
}

// Writes x [2, 1, 3] at a position of a cache [2, 8, 3].
MethodSource decode_source(const std::string& cache = "cache") {
  const Shape row{2, 1, 3}, all{2, 8, 3};
  const std::vector<Json> inputs = {tensor("x", row), tensor("position", {1}, "int64"), tensor(cache, all)};
  return {"decode", "decode",
          ir(inputs, {node("copied", "aten.index_copy.default", {inputs[2], inputs[1], inputs[0]}, all, {{"dim", 1}})},
             {tensor("copied", all)})};
}

// key = relu(x) of [2, length, 3], and twice the key.
MethodSource prefill_source(int64_t length, const std::string& name = "prefill", const std::string& x = "x") {
  const Shape shape{2, length, 3};
  const std::vector<Json> nodes = {
      node("key", "aten.relu.default", {tensor(x, shape)}, shape),
      node("twice", "aten.mul.Tensor", {made("key", shape)}, shape, {{"other", 2}}),
  };
  return {name, name, ir({tensor(x, shape)}, nodes, {tensor("key", shape), tensor("twice", shape)})};
}

// With the tokens of a text among its inputs.
MethodSource of_text(MethodSource source) {
  Json json = Json::parse(source.json);
  json["graph_inputs"].push_back(tensor("input_ids", {1, 1}, "int64"));
  source.json = json.dump();
  return source;
}

std::string mapping(const std::string& key = "key", const std::string& to = "cache", const std::string& value = "twice",
                    const std::string& second = "other") {
  return Json{{"layers",
               {{{"prefill_key_output", key},
                 {"decode_key_input", to},
                 {"prefill_value_output", value},
                 {"decode_value_input", second}}}}}
      .dump();
}

CompileResult compile_f32(const std::vector<MethodSource>& sources, const std::string& kv_map = "") {
  CompileOptions options;
  options.dtype = "float32";
  options.kv_map.json = kv_map;
  return compile(sources, options);
}

std::string error_of(const std::vector<MethodSource>& sources, const std::string& kv_map = "") {
  try {
    compile_f32(sources, kv_map);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  return "none";
}

// Numbers of both signs.
std::vector<float> numbers(size_t count, float factor) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = factor * (static_cast<float>(i % 5) - 2);
  return values;
}

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Puts relu of `x` [2, length, 3] into `cache` [2, 8, 3].
void expect_filled(std::vector<float>& cache, const std::vector<float>& x, size_t length) {
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < length * 3; ++i) cache[b * 24 + i] = std::max(x[b * length * 3 + i], 0.0f);
}

// Two batches, positions in the middle: other rows keep what they hold, decode goes on from there, and what read the
// key still does.
TEST(FillStates, RowsOfEveryBatch) {
  // By shape and order "twice" would fit too.
  EXPECT_EQ(error_of({of_text(prefill_source(3)), of_text(decode_source())}),
            "decode has 1 states, prefill has 2 outputs that fit them: give --kv-map");
  for (const std::string dtype : {"float32", "auto"}) {
    CompileOptions options;
    options.dtype = dtype;
    Json map = Json::parse(mapping());
    MethodSource decode = decode_source();
    // A second state for the value.
    Json json = Json::parse(decode.json);
    json["graph_inputs"].push_back(tensor("other", {2, 8, 3}));
    json["nodes"].push_back(node("copied_1", "aten.index_copy.default",
                                 {tensor("other", {2, 8, 3}), tensor("position", {1}, "int64"), tensor("x", {2, 1, 3})},
                                 {2, 8, 3}, {{"dim", 1}}));
    json["graph_outputs"].push_back(tensor("copied_1", {2, 8, 3}));
    decode.json = json.dump();
    options.kv_map.json = map.dump();
    const CompileResult result = compile({prefill_source(3), decode}, options);
    const Program& program = *result.program;
    const Method& prefill = program.methods[0];
    EXPECT_EQ(prefill.inputs.size(), 1U);
    EXPECT_EQ(prefill.outputs[0].buffer, program.methods[1].inputs[2].buffer);
    EXPECT_EQ(prefill.outputs[1].buffer, program.methods[1].inputs[3].buffer);
    EXPECT_EQ(prefill.outputs[0].type.shape, (Shape{2, 8, 3}));
    EXPECT_EQ(prefill.steps.size(), 2U);  // each result is stored once, where it stays
    Session session(result.program, {.weights = {}, .devices = {}, .threads = 1});
    std::vector<float> cache = numbers(48, 7), other = cache;
    session.set_input("decode", "cache", std::as_bytes(std::span(cache)));
    session.set_input("decode", "other", std::as_bytes(std::span(cache)));
    const std::vector<float> x = numbers(18, 1.5f);
    std::vector<float> doubled = x;
    for (float& v : doubled) v *= 2;
    session.set_input("prefill", "x", std::as_bytes(std::span(x)));
    session.run("prefill");
    expect_filled(cache, x, 3);
    expect_filled(other, doubled, 3);
    EXPECT_EQ(floats(session.output("prefill", "key")), cache);
    EXPECT_EQ(floats(session.output("decode", "copied")), cache);
    EXPECT_EQ(floats(session.output("prefill", "twice")), other);
    const std::vector<float> row = numbers(6, 100);
    const int64_t position = 2;
    session.set_input("decode", "x", std::as_bytes(std::span(row)));
    session.set_input("decode", "position", std::as_bytes(std::span(&position, 1)));
    session.run("decode");
    for (size_t b = 0; b < 2; ++b) std::copy_n(row.begin() + static_cast<ptrdiff_t>(b * 3), 3, &cache[b * 24 + 6]);
    EXPECT_EQ(floats(session.output("decode", "copied")), cache);
  }
}

// Only the key fits: the other output reads it from the state.
MethodSource one_key(int64_t length, const std::string& name = "prefill", const std::string& x = "x") {
  MethodSource source = prefill_source(length, name, x);
  Json json = Json::parse(source.json);
  json["nodes"].push_back(node("sum", "aten.sum.dim_IntList", {made("key", {2, length, 3})}, {2, 3}, {{"dim", {1}}}));
  json["graph_outputs"][1] = tensor("sum", {2, 3});
  source.json = json.dump();
  return source;
}

TEST(FillStates, SeveralLengthsAndMethodsThatFillNothing) {
  MethodSource apart{
      "apart", "apart",
      ir({tensor("x", {4})}, {node("y", "aten.relu.default", {tensor("x", {4})}, {4})}, {tensor("y", {4})})};
  const CompileResult result =
      compile_f32({apart, of_text(one_key(3)), of_text(one_key(8, "long", "cache")), of_text(decode_source())});
  EXPECT_EQ(result.notes,
            (std::vector<std::string>{"paired 1 outputs of prefill with the states of decode by shape and order",
                                      "paired 1 outputs of long with the states of decode by shape and order"}));
  Session session(result.program, {.weights = {}, .devices = {}, .threads = 1});
  std::vector<float> cache(48);
  for (const auto& [method, input, length] :
       {std::tuple<std::string, std::string, size_t>{"long", "cache", 8}, {"prefill", "x", 3}}) {
    const std::vector<float> x = numbers(6 * length, static_cast<float>(length));
    session.set_input(method, input, std::as_bytes(std::span(x)));
    session.run(method);
    expect_filled(cache, x, length);
    EXPECT_EQ(floats(session.output("decode", "copied")), cache);
    std::vector<float> sum(6);
    for (size_t i = 0; i < x.size(); ++i) sum[i / (3 * length) * 3 + i % 3] += std::max(x[i], 0.0f);
    EXPECT_EQ(floats(session.output(method, "sum")), sum);
  }
}

// Shapes say something of the caches of a text only: another method may have results like the states of this one.
TEST(FillStates, MethodsOfNoTextAreApart) {
  for (const bool decodes_text : {false, true}) {
    const MethodSource decode = decode_source();
    const CompileResult result = compile_f32({one_key(3), decodes_text ? of_text(decode) : decode});
    EXPECT_TRUE(result.notes.empty());
    EXPECT_EQ(result.program->methods[0].outputs[0].type.shape, (Shape{2, 3, 3}));
  }
  EXPECT_EQ(error_of({prefill_source(3), decode_source()}), "none");
  EXPECT_EQ(error_of({prefill_source(9), decode_source()}), "none");
}

// What is given is copied.
TEST(FillStates, AnInputMayFill) {
  MethodSource given{"prefill", "prefill", ir({tensor("x", {2, 3, 3})}, {}, {tensor("x", {2, 3, 3})})};
  Session session(compile_f32({of_text(given), of_text(decode_source())}).program,
                  {.weights = {}, .devices = {}, .threads = 1});
  const std::vector<float> x = numbers(18, 1);
  session.set_input("prefill", "x", std::as_bytes(std::span(x)));
  session.run("prefill");
  std::vector<float> cache(48);
  for (size_t b = 0; b < 2; ++b) std::copy_n(x.begin() + static_cast<ptrdiff_t>(b * 9), 9, &cache[b * 24]);
  EXPECT_EQ(floats(session.output("decode", "copied")), cache);
}

TEST(FillStates, WhatDoesNotFitIsRefused) {
  const std::vector<MethodSource> sources = {prefill_source(3), decode_source()};
  EXPECT_EQ(error_of(sources, mapping("nothing", "cache", "none")),
            "KV mapping: layers[0]: prefill has no output nothing");
  EXPECT_EQ(error_of(sources, mapping("key", "x")), "KV mapping: layers[0]: decode has no input x that it updates");
  EXPECT_EQ(error_of(sources, mapping("key", "cache", "key")),
            "KV mapping: layers[0]: key -> other after key -> cache: expected each once");
  EXPECT_EQ(error_of(sources, mapping("key", "cache", "twice", "cache")),
            "KV mapping: layers[0]: twice -> cache after key -> cache: expected each once");
  EXPECT_EQ(error_of({prefill_source(9), decode_source()}, mapping()),
            "KV mapping: layers[0]: key float32[2, 9, 3] does not fit cache float32[2, 8, 3]");
  {
    Json map = Json::parse(mapping());
    const auto with = [&](const char* key, int64_t value) {
      Json changed = map;
      changed[key] = value;
      return error_of(sources, changed.dump());
    };
    EXPECT_NE(with("prefill_seq_len", 1).find("prefill_seq_len is 1, the output has"), std::string::npos);
    EXPECT_NE(with("max_cache_len", 1).find("max_cache_len is 1, the state has"), std::string::npos);
    Json empty = map;
    empty["layers"][0]["decode_key_output"] = "";
    EXPECT_NE(error_of(sources, empty.dump()).find("is updated by"), std::string::npos);
  }
  EXPECT_EQ(error_of(sources, "{}"), "KV mapping: expected an object with a list of layers");
  EXPECT_EQ(error_of(sources, R"({"layers": [], "num_layers": 2})"),
            "KV mapping: num_layers is 2, but there are 0 layers");
  EXPECT_EQ(error_of(sources, R"({"layers": [], "layer_count": 0})"),
            "KV mapping: unknown key \"layer_count\": expected num_layers, prefill_seq_len, max_cache_len, layers");
  EXPECT_EQ(error_of(sources, R"({"layers": [{"prefil_key_output": "key"}]})"),
            "KV mapping: layers[0]: unknown key \"prefil_key_output\": expected layer, prefill_key_output, "
            "prefill_value_output, decode_key_input, decode_value_input, decode_key_output, decode_value_output; did "
            "you mean prefill_key_output?");
  // Every field that may stand there, each wrong in its ways.
  for (const char* field : {"prefill_seq_len", "max_cache_len"})
    for (const char* wrong : {"-1", "0", "1.5", "9223372036854775808", "2147483648", "\"8\"", "null", "[8]"}) {
      Json map = Json::parse(mapping());
      map[field] = Json::parse(wrong);
      EXPECT_NE(error_of(sources, map.dump()).find(std::string(field) + " is "), std::string::npos) << field << wrong;
    }
  for (const char* wrong : {"-5", "1", "0.5", "\"0\"", "null"}) {
    Json map = Json::parse(mapping());
    map["layers"][0]["layer"] = Json::parse(wrong);
    EXPECT_NE(error_of(sources, map.dump()).find("layer is "), std::string::npos) << wrong;
  }
  for (const char* wrong : {"\"nothing\"", "\"key\"", "7", "null"}) {
    Json map = Json::parse(mapping());
    map["layers"][0]["decode_key_output"] = Json::parse(wrong);
    EXPECT_NE(error_of(sources, map.dump()), "") << wrong;
  }
  EXPECT_EQ(error_of({of_text(prefill_source(9)), of_text(decode_source())}),
            "decode has 1 states, prefill has 0 outputs that fit them: give --kv-map");
  EXPECT_EQ(error_of({decode_source(), {"twin", "twin", decode_source().json}}, mapping()),
            "--kv-map: no method has states to fill, or every method has");
}

}  // namespace
}  // namespace npusim
