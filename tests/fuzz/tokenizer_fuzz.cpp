// Fuzzes the tokenizer: a hostile tokenizer.json or text gives an Error, and what the bytes of every accepted text
// encode to decodes to valid text. The input is a tokenizer.json, then optionally a zero byte and a text.
#include <cstdlib>

#include "base/error.h"
#include "text/tokenizer.h"

namespace {

void run(std::string_view file, std::string_view text) {
  using namespace npusim;
  try {
    const Tokenizer tokenizer = parse_tokenizer(file, "fuzz");
    const std::vector<int64_t> ids = encode(tokenizer, text);
    TextStream stream;
    std::string streamed;
    for (int64_t id : ids) streamed += decode_next(tokenizer, stream, id, false);
    if (streamed + decode_end(stream) != decode(tokenizer, ids, false)) std::abort();
  } catch (const Error&) {
  }
}

// Every byte a token, the common pre-tokenizer: here each text must come back as it was.
void run_text(std::string_view text) {
  using namespace npusim;
  static const Tokenizer tokenizer = [] {
    std::string vocab;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      vocab += fmt::format("\"\\u{:04x}\":{},", printable ? b : next++, b);
    }
    return parse_tokenizer(
        "{\"added_tokens\":[{\"id\":259,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":{"
        "\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"merges\":[\"a b\",\"ab ab\",\"b a\"],\"vocab\":{" +
            vocab + "\"ab\":256,\"abab\":257,\"ba\":258}}}",
        "fuzz");
  }();
  try {
    if (decode(tokenizer, encode(tokenizer, text), false) != text) std::abort();
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("expected UTF-8") == std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  run(input.substr(0, end), end == std::string_view::npos ? "" : input.substr(end + 1));
  run_text(input);
  return 0;
}
