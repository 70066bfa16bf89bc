// What check_kernel() refuses: operations without a meaning for their operands' types, loads and stores of another
// type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernel/contractions.h"
#include "kernel/facts/fourier.h"

namespace npusim {
namespace {

using testing::ElementsAre;
using Problems = std::vector<std::string>;

constexpr std::array<Scalar, 4> scalars{Scalar::boolean, Scalar::i64, Scalar::f32, Scalar::f64};
constexpr std::array<DType, 4> dtypes{DType::boolean, DType::i64, DType::f32, DType::f64};

// The types for which a kernel that stores `op` of two loads is sound, as letters: b, i, f, d.
std::string types_of(ExprOp op) {
  std::string sound;
  for (size_t t = 0; t < scalars.size(); ++t) {
    Kernel k;
    k.space = {3};
    Expr e{.op = op, .type = result_type(op, scalars[t], scalars[t]), .dtype = dtypes[t]};
    for (int n = 0; n < expr_arity(op); ++n) e.in[static_cast<size_t>(n)] = 0;
    if (op == ExprOp::scan || op == ExprOp::reduce || op == ExprOp::order || is_fourier(e)) k.row_dims = 1;
    if (op == ExprOp::order) e.reduction = Reduction::min;
    const DType result = dtypes[static_cast<size_t>(e.type)];
    k.args = {{dtypes[t], 3, false, -1}, {result, 3, true, -1}};
    k.accesses = {{0, 0, {1}, {}, {}}};
    k.exprs = {{.op = ExprOp::load, .type = scalars[t]}, e};
    k.stores = {{{1, 0, {1}, {}, {}}, 1, false}};
    if (check_kernel(k).empty()) sound += "bifd"[t];
  }
  return sound;
}

TEST(CheckKernel, OperationsHaveTheirTypes) {
  for (int i = static_cast<int>(ExprOp::neg); i < expr_op_count; ++i) {
    const auto op = static_cast<ExprOp>(i);
    std::string expected = "fd";
    switch (op) {
      case ExprOp::logical_not:
      case ExprOp::require:
        expected = "b";
        break;
      case ExprOp::idiv:
      case ExprOp::irem:
      case ExprOp::shl:
      case ExprOp::shr:
        expected = "i";
        break;
      case ExprOp::bit_and:
      case ExprOp::bit_or:
      case ExprOp::bit_xor:
        expected = "bi";
        break;
      case ExprOp::neg:
      case ExprOp::abs:
      case ExprOp::add:
      case ExprOp::sub:
      case ExprOp::mul:
      case ExprOp::min:
      case ExprOp::max:
      case ExprOp::pow:
      case ExprOp::reduce:
      case ExprOp::scan:
        expected = "ifd";
        break;
      case ExprOp::eq:
      case ExprOp::ne:
      case ExprOp::lt:
      case ExprOp::le:
      case ExprOp::cast:
      case ExprOp::order:
      case ExprOp::round_to:
        expected = "bifd";
        break;
      case ExprOp::select:
        expected = "b";  // of three loads of one type the first is no condition
        break;
      default:
        break;
    }
    EXPECT_EQ(types_of(op), expected) << expr_op_name(op);
  }
}

// y = op(x), ready to be broken.
Kernel sound(ExprOp op, DType dtype) {
  KernelBuilder b({4});
  const int in = b.input({dtype, {4}}), out = b.output({dtype, {4}});
  const Ex x = b.load_broadcast(in);
  b.store(out, expr_arity(op) == 1 ? b.unary(op, x) : b.binary(op, x, x));
  return b.finish("sound");
}

TEST(CheckKernel, MessagesNameTheExpression) {
  Kernel k = sound(ExprOp::exp, DType::f32);
  EXPECT_THAT(check_kernel(k), ElementsAre());
  for (Expr& e : k.exprs) e.type = Scalar::i64;
  for (KernelArg& arg : k.args) arg.dtype = DType::i32;
  EXPECT_EQ(check_kernel(k), Problems{"e1: there is no exp of i64"});
  k = sound(ExprOp::add, DType::i64);
  for (Expr& e : k.exprs) e.type = Scalar::boolean;
  for (KernelArg& arg : k.args) arg.dtype = DType::boolean;
  EXPECT_EQ(check_kernel(k), Problems{"e1: there is no add of bool"});
  k = sound(ExprOp::bit_and, DType::i64);
  for (Expr& e : k.exprs) e.type = Scalar::f32;
  for (KernelArg& arg : k.args) arg.dtype = DType::f16;
  EXPECT_EQ(check_kernel(k), Problems{"e1: there is no and of f32"});
  k = sound(ExprOp::neg, DType::f32);
  k.exprs[1] = {.op = ExprOp::round_to, .type = Scalar::f32, .dtype = DType::i8, .in = {0, -1, -1}};
  EXPECT_EQ(check_kernel(k), Problems{"e1: there is no round_to int8 of f32"});
  k = sound(ExprOp::neg, DType::f32);
  k.exprs[0].in[0] = 7;
  EXPECT_EQ(check_kernel(k), Problems{"e0: load has no operand 0"});
  k.exprs[0].in[0] = -1;
  k.exprs[1].in[1] = 0;
  EXPECT_EQ(check_kernel(k), Problems{"e1: neg has no operand 1"});
}

TEST(CheckKernel, LoadsAndStoresHaveTheirArgumentsType) {
  Kernel k = sound(ExprOp::neg, DType::f16);
  k.args[0].dtype = DType::i32;
  EXPECT_EQ(check_kernel(k), Problems{"e0: a load of int32 is i64, found f32"});
  k = sound(ExprOp::neg, DType::f16);
  k.args[1].dtype = DType::boolean;
  EXPECT_EQ(check_kernel(k), Problems{"store: e1 is f32, argument %1 is bool"});
}

TEST(CheckKernel, ContractionsAreOfFloats) {
  KernelBuilder b({2, 3});
  const int x = b.input({DType::f32, {2, 4}}), y = b.input({DType::f32, {4, 3}});
  const Coord x_at[] = {b.dim(0), b.dim(2)}, y_at[] = {b.dim(2), b.dim(1)};
  const Ex sum = b.contract(ContractionKind::matmul, {4}, x, x_at, y, y_at);
  b.store(b.output({DType::f32, {2, 3}}), sum);
  Kernel k = b.finish("matmul");
  EXPECT_THAT(check_kernel(k), ElementsAre());
  k.args[1].dtype = DType::i64;
  EXPECT_EQ(check_kernel(k), Problems{"operand b: a contraction of int64"});
}

// What adds up does so once per point of the space: a row has no say in how often.
TEST(CheckKernel, NothingAddsUpAlongARow) {
  KernelBuilder b({2, 5}, 1);
  const int to = b.input({DType::f32, {1}}), x = b.input({DType::f32, {2, 5}});
  const int out = b.output({DType::f32, {1}}, to);
  const Coord first[] = {int64_t{0}};
  b.store(out, first, b.reduce(Reduction::sum, b.load_broadcast(x)), Reduction::sum);
  EXPECT_EQ(check_kernel(b.finish("add_rows")), Problems{"store: what adds up has no row"});
}

// Who reads a kernel relies on the form of every access, also of those that touch nothing.
TEST(CheckKernel, AccessesThatTouchNothingAreOfTheirFormToo) {
  Kernel k = sound(ExprOp::neg, DType::f32);
  k.accesses[0].guards = {{{1}, 0, 0, 0}, {{}, 0, 3, 0}};
  EXPECT_EQ(check_kernel(k), Problems{"e0: guard has 0 coefficients for 1 dimensions"});
  k.accesses[0].guards = {{{1}, 0, 0, 0}};
  k.accesses[0].terms = {{7, 1, 3}};
  EXPECT_EQ(check_kernel(k), Problems{"e0: bad index expression e7"});
  k.space = {0};
  EXPECT_EQ(check_kernel(k), Problems{"e0: bad index expression e7"});
}

TEST(CheckKernel, DimensionsAreLimited) {
  Kernel k = sound(ExprOp::neg, DType::f32);
  k.space.assign(65, 1);
  EXPECT_EQ(check_kernel(k), Problems{"65 dimensions, at most 64"});
}

TEST(CheckKernel, OnlyAttentionHasAScore) {
  KernelBuilder b({2, 3});
  const int x = b.input({DType::f32, {2, 4}}), y = b.input({DType::f32, {4, 3}});
  const Coord x_at[] = {b.dim(0), b.dim(2)}, y_at[] = {b.dim(2), b.dim(1)};
  b.store(b.output({DType::f32, {2, 3}}), b.contract(ContractionKind::matmul, {4}, x, x_at, y, y_at));
  Kernel k = b.finish("matmul");
  auto product = std::make_shared<Contraction>(*k.contraction);
  product->score = std::make_shared<Score>();
  k.contraction = product;
  EXPECT_EQ(check_kernel(k), Problems{"a score without attention"});
}

TEST(CheckKernel, TheNumberOfKeysDoesNotVaryAlongThem) {
  Kernel k = attention({.kv_heads = 1, .queries = 2, .keys = 6, .depth = 2, .columns = 2}, DType::i64,
                       [](KernelBuilder& b, Ex x, Ex mask) { return x + b.cast(mask, Scalar::f32); });
  const auto problems = [&](const std::function<int32_t(Score&)>& number) {
    auto c = std::make_shared<Contraction>(*k.contraction);
    auto score = std::make_shared<Score>(*c->score);
    score->keys = number(*score);
    c->score = score;
    Kernel with = k;
    with.contraction = c;
    return check_kernel(with);
  };
  const auto add = [](Score& score, Expr e) {
    score.exprs.push_back(e);
    return static_cast<int32_t>(score.exprs.size()) - 1;
  };
  Expr index{.op = ExprOp::index, .type = Scalar::i64};
  index.integer = 3;
  EXPECT_EQ(problems([&](Score& s) { return add(s, index); }), Problems{});
  index.integer = 4;
  EXPECT_EQ(problems([&](Score& s) { return add(s, index); }),
            Problems{"attention's number of keys varies along the keys"});
  EXPECT_EQ(problems([&](Score& s) {  // the mask
              const auto load = [](const Expr& e) { return e.op == ExprOp::load; };
              return static_cast<int32_t>(std::find_if(s.exprs.begin(), s.exprs.end(), load) - s.exprs.begin());
            }),
            Problems{"attention's number of keys varies along the keys"});
  EXPECT_EQ(problems([&](Score& s) { return add(s, {.op = ExprOp::contraction}); }),
            Problems{"attention's number of keys is no i64 expression"});
  EXPECT_EQ(problems([](Score&) { return 99; }), Problems{"attention's number of keys is no i64 expression"});
}

// What is no operation or type at all is named before anything relies on it.
TEST(CheckKernel, UnknownNumbers) {
  Kernel k = sound(ExprOp::neg, DType::f32);
  k.exprs[0].type = static_cast<Scalar>(9);
  EXPECT_EQ(check_kernel(k), Problems{"e0: unknown operation or type"});
  k = sound(ExprOp::neg, DType::f32);
  k.args[1].dtype = static_cast<DType>(77);
  EXPECT_EQ(check_kernel(k), Problems{"argument %1: bad size or type"});
}

// The second value of a contraction: attention has one, others have not.
TEST(CheckKernel, TheLogOfTheWeightsSum) {
  const auto problems = [](Kernel k, int64_t value) {
    for (Expr& e : k.exprs)
      if (e.op == ExprOp::contraction) e.integer = value;
    return check_kernel(k);
  };
  const Kernel whole = attention({}, DType::f32, [](KernelBuilder&, Ex leaf, Ex) { return leaf; });
  EXPECT_EQ(problems(whole, 1), Problems{});
  EXPECT_EQ(problems(whole, 2), Problems{"e0: a contraction has no value 2"});
  EXPECT_EQ(problems(linear(2, 3, 4, DType::f32, DType::f32, DType::f32, plain), 1).size(), 1U);
}

TEST(CheckKernel, AccessesThatNoLoadNames) {
  Kernel k = sound(ExprOp::neg, DType::f32);
  k.accesses.push_back({.arg = 0, .offset = 0, .strides = {}, .guards = {}, .terms = {}});
  EXPECT_EQ(check_kernel(k), Problems{"access 1: no load names it"});
  k.accesses.back() = k.accesses.front();
  EXPECT_EQ(check_kernel(k), Problems{"access 1: no load names it"});
}

TEST(CheckKernel, StridesThatOverflow) {
  for (const int64_t stride : {int64_t{1} << 57, -(int64_t{1} << 57), INT64_MAX, INT64_MIN}) {
    Kernel k = sound(ExprOp::neg, DType::f32);
    k.space = {1, 4};  // along an extent of 1 the stride is never added
    for (Access* a : {&k.accesses[0], &k.stores[0].access}) a->strides = {0, 1};
    EXPECT_EQ(check_kernel(k), Problems{});
    k.accesses[0].strides[0] = stride;
    EXPECT_EQ(check_kernel(k), Problems{"e0: a stride of argument %0 is beyond 2^56"});
  }
}

// Kernels over [3, 4] that store a load of element [i, j] at these strides.
Kernel storing(std::vector<int64_t> strides, std::vector<Guard> guards = {}, int row_dims = 0) {
  Kernel k;
  k.space = {3, 4};
  k.row_dims = row_dims;
  k.args = {{DType::f32, 12, false, -1}, {DType::f32, 100, true, -1}};
  k.accesses = {{0, 0, {4, 1}, {}, {}}};
  k.exprs = {{.op = ExprOp::load, .type = Scalar::f32}};
  k.stores = {{{1, 0, std::move(strides), std::move(guards), {}}, 0, false}};
  return k;
}

TEST(CheckKernel, StoresThatMeet) {
  for (const std::vector<int64_t>& apart : std::vector<std::vector<int64_t>>{{4, 1}, {1, 3}, {20, 5}, {9, 2}})
    EXPECT_EQ(check_kernel(storing(apart)), Problems{}) << to_string(apart);
  for (const std::vector<int64_t>& meeting :
       std::vector<std::vector<int64_t>>{{1, 1}, {0, 1}, {4, 0}, {3, 1}, {2, 2}}) {
    EXPECT_FALSE(check_kernel(storing(meeting)).empty()) << to_string(meeting);
    Kernel adding = storing(meeting);
    adding.stores[0].accumulate = true;
    EXPECT_EQ(check_kernel(adding), Problems{}) << to_string(meeting);
  }
  // A guarded coordinate is a digit of the address, too; one that only leaves points out is none.
  EXPECT_EQ(check_kernel(storing({0, 1}, {{{1, 0}, -1, 2, 4}})), Problems{});
  EXPECT_EQ(check_kernel(storing({4, 1}, {{{1, 1}, 0, 3, 0}})), Problems{});
  EXPECT_EQ(check_kernel(storing({0, 1}, {{{1, 0}, -2, 1, 0}})), Problems{});
  EXPECT_FALSE(check_kernel(storing({0, 0}, {{{1, 1}, 0, 6, 1}})).empty());
  EXPECT_FALSE(check_kernel(storing({0, 1}, {{{1, 0}, 0, 2, 0}})).empty());
  // What is the same along the row is stored once in it.
  EXPECT_EQ(check_kernel(storing({1, 0}, {}, 1)),
            Problems{"%1 is stored once in a row, and e0 varies along dimension 1"});
  Kernel reduced = storing({1, 0}, {}, 1);
  reduced.exprs.push_back({.op = ExprOp::reduce, .type = Scalar::f32, .in = {0, -1, -1}});
  reduced.stores[0].expr = 1;
  EXPECT_EQ(check_kernel(reduced), Problems{});
}

TEST(CheckKernel, StoresOfOneArgument) {
  Kernel k = storing({4, 1});
  k.stores.push_back(k.stores[0]);  // the later one stays at each point
  EXPECT_EQ(check_kernel(k), Problems{});
  k.stores[1].access.offset = 12;
  EXPECT_EQ(check_kernel(k), Problems{});
  k.stores[1].access.offset = 11;
  EXPECT_EQ(check_kernel(k), Problems{"two stores may reach one element of %1"});
  k.stores[1] = k.stores[0];
  k.stores[1].accumulate = true;
  EXPECT_EQ(check_kernel(k), Problems{"two stores may reach one element of %1"});
}

// Places of all points, by brute force: what is found sound stores no element twice.
TEST(CheckKernel, StoresFoundApartAreApart) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int sound = 0, apart = 0;
  for (int n = 0; n < 20'000; ++n) {
    std::vector<Guard> guards;
    for (int64_t g = draw(-1, 2); g > 0; --g)
      guards.push_back({{draw(-1, 2), draw(-1, 2)}, draw(-3, 2), draw(0, 5), draw(0, 6)});
    Kernel k = storing({draw(0, 8), draw(0, 8)}, guards);
    std::set<int64_t> places;
    bool meet = false;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        const Access& a = k.stores[0].access;
        int64_t at = a.strides[0] * i + a.strides[1] * j;
        bool holds = true;
        for (const Guard& g : a.guards) {
          const int64_t value = g.offset + g.coeffs[0] * i + g.coeffs[1] * j;
          holds = holds && value >= 0 && value < g.limit;
          at += g.stride * value;
        }
        if (holds) meet = !places.insert(at).second || meet;
      }
    const bool found = check_kernel(k).empty();
    sound += found, apart += !meet;
    ASSERT_FALSE(found && meet) << to_text(k);
  }
  EXPECT_GT(sound, apart / 6);
}

}  // namespace
}  // namespace npusim
