// The loop of prefill and decode.
#include "text/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "program/program.h"
#include "text/sample.h"

namespace npusim {
namespace {

// Runs a text model's methods on tokens at given positions.
class Runner {
 public:
  Runner(Session& session, const TextFacts& text, const Sampling& sampling)
      : session_(session), text_(text), sampling_(sampling), decode_(text_method(session.program(), text.decode)) {}

  // The first `count` tokens at positions 0, 1, …
  void prefill(const TextMethod& m, const std::vector<int64_t>& tokens, int64_t count) {
    run(m, tokens.data(), count, 0);
  }
  void decode(int64_t token, int64_t position) { run(decode_, &token, 1, position); }
  std::vector<double> decoded() const { return logits(decode_, 0); }

  // From here on steps of a method that feeds itself take this token at this position, and then what they find
  // themselves: the `nth` new token and those behind it.
  void start(const TextMethod& m, int64_t token, int64_t position, int64_t nth) {
    set(m, m.tokens, token);
    for (int input : m.positions) set(m, input, position);
    if (m.temperature < 0) return;
    const std::array<int64_t, 2> generator = {static_cast<int64_t>(sampling_.seed), nth};
    const auto temperature = static_cast<float>(sampling_.temperature);
    session_.set_input(m.method, static_cast<size_t>(m.generator), std::as_bytes(std::span(generator)));
    session_.set_input(m.method, static_cast<size_t>(m.temperature), std::as_bytes(std::span(&temperature, 1)));
    if (m.top_p < 0) return;
    const auto top_p = static_cast<float>(sampling_.top_p);
    session_.set_input(m.method, static_cast<size_t>(m.top_p), std::as_bytes(std::span(&top_p, 1)));
  }
  int64_t step(const TextMethod& m) {
    const auto next = static_cast<size_t>(m.next);
    session_.run(m.method);
    return load_int(session_.output(m.method, next).data(),
                    session_.program().methods[m.method].outputs[next].type.dtype, 0);
  }

  std::vector<double> logits(const TextMethod& m, int64_t row) const {
    const auto bytes = session_.output(m.method, static_cast<size_t>(m.logits));
    const DType dtype = logits_of(session_.program(), m).type.dtype;
    std::vector<double> values(static_cast<size_t>(text_.vocabulary));
    for (int64_t i = 0; i < text_.vocabulary; ++i)
      values[static_cast<size_t>(i)] = load_double(bytes.data(), dtype, row * text_.vocabulary + i);
    return values;
  }

 private:
  // Padding, where all states are by position, repeats the last token. What it leaves in them stands behind the
  // position: no token before it sees it, and each later one writes its own key and value there before it looks.
  void run(const TextMethod& m, const int64_t* tokens, int64_t count, int64_t first) {
    for (int64_t i = 0; i < m.length; ++i) {
      put(m, m.tokens, i, tokens[std::min(i, count - 1)]);
      for (int input : m.positions) put(m, input, i, first + i);
    }
    if (m.last >= 0) put(m, m.last, 0, count - 1);
    mask(m, count, first);
    session_.run(m.method);
  }

  void set(const TextMethod& m, int input, int64_t value) {
    std::array<std::byte, sizeof(value)> bytes{};
    const DType dtype = input_of(session_.program(), m, input).type.dtype;
    store_int(bytes.data(), dtype, 0, value);
    session_.set_input(m.method, static_cast<size_t>(input), {bytes.data(), dtype_size(dtype)});
  }

  void put(const TextMethod& m, int input, int64_t at, int64_t value) {
    const auto bytes = session_.input(m.method, static_cast<size_t>(input));
    store_int(bytes.data(), input_of(session_.program(), m, input).type.dtype, at, value);
  }

  // [1, heads, queries, keys]: query i at position first + i sees the keys up to there; 0 or the dtype's lowest value
  // is added to its scores, or a boolean says which keys count. [1, keys]: 1 for every key that holds a token.
  void mask(const TextMethod& m, int64_t count, int64_t first) {
    if (m.mask < 0) return;
    const TensorType& type = input_of(session_.program(), m, m.mask).type;
    const auto bytes = session_.input(m.method, static_cast<size_t>(m.mask));
    const int64_t keys = type.shape.back();
    if (type.shape.size() == 2) {
      for (int64_t j = 0; j < keys; ++j) store_double(bytes.data(), type.dtype, j, j < first + count ? 1 : 0);
      return;
    }
    const int64_t queries = type.shape[2];
    const bool additive = is_float(type.dtype);
    for (int64_t row = 0; row < type.shape[1] * queries; ++row)
      for (int64_t j = 0; j < keys; ++j) {
        const bool seen = j <= first + row % queries;
        const double value = additive ? (seen ? 0 : lowest(type.dtype)) : (seen ? 1 : 0);
        store_double(bytes.data(), type.dtype, row * keys + j, value);
      }
  }

  static double lowest(DType dtype) {
    switch (dtype) {
      case DType::f16:
        return -65504;
      case DType::bf16:
        return -static_cast<double>(bf16_to_float(0x7f7f));
      case DType::f64:
        return std::numeric_limits<double>::lowest();
      default:
        return std::numeric_limits<float>::lowest();
    }
  }

  Session& session_;
  const TextFacts& text_;
  const Sampling& sampling_;
  const TextMethod decode_;
};

// The next token from logits, where the host takes it.
class Chooser {
 public:
  explicit Chooser(const Sampling& sampling) : sampling_(sampling) {}
  int64_t operator()(const std::vector<double>& logits, int64_t nth) const {
    if (sampling_.temperature <= 0) return likeliest(logits);
    return draw_token(logits, sampling_.temperature, sampling_.top_p, sampling_.seed, nth);
  }

