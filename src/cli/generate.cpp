// npusim generate: continues a text, streaming it as it comes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/json.h"
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

int run(const Flags& flags) {
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  check_text_model(*program);
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(flags.tokenizer);
  GenerateOptions options = flags.options;
  options.stop_tokens = read_stop_tokens(flags.tokenizer);
  const std::vector<int64_t> prompt = encode(*tokenizer, flags.prompt);
  Session session = open_session(program, flags.session);
  TextStream stream;
  const Generation result = generate(session, prompt, options, [&](int64_t token) {
    if (!flags.json) print_report(decode_next(*tokenizer, stream, token));
  });
  if (!flags.json) {
    print_report(decode_end(stream) + "\n");
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
  verb.add_option("--tokenizer", flags->tokenizer,
                  "tokenizer.json; generation_config.json beside it tells where to stop")
      ->required()
      ->type_name("FILE");
  verb.add_option("--prompt", flags->prompt, "the text to continue")->required()->type_name("TEXT");
  verb.add_option("--max-new-tokens", flags->options.max_new_tokens, "the longest continuation")
      ->type_name("N")
      ->check(integer_in(1, int64_t{1} << 40))
      ->capture_default_str();
  verb.add_option("--temperature", flags->options.temperature, "0 takes the likeliest token; above it samples")
      ->type_name("T")
      ->check(number_in(0, 100))
      ->capture_default_str();
  verb.add_option("--top-p", flags->options.top_p,
                  "samples from the likeliest tokens that have this probability together")
      ->type_name("P")
      ->check(number_in(0, 1))
      ->capture_default_str();
  verb.add_option("--seed", flags->options.seed, "of the sampling")->type_name("N")->capture_default_str();
  verb.add_flag("--json", flags->json, "report as JSON");
  // Asking for a way of sampling is asking to sample.
  return [flags, &verb] {
    if (verb.count("--temperature") == 0 && (verb.count("--top-p") > 0 || verb.count("--seed") > 0))
      flags->options.temperature = 1;
    return run(*flags);
  };
}

}  // namespace npusim::cli
