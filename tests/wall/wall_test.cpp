// The library as its users have it: nothing but include/npusim.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "npusim/compare.h"
#include "npusim/compiler.h"
#include "npusim/machine.h"
#include "npusim/session.h"
#include "npusim/text.h"
#include "wall/models.h"

namespace npusim::test {
namespace {

std::shared_ptr<const Program> compile_add(const CompileOptions& options = {.dtype = "float32"}) {
  return compile({{.path = "add", .json = add_ir}}, options).program;
}

std::shared_ptr<const TensorSet> weights_of(const std::vector<float>& w) {
  const auto owner = std::make_shared<const std::vector<float>>(w);
  return make_tensors({{"w", view_of(*owner, {3})}}, owner);
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::internal, "none");
}

TEST(Wall, RunsOnTheCallersMemoryByName) {
  Session session(compile_add(), {.weights = weights_of({10, 20, 30})});
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::array<float, 6> y{};
  session.bind_input("main", "x", view_of(x, {2, 3}));
  session.bind_output("main", std::string("y"), span_of(y, {2, 3}));
  session.run("main");
  EXPECT_EQ(y, (std::array<float, 6>{11, 22, 33, 14, 25, 36}));
  x[0] = 7;
  session.enqueue("main");
  session.wait();
  EXPECT_EQ(y[0], 17);
}

TEST(Wall, NamesAndPositionsAreTheSame) {
  Session session(compile_add(), {.weights = weights_of({0, 0, 0})});
  EXPECT_EQ(session.method("main"), 0u);
  EXPECT_EQ(session.input_position("main", "x"), session.input_position(0, 0));
  EXPECT_EQ(session.output_position("main", "y"), 0u);
  session.set_input("main", "x", view_of(std::array<float, 6>{1, 2, 3, 4, 5, 6}, {2, 3}));
  session.run(0);
  const TensorView y = session.output_view("main", "y");
  EXPECT_EQ(y.type, (TensorType{DType::f32, {2, 3}}));
  EXPECT_EQ(std::memcmp(y.data, session.output(0, 0).data(), byte_size(y.type)), 0);
  EXPECT_EQ(load_double(y.data, y.type.dtype, 5), 6);
}

TEST(Wall, WrongNamesPositionsAndTypesAreRefusedByName) {
  Session session(compile_add(), {.weights = weights_of({0, 0, 0})});
  const auto usage = [](const std::function<void()>& body) {
    const Error error = error_of(body);
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return std::string(error.what());
  };
  EXPECT_EQ(usage([&] { session.run("other"); }), "no method other: the program has main");
  EXPECT_EQ(usage([&] { session.run(1); }), "no method at position 1: the program has main");
  EXPECT_EQ(usage([&] { session.input("main", "z"); }), "no input z: method 'main' has x");
  EXPECT_EQ(usage([&] { session.output("main", 3); }), "no output at position 3: method 'main' has y");
  const std::array<double, 6> doubles{};
  EXPECT_EQ(usage([&] {
              session.set_input("main", "x", view_of(doubles, {2, 3}));
            }),
            "input 'x': expected float32[2, 3], found float64[2, 3]");
  std::array<float, 6> floats{};
  EXPECT_EQ(usage([&] {
              session.bind_input("main", "x", view_of(floats, {3, 2}));
            }),
            "input 'x': expected float32[2, 3], found float32[3, 2]");
  EXPECT_EQ(usage([&] { session.bind_output("main", "y", span_of(floats, {6})); }),
            "output 'y': expected float32[2, 3], found float32[6]");
  EXPECT_EQ(usage([&] { view_of(floats, {2, 2}); }), "expected 4 elements for float32[2, 2], found 6");
  EXPECT_EQ(usage([&] { session.run_step("main", 99); }).substr(0, 10), "no step 99");
  EXPECT_EQ(usage([&] { static_cast<void>(session.device(5)); }), "no device 5: the program has 1");
  EXPECT_EQ(usage([&] { open_backend("abacus"); }).substr(0, 22), "unknown device abacus:");
}

TEST(Wall, TheLastWordOnABoundPortCounts) {
  Session session(compile_add(), {.weights = weights_of({1, 1, 1})});
  std::array<float, 6> x{1, 1, 1, 1, 1, 1}, y{};
  session.bind_output("main", "y", span_of(y, {2, 3}));
  session.bind_input("main", "x", view_of(x, {2, 3}));
  session.run("main");
  EXPECT_EQ(y[0], 2);
  session.bind_output("main", "y", std::span<std::byte>());
  x[0] = 5;
  session.run("main");
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(load_double(session.output("main", "y").data(), DType::f32, 0), 6);
}

TEST(Wall, ProblemsAreAList) {
  const Error unsupported = error_of([] { compile({{.path = "two.json", .json = unknown_ir}}); });
  EXPECT_EQ(unsupported.kind(), ErrorKind::unsupported);
  ASSERT_GE(unsupported.problems().size(), 2u);  // another one where there is no plugin
  EXPECT_EQ(unsupported.problems()[0].where, "two.json");
  EXPECT_NE(unsupported.problems()[1].reason.find("aten.unseen.default"), std::string::npos);
  std::string lines;
  for (const Problem& problem : unsupported.problems()) lines += (lines.empty() ? "" : "\n") + to_string(problem);
  EXPECT_EQ(lines, unsupported.what());

  std::string wrong = add_ir;
  wrong.replace(wrong.rfind("[2, 3]"), 6, "[2, 4]");
  const Error bad = error_of([&] { compile({{.path = "add.json", .json = wrong}}); });
  EXPECT_EQ(bad.kind(), ErrorKind::bad_input);
  EXPECT_EQ(bad.problems().at(0).where, "add.json: node 'y' (aten.add.Tensor)");

  const Error missing = error_of([] { Session session(compile_add()); });
  EXPECT_EQ(missing.kind(), ErrorKind::bad_input);
  ASSERT_EQ(missing.problems().size(), 1u);
  EXPECT_EQ(missing.problems()[0].where, "weight w");
  EXPECT_EQ(missing.problems()[0].reason, "float32[3] is not in any weight file: none was given");

  const Error rank = error_of([] {
    compile({{.path = "add", .json = add_ir}},
            {.config = {.path = "rules", .json = R"({"max_rank": 1})"}, .fallback = false});
  });
  EXPECT_EQ(rank.kind(), ErrorKind::unsupported);
  ASSERT_GE(rank.problems().size(), 2u);
  EXPECT_TRUE(rank.problems()[0].where.starts_with("node y")) << rank.problems()[0].where;
}

TEST(Wall, OptionsAreTextToo) {
  const auto message = [](const CompileOptions& options) {
    return std::string(error_of([&] { compile_add(options); }).what());
  };
  EXPECT_EQ(message({.config = {.path = "rules", .json = R"({"colour": 1})"}}).substr(0, 42),
            "rules: unknown field colour: expected name");
  EXPECT_EQ(message({.config = {.path = "rules", .json = R"({"memory_gb_s": 5})"}}),
            R"(rules: memory_gb_s is a field of machine: expected {"machine": {"memory_gb_s": 5}})");
  EXPECT_EQ(message({.config = {.path = "rules", .json = R"({"machine": {"unit": 5}})"}}),
            "rules: unknown field machine.unit: expected units, unit_bytes, block_bytes, memory_gb_s, gflop_s, "
            "gflop_s_16_bit, link_gb_s, link_us; did you mean units?");
  EXPECT_EQ(message({.config = {.path = "rules", .json = R"({"own": {"cache_bytes": 5}})"}}),
            "rules: unknown field own.cache_bytes: expected none");
  EXPECT_EQ(message({.config = {.path = "rules", .json = R"({"machine": [1]})"}}),
            "rules: machine must be an object, found [1]");
  EXPECT_EQ(message({.config = {.path = "", .json = "[]"}}), "config: expected a JSON object, found array");
  EXPECT_EQ(message({.kv_map = {.path = "", .json = "{}"}}), "--kv-map needs two methods");
}

TEST(Wall, ProgramsAreBytesToo) {
  const std::shared_ptr<const Program> program = compile_add();
  const std::string bytes = serialize(*program);
  EXPECT_EQ(serialize(*parse_program(bytes, "memory")), bytes);
  EXPECT_EQ(error_of([&] { parse_program(bytes.substr(0, bytes.size() / 2), "half"); }).kind(), ErrorKind::bad_input);
}

TEST(Wall, ProgramsSayWhatTheyTakeAndGive) {
  const std::shared_ptr<const Program> program = compile_add();
  EXPECT_EQ(method_names(*program), std::vector<std::string>{"main"});
  const std::vector<TensorInfo> inputs = method_inputs(*program, "main");
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_FALSE(inputs[0].state);
  const ProgramInfo info = program_info(*program);
  EXPECT_EQ(info.dtype, DType::f32);
  EXPECT_EQ(info.targets, std::vector<std::string>{"cpu"});
  EXPECT_EQ(info.weights_bytes, 12u);
  EXPECT_EQ(method_work(*program, "main").written_bytes, 24u);
  EXPECT_EQ(step_names(*program, "main"), std::vector<std::string>{"y"});
  EXPECT_EQ(used_dtypes(*program), std::vector<DType>{DType::f32});
}

TEST(Wall, WeightsFromMemoryLiveAsLongAsTheyAreUsed) {
  auto owner = std::make_shared<const std::vector<float>>(3, 2.0f);
  const std::weak_ptr<const std::vector<float>> watched = owner;
  std::optional<Session> session;
  {
    const auto weights = make_tensors({{"w", view_of(*owner, {3})}}, owner);
    session.emplace(compile_add(), SessionOptions{.weights = weights});
  }
  owner.reset();
  session->run("main");
  EXPECT_EQ(load_double(session->output("main", "y").data(), DType::f32, 0), 2);
  Session other = session->sibling();
  session.reset();
  other.run("main");
  EXPECT_EQ(load_double(other.output("main", "y").data(), DType::f32, 5), 2);
  { const Session gone = std::move(other); }
  EXPECT_TRUE(watched.expired());
}

TEST(Wall, SetsOfTensorsFromMemory) {
  const std::array<float, 3> w{1, 2, 3};
  const auto twice = [&] { make_tensors({{"w", view_of(w, {3})}, {"w", view_of(w, {3})}}); };
  EXPECT_STREQ(error_of(twice).what(), "tensor \"w\" is given twice");
  EXPECT_EQ(error_of([] { make_tensors({{"w", {{DType::f32, {3}}, nullptr}}}); }).kind(), ErrorKind::usage);
  alignas(8) std::array<std::byte, 16> odd{};
  std::memcpy(odd.data() + 1, w.data(), 12);
  const auto set = make_tensors({{"w", {{DType::f32, {3}}, odd.data() + 1}}});
  const TensorView& found = get_tensor(*set, "w");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found.data) % 4, 0u);
  EXPECT_EQ(load_double(found.data, DType::f32, 2), 3);
  EXPECT_EQ(find_tensor(*set, "v"), nullptr);
  EXPECT_EQ(tensor_entries(*set).size(), 1u);
}

