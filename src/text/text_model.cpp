// A program's methods as the parts of a text model, by the roles that the compiler gave.
#include "text/text_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace npusim {
namespace {

constexpr const char* no_text_model = "this is no program that generates text";

bool is_state(const Program& program, const TensorSpec& spec) {
  return program.buffers[static_cast<size_t>(spec.buffer)].kind == BufferKind::state;
}

// What a method lacks is added to `problems`.
TextMethod text_method(const Program& program, size_t position, std::vector<Problem>& problems) {
  const Method& method = program.methods[position];
  TextMethod text;
  text.method = static_cast<int>(position);
  const auto add = [&](const std::string& problem) {
    problems.push_back({no_text_model, fmt::format("method '{}' {}", method.name, problem)});
  };
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    const TensorSpec& spec = method.inputs[i];
    const auto at = static_cast<int>(i);
    if (spec.role == Role::tokens) {
      text.tokens = at;
      text.length = spec.type.shape[1];
    } else if (spec.role == Role::positions) {
      text.positions.push_back(at);
    } else if (spec.role == Role::mask) {
      text.mask = at;
    } else if (spec.role == Role::last) {
      text.last = at;
    } else if (spec.role == Role::generator) {
      text.generator = at;  // the last: one before it is of what the model draws itself
    } else if (spec.role == Role::temperature) {
      text.temperature = at;
    } else if (spec.role == Role::top_p) {
      text.top_p = at;
    } else if (!is_state(program, spec)) {
      add(fmt::format("has an input that is not understood: '{}' of {}", spec.name, to_string(spec.type)));
    }
  }
  for (size_t i = 0; i < method.outputs.size(); ++i)
    if (method.outputs[i].role == Role::tokens) {
      text.next = static_cast<int>(i);
    } else if (method.outputs[i].role == Role::logits) {
      text.logits = static_cast<int>(i);
      text.logit_rows = method.outputs[i].type.shape[1];
    }
  if (text.tokens < 0)
    add("has no input input_ids of int64 [1, length]");
  else if (text.logits < 0)
    add(fmt::format("has no output of logits [1, {} or 1, vocabulary]", text.length));
  return text;
}

// How decode's states are stored.
struct StateStores {
  int64_t capacity = 0;     // the fewest places there are for what is stored at a position
  bool by_position = true;  // everything is stored at a position only
};

// What a value follows from.
enum class From : uint8_t { constants, positions, others };

From index_from(const Kernel& k, const IndexTerm& term, const std::vector<From>& of_arg) {
  std::vector<bool> used(static_cast<size_t>(term.expr) + 1);
  used.back() = true;
  From from = From::constants;
  for (size_t e = used.size(); e-- > 0;) {
    if (!used[e]) continue;
    const Expr& expr = k.exprs[e];
    for (int i = 0; i < expr_arity(expr.op); ++i) used[static_cast<size_t>(expr.in[static_cast<size_t>(i)])] = true;
    if (expr.op == ExprOp::load)
      from = std::max(from, of_arg[static_cast<size_t>(k.accesses[static_cast<size_t>(expr.integer)].arg)]);
  }
  return from;
}

StateStores stores_of(const Program& program, const TextMethod& decode) {
  const Method& method = method_of(program, decode);
  std::vector<From> from(program.buffers.size(), From::others);
  for (size_t b = 0; b < from.size(); ++b)
    if (const BufferKind kind = program.buffers[b].kind;
        kind == BufferKind::weight || kind == BufferKind::constant || kind == BufferKind::prepared)
      from[b] = From::constants;
  for (const int input : decode.positions)
    from[static_cast<size_t>(method.inputs[static_cast<size_t>(input)].buffer)] = From::positions;
  StateStores result;
  const auto is_stored_state = [&](int32_t b) {
    return program.buffers[static_cast<size_t>(b)].kind == BufferKind::state;
  };
  for (const Step& step : method.steps) {
    if (step.is_transfer()) {
      from[static_cast<size_t>(step.buffers[1])] = from[static_cast<size_t>(step.buffers[0])];
      result.by_position = result.by_position && !is_stored_state(step.buffers[1]);
      continue;
    }
    const Kernel& k = program.kernels[static_cast<size_t>(step.kernel)];
    std::vector<From> of_arg;
    From read = From::constants;
    for (size_t a = 0; a < k.args.size(); ++a) {
      of_arg.push_back(from[static_cast<size_t>(step.buffers[a])]);
      if (!k.args[a].written) read = std::max(read, of_arg[a]);
    }
    for (size_t a = 0; a < k.args.size(); ++a)
      if (k.args[a].written) from[static_cast<size_t>(step.buffers[a])] = read;
    for (const Store& store : k.stores) {
      if (!is_stored_state(step.buffers[static_cast<size_t>(store.access.arg)])) continue;
      From index = From::constants;
      for (const IndexTerm& term : store.access.terms) {
        index = std::max(index, index_from(k, term, of_arg));
        result.capacity = result.capacity ? std::min(result.capacity, term.extent) : term.extent;
      }
      result.by_position = result.by_position && index == From::positions;
    }
  }
  return result;
}

