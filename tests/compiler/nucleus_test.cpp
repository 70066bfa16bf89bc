// The tokens that are drawn from with --top-p: by the program's kernels on the CPU, by the interpreter, by the host,
// and by a sort in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "codegen/build_program.h"
#include "compiler/ir.h"
#include "compiler/nucleus_graph.h"
#include "compiler/reference.h"
#include "npusim/session.h"
#include "text/generate.h"
#include "text/sample.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

class Found {
 public:
  Found(int64_t vocabulary, int64_t parts, DType dtype = DType::f32)
      : graph_(nucleus_graph(vocabulary, parts, dtype)), session_(program(graph_)) {}

  // The places of the tokens that are taken.
  std::vector<int64_t> operator()(const std::vector<double>& logits, float temperature, float top_p) {
    std::vector<HostTensor> inputs = inputs_of(logits, temperature, top_p);
    for (size_t i = 0; i < inputs.size(); ++i) session_.set_input(size_t{0}, i, std::span(inputs[i].data));
    session_.run(size_t{0});
    return places(session_.output(size_t{0}, size_t{0}).data(), logits.size());
  }
  std::vector<int64_t> interpreted(const std::vector<double>& logits, float temperature, float top_p) const {
    const std::vector<HostTensor> outputs = run_reference(graph_, inputs_of(logits, temperature, top_p), nullptr);
    return places(outputs[0].data.data(), logits.size());
  }

 private:
  static std::shared_ptr<const Program> program(const Graph& graph) {
    PassContext context;
    context.target = find_target("cpu")->config();
    std::vector<MethodGraph> methods(1);
    methods[0].name = "main";
    methods[0].graph = graph;
    Program made = build_program(methods, context, find_target("cpu")).program;
    EXPECT_EQ(check_program(made), std::vector<std::string>{});
    return std::make_shared<const Program>(std::move(made));
  }
  std::vector<HostTensor> inputs_of(const std::vector<double>& logits, float temperature, float top_p) const {
    std::vector<HostTensor> inputs;
    for (const ValueId id : graph_.inputs) inputs.push_back(make_tensor(value_of(graph_, id).type));
    for (size_t i = 0; i < logits.size(); ++i)
      store_double(inputs[0].data.data(), inputs[0].type.dtype, static_cast<int64_t>(i), logits[i]);
    store_double(inputs[1].data.data(), DType::f32, 0, temperature);
    store_double(inputs[2].data.data(), DType::f32, 0, top_p);
    return inputs;
  }
  static std::vector<int64_t> places(const std::byte* taken, size_t count) {
    std::vector<int64_t> found;
    for (size_t i = 0; i < count; ++i)
      if (load_int(taken, DType::i64, static_cast<int64_t>(i)) != 0) found.push_back(static_cast<int64_t>(i));
    return found;
  }

  Graph graph_;
  Session session_;
};

// In float64, by a sort. `gap`: how far the sum of probabilities stays from top_p, on both sides of the last token.
std::vector<int64_t> sorted(const std::vector<double>& logits, double temperature, double top_p, double& gap) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (const size_t i : order) weights.push_back(std::exp((logits[i] - logits[order[0]]) / temperature));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> found;
  double kept = 0;
  gap = 1;
  for (size_t i = 0; i < order.size() && (i == 0 || kept < top_p * sum); ++i) {
    if (i > 0) gap = std::min(gap, top_p - kept / sum);
    kept += weights[i];
    found.push_back(static_cast<int64_t>(order[i]));
  }
  gap = std::min(gap, std::abs(kept / sum - top_p));
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<double> random_logits(int64_t count, double deviation, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> logits(static_cast<size_t>(count));
  for (double& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

// What a sort in float64 takes, wherever rounding cannot matter.
TEST(Nucleus, IsThatOfASort) {
  int compared = 0;
  for (const auto& [vocabulary, parts] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {24, 6}, {127, 1}, {1000, 250}}) {
    Found found(vocabulary, parts);
    for (unsigned seed = 0; seed < 8; ++seed)
      for (const float temperature : {0.3F, 1.0F, 4.0F})
        for (const float top_p : {1e-6F, 0.1F, 0.5F, 0.9F, 0.95F, 0.999F}) {
          const std::vector<double> logits = random_logits(vocabulary, 3, seed);
          double gap = 0;
          const std::vector<int64_t> expected = sorted(logits, temperature, top_p, gap);
          if (gap < 1e-5) continue;
          ++compared;
          EXPECT_EQ(found(logits, temperature, top_p), expected)
              << vocabulary << " " << seed << " " << temperature << " " << top_p;
          if (vocabulary > 100) continue;
          EXPECT_EQ(found.interpreted(logits, temperature, top_p), expected);
        }
  }
  EXPECT_GT(compared, 650);
}

// As many as language models have; 16 bits have many ties.
TEST(Nucleus, OfLargeVocabularies) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Found found(150000, 250, dtype);
    std::vector<double> logits = random_logits(150000, 2.5, 3);
    if (dtype == DType::bf16)
      for (double& x : logits) {
        std::array<std::byte, 2> bits{};
        store_double(bits.data(), dtype, 0, x);
        x = load_double(bits.data(), dtype, 0);
      }
    for (const float top_p : {0.001F, 0.3F, 0.8F, 0.95F}) {
      double gap = 0;
      const std::vector<int64_t> expected = sorted(logits, 0.8F, top_p, gap);
      const std::vector<int64_t> taken = found(logits, 0.8F, top_p);
      // The sum of probabilities passes top_p within less than one token's share of rounding.
      std::vector<int64_t> apart;
      std::set_symmetric_difference(taken.begin(), taken.end(), expected.begin(), expected.end(),
                                    std::back_inserter(apart));
      EXPECT_LE(apart.size(), gap < 1e-6 ? 2U : 0U) << top_p << " " << gap;
    }
  }
}

