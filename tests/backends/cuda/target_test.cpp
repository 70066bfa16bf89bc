// What the CUDA target writes into programs, on a machine without a GPU.
#include "backends/cuda/target.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "backends/cuda/target_compile.h"
#include "backends/cuda/target_fixture.h"
#include "backends/cuda/target_nvrtc.h"
#include "base/error.h"
#include "base/file.h"
#include "compiler/compile_for.h"
#include "compiler/ir.h"
#include "npusim/cancel.h"
#include "program/work.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::vector<cuda::Source>>;

// Every product of 16-bit operands has an implementation of its own; the image and what it meets first are float32.
TEST_F(CudaTarget, ProductsOfHalfProgramsAreNoRows) {
  const auto products = [](const std::string& model) {
    CompileOptions options;
    options.target = "cuda:sm_90a";
    const auto program = compile({{.path = NPUSIM_SOURCE_DIR "/examples/zoo/" + model, .json = {}}}, options).program;
    std::map<std::string, int> counts;
    for (const Launch& launch : program->methods[0].launches)
      if (program->kernels[static_cast<size_t>(program->methods[0].steps[static_cast<size_t>(launch.first)].kernel)]
              .contraction)
        ++counts[launch.how.substr(0, launch.how.find(' '))];
    return counts;
  };
  EXPECT_EQ(products("resnet18/ir.json"), (std::map<std::string, int>{{"tiles", 19}, {"dots,", 1}, {"rows", 1}}));
  EXPECT_EQ(products("minilm_l6/ir.json"), (std::map<std::string, int>{{"tiles", 24}, {"attention,", 6}}));
}

// Patches read an image in the order of its dimensions, so that nothing converts it before.
TEST_F(CudaTarget, TheFirstConvolutionReadsTheImageAsItLies) {
  std::string text = read_file(NPUSIM_SOURCE_DIR "/examples/zoo/resnet18/ir.json");
  for (size_t at; (at = text.find("float32")) != std::string::npos;) text.replace(at, 7, "float16");
  CompileOptions options;
  options.target = "cuda:sm_80,sm_90a";
  const auto program = compile({{.path = {}, .json = text}}, options).program;
  const Launch& first = program->methods[0].launches[0];
  EXPECT_EQ(first.how.find("patches of "), 0u) << first.how;
  EXPECT_NE(first.how.find("by lines of words"), std::string::npos) << first.how;
  const Buffer& image = program->buffers[static_cast<size_t>(first.args[0])];
  EXPECT_EQ(image.kind, BufferKind::input) << image.name;
}

// A layer's queries, keys and values, whose arguments follow each other.
TEST_F(CudaTarget, EqualProductsApartAreOneLaunch) {
  CompileOptions options;
  options.target = "cuda:sm_90a";
  const auto program =
      compile({{.path = NPUSIM_SOURCE_DIR "/examples/zoo/minilm_l6/ir.json", .json = {}}}, options).program;
  const Method& method = program->methods[0];
  int found = 0;
  for (const Launch& launch : method.launches) {
    if (launch.count == 1) continue;
    ++found;
    EXPECT_EQ(launch.count, 3);
    std::vector<int32_t> args;
    std::set<int32_t> results;
    for (int32_t s = launch.first; s < launch.first + launch.count; ++s) {
      const Step& step = method.steps[static_cast<size_t>(s)];
      args.insert(args.end(), step.buffers.begin(), step.buffers.end());
      results.insert(step.buffers.back());
      EXPECT_EQ(program->buffers[static_cast<size_t>(step.buffers.back())].kind, BufferKind::arena);
    }
    EXPECT_EQ(launch.args, args);
    EXPECT_EQ(results.size(), 3U);
  }
  EXPECT_EQ(found, 6);
}

TEST_F(CudaTarget, WritesCodeForEachArchitecture) {
  const auto program = digits_for("cuda:sm_80,sm_86");
  EXPECT_TRUE(program->variants.empty());
  check_launches(*program, 3);
  for (const CodeSet& set : program->code) {
    ASSERT_EQ(set.size(), 3U);
    const char* expected[] = {"cubin sm_80", "cubin sm_86", "ptx compute_80"};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(set[i].format + " " + set[i].architecture, expected[i]);
      EXPECT_EQ(text(set[i]).find("\177ELF"), i == 2 ? std::string::npos : 0);
    }
    EXPECT_NE(text(set[2]).find(".target sm_80"), std::string::npos);
  }
  const auto one = digits_for("cuda:sm_90a");
  check_launches(*one, 2);
  EXPECT_EQ(one->code[0][1].format + " " + one->code[0][1].architecture, "ptx compute_90a");
  EXPECT_EQ(digits_for("cuda:sm_90a,sm_80,sm_90a")->code[0][0].architecture, "sm_80");
}

