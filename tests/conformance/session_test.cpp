// What a session promises on every device: states, ports, weights, errors, threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "backends/toy/device.h"
#include "base/error.h"
#include "base/threads.h"
#include "conformance/devices.h"
#include "program/sample.h"
#include "runtime/tensor_set.h"

namespace npusim {
namespace {

using test::count_traffic;
using test::device_cases;
using test::DeviceCase;
using test::Traffic;

constexpr size_t prefill = 0, decode = 1;  // methods of sample_program()

std::shared_ptr<const TensorSet> sample_weights() {
  auto weights = std::make_shared<TensorSet>();
  weights->path = "memory";
  static const std::vector<float> values = [] {
    std::vector<float> v(32);
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 7) - 3;
    return v;
  }();
  weights->by_name.emplace("layer.weight", 0);
  weights->entries.push_back(
      {"layer.weight", {{DType::f32, {8, 4}}, reinterpret_cast<const std::byte*>(values.data())}, {}});
  return weights;
}

// With a factor that is a number: attention's result times two.
Program numbers_program() {
  Program program = sample_program();
  store_double(program.constants[0].data.data(), DType::f32, 3, 0.25);
  program.kernels[2] = copy_kernel({DType::f32, {2, 4}}, 2);
  return program;
}

std::shared_ptr<const Program> placed(const DeviceCase& device) {
  auto program = std::make_shared<const Program>(device.place(numbers_program()));
  EXPECT_EQ(check_program(*program), std::vector<std::string>{});
  return program;
}

Session open(const DeviceCase& device) {
  return Session(placed(device), {.weights = sample_weights(), .devices = device.open(), .threads = 1});
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> row(int step) {
  std::vector<float> values(4);
  for (size_t i = 0; i < 4; ++i) values[i] = static_cast<float>(step) + static_cast<float>(i) / 8;
  return values;
}

void set_step(Session& session, int step) {
  session.set_input(decode, 0, bytes_of(row(step)));
  session.set_input(decode, 1, bytes_of(std::vector<int64_t>{step % 8}));
}

// One decode step; its y.
std::vector<float> decode_step(Session& session, int step) {
  set_step(session, step);
  session.run(decode);
  return floats(session.output(decode, 0));
}

// What the cache holds after `steps` decode steps from zero.
std::vector<float> cache_after(int steps) {
  std::vector<float> cache(32);
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> values = row(step);
    std::copy(values.begin(), values.end(), cache.begin() + (step % 8) * 4);
  }
  return cache;
}

class Sessions : public testing::TestWithParam<DeviceCase> {};

// Every step sees what the ones before it left: no run puts an old state back.
TEST_P(Sessions, StatesLastFromRunToRun) {
  Session session = open(GetParam());
  Session other(std::make_shared<const Program>(numbers_program()), {.weights = sample_weights(), .devices = {}});
  for (int step = 0; step < 11; ++step) {
    const std::vector<float> found = decode_step(session, step), expected = decode_step(other, step);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << step;
    EXPECT_EQ(floats(session.output(decode, 1)), cache_after(step + 1));
  }
}

TEST_P(Sessions, StatesAreSetReadAndReset) {
  Session session = open(GetParam());
  std::vector<float> given(32);
  for (size_t i = 0; i < 32; ++i) given[i] = static_cast<float>(i) * 3;
  session.set_input(decode, 2, bytes_of(given));
  decode_step(session, 2);
  const std::vector<float> second = row(2);
  std::copy(second.begin(), second.end(), given.begin() + 8);
  EXPECT_EQ(floats(session.output(decode, 1)), given);
  session.reset_states();
  EXPECT_EQ(floats(session.output(decode, 1)), std::vector<float>(32));
  decode_step(session, 0);
  EXPECT_EQ(floats(session.output(decode, 1)), cache_after(1));
  EXPECT_THROW(session.input(decode, 2), Error);
}

// A state that one method updates is an output, and no input, of one that fills its first rows.
TEST_P(Sessions, AMethodFillsAnothersState) {
  Session session = open(GetParam());
  decode_step(session, 0);
  decode_step(session, 5);
  std::vector<float> given(8);
  for (size_t i = 0; i < 8; ++i) given[i] = 100 + static_cast<float>(i);
  session.set_input(prefill, 0, bytes_of(given));
  session.run(prefill);
  std::vector<float> expected = cache_after(0);
  const std::vector<float> fifth = row(5);
  for (size_t i = 0; i < 8; ++i) expected[i] = 2 * given[i];
  for (size_t i = 0; i < 4; ++i) expected[20 + i] = fifth[i];
  EXPECT_EQ(floats(session.output(decode, 1)), expected);
  EXPECT_EQ(floats(session.output(prefill, 1)), expected);
  decode_step(session, 1);
  const std::vector<float> second = row(1);
  std::copy(second.begin(), second.end(), expected.begin() + 4);
  EXPECT_EQ(floats(session.output(prefill, 1)), expected);
  std::vector<float> bound(32);
  EXPECT_THROW(session.bind_output(prefill, 1, std::as_writable_bytes(std::span(bound))), Error);
  session.reset_states();
  EXPECT_EQ(floats(session.output(prefill, 1)), cache_after(0));
}

// As many keys as a program that loads their number claims, but no more than the attention has and none below zero.
TEST_P(Sessions, ClaimedKeysAreThoseThereAre) {
  // position * factor + more
  const auto with = [](int64_t factor, int64_t more) {
    Program program = numbers_program();
    Kernel& attention = program.kernels[1];
    attention.args.insert(attention.args.begin() + 3, {DType::i64, 1, false, -1});
    attention.stores[0].access.arg = 4;
    auto contraction = std::make_shared<Contraction>(*attention.contraction);
    auto score = std::make_shared<Score>(*contraction->score);
    score->accesses = {{.arg = 3, .offset = 0, .strides = {0, 0}, .guards = {}, .terms = {}}};
    score->exprs.push_back({.op = ExprOp::load, .type = Scalar::i64});
    score->exprs.push_back({.op = ExprOp::constant, .type = Scalar::i64, .integer = factor});
    score->exprs.push_back({.op = ExprOp::mul, .type = Scalar::i64, .in = {1, 2, -1}});
    score->exprs.push_back({.op = ExprOp::constant, .type = Scalar::i64, .integer = more});
    score->exprs.push_back({.op = ExprOp::add, .type = Scalar::i64, .in = {3, 4, -1}});
    score->keys = 5;
    contraction->score = score;
    attention.contraction = contraction;
    program.methods[1].steps[1].buffers = {5, 0, 4, 1, 6};
    return program;
  };
  const auto run = [&](int64_t factor, int64_t more) {
    auto program = std::make_shared<const Program>(GetParam().place(with(factor, more)));
    EXPECT_EQ(check_program(*program), std::vector<std::string>{});
    Session session(program, {.weights = sample_weights(), .devices = GetParam().open(), .threads = 1});
    decode_step(session, 6);
    return decode_step(session, 2);
  };
  const std::vector<float> all = run(0, 8), none = run(0, 0);
  EXPECT_EQ(none, std::vector<float>(8));
  EXPECT_GT(std::abs(run(1, 1)[1] - all[1]), 1e-3);
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  for (const auto& [factor, more] : {std::pair<int64_t, int64_t>{1, 7}, {0, 9}, {0, most}, {int64_t{1} << 61, 0}})
    EXPECT_THAT(run(factor, more), testing::Pointwise(testing::FloatNear(1e-5f), all)) << factor << " " << more;
  for (const auto& [factor, more] :
       {std::pair<int64_t, int64_t>{-1, 0}, {0, -1}, {0, least}, {int64_t{1} << 62, 0}, {-(int64_t{1} << 40), 5}})
    EXPECT_EQ(run(factor, more), none) << factor << " " << more;
}

// A run moves inputs to the device and nothing back; outputs move when they are asked for, once.
TEST(Traffic, StatesStayAndOutputsWaitToBeAskedFor) {
  Traffic traffic;
  Session session(std::make_shared<const Program>(numbers_program()),
                  {.weights = sample_weights(), .devices = {count_traffic(toy::open_device(0), traffic)}});
  const size_t loaded = traffic.uploaded, checked = traffic.downloaded;
  EXPECT_EQ(loaded, 32U * 4 + 8 * 4);  // the weight and the constant
  EXPECT_EQ(checked, 32U * 4);         // what must be finite
  set_step(session, 1);
  session.run(decode, 5);
  EXPECT_EQ(traffic.uploaded - loaded, 4U * 4 + 8);
  session.run(prefill);
  EXPECT_EQ(traffic.uploaded - loaded, 4U * 4 + 8 + 8 * 4);
  EXPECT_EQ(traffic.downloaded, checked);
  session.output(decode, 0);
  session.output(decode, 0);
  EXPECT_EQ(traffic.downloaded - checked, 8U * 4);
  session.reset_states();
  EXPECT_EQ(traffic.uploaded - loaded, 4U * 4 + 8 + 8 * 4);
}

TEST_P(Sessions, PortsMayBeTheCallers) {
  Session session = open(GetParam());
  std::vector<float> in = row(3), out(8, -1);
  const std::vector<int64_t> position{3};
  session.bind_input(decode, 0, bytes_of(in));
  session.bind_output(decode, 0, std::as_writable_bytes(std::span(out)));
  session.set_input(decode, 1, bytes_of(position));
  session.run(decode);
  EXPECT_EQ(out, floats(session.output(decode, 0)));
  const std::vector<float> first = out;
  const std::vector<float> other = row(6);
  std::copy(other.begin(), other.end(), in.begin());  // read anew by each run
  session.run(decode);
  EXPECT_NE(out, first);
  EXPECT_EQ(out, floats(session.output(decode, 0)));
  session.bind_output(decode, 0, std::span<std::byte>());
  session.bind_input(decode, 0, std::span<const std::byte>());
  session.set_input(decode, 0, bytes_of(row(3)));
  const std::vector<float> kept = out;
  session.run(decode);
  EXPECT_EQ(out, kept);
  EXPECT_EQ(floats(session.output(decode, 0)), first);
  EXPECT_THROW(session.bind_input(decode, 0, bytes_of(position)), Error);
  EXPECT_THROW(session.bind_input(decode, 2, bytes_of(cache_after(0))), Error);
  EXPECT_THROW(session.set_input(decode, 1, bytes_of(in)), Error);
}

TEST_P(Sessions, RunsMayFollowEachOtherWithoutWaiting) {
  Session session = open(GetParam());
  for (int step = 0; step < 4; ++step) {
    set_step(session, step);  // waits: the input is in use until then
    session.enqueue(decode);
  }
  session.wait();
  EXPECT_EQ(floats(session.output(decode, 1)), cache_after(4));
}

// A session may end while its devices are at work.
TEST_P(Sessions, MayEndBeforeTheWorkIsDone) {
  std::vector<float> out(8, -1);
  {
    Session session = open(GetParam());
    session.bind_output(decode, 0, std::as_writable_bytes(std::span(out)));
    set_step(session, 1);
    session.enqueue(decode, 20);
  }
  for (const float x : out) EXPECT_NE(x, -1);  // all of it was done
}

TEST_P(Sessions, AnErrorLeavesTheSessionUsable) {
  Session session = open(GetParam());
  for (int repeat = 0; repeat < 3; ++repeat) {
    session.reset_states();
    const std::vector<float> good = decode_step(session, 1);
    session.set_input(decode, 1, bytes_of(std::vector<int64_t>{8}));
    try {
      session.run(decode);
      ADD_FAILURE() << "position 8 of 8 rows is taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("index_copy"), std::string::npos) << error.what();
    }
    session.reset_states();
    EXPECT_EQ(decode_step(session, 1), good);
  }
}

TEST_P(Sessions, SiblingsShareWeightsAndNothingElse) {
  Session first = open(GetParam());
  decode_step(first, 0);
  Session second = first.sibling();
  EXPECT_EQ(floats(second.output(decode, 1)), std::vector<float>(32));
  const std::vector<float> expected = decode_step(first, 1);
  decode_step(second, 0);
  EXPECT_EQ(decode_step(second, 1), expected);
  { const Session gone = std::move(first); }
  EXPECT_EQ(decode_step(second, 1), expected);
}

TEST_P(Sessions, RunAtOnceInSeveralThreads) {
  const auto devices = GetParam().open();
  const auto program = placed(GetParam());
  Session first(program, {.weights = sample_weights(), .devices = devices, .threads = 2});
  Session second(program, {.weights = sample_weights(), .devices = devices, .threads = 1});
  Session third = first.sibling();
  std::vector<std::thread> threads;
  for (Session* session : {&first, &second, &third})
    threads.emplace_back([session] {
      for (int step = 0; step < 40; ++step) decode_step(*session, step);
    });
  for (std::thread& thread : threads) thread.join();
  for (Session* session : {&first, &second, &third}) EXPECT_EQ(floats(session->output(decode, 1)), cache_after(40));
  EXPECT_EQ(floats(second.output(decode, 0)), floats(first.output(decode, 0)));
}

// A team of threads bound to cores computes the same, and each thread that runs sessions may have its own.
TEST(Threads, MayBeBoundToCores) {
  const DeviceCase& cpu = device_cases()[0];
  Session session(placed(cpu), {.weights = sample_weights(), .devices = cpu.open(), .threads = 2});
  const std::vector<float> expected = decode_step(session, 0);
  std::vector<float> found;
  std::vector<int> cores;
  std::thread([&] {
    if (!bind_team(2)) return;
    found = decode_step(session, 0);
    cpu_set_t own;
    sched_getaffinity(0, sizeof own, &own);
    cores.push_back(CPU_COUNT(&own));
  }).join();
  if (cores.empty()) GTEST_SKIP() << "one core, or threads that the environment binds";
  EXPECT_EQ(cores[0], 1);
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(bind_team(100000));
}

// The thread that runs a session need not be the one that made it.
TEST_P(Sessions, MayMoveToAnotherThread) {
  Session session = open(GetParam());
  const std::vector<float> expected = decode_step(session, 0);
  std::vector<float> found;
  std::thread([&] { found = decode_step(session, 0); }).join();
  EXPECT_EQ(found, expected);
}

TEST_P(Sessions, KeepWhatTheyNeed) {
  std::shared_ptr<const TensorSet> weights = sample_weights();
  const std::weak_ptr<const TensorSet> watched = weights;
  {
    Session session(placed(GetParam()), {.weights = std::move(weights), .devices = GetParam().open()});
    EXPECT_FALSE(watched.expired());
    decode_step(session, 0);
  }
  EXPECT_TRUE(watched.expired());
}

TEST_P(Sessions, NameWhatIsMissing) {
  const auto error_of = [&](std::shared_ptr<const TensorSet> weights) -> std::string {
    try {
      Session(placed(GetParam()), {.weights = std::move(weights), .devices = GetParam().open()});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const std::string expected = "weight layer.weight: float32[8, 4] is not in any weight file: none was given";
  EXPECT_EQ(error_of(nullptr).substr(0, expected.size()), expected);
  EXPECT_THROW(Session(placed(GetParam()), {.weights = sample_weights(), .devices = {nullptr, nullptr, nullptr}}),
               Error);
}

// A recipe fails on one device while another is at work on its own, and on a converted weight.
TEST(FailedLoad, LeavesNothingAtWork) {
  const TensorType table{DType::f32, {8, 4}}, large{DType::f32, {200, 100}}, one{DType::i64, {1}}, row{DType::f32, {4}};
  KernelBuilder pick({4});
  const int from = pick.input(table), index = pick.input(one);
  const Coord first[] = {Coord(int64_t{0})};
  const Coord at[] = {Coord(pick.load(index, first)), pick.dim(0)};
  const Ex picked = pick.load(from, at);
  pick.store_flat(pick.output(row), picked);
  Program program;
  program.devices = {{"toy", {}}, {"toy", {}}};
  program.kernels = {copy_kernel(large, 2), pick.finish("pick")};
  const auto buffer = [&](BufferKind kind, const TensorType& type, int32_t device, const std::string& fqn) {
    program.buffers.push_back({.name = fqn, .kind = kind, .type = type, .stored = {}, .fqn = fqn, .tied = {}});
    program.buffers.back().device = device;
  };
  buffer(BufferKind::weight, large, 1, "large");
  buffer(BufferKind::prepared, large, 1, "");
  buffer(BufferKind::weight, table, 0, "table");
  buffer(BufferKind::weight, one, 0, "index");
  buffer(BufferKind::prepared, row, 0, "");
  program.recipes.steps = {{0, {0, 1}, 1, {}}, {1, {2, 3, 4}, 0, {}}};
  program.methods.resize(1);
  program.methods[0].name = "main";
  program.methods[0].arenas.resize(2);
  ASSERT_EQ(check_program(program), std::vector<std::string>{});
  const HostTensor halves = make_tensor({DType::f16, large.shape}), zeros = make_tensor(table);
  HostTensor beyond = make_tensor(one);
  store_int(beyond.data.data(), DType::i64, 0, 8);
  const auto weights =
      make_tensors({{"large", view_of(halves)}, {"table", view_of(zeros)}, {"index", view_of(beyond)}});
  for (int repeat = 0; repeat < 3; ++repeat)
    EXPECT_THROW(Session(std::make_shared<const Program>(program),
                         {.weights = weights, .devices = {toy::open_device(0), toy::open_device(0)}}),
                 Error);
}

TEST_P(Sessions, StepsRunAlone) {
  Session session = open(GetParam());
  const std::vector<float> expected = decode_step(session, 0);
  session.reset_states();
  const size_t steps = session.program().methods[decode].steps.size();
  for (size_t step = 0; step < steps; ++step) {
    EXPECT_NE(session.step_info(decode, step).how, "");
    session.run_step(decode, step);
  }
  session.run(decode);
  EXPECT_EQ(floats(session.output(decode, 0)), expected);
}

// Timing all steps does what a run with the last inputs does.
TEST_P(Sessions, TimesAllSteps) {
  Session session = open(GetParam());
  decode_step(session, 0);
  session.reset_states();
  const std::vector<double> ms = session.time_steps(decode);
  ASSERT_EQ(ms.size(), session.program().methods[decode].steps.size());
  double sum = 0;
  for (double step : ms) {
    EXPECT_GE(step, 0);
    sum += step;
  }
  EXPECT_GT(sum, 0);
  decode_step(session, 1);
  EXPECT_EQ(floats(session.output(decode, 1)), cache_after(2));
}

// Inputs are where the last run had them, outputs stay where they are made.
TEST_P(Sessions, RunsOnWhatLiesOnTheDevice) {
  Session session = open(GetParam());
  const std::vector<float> expected = decode_step(session, 0);
  session.reset_states();
  session.run_on_device(decode);
  EXPECT_EQ(floats(session.output(decode, 0)), expected);
  EXPECT_EQ(floats(session.output(decode, 1)), cache_after(1));
  DeviceMemory memory;
  try {
    memory = session.device_input(decode, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return;
  }
  EXPECT_EQ(memory.device, session.device(0).name);
  EXPECT_EQ(memory.type, session.program().methods[decode].inputs[0].type);
  EXPECT_NE(session.device_output(decode, 0).address, memory.address);
  if (memory.device != "cpu") return;
  Session other = session.sibling();
  set_step(other, 3);
  for (size_t i = 0; i < 2; ++i) {
    const std::span<const std::byte> bytes = other.input(decode, i);
    std::memcpy(reinterpret_cast<void*>(session.device_input(decode, i).address), bytes.data(), bytes.size());
  }
  session.reset_states();
  decode_step(other, 3);
  session.run_on_device(decode);
  EXPECT_EQ(floats(session.output(decode, 0)), floats(other.output(decode, 0)));
}

// Memory of the caller's own on the device: here what other sessions have there.
TEST_P(Sessions, CopiesFromAndToMemoryOnTheDevice) {
  Session session = open(GetParam());
  Session giver = session.sibling(), taker = session.sibling();
  DeviceMemory to;
  try {
    to = taker.device_output(decode, 0);
  } catch (const Error&) {  // it has no addresses
    const DeviceMemory none{session.device(0).name, 0, session.program().methods[decode].inputs[0].type};
    EXPECT_THROW(session.bind_device_input(decode, 0, none), Error);
    return;
  }
  const std::vector<float> expected = decode_step(giver, 3), other = decode_step(session, 2);
  EXPECT_NE(expected, other);
  session.reset_states();
  for (size_t i = 0; i < 2; ++i) session.bind_device_input(decode, i, giver.device_input(decode, i));
  session.bind_device_output(decode, 0, to);
  session.run(decode);
  EXPECT_EQ(floats(taker.output(decode, 0)), expected);
  EXPECT_EQ(floats(session.output(decode, 0)), expected);
  for (size_t i = 0; i < 2; ++i) session.bind_input(decode, i, std::span<const std::byte>());
  session.bind_output(decode, 0, std::span<std::byte>());
  session.reset_states();
  EXPECT_EQ(decode_step(session, 2), other);
  EXPECT_EQ(floats(giver.output(decode, 0)), expected);

  const auto problem = [&](size_t input, const DeviceMemory& memory) -> std::string {
    try {
      session.bind_device_input(decode, input, memory);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "none";
  };
  DeviceMemory memory = giver.device_input(decode, 0);
  memory.device = "elsewhere:1";
  EXPECT_EQ(problem(0, memory), "input 'x': expected memory of " + to.device + ", found elsewhere:1");
  EXPECT_EQ(problem(0, {to.device, 0, memory.type}), "input 'x': expected memory of " + to.device + ", found none");
  EXPECT_NE(problem(1, giver.device_input(decode, 0)).find("expected int64[1], found float32"), std::string::npos);
  EXPECT_EQ(problem(2, giver.device_input(decode, 2)), "input 'cache' is a state, which stays on its device");
}

INSTANTIATE_TEST_SUITE_P(Devices, Sessions, testing::ValuesIn(device_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace npusim
