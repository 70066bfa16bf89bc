// Epilogues of products and convolutions as operators lower to them, at every kind of value, behind every
// implementation.
#include <limits>

#include "backends/cpu/product/check.h"
#include "kernel/contractions.h"
#include "ops/call.h"

namespace npusim::cpu::product {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct Activation {
  std::string name;
  testing_ops::HandCall::Attrs attrs;
  bool steps = false;  // jumps from one value to another
};

// Those that libraries or tiles take along, and those that resemble them.
const std::vector<Activation>& activations() {
  static const std::vector<Activation> all{
      {"aten.relu.default", {}},
      {"aten.relu6.default", {}},
      {"aten.silu.default", {}},
      {"aten.sigmoid.default", {}},
      {"aten.tanh.default", {}},
      {"aten.gelu.default", {}},
      {"aten.gelu.default", {{"approximate", std::string("tanh")}}},
      {"aten.elu.default", {}},
      {"aten.selu.default", {}},
      {"aten.celu.default", {{"alpha", 0.5}}},
      {"aten.leaky_relu.default", {}},
      {"aten.leaky_relu.default", {{"negative_slope", 0.0}}},
      {"aten.leaky_relu.default", {{"negative_slope", -2.0}}},
      {"aten.rrelu.default", {}},
      {"aten.hardtanh.default", {}},
      {"aten.hardtanh.default", {{"min_val", 2.0}, {"max_val", -2.0}}},
      {"aten.hardswish.default", {}},
      {"aten.hardsigmoid.default", {}},
      {"aten.hardshrink.default", {{"lambd", 5e-4}}, true},
      {"aten.softshrink.default", {}},
      {"aten.softplus.default", {}},
      {"aten.log_sigmoid.default", {}},
      {"aten.mish.default", {}},
      {"aten.threshold.default", {{"threshold", 5e-4}, {"value", 0.0}}, true},
      {"aten.threshold.default", {{"threshold", 0.0}, {"value", 0.0}}},
      {"aten.nan_to_num.default", {}},
      {"aten.clamp.default", {{"min", -1e6}, {"max", 1e6}}},
      {"aten.clamp.default", {{"min", 0.5}}},
      {"aten.clamp.default", {{"max", -0.5}}},
      {"aten.clamp.default", {{"min", 3.0}, {"max", 1.0}}},
      {"aten.clamp.default", {{"min", nan}, {"max", 1.0}}},
      {"aten.clamp.default", {{"min", -1.0}, {"max", nan}}},
      {"aten.clamp.default", {{"min", -infinity}, {"max", 1.0}}},
      {"aten.clamp.default", {{"min", 0.0}, {"max", infinity}}},
      {"aten.mul.Scalar", {{"other", 0.0}}},
      {"aten.mul.Scalar", {{"other", 1e-6}}},
      {"aten.div.Scalar", {{"other", 3.0}}},
      {"aten.div.Scalar", {{"other", 1e-39}}},
      {"aten.add.Scalar", {{"other", infinity}}},
      {"aten.neg.default", {}},
      {"aten.abs.default", {}},
      {"aten.round.decimals", {{"decimals", int64_t{-6}}}, true},
  };
  return all;
}

// The operator's lowering with `x` for its operand.
Ex apply(KernelBuilder& b, const Activation& activation, Ex x) {
  testing_ops::HandCall call(activation.name, {testing_ops::floats({1}, {0})}, activation.attrs);
  const Kernel formula = call.lowered().calls.at(0).kernel;
  std::vector<Ex> done;
  for (const Expr& e : formula.exprs) {
    const auto in = [&](size_t n) { return done[static_cast<size_t>(e.in[n])]; };
    if (e.op == ExprOp::load)
      done.push_back(x);
    else if (e.op == ExprOp::constant)
      done.push_back(e.type >= Scalar::f32 ? b.number(e.number, e.type) : b.integer(e.integer, e.type));
    else if (e.op == ExprOp::cast)
      done.push_back(b.cast(in(0), e.type));
    else if (e.op == ExprOp::select)
      done.push_back(b.select(in(0), in(1), in(2)));
    else if (expr_arity(e.op) == 1)
      done.push_back(b.unary(e.op, in(0)));
    else
      done.push_back(b.binary(e.op, in(0), in(1)));
  }
  return done[static_cast<size_t>(formula.stores.at(0).expr)];
}

// Special values of one argument: from element `first` on, every `stride` elements.
struct Fill {
  size_t argument = 0;
  int64_t first = 0, stride = 1;
  std::vector<double> special;
};

// Quarters in [-2, 2], whose sums are exact in any order, and the special values.
std::vector<std::vector<std::byte>> filled(const Kernel& kernel, const Fill& fill) {
  std::mt19937 random(3);
  std::vector<std::vector<std::byte>> memory;
  for (const KernelArg& arg : kernel.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype));
    for (int64_t e = 0; e < arg.elements; ++e)
      store_double(memory.back().data(), arg.dtype, e, static_cast<double>(random() % 17) / 4 - 2);
  }
  const KernelArg& arg = kernel.args[fill.argument];
  int64_t at = fill.first;
  for (size_t i = 0; i < fill.special.size() && at < arg.elements; ++i, at += fill.stride)
    store_double(memory[fill.argument].data(), arg.dtype, at, fill.special[i]);
  return memory;
}

