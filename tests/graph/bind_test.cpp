// Binding of operands to arguments, where the extractor has left out the Nones.
#include "graph/bind.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace npusim {
namespace {

struct Case {
  std::string schema;
  std::vector<BoundTensor> tensors;
  std::string attrs = "{}";
  std::function<bool(const Binding&)> fits = [](const Binding&) { return true; };
};

Binding bind(const Case& c) {
  const Schema schema = parse_schema(c.schema);
  const nlohmann::json attrs = nlohmann::json::parse(c.attrs);
  IrNode node;
  node.name = "n";
  node.attrs = &attrs;
  auto named = [](std::string_view name) -> BoundTensor {
    if (name != "node") fail(ErrorKind::bad_input, "no tensor {}", name);
    return {name, 99};
  };
  return bind_arguments(schema, node, c.tensors, named, c.fits);
}

std::string refusal(const Case& c, ErrorKind kind) {
  try {
    bind(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "bound";
  return {};
}

using Ids = std::vector<int32_t>;

BoundTensor value(std::string_view name, int32_t id) { return {name, id}; }
BoundTensor parameter(std::string_view fqn, int32_t id) { return {fqn, id, false, true}; }
BoundTensor buffer(std::string_view fqn, int32_t id) { return {fqn, id, true, false}; }

const std::string batch_norm =
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
    "float momentum, float eps, bool cudnn_enabled) -> Tensor";
const std::string inference = R"({"training":false,"momentum":0.1,"eps":1e-05,"cudnn_enabled":true})";
const std::string training = R"({"training":true,"momentum":0.1,"eps":1e-05,"cudnn_enabled":true})";
const std::string layer_norm =
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
    "cudnn_enable=True) -> Tensor";
const std::string last = R"({"normalized_shape":[3]})";

TEST(Bind, P5BatchNormWithoutAffine) {
  EXPECT_EQ(
      bind({batch_norm, {value("x", 0), buffer("bn.running_mean", 1), buffer("bn.running_var", 2)}, inference}).inputs,
      (Ids{0, -1, -1, 1, 2}));
  EXPECT_EQ(bind({batch_norm, {value("x", 0), value("mul", 1), value("mul_1", 2)}, inference}).inputs,
            (Ids{0, -1, -1, 1, 2}));  // inference needs its statistics
}

TEST(Bind, P5BatchNormWithoutStatistics) {
  EXPECT_EQ(bind({batch_norm, {value("x", 0), parameter("bn.weight", 1), parameter("bn.bias", 2)}, training}).inputs,
            (Ids{0, 1, 2, -1, -1}));
}

TEST(Bind, P5BatchNormComplete) {
  EXPECT_EQ(bind({batch_norm,
                  {value("x", 0), parameter("bn.weight", 1), parameter("bn.bias", 2), buffer("bn.running_mean", 3),
                   buffer("bn.running_var", 4)},
                  inference})
                .inputs,
            (Ids{0, 1, 2, 3, 4}));
}

TEST(Bind, P5LayerNorm) {
  EXPECT_EQ(bind({layer_norm, {value("x", 0)}, last}).inputs, (Ids{0, -1, -1}));
  EXPECT_EQ(bind({layer_norm, {value("x", 0), parameter("norm.bias", 1)}, last}).inputs, (Ids{0, -1, 1}));
  EXPECT_EQ(bind({layer_norm, {value("x", 0), parameter("norm.weight", 1)}, last}).inputs, (Ids{0, 1, -1}));
  EXPECT_EQ(bind({layer_norm, {value("x", 0), parameter("norm.beta", 1)}, last}).inputs, (Ids{0, -1, 1}));
}

TEST(Bind, P5ShapesDecideWhereNamesDoNot) {
  const auto only_bias = [](const Binding& binding) { return binding.inputs[1] == -1; };
  EXPECT_EQ(bind({layer_norm, {value("x", 0), value("mul", 1)}, last, only_bias}).inputs, (Ids{0, -1, 1}));
  const auto nothing = [](const Binding&) { return false; };
  EXPECT_EQ(refusal({layer_norm, {value("x", 0), value("mul", 1)}, last, nothing}, ErrorKind::bad_input),
            "the 1 optional tensors fit none of weight, bias");
}

TEST(Bind, P5NeverByPositionAlone) {
  EXPECT_EQ(refusal({layer_norm, {value("x", 0), value("mul", 1)}, last}, ErrorKind::unsupported),
            "cannot tell which of weight, bias the 1 optional tensors are");
}

TEST(Bind, P5OptionalAtTheEnd) {
  const std::string linear = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor";
  EXPECT_EQ(bind({linear, {value("x", 0), value("w", 1)}}).inputs, (Ids{0, 1, -1}));
  EXPECT_EQ(bind({linear, {value("x", 0), value("w", 1), value("b", 2)}}).inputs, (Ids{0, 1, 2}));
  EXPECT_EQ(refusal({linear, {value("x", 0)}}, ErrorKind::bad_input), "expected 2 to 3 tensors, found 1");
  EXPECT_EQ(refusal({linear, {value("x", 0), value("w", 1), value("b", 2), value("c", 3)}}, ErrorKind::bad_input),
            "expected 2 to 3 tensors, found 4");
}

TEST(Bind, P5AttentionWithoutMask) {
  const std::string attention =
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
      "dropout_p=0.0, "
      "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor";
  const Binding binding = bind({attention, {value("q", 0), value("k", 1), value("v", 2)}, R"({"is_causal":true})"});
  EXPECT_EQ(binding.inputs, (Ids{0, 1, 2, -1}));
  EXPECT_EQ(to_string(binding.attrs[5]), "true");
  EXPECT_EQ(to_string(binding.attrs[6]), "None");
}

TEST(Bind, P6KeywordTensorsAndNumbers) {
  const std::string add = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
  EXPECT_EQ(bind({add, {value("x", 0)}, R"({"other":"node"})"}).inputs, (Ids{0, 99}));
  EXPECT_EQ(bind({add, {value("x", 0)}, R"({"self":"node"})"}).inputs, (Ids{99, 0}));
  const Binding number = bind({add, {value("x", 0)}, R"({"other":"Infinity"})"});
  EXPECT_EQ(number.inputs, (Ids{0, -1}));
  EXPECT_EQ(to_string(number.attrs[1]), "inf");
  EXPECT_EQ(refusal({add, {value("x", 0)}, R"({"other":"nobody"})"}, ErrorKind::bad_input),
            "attribute 'other': no tensor nobody");
}

TEST(Bind, ListsOfTensors) {
  const std::string cat = "cat(Tensor[] tensors, int dim=0) -> Tensor";
  const std::vector<BoundTensor> three = {value("a", 0), value("b", 1), value("c", 2)};
  const Binding sized = bind({cat, three, R"({"_tensor_list_sizes":[3],"dim":-1})"});
  EXPECT_EQ(sized.inputs, (Ids{0, 1, 2}));
  EXPECT_EQ(sized.list_sizes, (std::vector<int>{3}));
  EXPECT_EQ(bind({cat, three}).inputs, (Ids{0, 1, 2}));  // one list takes all
  EXPECT_EQ(refusal({cat, three, R"({"_tensor_list_sizes":[2]})"}, ErrorKind::bad_input),
            "expected 2 tensors, found 3");
  EXPECT_EQ(refusal({cat, three, R"({"_tensor_list_sizes":[9]})"}, ErrorKind::bad_input),
            "_tensor_list_sizes: expected counts of at most 3 tensors, found 9");
}

TEST(Bind, ListsWithNones) {
  const std::string index = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
  const Binding binding = bind({index,
                                {value("x", 0), value("i", 1)},
                                R"({"_tensor_list_sizes":[1],"_tensor_list_none_masks":[[true,false,true]]})"});
  EXPECT_EQ(binding.inputs, (Ids{0, -1, 1, -1}));
  EXPECT_EQ(binding.list_sizes, (std::vector<int>{3}));
}

// A list of Nones only is an attribute, and two equal lists with one mask are refused.
TEST(Bind, P11EmptyAndAmbiguousLists) {
  const std::string index = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
  EXPECT_EQ(bind({index, {value("x", 0)}, R"({"indices":[null,null]})"}).inputs, (Ids{0, -1, -1}));
  const std::string two = "two(Tensor?[] a, Tensor?[] b) -> Tensor";
  const std::vector<BoundTensor> tensors = {value("x", 0), value("y", 1)};
  EXPECT_EQ(refusal({two, tensors, R"({"_tensor_list_sizes":[1,1],"_tensor_list_none_masks":[[true,false]]})"},
                    ErrorKind::unsupported),
            "_tensor_list_none_masks: [true,false] fits more than one list");
  const std::vector<BoundTensor> more = {value("x", 0), value("y", 1), value("z", 2)};
  EXPECT_EQ(bind({two, more, R"({"_tensor_list_sizes":[2,1],"_tensor_list_none_masks":[[true,false]]})"}).inputs,
            (Ids{0, 1, -1, 2}));
}

TEST(Bind, UnknownAndMissingAttributes) {
  const std::string transpose = "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)";
  EXPECT_EQ(refusal({transpose, {value("x", 0)}, R"({"dim0":1})"}, ErrorKind::bad_input), "attribute 'dim1': missing");
  EXPECT_EQ(refusal({transpose, {value("x", 0)}, R"({"dim0":1,"dim1":"a"})"}, ErrorKind::bad_input),
            "attribute 'dim1': expected an integer, found \"a\"");
  EXPECT_EQ(refusal({transpose, {value("x", 0)}, R"({"dim0":1,"dim1":0,"dimension":2})"}, ErrorKind::bad_input),
            "attribute 'dimension' is no argument of the op");
}

}  // namespace
}  // namespace npusim
