// Random kernels of integers through the loops interpreter and the reference evaluator, whose integers have 64 bits:
// the lanes are as narrow as is proven to suffice.
#include <algorithm>
#include <limits>

#include "backends/cpu/loops/check.h"
#include "backends/cpu/loops/plan/integer_lanes.h"

namespace npusim::cpu::loops {
namespace {

class Generator {
 public:
  explicit Generator(unsigned seed)
      : random_(seed), space_(make_space()), row_dims_(pick(3) == 0 ? 1 : 0), b_(space_, row_dims_) {}

  Kernel make() {
    const int64_t loads = 1 + pick(3);
    for (int64_t i = 0; i < loads; ++i) values_.push_back(load());
    for (int64_t i = 0, steps = pick(8); i < steps; ++i) values_.push_back(step());
    for (int64_t i = 0, stores = 1 + pick(2); i < stores; ++i) store(i == 0 ? values_.back() : any());
    return b_.finish("integers");
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Ex any() { return values_[static_cast<size_t>(pick(static_cast<int64_t>(values_.size())))]; }
  Shape make_space() {
    Shape s;
    for (int64_t d = 0, rank = 1 + pick(3); d < rank; ++d) {
      const int64_t kinds[] = {1 + pick(5), 16, 7 + pick(40), 64 + pick(130)};
      s.push_back(kinds[pick(4)]);
    }
    if (s.size() == 1 && pick(2)) s[0] = 2000 + pick(20000);
    return s;
  }
  DType dtype() {
    constexpr DType all[] = {DType::u8, DType::u8, DType::i8, DType::i8, DType::i16, DType::i32, DType::i64};
    return all[pick(most_dtype_)];
  }
  int64_t some() {
    constexpr int64_t all[] = {0,   1,    -1,  3,   7,   8,    31,    63,    100,    127,
                               128, -128, 200, 255, 256, -129, 32767, 40000, 1 << 20};
    return all[pick(std::size(all))];
  }

  Ex load() {
    Shape shape;
    std::vector<Coord> at;
    Ex inside;
    for (int d = 0; d < static_cast<int>(space_.size()); ++d) {
      const int64_t extent = space_[static_cast<size_t>(d)];
      if (pick(8) == 0 && extent > 2) {
        const Affine shifted = b_.dim(d) + (-pick(extent));
        shape.push_back(1 + pick(extent));
        at.emplace_back(shifted);
        const Ex c = b_.in_bounds(shifted, shape.back());
        inside = inside.builder ? inside && c : c;
      } else if (pick(6)) {
        shape.push_back(extent);
        at.emplace_back(b_.dim(d));
      }
    }
    const Ex x = b_.load(b_.input({dtype(), shape}), at);
    return inside.builder ? b_.select(inside, x, b_.integer(some())) : x;
  }

  Ex step() {
    const Ex x = any(), y = pick(3) ? any() : b_.integer(some());
    constexpr ExprOp two[] = {ExprOp::add,     ExprOp::sub,    ExprOp::mul,     ExprOp::min, ExprOp::max,
                              ExprOp::bit_and, ExprOp::bit_or, ExprOp::bit_xor, ExprOp::shl, ExprOp::shr};
    constexpr ExprOp relations[] = {ExprOp::eq, ExprOp::ne, ExprOp::lt, ExprOp::le};
    constexpr Reduction reductions[] = {Reduction::sum, Reduction::product, Reduction::min, Reduction::max};
    switch (pick(9)) {
      case 0:
        return pick(2) ? abs(x) : -x;
      case 1:
        return b_.select(b_.binary(relations[pick(4)], x, y), any(), pick(2) ? x : y);
      case 2:
      case 3:
        return b_.round_to(x, dtype());
      case 4:
        return b_.cast(b_.binary(relations[pick(4)], x, y), Scalar::i64);
      case 5:
        if (row_dims_ > 0) return b_.reduce(reductions[pick(4)], pick(3) ? x : b_.cast(x < y, Scalar::i64));
        return b_.cast(b_.cast(x, Scalar::boolean), Scalar::i64);
      default:
        return b_.binary(two[pick(10)], x, y);
    }
  }

  void store(Ex x) {
    std::vector<Coord> at;
    for (int d = 0; d < static_cast<int>(space_.size()); ++d) at.emplace_back(b_.dim(d));
    switch (pick(8)) {
      case 0:
        return b_.store(b_.output({DType::f32, space_}), at, b_.cast(b_.round_to(x, DType::i16), Scalar::f32));
      case 1:
        return b_.store(b_.output({DType::f64, space_}), at, b_.cast(b_.round_to(x, DType::i32), Scalar::f64));
      case 2:
        return b_.store(b_.output({DType::boolean, space_}), at, x < any());
      default:
        return b_.store(b_.output({dtype(), space_}), at, x);
    }
  }

  std::mt19937_64 random_;
  Shape space_;
  int row_dims_;
  int64_t most_dtype_ = 2 + pick(6);  // of narrow ones alone, in many kernels
  KernelBuilder b_;
  std::vector<Ex> values_;
};

TEST(LoopsIntegers, AreThoseOfTheInterpreter) {
  int narrow = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    const Kernel k = Generator(seed).make();
    int64_t points = 1;
    for (int64_t n : k.space) points *= n;
    if (points > 25000 || !check_kernel(k).empty()) continue;
    Check check;
    check.seed = seed;
    check.least = seed % 3 ? std::numeric_limits<int32_t>::min() : -9;
    check.most = seed % 3 ? std::numeric_limits<int32_t>::max() : 9;
    narrow += plan::integer_lanes(k) != tiles::IntLane::i64;
    check_kernel_runs(k, check);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << '\n' << to_text(k);
      return;
    }
  }
  EXPECT_GT(narrow, 300);
}

// Many pairs of values of 8 bits.
TEST(LoopsIntegers, OfEightBitsAreExact) {
  for (const DType dtype : {DType::u8, DType::i8}) {
    KernelBuilder k({256, 256}, 0);
    const std::vector<Coord> at{k.dim(0), k.dim(1)};
    const Ex x = k.load(k.input({dtype, {256}}), std::vector<Coord>{at[0]});
    const Ex y = k.load(k.input({dtype, {256}}), std::vector<Coord>{at[1]});
    for (const ExprOp op : {ExprOp::add, ExprOp::sub, ExprOp::mul, ExprOp::min, ExprOp::max, ExprOp::shl, ExprOp::shr})
      k.store(k.output({dtype, {256, 256}}), at, k.binary(op, x, y));
    for (const ExprOp op : {ExprOp::eq, ExprOp::ne, ExprOp::lt, ExprOp::le})
      k.store(k.output({DType::boolean, {256, 256}}), at, k.binary(op, x, y));
    const Kernel all = k.finish("pairs");
    EXPECT_EQ(plan::integer_lanes(all), dtype == DType::u8 ? tiles::IntLane::u8 : tiles::IntLane::i8);
    for (const unsigned seed : {1u, 2u, 3u}) {
      Check check;
      check.seed = seed, check.least = seed == 3 ? -9 : -128, check.most = seed == 3 ? 9 : 255;
      check_kernel_runs(all, check);
    }
  }
}

// What is stored of two operands of those dtypes.
tiles::IntLane lanes_of(DType a, DType b, DType stored, Ex (*of)(Ex, Ex)) {
  KernelBuilder k({64}, 0);
  const std::vector<Coord> at{k.dim(0)};
  const Ex x = k.load(k.input({a, {64}}), at), y = k.load(k.input({b, {64}}), at);
  k.store(k.output({stored, {64}}), at, of(x, y));
  return plan::integer_lanes(k.finish("two"));
}

TEST(LoopsIntegers, AreAsNarrowAsIsProven) {
  const auto sum = [](Ex x, Ex y) { return x + y; };
  const auto most = [](Ex x, Ex y) { return max(x, y); };
  const auto less = [](Ex x, Ex y) { return x < y; };
  const auto mean = [](Ex x, Ex y) { return shr(x + y, x.builder->integer(1)); };
  EXPECT_EQ(lanes_of(DType::u8, DType::u8, DType::u8, sum), tiles::IntLane::u8);
  EXPECT_EQ(lanes_of(DType::i64, DType::i32, DType::i8, sum), tiles::IntLane::u8);
  EXPECT_EQ(lanes_of(DType::u8, DType::u8, DType::i16, sum), tiles::IntLane::i16);
  EXPECT_EQ(lanes_of(DType::i16, DType::i16, DType::i32, sum), tiles::IntLane::i32);
  EXPECT_EQ(lanes_of(DType::i32, DType::i32, DType::i32, sum), tiles::IntLane::i32);
  EXPECT_EQ(lanes_of(DType::i32, DType::i32, DType::i64, sum), tiles::IntLane::i64);
  EXPECT_EQ(lanes_of(DType::i8, DType::i8, DType::i8, most), tiles::IntLane::i8);
  EXPECT_EQ(lanes_of(DType::u8, DType::i8, DType::u8, most), tiles::IntLane::i16);
  EXPECT_EQ(lanes_of(DType::i64, DType::i64, DType::u8, most), tiles::IntLane::i64);
  EXPECT_EQ(lanes_of(DType::u8, DType::u8, DType::boolean, less), tiles::IntLane::u8);
  EXPECT_EQ(lanes_of(DType::u8, DType::i32, DType::boolean, less), tiles::IntLane::i32);
  EXPECT_EQ(lanes_of(DType::u8, DType::u8, DType::u8, mean), tiles::IntLane::i16);
  EXPECT_EQ(lanes_of(DType::i32, DType::i32, DType::i32, mean), tiles::IntLane::i64);
}

}  // namespace
}  // namespace npusim::cpu::loops