// Whether `specs` have every state of `decode`.
bool have_states(const std::vector<TensorSpec>& specs, const Program& program, const TextMethod& decode) {
  for (const TensorSpec& spec : method_of(program, decode).inputs)
    if (is_state(program, spec) &&
        std::none_of(specs.begin(), specs.end(), [&](const TensorSpec& s) { return s.buffer == spec.buffer; }))
      return false;
  return true;
}

}  // namespace

TextModel find_text_model(const Program& program) {
  std::vector<Problem> problems;
  TextModel model;
  for (size_t i = 0; i < program.methods.size(); ++i) {
    std::vector<Problem> lacks;
    TextMethod method = text_method(program, i, lacks);
    problems.insert(problems.end(), lacks.begin(), lacks.end());
    if (!lacks.empty()) continue;
    if (method.next < 0 && method.length > 1) {
      model.prefills.push_back(std::move(method));
      continue;
    }
    // What samples takes a temperature and the state of its numbers, and may take what share of them is drawn from.
    if (method.temperature >= 0 ? method.generator < 0 : method.top_p >= 0) continue;
    TextMethod& place = method.next < 0          ? model.decode
                        : method.temperature < 0 ? model.greedy
                        : method.top_p < 0       ? model.sample
                                                 : model.nucleus;
    if (place.method < 0) place = std::move(method);
  }
  if (model.decode.method < 0) {
    problems.insert(problems.begin(), {no_text_model, "expected a method that takes one token"});
    throw Error(ErrorKind::unsupported, std::move(problems));
  }
  problems.clear();
  for (TextMethod* m : {&model.greedy, &model.sample, &model.nucleus})
    if (m->method >= 0 && !have_states(method_of(program, *m).inputs, program, model.decode)) *m = {};
  const auto add = [&](const std::string& problem) { problems.push_back({no_text_model, problem}); };
  const std::string& decode = method_of(program, model.decode).name;
  if (model.decode.positions.empty()) add(fmt::format("method '{}' has no cache_position or position_ids", decode));
  model.vocabulary = logits_of(program, model.decode).type.shape[2];
  // What takes many tokens and fills no states may be there for another use.
  const auto fills = [&](const TextMethod& m) {
    return have_states(method_of(program, m).outputs, program, model.decode);
  };
  if (std::any_of(model.prefills.begin(), model.prefills.end(), fills))
    std::erase_if(model.prefills, [&](const TextMethod& m) { return !fills(m); });
  for (const TextMethod& m : model.prefills) {
    const std::string& prefill = method_of(program, m).name;
    if (!fills(m))
      add(fmt::format("method '{}' does not fill every state of '{}': compile with --kv-map", prefill, decode));
    if (logits_of(program, m).type.shape[2] != model.vocabulary)
      add(fmt::format("the logits of '{}' and '{}' differ in size", prefill, decode));
  }
  // Of one length, the one that computes the logits of one token only.
  std::stable_sort(model.prefills.begin(), model.prefills.end(), [](const TextMethod& a, const TextMethod& b) {
    return std::pair(a.length, a.last < 0) < std::pair(b.length, b.last < 0);
  });
  const auto same = [](const TextMethod& a, const TextMethod& b) { return a.length == b.length; };
  model.prefills.erase(std::unique(model.prefills.begin(), model.prefills.end(), same), model.prefills.end());
  const StateStores stores = stores_of(program, model.decode);
  model.capacity =
      model.decode.mask < 0 ? stores.capacity : input_of(program, model.decode, model.decode.mask).type.shape.back();
  model.by_position = stores.by_position;
  if (model.capacity < 1) add(fmt::format("nothing tells how many positions the states of '{}' hold", decode));
  if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
  return model;
}

void check_text_model(const Program& program) { find_text_model(program); }

}  // namespace npusim