// Two products in one launch, of which the second has the first one's result and another value in either place of its
// epilogue, and which is kept or not: all of them have the same two kernels.
TEST_F(CudaTarget, PairsOfTheSameKernelsThatReadEachOtherElsewhere) {
  constexpr int64_t rows = 512, width = 2048;
  IrBuilder b;
  std::string x = b.input("x", {rows, width}, "float16");
  const std::string r = b.input("r", {rows, width}, "float16");
  const auto make = [&](const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const IrBuilder::Json& attrs = IrBuilder::Json::object()) {
    return b.node(name, op, inputs, {rows, width}, attrs, "float16");
  };
  for (const bool keeps : {false, true})
    for (const bool first : {true, false}) {
      const std::string at = fmt::format("{}{}", keeps, first);
      const std::string gate = make("gate" + at, "linear.default", {x, b.weight("w" + at, {width, width}, "float16")});
      const std::string up = make("up" + at, "linear.default", {x, b.weight("v" + at, {width, width}, "float16")});
      const std::string product = make("product" + at, "mul.Tensor", {up, first ? gate : r});
      x = make("sum" + at, "add.Tensor", {product, first ? r : gate});
      if (keeps) b.output(gate);
    }
  b.output(x);
  CompileOptions options;
  options.target = "cuda:sm_90a";
  const auto program = compile({b.finish("main")}, options).program;
  std::set<std::string> symbols;
  std::set<std::vector<int32_t>> kernels;
  for (const Launch& launch : program->methods[0].launches) {
    ASSERT_EQ(launch.count, 2) << launch.how;
    symbols.insert(launch.symbol);
    const Step* steps = &program->methods[0].steps[static_cast<size_t>(launch.first)];
    kernels.insert({steps[0].kernel, steps[1].kernel});
  }
  EXPECT_EQ(kernels.size(), 1U);
  EXPECT_EQ(symbols.size(), 4U);
}

