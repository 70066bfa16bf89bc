// Calls nobody would write: each gives a graph or an Error, for every op there is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/import.h"
#include "graph/ir.h"

namespace npusim {
namespace {

using test::Strings;

// What one call is made of: the operands' type, the elements of lists, and how attributes are filled.
struct Form {
  std::string shape;
  std::string dtype;
  int elements;
  std::string integer;
  int number_at;  // this Tensor argument is a number (-1: none)
};

std::string attribute(const SchemaArg& arg, const Form& form) {
  switch (arg.kind) {
    case ArgKind::boolean:
      return form.elements ? "true" : "false";
    case ArgKind::dtype:
      return "\"torch.float32\"";
    case ArgKind::text:
      return "\"none\"";
    case ArgKind::int_list:
      return "[" + form.integer + "," + form.integer + "]";
    case ArgKind::real_list:
      return "[0.5]";
    case ArgKind::bool_list:
      return "[true,false]";
    default:
      return form.integer;
  }
}

std::string call_of(const Op& op, const Form& form) {
  Strings inputs, outputs, attrs, sizes;
  int tensors = 0;
  for (const SchemaArg& arg : op.schema.args) {
    if (arg.kind == ArgKind::tensor) {
      if (tensors++ == form.number_at)
        attrs.push_back(fmt::format("\"{}\":2.5", arg.name));
      else
        inputs.push_back(test::read("x", form.shape, form.dtype));
    } else if (arg.kind == ArgKind::tensor_list) {
      for (int i = 0; i < form.elements; ++i) inputs.push_back(test::read("x", form.shape, form.dtype));
      sizes.push_back(std::to_string(form.elements));
    } else if (arg.kind != ArgKind::ignored) {
      attrs.push_back(fmt::format("\"{}\":{}", arg.name, attribute(arg, form)));
    }
  }
  if (!sizes.empty()) attrs.push_back("\"_tensor_list_sizes\":" + test::list(sizes));
  const int results = op.schema.results < 0 ? 2 : op.schema.results;
  for (int i = 0; i < results; ++i)
    outputs.push_back(test::tensor(results == 1 ? "y" : fmt::format("y_{}", i), form.shape, form.dtype));
  test::Ir ir;
  ir.inputs = {test::tensor("x", form.shape, form.dtype)};
  ir.nodes = {test::node("y", op.name(), inputs, outputs, fmt::format("{{{}}}", fmt::join(attrs, ",")))};
  return ir.json();
}

TEST(Hostile, EveryOp) {
  const Form forms[] = {{"[]", "float32", 0, "0", -1},
                        {"[]", "int64", 1, "-1", -1},
                        {"[0]", "float32", 2, "0", -1},
                        {"[2]", "bool", 1, "1", -1},
                        {"[2,3]", "float32", 2, "2", -1},
                        {"[2,3]", "int64", 1, "-3", 0},
                        {"[2,3]", "float32", 2, "1", 1},
                        {"[2,3]", "float32", 1, "1", 2},
                        {"[1,0,3]", "float16", 1, "-1", -1},
                        {"[1,2,3,4]", "bfloat16", 2, "1", -1},
                        {"[1,2,3,4]", "float32", 1, "0", -1},
                        {"[1,2,3,4,5]", "float32", 3, "-2", -1},
                        {"[2,2]", "float32", 1, "9223372036854775807", -1},
                        {"[2,2]", "float32", 1, "-9223372036854775808", -1}};
  int refused = 0;
  for (const auto& [name, op] : op_table())
    for (const Form& form : forms) {
      SCOPED_TRACE(fmt::format("{} {} {}", name, form.shape, form.integer));
      try {
        const Graph graph = import_ir(call_of(op, form), "hostile");
        EXPECT_EQ(check_graph(graph), std::vector<std::string>{});
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 0);
}

TEST(Hostile, Depth) {
  EXPECT_THROW(import_ir(std::string(1000000, '['), "deep"), Error);
  std::string json = R"({"nodes":)" + std::string(90, '[') + std::string(90, ']') + "}";
  EXPECT_THROW(import_ir(json, "deep"), Error);
}

}  // namespace
}  // namespace npusim
