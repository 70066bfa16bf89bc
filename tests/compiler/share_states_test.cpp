// States that the IR names: what a run leaves in them, and what other methods of the program read of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "npusim/compiler.h"
#include "npusim/program.h"
#include "npusim/session.h"
#include "program/program.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

Json tensor(const std::string& name, const Shape& shape, const std::string& dtype = "float32") {
  return {{"name", name}, {"shape", shape}, {"dtype", dtype}};
}

Json node(const std::string& name, const std::string& op, const std::vector<Json>& inputs, const Json& attrs) {
  return {{"name", name},
          {"op_type", op},
          {"inputs", inputs},
          {"outputs", {tensor(name, inputs[0]["shape"])}},
          {"attrs", attrs}};
}

MethodSource method(const std::string& name, const std::vector<Json>& inputs, const std::vector<Json>& nodes,
                    const std::vector<Json>& outputs, const Json& states, const std::vector<Json>& weights = {}) {
  const Json json = {
      {"graph_inputs", inputs}, {"graph_outputs", outputs}, {"weights", weights}, {"nodes", nodes}, {"states", states}};
  return {name, name, json.dump()};
}

std::shared_ptr<const Program> compiled(const std::vector<MethodSource>& sources) {
  CompileOptions options;
  options.dtype = "float32";
  return compile(sources, options).program;
}

std::string error_of(const std::vector<MethodSource>& sources) {
  try {
    compiled(sources);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  return "none";
}

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Session open(const std::shared_ptr<const Program>& program) {
  return Session(program, {.weights = {}, .devices = {}, .threads = 1});
}

// What a node or an input of the same name as `from` is, as an output.
Json shown(const std::string& name, const std::string& from, const Shape& shape) {
  Json json = tensor(name, shape);
  json["producer_node"] = from, json["producer_output_idx"] = 0;
  return json;
}

std::vector<float> numbers(const Shape& shape, float first) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<float> plus(std::vector<float> values, float more) {
  for (float& value : values) value += more;
  return values;
}

void give(Session& session, const std::string& method, const std::string& name, const std::vector<float>& values) {
  session.set_input(method, name, std::as_bytes(std::span(values)));
}

// Two states that change places, one of them made larger; both are shown as they were.
TEST(States, ThatChangePlaces) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{0}, Shape{3, 7}}) {
    const Json a = tensor("a", shape), b = tensor("b", shape);
    Session session = open(compiled({method("main", {a, b}, {node("more", "aten.add.Tensor", {a}, {{"other", 1}})},
                                            {shown("a_was", "a", shape), shown("b_was", "b", shape),
                                             shown("a_next", "b", shape), shown("b_next", "more", shape)},
                                            {{"a", "a_next"}, {"b", "b_next"}})}));
    std::vector<float> first = numbers(shape, 1), second = numbers(shape, 100);
    give(session, "main", "a", first), give(session, "main", "b", second);
    for (int run = 0; run < 4; ++run) {
      session.run("main");
      EXPECT_EQ(floats(session.output("main", "a_was")), first);
      EXPECT_EQ(floats(session.output("main", "b_was")), second);
      std::swap(first, second), second = plus(second, 1);
      EXPECT_EQ(floats(session.output("main", "a_next")), first);
      EXPECT_EQ(floats(session.output("main", "b_next")), second);
    }
  }
}

// A state begins with the weight of its name, in each session and after each reset; one that no weight is named as with
// zeros.
TEST(States, BeginWithWeights) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{3, 7}})
    for (const DType dtype : {DType::f32, DType::f16}) {
      const auto program =
          compiled({method("main", {tensor("a", shape), tensor("b", shape)},
                           {node("more", "aten.add.Tensor", {tensor("a", shape), tensor("b", shape)}, Json::object())},
                           {shown("was", "a", shape), shown("a_next", "more", shape), shown("b_next", "b", shape)},
                           {{"a", "a_next"}, {"b", "b_next"}})});
      const std::vector<float> first = numbers(shape, 1);
      HostTensor weight = make_tensor({DType::f32, shape});
      if (!first.empty()) std::memcpy(weight.data.data(), first.data(), first.size() * sizeof(float));
      weight = convert_tensor(view_of(weight), dtype);
      const auto weights = make_tensors({{"a", view_of(weight)}});
      Session session(program, {.weights = weights, .devices = {}, .threads = 1});
      Session beside = session.sibling();
      const std::vector<float> ones(first.size(), 1.0F), zeros(first.size(), 0.0F);
      give(session, "main", "b", ones);
      for (int run = 0; run < 3; ++run) {
        session.run("main");
        EXPECT_EQ(floats(session.output("main", "was")), plus(first, static_cast<float>(run)));
      }
      beside.run("main");
      EXPECT_EQ(floats(beside.output("main", "a_next")), first);
      session.reset_states();
      session.run("main");
      EXPECT_EQ(floats(session.output("main", "a_next")), first);
      EXPECT_EQ(floats(session.output("main", "b_next")), zeros);
    }
  const auto program =
      compiled({method("main", {tensor("a", {2})}, {}, {shown("a_next", "a", {2})}, {{"a", "a_next"}})});
  for (const TensorType& type : {TensorType{DType::f32, {3}}, TensorType{DType::i32, {2}}}) {
    const HostTensor weight = make_tensor(type);
    try {
      Session(program, {.weights = make_tensors({{"a", view_of(weight)}}), .devices = {}, .threads = 1});
      ADD_FAILURE() << to_string(type);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_EQ(std::string(error.what()),
                "weight 'a': is the first value of a state: expected float32[2], found " + to_string(type));
    }
  }
}

