// Contractions alone: ResNet-50's convolutions, BERT's products, GEMV, attention, with probes of the machine and oneDNN
// beside them. Compare the minima of one run: OMP_PROC_BIND=close OMP_PLACES=cores OMP_WAIT_POLICY=active.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <random>

#include "backends/cpu/implementations.h"
#include "backends/cpu/memory.h"
#include "base/threads.h"
#include "kernel/builder.h"
#include "kernel/facts/score_kernel.h"

namespace npusim::cpu {
namespace {

using Coords = std::vector<Coord>;

// Steps with their memory; all share one scratch.
struct Bench {
  Context context = make_context(thread_count());
  struct Activation {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<Activation> activations;  // shared by the steps: the nth argument of all that it is large enough for
  std::vector<std::unique_ptr<BoundStep>> steps;
  std::shared_ptr<std::byte> scratch;

  void add(const Kernel& kernel, const std::vector<int>& constant) {
    std::vector<Binding> bindings;
    std::mt19937 random(1);
    for (const KernelArg& arg : kernel.args) {
      const auto at = bindings.size();
      const bool is_constant = std::count(constant.begin(), constant.end(), static_cast<int>(at)) > 0;
      const size_t bytes = static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64;
      activations.resize(std::max(activations.size(), at + 1));
      if (!is_constant && activations[at].bytes >= bytes) {
        bindings.push_back({activations[at].data, false});
        continue;
      }
      memory.push_back(aligned_bytes(bytes));
      for (int64_t i = 0; i < arg.elements; ++i) {
        if (arg.dtype == DType::bf16)
          reinterpret_cast<uint16_t*>(memory.back().get())[i] = static_cast<uint16_t>(0x3d00 + random() % 256);
        else
          store_double(memory.back().get(), arg.dtype, i, static_cast<double>(random() % 1024) / 4096 - 0.125);
      }
      if (!is_constant) activations[at] = {memory.back().get(), bytes};
      bindings.push_back({memory.back().get(), is_constant});
    }
    steps.push_back(choose_implementation(kernel, bindings, context).step);
  }
  void ready() {
    size_t most = 0;
    for (const auto& step : steps) most = std::max(most, step->scratch_bytes());
    scratch = aligned_bytes(most);
    for (const auto& step : steps) step->set_scratch(scratch.get());
  }
  void run() {
    for (const auto& step : steps) step->run();
  }
};

// Runs `work` as often as asked; the counters come from the fastest run, which a busy machine disturbs least.
template <typename Work>
void fastest(benchmark::State& state, double flops, double bytes, Work&& work) {
  work();
  double best = 1e30;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  state.counters["min_ms"] = best * 1e3;
  if (flops > 0) state.counters["GFLOP/s"] = flops / best / 1e9;
  if (bytes > 0) state.counters["GB/s"] = bytes / best / 1e9;
}

void measure(benchmark::State& state, Bench& bench, double flops, double bytes) {
  bench.ready();
  fastest(state, flops, bytes, [&] { bench.run(); });
  state.SetLabel(bench.steps[0]->describe());
}

enum class Tail { none, bias, gelu };

Kernel linear(int64_t m, int64_t n, int64_t k, DType x_type, DType w_type, Tail tail) {
  KernelBuilder b({m, n});
  const int x = b.input({x_type, {m, k}}), w = b.input({w_type, {n, k}}), bias = b.input({DType::f32, {n}});
  const int out = b.output({x_type, {m, n}});
  Ex y = b.contract(ContractionKind::matmul, {k}, x, Coords{b.dim(0), b.dim(2)}, w, Coords{b.dim(1), b.dim(2)});
  if (tail != Tail::none) y = y + b.load_broadcast(bias);
  if (tail == Tail::gelu) y = y * 0.5 * (erf(y * 0.70710678) + 1.0);
  b.store(out, y);
  return b.finish("linear");
}

void read_probe(benchmark::State& state) {
  const int64_t count = 32 << 20;
  auto data = aligned_bytes(static_cast<size_t>(count) * 8);
  std::memset(data.get(), 1, static_cast<size_t>(count) * 8);
  const auto* words = reinterpret_cast<const uint64_t*>(data.get());
  uint64_t sum = 0;
  fastest(state, 0, static_cast<double>(count) * 8, [&] {
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < count; i += 8) {
      __builtin_prefetch(words + i + 256);
      for (int64_t n = 0; n < 8; ++n) sum += words[i + n];
    }
    benchmark::DoNotOptimize(sum);
  });
}

void matmul(benchmark::State& state, DType type, Tail tail) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Bench bench;
  bench.add(linear(m, n, k, type, type, tail), {1, 2});
  measure(state, bench, 2.0 * static_cast<double>(m * n * k), 0);
}

void onednn_matmul(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  using dnnl::memory;
  constexpr auto f32 = memory::data_type::f32;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x({m, k}, f32, memory::format_tag::ab), w({k, n}, f32, memory::format_tag::any),
      y({m, n}, f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc desc(engine, x, w, y);
#else
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(x, w, y), engine);
#endif
  memory xs(x, engine), ws(desc.weights_desc(), engine), ys(y, engine);
  for (memory* each : {&xs, &ws, &ys}) std::memset(each->get_data_handle(), 0, each->get_desc().get_size());
  dnnl::matmul product(desc);
  const std::unordered_map<int, memory> args{{DNNL_ARG_SRC, xs}, {DNNL_ARG_WEIGHTS, ws}, {DNNL_ARG_DST, ys}};
  fastest(state, 2.0 * static_cast<double>(m * n * k), 0, [&] { product.execute(stream, args); });
  state.SetLabel(desc.impl_info_str());
}

// The library that NPUSIM_BLAS names, if it does: libopenblas.so. Threads: OPENBLAS_NUM_THREADS;
// OPENBLAS_CORETYPE=Haswell for its AVX2 kernels.
void blas_matmul(benchmark::State& state) {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  const char* name = std::getenv("NPUSIM_BLAS");
  void* library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
  const auto sgemm = library ? reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm")) : nullptr;
  if (!sgemm) return state.SkipWithError(name ? dlerror() : "NPUSIM_BLAS names no library");
  const auto m = static_cast<int>(state.range(0)), n = static_cast<int>(state.range(1)),
             k = static_cast<int>(state.range(2));
  const auto floats = [](int rows, int columns) {
    return std::vector<float>(static_cast<size_t>(rows) * static_cast<size_t>(columns), 0.25f);
  };
  const std::vector<float> x = floats(m, k), w = floats(n, k);
  std::vector<float> y = floats(m, n);
  constexpr int row_major = 101, plain = 111, transposed = 112;
  fastest(state, 2.0 * m * n * k, 0,
          [&] { sgemm(row_major, plain, transposed, m, n, k, 1, x.data(), k, w.data(), k, 0, y.data(), n); });
}

// Ten weights one after the other, so that none is left in a cache.
void gemv(benchmark::State& state, DType type) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Bench bench;
  for (int i = 0; i < 10; ++i) bench.add(linear(m, n, k, type, type, Tail::none), {1});
  measure(state, bench, 0, 10.0 * static_cast<double>(n * k) * static_cast<double>(dtype_size(type)));
}

