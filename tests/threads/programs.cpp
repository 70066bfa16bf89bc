// Graphs as text, one for each kind of kernel.
#include "threads/programs.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <random>

#include "passes/run_graph.h"

namespace npusim::test {
namespace {

// Text with {0}, {1}, … for the sizes that are drawn, each up to `most`.
struct Kind {
  const char* name;
  const char* text;
  std::vector<int> most;
  DType dtype = DType::f32;
};

const char* const product =
    "input %x: float32[{0}, {1}]\nweight %w: float32[{1}, {2}] = \"w\"\nweight %b: float32[{2}] = \"b\"\n"
    "%m: float32[{0}, {2}] = aten.addmm.default(%b, %x, %w)\n%y: float32[{0}, {2}] = aten.sigmoid.default(%m)\n"
    "output %y\n";
const char* const convolution =
    "input %x: float32[1, {0}, {2}, {2}]\nweight %w: float32[{1}, {0}, 3, 3] = \"w\"\n"
    "%c: float32[1, {1}, {2}, {2}] = aten.conv2d.default(%x, %w, None, padding=[1, 1])\n"
    "%y: float32[1, {1}, {2}, {2}] = aten.tanh.default(%c)\noutput %y\n";

const Kind kinds[] = {
    {"rows of a product", product, {70, 90, 120}},
    {"one row",
     "input %x: float32[1, {0}]\nweight %w: float32[{0}, {1}] = \"w\"\n"
     "%y: float32[1, {1}] = aten.matmul.default(%x, %w)\noutput %y\n",
     {200, 300}},
    {"bfloat16 product", product, {40, 90, 120}, DType::bf16},
    {"float16 product", product, {40, 90, 60}, DType::f16},
    {"batched product of inputs",
     "input %x: float32[{0}, {1}, {2}]\ninput %w: float32[{0}, {2}, {1}]\n"
     "%y: float32[{0}, {1}, {1}] = aten.bmm.default(%x, %w)\noutput %y\n",
     {5, 30, 40}},
    {"convolution", convolution, {20, 40, 14}},
    {"bfloat16 convolution", convolution, {20, 40, 12}, DType::bf16},
    {"clamped convolution",
     "input %x: float32[1, {0}, {2}, {2}]\nweight %w: float32[{1}, {0}, 3, 3] = \"w\"\n"
     "%c: float32[1, {1}, {2}, {2}] = aten.conv2d.default(%x, %w, None, padding=[1, 1])\n"
     "%y: float32[1, {1}, {2}, {2}] = aten.clamp.default(%c, min=-50, max=50)\noutput %y\n",
     {20, 40, 14}},
    {"depthwise convolution",
     "input %x: float32[1, {0}, {1}, {1}]\nweight %w: float32[{0}, 1, 3, 3] = \"w\"\n"
     "%y: float32[1, {0}, {1}, {1}] = aten.conv2d.default(%x, %w, None, padding=[1, 1], groups={0})\noutput %y\n",
     {50, 20}},
    {"attention",
     "input %q: float32[1, {0}, {1}, {2}]\ninput %k: float32[1, {0}, {1}, {2}]\n"
     "input %v: float32[1, {0}, {1}, {2}]\n"
     "%y: float32[1, {0}, {1}, {2}] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\noutput %y\n",
     {6, 90, 40}},
    {"one query",
     "input %q: float32[1, {0}, 1, {2}]\ninput %k: float32[1, {0}, {1}, {2}]\n"
     "input %v: float32[1, {0}, {1}, {2}]\n"
     "%y: float32[1, {0}, 1, {2}] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\noutput %y\n",
     {6, 500, 40}},
    {"rows",
     "input %x: float32[{0}, {1}]\n%y: float32[{0}, {1}] = aten.softmax.int(%x, dim=1)\noutput %y\n",
     {90, 300}},
    {"sums",
     "input %x: float32[{0}, {1}]\n%y: float32[{0}] = aten.sum.dim_IntList(%x, dim=[1])\n"
     "%z: float32[{1}] = aten.sum.dim_IntList(%x, dim=[0])\noutput %y\noutput %z\n",
     {90, 300}},
    {"scans",
     "input %x: float32[{0}, {1}]\n%y: float32[{0}, {1}] = aten.cumsum.default(%x, dim=1)\n"
     "%z: float32[{0}, {1}] = aten.cumsum.default(%x, dim=0)\noutput %y\noutput %z\n",
     {90, 200}},
    {"pointwise",
     "input %x: float32[{0}, {1}]\n%a: float32[{0}, {1}] = aten.tanh.default(%x)\n"
     "%y: float32[{0}, {1}] = aten.exp.default(%a)\noutput %y\n",
     {90, 500}},
    {"permuted",
     "input %x: float32[{0}, {1}, {2}]\n%p: float32[{2}, {1}, {0}] = aten.permute.default(%x, dims=[2, 1, 0])\n"
     "%y: float32[{2}, {1}, {0}] = aten.relu.default(%p)\noutput %y\n",
     {20, 30, 40}},
    {"scattered sums",
     "input %x: float32[{0}, {1}]\ninput %s: float32[4, {1}]\ninput %i: int64[{0}]\n"
     "%y: float32[4, {1}] = aten.index_add.default(%s, %i, %x, dim=0)\noutput %y\n",
     {60, 200}},
    {"scattered",
     "input %x: float32[4, {1}]\ninput %s: float32[{0}, {1}]\ninput %i: int64[2, {1}]\n"
     "%y: float32[{0}, {1}] = aten.scatter_add.default(%s, %i, %x, dim=0)\noutput %y\n",
     {60, 200}},
    {"gathered",
     "weight %w: float32[4, {1}] = \"w\"\ninput %i: int64[{0}]\n"
     "%y: float32[{0}, {1}] = aten.embedding.default(%w, %i)\noutput %y\n",
     {200, 200}},
};

std::string text_of(const Kind& kind, std::mt19937& random) {
  fmt::dynamic_format_arg_store<fmt::format_context> sizes;
  for (const int most : kind.most) sizes.push_back(4 + static_cast<int>(random() % static_cast<unsigned>(most - 3)));
  return fmt::vformat(kind.text, sizes);
}

HostTensor random_tensor(const TensorType& type, std::mt19937& random) {
  HostTensor tensor = make_tensor(type);
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    if (is_float(type.dtype))
      store_double(tensor.data.data(), type.dtype, i, real(random));
    else
      store_int(tensor.data.data(), type.dtype, i, static_cast<int64_t>(random() % 4));
  }
  return tensor;
}

}  // namespace

