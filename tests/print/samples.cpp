// The printer's sample kernels.
#include "samples.h"

#include <fmt/format.h>

#include <cmath>

#include "kernel/builder.h"
#include "kernel/fuse/unfuse.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16, i32 = DType::i32, i64 = DType::i64;

Ex at(K& k, int arg, std::vector<Coord> coords) { return k.load(arg, coords); }
void put(K& k, int arg, std::vector<Coord> coords, Ex x, std::optional<Reduction> accumulate = {}) {
  k.store(arg, coords, x, accumulate);
}

Kernel mul_silu() {
  K k({1, 128, 300});
  const int a = k.input({bf16, {1, 128, 300}}), b = k.input({bf16, {1, 128, 300}}),
            out = k.output({bf16, {1, 128, 300}});
  Ex x = k.load_broadcast(a);
  k.store(out, x / (1.0 + exp(-x)) * k.load_broadcast(b));
  return k.finish("mul_silu");
}

Kernel mixed() {
  K k({5, 7});
  const int a = k.input({f16, {5, 7}}), b = k.input({i32, {5, 7}}), c = k.input({DType::boolean, {5, 7}}),
            e = k.input({DType::u8, {7}}), out = k.output({f32, {5, 7}}), rounded = k.output({DType::i8, {5, 7}}),
            flag = k.output({DType::boolean, {5, 7}});
  Ex x = k.load_broadcast(a), y = k.load_broadcast(b), u = k.load_broadcast(e);
  k.store(out, select(k.load_broadcast(c), x * y, x - 0.1) + u);
  k.store(rounded, y * 50 - u);
  k.store(flag, !(x < 0.5) && k.load_broadcast(c));
  return k.finish("mixed dtypes");
}

Kernel broadcast() {
  K k({3, 4, 5});
  const int a = k.input({f32, {3, 1, 5}}), b = k.input({f32, {4, 1}}), out = k.output({f32, {3, 4, 5}});
  k.store(out, k.load_broadcast(a) + k.load_broadcast(b));
  return k.finish("broadcast_add");
}

Kernel every_float() {
  K k({513});
  const int a = k.input({f32, {513}}), b = k.input({f32, {513}}), out = k.output({f32, {513}}),
            out2 = k.output({f32, {513}});
  Ex x = k.load_broadcast(a), y = k.load_broadcast(b);
  Ex unit = x / 3.1, positive = abs(x) + 0.01;
  Ex sum = exp(x) + exp2(x) + log(positive) + log2(positive) + log10(positive) + sqrt(positive) + rsqrt(positive) +
           sin(x) + cos(x) + asin(unit) + acos(unit) + atan(x) + sinh(x) + cosh(x) + tanh(x) + asinh(x) +
           acosh(positive + 1.0) + atanh(unit * 0.9);
  Ex rest = floor(x) + ceil(x) + round(x * 2) + trunc(x) + pow(positive, y) + fmod(x, positive) + atan2(x, y) +
            min(x, y) + max(x, y) + tan(unit);
  k.store(out, sum);
  k.store(out2, rest);
  return k.finish("every_float");
}

Kernel own_functions() {
  K k({4001});
  const int a = k.input({f32, {4001}});
  std::vector<int> outs;
  for (int i = 0; i < 5; ++i) outs.push_back(k.output({f32, {4001}}));
  Ex x = k.load_broadcast(a);
  k.store(outs[0], erf(x));
  k.store(outs[1], erfc(x) / exp(-x * x));
  k.store(outs[2], expm1(x * 0.3));
  k.store(outs[3], log1p(x * 0.3));
  k.store(outs[4], expm1(x * 1e-4) * 1e4 + log1p(x * 1e-4) * 1e4);
  return k.finish("own_functions");
}

