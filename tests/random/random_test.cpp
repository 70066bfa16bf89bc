// What decides about random programs: eager execution, its noise, the comparison, the shrinking.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "graph/text.h"
#include "random/compare.h"
#include "random/eager.h"
#include "random/generate.h"
#include "random/isolate.h"
#include "random/shrink.h"
#include "random/values.h"

namespace npusim::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

HostTensor tensor(DType dtype, Shape shape, const std::vector<double>& values) {
  HostTensor t = make_tensor({dtype, std::move(shape)});
  for (size_t i = 0; i < values.size(); ++i) store_double(t.data.data(), dtype, static_cast<int64_t>(i), values[i]);
  return t;
}

std::vector<double> values_of(const HostTensor& t) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(t.type.shape); ++i)
    values.push_back(load_double(t.data.data(), t.type.dtype, i));
  return values;
}

HostTensor floats(const std::vector<double>& values) {
  return tensor(DType::f32, {static_cast<int64_t>(values.size())}, values);
}

std::vector<double> eager(const std::string& text, const Tensors& given) {
  return values_of(run_eager(parse_graph("graph \"test\"\n" + text), given).outputs.at(0));
}

TEST(Random, TheSeedIsTheProgram) {
  std::set<std::string> different;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = to_text(generate(seed));
    EXPECT_EQ(text, to_text(generate(seed)));
    EXPECT_EQ(text, to_text(parse_graph(text)));  // what is printed is the program
    different.insert(text);
  }
  EXPECT_EQ(different.size(), 50U);
}

TEST(Random, EveryFeatureCanBeLeftOut) {
  for (const std::string& name : feature_names()) EXPECT_NO_THROW(generate(7, {name})) << name;
  for (uint64_t seed = 1; seed <= 100; ++seed)
    EXPECT_EQ(to_text(generate(seed, {"gather", "scatter", "scatter_itself"})).find("aten.gather"), std::string::npos);
}

TEST(Random, NamesSayWhatValuesAre) {
  for (double x : values_of(make_values("x_huge", {DType::f32, {50}}, 1))) EXPECT_GT(std::fabs(x), 1e27);
  for (double x : values_of(make_values("x_below7", {DType::i64, {50}}, 1))) EXPECT_TRUE(x >= 0 && x < 7);
  std::set<double> distinct;
  for (double x : values_of(make_values("x_distinct9", {DType::i64, {9}}, 1))) distinct.insert(x);
  EXPECT_EQ(distinct.size(), 9U);
  EXPECT_LT(*distinct.rbegin(), 9);
}

TEST(Eager, WritesAreSeenThroughViews) {
  const std::string text =
      "input %x: float32[4]\n"
      "%s: float32[2] = aten.slice.Tensor(%x, dim=0, start=1, end=3)\n"
      "%m: float32[2] = aten.mul_.Tensor(%s, 10.0)\n"
      "output %x\n";
  EXPECT_EQ(eager(text, {{"x", floats({1, 2, 3, 4})}}), (std::vector<double>{1, 20, 30, 4}));
}

