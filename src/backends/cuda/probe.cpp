// Reads all of a large buffer, and multiplies what lies in shared memory or registers, over and over.
#include "backends/cuda/probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace npusim::cuda {
namespace {

constexpr unsigned product_threads = 256, product_iterations = 4000;
constexpr unsigned products_per_iteration = 3;       // of each warpgroup, 64x256x16
constexpr unsigned warp_products_per_iteration = 8;  // of each warp, 16x8x16
constexpr unsigned loads_per_iteration = 8;
constexpr int rounds = 12;

std::string listed(const char* format, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += fmt::format(fmt::runtime(format), i) + (i + 1 < count ? "," : "");
  return text;
}

// Milliseconds of what `enqueue` puts into the stream.
class Clock {
 public:
  Clock() {
    constexpr unsigned apart_from_others = 1;
    check(driver().create_stream(&stream_, apart_from_others), "cuStreamCreate");
    for (Event& event : events_) check(driver().create_event(&event, 0), "cuEventCreate");
  }
  ~Clock() {
    driver().wait_stream(stream_);
    for (Event event : events_)
      if (event) driver().destroy_event(event);
    driver().destroy_stream(stream_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  void launch(Function function, unsigned blocks, unsigned threads, std::vector<void*> parameters) {
    check(driver().launch(function, blocks, 1, 1, threads, 1, 1, 0, stream_, parameters.data(), nullptr),
          "cuLaunchKernel");
  }
  template <typename F>
  double time(F&& enqueue) {
    check(driver().record_event(events_[0], stream_), "cuEventRecord");
    enqueue();
    check(driver().record_event(events_[1], stream_), "cuEventRecord");
    check(driver().wait_stream(stream_), "cuStreamSynchronize");
    float ms = 0;
    check(driver().elapsed(&ms, events_[0], events_[1]), "cuEventElapsedTime");
    return ms;
  }

 private:
  Stream stream_ = nullptr;
  Event events_[2] = {};
};

std::shared_ptr<const LoadedModule> load(Device& device, const std::string& text, const char* what) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return device.load({"ptx", "", {bytes, bytes + text.size()}}, what);
}

Function find(const LoadedModule& module, const char* name) {
  Function function = nullptr;
  check(driver().find_function(&function, module.handle, name), "cuModuleGetFunction");
  return function;
}

double measure_read(Device& device, Clock& clock) {
  size_t free = 0, total = 0;
  check(driver().memory_info(&free, &total), "cuMemGetInfo");
  const auto module = load(device, memory_ptx(), "the probe of memory");
  // Each thread reads as many words, and there are as many threads in each round.
  const auto threads = static_cast<unsigned>(device.facts().multiprocessors) * 2048;
  const uint64_t bytes_per_iteration = uint64_t{threads} * loads_per_iteration * 16;
  auto iterations = static_cast<unsigned>(std::clamp<uint64_t>(free / 2, bytes_per_iteration, uint64_t{2} << 30) /
                                          bytes_per_iteration);
  const CudaBuffer memory(device, bytes_per_iteration * iterations), sum(device, 16);
  DevicePointer from = memory.at(0), to = sum.at(0);
  unsigned words = iterations * loads_per_iteration;
  clock.time([&] { clock.launch(find(*module, "fill"), threads / 256, 256, {&from, &words}); });
  double ms = 0;
  for (int i = 0; i < rounds; ++i) {
    const unsigned together = i % 3 == 0 ? 256 : i % 3 == 1 ? 512 : 1024;
    const double found = clock.time([&] {
      clock.launch(find(*module, "read"), threads / together, together, {&from, &iterations, &to});
    });
    ms = i == 0 ? found : std::min(ms, found);
  }
  return static_cast<double>(bytes_per_iteration) * iterations / ms / 1e6;
}

double measure_products(Device& device, Clock& clock) {
  const Architecture& found = device.architecture();
  if (found.major < 8) return 0;
  const bool warpgroups = found.major == 9 && found.minor == 0;
  const auto module = load(device, products_ptx(warpgroups), "the probe of products");
  const unsigned blocks = static_cast<unsigned>(device.facts().multiprocessors) * (warpgroups ? 1 : 2);
  const CudaBuffer sum(device, 16);
  DevicePointer to = sum.at(0);
  unsigned iterations = product_iterations;
  const double per_iteration = warpgroups ? 2 * 2.0 * 64 * 256 * 16 * products_per_iteration
                                          : product_threads / 32.0 * 2 * 16 * 8 * 16 * warp_products_per_iteration;
  double ms = 0;
  for (int i = 0; i < rounds; ++i) {
    const double now = clock.time([&] {
      clock.launch(find(*module, "products"), blocks, product_threads, {&iterations, &to});
    });
    ms = i == 0 ? now : std::min(ms, now);
  }
  return per_iteration * iterations * blocks / ms / 1e6;
}

std::string by_warpgroups() {
  // Operands without a swizzle: 8x8 elements lie together, their neighbours along the depth behind them. Whatever lies
  // there is multiplied.
  constexpr unsigned a_bytes = 2048, b_bytes = 8192, step_bytes = 2 * a_bytes + b_bytes;
  std::string text =
      fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry products(.param .u32 iterations, .param .u64 to)
{{
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  .reg .f32 %f<128>;
  .reg .pred %p<3>;
  .shared .align 1024 .b8 operands[{0}];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, operands;
  shl.b32 %r2, %r0, 2;
  add.u32 %r2, %r1, %r2;
  mul.lo.u32 %r3, %r0, 2654435761;
  mov.u32 %r4, {1};
fill:
  mad.lo.u32 %r3, %r3, 1664525, 1013904223;
  shr.u32 %r5, %r3, 7;
  xor.b32 %r5, %r5, %r3;
  and.b32 %r5, %r5, 0x807f807f;
  or.b32 %r5, %r5, 0x3f003f00;
  st.shared.u32 [%r2], %r5;
  add.u32 %r2, %r2, {2};
  sub.u32 %r4, %r4, 1;
  setp.ne.u32 %p0, %r4, 0;
  @%p0 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r6, %r0, 7;
  mul.lo.u32 %r6, %r6, {3};
  ld.param.u32 %r7, [iterations];
)",
                  step_bytes * products_per_iteration, step_bytes * products_per_iteration / 4 / product_threads,
                  4 * product_threads, a_bytes);
  constexpr uint64_t apart = uint64_t{128 / 16} << 16 | uint64_t{256 / 16} << 32;
  for (unsigned i = 0; i < products_per_iteration; ++i)
    text += fmt::format(R"(  add.u32 %r8, %r1, {0};
  add.u32 %r9, %r8, %r6;
  add.u32 %r10, %r8, {1};
  shr.u32 %r9, %r9, 4;
  shr.u32 %r10, %r10, 4;
  cvt.u64.u32 %d{2}, %r9;
  cvt.u64.u32 %d{3}, %r10;
  or.b64 %d{2}, %d{2}, {4};
  or.b64 %d{3}, %d{3}, {4};
)",
                        i * step_bytes, 2 * a_bytes, 2 * i, 2 * i + 1, apart);
  for (unsigned i = 0; i < 128; ++i) text += fmt::format("  mov.f32 %f{}, 0f00000000;\n", i);
  text += "more:\n  wgmma.fence.sync.aligned;\n";
  for (unsigned i = 0; i < products_per_iteration; ++i)
    text += fmt::format("  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{}}}, %d{}, %d{}, 1, 1, 1, 0, 0;\n",
                        listed("%f{}", 128), 2 * i, 2 * i + 1);
  text += R"(  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  sub.u32 %r7, %r7, 1;
  setp.ne.u32 %p1, %r7, 0;
  @%p1 bra more;
)";
  for (unsigned i = 1; i < 128; ++i) text += fmt::format("  add.f32 %f0, %f0, %f{};\n", i);
  return text;
}