Kernel special_values() {
  K k({8});
  const int out = k.output({f32, {8}}), max_out = k.output({f32, {8}}), flag = k.output({DType::boolean, {8}});
  Ex i = k.index(0);
  Ex x = select(i == 1, k.number(NAN),
                select(i == 2, k.number(INFINITY), select(i == 3, k.number(-INFINITY), k.number(-0.1))));
  k.store(out, erf(x));
  k.store(max_out, max(min(x, 5.0), -1e30) + log1p(select(i == 2, k.number(INFINITY), k.number(0.0))));
  k.store(flag, isnan(x));
  return k.finish("special_values");
}

Kernel pad() {
  K k({2, 3, 8, 10});
  const int a = k.input({f32, {2, 3, 5, 6}}), out = k.output({f32, {2, 3, 8, 10}});
  const Affine y = k.dim(2) + -1, x = k.dim(3) + -2;
  Ex inside = k.in_bounds(y, 5) && k.in_bounds(x, 6);
  k.store(out, select(inside, at(k, a, {k.dim(0), k.dim(1), y, x}), 1.5));
  return k.finish("constant_pad");
}

Kernel concat() {
  K k({4, 11});
  const int a = k.input({f16, {4, 3}}), b = k.input({f16, {4, 8}}), out = k.output({f16, {4, 11}});
  const Affine right = k.dim(1) + -3;
  k.store(out, select(k.index(1) < 3, at(k, a, {k.dim(0), k.dim(1)}), at(k, b, {k.dim(0), right})));
  return k.finish("cat");
}

Kernel transpose_flip() {
  K k({6, 4, 5});
  const int a = k.input({i64, {5, 4, 6}}), out = k.output({i64, {6, 4, 5}});
  k.store(out, at(k, a, {k.dim(2), k.dim(1) * -1 + 3, k.dim(0)}) * 3 - k.index(0));
  return k.finish("transpose_flip");
}

Kernel embedding() {
  K k({6, 40});
  const int ids = k.input({i64, {6}}), table = k.input({bf16, {9, 40}}), out = k.output({bf16, {6, 40}});
  k.store(out, at(k, table, {Coord(at(k, ids, {k.dim(0)})), k.dim(1)}));
  return k.finish("embedding");
}

Kernel cache_update() {
  K k({2, 3, 8});
  const int cache = k.input({f16, {2, 20, 8}}), position = k.input({i64, {3}}), value = k.input({f16, {2, 3, 8}});
  const int out = k.output({f16, {2, 20, 8}}, cache);
  put(k, out, {k.dim(0), Coord(at(k, position, {k.dim(1)})), k.dim(2)}, k.load_broadcast(value));
  return k.finish("index_copy");
}

Kernel scatter_add() {
  K k({50, 12});
  const int self = k.input({f32, {4, 12}}), index = k.input({i64, {50}}), source = k.input({f32, {50, 12}});
  const int out = k.output({f32, {4, 12}}, self);
  put(k, out, {Coord(at(k, index, {k.dim(0)})), k.dim(1)}, k.load_broadcast(source), Reduction::sum);
  return k.finish("index_add");
}

Kernel crop() {  // a guarded store
  K k({3, 9});
  const int a = k.input({f16, {3, 9}}), out = k.output({f16, {3, 5}});
  put(k, out, {k.dim(0), k.dim(1) + -2}, k.load_broadcast(a));
  return k.finish("crop");
}

Kernel overlap_add() {  // points of different (i, j) meet at i + j, those of different c never
  K k({6, 4, 3});
  const int zero = k.input({bf16, {8, 3}}), a = k.input({f32, {6, 4, 3}}), out = k.output({bf16, {8, 3}}, zero);
  put(k, out, {k.dim(0) + k.dim(1) + -1, k.dim(2)}, k.load_broadcast(a), Reduction::sum);
  return k.finish("overlap_add");
}

// The same element is met several times.
Kernel combine(DType dtype, Reduction reduction) {
  K k({50, 12});
  const int self = k.input({dtype, {4, 12}}), index = k.input({i64, {50}}), source = k.input({dtype, {50, 12}});
  const int out = k.output({dtype, {4, 12}}, self);
  put(k, out, {Coord(at(k, index, {k.dim(0)})), k.dim(1)}, k.load_broadcast(source), reduction);
  return k.finish("combine");
}

