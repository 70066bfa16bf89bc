// Speed of the CPU's loops interpreter: bytes per second next to the machine's copy bandwidth, ns for tiny kernels.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "backends/cpu/loops/loops.h"
#include "base/instruction_set.h"
#include "base/threads.h"
#include "kernel/builder.h"

namespace npusim::cpu {
namespace {

void run_kernel(benchmark::State& state, const Kernel& k) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> args;
  int64_t bytes = 0;
  for (const KernelArg& a : k.args) {
    memory.emplace_back(static_cast<size_t>(a.elements) * dtype_size(a.dtype));
    for (int64_t i = 0; i < a.elements; ++i) {
      if (is_float(a.dtype))
        store_double(memory.back().data(), a.dtype, i, static_cast<double>(i % 64) / 32 - 1);
      else
        store_int(memory.back().data(), a.dtype, i, i % 2);
    }
    bytes += static_cast<int64_t>(memory.back().size());
    args.push_back(memory.back().data());
  }
  loops::Loops loops(k, thread_count());
  for (auto _ : state) loops.run(args.data());
  state.SetBytesProcessed(state.iterations() * bytes);
}

void copy_probe(benchmark::State& state) {
  const auto n = static_cast<size_t>(state.range(0));
  std::vector<char> from(n, 1), to(n, 2);
  for (auto _ : state)
    parallel_for(static_cast<int64_t>(n), 1 << 20, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * n));
}
BENCHMARK(copy_probe)->Arg(64 << 20)->Arg(400 << 10)->UseRealTime();

Kernel add(DType d, int64_t n) {
  KernelBuilder b({n});
  const int x = b.input({d, {n}}), y = b.input({d, {n}});
  b.store(b.output({d, {n}}), b.load_broadcast(x) + b.load_broadcast(y));
  return b.finish("add");
}
Kernel softmax(int64_t rows, int64_t n) {
  KernelBuilder b({rows, n}, 1);
  const Ex x = b.load_broadcast(b.input({DType::f32, {rows, n}}));
  const Ex e = exp(x - b.reduce(Reduction::max, x));
  b.store(b.output({DType::f32, {rows, n}}), e / b.reduce(Reduction::sum, e));
  return b.finish("softmax");
}
Kernel layer_norm(int64_t rows, int64_t n, DType d) {
  KernelBuilder b({rows, n}, 1);
  const Ex x = b.load_broadcast(b.input({d, {rows, n}}));
  const Ex m = x - b.reduce(Reduction::sum, x) / static_cast<double>(n);
  const Ex var = b.reduce(Reduction::sum, m * m) / static_cast<double>(n);
  const Ex g = b.load_broadcast(b.input({d, {n}})), c = b.load_broadcast(b.input({d, {n}}));
  b.store(b.output({d, {rows, n}}), m * rsqrt(var + 1e-5) * g + c);
  return b.finish("layer_norm");
}
Kernel gelu(int64_t n, DType d) {
  KernelBuilder b({n});
  const Ex x = b.load_broadcast(b.input({d, {n}}));
  b.store(b.output({d, {n}}), x * 0.5 * (erf(x * 0.70710678118654752) + 1.0));
  return b.finish("gelu");
}
Kernel silu_mul(int64_t n, DType d) {
  KernelBuilder b({n});
  const Ex x = b.load_broadcast(b.input({d, {n}})), y = b.load_broadcast(b.input({d, {n}}));
  b.store(b.output({d, {n}}), x / (exp(-x) + 1.0) * y);
  return b.finish("silu_mul");
}
Kernel to_channels_last(int64_t c, int64_t size, DType d, bool back) {
  const Shape nchw{1, c, size, size}, nhwc{1, size, size, c};
  KernelBuilder b(back ? nchw : nhwc);
  const std::vector<Coord> at = back ? std::vector<Coord>{b.dim(0), b.dim(2), b.dim(3), b.dim(1)}
                                     : std::vector<Coord>{b.dim(0), b.dim(3), b.dim(1), b.dim(2)};
  const Ex x = b.load(b.input({d, back ? nhwc : nchw}), at);
  b.store(b.output({d, back ? nchw : nhwc}), x);
  return b.finish("transpose");
}
Kernel heads(int64_t s, int64_t h, int64_t dim, DType d) {
  KernelBuilder b({h, s, dim});
  const Ex x = b.load(b.input({d, {s, h, dim}}), std::vector<Coord>{b.dim(1), b.dim(0), b.dim(2)});
  b.store(b.output({d, {h, s, dim}}), x);
  return b.finish("heads");
}
Kernel max_pool(int64_t c, int64_t size) {
  const int64_t out = size / 2;
  KernelBuilder b({1, out, out, c, 3, 3}, 2);
  const int x = b.input({DType::f32, {1, size, size, c}});
  const Affine r = b.dim(1) * 2 + b.dim(4) + (-1), q = b.dim(2) * 2 + b.dim(5) + (-1);
  const Ex v = select(b.in_bounds(r, size) && b.in_bounds(q, size),
                      b.load(x, std::vector<Coord>{b.dim(0), r, q, b.dim(3)}), -INFINITY);
  b.store(b.output({DType::f32, {1, out, out, c}}), std::vector<Coord>{b.dim(0), b.dim(1), b.dim(2), b.dim(3)},
          b.reduce(Reduction::max, v));
  return b.finish("max_pool");
}
Kernel mean_hw(int64_t c, int64_t size) {
  KernelBuilder b({1, c, size, size}, 2);
  const Ex v =
      b.load(b.input({DType::f32, {1, size, size, c}}), std::vector<Coord>{b.dim(0), b.dim(2), b.dim(3), b.dim(1)});
  b.store(b.output({DType::f32, {1, c}}), std::vector<Coord>{b.dim(0), b.dim(1)},
          b.reduce(Reduction::sum, v) / static_cast<double>(size * size));
  return b.finish("mean");
}
Kernel concat(int64_t rows, int64_t a, int64_t c) {
  KernelBuilder b({rows, a + c});
  const int x = b.input({DType::f32, {rows, a}}), y = b.input({DType::f32, {rows, c}});
  const Ex p = b.load(x, std::vector<Coord>{b.dim(0), b.dim(1)}),
           q = b.load(y, std::vector<Coord>{b.dim(0), b.dim(1) + (-a)});
  b.store(b.output({DType::f32, {rows, a + c}}), select(b.index(1) < a, p, q));
  return b.finish("concat");
}
Kernel tiny(int ops) {
  KernelBuilder b({1});
  Ex x = b.load_broadcast(b.input({DType::f32, {1}}));
  for (int i = 0; i < ops; ++i) x = max(x + 1.0, 0.5);
  b.store(b.output({DType::f32, {1}}), x);
  return b.finish("tiny");
}

