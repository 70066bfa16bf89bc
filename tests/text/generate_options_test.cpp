// What may be asked of generation, and what asking for it means.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "npusim/error.h"
#include "npusim/text.h"
#include "text/sample.h"

namespace npusim {
namespace {

// The options that are refused.
std::string refused(const GenerateOptions& options) {
  try {
    check_options(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    std::string names;
    for (const Problem& problem : error.problems()) names += problem.where + " ";
    return names;
  }
  return "";
}

TEST(GenerateOptions, NumbersHaveTheirRanges) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refused({}), "");
  for (const int64_t count : {int64_t{1}, int64_t{64}, int64_t{1} << 40})
    EXPECT_EQ(refused({.max_new_tokens = count}), "");
  for (const int64_t count : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, (int64_t{1} << 40) + 1})
    EXPECT_EQ(refused({.max_new_tokens = count}), "max_new_tokens ");
  for (const double t : {0.0, -0.0, 1e-300, 0.5, 100.0}) EXPECT_EQ(refused({.temperature = t}), "") << t;
  for (const double t : {-1e-9, -1.0, 100.1, infinity, -infinity, std::nan("")})
    EXPECT_EQ(refused({.temperature = t}), "temperature ") << t;
  for (const double p : {1e-300, 0.5, 1.0}) EXPECT_EQ(refused({.top_p = p}), "") << p;
  for (const double p : {0.0, -0.0, -1.0, 1.0000001, 2.0, infinity, -infinity, std::nan("")})
    EXPECT_EQ(refused({.top_p = p}), "top_p ") << p;
  EXPECT_EQ(refused({.max_new_tokens = 0, .temperature = -1, .top_p = 2}), "max_new_tokens temperature top_p ");
}

TEST(GenerateOptions, AskingForAWayOfSamplingIsAskingToSample) {
  const auto temperature = [](const GenerateOptions& options) { return sampling_of(options).temperature; };
  EXPECT_EQ(temperature({}), 0);
  EXPECT_EQ(temperature({.top_p = 0.5}), 1);
  EXPECT_EQ(temperature({.seed = 0}), 1);
  EXPECT_EQ(temperature({.temperature = 0, .top_p = 0.5, .seed = 3}), 0);
  EXPECT_EQ(temperature({.temperature = 0.7}), 0.7);
  EXPECT_EQ(sampling_of({}).top_p, 1);
  EXPECT_EQ(sampling_of({.seed = UINT64_MAX}).seed, UINT64_MAX);
}

// NaN is above all, wherever a token is chosen, as for the methods that choose theirs themselves.
TEST(GenerateOptions, NanIsTheLargest) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (size_t at = 0; at < 9; ++at)
    for (const bool twice : {false, true}) {
      std::vector<double> logits = {1, -2, infinity, 4, 0, -infinity, 3, 9, 2};
      logits[at] = nan;
      if (twice) logits.back() = nan;
      EXPECT_EQ(likeliest(logits), static_cast<int64_t>(at));
      for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(draw_token(logits, 0.7, 1, 3, n), static_cast<int64_t>(at));
    }
}

// A file beside the tokenizer may be missing; one that is there and cannot be read is told.
TEST(GenerateOptions, StopTokensThatCannotBeRead) {
  const auto folder = std::filesystem::temp_directory_path() / ("npusim_stop_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "generation_config.json";
  const auto stop = [&] { return read_stop_tokens((folder / "tokenizer.json").string()); };
  EXPECT_EQ(stop(), std::vector<int64_t>{});
  std::ofstream(file) << R"({"eos_token_id": [3, 5]})";
  EXPECT_EQ(stop(), (std::vector<int64_t>{3, 5}));
  for (const std::string target : {"nothing", "generation_config.json", "."}) {
    std::filesystem::remove(file);
    std::filesystem::create_symlink(target, file);
    EXPECT_THROW(stop(), Error) << target;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace npusim