// The first, one in the middle and the last of the merges that order rows of which 9 places are stored.
std::vector<Kernel> merges(DType dtype) {
  K k({3, 70}, 1);
  const int a = k.input({dtype, {3, 70}}), out = k.output({i64, {3, 9}});
  put(k, out, {k.dim(0), k.dim(1)}, k.order(at(k, a, {k.dim(0), k.dim(1)}), dtype != i64));
  const Unfused steps = unfuse(k.finish("order"));
  return {steps.steps[0].kernel, steps.steps[4].kernel, steps.steps.back().kernel};
}

Kernel integer_sums() {
  K k({4, 700}, 1);
  const int a = k.input({i32, {4, 700}}), flags = k.input({DType::boolean, {4, 700}});
  const int sum = k.output({i64, {4}}), product = k.output({i64, {4}}), any = k.output({DType::boolean, {4}});
  Ex x = k.load_broadcast(a);
  put(k, sum, {k.dim(0)}, k.reduce(Reduction::sum, x * 4611686018427387903));
  put(k, product, {k.dim(0)}, k.reduce(Reduction::product, x + 1));
  put(k, any, {k.dim(0)}, k.reduce(Reduction::max, k.cast(k.load_broadcast(flags), Scalar::i64)));
  return k.finish("integer_sums");
}

Kernel softmax(Shape shape, DType in, DType to) {
  K k(shape, 1);
  const int a = k.input({in, shape}), out = k.output({to, shape});
  Ex x = k.load_broadcast(a);
  Ex e = exp(x - k.reduce(Reduction::max, x));
  k.store(out, e / k.reduce(Reduction::sum, e));
  return k.finish("softmax");
}

Kernel masked_softmax() {
  K k({2, 3, 17, 40}, 1);
  const int a = k.input({f32, {2, 3, 17, 40}}), out = k.output({f32, {2, 3, 17, 40}});
  Ex x = select(k.index(3) <= k.index(2) + 3, k.load_broadcast(a) * 0.125, k.number(-INFINITY));
  Ex e = exp(x - k.reduce(Reduction::max, x));
  k.store(out, e / k.reduce(Reduction::sum, e));
  return k.finish("causal_softmax");
}

Kernel layer_norm(int64_t rows, int64_t n) {
  K k({rows, n}, 1);
  const int a = k.input({f16, {rows, n}}), w = k.input({f16, {n}}), b = k.input({f16, {n}}),
            out = k.output({f16, {rows, n}}), mean_out = k.output({f32, {rows}});
  Ex x = k.load_broadcast(a);
  Ex mean = k.reduce(Reduction::sum, x) / static_cast<double>(n);
  Ex d = x - mean;
  Ex variance = k.reduce(Reduction::sum, d * d) / static_cast<double>(n);
  k.store(out, d * rsqrt(variance + 1e-5) * k.load_broadcast(w) + k.load_broadcast(b));
  put(k, mean_out, {k.dim(0)}, mean);
  return k.finish("layer_norm");
}

Kernel rms_norm(int64_t rows, int64_t n) {
  K k({rows, n}, 1);
  const int a = k.input({bf16, {rows, n}}), w = k.input({bf16, {n}}), out = k.output({bf16, {rows, n}});
  Ex x = k.load_broadcast(a);
  k.store(out, k.round_to(x * rsqrt(k.reduce(Reduction::sum, x * x) * (1.0 / static_cast<double>(n)) + 1e-6), bf16) *
                   k.load_broadcast(w));
  return k.finish("rms_norm");
}

Kernel max_pool() {
  K k({2, 3, 5, 5, 3, 3}, 2);
  const int a = k.input({f32, {2, 3, 9, 9}}), out = k.output({f32, {2, 3, 5, 5}});
  const Affine y = k.dim(2) * 2 + k.dim(4) + -1, x = k.dim(3) * 2 + k.dim(5) + -1;
  Ex inside = k.in_bounds(y, 9) && k.in_bounds(x, 9);
  Ex v = select(inside, at(k, a, {k.dim(0), k.dim(1), y, x}), k.number(-INFINITY));
  put(k, out, {k.dim(0), k.dim(1), k.dim(2), k.dim(3)}, k.reduce(Reduction::max, v));
  return k.finish("max_pool2d");
}

