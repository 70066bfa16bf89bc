// What only a GPU shows: memory that runs out, code that is damaged, sessions beside each other, bits that repeat.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "backends/cuda/codegen/stream/candidate.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/memory.h"
#include "base/error.h"
#include "npusim/compare.h"
#include "npusim/compiler.h"
#include "npusim/machine.h"
#include "npusim/tune.h"
#include "passes/run_graph.h"
#include "runtime/tensor_set.h"

namespace npusim {
namespace {

using test::gpu;
using test::GraphRun;
using test::run_graph;
using test::RunOptions;

RunOptions on_gpu() {
  RunOptions options;
  options.target = &test::gpu_target();
  options.devices = {gpu()};
  return options;
}

// Rows that are summed by a thread, a warp and a block; attention in parts; a scan; a table.
const char* const mixed =
    "input %x: float32[64, 2000]\ninput %i: int64[64]\nweight %w: float32[2000, 96] = \"w\"\n"
    "%s: float32[64, 2000] = aten.softmax.int(%x, dim=1)\n"
    "%m: float32[64, 96] = aten.matmul.default(%s, %w)\n"
    "%r: float32[2, 4, 64, 12] = aten.reshape.default(%m, shape=[2, 4, 64, 12])\n"
    "%a: float32[2, 4, 64, 12] = aten.scaled_dot_product_attention.default(%r, %r, %r, None)\n"
    "%c: float32[2, 4, 64, 12] = aten.cumsum.default(%a, dim=2)\n"
    "%e: float32[64, 96] = aten.embedding.default(%m, %i)\noutput %c\noutput %e\n";

std::vector<HostTensor> run(Session& session, unsigned seed, int repeats = 1) {
  const Method& method = session.program().methods[0];
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    const TensorType& type = method.inputs[i].type;
    if (session.program().buffers[static_cast<size_t>(method.inputs[i].buffer)].kind == BufferKind::state) continue;
    for (int64_t e = 0; e < element_count(type.shape); ++e) {
      std::byte* to = session.input(0, i).data();
      if (is_float(type.dtype))
        store_double(to, type.dtype, e, static_cast<double>((e * 37 + seed) % 101) / 16 - 3);
      else
        store_int(to, type.dtype, e, (e * 7 + seed) % 64);
    }
  }
  session.run(0, repeats);
  std::vector<HostTensor> outputs;
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    const auto memory = session.output(0, i);
    outputs.push_back({method.outputs[i].type, {memory.begin(), memory.end()}});
  }
  return outputs;
}

// A weight's elements all differ.
std::shared_ptr<const TensorSet> weights_of(const Program& program, std::vector<HostTensor>& memory) {
  auto set = std::make_shared<TensorSet>();
  set->path = "memory";
  for (const Buffer& b : program.buffers)
    if (b.kind == BufferKind::weight) {
      HostTensor& tensor = memory.emplace_back(make_tensor(b.type));
      for (int64_t e = 0; e < element_count(b.type.shape); ++e)
        store_double(tensor.data.data(), b.type.dtype, e, static_cast<double>((e * 53) % 997) / 500 - 1);
    }
  size_t next = 0;
  for (const Buffer& b : program.buffers)
    if (b.kind == BufferKind::weight) {
      set->by_name.emplace(b.fqn, set->entries.size());
      set->entries.push_back({b.fqn, view_of(memory[next++]), {}});
    }
  return set;
}

struct Opened {
  std::shared_ptr<const Program> program;
  std::vector<HostTensor> memory;
  std::unique_ptr<Session> session;
};
Opened open(std::shared_ptr<const Program> program) {
  Opened opened{std::move(program), {}, nullptr};
  const auto weights = weights_of(*opened.program, opened.memory);
  opened.session =
      std::make_unique<Session>(opened.program, SessionOptions{.weights = weights, .devices = {gpu()}, .threads = 2});
  return opened;
}

bool equal(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].data != b[i].data) return false;
  return a.size() == b.size();
}

TEST(CudaGpu, TheSameBitsComeFromEveryRun) {
  const GraphRun made = run_graph(mixed, on_gpu());
  Opened one = open(made.program), other = open(made.program);
  const std::vector<HostTensor> first = run(*one.session, 1);
  for (int repeat = 0; repeat < 50; ++repeat) ASSERT_TRUE(equal(run(*one.session, 1), first)) << repeat;
  EXPECT_TRUE(equal(run(*other.session, 1, 5), first));
  EXPECT_FALSE(equal(run(*other.session, 2), first));
}