std::vector<ThreadedProgram> threaded_programs(unsigned seed) {
  std::vector<ThreadedProgram> programs;
  std::mt19937 random(seed);
  for (const Kind& kind : kinds) {
    const std::string text = text_of(kind, random);
    RunOptions options;
    options.dtype = kind.dtype;
    options.tolerance = kind.dtype == DType::f32 ? 1e-5 : 0.1;  // others hold values; here it is bits
    ThreadedProgram made{
        fmt::format("{}, seed {}:\n{}", kind.name, seed, text), run_graph(text, options).program, {}, {}};
    std::vector<NamedTensor> weights;
    static std::vector<std::unique_ptr<HostTensor>> kept;
    for (const Buffer& buffer : made.program->buffers) {
      if (buffer.kind != BufferKind::weight) continue;
      kept.push_back(std::make_unique<HostTensor>(random_tensor(buffer.type, random)));
      weights.push_back({buffer.fqn, view_of(*kept.back())});
    }
    made.weights = make_tensors(std::move(weights));
    for (const TensorSpec& spec : made.program->methods[0].inputs)
      made.inputs.push_back(random_tensor(spec.type, random));
    programs.push_back(std::move(made));
  }
  return programs;
}

Session open(const ThreadedProgram& p, int threads) {
  return Session(p.program, {.weights = p.weights, .threads = threads});
}

std::string outputs_of(const ThreadedProgram& p, Session& session) {
  std::string all;
  for (size_t i = 0; i < p.inputs.size(); ++i) session.set_input(0, i, p.inputs[i].data);
  session.run(0);
  for (size_t i = 0; i < p.program->methods[0].outputs.size(); ++i) {
    const auto bytes = session.output(0, i);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

}  // namespace npusim::test
