// Random numbers: every record that draws against an implementation of Philox4x32-10 and of PyTorch's distributions
// that shares nothing with the kernels; what seeds, runs and states do to them; how they are distributed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "codegen/target.h"
#include "compiler/compile_for.h"
#include "graph/ir.h"
#include "npusim/session.h"
#include "ops/op.h"
#include "program/program.h"
#include "random/place.h"

namespace npusim {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(Words counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The words of element `i` of the generator's n-th call.
struct Generator {
  uint64_t seed = 0, call = 0;
  Words operator()(int64_t i) const {
    const auto element = static_cast<uint64_t>(i);
    const auto half = [](uint64_t x, int nth) { return static_cast<uint32_t>(x >> (32 * nth)); };
    return philox({half(call, 0), half(call, 1), half(element, 0), half(element, 1)}, {half(seed, 0), half(seed, 1)});
  }
};

float single(uint32_t word) { return static_cast<float>(word) * 0x1p-32f + 0x1p-33f; }
double wide(uint32_t low, uint32_t high) {
  return static_cast<double>(low ^ (uint64_t{high} << 21)) * 0x1p-53 + 0x1p-54;
}
double uniform(const Words& w) { return single(w[0]) == 1.0f ? 0 : single(w[0]); }
double normal(const Words& w) {
  return std::sin(2 * M_PI * single(w[1])) * std::sqrt(-2 * std::log(double{single(w[0])}));
}
double wide_normal(const Words& w) {
  return std::sin(2 * M_PI * wide(w[2], w[3])) * std::sqrt(-2 * std::log(wide(w[0], w[1])));
}
double exponential(const Words& w) { return -std::log(double{single(w[0])}); }
double drop(const Words& w, double p) { return single(w[0]) <= 1 - p ? 1 / (1 - p) : 0; }
double alpha_drop(const Words& w, double x) {  // p 0.25
  const double alpha = 1.7580993408473766, scale = 1 / std::sqrt((alpha * alpha * 0.25 + 1) * 0.75);
  const double noise = single(w[0]) <= 0.75 ? 1 : 0;
  return x * scale * noise + (noise - 1) * alpha * scale + alpha * scale * 0.25;
}

struct Operand {
  std::string dtype = "float32";
  Shape shape;
  std::vector<double> values;
};

struct Sample {
  std::string op, attrs;
  std::vector<Operand> operands;
  Shape shape;
  std::function<double(int64_t, const Generator&)> expected;  // of each element of the first result
  std::string dtype = "float32";
  double tolerance = 0;  // relative to 1 or the number itself; 0: the same bits
  std::string second = {};
};

const Operand some{"float32", {2, 3}, {1, -2, 3, 4, -5, 6}};
const Operand chances{"float32", {2, 3}, {0, 1, 0.5, 0.25, 0.75, 0.5}};

double rank_of(int64_t i, int64_t n, const std::function<double(int64_t)>& key) {
  double before = 0;
  for (int64_t j = 0; j < n; ++j) before += key(j) < key(i) || (key(j) == key(i) && j < i);
  return before;
}

// Element i is that whose key comes i-th. The order is found once for the words of a draw.
std::function<double(int64_t, const Generator&)> order_of(int64_t n, double (*key)(const Words&)) {
  struct Found {
    Words first = {};
    std::vector<int64_t> order = {};
  };
  return [n, key, found = std::make_shared<Found>()](int64_t i, const Generator& g) {
    if (found->order.empty() || found->first != g(0)) {
      std::vector<double> keys;
      for (int64_t j = 0; j < n; ++j) keys.push_back(key(g(j)));
      found->first = g(0);
      found->order.resize(keys.size());
      std::iota(found->order.begin(), found->order.end(), int64_t{0});
      std::stable_sort(found->order.begin(), found->order.end(), [&](int64_t a, int64_t b) {
        return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
      });
    }
    return static_cast<double>(found->order[static_cast<size_t>(i)]);
  };
}

std::vector<Sample> samples() {
  const auto of_words = [](double (*f)(const Words&)) {
    return [f](int64_t i, const Generator& g) { return f(g(i)); };
  };
  const auto score = [](int64_t i, int64_t element, const Generator& g) {
    return chances.values[static_cast<size_t>(i)] / exponential(g(element));
  };
  const auto below = [](uint64_t range, int64_t low) {
    return [range, low](int64_t i, const Generator& g) {
      const Words w = g(i);
      const uint64_t x = range < 1 << 28 ? w[0] : uint64_t{w[0]} << 32 | w[1];
      return static_cast<double>(static_cast<int64_t>(x % range) + low);
    };
  };
  const auto coin = [](int64_t i, const Generator& g) {
    return single(g(i)[0]) <= chances.values[static_cast<size_t>(i)] ? 1.0 : 0.0;
  };
  const auto half = [](int64_t i, const Generator& g) { return single(g(i)[0]) <= 0.3 ? 1.0 : 0.0; };
  const double near = 4e-6;
  return {
      {"aten.rand.default", R"("size":[2,3,5])", {}, {2, 3, 5}, of_words(uniform)},
      {"aten.rand.default", R"("size":[])", {}, {}, of_words(uniform)},
      {"aten.rand.default",
       R"("size":[4000],"dtype":"torch.float16")",
       {},
       {4000},
       [](int64_t i, const Generator& g) {
         const double x = round_through(DType::f16, single(g(i)[0]));
         return x == 1 ? 0 : x;
       },
       "float16"},
      {"aten.rand.default",
       R"("size":[7],"dtype":"torch.float64")",
       {},
       {7},
       [](int64_t i, const Generator& g) { return wide(g(i)[0], g(i)[1]); },
       "float64"},
      {"aten.rand_like.default", "", {some}, {2, 3}, of_words(uniform)},
      {"aten.uniform.default",
       R"("from":-2.0,"to":6.0)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return uniform(g(i)) * 8 - 2; },
       "float32",
       1e-6},
      {"aten.randn.default", R"("size":[3,50])", {}, {3, 50}, of_words(normal), "float32", near},
      {"aten.randn.default", R"("size":[9],"dtype":"torch.float64")", {}, {9}, of_words(wide_normal), "float64", 1e-14},
      {"aten.randn_like.default", "", {some}, {2, 3}, of_words(normal), "float32", near},
      {"aten.normal_functional.default",
       R"("mean":3.0,"std":0.5)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return normal(g(i)) * 0.5 + 3; },
       "float32",
       near},
      {"aten.normal.Tensor_float",
       R"("std":2.0)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return normal(g(i)) * 2 + some.values[static_cast<size_t>(i)]; },
       "float32",
       near},
      {"aten.normal.float_Tensor",
       R"("mean":1.0)",
       {chances},
       {2, 3},
       [](int64_t i, const Generator& g) { return normal(g(i)) * chances.values[static_cast<size_t>(i)] + 1; },
       "float32",
       near},
      {"aten.normal.Tensor_Tensor",
       "",
       {{"float32", {3}, {1, 2, 3}}, {"float32", {2, 1}, {0.5, 2}}},
       {2, 3},
       [](int64_t i, const Generator& g) { return normal(g(i)) * (i < 3 ? 0.5 : 2) + static_cast<double>(i % 3 + 1); },
       "float32",
       near},
      {"aten.normal.float_float",
       R"("mean":-1.0,"std":3.0,"size":[4])",
       {},
       {4},
       [](int64_t i, const Generator& g) { return normal(g(i)) * 3 - 1; },
       "float32",
       near},
      {"aten.exponential.default",
       R"("lambd":2.0)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return exponential(g(i)) / 2; },
       "float32",
       near},
      {"aten.randint.default", R"("high":10,"size":[100])", {}, {100}, below(10, 0), "int64"},
      {"aten.randint.low",
       R"("low":-5,"high":3,"size":[4,4],"dtype":"torch.int32")",
       {},
       {4, 4},
       below(8, -5),
       "int32"},
      {"aten.randint.low",
       R"("low":-1152921504606846976,"high":3458764513820540928,"size":[64])",
       {},
       {64},
       below(uint64_t{1} << 62, -(int64_t{1} << 60)),
       "int64"},
      {"aten.randint.default", R"("high":9223372036854775807,"size":[64])", {}, {64}, below(INT64_MAX, 0), "int64"},
      {"aten.randint.default", R"("high":1000000007,"size":[64])", {}, {64}, below(1000000007, 0), "int64"},
      {"aten.randint_like.default", R"("high":7)", {some}, {2, 3}, below(7, 0)},
      {"aten.randint_like.low_dtype", R"("low":2,"high":7)", {some}, {2, 3}, below(5, 2)},
      {"aten.random.from", R"("from":3,"to":9)", {some}, {2, 3}, below(6, 3)},
      {"aten.random.to", R"("to":9)", {some}, {2, 3}, below(9, 0)},
      {"aten.bernoulli.default", "", {chances}, {2, 3}, coin},
      {"aten.bernoulli.Tensor", "", {some, chances}, {2, 3}, coin},
      {"aten.bernoulli.p", R"("p":0.3)", {some}, {2, 3}, half},
      {"aten.randperm.default",
       R"("n":40)",
       {},
       {40},
       order_of(40, [](const Words& w) { return 1.0 * w[0]; }),
       "int64"},
      {"aten.randperm.default",
       R"("n":4100)",
       {},
       {4100},
       order_of(4100, [](const Words& w) { return std::ldexp(w[0], 31) + (w[1] >> 1); }),
       "int64"},
      {"aten.multinomial.default",
       R"("num_samples":1)",
       {chances},
       {2, 1},
       [=](int64_t i, const Generator& g) {
         int64_t best = 0;
         for (int64_t c = 1; c < 3; ++c)
           if (score(i * 3 + c, i * 3 + c, g) > score(i * 3 + best, i * 3 + best, g)) best = c;
         return static_cast<double>(best);
       },
       "int64"},
      {"aten.multinomial.default",
       R"("num_samples":4,"replacement":true)",
       {chances},
       {2, 4},
       [=](int64_t i, const Generator& g) {
         const double* row = chances.values.data() + i / 4 * 3;
         const double top = *std::max_element(row, row + 3), all = (row[0] + row[1] + row[2]) / top;
         const float share = single(g(i)[0]) * static_cast<float>(all);
         return row[0] / top >= share ? 0.0 : (row[0] + row[1]) / top >= share ? 1.0 : 2.0;
       },
       "int64"},
      {"aten.multinomial.default",
       R"("num_samples":2)",
       {chances},
       {2, 2},
       [=](int64_t i, const Generator& g) {
         const int64_t row = i / 2;
         for (int64_t c = 0; c < 3; ++c)
           if (rank_of(c, 3, [&](int64_t k) { return -score(row * 3 + k, row * 3 + k, g); }) ==
               static_cast<double>(i % 2))
             return static_cast<double>(c);
         return -1.0;
       },
       "int64"},
      {"aten.dropout.default",
       R"("p":0.25,"train":true)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return some.values[static_cast<size_t>(i)] * drop(g(i), 0.25); },
       "float32",
       1e-6},
      {"aten.native_dropout.default",
       R"("p":0.75,"train":true)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return some.values[static_cast<size_t>(i)] * drop(g(i), 0.75); },
       "float32",
       1e-6,
       "bool"},
      {"aten.feature_dropout.default",
       R"("p":0.5,"train":true)",
       {{"float32", {2, 1, 3}, some.values}},
       {2, 1, 3},
       [](int64_t i, const Generator& g) { return some.values[static_cast<size_t>(i)] * drop(g(i / 3), 0.5); }},
      {"aten.alpha_dropout.default",
       R"("p":0.25,"train":true)",
       {some},
       {2, 3},
       [](int64_t i, const Generator& g) { return alpha_drop(g(i), some.values[static_cast<size_t>(i)]); },
       "float32",
       1e-6},
      {"aten.feature_alpha_dropout.default",
       R"("p":0.25,"train":true)",
       {{"float32", {2, 1, 3}, some.values}},
       {2, 1, 3},
       [](int64_t i, const Generator& g) { return alpha_drop(g(i / 3), some.values[static_cast<size_t>(i)]); },
       "float32",
       1e-6},
  };
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

MethodSource source_of(const Sample& sample) {
  test::Ir ir;
  test::Strings inputs;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const std::string name = fmt::format("x{}", i), shape = shape_text(sample.operands[i].shape);
    ir.inputs.push_back(test::tensor(name, shape, sample.operands[i].dtype));
    inputs.push_back(test::read(name, shape, sample.operands[i].dtype));
  }
  ir.outputs = {test::tensor("y", shape_text(sample.shape), sample.dtype, "node")};
  test::Strings outputs = {test::tensor("y", shape_text(sample.shape), sample.dtype)};
  if (!sample.second.empty()) outputs.push_back(test::tensor("mask", shape_text(sample.shape), sample.second));
  ir.nodes = {test::node("node", sample.op, inputs, outputs, "{" + sample.attrs + "}")};
  MethodSource source;
  source.json = ir.json();
  return source;
}

CompileResult compiled(const MethodSource& source, const std::string& dtype = "float32") {
  static const test::Place place = test::open_place();
  CompileOptions options;
  options.dtype = dtype;
  return compile_for(*place.target, {source}, options);
}

Session session_of(const std::shared_ptr<const Program>& program) {
  return Session(program, {.weights = nullptr, .devices = test::open_place().devices, .threads = 2});
}

void expect_drawn(const Sample& sample, const TensorView& found, const Generator& generator, const char* how) {
  const int64_t count = element_count(sample.shape);
  for (int64_t i = 0; i < count; ++i) {
    const double want = sample.expected(i, generator), got = load_double(found.data, found.type.dtype, i);
    const double allowed = sample.tolerance * std::max(1.0, std::fabs(want));
    ASSERT_LE(std::fabs(got - want), allowed) << sample.op << " " << sample.attrs << " element " << i << " " << how;
  }
}

TEST(Philox, GivesThePublishedWords) {
  EXPECT_EQ(philox({}, {}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// By the compiled program, in two runs one after the other, and by the reference: with seeds of more than 32 bits.
TEST(Random, EveryRecordDrawsAsDefined) {
  std::set<std::string, std::less<>> covered;
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.op + " " + sample.attrs);
    covered.insert(sample.op);
    const MethodSource source = source_of(sample);
    const bool half = sample.dtype == "float16";
    Session session = session_of(compiled(source, half ? "auto" : "float32").program);
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      const Operand& operand = sample.operands[i];
      HostTensor& tensor = inputs.emplace_back(make_tensor({*parse_dtype(operand.dtype), operand.shape}));
      for (size_t e = 0; e < operand.values.size(); ++e)
        store_double(tensor.data.data(), tensor.type.dtype, static_cast<int64_t>(e), operand.values[e]);
      session.set_input(0, i, view_of(tensor));
    }
    for (const uint64_t seed : {uint64_t{3}, uint64_t{0x9876543210fedcba}}) {
      session.seed(seed);
      for (const uint64_t call : {0, 1}) {
        session.run(0);
        expect_drawn(sample, session.output_view(0, 0), {seed, call}, "compiled");
      }
      inputs.push_back(make_tensor({DType::i64, {2}}));
      store_int(inputs.back().data.data(), DType::i64, 0, static_cast<int64_t>(seed));
      store_int(inputs.back().data.data(), DType::i64, 1, int64_t{1} << 40);
      const std::vector<HostTensor> outputs = evaluate_ir(source, inputs, nullptr).outputs;
      expect_drawn(sample, view_of(outputs[0]), {seed, uint64_t{1} << 40}, "by the reference");
      EXPECT_EQ(outputs.size(), 1u);
      inputs.pop_back();
    }
  }
  for (const auto& [name, op] : op_table())
    EXPECT_TRUE(!op.record.draws || covered.contains(name)) << name << " has no sample";
}

// Two calls of one kind, one whose result nobody reads, and one in place on a view.
test::Ir several_calls() {
  test::Ir ir;
  ir.inputs = {test::tensor("x", "[2,3]")};
  const auto draw = [&](const std::string& name) {
    ir.nodes.push_back(
        test::node(name, "aten.rand_like.default", {test::read("x", "[2,3]")}, {test::tensor(name, "[2,3]")}));
  };
  draw("a");
  draw("unused");
  draw("b");
  ir.nodes.push_back(test::node("row", "aten.select.int", {test::read("b", "[2,3]")}, {test::tensor("row", "[3]")},
                                R"({"dim":0,"index":1})"));
  ir.nodes.push_back(
      test::node("filled", "aten.uniform_.default", {test::read("row", "[3]")}, {test::tensor("filled", "[3]")}));
  ir.outputs = {test::tensor("a", "[2,3]", "float32", "a"), test::tensor("b", "[2,3]", "float32", "b")};
  return ir;
}

std::vector<double> outputs_of(Session& session) {
  session.run(0);
  std::vector<double> values;
  for (size_t o = 0; o < 2; ++o)
    for (int64_t i = 0; i < 6; ++i) values.push_back(load_double(session.output_view(0, o).data, DType::f32, i));
  return values;
}

std::vector<double> expected_of(uint64_t seed, uint64_t calls) {
  std::vector<double> values;
  for (int64_t i = 0; i < 6; ++i) values.push_back(uniform(Generator{seed, calls}(i)));
  for (int64_t i = 0; i < 6; ++i)
    values.push_back(uniform(i < 3 ? Generator{seed, calls + 2}(i) : Generator{seed, calls + 3}(i - 3)));
  return values;
}

TEST(Random, CallsDrawInTheIrsOrderAndRunsGoOn) {
  MethodSource source;
  source.json = several_calls().json();
  const auto program = compiled(source).program;
  ASSERT_EQ(method_outputs(*program, "main").size(), 2u);  // the generator is no result
  const std::vector<TensorInfo> inputs = method_inputs(*program, "main");
  EXPECT_EQ(inputs.back().role, "generator");
  EXPECT_TRUE(inputs.back().state);
  Session session = session_of(program);
  EXPECT_EQ(session.seed(), 0u);
  EXPECT_EQ(outputs_of(session), expected_of(0, 0));
  EXPECT_EQ(outputs_of(session), expected_of(0, 4));
  session.seed(11);
  EXPECT_EQ(outputs_of(session), expected_of(11, 0));
  Session other = session.sibling();  // the same seed, from its beginning
  EXPECT_EQ(other.seed(), 11u);
  EXPECT_EQ(outputs_of(other), expected_of(11, 0));
  EXPECT_EQ(outputs_of(session), expected_of(11, 4));
  session.reset_states();
  EXPECT_EQ(outputs_of(session), expected_of(11, 0));
  const auto saved = parse_program(serialize(*program), "saved");
  Session loaded = session_of(saved);
  loaded.seed(11);
  EXPECT_EQ(outputs_of(loaded), expected_of(11, 0));
}

// A program that draws nothing has no generator; dropout at inference draws nothing.
TEST(Random, OnlyWhatDrawsHasAGenerator) {
  const Sample kept{"aten.dropout.default", R"("p":0.5,"train":false)", {some}, {2, 3}, nullptr};
  const auto program = compiled(source_of(kept)).program;
  EXPECT_EQ(method_inputs(*program, "main").size(), 1u);
  session_of(program).seed(5);
}

// Mean, variance and skewness or kurtosis within five of their own standard deviations.
TEST(Random, MomentsAreTheDistributions) {
  constexpr int64_t n = 40000;
  const auto moments = [&](const std::string& op, const std::string& attrs) {
    const Sample sample{op, attrs + R"(,"size":[40000])", {}, {n}, nullptr};
    Session session = session_of(compiled(source_of(sample)).program);
    session.seed(20);
    session.run(0);
    std::array<double, 4> sums{};
    for (int64_t i = 0; i < n; ++i) {
      const double x = load_double(session.output_view(0, 0).data, DType::f32, i);
      for (size_t k = 0; k < 4; ++k) sums[k] += std::pow(x, k + 1) / n;
    }
    return sums;
  };
  const auto flat = moments("aten.rand.default", R"("dtype":"torch.float32")");
  const auto bell = moments("aten.randn.default", R"("dtype":"torch.float32")");
  for (size_t k = 0; k < 4; ++k) {
    const double power = static_cast<double>(k) + 1;
    EXPECT_NEAR(flat[k], 1 / (power + 1), 5 * std::sqrt((1 / (2 * power + 1) - std::pow(power + 1, -2)) / n));
  }
  const std::array<double, 4> means = {0, 1, 0, 3}, deviations = {1, std::sqrt(2), std::sqrt(15), std::sqrt(96)};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(bell[k], means[k], 5 * deviations[k] / std::sqrt(n));
}

// Where PyTorch raises a run fails, and says where and why; the next one is as if it had not been. On a device, which
// runs what is behind a trap too, the session first asks for the state of its generator.
TEST(Random, BadProbabilitiesFailTheRun) {
  const double inf = INFINITY;
  struct Case {
    Sample sample;
    std::vector<std::vector<double>> bad;
    std::string why;
  };
  const Case cases[] = {
      {{"aten.multinomial.default", R"("num_samples":1)", {chances}, {2, 1}, nullptr, "int64"},
       {{0, 0, 0, 1, 1, 1}, {1, 1, -1, 1, 1, 1}, {1, 1, 1, 1, NAN, 1}, {1, inf, 1, 1, 1, 1}},
       "negative, not finite, or all 0"},
      {{"aten.multinomial.default", R"("num_samples":2)", {chances}, {2, 2}, nullptr, "int64"},
       {{1, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 1, -1}, {NAN, 1, 1, 1, 1, 1}},
       "negative, not finite, or all 0"},
      {{"aten.multinomial.default", R"("num_samples":5,"replacement":true)", {chances}, {2, 5}, nullptr, "int64"},
       {{1, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 1, -1}, {NAN, 1, 1, 1, 1, 1}},
       "negative, not finite, or all 0"},
      {{"aten.bernoulli.default", "", {chances}, {2, 3}, nullptr},
       {{0, 1, 0, 1, 0, 1.5}, {-1, 0, 0, 0, 0, 0}, {0, 0, NAN, 0, 0, 0}},
       "probability is not in [0, 1]"},
      {{"aten.normal.Tensor_Tensor", "", {some, chances}, {2, 3}, nullptr},
       {{1, 1, 1, 1, 1, -1}, {1, 1, NAN, 1, 1, 1}},
       "standard deviation is negative"},
  };
  for (const Case& each : cases) {
    const Sample& sample = each.sample;
    Session session = session_of(compiled(source_of(sample)).program);
    const size_t last = sample.operands.size() - 1;
    const auto run = [&](const std::vector<double>& values) {
      std::vector<HostTensor> inputs(last + 1, make_tensor({DType::f32, {2, 3}}));
      for (size_t n = 0; n <= last; ++n) {
        for (size_t i = 0; i < 6; ++i)
          store_double(inputs[n].data.data(), DType::f32, static_cast<int64_t>(i),
                       n == last ? values[i] : sample.operands[n].values[i]);
        session.set_input(0, n, view_of(inputs[n]));
      }
      session.run(0);
    };
    for (const std::vector<double>& values : each.bad) {
      try {
        run(values);
        ADD_FAILURE() << sample.op << " draws";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        EXPECT_NE(std::string(error.what()).find(each.why), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("node"), std::string::npos) << error.what();
      }
      if (test::open_place().target != find_target("cpu")) session.reset_states();
      EXPECT_NO_THROW(run({0.5, 0.25, 0.25, 0, 0, 1})) << sample.op;
    }
  }
}

TEST(Random, WhatCannotBeDrawnIsRefused) {
  const std::vector<Sample> wrong = {
      {"aten.rand.default", R"("size":[2],"dtype":"torch.int64")", {}, {2}, nullptr, "int64"},
      {"aten.randint.low", R"("low":3,"high":3,"size":[2])", {}, {2}, nullptr, "int64"},
      {"aten.randint.low",
       R"("low":-9223372036854775808,"high":9223372036854775807,"size":[2])",
       {},
       {2},
       nullptr,
       "int64"},
      {"aten.randint.default", R"("high":300,"size":[2],"dtype":"torch.uint8")", {}, {2}, nullptr, "uint8"},
      {"aten.bernoulli.p", R"("p":1.5)", {some}, {2, 3}, nullptr},
      {"aten.uniform.default", R"("from":2.0,"to":1.0)", {some}, {2, 3}, nullptr},
      {"aten.multinomial.default", R"("num_samples":4)", {chances}, {2, 4}, nullptr, "int64"},
      {"aten.exponential.default", R"("lambd":0.0)", {some}, {2, 3}, nullptr},
      {"aten.dropout.default", R"("p":2.0,"train":true)", {some}, {2, 3}, nullptr},
      {"aten.log_normal.default", "", {some}, {2, 3}, nullptr},
  };
  for (const Sample& sample : wrong) try {
      compiled(source_of(sample));
      ADD_FAILURE() << sample.op << " " << sample.attrs << " compiles";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << sample.op << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(sample.op), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace npusim
