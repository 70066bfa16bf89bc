// One value read twice, buffers that are read and overwritten at once, and what runs at load: no order goes wrong.
#include <fmt/format.h>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

// Fused, fused without what moves the accesses, and as the operators come.
void run_all(const std::string& text, const RunOptions& options = {}) {
  SCOPED_TRACE(text);
  for (const std::set<std::string>& disabled :
       {std::set<std::string>{}, {"fold_views"}, {"fuse_pointwise"}, {"fuse_epilogues", "fuse_attention"}, {"all"}})
    for (const bool strict : {false, true}) {
      RunOptions some = options;
      some.disabled = disabled;
      some.strict = strict;
      run_graph(text, some);
    }
}

// A contraction's only reader takes its result twice.
TEST(Twice, AContractionsReaderTakesItTwice) {
  const std::vector<std::string> contractions = {
      "input %x: float32[4, 8]\nweight %w: float32[8, 6] = \"w\"\n%b: float32[4, 6] = aten.mm.default(%x, %w)\n",
      "input %x: float32[2, 3, 6, 6]\nweight %w: float32[4, 3, 3, 3] = \"w\"\n"
      "%b: float32[2, 4, 4, 4] = aten.conv2d.default(%x, %w, None)\n",
      "input %x: float32[2, 3, 6, 6]\nweight %w: float32[3, 4, 3, 3] = \"w\"\n"
      "%b: float32[2, 4, 8, 8] = aten.conv_transpose2d.input(%x, %w, None)\n",
      "input %x: float32[2, 2, 5, 8]\n"
      "%b: float32[2, 2, 5, 8] = aten.scaled_dot_product_attention.default(%x, %x, %x, None)\n"};
  const std::vector<std::string> shapes = {"[4, 6]", "[2, 4, 4, 4]", "[2, 4, 8, 8]", "[2, 2, 5, 8]"};
  for (size_t i = 0; i < contractions.size(); ++i) {
    for (const char* call : {"aten.mul.Tensor(%b, %b)", "aten.add.Tensor(%b, %b)", "aten.sub.Tensor(%b, %b)",
                             "aten.maximum.default(%b, %b)", "aten.addcmul.default(%b, %b, %b)"})
      run_all(fmt::format("{}%y: float32{} = {}\noutput %y\n", contractions[i], shapes[i], call));
    run_all(fmt::format("{}%y: bool{} = aten.eq.Tensor(%b, %b)\noutput %y\n", contractions[i], shapes[i]));
    run_all(
        fmt::format("{0}%c: float32{1} = aten.clone.default(%b)\n%y: float32{1} = aten.mul.Tensor(%c, %b)\n"
                    "output %y\n",
                    contractions[i], shapes[i]));
    run_all(fmt::format("{0}%y: float32{1} = aten.mul_.Tensor(%b, %b)\noutput %y\n", contractions[i], shapes[i]));
  }
  run_all(contractions[0] +
          "%c: float32[4, 6] = aten.mul.Tensor(%b, %b)\n"
          "%y: float32[4] = aten.mean.dim(%c, dim=[-1])\noutput %y\n");
  run_all(
      "input %x: float32[6, 6]\n%b: float32[6, 6] = aten.mm.default(%x, %x)\n%t: float32[6, 6] = aten.t.default(%b)\n"
      "%y: float32[6, 6] = aten.add.Tensor(%b, %t)\noutput %y\n");
}

TEST(Twice, AKernelReadsAValueThroughOneArgument) {
  const GraphRun run = run_graph("input %x: float32[4, 8]\n%y: float32[4, 8] = aten.mul.Tensor(%x, %x)\noutput %y\n");
  ASSERT_EQ(run.steps(), 1U);
  EXPECT_EQ(run.program->kernels[0].args.size(), 2U);
}

// `base` is x as it is or a copy; `to` and `from` are slices of one dimension; what is written there is made by `call`.
std::string moved(const std::string& shape, const std::string& part, const std::string& base, int dim, int to, int from,
                  int count, const std::string& call) {
  return fmt::format(
      "input %x: float32{0}\n{2}"
      "%from: float32{1} = aten.slice.Tensor(%a, dim={3}, start={5}, end={7})\n"
      "%new: float32{1} = {8}\n"
      "%to: float32{1} = aten.slice.Tensor(%a, dim={3}, start={4}, end={6})\n"
      "%done: float32{1} = aten.copy_.default(%to, %new)\n"
      "output %a\n",
      shape, part, base, dim, to, from, to + count, from + count, call);
}

