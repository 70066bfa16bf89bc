// The methods of a program that read and write text, as it says itself (Program::text).
#pragma once
#include "program/program.h"

namespace npusim {

// What a method takes and gives: positions among its inputs and outputs, -1 where it has no such tensor.
struct TextMethod {
  size_t method = 0;  // position in the program
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

// Of one of the methods that Program::text names.
TextMethod text_method(const Program& program, int32_t method);

// Throws unsupported naming each thing that the program lacks.
const TextFacts& text_facts(const Program& program);

inline const TensorSpec& input_of(const Program& program, const TextMethod& m, int i) {
  return program.methods[m.method].inputs[static_cast<size_t>(i)];
}
inline const TensorSpec& logits_of(const Program& program, const TextMethod& m) {
  return program.methods[m.method].outputs[static_cast<size_t>(m.logits)];
}

}  // namespace npusim