 private:
  const Sampling& sampling_;
};

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The shortest that takes all of it, or the longest; without padding the longest that it fills.
std::optional<TextMethod> find_prefill(const Program& program, const TextFacts& text, int64_t count) {
  std::optional<TextMethod> filled;
  for (const int32_t prefill : text.prefills) {
    TextMethod m = text_method(program, prefill);
    const int64_t length = m.length;
    if (length <= count || text.by_position) filled = std::move(m);
    if (length >= count) break;
  }
  return filled;
}

// Puts the prompt into the states; returns the token after it.
int64_t read_prompt(Runner& runner, const std::vector<int64_t>& prompt, const Chooser& choose,
                    const std::optional<TextMethod>& prefill, const std::optional<TextMethod>& chain) {
  const auto count = static_cast<int64_t>(prompt.size());
  int64_t done = 0, next = 0;
  if (prefill) {
    done = std::min(count, prefill->length);
    runner.prefill(*prefill, prompt, done);
    const bool has_row = prefill->last >= 0 || prefill->logit_rows > 1 || done == prefill->length;
    if (done == count && has_row) return choose(runner.logits(*prefill, prefill->logit_rows > 1 ? count - 1 : 0), 0);
    if (done == count) --done;  // decoding the last token again gives its logits and the same state
  }
  for (; done < count; ++done) {
    if (chain) {
      runner.start(*chain, prompt[static_cast<size_t>(done)], done, 0);
      next = runner.step(*chain);
    } else {
      runner.decode(prompt[static_cast<size_t>(done)], done);
    }
  }
  return chain ? next : choose(runner.decoded(), 0);
}

void check_tokens(const TextFacts& text, const std::vector<int64_t>& tokens, std::string_view of) {
  for (int64_t token : tokens)
    if (token < 0 || token >= text.vocabulary)
      fail(ErrorKind::bad_input, "token {} of {} is not in the model's vocabulary of {}: is this its tokenizer?", token,
           of, text.vocabulary);
}

void check_prompt(const TextFacts& text, const std::vector<int64_t>& prompt) {
  if (prompt.empty()) fail(ErrorKind::bad_input, "the prompt has no tokens: expected at least one");
  if (static_cast<int64_t>(prompt.size()) > text.capacity)
    fail(ErrorKind::bad_input, "the prompt has {} tokens: expected at most {}, which the program's states hold",
         prompt.size(), text.capacity);
  check_tokens(text, prompt, "the prompt");
}

}  // namespace

Generation generate(Session& session, const TextFacts& text, const std::vector<int64_t>& prompt,
                    const GenerateOptions& options, const std::function<void(int64_t)>& on_token) {
  check_options(options);
  check_prompt(text, prompt);
  check_tokens(text, options.stop_tokens, "the stop tokens (those given, or generation_config.json's eos_token_id)");
  const Sampling sampling = sampling_of(options);
  const Session::Task task(session);
  if (!text.by_position || session.states_are_torn()) session.reset_states();
  Runner runner(session, text, sampling);
  const Chooser choose(sampling);
  Generation result;
  auto start = std::chrono::steady_clock::now();
  // Tokens follow each other without the host where there is a method for it.
  const int32_t own = sampling.temperature <= 0 ? text.greedy : sampling.top_p >= 1 ? text.sample : text.nucleus;
  const auto chain = own >= 0 ? std::optional(text_method(session.program(), own)) : std::nullopt;
  auto position = static_cast<int64_t>(prompt.size());
  int64_t token = read_prompt(runner, prompt, choose, find_prefill(session.program(), text, position), chain);
  while (true) {
    if (result.tokens.empty()) {
      result.prefill_ms = ms_since(start);
      start = std::chrono::steady_clock::now();
    }
    result.tokens.push_back(token);
    if (on_token) on_token(token);
    const bool stop =
        std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token) != options.stop_tokens.end();
    if (stop || static_cast<int64_t>(result.tokens.size()) >= options.max_new_tokens || position >= text.capacity)
      break;
    const auto nth = static_cast<int64_t>(result.tokens.size());
    if (chain) {
      if (nth == 1) runner.start(*chain, token, position, nth);
      token = runner.step(*chain);
    } else {
      runner.decode(token, position);
      token = choose(runner.decoded(), nth);
    }
    ++position;
  }
  if (result.tokens.size() > 1)
    result.decode_ms_per_token = ms_since(start) / static_cast<double>(result.tokens.size() - 1);
  return result;
}

std::vector<int64_t> read_stop_tokens(const std::string& tokenizer_path) {
  check_path(tokenizer_path);
  const auto path = std::filesystem::path(tokenizer_path).parent_path() / "generation_config.json";
  std::error_code error;
  if (tokenizer_path == "-" || !std::filesystem::exists(std::filesystem::symlink_status(path, error))) return {};
  const auto config = read_python_object(path.string());
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return {};
  std::vector<int64_t> tokens;
  constexpr JsonRange id_range = {"eos_token_id", 0, INT32_MAX};
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found}))
    tokens.push_back(static_cast<int64_t>(number_in(id, id_range, path.string())));
  return tokens;
}

Generation generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                    const std::function<void(int64_t)>& on_token) {
  return generate(session, text_facts(session.program()), prompt, options, on_token);
}

}  // namespace npusim