// Twelve layers one after the other: the weights come from memory, as in a model.
void layers(benchmark::State& state, DType type, Tail tail) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Bench bench;
  for (int i = 0; i < 12; ++i) bench.add(linear(m, n, k, type, type, tail), {1, 2});
  measure(state, bench, 24.0 * static_cast<double>(m * n * k), 0);
}

Kernel conv(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t kernel, int64_t stride, bool residual) {
  const int64_t pad = kernel / 2, to = (size + 2 * pad - kernel) / stride + 1;
  KernelBuilder b({batch, 1, out, to, to});
  const int x = b.input({DType::f32, {batch, size, size, in}}), w = b.input({DType::f32, {out, in, kernel, kernel}});
  const int bias = b.input({DType::f32, {out}}), rest = b.input({DType::f32, {batch, to, to, out}});
  const int y = b.output({DType::f32, {batch, to, to, out}});
  Ex leaf =
      b.contract(ContractionKind::conv, {in, kernel, kernel}, x,
                 Coords{b.dim(0), b.dim(3) * stride + b.dim(6) + -pad, b.dim(4) * stride + b.dim(7) + -pad, b.dim(5)},
                 w, Coords{b.dim(2), b.dim(5), b.dim(6), b.dim(7)});
  const Coords at{b.dim(0), b.dim(3), b.dim(4), b.dim(2)};
  Ex value = leaf + b.load(bias, Coords{b.dim(2)});
  if (residual) value = value + b.load(rest, at);
  b.store(y, at, max(value, 0.0));
  return b.finish("conv");
}