// One that a node writes in part, while another one still reads what it was.
TEST(States, WrittenInPartAndReadBehind) {
  const Shape shape{6}, part{2};
  const Json w = tensor("w", shape), x = tensor("x", part);
  Session session = open(compiled(
      {method("main", {w, x},
              {node("put", "aten.slice_scatter.default", {w, x}, {{"dim", 0}, {"start", 1}, {"end", 3}}),
               node("twice", "aten.mul.Tensor", {w}, {{"other", 2}}),
               node("again", "aten.slice_scatter.default", {shown("put", "put", shape), x},
                    {{"dim", 0}, {"start", 2}, {"end", 4}})},
              {tensor("twice", shape), tensor("put", shape), shown("w_next", "again", shape)}, {{"w", "w_next"}})}));
  std::vector<float> state = numbers(shape, 1);
  give(session, "main", "w", state);
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> given = numbers(part, static_cast<float>(10 * run));
    give(session, "main", "x", given);
    session.run("main");
    std::vector<float> twice = state;
    for (float& value : twice) value *= 2;
    EXPECT_EQ(floats(session.output("main", "twice")), twice);
    std::copy(given.begin(), given.end(), state.begin() + 1);
    EXPECT_EQ(floats(session.output("main", "put")), state);
    std::copy(given.begin(), given.end(), state.begin() + 2);
    EXPECT_EQ(floats(session.output("main", "w_next")), state);
  }
}

// A method adds 1 to a state in each run, another one reads it as its weight, a third has nothing to do with it though
// its result looks like it. In a file too.
TEST(States, ThatOtherMethodsRead) {
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3}}) {
    const Json n = tensor("part.n", shape), y = tensor("y", shape);
    const MethodSource count = method("count", {n}, {node("more", "aten.add.Tensor", {n}, {{"other", 1}})},
                                      {shown("n_next", "more", shape)}, {{"part.n", "n_next"}});
    const MethodSource read = method("read", {y}, {node("sum", "aten.add.Tensor", {y, n}, Json::object())},
                                     {tensor("sum", shape)}, Json::object(), {n});
    const MethodSource other = method("other", {y}, {node("ten", "aten.mul.Tensor", {y}, {{"other", 10}})},
                                      {tensor("ten", shape)}, Json::object());
    for (const std::vector<MethodSource>& sources :
         {std::vector{count, read, other}, std::vector{other, read, count}}) {
      const auto made = compiled(sources);
      const auto loaded = parse_program(serialize(*made), "program");
      for (const auto& program : {made, loaded}) {
        Session session = open(program);
        give(session, "count", "part.n", numbers(shape, 5));
        give(session, "read", "y", numbers(shape, 0)), give(session, "other", "y", numbers(shape, 0));
        for (int run = 0; run < 3; ++run) {
          session.run("read");
          std::vector<float> sum = numbers(shape, 5);
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(i) + static_cast<float>(run);
          EXPECT_EQ(floats(session.output("read", "sum")), sum);
          session.run("other");
          session.run("count");
          EXPECT_EQ(floats(session.output("count", "n_next")), plus(numbers(shape, 6), static_cast<float>(run)));
        }
      }
    }
  }
}

TEST(States, OfOneTypeAndOneValue) {
  const Json n = tensor("n", {4}), m = tensor("m", {4}), wider = tensor("n", {8}), y = tensor("y", {8});
  const Json more = node("more", "aten.add.Tensor", {n}, {{"other", 1}});
  const MethodSource count = method("count", {n}, {more}, {shown("n_next", "more", {4})}, {{"n", "n_next"}});
  const MethodSource read = method("read", {y}, {node("sum", "aten.add.Tensor", {y, wider}, Json::object())},
                                   {tensor("sum", {8})}, Json::object(), {wider});
  EXPECT_EQ(error_of({count, read}),
            "method 'read': weight 'n' is float32[8], and float32[4] as a state of method 'count'");
  const std::string twice =
      error_of({method("count", {n, m}, {more}, {shown("n_next", "more", {4})}, {{"n", "n_next"}, {"m", "n_next"}})});
  EXPECT_NE(twice.find("expected an output of its own, 'n_next' is another input's next value"), std::string::npos)
      << twice;
}

}  // namespace
}  // namespace npusim
