// One tensor is one entry of the maps that the IR holds.
#include "compiler/ir.h"

#include <cmath>

namespace npusim {

std::string IrBuilder::input(const std::string& name, const Shape& shape, const std::string& dtype) {
  Json tensor = {{"name", name}, {"shape", shape}, {"dtype", dtype}};
  json_["graph_inputs"].push_back(tensor);
  tensor["producer_node"] = name;
  tensor["producer_output_idx"] = 0;
  tensors_[name] = tensor;
  return name;
}

std::string IrBuilder::weight(const std::string& name, const Shape& shape, const std::string& dtype) {
  if (tensors_.contains(name)) return name;
  tensors_[name] = {{"name", name}, {"shape", shape}, {"dtype", dtype}};
  json_["weights"].push_back(tensors_[name]);
  return name;
}

std::string IrBuilder::node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                            const Shape& shape, const Json& attrs, const std::string& dtype) {
  Json tensor = {{"name", name}, {"shape", shape}, {"dtype", dtype}};
  Json operands = Json::array();
  for (const std::string& input : inputs) operands.push_back(tensors_.at(input));
  json_["nodes"].push_back(
      {{"name", name}, {"op_type", "aten." + op}, {"inputs", operands}, {"outputs", {tensor}}, {"attrs", attrs}});
  tensor["producer_node"] = name;
  tensor["producer_output_idx"] = 0;
  tensors_[name] = tensor;
  return name;
}

void IrBuilder::output(const std::string& name) {
  const Json& tensor = tensors_.at(name);
  json_["graph_outputs"].push_back({{"name", name}, {"shape", tensor["shape"]}, {"dtype", tensor["dtype"]}});
}

MethodSource IrBuilder::finish(const std::string& method) const { return {method, method, json_.dump()}; }

namespace {

constexpr int64_t heads = 2, depth = 4, width = heads * depth, positions = 32;

// The mask that attention takes, [1, 1, length, keys].
std::string attention_mask(IrBuilder& b, Mask mask, int64_t length, int64_t keys, const std::string& at) {
  const Shape scores{1, 1, length, keys};
  if (mask == Mask::added) return b.input("attention_mask", scores);
  if (mask == Mask::booleans) return b.input("attention_mask", scores, "bool");
  b.node("key_index", "arange.default", {}, {keys}, {{"end", keys}}, "int64");
  b.node("query_index", "view.default", {at}, {length, 1}, {{"size", {length, 1}}}, "int64");
  b.node("behind", "le.Tensor", {"key_index", "query_index"}, {length, keys}, {}, "bool");
  std::string seen = "behind";
  if (mask == Mask::ones) {
    const std::string ones = b.input("attention_mask", {1, keys}, "int64");
    b.node("there", "ne.Scalar", {ones}, {1, keys}, {{"other", 0}}, "bool");
    seen = b.node("seen", "logical_and.default", {"behind", "there"}, {length, keys}, {}, "bool");
  }
  return b.node("mask", "view.default", {seen}, scores, {{"size", scores}}, "bool");
}

}  // namespace

IrBuilder text_ir(Mask mask, int64_t length, int64_t capacity, bool sum) {
  IrBuilder b;
  const int64_t keys = capacity ? capacity : length;
  const Shape hidden{1, length, width}, split{1, length, heads, depth}, turned{1, heads, length, depth},
      cache{1, heads, keys, depth};
  const std::string ids = b.input("input_ids", {1, length}, "int64"), at = b.input("cache_position", {length}, "int64");
  const std::string seen = attention_mask(b, mask, length, keys, at);
  b.node("token", "embedding.default", {b.weight("wte", {vocabulary, width}), ids}, hidden);
  b.node("place", "embedding.default", {b.weight("wpe", {positions, width}), at}, {length, width});
  std::string x = b.node("x", "add.Tensor", {"token", "place"}, hidden);
  std::vector<std::string> filled;
  if (sum) {
    const Shape row{1, 1, width}, both{1, 2, width};
    const nlohmann::json first = {{"dim", 1}, {"start", 0}, {"end", 1}};
    if (capacity) {
      b.node("before", "slice.Tensor", {b.input("sum_state", both)}, row, first);
      b.node("sums", "add.Tensor", {"before", "token"}, row);
      filled.push_back(b.node("sum", "slice_scatter.default", {"sum_state", "sums"}, both, first));
    } else {
      b.node("sums", "cumsum.default", {"token"}, hidden, {{"dim", 1}});
      filled.push_back(
          b.node("sum", "slice.Tensor", {"sums"}, row, {{"dim", 1}, {"start", length - 1}, {"end", length}}));
    }
    x = b.node("x_and_sums", "add.Tensor", {x, "sums"}, hidden);
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto name = [&](const std::string& what) { return what + "_" + std::to_string(layer); };
    std::map<std::string, std::string> heads_of;
    for (const std::string which : {"q", "k", "v"}) {
      b.node(name(which), "linear.default", {x, b.weight("w" + name(which), {width, width})}, hidden);
      b.node(name(which + "_split"), "view.default", {name(which)}, split, {{"size", split}});
      std::string& result = heads_of[which];
      result =
          b.node(name(which + "_heads"), "transpose.int", {name(which + "_split")}, turned, {{"dim0", 1}, {"dim1", 2}});
      if (which == "q") continue;
      if (capacity)
        result = b.node(name(which + "_cache"), "index_copy.default",
                        {b.input(name(which + "_state"), cache), at, result}, cache, {{"dim", 2}});
      filled.push_back(result);
    }
    b.node(name("attention"), "scaled_dot_product_attention.default",
           {heads_of["q"], heads_of["k"], heads_of["v"], seen}, turned);
    b.node(name("together"), "transpose.int", {name("attention")}, split, {{"dim0", 1}, {"dim1", 2}});
    b.node(name("flat"), "reshape.default", {name("together")}, hidden, {{"shape", hidden}});
    b.node(name("out"), "linear.default", {name("flat"), b.weight("wo_" + std::to_string(layer), {width, width})},
           hidden);
    x = b.node(name("x"), "add.Tensor", {x, name("out")}, hidden);
    b.node(name("bent"), "gelu.default", {x}, hidden);
    x = b.node(name("y"), "layer_norm.default", {name("bent")}, hidden, {{"normalized_shape", {width}}});
  }
  b.node("logits", "linear.default", {x, "wte"}, {1, length, vocabulary});
  b.output("logits");
  for (const std::string& state : filled) b.output(state);
  return b;
}

