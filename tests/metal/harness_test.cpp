// The harness itself: good MSL passes and computes, seeded errors of source and of synchronisation are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "compile.h"

namespace mslx {
namespace {

namespace fs = std::filesystem;
const fs::path folder = MSLX_FOLDER;
constexpr Order orders[] = {Order::forward, Order::reverse, Order::random};

std::vector<fs::path> metal_files(const fs::path& in) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(in))
    if (entry.path().extension() == ".metal") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> v(count);
  for (float& x : v) x = values(random);
  return v;
}

void fill(GuardedBuffer& buffer, const std::vector<float>& values) {
  std::memcpy(buffer.data(), values.data(), values.size() * sizeof(float));
}

TEST(MetalHarness, accepts_good_kernels) {
  for (const fs::path& file : metal_files(folder / "kernels")) {
    const Outcome outcome = check_file(file.string());
    EXPECT_EQ(outcome.status, 0) << file << "\n" << outcome.messages;
  }
}

TEST(MetalHarness, flags_every_bad_kernel) {
  const std::vector<fs::path> files = metal_files(folder / "bad");
  EXPECT_GE(files.size(), 18u);
  for (const fs::path& file : files) {
    const Outcome outcome = check_file(file.string());
    EXPECT_TRUE(outcome.status != 0 || outcome.messages.find("warning:") != std::string::npos)
        << file << " was accepted";
  }
}

TEST(MetalHarness, multiplies_matrices) {
  const Library library = compile_file((folder / "kernels/matmul.metal").string(), "-DDTYPE=float");
  ASSERT_EQ(library.error, "");
  const unsigned m = 45, n = 77, k = 133;
  const std::vector<float> a = random_floats(m * k, 1), b = random_floats(k * n, 2);
  for (const Order order : orders) {
    for (const char* name : {"matmul_tiled", "matmul_reg4x4"}) {
      GuardedBuffer a_memory(m * k * 4), b_memory(k * n * 4), c(m * n * 4), sizes(12);
      fill(a_memory, a);
      fill(b_memory, b);
      const unsigned mnk[] = {m, n, k};
      std::memcpy(sizes.data(), mnk, sizeof mnk);
      Bindings bindings;
      bindings.buffer(0, a_memory.data()).buffer(1, b_memory.data()).buffer(2, c.data()).buffer(3, sizes.data());
      const bool tiled = std::string(name) == "matmul_tiled";
      const unsigned tile = tiled ? 16 : 64;
      if (!tiled) bindings.threadgroup(0, 4096).threadgroup(1, 4096);
      const Extent groups{(n + tile - 1) / tile, (m + tile - 1) / tile, 1};
      const Result result = dispatch_groups(library.find(name), groups, tiled ? Extent{16, 16, 1} : Extent{256, 1, 1},
                                            bindings, {.order = order, .workers = order == Order::forward ? 2 : 1});
      ASSERT_TRUE(result.ok()) << result.error;
      for (unsigned i = 0; i < m; ++i)
        for (unsigned j = 0; j < n; ++j) {
          double sum = 0;
          for (unsigned l = 0; l < k; ++l) sum += static_cast<double>(a[i * k + l]) * static_cast<double>(b[l * n + j]);
          ASSERT_NEAR(c.as<float>()[i * n + j], sum, 1e-4) << name << " at " << i << ", " << j;
        }
    }
  }
}

