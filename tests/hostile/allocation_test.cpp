// Memory that runs out: each allocation of a piece of work fails in turn. The work ends with std::bad_alloc or an
// Error, leaves no file behind, and done again it gives what it always gives.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/run_program.h"
#include "hostile/failing_new.h"
#include "npusim/compiler.h"
#include "npusim/tensor_set.h"
#include "program/sample.h"
#include "text/tokenizer.h"

namespace npusim {
namespace {

using hostile::left;

const std::string seeds = NPUSIM_SOURCE_DIR "/tests/fuzz/seeds/";

// NPUSIM_ALLOCATIONS=1 lets every single one fail; by default the later ones are thinned out.
size_t step_after(size_t n) {
  static const bool all = std::getenv("NPUSIM_ALLOCATIONS") != nullptr;
  return all ? 1 : 1 + n / 24;
}

// The JSON library's destructors allocate, 16 bytes for each element of a list, and end the process where they get
// none: of work with JSON in it smaller allocations succeed.
constexpr size_t beyond_json = 1024;

// `work` under every failure; `check` after each.
void sweep(const std::string& what, size_t least, const std::function<void()>& work,
           const std::function<void()>& check = {}) {
  hostile::least = least;
  SCOPED_TRACE(what);
  work();  // what is made once is made now
  size_t failures = 0;
  for (size_t n = 0;; n += step_after(n)) {
    std::string problem;
    left = static_cast<int64_t>(n);
    try {
      work();
    } catch (const std::bad_alloc&) {
      ++failures;
    } catch (const Error& error) {
      left = -1;
      ++failures;
      if (error.kind() == ErrorKind::internal) problem = error.what();
    } catch (const std::exception& error) {
      left = -1;
      problem = error.what();
    }
    const bool done = left.exchange(-1) >= 0;
    EXPECT_EQ(problem, "") << "allocation " << n;
    if (check) check();
    if (done || testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failures, 0u);
  testing::Test::RecordProperty(what, static_cast<int>(failures));
}

TEST(Allocation, ProgramsAreReadAndWritten) {
  const std::string file = serialize(split_program());
  sweep("parse", 0, [&] { parse_program(file, "p"); });
  sweep("without code", 0, [&] { parse_program(file, "p", {.code = false}); });
  sweep("describe", beyond_json,
        [program = parse_program(file, "p")] { describe(*program, true), describe_steps(*program, false); });
  const std::string folder = testing::TempDir() + "npusim_allocation/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "p.npubin";
  std::ofstream(path) << "old";
  bool first = true;
  const auto program = parse_program(file, "p");
  sweep(
      "save", 0,
      [&] {
        if (!std::exchange(first, false)) save_program(*program, path);
      },
      [&] {
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
        const std::string found = read_file(path);
        EXPECT_TRUE(found == "old" || found == file);
      });
}

TEST(Allocation, Compiling) {
  for (const char* name : {"convolution", "transformer"}) {
    const std::vector<MethodSource> sources = {{"main", name, read_file(seeds + "ir/" + name + ".json")}};
    const std::string expected = serialize(*compile(sources).program);
    sweep(name, beyond_json, [&] { compile(sources); });
    EXPECT_EQ(serialize(*compile(sources).program), expected);
  }
}

TEST(Allocation, Sessions) {
  for (const char* name : {"convolution", "transformer"}) {
    const auto program = compile({{"main", seeds + "ir/" + name + ".json"}}).program;
    sweep(name, 0, [&] { hostile::run_program(*program); });
    std::vector<HostTensor> memory;
    SessionOptions options;
    options.weights = hostile::weights_for(*program, memory);
    options.threads = 1;
    Session session(program, std::move(options));
    session.run(0);
    const auto bytes = [&] {
      const auto out = session.output(0, 0);
      return std::string(reinterpret_cast<const char*>(out.data()), out.size());
    };
    const std::string expected = bytes();
    left = 0;
    session.run(0);  // allocates nothing, so nothing fails
    EXPECT_EQ(left.exchange(-1), 0);
    EXPECT_EQ(bytes(), expected);
    sweep("sibling", 0, [&] { session.sibling().run(0); });
    session.run(0);
    EXPECT_EQ(bytes(), expected);
  }
}

TEST(Allocation, OtherFiles) {
  const std::string tokenizer = read_file(seeds + "tokenizer/gpt2");
  sweep("tokenizer", beyond_json, [&] { encode(parse_tokenizer(tokenizer, "t"), "Hello, world!", true); });
  sweep("safetensors", beyond_json, [&] { read_tensors(seeds + "safetensors/three.safetensors"); });
  sweep("mapped", beyond_json, [&] { open_tensors(seeds + "safetensors/three.safetensors"); });
}

}  // namespace
}  // namespace npusim