TEST(Eager, ReshapeCopiesWhatHasNoStrides) {
  const std::string text =
      "input %x: float32[2, 2]\n"
      "%v: float32[2, 2] = aten.FIRST\n"
      "%r: float32[4] = aten.reshape.default(%v, shape=[4])\n"
      "%m: float32[4] = aten.mul_.Tensor(%r, 10.0)\n"
      "output %x\n";
  const auto with = [&](const std::string& first) {
    std::string whole = text;
    whole.replace(whole.find("FIRST"), 5, first);
    return eager(whole, {{"x", tensor(DType::f32, {2, 2}, {1, 2, 3, 4})}});
  };
  EXPECT_EQ(with("t.default(%x)"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(with("alias.default(%x)"), (std::vector<double>{10, 20, 30, 40}));
}

TEST(Eager, StridesAreTheStorages) {
  const std::string text =
      "input %x: float32[4]\n"
      "%s: float32[3] = aten.slice.Tensor(%x, dim=0, start=1, end=4)\n"
      "%y: float32[2] = aten.as_strided.default(%s, size=[2], stride=[2], storage_offset=0)\n"
      "output %y\n";
  EXPECT_EQ(eager(text, {{"x", floats({1, 2, 3, 4})}}), (std::vector<double>{1, 3}));
}

TEST(Eager, OverlapIsNoProgram) {
  const std::string text =
      "input %x: float32[4]\n"
      "%a: float32[3] = aten.slice.Tensor(%x, dim=0, start=1, end=4)\n"
      "%b: float32[3] = aten.slice.Tensor(%x, dim=0, start=0, end=3)\n"
      "%m: float32[3] = aten.add_.Tensor(%a, %b)\n"
      "output %x\n";
  EXPECT_THROW(eager(text, {{"x", floats({1, 2, 3, 4})}}), Unspecified);
}

// Noise is as large as the problem's condition makes a rounding error, and no larger.
TEST(Noise, FollowsTheCondition) {
  const Graph graph = parse_graph(
      "graph \"test\"\n"
      "input %x: float32[1]\n"
      "%a: float32[1] = aten.add.Tensor(%x, 1000.0)\n"
      "%y: float32[1] = aten.sub.Tensor(%a, 1000.0)\n"
      "%z: float32[1] = aten.mul.Tensor(%x, 3.0)\n"
      "%v: float32[1] = aten.neg.default(%x)\n"
      "output %y\noutput %z\noutput %v\n");
  const Tensors given{{"x", floats({0.7})}};
  double sub = 0, mul = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Noise noise{.seed = seed};
    const EagerResult result = run_eager(graph, given, &noise);
    sub = std::max(sub, std::fabs(values_of(result.outputs[0])[0] - 0.7));
    mul = std::max(mul, std::fabs(values_of(result.outputs[1])[0] - 2.1));
    EXPECT_EQ(result.exact, (std::vector<bool>{false, false, true}));
    EXPECT_EQ(values_of(result.outputs[2])[0], -values_of(given.at("x"))[0]);
  }
  EXPECT_GT(sub, 5e-5);
  EXPECT_LT(sub, 5e-3);
  EXPECT_GT(mul, 1e-7);
  EXPECT_LT(mul, 5e-6);
}

// A widened number is the same number: an exponent that is whole stays so.
TEST(Noise, WideningIsExact) {
  const std::string text =
      "graph \"test\"\ninput %x: float32[1]\n"
      "%y: float64[1] = aten.float_power.Tensor_Tensor(%x, %x)\noutput %y\n";
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Noise noise{.seed = seed};
    EXPECT_GT(values_of(run_eager(parse_graph(text), {{"x", floats({-22})}}, &noise).outputs[0])[0], 0);
  }
}

// Of what 16 bits may hold, one reader may see all digits where another does not; all see the same of everything else.
TEST(Noise, ReadersSeeWhatIsRoundedOrWhatIsNot) {
  const auto largest = [](const std::string& first, const Noise& noise) {
    const std::string text = "graph \"test\"\ninput %x: float32[2, 2]\n%a: float32[2, 2] = " + first +
                             "%m: float32[2, 1] = aten.amax.default(%a, dim=[-1], keepdim=true)\n"
                             "%y: float32[2, 2] = aten.sub.Tensor(%a, %m)\noutput %y\n";
    double most = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Noise one = noise;
      one.seed = seed;
      const HostTensor y =
          run_eager(parse_graph(text), {{"x", tensor(DType::f32, {2, 2}, {1.2345, 0, 0, 1.2345})}}, &one).outputs[0];
      most = std::max(most, std::fabs(values_of(y)[0]));
    }
    return most;
  };
  const std::string product = "aten.mm.default(%x, %x)\n", scaled = "aten.mul.Tensor(%x, 1.1)\n";
  const Noise apart{.storage = DType::f16, .apart = true};
  EXPECT_GT(largest(product, apart), 1e-5);
  EXPECT_LT(largest(product, apart), 0x1p-11 * 2);
  EXPECT_GT(largest(scaled, apart), 1e-8);
  EXPECT_LT(largest(scaled, apart), 1e-6);
  EXPECT_LT(largest(product, {.storage = DType::f16, .round = true}), 1e-5);
}