std::shared_ptr<const TensorSet> text_weights() {
  const auto memory = std::make_shared<std::map<std::string, std::vector<float>>>();
  std::vector<NamedTensor> tensors;
  uint64_t random = 1;
  const auto add = [&](const std::string& name, const Shape& shape) {
    std::vector<float>& values = (*memory)[name];
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      random = random * 6364136223846793005 + 1442695040888963407;
      values.push_back(static_cast<float>(random >> 40) * 0x1p-23f - 1);
    }
    tensors.push_back({name, view_of(values, shape)});
  };
  add("wte", {vocabulary, width});
  add("wpe", {positions, width});
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const std::string which : {"wq_", "wk_", "wv_", "wo_"}) add(which + std::to_string(layer), {width, width});
  return make_tensors(tensors, memory);
}

namespace {

std::shared_ptr<const TensorSet> random_weights(const std::vector<std::pair<std::string, Shape>>& tensors) {
  const auto memory = std::make_shared<std::map<std::string, std::vector<float>>>();
  std::vector<NamedTensor> named;
  uint64_t random = 3;
  for (const auto& [name, shape] : tensors) {
    std::vector<float>& values = (*memory)[name];
    // Scores far apart: a row sees few keys, and shows which.
    const float size = name.starts_with("wq_") || name.starts_with("wk_") ? 4.0f : 1.5f;
    const float scale = shape.size() == 1 ? 1.0f : size / std::sqrt(static_cast<float>(shape[1]));
    for (int64_t i = 0; i < element_count(shape); ++i) {
      random = random * 6364136223846793005 + 1442695040888963407;
      values.push_back((static_cast<float>(random >> 40) * 0x1p-23f - 1) * scale);
    }
    named.push_back({name, view_of(values, shape)});
  }
  return make_tensors(named, memory);
}

}  // namespace

SpeechEncoder speech_encoder(int64_t batch, int64_t length, int64_t width, int64_t heads) {
  const Shape hidden{batch, length, width}, split{batch, length, heads, width / heads},
      turned{batch, heads, length, width / heads};
  IrBuilder b;
  std::vector<std::pair<std::string, Shape>> tensors;
  const auto weight = [&](const std::string& name, const Shape& shape) {
    tensors.emplace_back(name, shape);
    return b.weight(name, shape);
  };
  std::string x = b.input("x", hidden);
  for (int layer = 0; layer < 2; ++layer) {
    const auto name = [&](const std::string& what) { return what + "_" + std::to_string(layer); };
    const auto linear = [&](const std::string& what, const std::string& from, int64_t in, int64_t out) {
      return b.node(name(what), "linear.default", {from, weight("w" + name(what), {out, in})}, {batch, length, out});
    };
    const auto norm = [&](const std::string& what, const std::string& from) {
      return b.node(name(what), "layer_norm.default",
                    {from, weight("w" + name(what), {width}), weight("b" + name(what), {width})}, hidden,
                    {{"normalized_shape", {width}}, {"eps", 1e-5}});
    };
    const std::string seen = norm("norm", x);
    for (const std::string which : {"q", "k", "v"}) {
      b.node(name(which + "_split"), "view.default", {linear(which, seen, width, width)}, split, {{"size", split}});
      b.node(name(which + "_heads"), "transpose.int", {name(which + "_split")}, turned, {{"dim0", 1}, {"dim1", 2}});
    }
    b.node(name("attention"), "scaled_dot_product_attention.default",
           {name("q_heads"), name("k_heads"), name("v_heads")}, turned);
    b.node(name("back"), "transpose.int", {name("attention")}, split, {{"dim0", 1}, {"dim1", 2}});
    b.node(name("joined"), "reshape.default", {name("back")}, hidden, {{"shape", hidden}});
    x = b.node(name("mixed"), "add.Tensor", {x, linear("o", name("joined"), width, width)}, hidden);
    const std::string up = linear("up", norm("norm2", x), width, 2 * width);
    b.node(name("gelu"), "gelu.default", {up}, {batch, length, 2 * width});
    x = b.node(name("out"), "add.Tensor", {x, linear("down", name("gelu"), 2 * width, width)}, hidden);
  }
  b.output(x);
  return {b.finish("main"), random_weights(tensors)};
}

std::vector<HostTensor> random_inputs(const Program& program) {
  std::vector<HostTensor> inputs;
  uint64_t random = 7;
  for (const TensorInfo& info : method_inputs(program, "main")) {
    HostTensor& tensor = inputs.emplace_back();
    tensor.type = info.type;
    tensor.data.resize(byte_size(info.type));
    for (int64_t i = 0; i < element_count(info.type.shape); ++i) {
      random = random * 6364136223846793005 + 1442695040888963407;
      const double x = static_cast<double>(random >> 40) * 0x1p-23 - 1;
      store_double(tensor.data.data(), info.type.dtype, i, is_float(info.type.dtype) ? x : x > 0);
    }
  }
  return inputs;
}

}  // namespace npusim
