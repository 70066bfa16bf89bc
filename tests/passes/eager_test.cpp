// Programs that write in place and address memory, against what eager PyTorch gives: the reference runs functionalize
// too, so that only PyTorch can tell. eager/make_programs.py writes them.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "graph/text.h"
#include "passes/pass.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::values_of;
using Numbers = std::vector<double>;

nlohmann::json programs() {
  std::ifstream file(NPUSIM_SOURCE_DIR "/tests/passes/eager/programs.json");
  return nlohmann::json::parse(file);
}

constexpr size_t parts = 8;  // of the programs, each a test

class Eager : public testing::TestWithParam<size_t> {};

TEST_P(Eager, RandomPrograms) {
  const nlohmann::json all = programs();
  ASSERT_GE(all.size(), 400U);
  for (size_t i = GetParam(); i < all.size(); i += parts) {
    const auto text = all[i]["text"].get<std::string>();
    SCOPED_TRACE(fmt::format("program {}:\n{}", i, text));
    test::RunOptions options;
    options.disabled = i % 3 == 0 ? std::set<std::string>{"all"} : std::set<std::string>{};
    const Graph graph = parse_graph("graph \"test\"\n" + text);
    for (ValueId v : graph.inputs)
      options.given[value_of(graph, v).name] =
          test::tensor_of(value_of(graph, v).type, all[i]["inputs"][value_of(graph, v).name].get<Numbers>());
    GraphRun run;
    try {
      run = run_graph(text, options);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    if (HasFailure()) return;
    const auto expected = all[i]["outputs"].get<std::vector<Numbers>>();
    ASSERT_EQ(run.outputs.size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_EQ(values_of(run.outputs[k]), expected[k]) << "output " << run.method().outputs[k].name;
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Memory, Eager, testing::Range<size_t>(0, parts));

// Elements counting from 0, through the program, fused and not.
void expect(const std::string& text, const std::vector<Numbers>& expected) {
  const Graph graph = parse_graph("graph \"test\"\n" + text);
  for (const bool fused : {true, false}) {
    SCOPED_TRACE(text);
    test::RunOptions options;
    if (!fused) options.disabled = {"all"};
    for (ValueId v : graph.inputs) {
      const Value& value = value_of(graph, v);
      Numbers counting(static_cast<size_t>(element_count(value.type.shape)));
      std::iota(counting.begin(), counting.end(), 0.0);
      options.given[value.name] = test::tensor_of(value.type, counting);
    }
    const GraphRun run = run_graph(text, options);
    ASSERT_EQ(run.outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(values_of(run.outputs[i]), expected[i]) << "output " << i;
  }
}

const std::string x23 = "input %x: float32[2, 3]\n";
const Numbers kept{0, 1, 2, 3, 4, 5}, doubled{0, 2, 4, 6, 8, 10}, columns_doubled{0, 6, 2, 8, 4, 10};

TEST(EagerMemory, ReshapeOfWhatIsNotInOrderCopies) {
  for (const char* reshape : {"aten.reshape.default(%t, shape=[-1])", "aten.flatten.using_ints(%t)",
                              "aten.ravel.default(%t)", "aten.reshape_as.default(%t, %like)"})
    expect(x23 + "input %like: float32[6]\n%t: float32[3, 2] = aten.t.default(%x)\n%a: float32[6] = " + reshape +
               "\n%b: float32[6] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %a\noutput %like\n",
           {kept, columns_doubled, kept});
  for (const char* copy : {"aten.contiguous.default(%t)", "aten.clone.default(%t)", "aten._to_copy.default(%t)"})
    expect(x23 + "%t: float32[3, 2] = aten.t.default(%x)\n%a: float32[3, 2] = " + copy +
               "\n%b: float32[3, 2] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %a\n",
           {kept, columns_doubled});
}

TEST(EagerMemory, ReshapeOfWhatIsInOrderShares) {
  for (const char* reshape :
       {"aten.reshape.default(%x, shape=[-1])", "aten.flatten.using_ints(%x)", "aten.ravel.default(%x)",
        "aten._unsafe_view.default(%x, size=[6])", "aten.view.default(%x, size=[6])"})
    expect(x23 + "%a: float32[6] = " + reshape + "\n%b: float32[6] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %a\n",
           {doubled, doubled});
  for (const char* same : {"aten.contiguous.default(%x)", "aten.to.dtype(%x, dtype=float32)",
                           "aten.lift_fresh.default(%x)", "aten.positive.default(%x)", "aten.detach.default(%x)"})
    expect(
        x23 + "%a: float32[2, 3] = " + same + "\n%b: float32[2, 3] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %a\n",
        {doubled, doubled});
}

// x.t() + 0 is stored as x is: its transpose is in order, it is not.
TEST(EagerMemory, PointwiseResultsKeepTheOrderOfTheirOperands) {
  const std::string y = x23 + "%t: float32[3, 2] = aten.t.default(%x)\n%y: float32[3, 2] = aten.add.Tensor(%t, 0.0)\n";
  expect(y + "%back: float32[2, 3] = aten.t.default(%y)\n%a: float32[6] = aten.reshape.default(%back, shape=[6])\n"
             "%b: float32[6] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %y\n",
         {kept, columns_doubled});
  expect(y + "%a: float32[6] = aten.reshape.default(%y, shape=[6])\n"
             "%b: float32[6] = aten.mul_.Tensor(%a, 2.0)\noutput %y\noutput %a\n",
         {{0, 3, 1, 4, 2, 5}, columns_doubled});
}

// Its strides count, whatever the order of what it views.
TEST(EagerMemory, ReshapedAliasesAddressMemory) {
  const auto alias = [](const std::string& of, const char* size, const char* stride, const char* type) {
    return fmt::format("%a: {} = aten._reshape_alias.default({}, size={}, stride={})\noutput %a\n", type, of, size,
                       stride);
  };
  expect(x23 + alias("%x", "[3, 2]", "[2, 1]", "float32[3, 2]"), {kept});
  expect(x23 + alias("%x", "[3, 2]", "[1, 3]", "float32[3, 2]"), {{0, 3, 1, 4, 2, 5}});
  const std::string turned = x23 + "%t: float32[3, 2] = aten.t.default(%x)\n";
  expect(turned + alias("%t", "[3, 2]", "[1, 3]", "float32[3, 2]"), {{0, 3, 1, 4, 2, 5}});
  expect(turned + alias("%t", "[6]", "[1]", "float32[6]"), {kept});
  expect(x23 + "%s: float32[1, 3] = aten.slice.Tensor(%x, dim=0, start=1)\n" + alias("%s", "[3]", "[1]", "float32[3]"),
         {{3, 4, 5}});
}

TEST(EagerMemory, AsStridedAddressesTheWholeMemory) {
  const std::string x46 = "input %x: float32[4, 6]\n";
  expect(x46 +
             "%s: float32[3, 6] = aten.slice.Tensor(%x, dim=0, start=1)\n"
             "%a: float32[2, 3] = aten.as_strided.default(%s, size=[2, 3], stride=[6, 1], storage_offset=0)\n"
             "output %a\n",
         {{0, 1, 2, 6, 7, 8}});
  expect(x46 +
             "%s: float32[3, 6] = aten.slice.Tensor(%x, dim=0, start=1)\n"
             "%a: float32[2, 3] = aten.as_strided.default(%s, size=[2, 3], stride=[6, 1])\noutput %a\n",
         {{6, 7, 8, 12, 13, 14}});
  expect(x46 +
             "%s: float32[6, 4] = aten.t.default(%x)\n"
             "%a: float32[2, 3] = aten.as_strided.default(%s, size=[2, 3], stride=[6, 1], storage_offset=1)\n"
             "output %a\n",
         {{1, 2, 3, 7, 8, 9}});
  expect(x46 +
             "%s: float32[6, 4] = aten.t.default(%x)\n%y: float32[6, 4] = aten.add.Tensor(%s, 1.0)\n"
             "%a: float32[2, 3] = aten.as_strided.default(%y, size=[2, 3], stride=[1, 2], storage_offset=1)\n"
             "output %a\n",
         {{2, 4, 6, 3, 5, 7}});
  expect(
      "input %x: float32[2, 6]\n"
      "%a: float32[2, 3] = aten.as_strided.default(%x, size=[2, 3], stride=[6, 1], storage_offset=1)\n"
      "%b: float32[2, 3] = aten.mul_.Tensor(%a, 2.0)\noutput %x\noutput %a\n",
      {{0, 2, 4, 6, 4, 5, 6, 14, 16, 18, 10, 11}, {2, 4, 6, 14, 16, 18}});
  expect(
      "input %x: float32[2, 6]\ninput %y: float32[2]\n"
      "%s: float32[1, 6] = aten.slice.Tensor(%x, dim=0, start=1)\n"
      "%a: float32[1, 6] = aten.as_strided_scatter.default(%s, %y, size=[2], stride=[6], storage_offset=3)\n"
      "%b: float32[2, 3] = aten.as_strided.default(%a, size=[2, 3], stride=[6, 1], storage_offset=2)\n"
      "output %x\noutput %a\noutput %b\n",
      {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {6, 7, 8, 1, 10, 11}, {2, 0, 4, 8, 1, 10}});
}

TEST(EagerMemory, ChangesOfShapeInPlaceWriteNothing) {
  expect(
      "input %x: float32[2, 2]\n%a: float32[2, 2] = aten.clone.default(%x)\n%b: float32[2, 2] = aten.t.default(%a)\n"
      "%t: float32[2, 2] = aten.t_.default(%a)\n%s: float32[2] = aten.select.int(%a, dim=0, index=0)\n"
      "%w: float32[2] = aten.add_.Tensor(%s, 10.0)\noutput %a\noutput %b\noutput %t\noutput %x\n",
      {{10, 12, 1, 3}, {10, 12, 1, 3}, {10, 12, 1, 3}, {0, 1, 2, 3}});
  for (const char* change :
       {"float32[3, 2] = aten.t_.default(%a)", "float32[3, 2] = aten.transpose_.default(%a, dim0=0, dim1=1)",
        "float32[3, 2] = aten.swapaxes_.default(%a, axis0=0, axis1=1)",
        "float32[3, 2] = aten.swapdims_.default(%a, dim0=0, dim1=1)",
        "float32[3, 2] = aten.as_strided_.default(%a, size=[3, 2], stride=[1, 3])"})
    expect(x23 + "%a: float32[2, 3] = aten.clone.default(%x)\n%v: float32[6] = aten.view.default(%a, size=[6])\n%t: " +
               change + "\n%w: float32[3, 2] = aten.mul_.Tensor(%t, 2.0)\noutput %v\noutput %t\n",
           {doubled, columns_doubled});
  expect(
      "input %x: float32[1, 3]\n%a: float32[1, 3] = aten.clone.default(%x)\n%d: float32[1, 3] = "
      "aten.detach_.default(%a)\n"
      "%s: float32[3] = aten.squeeze_.default(%d)\n%u: float32[3, 1] = aten.unsqueeze_.default(%s, dim=1)\n"
      "%w: float32[3, 1] = aten.mul_.Tensor(%u, 2.0)\noutput %w\noutput %x\n",
      {{0, 2, 4}, {0, 1, 2}});
}

// What each write makes has a name of its own, not one that grows with their number.
TEST(EagerMemory, NamesStayShort) {
  constexpr int writes = 300;
  std::string text = "graph \"test\"\ninput %x: float32[4]\n%c: float32[4] = aten.clone.default(%x)\n";
  for (int i = 0; i < writes; ++i)
    text += fmt::format(
        "%v{0}: float32[2] = aten.slice.Tensor(%c, dim=0, start={1}, end={2})\n"
        "%a{0}: float32[2] = aten.add_.Scalar(%v{0}, other=1)\n",
        i, i % 3, i % 3 + 2);
  Graph graph = parse_graph(text + "output %c\n");
  PassContext context;
  functionalize(graph, context);
  EXPECT_GT(graph.values.size(), static_cast<size_t>(3 * writes));
  for (const Value& value : graph.values) EXPECT_LT(value.name.size(), 40U) << value.name;
}

TEST(EagerMemory, WritingNothingDoesNothing) {
  for (const char* write : {"aten.add_.Tensor(%s, 1.0)", "aten.fill_.Scalar(%s, value=3.0)", "aten.zero_.default(%s)"})
    expect("input %x: float32[1, 4]\n%s: float32[0, 4] = aten.slice.Tensor(%x, dim=0, start=1)\n%w: float32[0, 4] = " +
               std::string(write) + "\n%y: float32[1, 4] = aten.neg.default(%x)\noutput %x\noutput %y\noutput %w\n",
           {{0, 1, 2, 3}, {0, -1, -2, -3}, {}});
}

std::string refusal(const std::string& text) {
  try {
    run_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The memory of attention's result is not row-major in eager PyTorch, and differs between its implementations.
TEST(EagerMemory, WhatDependsOnUnknownStridesIsRefused) {
  const std::string attention =
      "input %q: float32[1, 2, 4, 8]\n"
      "%y: float32[1, 2, 4, 8] = aten.scaled_dot_product_attention.default(%q, %q, %q, None)\n";
  EXPECT_EQ(
      refusal(attention + "%a: float32[64] = aten.reshape.default(%y, shape=[64])\n"
                          "%b: float32[64] = aten.mul_.Tensor(%a, 2.0)\noutput %b\noutput %y\n"),
      "node output y: reads 'y', which node b may have changed: 'a' may share its memory (node a: whether it copies "
      "depends on strides that are not known)");
  EXPECT_EQ(refusal(attention + "%a: float32[2] = aten.as_strided.default(%y, size=[2], stride=[3])\noutput %a\n"),
            "node a: addresses the memory of 'y', whose order in eager PyTorch is not known here");
  // Without another reader it is the same either way.
  run_graph(attention +
            "%a: float32[64] = aten.reshape.default(%y, shape=[64])\n"
            "%b: float32[64] = aten.mul_.Tensor(%a, 2.0)\noutput %b\n");
  EXPECT_EQ(refusal("input %x: float32[2, 3]\n%t: float32[3, 2] = aten.t_.default(%x)\noutput %x\n"),
            "node output x: reads 'x' of [2, 3], whose shape became [3, 2] in place");
  EXPECT_EQ(refusal("input %x: float32[1, 3]\n%t: float32[3] = aten.squeeze_.default(%x)\n"
                    "%a: float32[1, 3] = aten.add.Tensor(%x, %t)\n%b: float32[1, 3] = aten.mul_.Tensor(%x, 2.0)\n"
                    "%c: float32[1, 3] = aten.as_strided.default(%x, size=[1, 3], stride=[3, 1])\n"
                    "output %a\noutput %b\noutput %c\n"),
            "node a: reads 'x' of [1, 3], whose shape became [3] in place\n"
            "node b: reads 'x' of [1, 3], whose shape became [3] in place\n"
            "node c: reads 'x' of [1, 3], whose shape became [3] in place");
  EXPECT_EQ(refusal("input %x: float32[2, 3]\n"
                    "%a: float32[2, 3] = aten.as_strided.default(%x, size=[2, 3], stride=[3, 1], storage_offset=1)\n"
                    "output %a\n"),
            "node a: [2, 3] with strides [3, 1] from 1 leaves the 6 elements of the memory of 'x'");
}

}  // namespace
}  // namespace npusim