// A value's part overwritten by another part of it.
TEST(Overlaps, AShiftReadsWhatWasThereBefore) {
  for (const char* call : {"aten.clone.default(%from)", "aten.mul.Tensor(%from, 1.5)", "aten.exp.default(%from)",
                           "aten.flip.default(%from, dims=[0])"}) {
    for (const std::string base :
         {"%a: float32[30, 20] = aten.mul.Tensor(%x, 1.0)\n", "%a: float32[30, 20] = aten.exp.default(%x)\n"}) {
      run_all(moved("[30, 20]", "[29, 20]", base, 0, 1, 0, 29, call));
      run_all(moved("[30, 20]", "[29, 20]", base, 0, 0, 1, 29, call));
      run_all(moved("[30, 20]", "[30, 12]", base, 1, 8, 4, 12, call));
    }
    run_all(
        moved("[2, 3, 16, 8]", "[2, 3, 4, 8]", "%a: float32[2, 3, 16, 8] = aten.neg.default(%x)\n", 2, 5, 4, 4, call));
  }
  // More than a tile, for two threads.
  run_graph(moved("[300, 200]", "[299, 200]", "%a: float32[300, 200] = aten.mul.Tensor(%x, 1.0)\n", 0, 1, 0, 299,
                  "aten.clone.default(%from)"));
}

TEST(Overlaps, AStateIsShiftedInPlace) {
  for (const char* call : {"aten.clone.default(%from)", "aten.mul.Tensor(%from, 1.5)"}) {
    const std::string text = fmt::format(
        "input %x: float32[2, 16, 8]\n"
        "%from: float32[2, 12, 8] = aten.slice.Tensor(%x, dim=1, start=2, end=14)\n"
        "%new: float32[2, 12, 8] = {}\n"
        "%to: float32[2, 12, 8] = aten.slice.Tensor(%x, dim=1, start=4, end=16)\n"
        "%done: float32[2, 12, 8] = aten.copy_.default(%to, %new)\n"
        "output %x\n",
        call);
    run_all(text);
    const GraphRun run = run_graph(text);
    ASSERT_EQ(run.method().inputs.size(), 1U);
    const int32_t state = run.method().inputs[0].buffer;
    EXPECT_EQ(run.program->buffers[static_cast<size_t>(state)].kind, BufferKind::state);
    EXPECT_EQ(run.method().outputs[0].buffer, state);
    EXPECT_EQ(run.steps(), 2U);
  }
}

TEST(Overlaps, ComputedPlacesOfTheSameValue) {
  const std::string head = "input %v: float32[3, 32]\ninput %i: int64[3]\ninput %p: int64[3, 32]\n";
  const RunOptions given{.given = {{"i", test::tensor_of({DType::i64, {3}}, {2, 0, 1})}}};
  RunOptions within = given;
  std::vector<double> places;
  for (int i = 0; i < 96; ++i) places.push_back((i * 7 + i / 32) % 3);
  within.given["p"] = test::tensor_of({DType::i64, {3, 32}}, places);
  for (const char* call : {"aten.scatter.src(%v, %p, %v, dim=0)", "aten.scatter_add.default(%v, %p, %v, dim=0)",
                           "aten.index_copy.default(%v, %i, %v, dim=0)", "aten.index_add.default(%v, %i, %v, dim=0)"})
    run_all(head + fmt::format("%y: float32[3, 32] = {}\noutput %y\n", call), within);
  for (const char* call : {"aten.index_copy_.default(%a, %i, %r, dim=0)", "aten.index_add_.default(%a, %i, %r, dim=0)"})
    run_all(
        head + fmt::format("%a: float32[3, 32] = aten.mul.Tensor(%v, 2.0)\n%r: float32[3, 32] = aten.flip.default(%a, "
                           "dims=[1])\n%y: float32[3, 32] = {}\noutput %a\n",
                           call),
        within);
}