// Rotary frequencies that a checkpoint leaves out are made from the config.json beside it, never from one that happens
// to be in the working directory.
TEST(Wall, WeightsFromMemoryHaveNothingBesideThem) {
  std::string ir = add_ir;
  for (size_t at = 0; (at = ir.find("\"w\"", at)) != std::string::npos;) ir.replace(at, 3, "\"inv_freq\"");
  const auto program = compile({{.path = "add", .json = ir}}, {.dtype = "float32"}).program;
  const auto before = std::filesystem::current_path(), folder = std::filesystem::path(testing::TempDir()) / "wall_rope";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  std::ofstream("config.json") << R"({"head_dim": 6, "rope_theta": 1e4})";
  write_safetensors("empty.safetensors", {});
  const Error missing = error_of([&] { Session session(program, {.weights = make_tensors({})}); });
  Session beside(program, {.weights = open_tensors("empty.safetensors")});
  std::filesystem::current_path(before);
  EXPECT_STREQ(missing.what(), "weight inv_freq: float32[3] is not in memory");
  beside.run("main");
  EXPECT_EQ(load_double(beside.output("main", "y").data(), DType::f32, 0), 1);
}

TEST(Wall, ReadsTensorFiles) {
  const std::string path = testing::TempDir() + "wall";
  const std::array<float, 2> values{1, -1};
  write_npy(path + ".npy", view_of(values, {2}));
  const std::array tensors{NamedTensor{"v", view_of(values, {2})}};
  write_safetensors(path + ".safetensors", tensors);
  for (const char* kind : {".npy", ".safetensors"}) {
    const auto set = read_tensors(path + kind);
    ASSERT_EQ(tensor_entries(*set).size(), 1u);
    EXPECT_EQ(load_double(tensor_entries(*set)[0].tensor.data, DType::f32, 1), -1);
  }
  EXPECT_EQ(to_doubles(get_tensor(*open_tensors(path + ".safetensors"), "v")), (std::vector<double>{1, -1}));
}

