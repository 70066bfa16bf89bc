// Kernels that order rows, drawn at random: all dtypes, lengths, strides, and which places are stored.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/tensor.h"
#include "kernel/builder.h"

namespace npusim::test {

struct Draws {
  explicit Draws(uint64_t seed) : random(seed) {}
  std::mt19937_64 random;
  int64_t whole(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }
};

inline Kernel order_kernel(DType dtype, Shape rows, int64_t length, int64_t count, bool descending, int64_t first = 0) {
  Shape space = rows, kept = rows;
  space.push_back(length), kept.push_back(count);
  KernelBuilder k(space, 1);
  const int from = k.input({dtype, space}), to = k.output({DType::i64, kept});
  std::vector<Coord> at;
  for (size_t d = 0; d < space.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
  const Ex x = k.load(from, at);
  at.back() = k.dim(static_cast<int>(rows.size())) + -first;
  k.store(to, at, k.order(x, descending));
  return k.finish("order");
}

struct OrderCase {
  Kernel kernel;
  std::vector<HostTensor> memory;  // of its two arguments
};

// An element of a few values, so that many are equal, or of all there are.
inline void draw_element(Draws& d, HostTensor& t, int64_t at, bool few) {
  const DType dtype = t.type.dtype;
  if (!is_float(dtype)) {
    const int64_t all[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 0, -1, 255};
    const int64_t any = d.chance(0.1) ? all[d.whole(0, 4)] : static_cast<int64_t>(d.random());
    return store_int(t.data.data(), dtype, at, few ? d.whole(-2, 2) : any);
  }
  const double inf = std::numeric_limits<double>::infinity(), specials[] = {inf, -inf, std::nan(""), 0.0, -0.0, 1e-45};
  const double any = std::normal_distribution<double>(0, few ? 1 : 1e4)(d.random);
  store_double(t.data.data(), dtype, at, d.chance(0.15) ? specials[d.whole(0, 5)] : few ? std::round(any) : any);
}

// Of at most so many elements a row; the row is some dimension of memory, with other elements around it. `kept_places`:
// so many places are stored, 0: any number.
inline OrderCase draw_order(Draws& d, int64_t longest, int64_t kept_places = 0) {
  OrderCase c;
  const auto dtype = static_cast<DType>(d.whole(0, dtype_count - 1));
  const int64_t length = d.chance(0.1) ? d.whole(1, 3) : d.whole(1, longest);
  const int64_t some = d.chance(0.5) ? d.whole(0, length) : std::min<int64_t>(length, d.whole(1, 3));
  const int64_t count = kept_places > 0 ? kept_places : d.chance(0.3) ? length : some;
  Shape rows;
  for (int64_t n = d.whole(0, 2); n > 0; --n) rows.push_back(d.whole(1, 4));
  c.kernel = order_kernel(dtype, rows, length, count, d.chance(0.5), d.chance(0.5) ? d.whole(0, length - count) : 0);
  // Memory in another order of dimensions, and behind an offset.
  const auto lay = [&](Access& a, Shape extents, KernelArg& arg, bool guarded) {
    std::vector<size_t> order(extents.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (d.chance(0.5)) std::shuffle(order.begin(), order.end(), d.random);
    int64_t stride = d.chance(0.2) ? 2 : 1;
    std::vector<int64_t> strides(extents.size());
    for (size_t i = order.size(); i-- > 0; stride *= std::max<int64_t>(extents[order[i]], 1))
      strides[order[i]] = stride;
    a.offset = d.whole(0, 2);
    if (guarded) a.guards[0].stride = std::exchange(strides.back(), 0);
    a.strides = strides;
    arg.elements = stride + a.offset;
  };
  Shape space = c.kernel.space, kept = c.kernel.space;
  kept.back() = count;
  lay(c.kernel.accesses[0], space, c.kernel.args[0], false);
  lay(c.kernel.stores[0].access, kept, c.kernel.args[1], !c.kernel.stores[0].access.guards.empty());
  const bool few = d.chance(0.5);
  for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
  for (int64_t i = 0; i < c.kernel.args[0].elements; ++i) draw_element(d, c.memory[0], i, few);
  return c;
}

}  // namespace npusim::test