Kernel mean(Shape space, int row_dims) {
  K k(space, row_dims);
  const Shape kept(space.begin(), space.end() - row_dims);
  const int a = k.input({f32, space}), out = k.output({f32, kept});
  const int64_t count = element_count(space) / element_count(kept);
  k.store(out, k.reduce(Reduction::sum, k.load_broadcast(a)) / static_cast<double>(count));
  return k.finish("mean");
}

Kernel column_sum() {  // the row is not contiguous, its neighbours are
  K k({3000, 40}, 1);
  const int a = k.input({f32, {40, 3000}}), out = k.output({f32, {3000}});
  Ex sum = k.reduce(Reduction::sum, at(k, a, {k.dim(1), k.dim(0)}));
  put(k, out, {k.dim(0)}, sum);
  return k.finish("column_sum");
}

Kernel argmax(int64_t rows, int64_t n) {
  K k({rows, n}, 1);
  const int a = k.input({f32, {rows, n}}), out = k.output({i64, {rows}}), best_out = k.output({f32, {rows}});
  Ex x = k.load_broadcast(a);
  Ex best = k.reduce(Reduction::max, x);
  put(k, out, {k.dim(0)}, k.reduce(Reduction::min, select(x == best, k.index(1), n)));
  put(k, best_out, {k.dim(0)}, best);
  return k.finish("argmax");
}

Kernel cumsum() {
  K k({3, 21}, 1);
  const int a = k.input({i32, {3, 21}}), out = k.output({i64, {3, 21}}), share = k.output({f32, {3, 21}});
  Ex scanned = k.scan(Reduction::sum, k.load_broadcast(a));
  k.store(out, scanned);
  Ex total = k.reduce(Reduction::max, scanned);
  k.store(share, k.cast(scanned, Scalar::f32) / (total + 1));
  return k.finish("cumsum");
}

Kernel cummax() {
  K k({3, 21}, 1);
  const int a = k.input({f16, {3, 21}}), out = k.output({f16, {3, 21}}), at = k.output({i64, {3, 21}});
  const Ex x = k.load_broadcast(a), top = k.scan(Reduction::max, x);
  k.store(out, top);
  k.store(at, k.scan(Reduction::max, select(x == top || isnan(x), k.index(1), int64_t{-1})));
  return k.finish("cummax");
}

Kernel log_scan(DType dtype) {
  K k({5, 40}, 1);
  const int a = k.input({dtype, {5, 40}}), out = k.output({dtype, {5, 40}});
  k.store(out, k.scan(Reduction::sum, k.load_broadcast(a)));
  Kernel kernel = k.finish("logcumsumexp");
  for (Expr& e : kernel.exprs)
    if (e.op == ExprOp::scan) e.integer = 1;
  return kernel;
}

Kernel integers() {
  K k({64});
  const int a = k.input({i64, {64}}), b = k.input({i32, {64}}), out = k.output({i64, {64}}),
            small = k.output({i32, {64}}), mask = k.output({DType::boolean, {64}});
  Ex x = k.load_broadcast(a) - 1, y = k.load_broadcast(b) + 1;
  Ex big = x * 4611686018427387904 + abs(x) * 9007199254740993 - -x;
  k.store(out, idiv(big, y) + irem(big, y) + pow(x, y) + shl(x, y) - shr(big, y) + idiv(x, k.integer(-1)) +
                   irem(k.index(0), k.integer(7)));
  k.store(small, min(bit_xor(bit_and(big, k.integer(0xffff)), y), 77));
  k.store(mask, bit_or(x, y) == 3 || (x < y) != (x == 2));
  return k.finish("integers");
}