// Two sessions at once, each with its own inputs, and each as if it were alone.
TEST(CudaGpu, SessionsRunBesideEachOther) {
  const GraphRun made = run_graph(mixed, on_gpu());
  Opened opened[] = {open(made.program), open(made.program), open(made.program)};
  std::vector<std::vector<HostTensor>> alone;
  for (unsigned n = 0; n < 3; ++n) alone.push_back(run(*opened[n].session, n));
  int wrong[3] = {};
  {
    std::vector<std::jthread> threads;
    for (unsigned n = 0; n < 3; ++n)
      threads.emplace_back([&, n] {
        for (int repeat = 0; repeat < 200; ++repeat) wrong[n] += !equal(run(*opened[n].session, n), alone[n]);
      });
  }
  for (unsigned n = 0; n < 3; ++n) EXPECT_EQ(wrong[n], 0) << "session " << n;
}

// Sessions come and go in several threads while others run.
TEST(CudaGpu, SessionsOpenBesideEachOther) {
  const GraphRun made = run_graph(mixed, on_gpu());
  Opened reference = open(made.program);
  const std::vector<HostTensor> expected = run(*reference.session, 7);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int n = 0; n < 4; ++n)
      threads.emplace_back([&] {
        for (int repeat = 0; repeat < 20; ++repeat) {
          Opened own = open(made.program);
          wrong += !equal(run(*own.session, 7), expected);
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(CudaGpu, OutOfMemoryLeavesTheProcessUsable) {
  std::vector<std::unique_ptr<DeviceBuffer>> held;
  std::string error;
  try {
    for (int i = 0; i < 1000; ++i) held.push_back(gpu()->allocate(size_t{8} << 30));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::device);
    error = e.what();
  }
  EXPECT_EQ(error.substr(0, 30), "cuda:0: out of memory: expecte") << error;
  held.clear();
  run_graph(mixed, on_gpu());
}

TEST(CudaGpu, DamagedCodeLeavesTheProcessUsable) {
  const GraphRun made = run_graph(mixed, on_gpu());
  const auto error = [&](const std::function<void(Program&)>& damage) -> std::string {
    Program program = *made.program;
    damage(program);
    try {
      open(std::make_shared<const Program>(std::move(program)));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_input) << e.what();
      return e.what();
    }
    return "none";
  };
  const auto each_cubin = [](Program& p, const std::function<void(std::vector<std::byte>&)>& change) {
    for (CodeSet& set : p.code)
      for (Code& code : set)
        if (code.format == "cubin") change(code.bytes);
  };
  EXPECT_EQ(error([](Program&) {}), "none");
  for (const size_t part : {2, 3, 10}) {
    const std::string cut = error(
        [&](Program& p) { each_cubin(p, [&](auto& bytes) { bytes.resize(bytes.size() - bytes.size() / part); }); });
    EXPECT_NE(cut.find("is damaged"), std::string::npos) << cut;
  }
  EXPECT_NE(error([&](Program& p) { each_cubin(p, [](auto& bytes) { bytes[0] = std::byte{1}; }); }).find("is damaged"),
            std::string::npos);
  // Another machine's ELF, and text that is no PTX.
  const std::string machine = error([&](Program& p) { each_cubin(p, [](auto& bytes) { bytes[18] = std::byte{62}; }); });
  EXPECT_NE(machine.find("does not load"), std::string::npos) << machine;
  const auto as_ptx = [](Program& p) {
    for (CodeSet& set : p.code) std::erase_if(set, [](const Code& c) { return c.format != "ptx"; });
  };
  EXPECT_EQ(error(as_ptx), "none");  // PTX alone is compiled by the driver
  const std::string text = error([&](Program& p) {
    as_ptx(p);
    for (CodeSet& set : p.code)
      for (Code& code : set) std::memcpy(code.bytes.data(), "damaged ", 8);
  });
  EXPECT_NE(text.find("does not load"), std::string::npos) << text;
  EXPECT_NE(error([](Program& p) { p.methods[0].launches[0].symbol = "other"; }).find("there is no function 'other'"),
            std::string::npos);
  const std::string args = error([](Program& p) {
    std::vector<int32_t>& args = p.methods[0].launches[0].args;
    args.push_back(args[0]);
  });
  EXPECT_NE(args.find("pointers, its launch has"), std::string::npos) << args;
  const std::string other = error([](Program& p) {
    for (CodeSet& set : p.code)
      for (Code& code : set) code.architecture = code.format == "ptx" ? "compute_120" : "sm_80";
  });
  EXPECT_NE(other.find("the program has no code for sm_"), std::string::npos) << other;
  run_graph(mixed, on_gpu());
}

// The driver's own compiler gives what NVRTC's machine code gives.
TEST(CudaGpu, PtxAloneComputesTheSame) {
  const auto old = test::gpu_target().for_architectures("sm_80");
  RunOptions options = on_gpu();
  options.target = old.get();
  run_graph(mixed, options);
}

// Seconds of the fastest of a few.
template <typename F>
double fastest(F&& f) {
  double best = 1e9;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// A program whose products were timed gives the answers that it gave before, but for the order of its sums.
TEST(CudaGpu, ATunedProgramGivesTheSameAnswers) {
  RunOptions in_half = on_gpu();
  in_half.dtype = DType::f16;
  const GraphRun made = run_graph(
      "input %x: float16[96, 768]\nweight %w: float16[384, 768] = \"w\"\nweight %v: float16[768, 384] = \"v\"\n"
      "%h: float16[96, 384] = aten.linear.default(%x, %w, None)\n%r: float16[96, 384] = aten.relu.default(%h)\n"
      "%y: float16[96, 768] = aten.linear.default(%r, %v, None)\noutput %y\n",
      in_half);
  std::vector<HostTensor> memory;
  SessionOptions options;
  options.weights = weights_of(*made.program, memory);
  options.devices = {gpu()};
  Session before(made.program, options);
  TuneOptions how;
  how.method = made.program->methods[0].name, how.device = before.device(0).description;
  how.least = -1e6;  // another candidate is taken even where it is slower: what is asked is whether it is right
  const Tuning tuning = tune(made.program, before.shared_program(), how, [&](const auto& trial) {
    Session session(trial, options);
    run(session, 3);
    return session.time_steps(0);
  });
  ASSERT_FALSE(tuning.kernels.empty());
  ASSERT_NE(tuning.program, made.program);
  Session after(tuning.program, options);
  const HostTensor was = run(before, 3)[0], now = run(after, 3)[0];
  const std::vector<double> expected = to_doubles(view_of(was)), found = to_doubles(view_of(now));
  EXPECT_LT(compare(found, expected, 768).relative_l2, 1e-3);
  for (const TunedKernel& k : tuning.kernels)
    std::printf("  %zu candidates, %.4f and %.4f ms: %s\n", k.candidates.size(), k.before_ms, k.after_ms,
                k.after.c_str());
}

// Whatever is in flight, ahead or read early.
TEST(CudaGpu, EveryCandidateOfAStreamGivesTheSameBits) {
  if (gpu()->fit({"cubin", "sm_90a", {}}) == 0) GTEST_SKIP() << "SKIP: streams are for sm_90a";
  CompileOptions in_one;
  in_one.target = "cuda:sm_90a,stream";
  const std::string ir = NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/decode_ir.json";
  const auto program = compile({{.path = ir, .json = {}}}, in_one).program;
  std::vector<HostTensor> memory;
  SessionOptions options;
  options.weights = weights_of(*program, memory);
  options.devices = {gpu()};
  TuneOptions how;
  how.method = program->methods[0].name, how.device = gpu()->description(), how.candidates = 64;
  std::vector<HostTensor> expected;
  size_t tried = 0;
  tune(program, program, how, [&](const std::shared_ptr<const Program>& trial) {
    Session session(trial, options);
    const std::vector<HostTensor> found = run(session, 3, 20);
    if (expected.empty()) expected = found;
    EXPECT_TRUE(equal(found, expected)) << trial->methods[0].launches.at(0).how;
    ++tried;
    return session.time_steps(0);
  });
  EXPECT_EQ(tried, cuda::codegen::stream::stream_candidates().size() + 1);  // as it is twice
}

// Of ordinary memory, by way of pinned blocks; how fast that is beside one copy from pinned memory is printed.
TEST(CudaGpu, LargeUploads) {
  constexpr size_t bytes = size_t{1} << 30;
  std::vector<std::byte> sent(bytes), found(bytes);
  for (size_t i = 0; i < bytes; i += 8) std::memcpy(&sent[i], &i, sizeof i);
  const auto buffer = gpu()->allocate(bytes);
  const auto queue = gpu()->open_queue(thread_count());
  const double ours = fastest([&] {
    queue->upload(sent, {buffer.get()});
    queue->wait();
  });
  queue->download({buffer.get()}, found);
  queue->wait();
  EXPECT_TRUE(found == sent);

  const cuda::Device device(0);
  const cuda::PinnedMemory pinned(device, bytes);
  std::memcpy(pinned.data(), sent.data(), bytes);
  const cuda::Current current(device.context());
  const double direct = fastest([&] {
    cuda::check(cuda::driver().to_device(cuda::address_of({buffer.get()}), pinned.data(), bytes, nullptr), "copy");
    cuda::check(cuda::driver().wait_stream(nullptr), "wait");
  });
  std::printf("  upload: %.1f GB/s, from pinned memory %.1f GB/s\n", static_cast<double>(bytes) / ours / 1e9,
              static_cast<double>(bytes) / direct / 1e9);
}

}  // namespace
}  // namespace npusim
