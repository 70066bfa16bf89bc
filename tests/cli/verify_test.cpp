// What verify asks of every output: r, relative L2 and the largest elements, each alone able to fail it.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/invoke.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// y = x + w of write_model() with w = 0, so that y is what x.safetensors holds.
class VerifyTest : public CliTest {
 protected:
  VerifyTest() {
    write_model();
    save("w.safetensors", {{"layer.w", tensor({3}, {0, 0, 0})}});
  }

  static HostTensor tensor(Shape shape, const std::vector<double>& values, DType dtype = DType::f32) {
    HostTensor result = make_tensor({dtype, std::move(shape)});
    for (size_t i = 0; i < values.size(); ++i)
      store_double(result.data.data(), dtype, static_cast<int64_t>(i), values[i]);
    return result;
  }

  Invocation verify(const std::vector<double>& y, const HostTensor& golden, std::vector<std::string> more = {}) const {
    save("x.safetensors", {{"x", tensor({2, 3}, y)}});
    save("golden.safetensors", {{"y", golden}});
    more.insert(more.begin(), {"verify", "model.json", "--weights", "w.safetensors", "--inputs", "x.safetensors",
                               "--golden", "golden.safetensors"});
    return npusim(more);
  }
  Json report(const std::vector<double>& y, const HostTensor& golden, std::vector<std::string> more = {}) const {
    more.push_back("--json");
    const Invocation result = verify(y, golden, std::move(more));
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["ok"].get<bool>(), result.code == 0) << result.err;
    EXPECT_EQ(json["outputs"].size(), 1u);
    EXPECT_EQ(json["ok"], json["outputs"][0]["ok"]);
    EXPECT_EQ(json["ok"].get<bool>(), json["outputs"][0]["failed"].empty());
    return json["outputs"][0];
  }
  Json report(const std::vector<double>& y, const std::vector<double>& golden) const {
    return report(y, tensor({2, 3}, golden));
  }
};

std::vector<double> mapped(std::vector<double> values, double scale, double shift) {
  for (double& x : values) x = scale * x + shift;
  return values;
}

const std::vector<double> plain = {1, 5, -2, 3, -4, 0.5};

// r and argmax are blind to both.
TEST_F(VerifyTest, ScaleAndShiftFail) {
  for (const std::vector<double>& golden : {mapped(plain, 1.01, 0), mapped(plain, 1, 0.05), mapped(plain, 30, 0)}) {
    const Json output = report(plain, golden);
    EXPECT_EQ(output["ok"], false);
    ASSERT_EQ(output["failed"].size(), 1u) << output;
    EXPECT_EQ(output["failed"][0].get<std::string>().find("rel_l2 0."), 0u) << output;
    EXPECT_EQ(output["argmax_equal"], true);
    EXPECT_GT(output["pearson_r"], 0.999999);
  }
  const Json near = report(plain, mapped(plain, 1.0005, 0));
  EXPECT_EQ(near["ok"], true);
  EXPECT_NEAR(near["rel_l2"], 0.0005 / 1.0005, 1e-6);
  EXPECT_EQ(near["max_rel_l2"], 1e-3);
}

TEST_F(VerifyTest, ReportSaysWhichBarFailed) {
  const Invocation scaled = verify(plain, tensor({2, 3}, mapped(plain, 2, 0)));
  EXPECT_EQ(scaled.code, 1);
  EXPECT_NE(scaled.out.find("\nFAILED output 'y': rel_l2 0.5 is above 0.001\n"), std::string::npos) << scaled.out;
  const Invocation all = verify(plain, tensor({2, 3}, {5, 1, -2, 3, -4, 0.5}), {"--max-l-inf", "3"});
  EXPECT_NE(all.out.find("FAILED output 'y': r 0.69"), std::string::npos) << all.out;
  for (const char* reason : {" is below 0.999, rel_l2 0.", " is above 0.001, l_inf 4 is above 3, argmax differs\n"})
    EXPECT_NE(all.out.find(reason), std::string::npos) << all.out;
}

