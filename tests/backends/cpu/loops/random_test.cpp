// Random kernels through the loops interpreter and the reference evaluator.
#include <algorithm>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

class Generator {
 public:
  // With long rows there are two or three dimensions in the row, and what is summed over them is stored by itself.
  explicit Generator(unsigned seed, bool long_rows = false)
      : random_(seed),
        long_rows_(long_rows),
        space_(long_rows ? make_long_space() : make_space()),
        row_dims_(static_cast<int>(long_rows      ? 2 + pick(2)
                                   : pick(3) == 0 ? pick(static_cast<int64_t>(space_.size()) + 1)
                                                  : 0)),
        b_(space_, row_dims_) {}

  Kernel make() {
    const auto loads = 1 + pick(4);
    for (int64_t i = 0; i < loads; ++i) values_.push_back(load());
    if (pick(3) == 0) values_.push_back(b_.index(static_cast<int>(pick(static_cast<int64_t>(space_.size())))));
    const auto steps = 1 + pick(10);
    for (int64_t i = 0; i < steps; ++i) values_.push_back(step());
    if (long_rows_) {
      const Ex sum = b_.reduce(Reduction::sum, b_.cast(any(), Scalar::f32)), other = b_.reduce(Reduction::sum, any());
      store_row(pick(2) ? sum / (abs(other) + 1.0) : sum);
    }
    const auto stores = 1 + pick(2);
    for (int64_t i = 0; i < stores && pick(3); ++i) store(i == 0 ? values_.back() : any());
    return b_.finish("random");
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Ex any() { return values_[static_cast<size_t>(pick(static_cast<int64_t>(values_.size())))]; }
  Shape make_space() {
    Shape s;
    const auto rank = 1 + pick(4);
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t kinds[] = {1, 2 + pick(4), 7 + pick(20), 16, 32 + pick(60)};
      s.push_back(kinds[pick(5)]);
    }
    if (rank == 1 && pick(2)) s[0] = 1000 + pick(4000);
    return s;
  }
  Shape make_long_space() {
    Shape s;
    for (int64_t d = 0, rank = 4 + pick(2); d < rank; ++d) {
      const int64_t kinds[] = {1, 2 + pick(4), 5, 16, 17 + pick(4)};
      s.push_back(kinds[pick(5)]);
    }
    return s;
  }
  DType dtype() {
    const DType all[] = {DType::f32, DType::f32, DType::f16,     DType::bf16, DType::i64,
                         DType::i32, DType::u8,  DType::boolean, DType::f64};
    return all[pick(9)];
  }

  // A tensor over a permutation of some of the space's dimensions, perhaps shifted out of bounds and selected away.
  Ex load() {
    std::vector<int> dims;
    for (int d = 0; d < static_cast<int>(space_.size()); ++d)
      if (pick(4)) dims.push_back(d);
    if (pick(3) == 0) std::shuffle(dims.begin(), dims.end(), random_);
    Shape shape;
    std::vector<Coord> at;
    Ex inside;
    for (int d : dims) {
      const int64_t extent = space_[static_cast<size_t>(d)];
      if (pick(6) == 0 && extent > 2) {
        const int64_t size = 1 + pick(extent);
        const Affine shifted = b_.dim(d) + (-pick(extent));
        shape.push_back(size);
        at.emplace_back(shifted);
        const Ex c = b_.in_bounds(shifted, size);
        inside = inside.builder ? inside && c : c;
      } else {
        shape.push_back(extent + pick(2));
        at.emplace_back(b_.dim(d));
      }
    }
    const DType type = dtype();
    const Ex x = b_.load(b_.input({type, shape}), at);
    return inside.builder ? select(inside, x, 1.5) : x;
  }

  Ex step() {
    const Ex x = any(), y = any();
    switch (pick(14)) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return min(x, y);
      case 4:
        return max(x, y);
      case 5:
        return select(x < y, x, y);
      case 6:
        return x.type() == Scalar::f32 ? tanh(x) : abs(x);
      case 7:
        return exp(min(x, 2.0)) + 0.5;
      case 8:
        return x * y + any();
      case 9:
        return sqrt(abs(x)) / (abs(y) + 1.0);
      case 10:
        return x == y;
      case 11:
        return b_.cast(x, Scalar::f32) * 0.25;
      default:
        if (row_dims_ == 0) return erf(x);
        if (row_dims_ == 1 && pick(3) == 0) return b_.scan(Reduction::sum, b_.cast(x, Scalar::f64)) * 0.01;
        return b_.reduce(static_cast<Reduction>(std::array{0, 2, 3}[static_cast<size_t>(pick(3))]), x) * 0.125;
    }
  }

  void store(Ex x) {
    DType type = dtype();
    if (x.type() >= Scalar::f32 && !is_float(type)) type = DType::f32;
    std::vector<int> order;
    for (int d = 0; d < static_cast<int>(space_.size()); ++d) order.push_back(d);
    if (pick(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    Shape shape;
    std::vector<Coord> at;
    for (int d : order) {
      shape.push_back(space_[static_cast<size_t>(d)]);
      at.emplace_back(b_.dim(d));
    }
    b_.store(b_.output({type, shape}), at, x);
  }

  void store_row(Ex x) {
    std::vector<Coord> at;
    const Shape shape(space_.begin(), space_.end() - row_dims_);
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) at.emplace_back(b_.dim(d));
    b_.store(b_.output({DType::f32, shape}), at, b_.cast(x, Scalar::f32));
  }

  std::mt19937_64 random_;
  bool long_rows_;
  Shape space_;
  int row_dims_;
  KernelBuilder b_;
  std::vector<Ex> values_;
};

// Values that a comparison or an integer conversion of nearly equal floats decided differently: such kernels are
// recognised by evaluating the reference in single precision too.
bool ill_conditioned(const Kernel& k, const Check& check) {
  Memory exact = random_arguments(k, check), single = exact;
  evaluate(k, pointers(k, exact), false);
  evaluate(k, pointers(k, single), true);
  for (size_t a = 0; a < k.args.size(); ++a)
    for (int64_t i = 0; k.args[a].written && i < k.args[a].elements; ++i) {
      const double x = load_double(exact[a].data(), k.args[a].dtype, i),
                   y = load_double(single[a].data(), k.args[a].dtype, i);
      const double unit = k.args[a].dtype == DType::f16 ? 2e-3 : k.args[a].dtype == DType::bf16 ? 1.7e-2 : 1e-6;
      if (x != y && !(std::isnan(x) && std::isnan(y)) && !(std::fabs(x - y) <= unit * std::max(1.0, std::fabs(x))))
        return true;
    }
  return false;
}

void check_random(unsigned first, unsigned count, bool long_rows) {
  int skipped = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    const Kernel k = Generator(seed, long_rows).make();
    int64_t points = 1;
    for (int64_t n : k.space) points *= n;
    if (points > 60000 || !check_kernel(k).empty()) continue;
    Check check;
    check.seed = seed;
    check.tolerance = 1e-5;
    check.most = 1;
    if (ill_conditioned(k, check)) {
      ++skipped;
      continue;
    }
    check_kernel_runs(k, check);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << '\n' << to_text(k);
      return;
    }
  }
  EXPECT_LT(skipped, count / 5);
}

TEST(LoopsRandom, Kernels) { check_random(1, 600, false); }

TEST(LoopsRandom, LongRows) { check_random(1, 150, true); }

}  // namespace
}  // namespace npusim::cpu::loops
