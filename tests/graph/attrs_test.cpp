// Attribute values typed by their schema, and constant data.
#include "graph/attrs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace npusim {
namespace {

// The value as text, read as the one argument of the schema type.
std::string read(std::string_view type, std::string_view json) {
  const Schema schema = parse_schema(fmt::format("f({} a) -> Tensor", type));
  try {
    return to_string(read_attr(nlohmann::json::parse(json), schema.args[0]));
  } catch (const Error& error) {
    return fmt::format("{}{}", error.kind() == ErrorKind::unsupported ? "unsupported " : "", error.what());
  }
}

TEST(Attrs, Numbers) {
  EXPECT_EQ(read("int", "3"), "3");
  EXPECT_EQ(read("int", "9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(read("int", "9223372036854775808"), "expected an integer of 64 bits, found 9223372036854775808");
  EXPECT_EQ(read("int", "2.0"), "2");
  EXPECT_EQ(read("int", "-9223372036854775808.0"), "-9223372036854775808");
  EXPECT_EQ(read("int", "8e51"), "expected an integer, found 8e+51");
  EXPECT_EQ(read("int", "2.5"), "expected an integer, found 2.5");
  EXPECT_EQ(read("float", "1e-06"), "1e-06");
  EXPECT_EQ(read("float", "\"-Infinity\""), "-inf");
  EXPECT_EQ(read("bool", "true"), "true");
  EXPECT_EQ(read("bool", "1"), "true");
  EXPECT_EQ(read("bool", "2"), "expected true or false, found 2");
  EXPECT_EQ(read("Scalar", "true"), "true");
  EXPECT_EQ(read("Scalar", "2"), "2");
  EXPECT_EQ(read("Scalar", "\"NaN\""), "nan");
  EXPECT_EQ(read("Scalar", "\"(1+2j)\""), "unsupported complex number \"(1+2j)\"");
}

// What a message quotes is cut between characters, whatever their length.
TEST(Attrs, LongFindingsAreCut) {
  for (const std::string prefix : {"", "a", "ab"}) {
    std::string text = prefix;
    while (text.size() < 200) text += "\u20ac";
    const std::string message = read("int", "\"" + text + "\"");
    EXPECT_TRUE(message.ends_with("\u20ac\u2026")) << message;
    EXPECT_TRUE(is_utf8(message));
    EXPECT_LT(message.size(), 120U);
  }
}

TEST(Attrs, None) {
  EXPECT_EQ(read("int?", "null"), "None");
  EXPECT_EQ(read("int", "null"), "expected a value, found null");
  EXPECT_EQ(read("Scalar?", "null"), "None");
}

TEST(Attrs, Lists) {
  EXPECT_EQ(read("int[2]", "3"), "[3, 3]");
  EXPECT_EQ(read("int[2]", "[3]"), "[3]");  // OpCall::ints() repeats it
  EXPECT_EQ(read("SymInt[]", "[1,128,-1,128]"), "[1, 128, -1, 128]");
  EXPECT_EQ(read("int[1]?", "null"), "None");
  EXPECT_EQ(read("int[]", "[]"), "[]");
  EXPECT_EQ(read("int[]", "[1,\"a\"]"), "expected an integer, found \"a\"");
  EXPECT_EQ(read("float[]?", "[1,0.5]"), "[1, 0.5]");
  EXPECT_EQ(read("bool[3]", "[true,false,true]"), "[true, false, true]");
}

// "torch.float32" is a dtype, not a text.
TEST(Attrs, DtypesAndObjects) {
  EXPECT_EQ(read("ScalarType?", "\"torch.float32\""), "float32");
  EXPECT_EQ(read("ScalarType", "\"bfloat16\""), "bfloat16");
  EXPECT_EQ(read("ScalarType", "\"torch.complex64\""), "unsupported dtype \"torch.complex64\"");
  EXPECT_EQ(read("Device?", "\"cuda:0\""), "None");
  EXPECT_EQ(read("MemoryFormat?", "\"torch.contiguous_format\""), "\"torch.contiguous_format\"");
  EXPECT_EQ(read("str", "\"none\""), "\"none\"");
}

TEST(Attrs, Defaults) {
  const Schema schema =
      parse_schema("f(SymInt[2] stride=1, bool flag=True, float? scale=None, int[] none, Layout? l=None) -> Tensor");
  EXPECT_EQ(to_string(default_attr(schema.args[0])), "[1, 1]");
  EXPECT_EQ(to_string(default_attr(schema.args[1])), "true");
  EXPECT_EQ(to_string(default_attr(schema.args[2])), "None");
  EXPECT_EQ(to_string(default_attr(schema.args[3])), "None");
}

HostTensor constant(std::string_view json, TensorType type) { return read_constant(nlohmann::json::parse(json), type); }

std::string refusal(std::string_view json, TensorType type) {
  try {
    constant(json, std::move(type));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The data carries no shape.
TEST(Constants, P12Shapes) {
  EXPECT_EQ(load_double(constant("3.5", {DType::f32, {}}).data.data(), DType::f32, 0), 3.5);
  EXPECT_EQ(constant("[]", {DType::f32, {0, 4}}).data.size(), 0u);
  const HostTensor nested = constant("[[1,2,3],[4,5,6]]", {DType::i16, {2, 3}});
  EXPECT_EQ(load_int(nested.data.data(), DType::i16, 5), 6);
  EXPECT_EQ(constant("[1,2,3,4,5,6]", {DType::i16, {2, 3}}).data, nested.data);
  EXPECT_EQ(refusal("[[1,2],[3,4],[5,6]]", {DType::i16, {2, 3}}),
            "expected data of shape [2, 3], found a list of 3 at depth 0");
  EXPECT_EQ(refusal("[1,2]", {DType::f32, {3}}), "expected 3 numbers for float32[3], found 2");
  EXPECT_EQ(refusal("[1,2]", {DType::f32, {1LL << 40}}),
            "expected 1099511627776 numbers for float32[1099511627776], found 2");
}

// Every dtype keeps its own bits.
TEST(Constants, P12Types) {
  EXPECT_EQ(load_int(constant("[255]", {DType::u8, {1}}).data.data(), DType::u8, 0), 255);
  EXPECT_EQ(refusal("[256]", {DType::u8, {1}}), "256 is out of range for uint8");
  EXPECT_EQ(refusal("[0.5]", {DType::i64, {1}}), "expected an integer, found 0.5");
  EXPECT_EQ(load_int(constant("[9007199254740993]", {DType::i64, {1}}).data.data(), DType::i64, 0), 9007199254740993);
  const HostTensor flags = constant("[true,false,1]", {DType::boolean, {3}});
  EXPECT_EQ(load_int(flags.data.data(), DType::boolean, 0) + load_int(flags.data.data(), DType::boolean, 2), 2);
  const HostTensor half = constant("[1e-06,65519]", {DType::f16, {2}});
  EXPECT_EQ(load_double(half.data.data(), DType::f16, 1), 65504);
  EXPECT_TRUE(std::isnan(load_double(constant("[\"NaN\"]", {DType::f64, {1}}).data.data(), DType::f64, 0)));
}

}  // namespace
}  // namespace npusim