TEST(Nucleus, OfEquals) {
  Found found(24, 6);
  const std::vector<double> equal(24, 0.25);
  // The first of equals, as many as have top_p together: 0.5 of 24 are 12.
  for (const auto& [top_p, count] :
       {std::pair{0.0F, 1}, {1e-30F, 1}, {0.5F, 12}, {0.51F, 13}, {0.99F, 24}, {1.0F, 24}}) {
    std::vector<int64_t> first(static_cast<size_t>(count));
    std::iota(first.begin(), first.end(), 0);
    EXPECT_EQ(found(equal, 1, top_p), first) << top_p;
  }
  // Of two that are equally likely the second is one too many.
  std::vector<double> logits(24, -infinity);
  logits[20] = std::log(2.0), logits[4] = logits[9] = 0;
  EXPECT_EQ(found(logits, 1, 0.49F), std::vector<int64_t>{20});
  EXPECT_EQ(found(logits, 1, 0.7F), (std::vector<int64_t>{4, 20}));
  EXPECT_EQ(found(logits, 1, 0.8F), (std::vector<int64_t>{4, 9, 20}));
}

// Whatever is no number that can be compared, at temperatures and probabilities that nobody should ask for.
TEST(Nucleus, OfWhatIsNoDistribution) {
  Found found(24, 6);
  std::vector<int64_t> all(24);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> hidden(24, -infinity);
  EXPECT_EQ(found(hidden, 1, 0.01F), std::vector<int64_t>{0});
  EXPECT_EQ(found(hidden, 1, 1), all);
  std::vector<double> logits = random_logits(24, 2, 1);
  const auto top = static_cast<int64_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  EXPECT_EQ(found(logits, 1, 1), all);  // those whose probability is none in float32 among them
  logits[3] = -3e38;
  EXPECT_EQ(found(logits, 1, 1), all);
  for (const float top_p : {-1.0F, static_cast<float>(nan), 0.0F, 1e-9F})
    EXPECT_EQ(found(logits, 1, top_p), std::vector<int64_t>{top}) << top_p;
  for (const float temperature : {0.0F, -1.0F, 1e-30F, static_cast<float>(nan)})
    EXPECT_EQ(found(logits, temperature, 0.9F), std::vector<int64_t>{top}) << temperature;
  logits[7] = logits[19] = infinity;
  EXPECT_EQ(found(logits, 1, 0.9F), (std::vector<int64_t>{7, 19}));
  EXPECT_EQ(found(logits, 1, 0.5F), std::vector<int64_t>{7});
  logits[11] = logits[18] = nan;
  EXPECT_EQ(found(logits, 1, 0.9F), (std::vector<int64_t>{11, 18}));
  EXPECT_EQ(found(logits, 1, 0.2F), std::vector<int64_t>{11});
}

TEST(Nucleus, OfTooManyTokensIsNone) {
  Graph graph = nucleus_graph((int64_t{1} << 21) + 2, 2, DType::f32);
  EXPECT_TRUE(graph.nodes.empty());
  EXPECT_FALSE(nucleus_graph(int64_t{1} << 21, 2, DType::f32).nodes.empty());
}

struct Text {
  CompileResult result;
  Session session;
  TextFacts facts;
  Text()
      : result([] {
          CompileOptions options;
          options.dtype = "float32";
          options.text = true;
          return compile({text_ir(Mask::added, 4).finish("read"), text_ir(Mask::added, 1, 16).finish("decode")},
                         options);
        }()),
        session(result.program, {.weights = text_weights(), .devices = {}, .threads = 1}),
        facts(text_facts(*result.program)) {}
};