TEST_F(VerifyTest, BarIsSetByFlag) {
  const HostTensor golden = tensor({2, 3}, mapped(plain, 1.01, 0));
  EXPECT_EQ(verify(plain, golden, {"--max-rel-l2", "0.02"}).code, 0);
  EXPECT_EQ(verify(plain, golden, {"--max-rel-l2", "inf"}).code, 0);
  EXPECT_EQ(verify(plain, tensor({2, 3}, plain), {"--max-rel-l2", "0"}).code, 0);
  for (const char* bad : {"-1", "nan", "much"}) EXPECT_EQ(verify(plain, golden, {"--max-rel-l2", bad}).code, 2) << bad;
  for (const char* bad : {"1.5", "nan"}) EXPECT_EQ(verify(plain, golden, {"--min-pearson", bad}).code, 2) << bad;
}

// Elements of another shape are not those of the output; a row of them, which may be cut short, has none.
TEST_F(VerifyTest, GoldenHasTheShapeOrIsARow) {
  for (const Shape& shape : {Shape{3, 2}, Shape{6, 1}, Shape{1, 2, 3}}) {
    const Invocation other = verify(plain, tensor(shape, plain));
    EXPECT_EQ(other.code, 3) << other.out;
    EXPECT_NE(other.err.find("output 'y': expected [2, 3], found " + to_string(shape)), std::string::npos) << other.err;
  }
  EXPECT_EQ(verify(plain, tensor({6}, plain)).code, 0);
  EXPECT_EQ(verify(plain, tensor({4}, {1, 5, -2, 3})).code, 0);
}

// A golden in 16 bits is no nearer to the truth than that.
TEST_F(VerifyTest, DefaultFollowsTheDtype) {
  EXPECT_EQ(report(plain, tensor({2, 3}, mapped(plain, 1.01, 0), DType::f16))["max_rel_l2"], 0.02);
  EXPECT_EQ(report(plain, tensor({2, 3}, mapped(plain, 1.03, 0), DType::bf16))["max_rel_l2"], 0.04);
  save("images.safetensors", {{"x", counting({DType::f32, {1, 1, 32, 32}})}});
  const std::vector<std::string> with = {"--weights", digits("model.safetensors"), "--inputs", "images.safetensors"};
  auto invoke = [&](std::vector<std::string> args) {
    args.insert(args.end(), with.begin(), with.end());
    return npusim(args);
  };
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "--dtype", "float32", "-o", "digits.npubin"}).code, 0);
  ASSERT_EQ(invoke({"run", "digits.npubin", "-o", "golden.safetensors"}).code, 0);
  for (const auto& [dtype, bar] : {std::pair{"float32", 1e-3}, {"auto", 2e-2}, {"float16", 2e-2}, {"bfloat16", 4e-2}}) {
    const Invocation result =
        invoke({"verify", digits("ir.json"), "--golden", "golden.safetensors", "--dtype", dtype, "--json"});
    ASSERT_EQ(result.code, 0) << result.err << result.out;
    const Json output = Json::parse(result.out)["outputs"][0];
    EXPECT_EQ(output["max_rel_l2"], bar) << dtype;
    EXPECT_LE(output["rel_l2"], bar / 4) << dtype;
  }
  // Nothing is rounded to 16 bits in a strict program of a float32 model.
  const Invocation strict =
      invoke({"verify", digits("ir.json"), "--golden", "golden.safetensors", "--strict", "--json"});
  EXPECT_EQ(Json::parse(strict.out)["outputs"][0]["max_rel_l2"], 1e-3);
}

// The reference of a model in 16 bits rounds at every operator, whatever the program does.
TEST_F(VerifyTest, ReferenceIsAsNearAsItsDtypes) {
  write("half.json", R"({"graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "bfloat16"}],
    "graph_outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32"}],
    "weights": [{"name": "w", "shape": [3], "dtype": "bfloat16"}], "weight_name_mapping": {"p_w": "w"},
    "nodes": [
      {"name": "y", "op_type": "aten.mul.Tensor",
       "inputs": [{"name": "x", "shape": [2, 3], "dtype": "bfloat16", "producer_node": "x", "producer_output_idx": 0},
                  {"name": "p_w", "shape": [3], "dtype": "bfloat16"}],
       "outputs": [{"name": "y", "shape": [2, 3], "dtype": "bfloat16"}], "attrs": {}},
      {"name": "z", "op_type": "aten.to.dtype",
       "inputs": [{"name": "y", "shape": [2, 3], "dtype": "bfloat16", "producer_node": "y", "producer_output_idx": 0}],
       "outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32"}], "attrs": {"dtype": "torch.float32"}}]})");
  save("half.safetensors", {{"w", tensor({3}, {1.0078125, 3.015625, -7.03125}, DType::bf16)}});
  const Invocation result =
      npusim({"verify", "half.json", "--weights", "half.safetensors", "--dtype", "float32", "--json"});
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  const Json output = Json::parse(result.out)["outputs"][0];
  EXPECT_EQ(output["max_rel_l2"], 0.04);
  EXPECT_GT(output["rel_l2"], 0);
}