void resnet50(benchmark::State& state) {
  const int64_t batch = state.range(0);
  Bench bench;
  bench.add(conv(batch, 224, 3, 64, 7, 2, false), {1, 2});
  int64_t channels = 64, size = 56;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = 64 << stage;
    const int blocks[] = {3, 4, 6, 3};
    for (int i = 0; i < blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      bench.add(conv(batch, size, channels, width, 1, 1, false), {1, 2});
      bench.add(conv(batch, size, width, width, 3, stride, false), {1, 2});
      if (i == 0) bench.add(conv(batch, size, channels, 4 * width, 1, stride, false), {1, 2});
      size /= stride;
      bench.add(conv(batch, size, width, 4 * width, 1, 1, true), {1, 2});
      channels = 4 * width;
    }
  }
  measure(state, bench, 0, 0);
  state.SetLabel(std::to_string(bench.steps.size()) + " convolutions");
}

// [kv head, group, q, d]: q [q, head, d], k and v [keys, kv head, d], mask [q, keys].
Kernel attention(int64_t kv_heads, int64_t group, int64_t queries, int64_t keys, int64_t depth, DType type,
                 bool causal) {
  const TensorType q_type{type, {queries, kv_heads, group, depth}}, k_type{type, {keys, kv_heads, depth}};
  KernelBuilder s({kv_heads, group, queries, keys});
  const int q = s.input(q_type), k = s.input(k_type),
            out_scores = s.output({DType::f32, {kv_heads, group, queries, keys}});
  Ex leaf = s.contract(ContractionKind::matmul, {depth}, q, Coords{s.dim(2), s.dim(0), s.dim(1), s.dim(4)}, k,
                       Coords{s.dim(3), s.dim(0), s.dim(4)}) *
            0.125;
  s.store(out_scores, causal ? select(s.index(3) <= s.index(2), leaf, -HUGE_VAL) : leaf);
  Score score = to_score(s.finish("score"));
  KernelBuilder b({kv_heads, group, queries, depth});
  b.input(q_type);
  b.input(k_type);
  const int v = b.input(k_type), out = b.output({type, {queries, kv_heads, group, depth}});
  const Coords v_at{b.dim(4), b.dim(0), b.dim(3)};
  b.store(out, Coords{b.dim(2), b.dim(0), b.dim(1), b.dim(3)},
          b.contract(ContractionKind::attention, {keys}, v, v_at, v, v_at));
  Kernel kernel = b.finish("attention");
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  contraction->score = std::make_shared<Score>(std::move(score));
  kernel.contraction = contraction;
  return kernel;
}

