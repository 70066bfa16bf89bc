// npusim generate: continues a text, streaming it as it comes.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/session.h"
#include "npusim/text.h"

namespace npusim::cli {
namespace {

struct Flags {
  SessionFlags session;
  std::string tokenizer, prompt;
  GenerateOptions options;
  bool json = false;
};

// Under the names that options have here.
void check_flags(const GenerateOptions& options) {
  try {
    check_options(options);
  } catch (const Error& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      std::replace(problem.where.begin(), problem.where.end(), '_', '-');
      problem.where.insert(0, "--");
    }
    throw Error(error.kind(), std::move(problems));
  }
}

int run(const Flags& flags) {
  check_flags(flags.options);
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  check_text_model(*program);
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(flags.tokenizer);
  GenerateOptions options = flags.options;
  options.stop_tokens = read_stop_tokens(flags.tokenizer);
  const std::vector<int64_t> prompt = encode(*tokenizer, flags.prompt);
  Session session = load_session(program, flags.session, open_session_weights(flags.session));
  TextStream stream;
  const Generation result = generate(session, prompt, options, [&](int64_t token) {
    if (!flags.json) print_raw(decode_next(*tokenizer, stream, token));
  });
  if (!flags.json) {
    print_raw(decode_end(stream) + "\n");
    return 0;
  }
  const nlohmann::ordered_json report = {{"prompt_tokens", prompt.size()},
                                         {"tokens", result.tokens},
                                         {"text", decode(*tokenizer, result.tokens)},
                                         {"prefill_ms", result.prefill_ms},
                                         {"decode_ms_per_token", result.decode_ms_per_token}};
  print_report(json_report(report));
  return 0;
}

}  // namespace

Action add_generate(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_session_flags(verb, flags->session);
  add_file(verb, "--tokenizer", flags->tokenizer, "FILE",
           "tokenizer.json; generation_config.json beside it tells where to stop")
      ->required();
  add_text(verb, "--prompt", flags->prompt, "TEXT", "the text to continue")->required();
  // The ranges of these are generate()'s.
  GenerateOptions& options = flags->options;
  add_integer(verb, "--max-new-tokens", options.max_new_tokens, INT64_MIN, INT64_MAX, "N", "the longest continuation")
      ->default_str("64");
  const auto store = [](auto& to) { return [&to](auto value) { to = value; }; };
  add_number(verb, "--temperature", store(options.temperature), "T", "0 takes the likeliest token; above it samples")
      ->default_str("0");
  add_number(verb, "--top-p", store(options.top_p), "P",
             "samples from the likeliest tokens that have this probability together")
      ->default_str("1");
  add_seed(verb, "--seed", store(options.seed), "of the sampling")->default_str("0");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
