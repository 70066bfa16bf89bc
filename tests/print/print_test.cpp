// Printed kernels: golden text, refusals, launch shapes, and every CUDA text through NVRTC.
#include "print/print.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernel/builder.h"
#include "kernel/fuse/unfuse.h"
#include "nvrtc.h"
#include "print/plan.h"
#include "samples.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Print, samples_are_sound) {
  for (const PrintSample& sample : print_samples())
    for (const std::string& problem : check_kernel(sample.kernel)) ADD_FAILURE() << sample.name << ": " << problem;
}

// NPUSIM_UPDATE_GOLDEN=1 writes the files instead of comparing.
TEST(Print, golden_text) {
  const fs::path folder = fs::path(NPUSIM_SOURCE_DIR) / "tests/print/golden";
  const bool update = std::getenv("NPUSIM_UPDATE_GOLDEN") != nullptr;
  for (const PrintSample& sample : print_samples()) {
    if (!sample.is_golden) continue;
    for (const Dialect* dialect : {&cuda_dialect, &metal_dialect}) {
      const std::string text = print_kernel(sample.kernel, *dialect);
      const fs::path path = folder / (sample.name + std::string(dialect->file_extension));
      if (update)
        std::ofstream(path) << text;
      else
        EXPECT_EQ(text, file_text(path)) << path << "\nrun with NPUSIM_UPDATE_GOLDEN=1 if the change is meant";
    }
  }
}

// docs/design.md shows one kernel from its text to its source; what it shows is so.
TEST(Print, the_documented_kernel_is_so) {
  const std::string page = file_text(fs::path(NPUSIM_SOURCE_DIR) / "docs/design.md");
  const Kernel kernel = linear_relu();
  const Kernel row = unfuse(kernel).steps.at(0).kernel;
  std::string source = print_kernel(row, cuda_dialect);
  source = source.substr(source.find("// linear_relu"));
  for (const std::string& text : {to_text(kernel), to_text(row), source})
    EXPECT_NE(page.find("```\n" + text + "```\n"), std::string::npos) << "docs/design.md does not show\n" << text;
}

TEST(Print, cuda_text_compiles) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC on this machine";
  std::vector<PrintSample> samples = print_samples();
  std::vector<const Kernel*> kernels;
  for (const PrintSample& sample : samples) {
    EXPECT_EQ(cannot_print(sample.kernel, cuda_dialect), std::nullopt) << sample.name;
    kernels.push_back(&sample.kernel);
  }
  const std::string source = print_kernels(kernels, cuda_dialect);
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const Cubin cubin = compile_cuda(source, architecture);
    EXPECT_EQ(cubin.problem, "") << architecture;
    EXPECT_FALSE(cubin.image.empty()) << architecture;
  }
}

// One by one: each text holds all the helpers it needs and no kernel leans on another's.
TEST(Print, cuda_texts_stand_alone) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC on this machine";
  for (const PrintSample& sample : print_samples()) {
    const Cubin cubin = compile_cuda(print_kernel(sample.kernel, cuda_dialect), "sm_90");
    EXPECT_EQ(cubin.problem, "") << sample.name;
    EXPECT_FALSE(cubin.image.empty()) << sample.name;
  }
}

TEST(Print, refuses_with_reasons) {
  auto reason = [](const Kernel& k, const Dialect& d) { return cannot_print(k, d).value_or("printed"); };
  KernelBuilder doubles({4});
  const int a = doubles.input({DType::f64, {4}}), out = doubles.output({DType::f32, {4}});
  doubles.store(out, doubles.load_broadcast(a));
  const Kernel f64_kernel = doubles.finish("narrow");
  EXPECT_EQ(reason(f64_kernel, metal_dialect), "MSL has no type for float64 (argument %0)");
  EXPECT_EQ(reason(f64_kernel, cuda_dialect), "printed");

  KernelBuilder inside({4});
  const int in = inside.input({DType::f32, {4}}), to = inside.output({DType::f32, {4}});
  inside.store(to, exp(inside.cast(inside.load_broadcast(in), Scalar::f64)));
  EXPECT_EQ(reason(inside.finish("wide"), metal_dialect), "e1 is float64, which MSL does not have");

  KernelBuilder many({4});
  Ex sum = many.number(0);
  for (int i = 0; i < 31; ++i) sum = sum + many.load_broadcast(many.input({DType::f32, {4}}));
  many.store(many.output({DType::f32, {4}}), sum);
  const Kernel wide = many.finish("many");
  EXPECT_EQ(reason(wide, metal_dialect), "32 arguments, MSL takes 31");
  EXPECT_EQ(reason(wide, cuda_dialect), "printed");

  KernelBuilder product({4, 4});
  const int x = product.input({DType::f32, {4, 4}}), y = product.input({DType::f32, {4, 4}});
  const Coord x_at[] = {product.dim(0), product.dim(2)}, y_at[] = {product.dim(2), product.dim(1)};
  Ex leaf = product.contract(ContractionKind::matmul, {4}, x, x_at, y, y_at);
  product.store(product.output({DType::f32, {4, 4}}), leaf);
  EXPECT_EQ(reason(product.finish("mm"), cuda_dialect),
            "it holds a contraction, which is printed as unfuse() spells it out");

  Kernel odd = f64_kernel;
  odd.exprs.push_back({.op = ExprOp::exp, .type = Scalar::i64, .in = {0, -1, -1}});
  odd.exprs[0].type = Scalar::i64;
  odd.stores[0].expr = static_cast<int32_t>(odd.exprs.size()) - 1;
  EXPECT_EQ(reason(odd, cuda_dialect),
            "e" + std::to_string(odd.exprs.size() - 1) + ": CUDA C++ has no exp of integers");
}

