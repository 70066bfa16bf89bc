// What the compiler makes of every zoo IR: the memory plan is tight, the fusions of the big model are all found.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "codegen/target.h"
#include "graph/import.h"
#include "models/model.h"
#include "passes/pass.h"
#include "program/program.h"

namespace npusim {
namespace {

std::vector<std::string> zoo_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(examples + "zoo"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::shared_ptr<const Program> compile_zoo(const std::string& name, const std::string& dtype = "auto") {
  CompileOptions options;
  options.dtype = dtype;
  return compile({{.path = examples + "zoo/" + name + "/ir.json", .json = {}}}, options).program;
}

class Compile : public ::testing::TestWithParam<std::string> {};

// After every pass every kernel is sound and fits its values.
void check_passes(const std::string& path, const PassContext& given) {
  PassContext context = given;
  const MappedFile file(path);
  Graph graph = import_ir({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
  for (const Pass& pass : pipeline()) {
    if (pass.optional && !context.enabled(pass.name)) continue;
    pass.run(graph, context);
    const std::vector<std::string> problems = check_graph(graph);
    EXPECT_EQ(problems, std::vector<std::string>{}) << "after " << pass.name;
    if (!problems.empty()) return;
  }
}

TEST_P(Compile, EveryKernelIsSoundAfterEveryPass) {
  const std::string path = examples + "zoo/" + GetParam() + "/ir.json";
  PassContext context;
  context.target = find_target("cpu")->config();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    context.dtype = dtype;
    check_passes(path, context);
  }
  context.strict = true;
  check_passes(path, context);
  context.strict = false;
  context.disabled = {"all"};
  check_passes(path, context);
}

TEST_P(Compile, ProgramIsSound) {
  for (const char* dtype : {"auto", "float32"}) {
    const auto program = compile_zoo(GetParam(), dtype);
    EXPECT_EQ(check_program(*program), std::vector<std::string>{}) << dtype;
    for (const Kernel& kernel : program->kernels)
      EXPECT_EQ(check_kernel(kernel), std::vector<std::string>{}) << dtype << "\n" << to_text(kernel);
  }
}

// Buffers are reused as their lifetimes allow, and the peak is reported.
TEST_P(Compile, ArenaIsTight) {
  const nlohmann::json report = method_report(*compile_zoo(GetParam()), "main");
  const double arena = report.at("arena_bytes"), lower_bound = report.at("arena_lower_bound_bytes");
  EXPECT_GT(lower_bound, 0);
  EXPECT_GE(arena, lower_bound);
  EXPECT_LE(arena, 1.10 * lower_bound);
  std::printf("  arena / lower bound = %.4f\n", arena / lower_bound);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Compile, ::testing::ValuesIn(zoo_models()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(CompileZoo, HoldsFourteenModels) { EXPECT_EQ(zoo_models().size(), 14U); }

// The real graph computes up_proj after silu, and repeats keys and values six times.
TEST(CompileZoo, DecodeFusesEveryLayer) {
  const nlohmann::json report = method_report(*compile_zoo("qwen2.5_1.5b_decode2048"), "main");
  EXPECT_EQ(report["fusions"].value("rms_norm", 0), 57);
  EXPECT_EQ(report["fusions"].value("silu_mul", 0), 28);
  EXPECT_EQ(report["fusions"].value("attention", 0), 28);
  EXPECT_EQ(report["materialized"].value("expand", 0), 0);
  EXPECT_EQ(report["materialized"].value("transpose", 0), 0);
}

TEST(CompileZoo, PrefillFusesEveryLayer) {
  const nlohmann::json report = method_report(*compile_zoo("qwen2.5_1.5b_prefill128"), "main");
  EXPECT_EQ(report["fusions"].value("rms_norm", 0), 57);
  EXPECT_EQ(report["fusions"].value("silu_mul", 0), 28);
  EXPECT_EQ(report["fusions"].value("attention", 0), 28);
}

// Every batch norm of these nets is folded: a step each for the convolutions, and little else.
TEST(CompileZoo, ConvolutionNetsAreConvolutions) {
  const nlohmann::json report = method_report(*compile_zoo("resnet50"), "main");
  EXPECT_LE(report.at("steps"), 60);  // 53 convolutions, pooling twice, the linear layer, conversions of the image
}

// Buffers, steps and the memory plan take longer than a target without code of its own, and the report says so: the
// best of five, since other processes may come between.
TEST(CompileZoo, SecondsAreOfWhatTheyAreCalled) {
  double codegen = INFINITY, plan = INFINITY;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const CompileResult result =
        compile({{.path = examples + "zoo/qwen2.5_1.5b_prefill128/ir.json", .json = {}}}, CompileOptions{});
    codegen = std::min(codegen, result.seconds.at("codegen"));
    plan = std::min(plan, result.seconds.at("plan"));
  }
  EXPECT_GT(plan, codegen);
}

// The whole plan is one artifact, the same from the same IR.
TEST(CompileZoo, SameIrSameBytes) {
  const std::string first = NPUSIM_MODELS_DIR "/first.npubin", second = NPUSIM_MODELS_DIR "/second.npubin";
  std::filesystem::create_directories(NPUSIM_MODELS_DIR);
  for (const char* name : {"resnet18", "qwen2_2l"}) {
    save_program(*compile_zoo(name), first);
    save_program(*compile_zoo(name), second);
    std::error_code ignored;
    const MappedFile a(first), b(second);
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end())) << name;
    std::filesystem::remove(first, ignored);
    std::filesystem::remove(second, ignored);
  }
}

}  // namespace
}  // namespace npusim