void attend(benchmark::State& state, DType type, bool causal) {
  const int64_t kv_heads = state.range(0), group = state.range(1), queries = state.range(2), keys = state.range(3),
                depth = state.range(4);
  Bench bench;
  // As many layers as keep a decoder's keys and values out of the caches.
  const int copies =
      queries == 1 ? static_cast<int>(std::max<int64_t>(2, (64 << 20) / (keys * kv_heads * depth * 4))) : 1;
  for (int i = 0; i < copies; ++i) bench.add(attention(kv_heads, group, queries, keys, depth, type, causal), {});
  measure(state, bench, 4.0 * copies * static_cast<double>(kv_heads * group * queries * keys * depth),
          copies * 2.0 * static_cast<double>(keys * kv_heads * depth) * static_cast<double>(dtype_size(type)));
}

void with_minimum(benchmark::internal::Benchmark* b) { b->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.3); }

BENCHMARK(read_probe)->Apply(with_minimum);
BENCHMARK(resnet50)->Arg(1)->Apply(with_minimum);
const std::vector<std::vector<int64_t>> bert{{128, 768, 768},  {128, 3072, 768}, {128, 768, 3072}, {197, 768, 768},
                                             {197, 2304, 768}, {197, 3072, 768}, {197, 768, 3072}, {512, 768, 768},
                                             {196, 1024, 256}, {196, 256, 1024}, {3136, 64, 256},  {3136, 256, 64},
                                             {784, 512, 128},  {49, 2048, 512},  {12544, 96, 16}};
void bert_shapes(benchmark::internal::Benchmark* b) {
  for (const auto& shape : bert) b->Args(shape);
  with_minimum(b);
}
void transformer_layers(benchmark::internal::Benchmark* b) {
  for (const int64_t rows : {128, 197}) b->Args({rows, 768, 768})->Args({rows, 3072, 768})->Args({rows, 768, 3072});
  b->Args({128, 1536, 384})->Args({128, 384, 1536})->Args({128, 384, 384});
  with_minimum(b);
}
BENCHMARK(onednn_matmul)->Apply(bert_shapes);
BENCHMARK(blas_matmul)->Apply(bert_shapes);
BENCHMARK_CAPTURE(matmul, f32, DType::f32, Tail::none)->Apply(bert_shapes);
BENCHMARK_CAPTURE(matmul, f32_gelu, DType::f32, Tail::gelu)->Apply(bert_shapes);
BENCHMARK_CAPTURE(matmul, f16, DType::f16, Tail::bias)->Apply(bert_shapes);
BENCHMARK_CAPTURE(layers, f32, DType::f32, Tail::bias)->Apply(transformer_layers);
BENCHMARK_CAPTURE(layers, f32_gelu, DType::f32, Tail::gelu)->Apply(transformer_layers);
BENCHMARK_CAPTURE(layers, f16, DType::f16, Tail::bias)->Apply(transformer_layers);
BENCHMARK_CAPTURE(gemv, bf16, DType::bf16)
    ->Args({1, 1536, 8960})
    ->Args({1, 8960, 1536})
    ->Args({4, 1536, 8960})
    ->Args({8, 1536, 8960})
    ->Apply(with_minimum);
BENCHMARK_CAPTURE(gemv, f16, DType::f16)->Args({1, 1536, 8960})->Apply(with_minimum);
BENCHMARK_CAPTURE(gemv, f32, DType::f32)->Args({1, 1536, 8960})->Apply(with_minimum);
BENCHMARK_CAPTURE(attend, f32, DType::f32, false)
    ->Args({12, 1, 128, 128, 64})
    ->Args({12, 1, 512, 512, 64})
    ->Apply(with_minimum);
BENCHMARK_CAPTURE(attend, bf16_causal, DType::bf16, true)->Args({2, 6, 512, 512, 128})->Apply(with_minimum);
BENCHMARK_CAPTURE(attend, bf16, DType::bf16, false)
    ->Args({2, 6, 1, 2048, 128})
    ->Args({2, 6, 1, 32768, 128})
    ->Apply(with_minimum);

}  // namespace
}  // namespace npusim::cpu

int main(int argc, char** argv) {
  npusim::bind_threads(argv);
  npusim::cpu::make_context(1);  // limits oneDNN to the instruction set in use
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
