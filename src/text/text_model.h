// The methods of a program that read and write text: one that takes one token, and usually others that take many.
#pragma once
#include "program/program.h"

namespace npusim {

// What a method takes and gives: positions among its inputs and outputs, -1 where it has no such tensor.
struct TextMethod {
  int method = -1;  // position in the program; -1: the program has none
  int tokens = -1, mask = -1;
  std::vector<int> positions;
  int next = -1;                         // output of a method that feeds itself: the next token
  int logits = -1;                       // [1, length or 1, vocabulary]
  int last = -1;                         // input: which token the logits are of
  int generator = -1, temperature = -1;  // inputs of a method that draws its tokens
  int top_p = -1;                        // and of one that draws them among the likeliest
  int64_t length = 0;                    // tokens per run
  int64_t logit_rows = 0;
};

struct TextModel {
  // Optional: without any the prompt goes through decode. From the shortest to the longest, one of each length.
  std::vector<TextMethod> prefills;
  TextMethod decode;     // one token per run
  TextMethod greedy;     // optional: the same, but the token it takes is the one that the run before found likeliest
  TextMethod sample;     // optional: or the one that it drew
  TextMethod nucleus;    // optional: or the one that it drew among the likeliest
  int64_t capacity = 0;  // positions the states hold
  // Whether decode stores all that it keeps at its position: what stands behind is never seen. Else a state has seen
  // every token before it, once each.
  bool by_position = false;
  int64_t vocabulary = 0;
};

// By the roles that the compiler gave: prefills take several tokens, decode one. Throws unsupported naming each thing
// that is missing or not understood.
TextModel find_text_model(const Program& program);

inline const TensorSpec& input_of(const Program& program, const TextMethod& m, int i) {
  return program.methods[static_cast<size_t>(m.method)].inputs[static_cast<size_t>(i)];
}
inline const TensorSpec& logits_of(const Program& program, const TextMethod& m) {
  return program.methods[static_cast<size_t>(m.method)].outputs[static_cast<size_t>(m.logits)];
}

inline const Method& method_of(const Program& program, const TextMethod& m) {
  return program.methods[static_cast<size_t>(m.method)];
}

}  // namespace npusim
