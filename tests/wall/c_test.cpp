// The C interface: what it refuses, and that nothing is thrown out of it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "npusim/npusim.h"
#include "npusim/program.h"
#include "wall/models.h"

namespace npusim::test {
namespace {

struct CWall : testing::Test {
  void SetUp() override {
    const npusim_method_source method{"main", nullptr, add_ir.c_str()};
    npusim_compile_options options{};
    options.size = sizeof options;
    options.dtype = "float32";
    ASSERT_EQ(npusim_compile(&method, 1, &options, &program, &error), NPUSIM_OK) << npusim_error_text(error);
    const char* const name = "w";
    const npusim_view view{NPUSIM_FLOAT32, 1, three, w};
    ASSERT_EQ(npusim_make_tensors(&name, &view, 1, &weights, &error), NPUSIM_OK);
    npusim_session_options with{};
    with.size = sizeof with;
    with.weights = weights;
    ASSERT_EQ(npusim_open_session(program, &with, &session, &error), NPUSIM_OK) << npusim_error_text(error);
  }
  void TearDown() override {
    npusim_program_free(program);
    npusim_tensors_free(weights);
    npusim_session_free(session);
    npusim_error_free(error);
  }
  // The text of the error that `status` came with, which is freed.
  std::string text() {
    const std::string text = npusim_error_text(error);
    npusim_error_free(error);
    error = nullptr;
    return text;
  }