// sm_90a beside others is a variant: what a program for it alone is, with wgmma, and the others are as without it.
TEST_F(CudaTarget, HopperIsAVariantAmongOthers) {
  const auto compiled = [](const std::string& target) {
    CompileOptions options;
    options.target = target;
    return compile({{.path = NPUSIM_SOURCE_DIR "/examples/zoo/resnet18/ir.json", .json = {}}}, options).program;
  };
  Program both = *compiled("cuda");
  ASSERT_EQ(both.variants.size(), 1U);
  EXPECT_EQ(check_program(both), std::vector<std::string>{});
  EXPECT_EQ(serialize(deserialize(serialize(both), "both")), serialize(both));
  save_program(both, path("both.npubin"));
  // Made again it has the same launches, of each architecture its own.
  const auto symbols = [](const Variant& variant) {
    std::vector<std::string> all;
    for (const Launch& launch : variant.methods[0].launches) all.push_back(launch.symbol);
    return all;
  };
  const auto again = recompile(both);
  ASSERT_EQ(again->variants.size(), 1U);
  EXPECT_EQ(symbols(*again), symbols(both));
  EXPECT_EQ(symbols(again->variants[0]), symbols(both.variants[0]));
  const Program hopper = with_variant(both, 0);
  both.variants.clear();
  EXPECT_TRUE(serialize(both) == serialize(*compiled("cuda:sm_80")));
  EXPECT_TRUE(serialize(hopper) == serialize(*compiled("cuda:sm_90a")));
  const auto groups = [](const Program& program) {
    return std::count_if(program.methods[0].launches.begin(), program.methods[0].launches.end(),
                         [](const Launch& launch) { return launch.how.find("by warpgroups") != std::string::npos; });
  };
  EXPECT_EQ(groups(both), 0);
  EXPECT_GT(groups(hopper), 4);
  const Invocation text = npusim({"describe", "both.npubin"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_LT(text.out.find("cubin sm_80"), text.out.find("\nvariant 0\ncode       cubin sm_90a"));
  EXPECT_NE(text.out.find("\nvariant 0\ncode       cubin sm_90a"), std::string::npos) << text.out;
  const Invocation steps = npusim({"describe", "both.npubin", "--steps"});
  EXPECT_EQ(steps.out.substr(0, steps.out.find("\nvariant 0\n")).find("by warpgroups"), std::string::npos);
  EXPECT_NE(steps.out.find("by warpgroups", steps.out.find("\nvariant 0\n")), std::string::npos);
  const auto json = nlohmann::json::parse(npusim({"describe", "both.npubin", "--json"}).out);
  EXPECT_EQ(json["code"][0]["architecture"], "sm_80");
  EXPECT_EQ(json["variants"][0]["code"][0]["architecture"], "sm_90a");
  EXPECT_EQ(json["variants"][0]["methods"].size(), json["methods"].size());
}

// A text's methods: states that all of them share, constants, and how a caller sees them.
// What launches are chosen for is data of the program: by architecture, and by what a user gives in its place.
TEST_F(CudaTarget, TheMachineIsOfTheConfig) {
  const auto compiled_for = [](const std::string& target, const std::string& rules) {
    CompileOptions options;
    options.target = target;
    if (!rules.empty()) options.config = {.path = "rules", .json = rules};
    return compile({{.path = NPUSIM_SOURCE_DIR "/examples/zoo/vit_b_16/ir.json", .json = {}}}, options).program;
  };
  const auto machine = [](const Variant& of) { return of.devices[0].config.machine; };
  const auto both = compiled_for("cuda", "");
  EXPECT_EQ(machine(*both).units, 108);
  EXPECT_EQ(machine(*both).block_bytes, 99 << 10);
  EXPECT_EQ(machine(both->variants[0]).units, 132);
  EXPECT_EQ(machine(both->variants[0]).block_bytes, 227 << 10);
  // Of both, each keeps what was not given.
  const auto small = compiled_for("cuda", R"({"machine": {"units": 8}, "own": {"cache_bytes": 5}})");
  EXPECT_EQ(machine(*small).units, 8);
  EXPECT_EQ(machine(*small).unit_bytes, machine(*both).unit_bytes);
  EXPECT_EQ(machine(small->variants[0]).units, 8);
  EXPECT_EQ(machine(small->variants[0]).unit_bytes, machine(both->variants[0]).unit_bytes);
  EXPECT_EQ(small->devices[0].config.own.at("cache_bytes"), 5);
  EXPECT_EQ(small->devices[0].config.own.size(), both->devices[0].config.own.size());
  const auto most_specialized =
      [](const Variant& of) {  // blocks of warp-specialized tiles: as many as there are multiprocessors
        uint32_t most = 0;
        for (const Launch& launch : of.methods[0].launches)
          if (launch.how.find("producer warpgroup") != std::string::npos) most = std::max(most, launch.grid[0]);
        return most;
      };
  EXPECT_EQ(most_specialized(small->variants[0]), 8U);
  // Who makes its launches anew chooses for the same machine, and so finds the same.
  const Program hopper = with_variant(*small, 0);
  const auto tuner = find_target("cuda")->tuner(hopper);
  for (const Launch& launch : hopper.methods[0].launches) {
    const std::vector<LaunchCandidate> candidates = tuner->candidates(hopper.methods[0], launch, 1);
    ASSERT_EQ(candidates.size(), 1U);
    EXPECT_EQ(candidates[0].launch.how, launch.how);
    EXPECT_EQ(candidates[0].launch.grid, launch.grid);
  }
  // Made again, it is for the same machine, unless it is for other architectures.
  const auto again = recompile(*small);
  EXPECT_EQ(machine(*again), machine(*small));
  EXPECT_EQ(machine(again->variants[0]), machine(small->variants[0]));
  EXPECT_EQ(again->devices[0].config.own, small->devices[0].config.own);
  EXPECT_EQ(machine(*recompile(*small, "cuda:sm_86")).units, 84);
  // What no device is is refused; the least that all are is enough.
  const auto error = [&](const std::string& target, const std::string& rules) {
    try {
      compiled_for(target, rules);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("cuda:sm_80", R"({"machine": {"block_bytes": 101377}})"),
            "target cuda: machine.block_bytes: expected 101376 for sm_80, found 101377");
  EXPECT_EQ(error("cuda:sm_90a", R"({"machine": {"block_bytes": 0}})"),
            "target cuda: machine.block_bytes: expected 101376 to 232448 for sm_90a, found 0");
  EXPECT_EQ(error("cuda:sm_90a", R"({"machine": {"units": 1025}})"),
            "target cuda: machine.units: expected 1 to 1024 multiprocessors, found 1025");
  EXPECT_EQ(error("cuda:sm_90a", R"({"machine": {"unit_bytes": 232447}})"),
            "target cuda: machine.unit_bytes: expected at least the 232448 of a block, found 232447");
  const auto least =
      compiled_for("cuda:sm_90a", R"({"machine": {"units": 1, "unit_bytes": 101376, "block_bytes": 101376},
      "own": {"cluster_3_blocks": 0, "cluster_4_blocks": 0, "cluster_6_blocks": 0, "cluster_8_blocks": 0}})");
  for (const Launch& launch : least->methods[0].launches) {
    EXPECT_LE(launch.shared_bytes, 101376U) << launch.how;
    EXPECT_GE(launch.grid[0], 1U) << launch.how;
  }
  // Estimates are the machine's, too.
  const auto slow =
      compiled_for("cuda:sm_90a", R"({"machine": {"memory_gb_s": 1, "gflop_s": 1, "gflop_s_16_bit": 1}})");
  for (const Step& step : slow->methods[0].steps) {
    const Work work = kernel_work(slow->kernels[static_cast<size_t>(step.kernel)]);
    const double least = 1e-9 * static_cast<double>(std::max(work.flops, work.read_bytes + work.written_bytes));
    EXPECT_NEAR(step.estimate.seconds, least, 1e-6 * least);
    EXPECT_EQ(step.estimate.bound == Resource::products, work.flops > work.read_bytes + work.written_bytes);
  }
}

TEST_F(CudaTarget, VariantsOfATextHaveItsMethods) {
  CompileOptions options;
  options.kv_map.path = tinyqwen("kv_mapping.json");
  const auto compiled = [&](const std::string& target) {
    options.target = target;
    return compile({{"prefill", tinyqwen("prefill_ir.json"), {}}, {"decode", tinyqwen("decode_ir.json"), {}}}, options)
        .program;
  };
  const auto both = compiled("cuda:sm_90a,sm_80,graph");
  ASSERT_EQ(both->variants.size(), 1U);
  EXPECT_TRUE(serialize(with_variant(*both, 0)) == serialize(*compiled("cuda:sm_90a,graph")));
  EXPECT_EQ(open_target("cuda:sm_80,sm_86,graph")->variants().size(), 0U);
  EXPECT_THROW(open_target("cuda:sm_80,sm_90a,stream"), Error);
}

TEST_F(CudaTarget, CompilesTextModels) {
  CompileOptions options;
  options.target = "cuda:sm_90a";
  options.kv_map.path = tinyqwen("kv_mapping.json");
  const auto program =
      compile({{"prefill", tinyqwen("prefill_ir.json"), {}}, {"decode", tinyqwen("decode_ir.json"), {}}}, options)
          .program;
  ASSERT_EQ(program->methods.size(), 6U);
  check_launches(*program, 2);
  for (const Method& method : program->methods) {
    EXPECT_EQ(method.fusions.at("attention"), 4);
    // Rotations of queries and keys of each layer are one launch.
    EXPECT_GE(std::count_if(method.launches.begin(), method.launches.end(),
                            [](const Launch& launch) { return launch.how.ends_with("kernels side by side"); }),
              4);
  }
}

// Of decode, as of the methods that loop on their own output, one launch; the others are as without it.
TEST_F(CudaTarget, CompilesStreams) {
  CompileOptions options;
  options.target = "cuda:sm_90a,stream";
  options.kv_map.path = tinyqwen("kv_mapping.json");
  const auto program =
      compile({{"prefill", tinyqwen("prefill_ir.json"), {}}, {"decode", tinyqwen("decode_ir.json"), {}}}, options)
          .program;
  int streams = 0;
  for (const Method& method : program->methods)
    for (const Launch& launch : method.launches) {
      const std::string code = text(program->code[static_cast<size_t>(launch.code)][0]);
      EXPECT_NE(code.find(launch.symbol), std::string::npos) << launch.symbol;
      if (!launch.together) continue;
      ++streams;
      EXPECT_EQ(method.launches.size(), 1U);
      EXPECT_EQ(launch.how.substr(0, 10), "one stream");
      EXPECT_LE(launch.shared_bytes, 227U << 10);
    }
  EXPECT_EQ(streams, 4);
  for (const char* list : {"cuda:sm_80,stream", "cuda:sm_90,stream", "cuda:stream"})
    EXPECT_THROW(open_target(list), Error) << list;
}

// With the cache, without what it held, and once more: byte by byte.
TEST_F(CudaTarget, WritesTheSameProgram) {
  const std::string first = serialize(*digits_for("cuda")), second = serialize(*digits_for("cuda"));
  fs::remove_all(path("cache"));
  const std::string third = serialize(*digits_for("cuda"));
  EXPECT_TRUE(first == second);
  EXPECT_TRUE(first == third);
}

TEST_F(CudaTarget, RemembersWhatItCompiled) {
  const Texts texts = {{{"f", "extern \"C\" __global__ void f(int* x) { *x = 1; }"}},
                       {{"g", "extern \"C\" __global__ void g(int* x) { *x = 2; }"}}};
  const std::vector<std::string> architectures = {"sm_80", "sm_90a"};
  const auto make = [&] {
    std::vector<std::string> images;
    for (const CodeSet& set : cuda::compile_texts(texts, architectures).sets)
      for (const Code& code : set) images.push_back(text(code));
    return images;
  };
  const std::vector<std::string> images = make();
  EXPECT_EQ(images.size(), 6U);
  const std::vector<fs::path> files = entries();
  ASSERT_EQ(files.size(), 4U);
  // A file that is written anew is a copy that was moved there: it has none of the old one's other names.
  const auto keep = [&] {
    for (const fs::path& file : files) {
      fs::remove(file.string() + ".kept");
      fs::create_hard_link(file, file.string() + ".kept");
    }
  };
  const auto kept = [&] {
    return std::count_if(files.begin(), files.end(),
                         [](const fs::path& file) { return fs::hard_link_count(file) == 2; });
  };
  keep();
  EXPECT_EQ(make(), images);
  EXPECT_EQ(kept(), 4);
  // One is cut, one has another's contents, one has a changed byte: they are made again.
  fs::resize_file(files[0], fs::file_size(files[0]) / 2);
  std::string other = read_file(files[1].string());
  write_file(files[2].string(), other);
  other[other.size() / 2] ^= 1;
  write_file(files[1].string(), other);
  keep();
  EXPECT_EQ(make(), images);
  EXPECT_EQ(kept(), 1);
  EXPECT_EQ(make(), images);
}

TEST_F(CudaTarget, WithoutACacheItCompiles) {
  setenv("XDG_CACHE_HOME", "/dev/null/no", 1);
  const Texts texts = {{{"f", "extern \"C\" __global__ void f(int* x) { *x = 1; }"}}};
  EXPECT_EQ(cuda::compile_texts(texts, std::vector<std::string>{"sm_80"}).sets.at(0).size(), 2U);
}

TEST_F(CudaTarget, WhatNvrtcDoesNotTakeIsAnError) {
  const auto error = [](const std::string& text, const std::string& architecture) -> std::string {
    try {
      cuda::compile_texts(Texts{{{"f", text}}}, std::vector{architecture});
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_NE(error("no C", "sm_80").find("NVRTC"), std::string::npos);
  const std::string old = error("extern \"C\" __global__ void f() {}", "sm_30");
  EXPECT_EQ(old.substr(0, 19), "target cuda: NVRTC ") << old;
  EXPECT_NE(old.find("does not compile for sm_30"), std::string::npos) << old;
}

// NVRTC 13.0 died of these rows while they had unsigned numbers: layer norms of a concatenation whose second part lies
// across.
TEST_F(CudaTarget, LayerNormOfAConcatenation) {
  using Json = nlohmann::json;
  for (const int64_t length : {392, 49, 300})
    for (const int64_t width : {96, 200}) {
      const auto tensor = [](const std::string& name, const Shape& shape, const char* from = "") {
        Json t = {{"name", name}, {"shape", shape}, {"dtype", "float16"}};
        if (*from) t["producer_node"] = from, t["producer_output_idx"] = 0;
        return t;
      };
      const Shape first{4, 1, width}, across{4, width, length}, second{4, length, width}, all{4, length + 1, width};
      const Json ir = {{"graph_inputs", {tensor("a", first), tensor("x", across)}},
                       {"graph_outputs", {tensor("layer_norm", all, "layer_norm")}},
                       {"weights", {tensor("w", {width}), tensor("b", {width})}},
                       {"nodes",
                        {{{"name", "transpose"},
                          {"op_type", "aten.transpose.int"},
                          {"inputs", {tensor("x", across, "x")}},
                          {"outputs", {tensor("transpose", second)}},
                          {"attrs", {{"dim0", 1}, {"dim1", 2}}}},
                         {{"name", "cat"},
                          {"op_type", "aten.cat.default"},
                          {"inputs", {tensor("a", first, "a"), tensor("transpose", second, "transpose")}},
                          {"outputs", {tensor("cat", all)}},
                          {"attrs", {{"_tensor_list_sizes", {2}}, {"dim", 1}}}},
                         {{"name", "layer_norm"},
                          {"op_type", "aten.layer_norm.default"},
                          {"inputs", {tensor("cat", all, "cat"), tensor("w", {width}), tensor("b", {width})}},
                          {"outputs", {tensor("layer_norm", all)}},
                          {"attrs", {{"normalized_shape", {width}}, {"eps", 1e-5}}}}}}};
      CompileOptions options;
      options.target = "cuda:sm_80";
      const CompileResult made = compile({{.path = {}, .json = ir.dump()}}, options);
      for (const std::string& note : made.notes) EXPECT_EQ(note.find("less effort"), std::string::npos) << note;
    }
}

// Sums of products are not contracted: what kernel IR says is rounded twice.
TEST_F(CudaTarget, RoundsProductsAndSumsEach) {
  const Texts texts = {
      {{"f", "extern \"C\" __global__ void f(float* x) { x[0] = x[1] * x[2] + x[3] / sqrtf(x[4]); }"}}};
  const std::string ptx = text(cuda::compile_texts(texts, std::vector<std::string>{"sm_80"}).sets[0][1]);
  for (const char* instruction : {"mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("fma"), std::string::npos);
  EXPECT_EQ(ptx.find("ftz"), std::string::npos);
}

// Without a driver and without NVRTC, what was looked for is named.
class CudaMissing : public CliTest {};

TEST_F(CudaMissing, NvrtcIsNamed) {
  environment_ = "NPUSIM_NVRTC=/nowhere/libnvrtc.so";
  const Invocation found = npusim({"compile", digits("ir.json"), "--target", "cuda", "-o", "p.npubin"});
  EXPECT_NE(found.code, 0);
  EXPECT_EQ(found.err,
            "error: target cuda: compiling needs NVRTC, the library libnvrtc.so of CUDA 12 or 13; looked for "
            "/nowhere/libnvrtc.so (not found); NPUSIM_NVRTC may name it\n");
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(CudaMissing, TheDriverIsNamed) {
  environment_ = "NPUSIM_CUDA_DRIVER=/nowhere/libcuda.so.1";
  const Invocation list = npusim({"devices"});
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("cuda     no   no NVIDIA driver: looked for /nowhere/libcuda.so.1"), std::string::npos)
      << list.out;
  npusim({"compile", digits("ir.json"), "-o", "p.npubin"});
  const Invocation run = npusim({"bench", "p.npubin", "--weights", digits("model.safetensors"), "--device", "cuda:0"});
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.err.find("looked for /nowhere/libcuda.so.1"), std::string::npos) << run.err;
}

// By one thread, whose turn comes before each text.
TEST_F(CudaTarget, ACompileIsCancelledBetweenTexts) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  try {
    const CancelScope scope([&] { return entries().size() == 2; });
    digits_for("cuda:sm_80");
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
  }
  EXPECT_EQ(entries().size(), 2U);
  EXPECT_NE(digits_for("cuda:sm_80"), nullptr);
  EXPECT_GT(entries().size(), 2U);
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace npusim