// Taken in another order, a product that is 0 overflows before it meets the 0.
TEST(Noise, ProductsOverflowOnTheirWay) {
  const Graph graph = parse_graph(
      "graph \"test\"\ninput %x: float32[5]\n"
      "%y: float32[1] = aten.prod.dim_int(%x, dim=0, keepdim=true)\noutput %y\n");
  const Noise noise{.overflow = NAN};
  const auto product = [&](double large) {
    return values_of(run_eager(graph, {{"x", floats({0, large, large, large, large})}}, &noise).outputs[0])[0];
  };
  EXPECT_TRUE(std::isnan(product(1e10)));
  EXPECT_EQ(product(1e5), 0);
}

// Positions are no casts, though they are integers made from floats of their shape.
TEST(Noise, PositionsAreExact) {
  const Graph graph = parse_graph(
      "graph \"test\"\ninput %x: float32[3]\n"
      "%v: float32[3], %i: int64[3] = aten.cummax.default(%x, dim=0)\noutput %i\n");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Noise noise{.seed = seed};
    EXPECT_EQ(values_of(run_eager(graph, {{"x", floats({5, 5, 7})}}, &noise).outputs[0]),
              (std::vector<double>{0, 1, 2}));
  }
}

// Which of two zeros is the larger one nobody says.
TEST(Noise, ZerosOfEitherSignAreEqual) {
  const Graph graph = parse_graph(
      "graph \"test\"\ninput %x: float32[1]\n%r: float32[1] = aten.relu.default(%x)\n"
      "%y: float32[1] = aten.reciprocal.default(%r)\noutput %y\n");
  std::set<double> found;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Noise noise{.seed = seed};
    found.insert(values_of(run_eager(graph, {{"x", floats({-0.0})}}, &noise).outputs[0])[0]);
  }
  EXPECT_EQ(found, (std::set<double>{-inf, inf}));
}

// A sigmoid too small to be a normal number may be 0, and what it weighs with it.
TEST(Noise, VanishingSigmoids) {
  const Graph graph =
      parse_graph("graph \"test\"\ninput %x: float32[2]\n%y: float32[2] = aten.silu.default(%x)\noutput %y\n");
  const Tensors given{{"x", floats({-88, 1})}};
  const std::vector<double> right = values_of(run_eager(graph, given).outputs[0]);
  int vanished = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Noise noise{.seed = seed};
    const std::vector<double> y = values_of(run_eager(graph, given, &noise).outputs[0]);
    vanished += y[0] == 0;
    EXPECT_TRUE(y[0] == 0 || std::fabs(y[0] - right[0]) < 1e-4 * std::fabs(right[0])) << y[0];
    EXPECT_NEAR(y[1], right[1], 1e-5);
  }
  EXPECT_TRUE(vanished > 0 && vanished < 20) << vanished;
}

// A sum that overflows may end as either infinity or as NaN: an fma adds its product before it is rounded.
TEST(Noise, EveryWayToOverflowIsTaken) {
  const Graph graph = parse_graph(
      "graph \"test\"\ninput %x: float32[2, 2]\n"
      "%y: float32[2, 2] = aten.mm.default(%x, %x)\noutput %y\n");
  const auto first = [&](double number, double overflow) {
    const Tensors given{{"x", tensor(DType::f32, {2, 2}, {number, number, -number, number})}};
    const Noise noise{.overflow = overflow};
    return values_of(run_eager(graph, given, &noise).outputs[0])[0];
  };
  for (const double overflow : {inf, -inf}) EXPECT_EQ(first(1e30, overflow), overflow);
  EXPECT_TRUE(std::isnan(first(1e30, NAN)));
  EXPECT_EQ(first(1, inf), first(1, -inf));
}