  const int64_t three[1] = {3}, two_three[2] = {2, 3};
  const float w[3] = {10, 20, 30};
  npusim_program* program = nullptr;
  npusim_tensors* weights = nullptr;
  npusim_session* session = nullptr;
  npusim_error* error = nullptr;
};

TEST_F(CWall, RunsInPlaceAndOnTheCallersMemory) {
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {};
  const npusim_view in{NPUSIM_FLOAT32, 2, two_three, x};
  ASSERT_EQ(npusim_set_input(session, "main", "x", &in, &error), NPUSIM_OK) << text();
  ASSERT_EQ(npusim_run(session, "main", 1, &error), NPUSIM_OK);
  npusim_view out{};
  ASSERT_EQ(npusim_get_output(session, "main", "y", &out, &error), NPUSIM_OK);
  EXPECT_EQ(out.dtype, NPUSIM_FLOAT32);
  ASSERT_EQ(out.rank, 2u);
  EXPECT_EQ(out.shape[1], 3);
  EXPECT_EQ(static_cast<const float*>(out.data)[5], 36);
  const npusim_span result{NPUSIM_FLOAT32, 2, two_three, y};
  ASSERT_EQ(npusim_bind_input(session, "main", "x", &in, &error), NPUSIM_OK);
  ASSERT_EQ(npusim_bind_output(session, "main", "y", &result, &error), NPUSIM_OK);
  x[5] = 0;
  ASSERT_EQ(npusim_enqueue(session, "main", 1, &error), NPUSIM_OK);
  ASSERT_EQ(npusim_wait(session, &error), NPUSIM_OK);
  EXPECT_EQ(y[5], 30);
  ASSERT_EQ(npusim_bind_output(session, "main", "y", nullptr, &error), NPUSIM_OK);
  npusim_session* sibling = nullptr;
  ASSERT_EQ(npusim_open_sibling(session, &sibling, &error), NPUSIM_OK);
  EXPECT_EQ(npusim_seed(sibling, 7, &error), NPUSIM_OK);
  EXPECT_EQ(npusim_reset_states(sibling, &error), NPUSIM_OK);
  EXPECT_EQ(npusim_run(sibling, "main", 2, &error), NPUSIM_OK);
  npusim_session_free(sibling);
}

TEST_F(CWall, RunsOnMemoryOfTheDevice) {
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {};
  npusim_view in{NPUSIM_FLOAT32, 2, two_three, x};
  const npusim_span out{NPUSIM_FLOAT32, 2, two_three, y};
  ASSERT_EQ(npusim_bind_device_input(session, "main", "x", "cpu", &in, &error), NPUSIM_OK) << text();
  ASSERT_EQ(npusim_bind_device_output(session, "main", "y", "cpu", &out, &error), NPUSIM_OK) << text();
  x[5] = 7;
  ASSERT_EQ(npusim_run(session, "main", 1, &error), NPUSIM_OK);
  EXPECT_EQ(y[5], 37);
  EXPECT_EQ(npusim_bind_device_input(session, "main", "x", "cuda:0", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "input 'x': expected memory of cpu, found cuda:0");
  EXPECT_EQ(npusim_bind_device_output(session, "main", "y", nullptr, &out, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "device is NULL");
  in.data = nullptr;
  EXPECT_EQ(npusim_bind_device_input(session, "main", "x", "cpu", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "input 'x': expected memory of cpu, found none");
  EXPECT_EQ(npusim_bind_device_input(session, "main", "x", "cpu", nullptr, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "memory is NULL");
  EXPECT_EQ(npusim_bind_input(session, "main", "x", nullptr, &error), NPUSIM_OK);
}

TEST_F(CWall, TellsWhatAProgramTakes) {
  EXPECT_EQ(npusim_method_count(program), 1u);
  EXPECT_STREQ(npusim_method_name(program, 0), "main");
  EXPECT_EQ(npusim_method_name(program, 1), nullptr);
  EXPECT_EQ(npusim_input_count(program, "main"), 1u);
  EXPECT_EQ(npusim_output_count(program, "main"), 1u);
  EXPECT_EQ(npusim_input_count(program, "other"), 0u);
  npusim_tensor_info info{};
  ASSERT_EQ(npusim_find_input(program, "main", "x", &info, &error), NPUSIM_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.bytes, 24u);
  EXPECT_EQ(info.state, 0);
  ASSERT_EQ(npusim_output_at(program, "main", 0, &info, &error), NPUSIM_OK);
  EXPECT_STREQ(info.name, "y");
  EXPECT_EQ(npusim_output_at(program, "main", 1, &info, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "there is no position 1 of 1");
  EXPECT_EQ(npusim_find_output(program, "main", "z", &info, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "there is no tensor z");
}

TEST_F(CWall, RefusesWhatIsWrong) {
  const float x[6] = {};
  npusim_view in{NPUSIM_FLOAT32, 2, two_three, x};
  EXPECT_EQ(npusim_set_input(nullptr, "main", "x", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "session is NULL");
  EXPECT_EQ(npusim_set_input(session, nullptr, "x", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "method is NULL");
  EXPECT_EQ(npusim_set_input(session, "main", "q", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "no input q: method 'main' has x");
  in.dtype = NPUSIM_FLOAT64;
  EXPECT_EQ(npusim_set_input(session, "main", "x", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "input 'x': expected float32[2, 3], found float64[2, 3]");
  in.dtype = static_cast<npusim_dtype>(10);
  EXPECT_EQ(npusim_set_input(session, "main", "x", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "there is no dtype 10");
  in = {NPUSIM_FLOAT32, 2, two_three, nullptr};
  EXPECT_EQ(npusim_bind_input(session, "main", "x", &in, nullptr), NPUSIM_USAGE);  // nobody asks for the text
  in = {NPUSIM_FLOAT32, 2, nullptr, x};
  EXPECT_EQ(npusim_bind_input(session, "main", "x", &in, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "the tensor's shape is NULL");
  npusim_program* none = program;
  EXPECT_EQ(npusim_load_program("/nowhere/p.npubin", &none, &error), NPUSIM_BAD_INPUT);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(text().find("/nowhere/p.npubin"), std::string::npos);
  EXPECT_EQ(npusim_load_program(nullptr, &none, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "path is NULL");
  EXPECT_EQ(npusim_load_program_without_code("/nowhere/p.npubin", &none, &error), NPUSIM_BAD_INPUT);
  EXPECT_NE(text().find("/nowhere/p.npubin"), std::string::npos);
  EXPECT_EQ(npusim_parse_program_without_code(nullptr, 0, &none, &error), NPUSIM_USAGE);
  EXPECT_NE(text(), "");
  npusim_tensors* no_tensors = nullptr;
  EXPECT_EQ(npusim_read_tensors("/nowhere/w.safetensors", &no_tensors, &error), NPUSIM_BAD_INPUT);
  EXPECT_NE(text().find("/nowhere/w.safetensors"), std::string::npos);
  npusim_session* without_weights = session;
  EXPECT_EQ(npusim_open_session(program, nullptr, &without_weights, &error), NPUSIM_BAD_INPUT);
  EXPECT_EQ(without_weights, nullptr);
  EXPECT_EQ(npusim_error_status(error), NPUSIM_BAD_INPUT);
  ASSERT_EQ(npusim_error_count(error), 1u);
  EXPECT_STREQ(npusim_error_where(error, 0), "weight w");
  EXPECT_STREQ(npusim_error_where(error, 1), "");
}

TEST_F(CWall, TellsEveryProblemOfACompilation) {
  const npusim_method_source method{nullptr, "two.json", unknown_ir.c_str()};
  npusim_program* none = nullptr;
  EXPECT_EQ(npusim_compile(&method, 1, nullptr, &none, &error), NPUSIM_UNSUPPORTED);
  EXPECT_EQ(none, nullptr);
  ASSERT_GE(npusim_error_count(error), 2u);  // another one where there is no plugin
  EXPECT_STREQ(npusim_error_where(error, 0), "two.json");
  EXPECT_NE(std::strstr(npusim_error_reason(error, 0), "aten.unheard.default"), nullptr);
  text();
  npusim_compile_options options{};
  options.size = sizeof options;
  options.target = "abacus";
  const npusim_method_source add{nullptr, nullptr, add_ir.c_str()};
  EXPECT_EQ(npusim_compile(&add, 1, &options, &none, &error), NPUSIM_USAGE);
  text();
  options = {};
  options.size = sizeof options;
  options.disabled_fusions = "all,nothing_of_the_kind";
  EXPECT_EQ(npusim_compile(&add, 1, &options, &none, &error), NPUSIM_USAGE);
  EXPECT_NE(text().find("nothing_of_the_kind"), std::string::npos);
  EXPECT_EQ(npusim_compile(&add, 0, nullptr, &none, &error), NPUSIM_USAGE);
}

TEST_F(CWall, WhatTheCpuRuns) {
  const npusim_method_source add{nullptr, nullptr, add_ir.c_str()};
  const std::string path = testing::TempDir() + "c_wall_what_the_cpu_runs.npubin";
  // How many devices the program has; 0: it is refused.
  const auto devices = [&](const npusim_compile_options& options, npusim_status expected = NPUSIM_OK) -> size_t {
    npusim_program* other = nullptr;
    EXPECT_EQ(npusim_compile(&add, 1, &options, &other, &error), expected);
    if (!other) return 0;
    EXPECT_EQ(npusim_save_program(other, path.c_str(), &error), NPUSIM_OK);
    npusim_program_free(other);
    return program_info(*load_program(path)).targets.size();
  };
  npusim_compile_options options{};
  options.size = sizeof options;
  options.target = "null";
  EXPECT_EQ(devices(options), 1u);
  options.force_cpu = "aten.add,add";
  EXPECT_EQ(devices(options), 2u);
  options.force_cpu = "add,relu";
  EXPECT_EQ(devices(options, NPUSIM_USAGE), 0u);
  EXPECT_EQ(text(), "--force-cpu relu: no node of the model is of this operator");
  options.force_cpu = "add";
  options.no_fallback = 1;
  EXPECT_EQ(devices(options, NPUSIM_USAGE), 0u);
  EXPECT_EQ(text(), "--force-cpu and --no-fallback: expected one of them");
  options.force_cpu = nullptr;
  options.no_fallback = 0;
  options.plan_json = R"({"methods": {"main": {"cpu": {"y": "because"}}}})";
  EXPECT_EQ(devices(options), 2u);
}

TEST_F(CWall, NamesThePlugin) {
  const npusim_method_source method{nullptr, "two.json", unknown_ir.c_str()};
  npusim_program* none = nullptr;
  ASSERT_EQ(npusim_use_aten_plugin("/nowhere/plugin.so", &error), NPUSIM_OK);
  EXPECT_EQ(npusim_compile(&method, 1, nullptr, &none, &error), NPUSIM_UNSUPPORTED);
  EXPECT_NE(text().find("/nowhere/plugin.so"), std::string::npos);
  EXPECT_EQ(npusim_use_aten_plugin(nullptr, &error), NPUSIM_OK);
}

// A program of an older header has less to say.
TEST_F(CWall, OptionsHaveASize) {
  npusim_compile_options options{};
  options.size = offsetof(npusim_compile_options, dtype);
  options.target = "cpu";
  options.dtype = "beyond what the size covers";
  const npusim_method_source add{nullptr, nullptr, add_ir.c_str()};
  npusim_program* other = nullptr;
  EXPECT_EQ(npusim_compile(&add, 1, &options, &other, &error), NPUSIM_OK) << npusim_error_text(error);
  npusim_program_free(other);
  options.size = 0;
  EXPECT_EQ(npusim_compile(&add, 1, &options, &other, &error), NPUSIM_USAGE);
  EXPECT_EQ(text(), "the options' size is not set");
}

TEST_F(CWall, MethodsThatFeedThemselves) {
  npusim_compile_options options{};
  options.size = sizeof options;
  const npusim_method_source decode{"decode", NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/decode_ir.json", nullptr};
  for (const int text : {-1, 0, 1}) {
    options.text = text;
    npusim_program* other = nullptr;
    ASSERT_EQ(npusim_compile(&decode, 1, &options, &other, &error), NPUSIM_OK) << npusim_error_text(error);
    EXPECT_EQ(npusim_method_count(other), text == 1 ? 4u : 1u);
    npusim_program_free(other);
  }
}

TEST(C, VersionsAreThose) {
  EXPECT_EQ(npusim_abi_version(), NPUSIM_ABI_VERSION);
  EXPECT_STRNE(npusim_version(), "");
  EXPECT_EQ(npusim_error_count(nullptr), 0u);
  EXPECT_STREQ(npusim_error_text(nullptr), "");
}

TEST_F(CWall, BoundsCountsAndBudgets) {
  npusim_session* other = nullptr;
  npusim_session_options with{};
  with.size = sizeof with;
  with.weights = weights;
  for (const int threads : {-1, 4097, 100000}) {
    with.threads = threads;
    EXPECT_EQ(npusim_open_session(program, &with, &other, &error), NPUSIM_USAGE);
    EXPECT_EQ(text(), "threads: expected 1 to 4096, or 0 for npusim's choice, found " + std::to_string(threads));
  }
  with.threads = 1;
  with.max_bytes = 7;
  EXPECT_EQ(npusim_open_session(program, &with, &other, &error), NPUSIM_UNSUPPORTED);
  EXPECT_NE(text().find("max_bytes allows 7"), std::string::npos);
  with.size = offsetof(npusim_session_options, max_bytes);  // a caller whose header has none
  EXPECT_EQ(npusim_open_session(program, &with, &other, &error), NPUSIM_OK);
  npusim_session_free(other);
  const npusim_method_source method{"main", nullptr, add_ir.c_str()};
  npusim_compile_options options{};
  options.size = sizeof options;
  options.max_flops = 1;
  npusim_program* none = nullptr;
  EXPECT_EQ(npusim_compile(&method, 1, &options, &none, &error), NPUSIM_UNSUPPORTED);
  EXPECT_NE(text().find("max_flops allows 1"), std::string::npos);
  EXPECT_EQ(npusim_run(session, "main", -1, &error), NPUSIM_USAGE);
  text();
}

TEST_F(CWall, IsCancelledFromAnotherThread) {
  EXPECT_EQ(npusim_cancel(nullptr), 0);
  EXPECT_EQ(npusim_cancel(session), 0);
  npusim_status status = NPUSIM_OK;
  std::thread worker([&] { status = npusim_run(session, "main", std::numeric_limits<int>::max(), &error); });
  while (!npusim_cancel(session)) std::this_thread::yield();
  worker.join();
  EXPECT_EQ(status, NPUSIM_CANCELLED);
  EXPECT_EQ(npusim_error_status(error), NPUSIM_CANCELLED);
  text();
  EXPECT_EQ(npusim_run(session, "main", 1, &error), NPUSIM_OK);
}

}  // namespace
}  // namespace npusim::test