void interpret(const Kernel& kernel, std::vector<std::vector<std::byte>>& memory) {
  std::vector<void*> pointers;
  for (auto& data : memory) pointers.push_back(data.data());
  evaluate(kernel, pointers, true);
}

// activation(x) of f32 numbers, stored as `dtype`.
std::vector<std::byte> interpreted(const Activation& activation, const std::vector<std::byte>& x, DType dtype) {
  const auto count = static_cast<int64_t>(x.size() / 4);
  KernelBuilder b({count});
  const int from = b.input({DType::f32, {count}}), to = b.output({dtype, {count}});
  b.store(to, apply(b, activation, b.load_broadcast(from)));
  std::vector<std::vector<std::byte>> memory{x, std::vector<std::byte>(static_cast<size_t>(count) * dtype_size(dtype))};
  interpret(b.finish("activation"), memory);
  return memory[1];
}

// make(epilogue) builds a kernel. Every activation of sum + bias, on every instruction set, against the interpreter;
// the step's description begins with `name` unless it leaves the epilogue to Loops.
template <typename Make>
void check_all(const std::string& name, Make&& make, const std::vector<int>& constant = {1}, bool bf16 = false,
               double tolerance = 1e-7) {
  constexpr size_t result = 4;
  Kernel sums = make([](KernelBuilder&, Ex leaf, Ex bias, Ex) { return leaf + bias; });
  const DType dtype = sums.args[result].dtype;
  sums.args[result].dtype = DType::f32;
  const int64_t image = sums.args[0].elements;
  const std::vector<Fill> fills{
      {},
      {0, image / 7, image / 5 + 1, {nan, infinity, -infinity, nan}},
      {0, image / 9, image, {3e38}},
      {2, 0, 1, {nan,   infinity, -infinity, 3e38,   -3e38, 1e30, -1e30, 6e37,  -6e37, 1e20,
                 -1e20, 3e7,      -3e7,      1.5e6,  2e6,   1e4,  -1e4,  88.5,  -88.5, 3e-4,
                 7e-4,  -3e-4,    1e-30,     -1e-30, -0.0,  0.0,  -2.75, -3.25, 5.75,  6.25}},
  };
  std::vector<std::vector<std::vector<std::byte>>> memory;
  for (const Fill& fill : fills) {
    memory.push_back(filled(sums, fill));
    interpret(sums, memory.back());
  }
  const auto summed = magnitudes(sums, memory[0]);
  for (const Activation& activation : activations()) {
    SCOPED_TRACE(fmt::format("{} {} {}", name, &activation - activations().data(), activation.name));
    if (activation.steps && tolerance > 1e-7) continue;  // no value is near a step when sums are exact
    const Kernel kernel =
        make([&](KernelBuilder& b, Ex leaf, Ex bias, Ex) { return apply(b, activation, leaf + bias); });
    std::vector<std::vector<std::byte>> expected;
    for (const auto& each : memory) expected.push_back(interpreted(activation, each[result], dtype));
    on_every_instruction_set([&] {
      Context context = make_context(2);
      context.bf16 = bf16;
      const auto fill = [&](ContractionRun& run) {
        for (size_t i = 0; i < result; ++i) std::copy(memory[0][i].begin(), memory[0][i].end(), run.memory[i].begin());
      };
      ContractionRun run = prepare(kernel, constant, context, fill);
      for (size_t f = 0; f < fills.size(); ++f) {
        for (size_t i : {0, 2, 3}) std::copy(memory[f][i].begin(), memory[f][i].end(), run.memory[i].begin());
        run.expected[result] = expected[f];
        run.step->run();
        compare(kernel, run, summed, tolerance);
        const std::string step = run.step->describe();
        if (f > 0) continue;
        EXPECT_TRUE(step.starts_with(name) || step.ends_with("epilogue")) << step;
        EXPECT_EQ(step.find("again"), std::string::npos) << step;  // finite numbers are computed once
      }
    });
    if (::testing::Test::HasFailure()) return;
  }
}