TEST(Overlaps, AProductsResultMovesWithinItself) {
  run_all(
      "input %x: float32[6, 8]\nweight %w: float32[8, 6] = \"w\"\n"
      "%b: float32[6, 6] = aten.mm.default(%x, %w)\n"
      "%from: float32[5, 6] = aten.slice.Tensor(%b, dim=0, start=0, end=5)\n"
      "%twice: float32[5, 6] = aten.mul.Tensor(%from, 2.0)\n"
      "%to: float32[5, 6] = aten.slice.Tensor(%b, dim=0, start=1, end=6)\n"
      "%done: float32[5, 6] = aten.copy_.default(%to, %twice)\noutput %b\n");
  run_all(
      "input %x: float32[6, 6]\n%b: float32[6, 6] = aten.exp.default(%x)\n%t: float32[6, 6] = aten.t.default(%b)\n"
      "%done: float32[6, 6] = aten.copy_.default(%b, %t)\noutput %b\n");
  // The rows a product reads are those its result replaces.
  run_all(
      "input %x: float32[6, 6]\nweight %w: float32[6, 6] = \"w\"\n%a: float32[6, 6] = aten.exp.default(%x)\n"
      "%p: float32[6, 6] = aten.mm.default(%a, %w)\n"
      "%part: float32[3, 6] = aten.slice.Tensor(%p, dim=0, start=0, end=3)\n"
      "%to: float32[3, 6] = aten.slice.Tensor(%a, dim=0, start=3, end=6)\n"
      "%done: float32[3, 6] = aten.copy_.default(%to, %part)\noutput %a\noutput %p\n");
}

// What needs only weights runs at load, but not when a run reads what an update at load would overwrite.
TEST(Early, ARunReadsWhatWasThereBeforeTheUpdate) {
  const std::string head = "input %x: float32[4, 8]\nweight %w: float32[4, 8] = \"w\"\n";
  run_all(head +
          "%z: float32[4, 8] = aten.zeros.default(size=[4, 8])\n%a: float32[4, 8] = aten.add.Tensor(%z, %w)\n"
          "%v: float32[4, 8] = aten.add.Tensor(%a, %x)\n%r: float32[8] = aten.select.int(%a, dim=0, index=0)\n"
          "%f: float32[8] = aten.fill_.Scalar(%r, value=1.0)\n%u: float32[4, 8] = aten.add.Tensor(%a, %x)\n"
          "output %v\noutput %u\n");
  run_all(head +
              "input %i: int64[2]\n%a: float32[4, 8] = aten.cumsum.default(%w, dim=0)\n"
              "%v: float32[4, 8] = aten.add.Tensor(%a, %x)\n"
              "%s: float32[2, 8] = aten.slice.Tensor(%w, dim=0, start=0, end=2)\n"
              "%g: float32[4, 8] = aten.index_add.default(%a, %i, %s, dim=0)\n"
              "%b: float32[4, 8] = aten.add.Tensor(%g, %x)\noutput %v\noutput %b\n",
          {.given = {{"i", test::tensor_of({DType::i64, {2}}, {3, 1})}}});
}

TEST(Early, ARunUpdatesWhatWeightsGave) {
  const std::string head = "input %x: float32[4, 8]\nweight %w: float32[4, 8] = \"w\"\n";
  const std::string update =
      "%part: float32[2, 8] = aten.slice.Tensor(%x, dim=0, start=0, end=2)\n"
      "%to: float32[2, 8] = aten.slice.Tensor(%b, dim=0, start=1, end=3)\n"
      "%done: float32[2, 8] = aten.copy_.default(%to, %part)\n";
  run_all(head + "%b: float32[4, 8] = aten.mul.Tensor(%w, 2.0)\n%c: float32[4, 8] = aten.cosh.default(%b)\n" + update +
          "output %b\noutput %c\n");
  // A chain: known at load, updated at load, read, updated by the run.
  run_all(head +
          "%b: float32[4, 8] = aten.mul.Tensor(%w, 2.0)\n%c: float32[4, 8] = aten.cosh.default(%b)\n"
          "%r: float32[8] = aten.select.int(%b, dim=0, index=0)\n%f: float32[8] = aten.fill_.Scalar(%r, value=1.0)\n"
          "%d: float32[4, 8] = aten.sinh.default(%b)\n" +
          update + "%e: float32[4, 8] = aten.add.Tensor(%c, %d)\noutput %b\noutput %e\n");
  // A weight itself, and one whose update is the last.
  run_all("input %x: float32[4, 8]\nweight %b: float32[4, 8] = \"b\"\n%c: float32[4, 8] = aten.cosh.default(%b)\n" +
          update + "output %b\noutput %c\n");
  run_all(
      head +
      "%b: float32[4, 8] = aten.mul.Tensor(%w, 2.0)\n%r: float32[8] = aten.select.int(%b, dim=0, index=0)\n"
      "%f: float32[8] = aten.fill_.Scalar(%r, value=1.0)\n%y: float32[4, 8] = aten.add.Tensor(%b, %x)\noutput %y\n");
}

}  // namespace
}  // namespace npusim