const int registered = [] {
  const auto add_bench = [](const std::string& name, Kernel k) {
    benchmark::RegisterBenchmark(name.c_str(), [k](benchmark::State& s) { run_kernel(s, k); })->UseRealTime();
  };
  for (DType d : {DType::f32, DType::f16, DType::bf16}) {
    const std::string type(dtype_name(d));
    add_bench("add_16M/" + type, add(d, 16 << 20));
    add_bench("add_100k/" + type, add(d, 100000));
    add_bench("gelu_128x3072/" + type, gelu(128 * 3072, d));
    add_bench("layer_norm_128x768/" + type, layer_norm(128, 768, d));
    add_bench("nchw_to_nhwc_64x112/" + type, to_channels_last(64, 112, d, false));
    add_bench("nhwc_to_nchw_64x112/" + type, to_channels_last(64, 112, d, true));
    add_bench("heads_128x12x64/" + type, heads(128, 12, 64, d));
  }
  add_bench("silu_mul_4864", silu_mul(4864, DType::f32));
  add_bench("layer_norm_1x896", layer_norm(1, 896, DType::f32));
  add_bench("softmax_768x64", softmax(768, 64));
  add_bench("softmax_512x2048", softmax(512, 2048));
  add_bench("softmax_1536x128", softmax(1536, 128));
  add_bench("softmax_2364x197", softmax(2364, 197));
  add_bench("max_pool_64x112", max_pool(64, 112));
  add_bench("mean_hw_2048x7", mean_hw(2048, 7));
  add_bench("concat_3136x64+32", concat(3136, 64, 32));
  add_bench("nchw_to_nhwc_3x224", to_channels_last(3, 224, DType::f32, false));
  add_bench("tiny_1", tiny(1));
  add_bench("tiny_8", tiny(8));
  return 0;
}();

}  // namespace
}  // namespace npusim::cpu

int main(int argc, char** argv) {
  npusim::bind_threads(argv);
  npusim::instruction_set();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
