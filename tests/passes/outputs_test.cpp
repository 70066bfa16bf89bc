// What a program takes and gives: names, dtypes and memory are the IR's, whatever is fused or stored in 16 bits.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "npusim/compiler.h"
#include "npusim/session.h"
#include "passes/run_graph.h"
#include "runtime/tensor_set.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::tensor_of;
using test::values_of;

std::vector<std::string> dtypes_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs) names.emplace_back(dtype_name(spec.type.dtype));
  return names;
}

// A float32 model computed in 16 bits takes and gives float32, and integers of 64 bits.
TEST(Outputs, W19DeclaredDtypesAreKept) {
  const std::string text =
      "input %x: float32[3, 8]\n"
      "input %mask: float32[3, 4]\n"
      "input %i: int64[2]\n"
      "input %d: float64[2]\n"
      "weight %w: float32[4, 8] = \"w\"\n"
      "%l: float32[3, 4] = aten.linear.default(%x, %w, None)\n"
      "%r: float32[3, 4] = aten.relu.default(%l)\n"
      "%y: float32[3, 4] = aten.add.Tensor(%r, %mask)\n"
      "%j: int64[2] = aten.mul.Tensor(%i, 3000000000)\n"
      "%e: float64[2] = aten.mul.Tensor(%d, %d)\n"
      "%a: int64[3] = aten.argmax.default(%y, dim=1)\n"
      "%b: bool[2] = aten.gt.Scalar(%i, other=1)\n"
      "output %y\noutput %j\noutput %e\noutput %a\noutput %b\noutput %mask\n";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const double tolerance = dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 4e-3 : 3e-2;
    const GraphRun run =
        run_graph(text, {.dtype = dtype,
                         .tolerance = tolerance,
                         .given = {{"mask", tensor_of({DType::f32, {3, 4}}, std::vector<double>(12, 1e-3))},
                                   {"i", tensor_of({DType::i64, {2}}, {1, 3})},
                                   {"d", tensor_of({DType::f64, {2}}, {1 + 0x1p-40, 1e200})}}});
    EXPECT_EQ(dtypes_of(run.method().inputs), (std::vector<std::string>{"float32", "float32", "int64", "float64"}));
    EXPECT_EQ(dtypes_of(run.method().outputs),
              (std::vector<std::string>{"float32", "int64", "float64", "int64", "bool", "float32"}));
    EXPECT_EQ(load_int(run.outputs[1].data.data(), DType::i64, 1), 9000000000);
    EXPECT_EQ(values_of(run.outputs[2])[0], (1 + 0x1p-40) * (1 + 0x1p-40));
    EXPECT_EQ(values_of(run.outputs[5])[0], static_cast<double>(1e-3F));
  }
}

// Each compute dtype is itself; bfloat16 is not float16, which cannot hold what it can.
TEST(Outputs, W41ComputeDtypesAreNative) {
  const std::string text =
      "input %x: float32[2, 8]\n"
      "weight %w: float32[8, 8] = \"w\"\n"
      "%a: float32[2, 8] = aten.linear.default(%x, %w, None)\n"
      "%b: float32[2, 8] = aten.linear.default(%a, %w, None)\n"
      "output %b\n";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const GraphRun run = run_graph(text, {.dtype = dtype, .tolerance = dtype == DType::f32 ? 2e-6 : 3e-2});
    bool stored = false;
    for (const Buffer& b : run.program->buffers)
      stored = stored || (b.kind == BufferKind::arena && b.type.dtype == dtype);
    EXPECT_TRUE(stored) << dtype_name(dtype);
  }
  const std::vector<double> large(16, 3e5);
  const GraphRun run = run_graph(
      text, {.dtype = DType::bf16, .tolerance = 3e-2, .given = {{"x", tensor_of({DType::f32, {2, 8}}, large)}}});
  for (double x : values_of(run.outputs[0])) EXPECT_TRUE(std::isfinite(x));
}

// What is summed along a dimension, one element after the other, grows past what float16 holds, whatever divides it
// later.
TEST(Outputs, RunningSumsStayWide) {
  const std::string text =
      "input %x: float32[2, 8]\n"
      "weight %w: float32[64, 8] = \"w\"\nweight %v: float32[4, 64] = \"v\"\n"
      "%a: float32[2, 64] = aten.linear.default(%x, %w, None)\n"
      "%s: float32[2, 64] = aten.mul.Tensor(%a, %a)\n"
      "%c: float32[2, 64] = aten.cumsum.default(%s, dim=1)\n"
      "%y: float32[2, 4] = aten.linear.default(%c, %v, None)\n"
      "output %y\n";
  const auto all = [](int64_t rows, int64_t columns, double value) {
    return tensor_of({DType::f32, {rows, columns}}, std::vector<double>(static_cast<size_t>(rows * columns), value));
  };
  for (const DType dtype : {DType::f16, DType::bf16})
    run_graph(text, {.dtype = dtype,
                     .tolerance = 1e-2,
                     .given = {{"x", all(2, 8, 100)}, {"w", all(64, 8, 0.25)}, {"v", all(4, 64, 1.0 / 8192)}}});
}