Kernel row_sum(Shape shape, int row_dims = 1) {
  KernelBuilder k(shape, row_dims);
  const int a = k.input({DType::f32, shape});
  const int out = k.output({DType::f32, Shape(shape.begin(), shape.end() - row_dims)});
  k.store(out, k.reduce(Reduction::sum, k.load_broadcast(a)));
  return k.finish("row_sum");
}

Kernel copy(Shape shape) {
  KernelBuilder k(shape);
  const int a = k.input({DType::u8, shape});
  k.store(k.output({DType::u8, shape}), k.load_broadcast(a));
  return k.finish("copy");
}

TEST(Print, launch_shapes) {
  auto launch = [](const Kernel& k, const Dialect& d = cuda_dialect) { return launch_of(k, d); };
  EXPECT_EQ(launch(copy({1000})), (LaunchShape{4, 256}));
  EXPECT_EQ(launch(copy({1000, 0})).blocks, 0);
  EXPECT_EQ(launch(copy({})), (LaunchShape{1, 256}));
  EXPECT_EQ(launch(row_sum({300, 9})), (LaunchShape{3, 128}));        // a thread a row
  EXPECT_EQ(launch(row_sum({10, 200})), (LaunchShape{3, 128}));       // a warp a row
  EXPECT_EQ(launch(row_sum({10, 896})), (LaunchShape{10, 256}));      // a block a row
  EXPECT_EQ(launch(row_sum({5000, 896})), (LaunchShape{1250, 128}));  // many rows: a warp each
  EXPECT_EQ(launch(row_sum({1, 151936})), (LaunchShape{1, 1024}));
  EXPECT_EQ(launch(row_sum({1, 151936}), metal_dialect), (LaunchShape{1, 512}));
  EXPECT_EQ(launch(row_sum({4, 0})), (LaunchShape{1, 128}));  // an empty row still has a sum
  EXPECT_EQ(launch(row_sum({0, 5})).blocks, 0);
}

// Index arithmetic turns to 64 bits where the counts need it, and only there.
TEST(Print, index_width) {
  const auto wide = [](const Kernel& k) { return plan_kernel(k).wide; };
  EXPECT_FALSE(wide(copy({1 << 15, 1 << 15})));
  EXPECT_TRUE(wide(copy({1 << 16, 1 << 15})));
  EXPECT_TRUE(wide(copy({(1 << 16) + 1, 1 << 16})));
  const Kernel big = copy({(int64_t{1} << 33) + 5});
  EXPECT_EQ(launch_of(big, cuda_dialect).blocks, (int64_t{1} << 25) + 1);
  EXPECT_NE(print_kernel(big, cuda_dialect).find("(unsigned long long)blockIdx.x * 256"), std::string::npos);
  if (has_nvrtc()) {
    EXPECT_EQ(compile_cuda(print_kernel(big, cuda_dialect), "sm_80").problem, "");
  }
}

TEST(Print, schedules_are_refused_with_reasons) {
  const auto reason = [](const Kernel& k, Schedule s) { return cannot_print(k, metal_dialect, s).value_or("printed"); };
  EXPECT_EQ(reason(copy({1000}), {RowLoop::none, 64}), "printed");
  EXPECT_EQ(reason(copy({1000}), {RowLoop::none, 48}), "blocks of 48 threads, MSL has multiples of 32 up to 512");
  EXPECT_EQ(reason(copy({1000}), {RowLoop::none, 1024}), "blocks of 1024 threads, MSL has multiples of 32 up to 512");
  EXPECT_EQ(reason(row_sum({4, 5}), {RowLoop::none, 64}),
            "points are not threads' where rows are reduced, scanned or empty");
  EXPECT_EQ(reason(row_sum({4, 5}), {RowLoop::block, 64}), "printed");
  KernelBuilder k({3, 8}, 1);
  const int a = k.input({DType::f32, {3, 8}});
  k.store(k.output({DType::f32, {3, 8}}), k.scan(Reduction::sum, k.load_broadcast(a)));
  EXPECT_EQ(reason(k.finish("cumsum"), {RowLoop::warp, 64}), "one thread walks a row that is scanned");
  EXPECT_EQ(reason(copy({int64_t{1} << 50}), {RowLoop::none, 32}), "35184372088832 blocks, MSL launches 4294967295");
  EXPECT_EQ(launch_of(row_sum({10, 200}), metal_dialect, {RowLoop::warp, 64}), (LaunchShape{5, 64}));
  EXPECT_EQ(launch_of(row_sum({10, 200}), metal_dialect, {RowLoop::thread, 64}), (LaunchShape{1, 64}));
}

