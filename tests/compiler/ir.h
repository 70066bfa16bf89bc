// Graphs as IR text, built by the node; and small language models with every kind of mask.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npusim/compiler.h"
#include "npusim/tensor_set.h"

namespace npusim {

class IrBuilder {
 public:
  using Json = nlohmann::json;
  std::string input(const std::string& name, const Shape& shape, const std::string& dtype = "float32");
  std::string weight(const std::string& name, const Shape& shape, const std::string& dtype = "float32");
  // The result bears the node's name.
  std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                   const Shape& shape, const Json& attrs = Json::object(), const std::string& dtype = "float32");
  void output(const std::string& name);
  MethodSource finish(const std::string& method) const;

 private:
  Json json_ = {{"graph_inputs", Json::array()},
                {"graph_outputs", Json::array()},
                {"weights", Json::array()},
                {"nodes", Json::array()}};
  std::map<std::string, Json> tensors_;
};

// A decoder of 2 layers, 2 heads of 4 and a vocabulary of 24: positions are embedded and the mask is
// - added: attention_mask [1, 1, length, keys], added to scores
// - booleans: the same of booleans
// - ones: attention_mask [1, keys] of integers, beside which the model masks what is behind a position
// - none: only that
enum class Mask { added, booleans, ones, none };
inline constexpr int64_t vocabulary = 24, layers = 2;
// A prefill of `length` tokens, whose outputs are logits and keys and values of each layer; or, with a capacity, a
// decode of one token with states of that many positions. With `sum` there is a state more, [1, 2, width], that has no
// positions: its first row is the sum of all tokens so far, as an accumulating layer has it.
IrBuilder text_ir(Mask mask, int64_t length, int64_t capacity = 0, bool sum = false);
std::shared_ptr<const TensorSet> text_weights();

// Two layers of the encoder of a Whisper: attention without a mask, of `length` places.
struct SpeechEncoder {
  MethodSource source;
  std::shared_ptr<const TensorSet> weights;
};
SpeechEncoder speech_encoder(int64_t batch, int64_t length, int64_t width, int64_t heads);

// Of the method `main`.
std::vector<HostTensor> random_inputs(const Program& program);

}  // namespace npusim
