// Tensors by their roles, and what a program lacks to be a text's.
#include "text/text_model.h"

#include "base/error.h"

namespace npusim {

TextMethod text_method(const Program& program, int32_t method) {
  TextMethod text;
  text.method = static_cast<size_t>(method);
  const std::vector<TensorSpec>&inputs = program.methods[text.method].inputs,
        &outputs = program.methods[text.method].outputs;
  text.tokens = find_role(inputs, Role::tokens);
  text.mask = find_role(inputs, Role::mask);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == Role::positions) text.positions.push_back(static_cast<int>(i));
  text.last = find_role(inputs, Role::last);
  text.generator = find_role(inputs, Role::generator);
  text.temperature = find_role(inputs, Role::temperature);
  text.top_p = find_role(inputs, Role::top_p);
  text.next = find_role(outputs, Role::tokens);
  text.logits = find_role(outputs, Role::logits);
  text.length = input_of(program, text, text.tokens).type.shape[1];
  text.logit_rows = logits_of(program, text).type.shape[1];
  return text;
}

const TextFacts& text_facts(const Program& program) {
  if (program.text.decode >= 0) return program.text;
  constexpr const char* no_text_model = "this is no program that generates text";
  std::vector<Problem> problems;
  for (const std::string& lack : program.text.lacks) problems.push_back({no_text_model, lack});
  if (problems.empty()) problems.push_back({no_text_model, "expected a method that takes one token"});
  throw Error(ErrorKind::unsupported, std::move(problems));
}

void check_text_model(const Program& program) { text_facts(program); }

}  // namespace npusim