// r of a constant says no more than that the other is one too; the norm says which.
TEST_F(VerifyTest, ConstantOutputs) {
  const std::vector<double> five(6, 5);
  EXPECT_EQ(report(five, five)["ok"], true);
  EXPECT_EQ(report(five, mapped(five, 1.0005, 0))["ok"], true);
  EXPECT_EQ(report(five, mapped(five, 1.005, 0))["ok"], false);
  EXPECT_EQ(report(five, plain)["ok"], false);
  EXPECT_EQ(report(plain, five)["ok"], false);
}

// Zeros have no scale that a difference could be small beside.
TEST_F(VerifyTest, ZeroGolden) {
  const std::vector<double> zeros(6, 0);
  const Json same = report(zeros, {0, -0.0, 0, 0, 0, 0});
  EXPECT_EQ(same["ok"], true);
  EXPECT_EQ(same["rel_l2"], 0);
  const Json other = report({0, 0, 1e-30, 0, 0, 0}, zeros);
  EXPECT_EQ(other["ok"], false);
  EXPECT_TRUE(other["rel_l2"].is_null());
  EXPECT_EQ(report(zeros, plain)["ok"], false);
  EXPECT_EQ(report(zeros, plain)["rel_l2"], 1);
}

TEST_F(VerifyTest, HugeAndTinyGoldensHaveNorms) {
  for (const double scale : {1e36, 1e-36})
    EXPECT_NEAR(report(mapped(plain, scale, 0), mapped(plain, 1.0005 * scale, 0))["rel_l2"], 5e-4, 1e-6) << scale;
  const HostTensor huge = tensor({2, 3}, mapped(plain, 1e300, 0), DType::f64);
  EXPECT_NEAR(report(plain, huge)["rel_l2"], 1, 1e-12);
}

// Equal infinities and NaN on both sides agree, and a note says that they are there.
TEST_F(VerifyTest, NotFiniteOnBothSides) {
  const std::vector<double> found = {1, nan, -2, infinity, -infinity, 0.5};
  const Invocation result = verify(found, tensor({2, 3}, found));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.err,
            "note: output 'y': 3 of 6 elements are NaN or infinite, as expected\n"
            "note: output 'z' has no golden tensor and is not compared\n");
  EXPECT_EQ(report(found, {1.0005, nan, -2, infinity, -infinity, 0.5})["ok"], true);
  EXPECT_EQ(report(found, {1.05, nan, -2, infinity, -infinity, 0.5})["ok"], false);
  EXPECT_EQ(report(std::vector<double>(6, nan), std::vector<double>(6, nan))["ok"], true);
}

TEST_F(VerifyTest, NotFiniteOnOneSide) {
  for (const double odd : {nan, infinity, -infinity})
    for (const double other : {3.0, nan, infinity}) {
      if (odd == other || (std::isnan(odd) && std::isnan(other))) continue;
      for (const bool swapped : {false, true}) {
        const std::vector<double> a = {1, 5, -2, odd, -4, 0.5}, b = {1, 5, -2, other, -4, 0.5};
        const Json output = swapped ? report(b, a) : report(a, b);
        EXPECT_EQ(output["ok"], false) << odd << " " << other;
        EXPECT_TRUE(output["rel_l2"].is_null()) << output;
        EXPECT_EQ(output["pearson_r"], 0);
      }
    }
}

