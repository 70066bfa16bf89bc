// Memory that runs out: each allocation of a piece of work fails in turn. The work ends with std::bad_alloc or an
// Error, leaves no file behind, and done again it gives what it always gives.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/run_program.h"
#include "hostile/failing_new.h"
#include "npusim/compiler.h"
#include "npusim/tensor_set.h"
#include "program/sample.h"

#ifdef NPUSIM_SANITIZED
// oneDNN loses some of its own memory where it gets no more.
extern "C" const char* __lsan_default_suppressions() { return "leak:libdnnl"; }
#endif

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

// `work` under every failure, and how many there were; `check` after each.
size_t sweep(const std::string& what, size_t least, const std::function<void()>& work,
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
  testing::Test::RecordProperty(what, static_cast<int>(failures));
  return failures;
}

TEST(Allocation, ProgramsAreReadAndWritten) {
  const std::string file = serialize(split_program());
  EXPECT_GT(sweep("parse", 0, [&] { parse_program(file, "p"); }), 9u);
  EXPECT_GT(sweep("without code", 0, [&] { parse_program(file, "p", {.code = false}); }), 9u);
  const auto program = parse_program(file, "p");
  EXPECT_GT(sweep("describe", 0, [&] { describe_steps(*program, false); }),
            9u);  // JSON's constructors leak where one fails
  const std::string folder = testing::TempDir() + "npusim_allocation/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "p.npubin";
  std::ofstream(path) << "old";
  bool first = true;
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
    EXPECT_GT(sweep(name, beyond_json, [&] { compile(sources); }), 9u);
    EXPECT_EQ(serialize(*compile(sources).program), expected);
  }
}

// With weights that are small numbers, whatever their dtype.
SessionOptions options_for(const Program& program, std::vector<HostTensor>& memory) {
  SessionOptions options;
  options.weights = hostile::weights_for(program, memory);
  for (HostTensor& tensor : memory) std::fill(tensor.data.begin(), tensor.data.end(), std::byte{0x3c});
  options.threads = 1;
  return options;
}

TEST(Allocation, Sessions) {
  for (const char* name : {"convolution", "transformer"}) {
    const auto program = compile({{"main", seeds + "ir/" + name + ".json"}}).program;
    std::vector<HostTensor> memory;
    const SessionOptions options = options_for(*program, memory);
    EXPECT_GT(sweep(name, 0, [&] { Session(program, options).run(0); }), 9u);
    Session session(program, options);
    session.run(0);
    const auto bytes = [&] {
      const auto out = session.output(0, 0);
      return std::string(reinterpret_cast<const char*>(out.data()), out.size());
    };
    const std::string expected = bytes();
    sweep("run", 0, [&] { session.run(0); });  // npusim allocates nothing there, oneDNN may
    session.run(0);
    EXPECT_EQ(bytes(), expected);
    sweep("sibling", 0, [&] { session.sibling().run(0); });
    session.run(0);
    EXPECT_EQ(bytes(), expected);
  }
}

TEST(Allocation, OtherFiles) {
  sweep("safetensors", 256, [&] { read_tensors(seeds + "safetensors/three.safetensors"); });
  sweep("mapped", 256, [&] { open_tensors(seeds + "safetensors/three.safetensors"); });
}

}  // namespace
}  // namespace npusim