std::string by_warps() {
  std::string text = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry products(.param .u32 iterations, .param .u64 to)
{
  .reg .b32 %r<16>;
  .reg .b64 %d<2>;
  .reg .f32 %f<32>;
  .reg .pred %p<3>;
  mov.u32 %r0, %tid.x;
  mul.lo.u32 %r3, %r0, 2654435761;
  ld.param.u32 %r7, [iterations];
)";
  for (unsigned i = 8; i < 14; ++i)
    text += fmt::format(
        "  mad.lo.u32 %r3, %r3, 1664525, 1013904223;\n  and.b32 %r{0}, %r3, 0x807f807f;\n  or.b32 %r{0}, %r{0}, "
        "0x3f003f00;\n",
        i);
  for (unsigned i = 0; i < 4 * warp_products_per_iteration; ++i)
    text += fmt::format("  mov.f32 %f{}, 0f00000000;\n", i);
  text += "more:\n";
  for (unsigned i = 0; i < warp_products_per_iteration; ++i)
    text += fmt::format(
        "  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f{0},%f{1},%f{2},%f{3}}}, {{%r8,%r9,%r10,%r11}}, "
        "{{%r12,%r13}}, {{%f{0},%f{1},%f{2},%f{3}}};\n",
        4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);
  text += "  sub.u32 %r7, %r7, 1;\n  setp.ne.u32 %p1, %r7, 0;\n  @%p1 bra more;\n";
  for (unsigned i = 1; i < 4 * warp_products_per_iteration; ++i) text += fmt::format("  add.f32 %f0, %f0, %f{};\n", i);
  return text;
}

}  // namespace