// float32 widens all of a 16-bit model: what comes from constants alone is not rounded to 16 bits on the way, and
// weights and constants that are outputs are as wide as the others.
TEST(Outputs, Float32WidensConstantsToo) {
  const std::string text =
      "input %x: T[3]\nweight %w: T[3] = \"w\"\n"
      "%h: T[3] = aten.full.default(size=[3], fill_value=0.1)\n"
      "%t: T[3] = aten.mul.Tensor(%h, 0.1)\n"
      "%y: T[3] = aten.mul.Tensor(%x, %t)\n"
      "%i: int64[3] = aten.arange.default(end=3)\n"
      "%p: T[3] = aten.to.dtype(%i, dtype=T)\n"
      "%f: T[3] = aten.mul.Tensor(%p, 0.3)\n"
      "%c: T[3] = aten.cos.default(%f)\n"
      "%v: T[1, 3] = aten.unsqueeze.default(%w, dim=0)\n"
      "output %y\noutput %t\noutput %c\noutput %w\noutput %v\noutput %x\n";
  for (const std::string dtype : {"float16", "bfloat16"}) {
    std::string typed = text;
    for (size_t at = typed.find('T'); at != std::string::npos; at = typed.find('T', at))
      if (typed.compare(at, 2, "T[") == 0 || typed.compare(at, 2, "T)") == 0)
        typed.replace(at, 1, dtype);
      else
        ++at;
    const DType half = *parse_dtype(dtype);
    const GraphRun run = run_graph(
        typed, {.tolerance = 2e-2,
                .given = {{"x", tensor_of({half, {3}}, {1, 2, 3})}, {"w", tensor_of({half, {3}}, {4, 5, 6})}}});
    EXPECT_EQ(dtypes_of(run.method().outputs), std::vector<std::string>(6, "float32"));
    const float tenth = 0.1F * 0.1F;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_FLOAT_EQ(static_cast<float>(values_of(run.outputs[0])[i]), tenth * static_cast<float>(i + 1));
      EXPECT_FLOAT_EQ(static_cast<float>(values_of(run.outputs[1])[i]), tenth);
      EXPECT_FLOAT_EQ(static_cast<float>(values_of(run.outputs[2])[i]), std::cos(0.3F * static_cast<float>(i)));
      EXPECT_EQ(values_of(run.outputs[3])[i], 4.0 + static_cast<double>(i));
    }
  }
}

// A number that float16 cannot hold is told of where it is stored in float16, not where it only takes part.
TEST(Outputs, NumbersBeyondFloat16AreTold) {
  const std::string text =
      "input %x: float32[2, 8]\ninput %m: bool[2, 4]\nweight %w: float32[4, 8] = \"w\"\nweight %n: float32[] = \"n\"\n"
      "%l: float32[2, 4] = aten.linear.default(%x, %w, None)\n"
      "%s: float32[2, 4] = aten.masked_fill.VALUE\n"
      "%t: float32[2, 4] = aten.neg.default(%s)\n"
      "%y: float32[2, 4] = aten.sigmoid.default(%t)\n"
      "output %y\n";
  const auto notes = [&](const std::string& value, DType dtype, bool fused, double n = 0) {
    std::string graph = text;
    graph.replace(graph.find("VALUE"), 5, value);
    const HostTensor number = tensor_of({DType::f32, {}}, {n});
    const GraphRun run = run_graph(
        graph, {.dtype = dtype,
                .disabled = fused ? std::set<std::string>{} : std::set<std::string>{"all"},
                .tolerance = 3e-2,
                .given = {{"m", tensor_of({DType::boolean, {2, 4}}, {1, 0, 0, 0, 0, 1, 1, 0})}, {"n", number}}});
    TensorSet weights;
    weights.by_name = {{"n", 0}};
    weights.entries.push_back({"n", view_of(number), {}});
    return overflow_notes(*run.program, &weights);
  };
  const std::string scalar = "Scalar(%l, %m, value=-1e10)", tensor = "Tensor(%l, %m, %n)";
  EXPECT_EQ(notes(scalar, DType::f16, false),
            std::vector<std::string>{"node 's': -1e+10 becomes -inf in float16; --dtype float32 keeps it"});
  EXPECT_EQ(notes(tensor, DType::f16, false, 70000),
            std::vector<std::string>{"node 's': 70000 of weight 'n' becomes inf in float16; --dtype float32 keeps it"});
  const std::vector<std::string> none;
  EXPECT_EQ(notes(tensor, DType::f16, false, 60000), none);
  EXPECT_EQ(notes(scalar, DType::bf16, false), none);
  EXPECT_EQ(notes(scalar, DType::f32, false), none);
  EXPECT_EQ(notes(scalar, DType::f16, true), none);
}

