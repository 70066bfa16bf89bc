// What every device does with memory and with the order of work.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"
#include "conformance/devices.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

using test::DeviceCase;
using test::lone_device_cases;

std::vector<std::byte> bytes_from(size_t count, unsigned first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((first + i) % 251);
  return bytes;
}

// One device alone: the first of each case, whatever stands beside it.
class Queues : public testing::TestWithParam<DeviceCase> {
 protected:
  std::shared_ptr<Backend> device_ = GetParam().open()[0];
  std::unique_ptr<Queue> queue_ = device_->open_queue(2);

  std::vector<std::byte> read(const Placement& place, size_t bytes) {
    std::vector<std::byte> found(bytes);
    queue_->download(place, found);
    queue_->wait();
    return found;
  }
};

TEST_P(Queues, WhatIsUploadedComesBack) {
  const auto buffer = device_->allocate(1000);
  EXPECT_EQ(buffer->bytes(), 1000U);
  const std::vector<std::byte> first = bytes_from(1000, 1), second = bytes_from(100, 77);
  queue_->upload(first, {buffer.get(), 0});
  queue_->upload(second, {buffer.get(), 123});
  std::vector<std::byte> expected = first;
  std::copy(second.begin(), second.end(), expected.begin() + 123);
  EXPECT_EQ(read({buffer.get(), 0}, 1000), expected);
  EXPECT_EQ(read({buffer.get(), 123}, 100), second);
}

// A later upload does not reach what an earlier download reads, and a download's memory is complete after wait().
TEST_P(Queues, WorkIsDoneInOrder) {
  const auto buffer = device_->allocate(64);
  std::vector<std::vector<std::byte>> sent, found(50, std::vector<std::byte>(64));
  for (unsigned i = 0; i < 50; ++i) sent.push_back(bytes_from(64, i));
  for (size_t i = 0; i < 50; ++i) {
    queue_->upload(sent[i], {buffer.get(), 0});
    queue_->download({buffer.get(), 0}, found[i]);
  }
  queue_->wait();
  EXPECT_EQ(found, sent);
}

TEST_P(Queues, Clears) {
  const auto buffer = device_->allocate(200);
  std::vector<std::byte> expected = bytes_from(200, 9);
  queue_->upload(expected, {buffer.get(), 0});
  queue_->clear({buffer.get(), 10}, 4);
  std::fill_n(expected.begin() + 10, 4, std::byte{0});
  EXPECT_EQ(read({buffer.get(), 0}, 200), expected);
  queue_->clear({buffer.get(), 0}, 200);
  EXPECT_EQ(read({buffer.get(), 0}, 200), std::vector<std::byte>(200));
}

TEST_P(Queues, NothingIsNothing) {
  const auto buffer = device_->allocate(1);
  queue_->upload({}, {buffer.get(), 0});
  queue_->download({buffer.get(), 0}, {});
  queue_->clear({buffer.get(), 0}, 0);
  queue_->wait();
  queue_->wait();
}

TEST_P(Queues, WrappedMemoryIsReadOrRefused) {
  const std::vector<std::byte> memory = bytes_from(256, 3);
  const auto wrapped = device_->wrap(memory);
  if (!wrapped) return;  // the caller uploads it
  EXPECT_EQ(wrapped->bytes(), memory.size());
  EXPECT_EQ(read({wrapped.get(), 0}, memory.size()), memory);
}

TEST_P(Queues, QueuesOfOneDeviceShareItsMemory) {
  const auto buffer = device_->allocate(64);
  const std::vector<std::byte> sent = bytes_from(64, 5);
  const auto other = device_->open_queue(1);
  other->upload(sent, {buffer.get(), 0});
  other->wait();
  EXPECT_EQ(read({buffer.get(), 0}, 64), sent);
}

// y[i] = table[ids[i]]: what lies outside is an error that names the node, found by enqueueing or by waiting.
TEST_P(Queues, AnErrorEndsTheWorkAndLeavesTheQueueUsable) {
  KernelBuilder k({4});
  const int table = k.input({DType::f32, {8}}), ids = k.input({DType::i64, {4}});
  const Coord id_at[] = {k.dim(0)};
  const Ex id = k.load(ids, id_at);
  const Coord at[] = {Coord(id)};
  const Ex x = k.load(table, at);
  k.store(k.output({DType::f32, {4}}), x);
  Program program;
  program.kernels = {k.finish("gather")};
  program.origins = {{"embedding", "aten.embedding.default"}};
  for (const TensorType& type : {TensorType{DType::f32, {8}}, {DType::i64, {4}}, {DType::f32, {4}}})
    program.buffers.push_back(
        {.name = "value", .kind = BufferKind::state, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  program.methods.resize(1);
  program.methods[0].steps = {{0, {0, 1, 2}, 0, {0}}};
  program = GetParam().place(program);

  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), 0.5F);
  const std::vector<int64_t> good{7, 0, 3, 3}, bad{1, 8, 0, 0};
  const auto table_memory = device_->allocate(32), id_memory = device_->allocate(32), result = device_->allocate(16);
  const std::vector<Placement> places{{table_memory.get()}, {id_memory.get()}, {result.get()}};
  queue_->upload(std::as_bytes(std::span(values)), places[0]);
  const auto segment = queue_->prepare({program, program.methods[0], 0, 1}, places);
  EXPECT_NE(segment->step_info(0).how, "");
  const auto run = [&](const std::vector<int64_t>& chosen) {
    std::vector<float> found(4);
    queue_->upload(std::as_bytes(std::span(chosen)), places[1]);
    segment->enqueue();
    queue_->download(places[2], std::as_writable_bytes(std::span(found)));
    queue_->wait();
    return found;
  };
  const std::vector<float> expected{7.5, 0.5, 3.5, 3.5};
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(run(good), expected);
    try {
      run(bad);
      ADD_FAILURE() << "an index of 8 into 8 elements is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find("embedding"), std::string::npos) << error.what();
    }
    queue_->wait();  // nothing is left of it
  }
  EXPECT_EQ(run(good), expected);
  std::vector<float> alone(4);
  segment->enqueue_step(0);
  queue_->download(places[2], std::as_writable_bytes(std::span(alone)));
  queue_->wait();
  EXPECT_EQ(alone, expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, Queues, testing::ValuesIn(lone_device_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace npusim