std::string products_ptx(bool warpgroups) {
  // Whether the sum is some number is not known before: everything must be computed.
  return (warpgroups ? by_warpgroups() : by_warps()) + R"(  setp.eq.f32 %p2, %f0, 0f4b3c614e;
  ld.param.u64 %d0, [to];
  cvta.to.global.u64 %d0, %d0;
  @%p2 st.global.f32 [%d0], %f0;
  ret;
}
)";
}

std::string memory_ptx() {
  constexpr const char* position = R"(  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  mov.u32 %r3, %nctaid.x;
  mul.lo.u32 %r3, %r3, %r1;
  mul.wide.u32 %d1, %r0, 16;
  add.u64 %d0, %d0, %d1;
  mul.wide.u32 %d2, %r3, 16;
)";
  std::string text = fmt::format(R"(.version 7.0
.target sm_52
.address_size 64
.visible .entry fill(.param .u64 memory, .param .u32 words)
{{
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  .reg .pred %p;
  ld.param.u64 %d0, [memory];
  cvta.to.global.u64 %d0, %d0;
{0}  ld.param.u32 %r4, [words];
more:
  mad.lo.u32 %r0, %r0, 1664525, 1013904223;
  shr.u32 %r5, %r0, 9;
  xor.b32 %r6, %r0, %r5;
  st.global.v4.u32 [%d0], {{%r0, %r5, %r6, %r0}};
  add.u64 %d0, %d0, %d2;
  sub.u32 %r4, %r4, 1;
  setp.ne.u32 %p, %r4, 0;
  @%p bra more;
  ret;
}}
.visible .entry read(.param .u64 memory, .param .u32 iterations, .param .u64 to)
{{
  .reg .b32 %r<{1}>;
  .reg .b64 %d<4>;
  .reg .pred %p<2>;
  ld.param.u64 %d0, [memory];
  cvta.to.global.u64 %d0, %d0;
{0}  ld.param.u32 %r4, [iterations];
  mov.u32 %r5, 0;
more:
)",
                                 position, 8 + 4 * loads_per_iteration);
  for (unsigned i = 0; i < loads_per_iteration; ++i)
    text += fmt::format("  ld.global.nc.v4.u32 {{%r{},%r{},%r{},%r{}}}, [%d0];\n  add.u64 %d0, %d0, %d2;\n", 8 + 4 * i,
                        9 + 4 * i, 10 + 4 * i, 11 + 4 * i);
  for (unsigned i = 0; i < 4 * loads_per_iteration; ++i) text += fmt::format("  xor.b32 %r5, %r5, %r{};\n", 8 + i);
  return text + R"(  sub.u32 %r4, %r4, 1;
  setp.ne.u32 %p0, %r4, 0;
  @%p0 bra more;
  setp.eq.u32 %p1, %r5, 0x5eed5eed;
  ld.param.u64 %d0, [to];
  cvta.to.global.u64 %d0, %d0;
  @%p1 st.global.u32 [%d0], %r5;
  ret;
}
)";
}

DeviceLimits measure_limits(Device& device) {
  const Current current(device.context());
  Clock clock;
  return {measure_read(device, clock), measure_products(device, clock)};
}

}  // namespace npusim::cuda
