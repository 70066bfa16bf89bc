// The device half before a driver that executes nothing (fake_driver.cpp): memory, order, graphs, traps, errors.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "backends/cpu/allocations.h"
#include "backends/cuda/device.h"
#include "base/error.h"
#include "kernel/builder.h"
#include "npusim/session.h"

namespace npusim {
namespace {

// The fake's own functions. It is told what to be by the environment.
template <typename F>
F* fake(const char* name) {
  static void* library = dlopen(NPUSIM_FAKE_DRIVER, RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(library, name));
}
int calls(const char* name) { return fake<int(const char*)>("fake_count")(name); }
size_t memory_in_use() { return fake<size_t()>("fake_memory_in_use")(); }

class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

template <typename F>
std::string error_of(ErrorKind kind, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "none";
}

std::vector<std::byte> bytes_from(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

// An image that names no section.
Code cubin(const std::string& architecture) {
  std::vector<std::byte> image(64);
  std::memcpy(image.data(), "\177ELF\2\1", 6);
  image[58] = std::byte{64};
  return {"cubin", architecture, std::move(image)};
}
Code ptx(const std::string& architecture) {
  const std::string text = ".version 9.0";
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {"ptx", architecture, {bytes, bytes + text.size()}};
}

// y[i] = table[ids[i]] twice, with all that a launch needs; the trap word is its last argument.
Program gathers() {
  KernelBuilder k({4});
  const int table = k.input({DType::f32, {8}}), ids = k.input({DType::i64, {4}});
  const Coord id_at[] = {k.dim(0)};
  const Coord at[] = {Coord(k.load(ids, id_at))};
  const Ex x = k.load(table, at);
  k.store(k.output({DType::f32, {4}}), x);
  Program program;
  program.devices = {{"cuda", {}}};
  program.kernels = {k.finish("gather")};
  program.origins = {{"first", "aten.embedding.default"}, {"second", "aten.embedding.default"}};
  program.methods.resize(1);
  Method& method = program.methods[0];
  method.steps = {{0, {0, 1, 2}, 0, {0}}, {0, {0, 1, 2}, 0, {1}}};
  program.code = {{cubin("sm_80"), cubin("sm_90a"), ptx("compute_80")}};
  for (int step = 0; step < 2; ++step) {
    const std::string node = step == 0 ? "first" : "second";
    method.launches.push_back({step, 1, 0, "gather", {1, 1, 1}, {256, 1, 1}, {0, 1, 2, trap_word}, {}});
    method.launches.back().traps = {"node " + node + ": division", "node " + node + ": index"};
  }
  return program;
}

// A queue with the program's memory.
struct Bench {
  std::shared_ptr<Backend> device = cuda::open_device(0);
  std::unique_ptr<Queue> queue = device->open_queue(2);
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<Placement> placements;
  Bench() {
    for (const size_t bytes : {32, 32, 16}) {
      memory.push_back(device->allocate(bytes));
      placements.push_back({memory.back().get()});
    }
  }
  std::unique_ptr<Segment> prepare(const Program& program) {
    return queue->prepare({program, program.methods[0], 0, 2}, placements);
  }
  std::vector<std::byte> read(const Placement& placement, size_t bytes) {
    std::vector<std::byte> found(bytes);
    queue->download(placement, found);
    queue->wait();
    return found;
  }
};

// Small uploads go by themselves, large ones through four pinned blocks, over and over.
TEST(CudaQueue, UploadsOfAnySizeComeBack) {
  Bench bench;
  const int before = calls("cuMemAllocHost");
  for (const size_t bytes : {size_t{1}, size_t{1} << 19, (size_t{1} << 20) + 3, (size_t{140} << 20) + 5}) {
    const std::vector<std::byte> sent = bytes_from(bytes);
    const auto buffer = bench.device->allocate(bytes + 7);
    bench.queue->upload(sent, {buffer.get(), 7});
    EXPECT_EQ(bench.read({buffer.get(), 7}, bytes), sent);
  }
  EXPECT_EQ(calls("cuMemAllocHost") - before, 4);
}

TEST(CudaQueue, Clears) {
  Bench bench;
  const std::vector<std::byte> sent = bytes_from(120);
  const auto buffer = bench.device->allocate(120);
  bench.queue->upload(sent, {buffer.get()});
  bench.queue->clear({buffer.get(), 20}, 30);
  std::vector<std::byte> expected = sent;
  std::fill_n(expected.begin() + 20, 30, std::byte{0});
  EXPECT_EQ(bench.read({buffer.get()}, 120), expected);
}

// Each copy follows what the default stream was given before.
TEST(CudaQueue, CopiesFromAndToMemoryOfOthers) {
  Bench bench;
  const std::vector<std::byte> sent = bytes_from(16);
  bench.queue->upload(sent, {bench.memory[0].get(), 8});
  const int copies = calls("cuMemcpyDtoDAsync"), waits = calls("cuStreamWaitEvent"),
            uploads = calls("cuMemcpyHtoDAsync");
  bench.queue->copy_in(bench.memory[0]->address() + 8, {bench.memory[1].get(), 16}, 16);
  bench.queue->copy_out({bench.memory[1].get(), 16}, bench.memory[2]->address(), 16);
  EXPECT_EQ(bench.read(bench.placements[2], 16), sent);
  EXPECT_EQ(calls("cuMemcpyDtoDAsync") - copies, 2);
  EXPECT_EQ(calls("cuStreamWaitEvent") - waits, 2);
  EXPECT_EQ(calls("cuMemcpyHtoDAsync"), uploads);
}

TEST(CudaDevice, OutOfMemoryIsAnErrorAndNothingMore) {
  Bench bench;
  const std::string error = error_of(ErrorKind::device, [&] { bench.device->allocate(size_t{2} << 30); });
  EXPECT_EQ(error.substr(0, 55), "cuda:0: out of memory: expected 2147483648 bytes, found") << error;
  EXPECT_NE(bench.device->allocate(1000), nullptr);
}

TEST(CudaDevice, IsNamedByItsNumber) {
  EXPECT_EQ(open_backend("cuda:0")->name(), "cuda:0");
  EXPECT_EQ(open_backend("cuda")->description(), "Fake GPU, sm_90, 1.0 GiB");
  EXPECT_EQ(error_of(ErrorKind::device, [] { open_backend("cuda:3"); }), "cuda:3: this machine has 1 CUDA devices");
  const Setting two("FAKE_DEVICES", "2");
  EXPECT_EQ(open_backend("cuda:1")->name(), "cuda:1");
  EXPECT_EQ(cuda::probe_device().description, "Fake GPU, sm_90, 1.0 GiB, driver 13.0; 2 devices");
  const Setting none("FAKE_DEVICES", "0");
  EXPECT_FALSE(cuda::probe_device().usable);
}

// Launches go into a graph when they are made ready; running it asks for nothing else, and not for the host's memory.
TEST(CudaSegment, IsOneGraph) {
  Bench bench;
  Program program = gathers();
  program.methods[0].launches[0].how = "rows", program.methods[0].launches[0].declined = {{"dots", "5 rows"}};
  const int launched = calls("cuLaunchKernel"), made = calls("cuGraphInstantiate"), run = calls("cuGraphLaunch");
  const auto segment = bench.prepare(program);
  EXPECT_EQ(calls("cuLaunchKernel") - launched, 2);
  EXPECT_EQ(calls("cuGraphInstantiate") - made, 1);
  bench.queue->wait();
  const int asked = calls("cuMemAlloc") + calls("cuMemAllocHost");
  const int64_t before = allocations();
  for (int i = 0; i < 10; ++i) segment->enqueue();
  bench.queue->wait();
  segment->enqueue();
  bench.queue->wait();
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(calls("cuGraphLaunch") - run, 11);
  EXPECT_EQ(calls("cuLaunchKernel") - launched, 2);
  EXPECT_EQ(calls("cuMemAlloc") + calls("cuMemAllocHost"), asked);
  segment->enqueue_step(1);
  bench.queue->wait();
  EXPECT_EQ(calls("cuLaunchKernel") - launched, 3);
  EXPECT_EQ(segment->step_info(1).how, "gather 1x256");
  const StepInfo first = segment->step_info(0);
  EXPECT_EQ(first.how, "rows: gather 1x256");
  ASSERT_EQ(first.declined.size(), 1U);
  EXPECT_EQ(first.declined[0].implementation + ": " + first.declined[0].reason, "dots: 5 rows");
}

TEST(CudaSegment, TrapsAreTheFirstStepsAndReportedOnce) {
  Bench bench;
  const Program program = gathers();
  const Setting at("FAKE_TRAPS", "3");
  const auto segment = bench.prepare(program), other = bench.prepare(program);
  const auto trap = fake<void(int)>("fake_trap");
  const auto wait = [&] { bench.queue->wait(); };
  for (int repeat = 0; repeat < 2; ++repeat) {
    trap(2);
    segment->enqueue();
    other->enqueue();
    EXPECT_EQ(error_of(ErrorKind::bad_input, wait), "node first: index");
    trap(1);
    segment->enqueue_step(1);
    EXPECT_EQ(error_of(ErrorKind::bad_input, wait), "node second: division");
    trap(9);
    segment->enqueue();
    EXPECT_EQ(error_of(ErrorKind::bad_input, wait), "gather: unknown trap 9");
    trap(0);
    segment->enqueue();
    EXPECT_EQ(error_of(ErrorKind::bad_input, wait), "none");
  }
}

// A lost device is told by the call and its code; a segment that is gone is not asked.
TEST(CudaSegment, FailuresOfTheDeviceAreTold) {
  Bench bench;
  const Program program = gathers();
  {
    const auto segment = bench.prepare(program);
    segment->enqueue();
    const Setting lost("FAKE_WAIT", "700");
    EXPECT_EQ(error_of(ErrorKind::device, [&] { bench.queue->wait(); }),
              "cuda: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700), as the fake says");
    segment->enqueue();
  }
  bench.queue->wait();
}

// The newest machine code that runs, else PTX, else an error that says what was found.
TEST(CudaSegment, TakesTheCodeThatFits) {
  const Program program = gathers();
  const auto loaded = [&](const char* capability) -> std::string {
    const Setting device("FAKE_CAPABILITY", capability);
    const int machine = calls("cubin"), text = calls("ptx");
    Bench bench;
    const std::string error = error_of(ErrorKind::bad_input, [&] { bench.prepare(program); });
    if (error != "none") return error;
    return calls("cubin") > machine ? "cubin" : calls("ptx") > text ? "ptx" : "nothing";
  };
  for (const char* capability : {"80", "86", "90"}) EXPECT_EQ(loaded(capability), "cubin") << capability;
  for (const char* capability : {"100", "120"}) EXPECT_EQ(loaded(capability), "ptx") << capability;
  EXPECT_EQ(loaded("75"),
            "cuda:0: the program has no code for sm_75: found cubin sm_80, cubin sm_90a, ptx compute_80; compile with "
            "--target cuda:sm_75");
}

// A session takes the variant whose code fits its device best; what runs nowhere is an error that names all there is.
TEST(CudaSegment, SessionsTakeTheVariantThatFits) {
  Program program = gathers();
  program.buffers.resize(3);
  for (int32_t b = 0; b < 3; ++b) {
    Buffer& buffer = program.buffers[static_cast<size_t>(b)];
    buffer.name = fmt::format("b{}", b);
    buffer.kind = b == 2 ? BufferKind::output : BufferKind::input;
    buffer.type = b == 1 ? TensorType{DType::i64, {4}} : TensorType{DType::f32, {b == 0 ? 8 : 4}};
    (b == 2 ? program.methods[0].outputs : program.methods[0].inputs).push_back({buffer.name, buffer.type, b});
  }
  program.methods[0].nodes = 2;
  program.methods[0].name = "main";
  program.methods[0].arenas.resize(1);
  program.code = {{cubin("sm_80"), cubin("sm_86"), ptx("compute_80")}};
  program.variants = {program, program};
  program.variants[0].code = {{cubin("sm_90a"), ptx("compute_90a")}};
  program.variants[1].code = {{cubin("sm_100a"), ptx("compute_100a")}};
  EXPECT_EQ(check_program(program), std::vector<std::string>{});
  const auto shared = std::make_shared<const Program>(program);
  const auto taken = [](const std::shared_ptr<const Program>& p, const char* capability) -> std::string {
    const Setting device("FAKE_CAPABILITY", capability);
    std::string found;
    const std::string error = error_of(ErrorKind::bad_input, [&] {
      Session session(p, {.weights = nullptr, .devices = {cuda::open_device(0)}, .threads = 1});
      EXPECT_EQ(session.sibling().program().code[0][0].architecture, session.program().code[0][0].architecture);
      EXPECT_TRUE(session.program().variants.empty() || &session.program() == p.get());
      found = session.program().code[0][0].architecture;
    });
    return error == "none" ? found : error;
  };
  for (const auto& [capability, architecture] : {std::pair{"80", "sm_80"},
                                                 {"86", "sm_80"},
                                                 {"89", "sm_80"},
                                                 {"90", "sm_90a"},
                                                 {"100", "sm_100a"},
                                                 {"103", "sm_80"},
                                                 {"120", "sm_80"}})
    EXPECT_EQ(taken(shared, capability), architecture) << capability;
  EXPECT_EQ(taken(shared, "75"),
            "cuda:0: the program has no code for sm_75: found cubin sm_80, cubin sm_86, ptx compute_80, cubin sm_90a, "
            "ptx compute_90a, cubin sm_100a, ptx compute_100a; compile with --target cuda:sm_75");
  program.variants[0].code[0][0].bytes.resize(40);
  const auto damaged = std::make_shared<const Program>(program);
  EXPECT_EQ(taken(damaged, "90"), "cuda: code 0 (cubin sm_90a) is damaged: expected a whole ELF image");
  EXPECT_EQ(taken(damaged, "80"), "sm_80");
}

// Blocks that wait for each other are launched together, no more of them than run at once; a launch's own memory is
// zeros before the first run, and goes with the segment.
TEST(CudaSegment, LaunchesTogetherAndHasMemoryOfItsOwn) {
  Program program = gathers();
  Launch& launch = program.methods[0].launches[0];
  launch.together = true;
  launch.own_bytes = 64;
  launch.args.push_back(own_memory);
  launch.grid[0] = 500;
  const auto together = [&](int blocks) { return calls((std::to_string(blocks) + " together").c_str()); };
  Bench bench;
  const size_t before = memory_in_use();
  for (const auto& [shared, blocks] : {std::pair<uint32_t, int>{200 << 10, 132}, {1000, 264}}) {
    launch.shared_bytes = shared;
    const int launched = together(blocks), zeroed = calls("64 zeros");
    {
      const auto segment = bench.prepare(program);
      EXPECT_EQ(together(blocks), launched + 1);
      EXPECT_EQ(calls("64 zeros"), zeroed + 1);
      EXPECT_GE(memory_in_use(), before + 64);
    }
    EXPECT_EQ(memory_in_use(), before);
  }
  launch.grid[0] = 4;
  const int few = together(4);
  bench.prepare(program);
  EXPECT_EQ(together(4), few + 1);
  launch.shared_bytes = 228 << 10;
  EXPECT_NE(error_of(ErrorKind::bad_input, [&] { bench.prepare(program); }).find("bytes shared in a block"),
            std::string::npos);
}

// Code for 9.0 and later waits by itself for what precedes it; PTX for less does not, on whatever device.
TEST(CudaSegment, LaunchesStartEarlyWhereTheirCodeWaits) {
  Program program = gathers();
  const auto early = [&](const char* capability) {
    const Setting device("FAKE_CAPABILITY", capability);
    const int before = calls("early");
    Bench bench;
    bench.prepare(program);
    return calls("early") - before;
  };
  EXPECT_EQ(early("90"), 0);
  for (Launch& launch : program.methods[0].launches) launch.early = true;
  EXPECT_EQ(early("90"), 2);
  EXPECT_EQ(early("80"), 0);
  EXPECT_EQ(early("100"), 0);
}

// A launch with shared memory that starts early has a multiprocessor for each of its blocks, if there are enough.
TEST(CudaSegment, EarlyBlocksDoNotCrowd) {
  Program program = gathers();
  const auto alone = [&] {
    const int before = calls("alone");
    Bench bench;
    bench.prepare(program);
    return calls("alone") - before;
  };
  std::vector<Launch>& launches = program.methods[0].launches;
  launches[0].shared_bytes = 40 << 10;
  launches[0].grid[0] = 132;
  EXPECT_EQ(alone(), 0);
  launches[0].early = true;
  EXPECT_EQ(alone(), 1);
  launches[0].grid[0] = 133;
  EXPECT_EQ(alone(), 0);
}

// Events between the launches of a graph of its own, which is made when it is first asked for.
TEST(CudaSegment, TimesEachLaunch) {
  Bench bench;
  const Program program = gathers();
  const auto segment = bench.prepare(program);
  const int made = calls("cuGraphInstantiate");
  for (int repeat = 0; repeat < 2; ++repeat) {
    double ms[2] = {};
    EXPECT_TRUE(segment->time_steps(ms));
    EXPECT_EQ(ms[0], 1);
    EXPECT_EQ(ms[1], 1);
  }
  EXPECT_EQ(calls("cuGraphInstantiate") - made, 1);
}

// Of a set what fits best; equal code is loaded once.
TEST(CudaSegment, TakesTheCodeOfItsSet) {
  Program program = gathers();
  program.code = {{cubin("sm_80"), cubin("sm_90a")}, {cubin("sm_80"), cubin("sm_90a")}};
  program.code[1][1].bytes.push_back(std::byte{1});
  program.methods[0].launches[1].code = 1;
  Bench bench;
  const int before = calls("cuModuleLoadData");
  const auto segment = bench.prepare(program);
  EXPECT_EQ(calls("cuModuleLoadData") - before, 2);
  const auto again = bench.prepare(program);
  EXPECT_EQ(calls("cuModuleLoadData") - before, 2);
  program.code[1].pop_back();
  const auto error = [&] { return error_of(ErrorKind::bad_input, [&] { bench.prepare(program); }); };
  EXPECT_NE(error().find("no code for sm_90: found cubin sm_80;"), std::string::npos) << error();
  program.code[1].clear();
  EXPECT_NE(error().find("no code for sm_90: found none;"), std::string::npos) << error();
}

TEST(CudaSegment, DamagedCodeIsAnErrorAndNothingMore) {
  Bench bench;
  const size_t used = memory_in_use();
  const auto error = [&](const std::function<void(Program&)>& damage) {
    Program program = gathers();
    damage(program);
    return error_of(ErrorKind::bad_input, [&] { bench.prepare(program); });
  };
  EXPECT_EQ(error([](Program&) {}), "none");
  const std::string torn = "cuda: code 0 (cubin sm_90a) is damaged: expected a whole ELF image";
  EXPECT_EQ(error([](Program& p) { p.code[0][1].bytes.resize(40); }), torn);
  EXPECT_EQ(error([](Program& p) { p.code[0][1].bytes[0] = std::byte{1}; }), torn);
  EXPECT_EQ(error([](Program& p) { p.code[0][1].bytes[60] = std::byte{2}; }), torn);  // sections behind the end
  EXPECT_EQ(error([](Program& p) {
              p.code = {{ptx("compute_80")}};
              p.code[0][0].bytes[3] = std::byte{0};
            }),
            "cuda: code 0 (ptx compute_80) is damaged: expected text, found a zero");
  EXPECT_EQ(error([](Program& p) {
              for (Code& code : p.code[0]) code.format = "msl";
            }).substr(0, 58),
            "cuda:0: the program has no code for sm_90: found msl sm_80");
  EXPECT_EQ(error([](Program& p) { p.methods[0].launches.clear(); }),
            "cuda: the program was not compiled for this device: it has no launches for it");
  {
    const Setting missing("FAKE_MISSING", "gather");
    EXPECT_EQ(error([](Program&) {}), "cuda: there is no function 'gather' in code 0 (cubin sm_90a)");
  }
  {
    const Setting load("FAKE_LOAD", "200");
    EXPECT_EQ(error([](Program& p) { p.code[0][1].bytes.push_back(std::byte{7}); }),
              "cuda:0: code 0 (cubin sm_90a) does not load: cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200), as the "
              "fake says");
  }
  EXPECT_EQ(error([](Program& p) {
              p.methods[0].launches[1].block = {512, 4, 1};
            }),
            "cuda: function 'gather' runs at most 1024 threads in a block, its launch has 2048");
  EXPECT_EQ(error([](Program& p) { p.methods[0].launches[1].shared_bytes = 227 << 10; }), "none");
  EXPECT_EQ(error([](Program& p) { p.methods[0].launches[1].shared_bytes = 228 << 10; }),
            "cuda: function 'gather' asks for 233472 bytes shared in a block: cuFuncSetAttribute: "
            "CUDA_ERROR_UNKNOWN (1), as the fake says");
  EXPECT_EQ(error([](Program&) {}), "none");
  EXPECT_EQ(memory_in_use(), used);
}

TEST(CudaDriver, MeasuresWhatTheDeviceCanDo) {
  const int before = calls("cuLaunchKernel");
  const size_t used = memory_in_use();
  const DeviceLimits limits = measure_device("cuda:0");
  // Of the fake, each launch takes a millisecond: memory is filled once, and both probes run as often.
  const int launches = calls("cuLaunchKernel") - before;
  EXPECT_EQ(launches % 2, 1);
  EXPECT_GT(launches, 10);
  EXPECT_GT(limits.read_gb_s, 0);
  EXPECT_GT(limits.gflop_s, 0);
  EXPECT_EQ(memory_in_use(), used);
}

}  // namespace
}  // namespace npusim

int main(int argc, char** argv) {
  setenv("NPUSIM_CUDA_DRIVER", NPUSIM_FAKE_DRIVER, 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