Kernel rounding() {
  K k({300});
  const int a = k.input({f32, {300}});
  const int h = k.output({f16, {300}}), b = k.output({bf16, {300}}), back = k.output({f32, {300}}),
            i = k.output({i32, {300}});
  Ex x = k.load_broadcast(a);
  k.store(h, x * 21845.0);
  k.store(b, x * 1.0039);
  k.store(back, k.round_to(x * 1e-6, f16) + k.round_to(x, bf16));
  k.store(i, k.cast(floor(x) * 1e9, Scalar::i64));
  return k.finish("rounding");
}

Kernel doubles() {
  K k({4, 50}, 1);
  const int a = k.input({DType::f64, {4, 50}}), out = k.output({DType::f64, {4, 50}}), low = k.output({f32, {4}});
  Ex x = k.load_broadcast(a);
  k.store(out, erf(x) + log1p(abs(x)) / k.reduce(Reduction::sum, exp(x)));
  put(k, low, {k.dim(0)}, k.reduce(Reduction::min, x));
  return k.finish("doubles");
}

Kernel empty_row() {
  K k({3, 0}, 1);
  const int a = k.input({f32, {3, 0}}), out = k.output({f32, {3}}), top = k.output({f32, {3}});
  put(k, out, {k.dim(0)}, k.reduce(Reduction::sum, k.load_broadcast(a)) + 2.0);
  put(k, top, {k.dim(0)}, k.reduce(Reduction::max, k.load_broadcast(a)));
  return k.finish("empty_row");
}

// What is the same along the row is read although the row is empty.
Kernel empty_row_bias() {
  K k({3, 0}, 1);
  const int a = k.input({f32, {3, 0}}), b = k.input({f32, {4}}), ids = k.input({i64, {3}}), out = k.output({f32, {3}});
  put(k, out, {k.dim(0)}, k.reduce(Reduction::sum, k.load_broadcast(a)) + at(k, b, {Coord(at(k, ids, {k.dim(0)}))}));
  return k.finish("empty_row_bias");
}

Kernel conv_rows() {
  K k({2, 2, 3, 5, 4});  // groups of 3 channels; padding on both sides
  const int x = k.input({f32, {2, 8, 9, 8}}), w = k.input({f32, {6, 4, 3, 3}}), out = k.output({f32, {2, 6, 5, 4}});
  const Coord x_at[] = {k.dim(0), k.dim(1) * 4 + k.dim(5), k.dim(3) * 2 + k.dim(6) + -1, k.dim(4) * 2 + k.dim(7) + -1};
  const Coord w_at[] = {k.dim(1) * 3 + k.dim(2), k.dim(5), k.dim(6), k.dim(7)};
  const Coord to[] = {k.dim(0), k.dim(1) * 3 + k.dim(2), k.dim(3), k.dim(4)};
  k.store(out, to, k.contract(ContractionKind::conv, {4, 3, 3}, x, x_at, w, w_at));
  return unfuse(k.finish("conv")).steps[0].kernel;
}

Kernel copy_to_row_start() {
  K k({5, 6}, 1);
  const int a = k.input({f32, {5}}), out = k.output({f32, {5, 6}}), once = k.output({f32, {5}});
  Ex x = at(k, a, {k.dim(0)});
  k.store(out, x + 1.0);
  put(k, once, {k.dim(0)}, x);
  return k.finish("copy_rows");
}

}  // namespace

Kernel linear_relu() {
  K k({4, 40});
  const int x = k.input({f16, {4, 96}}), w = k.input({f16, {40, 96}}), bias = k.input({f32, {40}}),
            out = k.output({f16, {4, 40}});
  const Coord x_at[] = {k.dim(0), k.dim(2)}, w_at[] = {k.dim(1), k.dim(2)};
  k.store(out, max(k.contract(ContractionKind::matmul, {96}, x, x_at, w, w_at) + k.load_broadcast(bias), 0.0));
  return k.finish("linear_relu");
}

