// What timing chooses of the CUDA target's candidates, on a machine without a GPU: times are made up.
#include "npusim/tune.h"

#include <nlohmann/json.hpp>

#include "backends/cuda/target_fixture.h"
#include "base/file.h"
#include "base/hash.h"
#include "program/variant.h"

namespace npusim {
namespace {

// A device on which every candidate that is not this program's takes about half as long.
std::vector<double> times_of(const Program& program, const Program& before) {
  std::vector<double> ms(program.methods[0].steps.size());
  for (size_t i = 0; i < program.methods[0].launches.size(); ++i) {
    const Launch &launch = program.methods[0].launches[i], &was = before.methods[0].launches[i];
    const double other = 0.5 + static_cast<double>(hash_bytes(launch.how) % 100) / 1000;
    ms[static_cast<size_t>(launch.first)] = launch.how == was.how ? 1 : other;
  }
  return ms;
}

Tuning tune_digits(const std::shared_ptr<const Program>& program, const std::shared_ptr<const Program>& taken,
                   const TimeSteps& time) {
  TuneOptions options;
  options.method = "main", options.device = "a device", options.candidates = 3;
  return tune(program, taken, options, time);
}

TEST_F(CudaTarget, TuningKeepsTheFastestCandidates) {
  const auto program = digits_for("cuda:sm_90a");
  int timed = 0;
  const Tuning tuning = tune_digits(program, program, [&](const std::shared_ptr<const Program>& trial) {
    check_launches(*trial, 2);
    ++timed;
    return times_of(*trial, *program);
  });
  ASSERT_FALSE(tuning.kernels.empty());
  ASSERT_NE(tuning.program, program);
  size_t most = 0;
  for (const TunedKernel& k : tuning.kernels) {
    most = std::max(most, k.candidates.size());
    EXPECT_GT(k.candidates.size(), 1U);
    EXPECT_EQ(k.candidates[0].how, k.before);
    EXPECT_TRUE(std::any_of(k.candidates.begin(), k.candidates.end(), [&](const TimedCandidate& candidate) {
      return candidate.how == k.after && candidate.ms == k.after_ms;
    }));
    EXPECT_NE(k.after, k.before);
    EXPECT_DOUBLE_EQ(k.before_ms, static_cast<double>(k.launches));
    EXPECT_LT(k.after_ms, 0.61 * static_cast<double>(k.launches));
  }
  EXPECT_EQ(timed, static_cast<int>(most) + 1);  // as it is twice, and each other one once
  const Program& tuned = *tuning.program;
  check_launches(tuned, 2);
  ASSERT_EQ(tuned.choices.size(), tuning.kernels.size());
  for (const Choice& c : tuned.choices) {
    EXPECT_EQ(c.device, "a device");
    EXPECT_TRUE(c.compiler.starts_with("NVRTC ")) << c.compiler;
    size_t launches = 0;
    for (const Launch& launch : tuned.methods[0].launches)
      launches += launch.symbol == c.kernel && launch.how == c.how && launch.how != c.before;
    EXPECT_GT(launches, 0U) << c.kernel;
    EXPECT_NE(describe(tuned, false).find(c.kernel + ": " + c.how), std::string::npos);
  }
  // Nothing is carried along that no launch names.
  for (size_t n = 0; n < tuned.code.size(); ++n) {
    const auto names = [&](const Sequence& sequence) {
      return std::any_of(sequence.launches.begin(), sequence.launches.end(),
                         [&](const Launch& launch) { return launch.code == static_cast<int32_t>(n); });
    };
    EXPECT_TRUE(names(tuned.recipes) || names(tuned.methods[0])) << n;
  }
  const std::string file = serialize(tuned);
  EXPECT_EQ(serialize(*parse_program(file, "tuned")), file);
  EXPECT_EQ(serialize(*tune_digits(program, program, [&](const auto& p) { return times_of(*p, *program); }).program),
            file);
}

TEST_F(CudaTarget, TuningThatGainsNothingChangesNothing) {
  const auto program = digits_for("cuda:sm_90a");
  const Tuning tuning = tune_digits(program, program, [](const std::shared_ptr<const Program>& trial) {
    return std::vector<double>(trial->methods[0].steps.size(), 1.0);
  });
  EXPECT_EQ(tuning.program, program);
  for (const TunedKernel& k : tuning.kernels) EXPECT_EQ(k.before, k.after);
}

// Of a program for several architectures what the device takes is tuned, the others stay.
TEST_F(CudaTarget, TuningChangesOneVariant) {
  const auto program = digits_for("cuda");
  ASSERT_EQ(program->variants.size(), 1U);
  const auto taken = std::make_shared<const Program>(with_variant(*program, 0));
  const Tuning tuning = tune_digits(program, taken, [&](const auto& p) { return times_of(*p, *taken); });
  ASSERT_NE(tuning.program, program);
  EXPECT_TRUE(tuning.program->choices.empty());
  EXPECT_FALSE(tuning.program->variants.at(0).choices.empty());
  EXPECT_EQ(tuning.program->code.size(), program->code.size());
  check_launches(with_variant(*tuning.program, 0), 2);
  for (size_t i = 0; i < program->methods[0].launches.size(); ++i)
    EXPECT_EQ(tuning.program->methods[0].launches[i].how, program->methods[0].launches[i].how);
}

// A method that is one launch has candidates too, and is timed as a whole: a hundredth of its time counts.
TEST_F(CudaTarget, TuningChoosesAStreamsCandidate) {
  CompileOptions options;
  options.target = "cuda:sm_90a,stream";
  const std::string ir = NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/decode_ir.json";
  const auto program = compile({{.path = ir, .json = {}}}, options).program;
  const Launch& before = program->methods[0].launches.at(0);
  ASSERT_TRUE(before.together);
  const Tuning tuning = tune_digits(program, program, [&](const std::shared_ptr<const Program>& trial) {
    check_launches(*trial, 2);
    std::vector<double> ms(trial->methods[0].steps.size());
    const std::string& how = trial->methods[0].launches.at(0).how;
    ms[0] = how == before.how ? 1 : how.find("4 requests of a block") != std::string::npos ? 0.99 : 0.999;
    return ms;
  });
  ASSERT_EQ(tuning.kernels.size(), 1U);
  EXPECT_EQ(tuning.kernels[0].candidates.size(), 3U);
  ASSERT_NE(tuning.program, program);
  check_launches(*tuning.program, 2);
  const Launch& after = tuning.program->methods[0].launches.at(0);
  EXPECT_NE(after.how.find("4 requests of a block"), std::string::npos) << after.how;
  EXPECT_NE(after.symbol, before.symbol);
  EXPECT_EQ(after.own_bytes, before.own_bytes);
  EXPECT_EQ(after.args, before.args);
  EXPECT_EQ(after.traps, before.traps);
}

// Before a driver whose every launch takes as long as another.
TEST_F(CudaTarget, TuningLeavesAProgramThatIsNotFasterAlone) {
  environment_ = "NPUSIM_CUDA_DRIVER=" NPUSIM_FAKE_DRIVER;
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "--target", "cuda:sm_90a", "--disable-fusion", "conv_bn", "-o",
                    "digits.npubin"})
                .code,
            0);
  const std::vector<std::string> tune = {"tune", "digits.npubin", "--weights", digits("model.safetensors"), "--ways",
                                         "2",    "--seconds",     "0.01"};
  const Invocation alone = npusim(tune);
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, "main: of 9 kernels with several candidates no other one is faster\ndigits.npubin\n");
  EXPECT_EQ(files(), (std::vector<std::string>{"cache", "digits.npubin"}));
  std::vector<std::string> with_copy = tune;
  with_copy.insert(with_copy.end(), {"-o", "copy.npubin", "--json"});
  const Invocation copied = npusim(with_copy);
  EXPECT_EQ(copied.code, 0) << copied.err;
  const auto report = nlohmann::json::parse(copied.out);
  EXPECT_FALSE(report["kept"].get<bool>());
  EXPECT_EQ(report["method"], "main");
  EXPECT_EQ(report["program"], "copy.npubin");
  EXPECT_EQ(report["kernels"].size(), 9U);
  for (const auto& kernel : report["kernels"]) EXPECT_EQ(kernel["before"], kernel["after"]);
  EXPECT_EQ(read_file(path("copy.npubin")), read_file(path("digits.npubin")));
}

TEST_F(CudaTarget, TuningIsRefusedWhereNothingIsAhead) {
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "-o", "cpu.npubin"}).code, 0);
  const Invocation tuned = npusim({"tune", "cpu.npubin", "--weights", digits("model.safetensors")});
  EXPECT_EQ(tuned.code, 4);
  EXPECT_EQ(tuned.err, "error: tune: target cpu chooses when a session opens, there is nothing to time ahead\n");
  EXPECT_EQ(files(), (std::vector<std::string>{"cpu.npubin"}));
}

}  // namespace
}  // namespace npusim