template <typename Epilogue>
Kernel linear_of(int64_t rows, DType type, Epilogue&& epilogue) {
  return linear(rows, 40, 24, type, type, type, epilogue);
}

TEST(ContractionActivations, FewRows) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    check_all("gemv", [&](auto epilogue) { return linear_of(2, type, epilogue); });
}

TEST(ContractionActivations, ManyRows) {
  check_all("matmul", [&](auto epilogue) { return linear_of(20, DType::f32, epilogue); });      // oneDNN's, if any
  check_all("matmul", [&](auto epilogue) { return linear_of(20, DType::f32, epilogue); }, {});  // own
  check_all("matmul", [&](auto epilogue) { return linear_of(20, DType::f16, epilogue); });
  if (library_has_avx512())
    check_all(
        "matmul", [&](auto epilogue) { return linear_of(20, DType::bf16, epilogue); }, {1}, true);
}

TEST(ContractionActivations, Convolutions) {
  ConvCase c{.in_channels = 4, .out_channels = 34, .input = {6, 5}};
  const auto make = [&](auto epilogue) { return conv(c, epilogue); };
  check_all("conv", make);
  c.channels_last = false;
  check_all("conv", make);
  c.channels_last = true;
  c.type = c.weight_type = DType::f16;
  check_all("conv", make);
  if (!library_has_avx512()) return;
  c.type = c.weight_type = DType::bf16;
  check_all("conv", make, {1}, true);
}

TEST(ContractionActivations, ConvolutionsOfOtherKinds) {
  const ConvCase depthwise{.groups = 34, .in_channels = 1, .out_channels = 1, .input = {6, 5}},
      pointwise{.in_channels = 8, .out_channels = 34, .input = {5, 6}, .kernel = {1, 1}, .pad = {0, 0}},
      patches{.in_channels = 4, .out_channels = 34, .input = {8, 8}, .kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}},
      grouped{.groups = 2, .in_channels = 2, .out_channels = 17, .input = {6, 5}};
  for (DType type : {DType::f32, DType::f16})
    for (const auto& [name, from] :
         {std::pair("depthwise", depthwise), {"matmul", pointwise}, {"matmul", patches}, {"conv", grouped}}) {
      ConvCase c = from;
      c.type = c.weight_type = type;
      const bool shared = c.groups == depthwise.groups && type == DType::f32;  // oneDNN has what tiles do not end with
      check_all(shared ? "" : name, [&](auto epilogue) { return conv(c, epilogue); });
    }
}

TEST(ContractionActivations, Winograd) {
  const ConvCase c{.in_channels = 32, .out_channels = 34, .input = {20, 20}};
  EXPECT_TRUE(prepare(conv(c, plain), {1}, make_context(1)).step->describe().starts_with("winograd"));
  check_all(
      "", [&](auto epilogue) { return conv(c, epilogue); }, {1}, false, 1e-5);
}

}  // namespace
}  // namespace npusim::cpu::product