// The text promises that pointers do not meet exactly where no memory plan lets them.
TEST(Print, pointers_that_may_be_one_promise_nothing) {
  const auto parameters = [](const Kernel& k) {
    const std::string text = print_kernel(k, cuda_dialect);
    const size_t begin = text.find("__launch_bounds__");
    return text.substr(begin, text.find('{', begin) - begin);
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  KernelBuilder sum({4, 5});
  const int a = sum.input({DType::f32, {4, 5}}), row = sum.input({DType::f32, {5}}),
            half = sum.input({DType::f16, {4, 5}}), turned = sum.input({DType::f32, {5, 4}});
  const Coord at[] = {sum.dim(1), sum.dim(0)};
  sum.store(sum.output({DType::f32, {4, 5}}),
            sum.load_broadcast(a) + sum.load_broadcast(row) + sum.load_broadcast(half) + sum.load(turned, at));
  const std::string text = parameters(sum.finish("sum"));
  EXPECT_TRUE(says(text, "const float* in0,")) << text;
  EXPECT_TRUE(says(text, "const float* __restrict__ in1")) << text;  // of another size
  EXPECT_TRUE(says(text, "const f16* __restrict__ in2")) << text;    // of another type
  EXPECT_TRUE(says(text, "const float* __restrict__ in3")) << text;  // read at other points than the one stored
  EXPECT_TRUE(says(text, "float* out0)")) << text;

  const std::string rows = parameters(row_sum({4, 5}));
  EXPECT_TRUE(says(rows, "const float* __restrict__ in0") && says(rows, "float* __restrict__ out0")) << rows;

  KernelBuilder update({4});
  const int old = update.input({DType::f32, {4}}), x = update.input({DType::f32, {1}});
  update.store(update.output({DType::f32, {4}}, old), update.load_broadcast(x));
  const std::string updates = parameters(update.finish("fill"));
  EXPECT_TRUE(says(updates, "const float* in0,") && says(updates, "float* out0)")) << updates;
}

TEST(Print, merges_dimensions) {
  const PrintPlan dense = plan_kernel(copy({2, 3, 1, 5}));
  EXPECT_EQ(dense.kernel.space, Shape{30});
  const PrintPlan rows = plan_kernel(row_sum({2, 3, 4, 5}, 2));
  EXPECT_EQ(rows.kernel.space, (Shape{6, 20}));
  EXPECT_EQ(rows.kernel.row_dims, 1);
}

// An image's channels lie side by side in what is stored: neighbouring threads have neighbouring channels.
TEST(Print, neighbours_store_side_by_side) {
  KernelBuilder b({2, 64, 8, 9}, 1);
  const int in = b.input({DType::f32, {2, 8, 64, 9}}), out = b.output({DType::f32, {2, 8, 64}});
  const Coord from[] = {b.dim(0), b.dim(2), b.dim(1), b.dim(3)};
  b.store(out, std::span(from).first(3), b.reduce(Reduction::max, b.load(in, from)));
  EXPECT_EQ(plan_kernel(b.finish("pool")).kernel.space, (Shape{1024, 9}));  // in the order of memory
}

TEST(Print, traps_are_explained) {
  const std::vector<PrintSample> samples = print_samples();
  for (const PrintSample& sample : samples) {
    if (sample.name == "mul_silu") {
      EXPECT_FALSE(takes_trap(sample.kernel));
    }
    if (sample.name == "division_by_zero") {
      EXPECT_EQ(trap_message(sample.kernel, 1), "integer division by zero");
    }
    if (sample.name == "requirement") {
      EXPECT_EQ(trap_message(sample.kernel, 2), "a probability is not in [0, 1]");
    }
    if (sample.name != "scatter_add") continue;
    EXPECT_TRUE(takes_trap(sample.kernel));
    EXPECT_EQ(trap_message(sample.kernel, 2), "an index is out of range for a dimension of 4 of argument %3");
  }
}

// The same kernel under two names is printed twice, under one name once.
TEST(Print, names_by_content) {
  const Kernel a = copy({10}), b = copy({11});
  EXPECT_NE(kernel_name(a), kernel_name(b));
  EXPECT_EQ(kernel_name(a).substr(0, 5), "copy_");
  const Kernel* twice[] = {&a, &a, &b};
  const std::string text = print_kernels(twice, cuda_dialect);
  size_t count = 0;
  for (size_t at = 0; (at = text.find("__global__", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 2u);
}

}  // namespace
}  // namespace npusim