// The method that keeps the likeliest takes the tokens that the host takes from decode's logits, with a prompt read by
// a prefill and without.
TEST(Nucleus, DrawsWhatTheHostDraws) {
  Text text;
  ASSERT_GE(text.facts.nucleus, 0);
  TextFacts host = text.facts, unread = text.facts;
  host.greedy = host.sample = host.nucleus = -1;
  unread.prefills.clear();
  const auto draw = [&](const TextFacts& facts, double temperature, double top_p, uint64_t seed) {
    const GenerateOptions options{10, temperature, top_p, seed, {}};
    return generate(text.session, facts, {3, 10, 17}, options, [](int64_t) {}).tokens;
  };
  std::set<std::vector<int64_t>> seen;
  for (const double top_p : {0.3, 0.7, 0.95})
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const std::vector<int64_t> found = draw(text.facts, 1.5, top_p, seed << 31);
      EXPECT_EQ(found, draw(host, 1.5, top_p, seed << 31)) << seed;
      EXPECT_EQ(found, draw(unread, 1.5, top_p, seed << 31)) << seed;
      seen.insert(found);
    }
  EXPECT_GT(seen.size(), 40U);
  EXPECT_EQ(draw(text.facts, 3, 1e-9, 5), draw(host, 0, 1, 5));  // of one token
}

// Pearson's test of what the method draws from the same state, with the probabilities of decode's logits in float64. A
// right method fails it with a probability below 1e-6.
TEST(Nucleus, DrawsWithTheProbabilitiesOfTheLikeliest) {
  Text text;
  const TextMethod decode = text_method(*text.result.program, text.facts.decode),
                   nucleus = text_method(*text.result.program, text.facts.nucleus);
  const int64_t token = 5, position = 0;
  const auto set = [&](const TextMethod& m, int input, const auto& value) {
    text.session.set_input(m.method, static_cast<size_t>(input), std::as_bytes(std::span(&value, 1)));
  };
  set(decode, decode.tokens, token);
  for (const int input : decode.positions) set(decode, input, position);
  const std::span<std::byte> mask = text.session.input(decode.method, static_cast<size_t>(decode.mask));
  for (int64_t i = 1; i < 16; ++i) store_double(mask.data(), DType::f32, i, -1e9);
  text.session.run(decode.method);
  std::vector<double> logits;
  for (int64_t i = 0; i < vocabulary; ++i)
    logits.push_back(
        load_double(text.session.output(decode.method, static_cast<size_t>(decode.logits)).data(), DType::f32, i));
  const float temperature = 2, top_p = 0.8F;
  double gap = 0;
  const std::vector<int64_t> taken = sorted(logits, temperature, top_p, gap);
  ASSERT_GT(gap, 1e-4);
  ASSERT_GT(taken.size(), 4U);
  ASSERT_LT(taken.size(), static_cast<size_t>(vocabulary));
  double sum = 0;
  for (const int64_t i : taken) sum += std::exp(logits[static_cast<size_t>(i)] / temperature);

  constexpr int draws = 6000;
  std::vector<int> counts(vocabulary);
  for (int64_t n = 0; n < draws; ++n) {
    set(nucleus, nucleus.tokens, token);
    for (const int input : nucleus.positions) set(nucleus, input, position);
    set(nucleus, nucleus.generator, std::array<int64_t, 2>{11, n});
    set(nucleus, nucleus.temperature, temperature);
    set(nucleus, nucleus.top_p, top_p);
    text.session.run(nucleus.method);
    const int64_t drawn =
        load_int(text.session.output(nucleus.method, static_cast<size_t>(nucleus.next)).data(), DType::i64, 0);
    ++counts[static_cast<size_t>(drawn)];
  }
  double distance = 0;
  int known = 0;
  for (const int64_t i : taken) {
    const double expected = draws * std::exp(logits[static_cast<size_t>(i)] / temperature) / sum;
    distance += std::pow(counts[static_cast<size_t>(i)] - expected, 2) / expected;
    known += counts[static_cast<size_t>(i)];
  }
  EXPECT_EQ(known, draws);  // no other token
  const auto freedom = static_cast<double>(taken.size() - 1);
  // Wilson and Hilferty's bound of the chi-squared distribution, at 4.8 deviations.
  EXPECT_LT(distance, freedom * std::pow(1 - 2 / (9 * freedom) + 4.8 * std::sqrt(2 / (9 * freedom)), 3));
}

}  // namespace
}  // namespace npusim