// An output without elements agrees with another one; a golden without any says nothing of an output that has some.
TEST_F(VerifyTest, EmptyOutputs) {
  const Invocation nothing = verify(plain, tensor({0}, {}));
  EXPECT_EQ(nothing.code, 3);
  EXPECT_EQ(nothing.err.find("error: output 'y': expected [2, 3], found [0] in golden.safetensors"), 0u) << nothing.err;
  write("empty.json", R"({"graph_inputs": [{"name": "x", "shape": [0, 3], "dtype": "float32"}],
    "graph_outputs": [{"name": "y", "shape": [0, 3], "dtype": "float32"}], "weights": [],
    "nodes": [{"name": "y", "op_type": "aten.relu.default",
      "inputs": [{"name": "x", "shape": [0, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0}],
      "outputs": [{"name": "y", "shape": [0, 3], "dtype": "float32"}], "attrs": {}}]})");
  const Invocation empty = npusim({"verify", "empty.json", "--json"});
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_EQ(Json::parse(empty.out)["outputs"][0]["rel_l2"], 0);
}

// A weight that float16 makes infinite: nobody could see it from the infinite output.
TEST_F(VerifyTest, WeightsBeyondFloat16AreTold) {
  write("linear.json", R"({"graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
    "graph_outputs": [{"name": "y", "shape": [2, 2], "dtype": "float32"}],
    "weights": [{"name": "layer.w", "shape": [2, 3], "dtype": "float32"}], "weight_name_mapping": {"p_w": "layer.w"},
    "nodes": [{"name": "y", "op_type": "aten.linear.default",
      "inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0},
                 {"name": "p_w", "shape": [2, 3], "dtype": "float32"}],
      "outputs": [{"name": "y", "shape": [2, 2], "dtype": "float32"}], "attrs": {}}]})");
  save("large.safetensors", {{"layer.w", tensor({2, 3}, {1, 2, 3, 4, -1e6, 6})}});
  const std::vector<std::string> base = {"verify", "linear.json", "--weights", "large.safetensors"};
  const Invocation half = npusim(base);
  EXPECT_EQ(half.code, 1);
  EXPECT_NE(half.err.find("-1e+06 of weight 'layer.w' becomes -inf in float16; --dtype float32 keeps it\n"),
            std::string::npos)
      << half.err;
  const Invocation wide = npusim({"verify", "linear.json", "--weights", "large.safetensors", "--dtype", "float32"});
  EXPECT_EQ(wide.code, 0) << wide.out;
  EXPECT_EQ(wide.err, "note: inputs are random: none were given\n");
}

// Python's bare words are read, and written as numbers that are read again.
TEST_F(CliTest, BisectKeepsInfinities) {
  write("infinite.json", R"({"graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
    "graph_outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32"}], "weights": [],
    "nodes": [{"name": "z", "op_type": "aten.softplus.default",
      "inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0}],
      "outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32"}],
      "attrs": {"beta": 1, "threshold": Infinity}, "note": [NaN, -Infinity]}]})");
  const Invocation right = npusim({"bisect", "infinite.json"});
  EXPECT_EQ(right.code, 0) << right.err;
  const std::vector<std::string> wrong = {"bisect", "infinite.json", "--max-rel-l2", "1e-12", "-o"};
  const auto into = [&](const std::string& folder) {
    std::vector<std::string> words = wrong;
    words.push_back(folder);
    return npusim(words);
  };
  EXPECT_EQ(into("culprit").code, 1);
  const std::string part = read_file(path("culprit/ir.json"));
  EXPECT_EQ(part.find("null"), std::string::npos) << part;
  for (const char* word : {"\"Infinity\"", "\"-Infinity\"", "\"NaN\""})
    EXPECT_NE(part.find(word), std::string::npos) << part;
  const Invocation again = npusim({"verify", "culprit/ir.json", "--inputs", "culprit/inputs.safetensors", "--golden",
                                   "culprit/golden.safetensors", "--dtype", "float32"});
  EXPECT_EQ(again.code, 0) << again.err << again.out;
  write("file", "");
  const Invocation file = into("file");
  EXPECT_EQ(file.code, 3) << file.err;
  EXPECT_TRUE(file.err.starts_with("error: cannot write file: ")) << file.err;
  EXPECT_EQ(into("infinite.json").code, 2);  // the IR itself
}

}  // namespace
}  // namespace npusim