// A float32 input that is a convolution's image is rounded to bfloat16 first, as its weight is; float16 could not hold
// every input, and a product's operand may be a position.
TEST(Outputs, ImagesAreRoundedToBfloat16) {
  const std::string text =
      "input %x: float32[2, 3, 6, 6]\nweight %w: float32[4, 3, 3, 3] = \"w\"\n"
      "input %f: float32[2, 8]\nweight %v: float32[8, 8] = \"v\"\n"
      "%c: float32[2, 4, 4, 4] = aten.conv2d.default(%x, %w, None)\n"
      "%l: float32[2, 8] = aten.linear.default(%f, %v, None)\n"
      "output %c\noutput %l\n";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const GraphRun run = run_graph(text, {.dtype = dtype, .tolerance = dtype == DType::f32 ? 2e-6 : 2e-2});
    for (const Kernel& k : run.program->kernels) {
      if (!k.contraction) continue;
      const bool rounded = dtype == DType::bf16 && k.contraction->kind == ContractionKind::conv;
      EXPECT_EQ(k.args[static_cast<size_t>(k.contraction->a.arg)].dtype, rounded ? dtype : DType::f32);
    }
  }
}

// Outputs that are views, inputs or each other keep their names and their memory.
TEST(Outputs, W38AliasesKeepTheirNames) {
  const GraphRun run = run_graph(
      "input %x: float32[2, 3]\n"
      "%a: float32[2, 3] = aten.relu.default(%x)\n"
      "%v: float32[3, 2] = aten.view.default(%a, size=[3, 2])\n"
      "%d: float32[2, 3] = aten.detach.default(%a)\n"
      "%n: float32[2, 3] = aten.dropout.default(%x, p=0.5, train=false)\n"
      "output %x\noutput %a\noutput \"same\" = %a\noutput %v\noutput %d\noutput %n\n");
  ASSERT_EQ(run.outputs.size(), 6U);
  EXPECT_EQ(run.method().outputs[2].name, "same");
}

// An output is valid until the next run of its method, which writes the same memory; inputs stay.
TEST(Outputs, W56TheNextRunOverwrites) {
  const GraphRun run = run_graph("input %x: float32[4]\n%y: float32[4] = aten.neg.default(%x)\noutput %y\n");
  Session session(run.program, {.weights = {}, .devices = {}, .threads = 1});
  auto* x = reinterpret_cast<float*>(session.input(0, 0).data());
  const auto* y = reinterpret_cast<const float*>(session.output(0, 0).data());
  std::fill_n(x, 4, 1.0F);
  session.run(0);
  EXPECT_EQ(y[3], -1);
  EXPECT_EQ(x[3], 1);
  x[3] = 5;
  EXPECT_EQ(y[3], -1);
  session.run(0);
  EXPECT_EQ(y[3], -5);
  EXPECT_EQ(reinterpret_cast<const float*>(session.output(0, 0).data()), y);
}

// A weight in another floating dtype than the program's is rounded once, at load; integers are never converted.
TEST(Outputs, W25WeightsAreCastToTheirSpec) {
  const HostTensor wide = tensor_of({DType::f32, {2}}, {1 + 0x1p-8 + 0x1p-20, 3e38});
  TensorSet weights;
  weights.path = "w.safetensors";
  weights.by_name.emplace("w", 0);
  weights.entries.push_back({"w", view_of(wide), {}});
  Buffer buffer;
  buffer.kind = BufferKind::weight;
  buffer.fqn = "w";
  buffer.type = {DType::bf16, {2}};
  std::vector<Problem> problems;
  LocatedWeight located = locate_weight(&weights, buffer, problems);
  ASSERT_TRUE(located) << (problems.empty() ? "" : to_string(problems[0]));
  EXPECT_FALSE(located.as_it_is());
  EXPECT_EQ(values_of(make_weight(std::move(located), buffer)),
            (std::vector<double>{1 + 0x1p-7, round_through(DType::bf16, 3e38)}));
  buffer.type.dtype = DType::i64;
  EXPECT_FALSE(locate_weight(&weights, buffer, problems));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(to_string(problems[0]), "weight w: expected int64, found float32 in w.safetensors");
}

