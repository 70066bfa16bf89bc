// Binary searches against the interpreter, which takes their steps one by one: all dtypes and comparisons, rows in
// order and not, values of every span, results that go on.
#include "backends/cpu/loops/rewrite/search.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/loops/check.h"
#include "kernel/search.h"

namespace npusim::cpu::loops {
namespace {

struct Form {
  DType dtype = DType::f32;
  int64_t rows = 3, points = 40, count = 10;
  bool per_row = false;  // each row has a list of its own
  bool strided = false;  // elements of a list lie apart
  Before before = {};
};

Kernel search_kernel(const Form& f) {
  KernelBuilder b({f.rows, f.points});
  const int64_t lists = f.per_row ? f.rows : 1;
  const int values = b.input({f.dtype, {f.rows, f.points}});
  const int list = b.input({f.dtype, f.strided ? Shape{f.count, lists} : Shape{lists, f.count}});
  const Ex value = b.load_broadcast(values);
  const Ex found = first_not(b, f.count, [&](Ex index) {
    const Coord row = f.per_row ? Coord(b.dim(0)) : Coord(int64_t{0});
    const Coord at[] = {f.strided ? Coord(index) : row, f.strided ? row : Coord(index)};
    const Ex element = b.load(list, at);
    const Ex holds =
        b.binary(f.before.op, f.before.element_first ? element : value, f.before.element_first ? value : element);
    return f.before.negated ? !holds : holds;
  });
  b.store(b.output({DType::i64, {f.rows, f.points}}), found);
  b.store(b.output({DType::i32, {f.rows, f.points}}), found * 2 + 1);
  return b.finish("search");
}

int searches_of(Kernel k) {
  rewrite::find_searches(k);
  return static_cast<int>(std::count_if(k.exprs.begin(), k.exprs.end(), rewrite::is_search));
}

TEST(LoopSearch, FindsWhatTheInterpreterFinds) {
  Check check;
  check.special = {std::nan(""), -0.0, 0.0, 1.0, std::numeric_limits<double>::infinity()};
  check.least = -3;
  for (int dtype = 0; dtype < dtype_count; ++dtype)
    for (const int64_t count : {1, 2, 3, 4, 7, 10, 100})
      for (int code = 0; code < 8; ++code) {
        Form f{static_cast<DType>(dtype), 3, count == 10 ? 40 : 9, count, code % 2 == 0, code % 3 == 0};
        f.before = {code & 1 ? ExprOp::le : ExprOp::lt, (code & 2) != 0, (code & 4) != 0};
        if (f.dtype == DType::boolean || f.dtype == DType::u8) check.least = 0;
        check.most = f.dtype == DType::boolean ? 1 : 5;
        check.seed = static_cast<unsigned>(dtype * 100 + code);
        const Kernel k = search_kernel(f);
        EXPECT_EQ(searches_of(k), f.dtype != DType::boolean) << to_text(k);
        check_kernel_runs(k, check);
      }
}

// A sorted row, of which there is one answer.
TEST(LoopSearch, FindsPlacesInOrder) {
  for (const int64_t count : {5, 64, 1000, 4097}) {
    const Kernel k = search_kernel({.rows = 2, .points = 3000, .count = count, .before = {ExprOp::lt, true, false}});
    Memory memory = random_arguments(k, {});
    auto* list = reinterpret_cast<float*>(memory[1].data());
    const auto* values = reinterpret_cast<const float*>(memory[0].data());
    std::sort(list, list + count);
    Loops loops(k, 2);
    ASSERT_TRUE(loops.run(pointers(k, memory).data()));
    for (int64_t i = 0; i < 6000; ++i)
      ASSERT_EQ(load_int(memory[2].data(), DType::i64, i), std::lower_bound(list, list + count, values[i]) - list);
  }
}

// Other chains are no searches: one that reads elsewhere, one whose value changes.
TEST(LoopSearch, LeavesOtherChains) {
  Kernel k = search_kernel({});
  for (Expr& e : k.exprs)
    if (e.op == ExprOp::constant && e.integer == 5) e.integer = 4;
  EXPECT_EQ(searches_of(k), 0);
}

}  // namespace
}  // namespace npusim::cpu::loops