// Seeded errors of synchronisation and memory; the two left out are races that need ThreadSanitizer.
TEST(MetalHarness, finds_errors_at_run_time) {
  const Library library = compile_file((folder / "bad_at_run_time.metal").string());
  ASSERT_EQ(library.error, "");
  const unsigned n = 256;
  for (const char* name : {"race_nobarrier1", "race_nobarrier2", "div_barrier", "early_return", "div_simd", "oob_read",
                           "oob_write", "uninit_tg", "tg_overflow", "tg_toobig", "missing_tail"}) {
    ASSERT_NE(library.find(name), nullptr) << name;
#if defined(__SANITIZE_ADDRESS__)
    if (std::string(name).starts_with("oob_")) continue;  // the fault is AddressSanitizer's
#endif
    bool found = false;
    std::vector<float> first;
    for (unsigned attempt = 0; attempt < 5 && !found; ++attempt) {
      GuardedBuffer x(n * 4), y(n * 4);
      for (unsigned i = 0; i < n; ++i) x.as<float>()[i] = 0.5f + static_cast<float>(i);
      Bindings bindings;
      bindings.buffer(0, x.data()).buffer(1, y.data());
      const Result result =
          dispatch_threads(library.find(name), {n, 1, 1}, {64, 1, 1}, bindings,
                           {.order = orders[std::min(attempt, 2u)], .seed = attempt, .force_fibers = true});
      const std::vector<float> out(y.as<float>(), y.as<float>() + n);
      if (first.empty()) first = out;
      found = !result.ok() || std::memcmp(first.data(), out.data(), n * sizeof(float)) != 0 ||
              std::any_of(out.begin(), out.end(), [](float v) { return std::isnan(v); });
    }
    EXPECT_TRUE(found) << name << " was not detected";
  }
}

TEST(MetalHarness, finds_races_with_thread_sanitizer) {
  const std::string object = compile_for_races((folder / "bad_at_run_time.metal").string());
  ASSERT_NE(object, "");
  if (!count_races(object, "missing_tail", 4, 64, {1024, 1024}))
    GTEST_SKIP() << "SKIP: ThreadSanitizer does not run here";
  EXPECT_EQ(count_races(object, "missing_tail", 4, 64, {1024, 1024}), 0);
  for (const char* name : {"race_nobarrier1", "race_nobarrier2", "race_groups", "race_memnone"})
    EXPECT_GT(count_races(object, name, 4, 64, {1024, 1024}).value_or(0), 0) << name;
}

TEST(MetalHarness, checks_bindings) {
  const Library library = compile_file((folder / "kernels/relu.metal").string());
  ASSERT_EQ(library.error, "");
  GuardedBuffer x(64), y(64), n(4), more(4);
  *n.as<unsigned>() = 32;
  Bindings bindings;
  bindings.buffer(0, x.data()).buffer(1, y.data());
  const mslx_kernel_desc* relu = library.find("relu_f16");
  EXPECT_EQ(dispatch_threads(relu, {32, 1, 1}, {32, 1, 1}, bindings).error, "relu_f16: buffer 2 ('n') not bound");
  bindings.buffer(2, n.data());
  EXPECT_TRUE(dispatch_threads(relu, {32, 1, 1}, {32, 1, 1}, bindings).ok());
  EXPECT_EQ(dispatch_threads(relu, {32, 1, 1}, {2048, 1, 1}, bindings).error,
            "relu_f16: threads per threadgroup 2048 outside 1..1024");
  bindings.buffer(3, more.data());
  EXPECT_EQ(dispatch_threads(relu, {32, 1, 1}, {32, 1, 1}, bindings).error,
            "relu_f16: buffer 3 bound but the kernel has no such parameter");
}

TEST(MetalHarness, reduces_across_lanes_and_specialises) {
  const Library library =
      compile_file((folder / "kernels/extra.metal").string(), "-DMSLX_FCVAL_0=true -DMSLX_FCVAL_1=0.1f");
  ASSERT_EQ(library.error, "");
  const unsigned rows = 5, n = 100;
  const std::vector<float> w = random_floats(rows * n, 3), x = random_floats(n, 4);
  GuardedBuffer w_memory(rows * n * 4), x_memory(n * 4), y(rows * 4), size(4);
  fill(w_memory, w);
  fill(x_memory, x);
  *size.as<unsigned>() = n;
  Bindings bindings;
  bindings.buffer(0, w_memory.data()).buffer(1, x_memory.data()).buffer(2, y.data()).buffer(3, size.data());
  const Result result = dispatch_groups(library.find("gemv_f32"), {rows, 1, 1}, {32, 1, 1}, bindings);
  ASSERT_TRUE(result.ok()) << result.error;
  for (unsigned r = 0; r < rows; ++r) {
    double sum = 0;
    for (unsigned i = 0; i < n; ++i) sum += static_cast<double>(w[r * n + i]) * static_cast<double>(x[i]);
    EXPECT_NEAR(y.as<float>()[r], sum, 1e-5);
  }
}

}  // namespace
}  // namespace mslx