// The base of rotary frequencies is the config's, never assumed; scalings that are not known give nothing.
TEST(Outputs, W21RotaryBaseComesFromTheConfig) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("npusim_rope_{}", getpid());
  std::filesystem::create_directories(folder);
  TensorSet weights;
  weights.path = (folder / "model.safetensors").string();
  Buffer buffer;
  buffer.fqn = "model.rotary_emb.inv_freq";
  buffer.type = {DType::f32, {2}};
  const auto frequencies = [&](const std::string& config) -> std::vector<double> {
    if (!config.empty()) write_file((folder / "config.json").string(), config);
    const auto made = rotary_frequencies(weights, buffer);
    return made ? values_of(*made) : std::vector<double>{};
  };
  const std::vector<double> none;
  EXPECT_EQ(frequencies(""), none);
  EXPECT_EQ(frequencies(R"({"head_dim": 4})"), none);
  EXPECT_EQ(frequencies(R"({"head_dim": 4, "rope_theta": 1e6})"), (std::vector<double>{1, 1 / 1000.0F}));
  EXPECT_EQ(frequencies(R"({"head_dim": 4, "rope_theta": 1e4})"), (std::vector<double>{1, 1 / 100.0F}));
  EXPECT_EQ(frequencies(R"({"head_dim": 4, "rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn"}})"), none);
  EXPECT_EQ(frequencies(R"({"head_dim": 8, "rope_theta": 1e6})"), none);
  // More than one table, or two answers.
  for (const char* more :
       {R"("rope_local_base_freq": 1e4)", R"("local_rope_theta": 1e4)", R"("partial_rotary_factor": 0.5)",
        R"("rope_parameters": {"rope_theta": 500})", R"("rope_scaling": {"partial_rotary_factor": 0.25})",
        R"("rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {}})"})
    EXPECT_EQ(frequencies(fmt::format(R"({{"head_dim": 4, "rope_theta": 1e6, {}}})", more)), none) << more;
  for (const char* more : {R"("partial_rotary_factor": 1.0)", R"("rope_parameters": {"rope_theta": 1e6})",
                           R"("rope_local_base_freq": null)", R"("rope_scaling": null)",
                           R"("time_step_limit": [0.0, Infinity], "none": NaN, "low": -Infinity, "Infinity": "NaN")"})
    EXPECT_EQ(frequencies(fmt::format(R"({{"head_dim": 4, "rope_theta": 1e6, {}}})", more)).size(), 2u) << more;
  // What should be an object and is none is not passed over.
  for (const char* key : {"rope_scaling", "rope_parameters"})
    for (const char* value : {R"("yarn")", "4.0", "false", R"([{"rope_type": "yarn"}])", "Infinity"})
      EXPECT_THROW(frequencies(fmt::format(R"({{"head_dim": 4, "rope_theta": 1e6, "{}": {}}})", key, value)), Error)
          << key << value;
  buffer.fqn = "model.rotary_emb.sliding_attention_inv_freq";
  EXPECT_EQ(frequencies(R"({"head_dim": 4, "rope_theta": 1e6})"), none);
  std::filesystem::remove_all(folder);
}

// Angles are float32 products of positions and frequencies, far out and in models of 16 bits too; cosine
// and sine have width D, the frequencies D/2.
TEST(Outputs, W20AnglesStayFloat32) {
  const std::string text =
      "input %p: int64[1, 2]\n"
      "weight %f: float32[2] = \"rotary.inv_freq\"\n"
      "%r: float32[1, 2] = aten.to.dtype(%p, dtype=float32)\n"
      "%c: float32[1, 2, 1] = aten.unsqueeze.default(%r, dim=2)\n"
      "%g: float32[1, 2, 2] = aten.mul.Tensor(%c, %f)\n"
      "%e: float32[1, 2, 4] = aten.cat.default([%g, %g], dim=-1)\n"
      "%y: float32[1, 2, 4] = aten.cos.default(%e)\n"
      "output %y\n";
  const std::vector<double> frequencies{1, 0.0100000001};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const GraphRun run = run_graph(text, {.dtype = dtype,
                                          .given = {{"p", tensor_of({DType::i64, {1, 2}}, {31999, 3})},
                                                    {"f", tensor_of({DType::f32, {2}}, frequencies)}}});
    const std::vector<double> cosines = values_of(run.outputs[0]);
    for (size_t i = 0; i < 4; ++i) {
      const float angle = 31999.0F * static_cast<float>(frequencies[i % 2]);
      EXPECT_NEAR(cosines[i], std::cos(static_cast<double>(angle)), 1e-5) << dtype_name(dtype) << " " << i;
    }
  }
}

}  // namespace
}  // namespace npusim