std::vector<PrintSample> print_samples() {
  std::vector<PrintSample> samples;
  auto add = [&](std::string name, Kernel kernel) -> PrintSample& {
    samples.push_back({.name = std::move(name), .kernel = std::move(kernel)});
    return samples.back();
  };
  add("mul_silu", mul_silu()).is_golden = true;
  add("mixed_dtypes", mixed()).is_golden = true;
  add("broadcast", broadcast());
  add("every_float", every_float()).tolerance = 64;
  PrintSample& own = add("own_functions", own_functions());
  own.tolerance = 40;
  own.is_golden = true;
  add("special_values", special_values());
  add("pad", pad()).is_golden = true;
  add("concat", concat());
  add("transpose_flip", transpose_flip());
  add("embedding", embedding()).is_golden = true;
  PrintSample& bad_index = add("embedding_out_of_range", embedding());
  bad_index.traps = true;
  bad_index.integers = 12;
  PrintSample& cache = add("cache_update", cache_update());
  cache.integers = 20;
  cache.distinct = true;
  add("crop", crop());
  add("overlap_add", overlap_add()).is_golden = true;
  add("integer_sums", integer_sums());
  PrintSample& scatter = add("scatter_add", scatter_add());
  scatter.tolerance = 16;
  scatter.is_golden = true;
  for (const Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max})
    for (const DType dtype : {DType::boolean, DType::i8, DType::u8, i64, f16, f32})
      add(fmt::format("combine_{}_{}", reduction_name(reduction), dtype_name(dtype)), combine(dtype, reduction))
          .tolerance = 64;
  for (const DType dtype : {i64, f16, f32})
    for (int n = 0; const Kernel& kernel : merges(dtype))
      add(fmt::format("merge_{}_{}", n++, dtype_name(dtype)), kernel);
  add("softmax_thread", softmax({3, 40, 9}, f32, f32)).tolerance = 8;
  add("softmax_warp", softmax({3, 5, 100}, f16, f16)).is_golden = true;
  add("softmax_block", softmax({3, 1500}, f32, f16)).is_golden = true;
  add("softmax_large", softmax({2, 9000}, bf16, f32)).tolerance = 64;
  add("causal_softmax", masked_softmax()).tolerance = 8;
  add("layer_norm_warp", layer_norm(7, 96));
  add("layer_norm_block", layer_norm(3, 700));
  add("rms_norm", rms_norm(5, 896));
  add("max_pool", max_pool()).is_golden = true;
  add("mean_spatial", mean({2, 10, 7, 7}, 2));
  add("mean_all", mean({30, 40}, 2)).tolerance = 16;
  add("column_sum", column_sum()).tolerance = 64;
  add("argmax_block", argmax(2, 3000)).is_golden = true;
  add("argmax_warp", argmax(9, 65));
  add("cumsum", cumsum()).is_golden = true;
  add("cummax", cummax());
  add("logcumsumexp", log_scan(f32));
  add("integers", integers());
  PrintSample& by_zero = add("division_by_zero", [] {
    K k({8});
    const int a = k.input({i64, {8}}), out = k.output({i64, {8}});
    k.store(out, idiv(k.index(0), k.load_broadcast(a)));
    return k.finish("division");
  }());
  by_zero.traps = true;
  by_zero.integers = 1;
  add("requirement",
      [] {
        K k({8});
        const Ex a = k.load_broadcast(k.input({f32, {8}}));
        k.store(k.output({f32, {8}}), select(require(a < -100, Requirement::probability), a, 0.0));
        return k.finish("requirement");
      }())
      .traps = true;
  add("rounding", rounding());
  add("doubles", doubles()).tolerance = 4;
  add("empty_row", empty_row());
  add("empty_row_bias", empty_row_bias());
  add("copy_rows", copy_to_row_start());
  PrintSample& linear = add("linear_rows", unfuse(linear_relu()).steps[0].kernel);
  linear.low = 0, linear.high = 0.25;
  linear.is_golden = true;
  add("conv_rows", conv_rows()).tolerance = 64;
  return samples;
}

}  // namespace npusim
