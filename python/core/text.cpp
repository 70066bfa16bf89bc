// Tokenizers and generation.
#include "npusim/text.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>

#include "convert.h"

namespace npusim::python {
namespace {

using Vocabulary = Handle<Tokenizer>;
using Token = std::function<void(int64_t)>;

std::tuple<std::vector<int64_t>, double, double> generate_tokens(
    Session& session, const std::vector<int64_t>& prompt, int64_t max_new_tokens, std::optional<double> temperature,
    std::optional<double> top_p, std::optional<uint64_t> seed, const std::vector<int64_t>& stop_tokens,
    const std::optional<Token>& on_token) {
  const GenerateOptions options{max_new_tokens, temperature, top_p, seed, stop_tokens};
  Generation found;
  {
    const Work work;
    found = generate(session, prompt, options, on_token ? *on_token : Token());
  }
  return {std::move(found.tokens), found.prefill_ms, found.decode_ms_per_token};
}

}  // namespace

void add_text(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Tokenizer");
  m.def(
      "open_tokenizer", [](const FilePath& path) { return Vocabulary{open_tokenizer(path)}; }, nb::arg("path"),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "encode", [](const Vocabulary& t, const std::string& text, bool special) { return encode(*t.of, text, special); },
      nb::arg("tokenizer"), nb::arg("text"), nb::arg("add_special_tokens"));
  m.def(
      "decode",
      [](const Vocabulary& t, const std::vector<int64_t>& ids, bool skip) { return decode(*t.of, ids, skip); },
      nb::arg("tokenizer"), nb::arg("ids"), nb::arg("skip_special_tokens"));
  m.def(
      "added_token_id", [](const Vocabulary& t, const std::string& content) { return added_token_id(*t.of, content); },
      nb::arg("tokenizer"), nb::arg("content"));
  m.def(
      "read_stop_tokens", [](const FilePath& path) { return read_stop_tokens(path); }, nb::arg("tokenizer_path"));
  m.def(
      "check_text_model", [](const Handle<Program>& p) { check_text_model(*p.of); }, nb::arg("program"));
  m.def("generate", &generate_tokens, nb::arg("session"), nb::arg("prompt"), nb::arg("max_new_tokens"),
        nb::arg("temperature").none(), nb::arg("top_p").none(), nb::arg("seed").none(), nb::arg("stop_tokens"),
        nb::arg("on_token").none());
}

}  // namespace npusim::python
