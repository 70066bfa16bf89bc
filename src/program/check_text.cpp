// Every field of TextFacts against the methods that it is of.
#include "program/check_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace npusim {
namespace {

bool is_state(const Program& program, const TensorSpec& spec) {
  return program.buffers[static_cast<size_t>(spec.buffer)].kind == BufferKind::state;
}

class TextChecker {
 public:
  explicit TextChecker(const Program& program) : program_(program), text_(program.text) {}

  std::vector<std::string> run() {
    if (text_.decode == -1) {
      no_text();
      return std::move(problems_);
    }
    if (!text_.lacks.empty()) add("expected nothing that it lacks, found {} reasons", text_.lacks.size());
    const Method* decode = method("decode", text_.decode);
    if (!decode) return std::move(problems_);
    given_by_caller("decode", *decode);
    one_token("decode", *decode);
    if (find_role(decode->inputs, Role::positions) < 0) add("decode: method '{}' has no positions", decode->name);
    if (problems_.empty()) states(*decode);
    for (const int32_t prefill : text_.prefills)
      if (problems_.empty()) many_tokens(prefill, *decode);
    loop("greedy", text_.greedy, *decode, {});
    loop("sample", text_.sample, *decode, {Role::generator, Role::temperature});
    loop("nucleus", text_.nucleus, *decode, {Role::generator, Role::temperature, Role::top_p});
    return std::move(problems_);
  }

 private:
  // The first: others follow from it.
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (problems_.empty()) problems_.push_back("text: " + fmt::format(format, std::forward<Args>(args)...));
  }

  void no_text() {
    if (!text_.prefills.empty() || text_.greedy != -1 || text_.sample != -1 || text_.nucleus != -1 ||
        text_.batch != 0 || text_.vocabulary != 0 || text_.capacity != 0 || text_.by_position)
      add("expected nothing without a method that decodes");
    if (text_.lacks.size() > most_lacks)
      add("expected at most {} things that it lacks, found {}", most_lacks, text_.lacks.size());
  }

  // One that reads tokens and gives logits, of as many texts as all and of the same vocabulary.
  const Method* method(std::string_view what, int32_t position) {
    if (position < 0 || static_cast<size_t>(position) >= program_.methods.size()) {
      add("{}: expected a method 0 to {}, found {}", what, program_.methods.size(), position);
      return nullptr;
    }
    const Method& m = program_.methods[static_cast<size_t>(position)];
    if (const std::vector<std::string> lacks = lacks_of_text(program_, m); !lacks.empty()) {
      add("{}: method '{}' {}", what, m.name, lacks[0]);
      return nullptr;
    }
    const Shape& logits = m.outputs[static_cast<size_t>(find_role(m.outputs, Role::logits))].type.shape;
    if (tokens_of(m)[0] != text_.batch || logits[0] != text_.batch)
      add("{}: method '{}' takes {} texts and gives logits of {}: expected {}", what, m.name, tokens_of(m)[0],
          logits[0], text_.batch);
    if (logits[2] != text_.vocabulary)
      add("{}: method '{}' has a vocabulary of {}: expected {}", what, m.name, logits[2], text_.vocabulary);
    return &m;
  }

  static const Shape& tokens_of(const Method& m) {
    return m.inputs[static_cast<size_t>(find_role(m.inputs, Role::tokens))].type.shape;
  }

  void one_token(std::string_view what, const Method& m) {
    if (tokens_of(m)[1] != 1)
      add("{}: method '{}' takes {} tokens of a text: expected one", what, m.name, tokens_of(m)[1]);
  }

  // All but its states is given to each run, and nothing that only methods have that feed themselves.
  void given_by_caller(std::string_view what, const Method& m) {
    for (const TensorSpec& spec : m.inputs) {
      const bool given = spec.role == Role::tokens || spec.role == Role::positions || spec.role == Role::mask ||
                         spec.role == Role::last;
      if (spec.role == Role::temperature || spec.role == Role::top_p || (given && is_state(program_, spec)))
        add("{}: method '{}': expected no {} that is kept", what, m.name, role_name(spec.role));
    }
    if (find_role(m.outputs, Role::tokens) >= 0) add("{}: method '{}' finds its tokens itself", what, m.name);
  }

  void states(const Method& decode) {
    const StateStores stores = state_stores(program_, static_cast<size_t>(text_.decode));
    const int64_t capacity = capacity_of(decode, stores);
    if (text_.capacity < 1 || text_.capacity != capacity)
      add("expected {} positions, as many as method '{}' has, found {}", capacity, decode.name, text_.capacity);
    // Whoever does not know that they are begins with states of zero, and pads nothing.
    if (text_.by_position && !stores.by_position)
      add("expected states by position, found that method '{}' stores not all of them so", decode.name);
  }