TEST(Compare, EachElementByItsOwnSpread) {
  const HostTensor expected = floats({1e6, 1e-3, 5});
  const std::vector<HostTensor> noisy{floats({1e6 + 1, 1e-3 + 1e-9, 5}), floats({1e6 - 1, 1e-3 - 1e-9, 5})};
  EXPECT_EQ(compare_tensor(floats({1e6 + 2, 1e-3 + 2e-9, 5}), expected, noisy, false, DType::f32).wrong, "");
  // Small beside the largest element, large beside itself.
  EXPECT_NE(compare_tensor(floats({1e6, 1e-3 + 1e-6, 5}), expected, noisy, false, DType::f32).wrong, "");
  EXPECT_NE(compare_tensor(floats({1e6, 1e-3, 5.0001}), expected, noisy, false, DType::f32).wrong, "");
}

TEST(Compare, ExactIsExact) {
  const HostTensor expected = floats({1, 2});
  const double next = std::nextafter(2.0F, 3.0F);
  EXPECT_NE(compare_tensor(floats({1, next}), expected, {expected}, true, DType::f32).wrong, "");
  EXPECT_EQ(compare_tensor(floats({1, next}), expected, {expected}, false, DType::f32).wrong, "");
}

TEST(Compare, NansAndInfinitiesMatchThemselves) {
  const HostTensor expected = floats({NAN, inf, 1});
  EXPECT_EQ(compare_tensor(expected, expected, {expected}, false, DType::f32).wrong, "");
  EXPECT_NE(compare_tensor(floats({0, inf, 1}), expected, {expected}, false, DType::f32).wrong, "");
  EXPECT_NE(compare_tensor(floats({NAN, -inf, 1}), expected, {expected}, false, DType::f32).wrong, "");
  EXPECT_NE(compare_tensor(floats({NAN, inf, NAN}), expected, {expected}, false, DType::f32).wrong, "");
}

TEST(Compare, WhatNoiseDecidesIsSkipped) {
  const Comparison c = compare_tensor(floats({inf, 1}), floats({1, 1}), {floats({inf, 1})}, false, DType::f32);
  EXPECT_EQ(c.wrong, "");
  EXPECT_EQ(c.skipped, 1);
  const HostTensor yes = tensor(DType::boolean, {1}, {1}), no = tensor(DType::boolean, {1}, {0});
  EXPECT_EQ(compare_tensor(no, yes, {no}, false, DType::f32).skipped, 1);
  EXPECT_NE(compare_tensor(no, yes, {yes}, false, DType::f32).wrong, "");
}

TEST(Isolate, ACrashIsAResult) {
  std::string sent;
  EXPECT_EQ(in_child(
                10, [](const auto& send) { send("done"); }, [&](const std::string& text) { sent = text; }),
            "");
  EXPECT_EQ(sent, "done");
  EXPECT_NE(in_child(
                10, [](const auto&) { _exit(4); }, [](const std::string&) {}),
            "");
}

// An integer that does not fit its index fails as an error of the input; shrinking keeps that and drops the rest.
TEST(Shrink, KeepsWhatFailsAndDropsTheRest) {
  const Graph graph = parse_graph(
      "graph \"test\"\n"
      "input %x_normal: float32[8, 6]\n"
      "input %i_below9: int64[5]\n"
      "%a: float32[8, 6] = aten.relu.default(%x_normal)\n"
      "%b: float32[8, 6] = aten.exp.default(%a)\n"
      "%c: float32[5, 6] = aten.index_select.default(%b, %i_below9, dim=0)\n"
      "%d: float32[5, 6] = aten.neg.default(%c)\n"
      "output %a\noutput %d\n");
  for (uint64_t seed = 1;; ++seed) {
    const Case failing{graph, seed, {Way{}}};
    const Outcome outcome = check_case(failing);
    if (outcome.result != Result::trapped) continue;
    const Case small = shrink(failing, outcome, 200);
    EXPECT_EQ(check_case(small).result, Result::trapped);
    EXPECT_EQ(small.graph.nodes.size(), 1U) << to_text(small.graph);
    EXPECT_EQ(small.graph.outputs.size(), 1U);
    break;
  }
}

}  // namespace
}  // namespace npusim::test