TEST(Wall, ReferenceAndNormsAgreeOnARun) {
  HostTensor x = make_tensor({DType::f32, {2, 3}});
  for (int64_t i = 0; i < 6; ++i) store_double(x.data.data(), DType::f32, i, static_cast<double>(i * i));
  const auto weights = weights_of({1, 2, 3});
  Session session(compile_add(), {.weights = weights});
  session.set_input("main", "x", view_of(x));
  session.run("main");
  const std::vector<HostTensor> expected = evaluate_ir({.path = "add", .json = add_ir}, {x}, weights.get()).outputs;
  const Comparison c = compare(to_doubles(session.output_view("main", "y")), to_doubles(view_of(expected.at(0))), 3);
  EXPECT_EQ(c.l0, 0);
  EXPECT_EQ(c.relative_l2, 0);
}

TEST(Wall, TheMachineIsKnown) {
  EXPECT_GE(thread_count(), 1);
  EXPECT_STRNE(instruction_set_name(), "");
  EXPECT_FALSE(list_devices().empty());
}

TEST(Wall, ATextModelIsAskedForByName) {
  const Error error = error_of([] { check_text_model(*compile_add()); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_EQ(error_of([] { make_tokenizer("{", "t.json"); }).kind(), ErrorKind::bad_input);
}

}  // namespace
}  // namespace npusim::test