  void many_tokens(int32_t position, const Method& decode) {
    const Method* m = method("prefill", position);
    if (!m) return;
    given_by_caller("prefill", *m);
    const int64_t length = tokens_of(*m)[1];
    if (length <= longest_)
      add("prefill: method '{}' takes {} tokens of a text: expected more than {}", m->name, length, longest_);
    longest_ = length;
    if (!have_states(m->outputs, program_, decode))
      add("prefill: method '{}' does not fill every state of '{}'", m->name, decode.name);
  }

  // A method that feeds itself: what decode is given is a state of it, or computed from one.
  void loop(std::string_view what, int32_t position, const Method& decode, std::initializer_list<Role> sampling) {
    const Method* m = position == -1 || !problems_.empty() ? nullptr : method(what, position);
    if (!m) return;
    one_token(what, *m);
    for (const Role role : {Role::tokens, Role::positions}) keeps(what, *m, role);
    for (const TensorSpec& spec : m->inputs)
      if (spec.role == Role::mask || spec.role == Role::last)
        add("{}: method '{}': expected no {}", what, m->name, role_name(spec.role));
    for (const Role role : {Role::generator, Role::temperature, Role::top_p}) {
      const bool expected = std::find(sampling.begin(), sampling.end(), role) != sampling.end();
      const bool found = find_role(m->inputs, role) >= 0, may_draw = role == Role::generator;
      if (expected != found && !(may_draw && found))
        add("{}: method '{}': expected {} {}", what, m->name, expected ? "a" : "no", role_name(role));
    }
    if (!have_states(m->inputs, program_, decode))
      add("{}: method '{}' does not have every state of '{}'", what, m->name, decode.name);
  }

  // The one input with the role is a state, and the output with it what a run leaves there.
  void keeps(std::string_view what, const Method& m, Role role) {
    const auto has = [&](const TensorSpec& spec) { return spec.role == role; };
    const int in = find_role(m.inputs, role), out = find_role(m.outputs, role);
    if (in >= 0 && out >= 0 && std::count_if(m.inputs.begin(), m.inputs.end(), has) == 1) {
      const TensorSpec& kept = m.inputs[static_cast<size_t>(in)];
      if (is_state(program_, kept) && kept.buffer == m.outputs[static_cast<size_t>(out)].buffer) return;
    }
    add("{}: method '{}': expected one input with the {}, which it keeps", what, m.name, role_name(role));
  }

  const Program& program_;
  const TextFacts& text_;
  int64_t longest_ = 1;  // of the prefills so far
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> lacks_of_text(const Program& program, const Method& method) {
  std::vector<std::string> lacks;
  for (const TensorSpec& spec : method.inputs)
    if (spec.role == Role::data && !is_state(program, spec))
      lacks.push_back(fmt::format("has an input that is not understood: '{}' of {}", spec.name, to_string(spec.type)));
  const auto is_empty = [](const std::vector<TensorSpec>& specs, int i) {
    return element_count(specs[static_cast<size_t>(i)].type.shape) == 0;
  };
  const int tokens = find_role(method.inputs, Role::tokens), logits = find_role(method.outputs, Role::logits);
  if (tokens < 0 || is_empty(method.inputs, tokens))
    lacks.emplace_back("has no input input_ids of int64 [1, length]");
  else if (logits < 0 || is_empty(method.outputs, logits))
    lacks.push_back(fmt::format("has no output of logits [1, {} or 1, vocabulary]",
                                method.inputs[static_cast<size_t>(tokens)].type.shape[1]));
  return lacks;
}

bool have_states(const std::vector<TensorSpec>& specs, const Program& program, const Method& decode) {
  std::set<int32_t> had;
  for (const TensorSpec& spec : specs) had.insert(spec.buffer);
  return std::all_of(decode.inputs.begin(), decode.inputs.end(),
                     [&](const TensorSpec& spec) { return !is_state(program, spec) || had.contains(spec.buffer); });
}

int64_t capacity_of(const Method& decode, const StateStores& stores) {
  const int mask = find_role(decode.inputs, Role::mask);
  return mask < 0 ? stores.capacity : decode.inputs[static_cast<size_t>(mask)].type.shape.back();
}

std::vector<std::string> check_text(const Program& program) { return TextChecker(program).run(); }

}  // namespace npusim
