// Byte-level BPE: reading tokenizer.json, cutting text into pieces, merging bytes into tokens, decoding.
#include "runtime/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace npusim {
namespace {

using nlohmann::json;

constexpr int64_t id_limit = 1 << 22;  // far above any vocabulary; bounds the memory that a hostile id can ask for

// ---- UTF-8 and Unicode ----

struct CodePoint {
  enum class Kind { valid, cut, invalid } kind;  // cut: the text ends inside it
  size_t length;                                 // bytes; of what is not valid, the longest prefix that could begin one
  char32_t value;
};

// The code point at the start of `text`, which is not empty (the Unicode Standard, table 3-7).
CodePoint read_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {CodePoint::Kind::valid, 1, lead};
  if (lead < 0xc2 || lead > 0xf4) return {CodePoint::Kind::invalid, 1, 0};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  char32_t value = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {CodePoint::Kind::cut, i, 0};
    if (byte(i) < low || byte(i) > high) return {CodePoint::Kind::invalid, i, 0};
    low = 0x80;
    high = 0xbf;
    value = value << 6 | (byte(i) & 0x3fu);
  }
  return {CodePoint::Kind::valid, length, value};
}

// Unicode's White_Space.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// The last code point of valid UTF-8 that is not empty.
std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while ((text[at] & 0xc0) == 0x80) --at;
  return text.substr(at);
}

// Code points that matter to NFC, by Unicode 14: first << 14 | (count - 1) << 8 | class, ascending. Class 255: NFC may
// change it or join it to the one before (NFC_Quick_Check is not Yes); else its canonical combining class.
constexpr uint8_t changed_by_nfc = 255;
constexpr uint32_t nfc_ranges[] = {
    0x00c004ff, 0x00c140e6, 0x00c186ff, 0x00c341e6, 0x00c3c0ff, 0x00c400e6, 0x00c440ff, 0x00c480e6, 0x00c4c1ff,
    0x00c540e8, 0x00c583dc, 0x00c680e8, 0x00c6c0ff, 0x00c704dc, 0x00c841ca, 0x00c8c5ff, 0x00ca43dc, 0x00cb41ff,
    0x00cbc0dc, 0x00cc01ff, 0x00cc81dc, 0x00cd0301, 0x00ce00ff, 0x00ce43dc, 0x00cf42e6, 0x00d005ff, 0x00d180e6,
    0x00d1c2dc, 0x00d282e6, 0x00d341dc, 0x00d402e6, 0x00d4c3dc, 0x00d5c0e6, 0x00d600e8, 0x00d641dc, 0x00d6c0e6,
    0x00d700e9, 0x00d741ea, 0x00d7c0e9, 0x00d801ea, 0x00d880e9, 0x00d8cce6, 0x00dd00ff, 0x00df80ff, 0x00e1c0ff,
    0x0120c4e6, 0x016440dc, 0x016483e6, 0x016580dc, 0x0165c2e6, 0x016680de, 0x0166c0dc, 0x016705e6, 0x016885dc,
    0x016a01e6, 0x016a80dc, 0x016ac1e6, 0x016b40de, 0x016b80e4, 0x016bc0e6, 0x016c000a, 0x016c400b, 0x016c800c,
    0x016cc00d, 0x016d000e, 0x016d400f, 0x016d8010, 0x016dc011, 0x016e0012, 0x016e4113, 0x016ec014, 0x016f0015,
    0x016f4016, 0x016fc017, 0x01704018, 0x01708019, 0x017100e6, 0x017140dc, 0x0171c012, 0x018407e6, 0x0186001e,
    0x0186401f, 0x01868020, 0x0192c01b, 0x0193001c, 0x0193401d, 0x0193801e, 0x0193c01f, 0x01940020, 0x01944021,
    0x01948022, 0x0194c2ff, 0x019580dc, 0x0195c4e6, 0x019700dc, 0x019741e6, 0x0197c0dc, 0x019c0023, 0x01b586e6,
    0x01b7c3e6, 0x01b8c0dc, 0x01b900e6, 0x01b9c1e6, 0x01ba80dc, 0x01bac1e6, 0x01bb40dc, 0x01c44024, 0x01cc00e6,
    0x01cc40dc, 0x01cc81e6, 0x01cd00dc, 0x01cd41e6, 0x01cdc2dc, 0x01ce80e6, 0x01cec1dc, 0x01cf40e6, 0x01cf80dc,
    0x01cfc2e6, 0x01d080dc, 0x01d0c0e6, 0x01d100dc, 0x01d140e6, 0x01d180dc, 0x01d1c0e6, 0x01d200dc, 0x01d241e6,
    0x01fac6e6, 0x01fc80dc, 0x01fcc0e6, 0x01ff40dc, 0x020583e6, 0x0206c8e6, 0x020942e6, 0x020a44e6, 0x021642dc,
    0x022600e6, 0x022642dc, 0x022703e6, 0x023284e6, 0x0233c4dc, 0x02350de6, 0x0238c0dc, 0x023901e6, 0x023980dc,
    0x0239c1e6, 0x023a40dc, 0x023a82e6, 0x023b42dc, 0x023c001b, 0x023c401c, 0x023c801d, 0x023cc2e6, 0x023d80dc,
    0x023dc1e6, 0x023e41dc, 0x023ec4e6, 0x024f00ff, 0x02534009, 0x025440e6, 0x025480dc, 0x0254c1e6, 0x025607ff,
    0x026f0007, 0x026f80ff, 0x02734009, 0x0275c0ff, 0x027701ff, 0x0277c0ff, 0x027f80e6, 0x028cc0ff, 0x028d80ff,
    0x028f0007, 0x02934009, 0x029642ff, 0x029780ff, 0x02af0007, 0x02b34009, 0x02cf0007, 0x02cf80ff, 0x02d34009,
    0x02d581ff, 0x02d701ff, 0x02ef80ff, 0x02f34009, 0x02f5c0ff, 0x030f0007, 0x03134009, 0x03154054, 0x031580ff,
    0x032f0007, 0x033080ff, 0x03334009, 0x033541ff, 0x034ec109, 0x034f80ff, 0x03534009, 0x0355c0ff, 0x037280ff,
    0x0373c0ff, 0x0377c0ff, 0x038e0167, 0x038e8009, 0x0392036b, 0x03ae0176, 0x03ae8009, 0x03b2037a, 0x03c601dc,
    0x03cd40dc, 0x03cdc0dc, 0x03ce40d8, 0x03d0c0ff, 0x03d340ff, 0x03d480ff, 0x03d5c0ff, 0x03d700ff, 0x03da40ff,
    0x03dc4081, 0x03dc8082, 0x03dcc0ff, 0x03dd0084, 0x03dd41ff, 0x03de00ff, 0x03de8382, 0x03e00082, 0x03e040ff,
    0x03e081e6, 0x03e10009, 0x03e181e6, 0x03e4c0ff, 0x03e740ff, 0x03e880ff, 0x03e9c0ff, 0x03eb00ff, 0x03ee40ff,
    0x03f180dc, 0x040b80ff, 0x040dc007, 0x040e4109, 0x042340dc, 0x045854ff, 0x046a1aff, 0x04d742e6, 0x05c50109,
    0x05cd0009, 0x05f48009, 0x05f740e6, 0x062a40e4, 0x064e40de, 0x064e80e6, 0x064ec0dc, 0x0685c0e6, 0x068600dc,
    0x06980009, 0x069d47e6, 0x069fc0dc, 0x06ac04e6, 0x06ad45dc, 0x06aec1e6, 0x06af40dc, 0x06afc1dc, 0x06b041e6,
    0x06b0c1dc, 0x06b144e6, 0x06b280dc, 0x06b2c3e6, 0x06cd0007, 0x06cd40ff, 0x06d10009, 0x06dac0e6, 0x06db00dc,
    0x06db46e6, 0x06ea8109, 0x06f98007, 0x06fc8109, 0x070dc007, 0x073402e6, 0x07350001, 0x073544dc, 0x073681e6,
    0x073703dc, 0x073800e6, 0x07388601, 0x073b40dc, 0x073d00e6, 0x073e01e6, 0x077001e6, 0x077080dc, 0x0770c6e6,
    0x077280dc, 0x0772c1e6, 0x077340ea, 0x077380d6, 0x0773c0dc, 0x077400ca, 0x077464e6, 0x077d80e8, 0x077dc1e4,
    0x077e40dc, 0x077e80da, 0x077ec0e6, 0x077f00e9, 0x077f40dc, 0x077f80e6, 0x077fc0dc, 0x07dc40ff, 0x07dcc0ff,
    0x07dd40ff, 0x07ddc0ff, 0x07de40ff, 0x07dec0ff, 0x07df40ff, 0x07eec0ff, 0x07ef80ff, 0x07f240ff, 0x07f2c0ff,
    0x07f4c0ff, 0x07f6c0ff, 0x07f8c0ff, 0x07fac0ff, 0x07fb81ff, 0x07fe40ff, 0x07fec0ff, 0x07ff40ff, 0x080001ff,
    0x083401e6, 0x08348101, 0x083503e6, 0x08360201, 0x0836c1e6, 0x083840e6, 0x08394101, 0x0839c0e6, 0x083a00dc,
    0x083a40e6, 0x083a8101, 0x083b03dc, 0x083c00e6, 0x084980ff, 0x084a81ff, 0x08ca41ff, 0x0ab700ff, 0x0b3bc2e6,
    0x0b5fc009, 0x0b781fe6, 0x0c0a80da, 0x0c0ac0e4, 0x0c0b00e8, 0x0c0b40de, 0x0c0b81e0, 0x0c2641ff, 0x299bc0e6,
    0x299d09e6, 0x29a781e6, 0x29bc01e6, 0x2a018009, 0x2a0b0009, 0x2a310009, 0x2a3811e6, 0x2a4ac2dc, 0x2a54c009,
    0x2a6cc007, 0x2a700009, 0x2aac00e6, 0x2aac81e6, 0x2aad00dc, 0x2aadc1e6, 0x2aaf81e6, 0x2ab040e6, 0x2abd8009,
    0x2afb4009, 0x3e403fff, 0x3e503fff, 0x3e603fff, 0x3e703fff, 0x3e800dff, 0x3e8400ff, 0x3e8480ff, 0x3e8549ff,
    0x3e8800ff, 0x3e8880ff, 0x3e8941ff, 0x3e8abfff, 0x3e9a83ff, 0x3e9c3fff, 0x3eac29ff, 0x3ec740ff, 0x3ec7801a,
    0x3ec7c0ff, 0x3eca8cff, 0x3ece04ff, 0x3ecf80ff, 0x3ed001ff, 0x3ed0c1ff, 0x3ed188ff, 0x3f8806e6, 0x3f89c6dc,
    0x3f8b81e6, 0x407f40dc, 0x40b800dc, 0x40dd84e6, 0x428340dc, 0x4283c0e6, 0x428e00e6, 0x428e4001, 0x428e80dc,
    0x428fc009, 0x42b940e6, 0x42b980dc, 0x434903e6, 0x43aac1e6, 0x43d181dc, 0x43d202e6, 0x43d2c0dc, 0x43d300e6,
    0x43d343dc, 0x43e080e6, 0x43e0c0dc, 0x43e100e6, 0x43e140dc, 0x44118009, 0x441c0009, 0x441fc009, 0x442e4009,
    0x442e80ff, 0x444002e6, 0x4449c0ff, 0x444cc109, 0x445cc007, 0x44700009, 0x44728007, 0x448d4009, 0x448d8007,
    0x44ba4007, 0x44ba8009, 0x44cec107, 0x44cf80ff, 0x44d34009, 0x44d5c0ff, 0x44d986e6, 0x44dc04e6, 0x45108009,
    0x45118007, 0x451780e6, 0x452c00ff, 0x452e80ff, 0x452f40ff, 0x45308009, 0x4530c007, 0x456bc0ff, 0x456fc009,
    0x45700007, 0x458fc009, 0x45ad8009, 0x45adc007, 0x45cac009, 0x460e4009, 0x460e8007, 0x464c00ff, 0x464f4109,
    0x4650c007, 0x46780009, 0x468d0009, 0x4691c009, 0x46a64009, 0x470fc009, 0x47508007, 0x47510109, 0x4765c009,
    0x5abc0401, 0x5acc06e6, 0x5bfc0106, 0x6f278001, 0x745786ff, 0x745941d8, 0x7459c201, 0x745b40e2, 0x745b84d8,
    0x745ec7dc, 0x746144e6, 0x746281dc, 0x746a83e6, 0x746ec5ff, 0x749082e6, 0x780006e6, 0x780210e6, 0x7806c6e6,
    0x7808c1e6, 0x780984e6, 0x784c06e6, 0x78ab80e6, 0x78bb03e6, 0x7a3406dc, 0x7a5105e6, 0x7a528007, 0xbe003fff,
    0xbe103fff, 0xbe203fff, 0xbe303fff, 0xbe403fff, 0xbe503fff, 0xbe603fff, 0xbe703fff, 0xbe801dff};

uint8_t nfc_class(char32_t c) {
  const auto* next = std::upper_bound(std::begin(nfc_ranges), std::end(nfc_ranges), c,
                                      [](char32_t value, uint32_t range) { return value < range >> 14; });
  if (next == std::begin(nfc_ranges)) return 0;
  const uint32_t range = next[-1];
  return c - (range >> 14) <= ((range >> 8) & 63) ? range & 255 : 0;
}

// Requires valid UTF-8, and with `nfc` that it is certainly its own NFC form.
void check_text(const Tokenizer& tokenizer, std::string_view text) {
  uint8_t previous = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = read_code_point(text.substr(at));
    if (c.kind != CodePoint::Kind::valid)
      fail(ErrorKind::bad_input, "text to tokenize: expected UTF-8, found byte 0x{:02x} at byte {}", text[at] & 0xff,
           at);
    if (tokenizer.nfc && c.value >= 0x300) {
      const uint8_t current = nfc_class(c.value);
      if (current == changed_by_nfc || (current != 0 && current < previous))
        fail(ErrorKind::unsupported,
             "text to tokenize: {} asks for NFC, which may change U+{:04X} at byte {}; pass the text in NFC",
             tokenizer.origin, static_cast<uint32_t>(c.value), at);
      previous = current;
    } else {
      previous = 0;
    }
    at += c.length;
  }
}

// GPT-2 writes each byte of a token as one printable character: itself if printable Latin-1, else U+0100 upward.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    characters[b] = printable ? b : next++;
  }
  return characters;
}

// The bytes that a token of the file stands for; a token with a character that stands for no byte is taken literally.
std::string bytes_of_token(std::string_view token) {
  static const std::array<int, 512> bytes = [] {
    std::array<int, 512> inverse;
    inverse.fill(-1);
    const auto characters = byte_characters();
    for (size_t b = 0; b < 256; ++b) inverse[characters[b]] = static_cast<int>(b);
    return inverse;
  }();
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = read_code_point(token.substr(at));
    if (c.value >= bytes.size() || bytes[c.value] < 0) return std::string(token);
    result += static_cast<char>(bytes[c.value]);
    at += c.length;
  }
  return result;
}

// ---- The JSON file ----

// A value of the file and where it stands, such as "model.vocab".
struct Field {
  const json& value;
  const std::string& origin;
  std::string path;
};

std::string where(const Field& field) { return field.path.empty() ? field.origin : field.origin + ": " + field.path; }
std::string show(std::string_view text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

[[noreturn]] void expected(const Field& field, std::string_view what) {
  fail(ErrorKind::bad_input, "{}: expected {}, found {}", where(field), what,
       field.value.is_number() ? field.value.dump() : field.value.type_name());
}

[[noreturn]] void unsupported(const Field& field, std::string_view supported) {
  fail(ErrorKind::unsupported, "{}: {} is not supported (supported: {})", where(field),
       field.value.is_string() ? show(field.value.get_ref<const std::string&>())
                               : (field.value.is_primitive() ? field.value.dump() : field.value.type_name()),
       supported);
}

const json missing_value = nullptr;

// The member of an object; a missing one reads as null.
Field member(const Field& object, const std::string& key) {
  if (!object.value.is_object()) expected(object, "an object");
  const auto it = object.value.find(key);
  return {it == object.value.end() ? missing_value : *it, object.origin,
          object.path.empty() ? key : object.path + "." + key};
}

std::vector<Field> elements(const Field& array) {
  if (!array.value.is_array()) expected(array, "an array");
  std::vector<Field> result;
  for (size_t i = 0; i < array.value.size(); ++i)
    result.push_back({array.value[i], array.origin, fmt::format("{}[{}]", array.path, i)});
  return result;
}

const std::string& string(const Field& field) {
  if (!field.value.is_string()) expected(field, "a string");
  return field.value.get_ref<const std::string&>();
}

bool boolean(const Field& field, bool otherwise) {
  if (field.value.is_null()) return otherwise;
  if (!field.value.is_boolean()) expected(field, "true or false");
  return field.value.get<bool>();
}

int32_t token_id(const Field& field) {
  if (!field.value.is_number_unsigned() || field.value.get<uint64_t>() >= id_limit)
    expected(field, fmt::format("a token id below {}", id_limit));
  return field.value.get<int32_t>();
}

void define_token(Tokenizer& tokenizer, std::vector<bool>& defined, const Field& field, int32_t id,
                  std::string_view token) {
  const size_t index = static_cast<size_t>(id);
  if (index >= defined.size()) {
    defined.resize(index + 1);
    tokenizer.token_bytes.resize(index + 1);
    tokenizer.special.resize(index + 1);
  }
  if (defined[index])
    fail(ErrorKind::bad_input, "{}: token {} has id {}, which is taken", where(field), show(token), id);
  defined[index] = true;
  tokenizer.token_bytes[index] = bytes_of_token(token);
}

int32_t vocabulary_id(const json& vocab, const std::string& token, const Field& user) {
  const auto it = vocab.find(token);
  if (it == vocab.end()) fail(ErrorKind::bad_input, "{}: token {} is not in model.vocab", where(user), show(token));
  return it->get<int32_t>();
}

void parse_merges(Tokenizer& tokenizer, const json& vocab, const Field& merges) {
  if (!merges.value.is_array()) expected(merges, "an array");
  for (size_t rank = 0; rank < merges.value.size(); ++rank) {
    const Field merge = {merges.value[rank], merges.origin, fmt::format("{}[{}]", merges.path, rank)};
    std::string left, right;
    if (merge.value.is_array() && merge.value.size() == 2 && merge.value[0].is_string() && merge.value[1].is_string()) {
      left = merge.value[0].get<std::string>();
      right = merge.value[1].get<std::string>();
    } else if (merge.value.is_string()) {
      const std::string& pair = string(merge);
      if (pair.starts_with("#version")) continue;
      const size_t space = pair.find(' ');
      if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
        fail(ErrorKind::bad_input, "{}: expected two tokens around one space, found {}", where(merge), show(pair));
      left = pair.substr(0, space);
      right = pair.substr(space + 1);
    } else {
      expected(merge, "\"left right\" or [\"left\", \"right\"]");
    }
    const auto left_id = static_cast<uint64_t>(vocabulary_id(vocab, left, merge));
    const auto right_id = static_cast<uint64_t>(vocabulary_id(vocab, right, merge));
    tokenizer.merges[left_id << 32 | right_id] = {static_cast<int32_t>(rank),
                                                  vocabulary_id(vocab, left + right, merge)};
  }
}

void parse_model(Tokenizer& tokenizer, std::vector<bool>& defined, const Field& model) {
  const Field type = member(model, "type");
  if (!type.value.is_null() && type.value != "BPE") unsupported(type, "\"BPE\"");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Field affix = member(model, key); !affix.value.is_null() && affix.value != "") unsupported(affix, "none");
  if (const Field dropout = member(model, "dropout"); !dropout.value.is_null() && dropout.value != 0)
    unsupported(dropout, "null");
  if (const Field fallback = member(model, "byte_fallback"); boolean(fallback, false)) unsupported(fallback, "false");

  const Field vocab = member(model, "vocab");
  if (!vocab.value.is_object()) expected(vocab, "an object");
  for (const auto& [token, id] : vocab.value.items()) {
    const Field field = {id, vocab.origin, vocab.path + "[" + show(token) + "]"};
    define_token(tokenizer, defined, vocab, token_id(field), token);
  }
  tokenizer.byte_ids.fill(-1);
  const auto characters = byte_characters();
  for (size_t b = 0; b < 256; ++b) {
    const std::string character = characters[b] < 0x80 ? std::string(1, static_cast<char>(b))
                                                       : std::string{static_cast<char>(0xc0 | characters[b] >> 6),
                                                                     static_cast<char>(0x80 | (characters[b] & 0x3f))};
    if (const auto it = vocab.value.find(character); it != vocab.value.end())
      tokenizer.byte_ids[b] = it->get<int32_t>();
  }
  parse_merges(tokenizer, vocab.value, member(model, "merges"));
  if (const Field unknown = member(model, "unk_token"); !unknown.value.is_null())
    tokenizer.unknown = vocabulary_id(vocab.value, string(unknown), unknown);
  tokenizer.fuse_unknown = boolean(member(model, "fuse_unk"), false);
  if (boolean(member(model, "ignore_merges"), false))
    for (const auto& [token, id] : vocab.value.items())
      tokenizer.whole_words.emplace(bytes_of_token(token), id.get<int32_t>());
}

void parse_added_tokens(Tokenizer& tokenizer, std::vector<bool>& defined, const json& vocab, const Field& list) {
  if (list.value.is_null()) return;
  for (const Field& field : elements(list)) {
    AddedToken token;
    token.content = string(member(field, "content"));
    token.id = token_id(member(field, "id"));
    token.single_word = boolean(member(field, "single_word"), false);
    token.lstrip = boolean(member(field, "lstrip"), false);
    token.rstrip = boolean(member(field, "rstrip"), false);
    if (token.content.empty()) fail(ErrorKind::bad_input, "{}.content: expected text, found none", where(field));
    if (const auto it = vocab.find(token.content); it == vocab.end())
      define_token(tokenizer, defined, field, static_cast<int32_t>(token.id), token.content);
    else if (it->get<int64_t>() != token.id)
      fail(ErrorKind::bad_input, "{}: token {} has id {}, but {} in model.vocab", where(field), show(token.content),
           token.id, it->get<int64_t>());
    tokenizer.special[static_cast<size_t>(token.id)] = boolean(member(field, "special"), false);
    // The normalized form of the tokens themselves is their text: check_text refuses all else.
    const bool normalized = boolean(member(field, "normalized"), false);
    if (normalized) check_text(tokenizer, token.content);
    AddedTokenTrie& trie = tokenizer.added[normalized ? 1 : 0];
    int node = 0;
    for (char c : token.content) {
      const auto [next, fresh] = trie.nodes[static_cast<size_t>(node)].children.try_emplace(c, trie.nodes.size());
      node = next->second;
      if (fresh) trie.nodes.emplace_back();
    }
    int& leaf = trie.nodes[static_cast<size_t>(node)].token;
    if (leaf >= 0) fail(ErrorKind::bad_input, "{}: duplicate token {}", where(field), show(token.content));
    leaf = static_cast<int>(trie.tokens.size());
    trie.tokens.push_back(std::move(token));
  }
}

// ---- Split patterns ----

constexpr std::string_view spaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view non_spaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view word_characters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr const char* gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void refuse_syntax(const Field& pattern, std::string_view what) {
  fail(ErrorKind::unsupported, "{}: {} in {} is not supported", where(pattern), what, show(string(pattern)));
}

// The escape at text[at] in PCRE2's syntax, `at` moved behind it.
std::string translate_escape(std::string_view text, size_t& at, bool in_class, const Field& pattern) {
  const char c = at + 1 < text.size() ? text[at + 1] : '\0';
  const auto set = [&](std::string_view members, bool negated) {
    at += 2;
    return in_class ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members);
  };
  if (c == 's') return set(spaces, false);
  if (c == 'S') return set(in_class ? non_spaces : spaces, true);
  if (c == 'w') return set(word_characters, false);
  if (c == 'W' && !in_class) return set(word_characters, true);
  const size_t close = text.find('}', at);
  if ((c == 'p' || c == 'P' || c == 'x') && text.substr(at + 2).starts_with('{') && close != std::string_view::npos) {
    const std::string_view name = text.substr(at + 3, close - at - 3);
    at = close + 1;
    const bool script = c != 'x' && name.size() > (name.starts_with('^') ? 3 : 2);  // by itself: Script_Extensions
    return script ? fmt::format("\\{}{{sc:{}}}", c, name) : fmt::format("\\{}{{{}}}", c, name);
  }
  const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (c == '\0' || (alphanumeric && std::string_view("dDrntfaeAz").find(c) == std::string_view::npos))
    refuse_syntax(pattern, fmt::format("\\{}", c == '\0' ? std::string() : std::string(1, c)));
  at += 2;
  return std::string(text.substr(at - 2, 2));
}

// PCRE2 options under which a translated pattern means what Ruby's means.
constexpr uint32_t ruby_options = PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

// Files are written for Oniguruma's Ruby syntax. What PCRE2 spells otherwise is translated; syntax that PCRE2 would
// accept with another meaning is refused.
std::string translate_pattern(const Field& pattern) {
  const std::string_view text = string(pattern);
  std::string result;
  bool in_class = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest[0] == '\\') {
      result += translate_escape(text, at, in_class, pattern);
      continue;
    }
    if (in_class) {
      if (rest[0] == '[') refuse_syntax(pattern, "a set inside a set");
      if (rest.starts_with("&&")) refuse_syntax(pattern, "an intersection of sets");
      if (rest[0] == ']') in_class = false;
    } else if (rest[0] == '[') {
      if (rest.starts_with("[]") || rest.starts_with("[^]")) refuse_syntax(pattern, "a set that begins with ]");
      in_class = true;
    } else if (rest.starts_with("(*")) {
      refuse_syntax(pattern, "(*");
    } else if (rest.starts_with("(?")) {
      const std::string_view kind = rest.substr(2);
      const auto begins = [&](const char* text) { return kind.starts_with(text); };
      constexpr std::array plain = {":", "=", "!", ">", "<=", "<!", "i:", "-i:"};
      if (std::none_of(plain.begin(), plain.end(), begins) && !(at == 0 && begins("i)")))
        refuse_syntax(pattern, "the group (?" + std::string(kind.substr(0, kind.find_first_of(":)") + 1)));
    } else if (rest.starts_with("{,") || rest.starts_with("}+") || rest.starts_with("}?")) {
      refuse_syntax(pattern, std::string(rest.substr(0, 2)));
    }
    result += rest[0];
    ++at;
  }
  return result;
}

std::shared_ptr<const pcre2_code> compile_pattern(const std::string& text, uint32_t options, const Field& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  options |= PCRE2_UTF;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error, &offset, nullptr);
  if (!code) {
    char message[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    refuse_syntax(pattern, message);
  }
  return {code, [](const pcre2_code* c) { pcre2_code_free(const_cast<pcre2_code*>(c)); }};
}

SplitBehavior parse_behavior(const Field& field) {
  constexpr std::array names = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto it = std::find(names.begin(), names.end(), string(field));
  if (it == names.end()) unsupported(field, "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
  return static_cast<SplitBehavior>(it - names.begin());
}

SplitStep parse_split_step(const Field& field) {
  const Field type = member(field, "type");
  SplitStep step;
  const auto compile = [&](const char* text, const Field& place) {
    const json value = text;
    const Field pattern = {value, place.origin, place.path};
    return compile_pattern(translate_pattern(pattern), ruby_options, pattern);
  };
  if (string(type) == "ByteLevel") {
    step.add_prefix_space = boolean(member(field, "add_prefix_space"), true);
    if (boolean(member(field, "use_regex"), true)) step.pattern = compile(gpt2_pattern, field);
  } else if (string(type) == "Digits") {
    step.pattern = compile(boolean(member(field, "individual_digits"), false) ? "\\p{N}" : "\\p{N}+", field);
  } else if (string(type) == "Split") {
    const Field pattern = member(field, "pattern");
    const Field regex = member(pattern, "Regex");
    const Field literal = member(pattern, "String");
    step.pattern = regex.value.is_null() ? compile_pattern(string(literal), PCRE2_LITERAL, literal)
                                         : compile_pattern(translate_pattern(regex), ruby_options, regex);
    step.behavior = parse_behavior(member(field, "behavior"));
    step.invert = boolean(member(field, "invert"), false);
  } else {
    unsupported(type, "ByteLevel, Split, Digits, and a Sequence of them");
  }
  return step;
}

std::vector<SplitStep> parse_pre_tokenizer(const Field& field) {
  if (field.value.is_null()) unsupported(field, "ByteLevel, alone or last in a Sequence");
  const bool sequence = string(member(field, "type")) == "Sequence";
  const std::vector<Field> parts = sequence ? elements(member(field, "pretokenizers")) : std::vector<Field>{field};
  std::vector<SplitStep> steps;
  for (size_t i = 0; i < parts.size(); ++i) {
    steps.push_back(parse_split_step(parts[i]));
    const Field type = member(parts[i], "type");
    if ((type.value == "ByteLevel") != (i + 1 == parts.size()))
      unsupported(type, "ByteLevel, alone or last in a Sequence");
  }
  if (steps.empty()) expected(member(field, "pretokenizers"), "ByteLevel as the last element");
  return steps;
}

int32_t defined_id(const Tokenizer& tokenizer, const Field& field) {
  const int32_t id = token_id(field);
  if (static_cast<size_t>(id) >= tokenizer.token_bytes.size())
    expected(field, fmt::format("a token id below {}", tokenizer.token_bytes.size()));
  return id;
}

// The ids that stand for `token` in a TemplateProcessing.
std::vector<int64_t> template_ids(const Tokenizer& tokenizer, const Field& processor, const Field& token) {
  std::vector<int64_t> ids;
  const Field list = member(member(member(processor, "special_tokens"), string(token)), "ids");
  for (const Field& id : elements(list)) ids.push_back(defined_id(tokenizer, id));
  return ids;
}

void parse_post_processor(Tokenizer& tokenizer, const Field& field) {
  const std::string& type = string(member(field, "type"));
  if (type == "ByteLevel") return;  // moves offsets only
  std::vector<int64_t> before, after;
  if (type == "TemplateProcessing") {
    bool seen_text = false;
    for (const Field& item : elements(member(field, "single"))) {
      const Field special = member(item, "SpecialToken");
      if (special.value.is_null()) {
        if (seen_text || member(member(item, "Sequence"), "id").value != "A") expected(item, "sequence A once");
        seen_text = true;
        continue;
      }
      for (int64_t id : template_ids(tokenizer, field, member(special, "id")))
        (seen_text ? after : before).push_back(id);
    }
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const auto id_of = [&](const char* key) {
      const std::vector<Field> pair = elements(member(field, key));
      if (pair.size() != 2) expected(member(field, key), "[token, id]");
      return defined_id(tokenizer, pair[1]);
    };
    before = {id_of("cls")};
    after = {id_of("sep")};
  } else {
    unsupported(member(field, "type"), "ByteLevel, TemplateProcessing, RobertaProcessing, and a Sequence of them");
  }
  tokenizer.prefix.insert(tokenizer.prefix.begin(), before.begin(), before.end());
  tokenizer.suffix.insert(tokenizer.suffix.end(), after.begin(), after.end());
}

// ---- Encoding ----

struct Piece {
  size_t begin, end;  // bytes
  bool is_match;
};

// The scratch memory of one encode() call.
struct Matcher {
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data{pcre2_match_data_create(1, nullptr),
                                                                      pcre2_match_data_free};
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context{pcre2_match_context_create(nullptr),
                                                                               pcre2_match_context_free};
  // Real patterns backtrack at most a few times per byte of a run of spaces; hostile ones must not take for ever.
  explicit Matcher(size_t text_size) {
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(100'000 + 8 * text_size, UINT32_MAX)));
  }
};

// The matches in valid UTF-8 and the gaps between them, in order; an empty match only cuts.
std::vector<Piece> find_pieces(const pcre2_code* pattern, std::string_view text, Matcher& matcher) {
  std::vector<Piece> pieces;
  size_t done = 0;  // where the last match ended
  for (size_t from = 0; from <= text.size();) {
    const int count = pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, matcher.data.get(), matcher.context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(matcher.data.get());
    if (count < 0 || span[0] < done || span[1] < span[0])
      fail(ErrorKind::unsupported,
           "text to tokenize: the split pattern gave up at byte {} of a piece of {} bytes (PCRE2 error {})", from,
           text.size(), count);
    if (span[0] > done) pieces.push_back({done, span[0], false});
    if (span[1] > span[0]) pieces.push_back({span[0], span[1], true});
    const bool empty = span[1] == span[0];
    from = done = span[1];
    if (empty) from += from < text.size() ? read_code_point(text.substr(from)).length : 1;
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

// Applies the behavior: matches stand alone, vanish, or join the piece before or after them, as in `tokenizers`.
std::vector<Piece> apply_behavior(std::vector<Piece> pieces, SplitBehavior behavior) {
  if (behavior == SplitBehavior::isolated) return pieces;
  if (behavior == SplitBehavior::removed) {
    std::erase_if(pieces, [](const Piece& piece) { return piece.is_match; });
    return pieces;
  }
  const bool backward = behavior == SplitBehavior::merged_with_next;
  if (backward) std::reverse(pieces.begin(), pieces.end());
  std::vector<Piece> result;
  bool previous = false;
  for (const Piece& piece : pieces) {
    const bool joins = behavior == SplitBehavior::contiguous ? piece.is_match == previous : piece.is_match && !previous;
    previous = piece.is_match;
    if (!joins || result.empty())
      result.push_back(piece);
    else if (backward)
      result.back().begin = piece.begin;
    else
      result.back().end = piece.end;
  }
  if (backward) std::reverse(result.begin(), result.end());
  return result;
}

struct Symbol {
  int32_t id;
  int32_t previous, next;  // indices of the neighbours, -1 at the ends
  bool alive = true;
};

struct Candidate {
  int32_t rank, left, id;  // merges the symbols `left` and its next into token `id`
  bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
};

// One symbol per byte.
std::vector<Symbol> byte_symbols(const Tokenizer& tokenizer, std::string_view piece) {
  std::vector<Symbol> symbols;
  bool in_unknown = false;
  for (char c : piece) {
    int32_t id = tokenizer.byte_ids[static_cast<unsigned char>(c)];
    const bool known = id >= 0;
    if (!known) {
      if (!tokenizer.unknown)
        fail(ErrorKind::bad_input, "text to tokenize: {} has no token for byte 0x{:02x} and no unk_token",
             tokenizer.origin, c & 0xff);
      id = *tokenizer.unknown;
    }
    if (known || !in_unknown || !tokenizer.fuse_unknown) {
      const int32_t index = static_cast<int32_t>(symbols.size());
      symbols.push_back({id, index - 1, index + 1});
    }
    in_unknown = !known;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

// Applies the merges by rank, leftmost first, in O(n log n): every merge makes at most two new candidates, and those
// that another merge has outdated are dropped when they come up.
void encode_piece(const Tokenizer& tokenizer, std::string_view piece, std::vector<int64_t>& ids) {
  if (!tokenizer.whole_words.empty())
    if (const auto it = tokenizer.whole_words.find(std::string(piece)); it != tokenizer.whole_words.end()) {
      ids.push_back(it->second);
      return;
    }
  std::vector<Symbol> symbols = byte_symbols(tokenizer, piece);
  const auto find_merge = [&](const Symbol& left) -> const MergeRule* {
    if (left.next < 0) return nullptr;
    const auto it = tokenizer.merges.find(static_cast<uint64_t>(left.id) << 32 |
                                          static_cast<uint64_t>(symbols[static_cast<size_t>(left.next)].id));
    return it == tokenizer.merges.end() ? nullptr : &it->second;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](int32_t left) {
    if (left < 0) return;
    if (const MergeRule* rule = find_merge(symbols[static_cast<size_t>(left)]))
      queue.push({rule->rank, left, rule->id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) propose(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    const MergeRule* rule = left.alive ? find_merge(left) : nullptr;
    if (!rule || rule->id != best.id) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    right.alive = false;
    left.id = best.id;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
    propose(left.previous);
    propose(best.left);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.alive) ids.push_back(symbol.id);
}

void encode_plain(const Tokenizer& tokenizer, std::string_view text, Matcher& matcher, std::vector<int64_t>& ids) {
  std::deque<std::string> prefixed;  // the pieces that got a space in front
  std::vector<std::string_view> pieces = {text}, next;
  for (const SplitStep& step : tokenizer.splits) {
    next.clear();
    for (std::string_view piece : pieces) {
      if (step.add_prefix_space && !piece.starts_with(' ')) piece = prefixed.emplace_back(" ").append(piece);
      if (!step.pattern) {
        next.push_back(piece);
        continue;
      }
      std::vector<Piece> cut = find_pieces(step.pattern.get(), piece, matcher);
      if (step.invert)
        for (Piece& part : cut) part.is_match = !part.is_match;
      for (const Piece& part : apply_behavior(std::move(cut), step.behavior))
        next.push_back(piece.substr(part.begin, part.end - part.begin));
    }
    std::swap(pieces, next);
  }
  for (std::string_view piece : pieces) encode_piece(tokenizer, piece, ids);
}

// Whether the code point is one that a single_word token must not touch.
bool is_word(std::string_view character, Matcher& matcher) {
  static const json text = fmt::format("[{}\\x{{200c}}\\x{{200d}}]", word_characters);
  static const std::string origin = "word characters";
  static const auto pattern =
      compile_pattern(text.get<std::string>(), ruby_options | PCRE2_ANCHORED, {text, origin, ""});
  return pcre2_match(pattern.get(), reinterpret_cast<PCRE2_SPTR>(character.data()), character.size(), 0,
                     PCRE2_NO_UTF_CHECK, matcher.data.get(), nullptr) > 0;
}

// The longest added token at the start of `text`, or null.
const AddedToken* match_added(const AddedTokenTrie& trie, std::string_view text) {
  int node = 0, best = -1;
  for (char c : text) {
    const auto& children = trie.nodes[static_cast<size_t>(node)].children;
    const auto it = children.find(c);
    if (it == children.end()) break;
    node = it->second;
    if (trie.nodes[static_cast<size_t>(node)].token >= 0) best = trie.nodes[static_cast<size_t>(node)].token;
  }
  return best < 0 ? nullptr : &trie.tokens[static_cast<size_t>(best)];
}

// Encodes text around the added tokens of `level` and beyond (0: raw, 1: normalized, 2: none are left).
void encode_level(const Tokenizer& tokenizer, std::string_view text, size_t level, Matcher& matcher,
                  std::vector<int64_t>& ids) {
  if (text.empty()) return;
  if (level == tokenizer.added.size()) return encode_plain(tokenizer, text, matcher, ids);
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = match_added(tokenizer.added[level], text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && ((begin > 0 && is_word(last_character(text.substr(0, begin)), matcher)) ||
                               (end < text.size() && is_word(text.substr(end), matcher))))
      continue;
    while (token->lstrip && begin > done) {
      const std::string_view before = last_character(text.substr(0, begin));
      if (!is_space(read_code_point(before).value)) break;
      begin -= before.size();
    }
    while (token->rstrip && end < text.size()) {
      const CodePoint after = read_code_point(text.substr(end));
      if (!is_space(after.value)) break;
      end += after.length;
    }
    if (begin > done) encode_level(tokenizer, text.substr(done, begin - done), level + 1, matcher, ids);
    ids.push_back(token->id);
    done = std::max(done, end);
  }
  encode_level(tokenizer, text.substr(done), level + 1, matcher, ids);
}

// Moves the code points of `bytes` that are complete to the result, U+FFFD for each ill-formed sequence.
std::string take_text(std::string& bytes) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    const CodePoint c = read_code_point(std::string_view(bytes).substr(at));
    if (c.kind == CodePoint::Kind::cut) break;
    if (c.kind == CodePoint::Kind::valid)
      text.append(bytes, at, c.length);
    else
      text += "\uFFFD";
    at += c.length;
  }
  bytes.erase(0, at);
  return text;
}

}  // namespace

Tokenizer parse_tokenizer(std::string_view text, const std::string& origin) {
  json document;
  try {
    document = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& e) {
    fail(ErrorKind::bad_input, "{}: not valid JSON at byte {}", origin, e.byte);
  } catch (const json::exception&) {
    fail(ErrorKind::bad_input, "{}: a number is out of range", origin);
  }
  const Field root = {document, origin, ""};
  Tokenizer tokenizer;
  tokenizer.origin = origin;
  if (const Field normalizer = member(root, "normalizer"); !normalizer.value.is_null()) {
    if (string(member(normalizer, "type")) != "NFC") unsupported(member(normalizer, "type"), "null, \"NFC\"");
    tokenizer.nfc = true;
  }
  std::vector<bool> defined;  // the ids that have a token
  const Field model = member(root, "model");
  parse_model(tokenizer, defined, model);
  parse_added_tokens(tokenizer, defined, member(model, "vocab").value, member(root, "added_tokens"));
  tokenizer.splits = parse_pre_tokenizer(member(root, "pre_tokenizer"));
  if (const Field post = member(root, "post_processor"); !post.value.is_null()) {
    if (string(member(post, "type")) == "Sequence")
      for (const Field& part : elements(member(post, "processors"))) parse_post_processor(tokenizer, part);
    else
      parse_post_processor(tokenizer, post);
  }
  const Field decoder = member(root, "decoder");
  if (decoder.value.is_null()) unsupported(decoder, "ByteLevel");
  if (string(member(decoder, "type")) != "ByteLevel") unsupported(member(decoder, "type"), "ByteLevel");
  return tokenizer;
}

Tokenizer load_tokenizer(const std::string& path) { return parse_tokenizer(read_file(path), path); }

std::vector<int64_t> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special_tokens) {
  if (text.size() >= INT32_MAX) fail(ErrorKind::bad_input, "text to tokenize: {} bytes are too many", text.size());
  check_text(tokenizer, text);
  Matcher matcher(text.size());
  std::vector<int64_t> ids;
  if (add_special_tokens) ids = tokenizer.prefix;
  encode_level(tokenizer, text, 0, matcher, ids);
  if (add_special_tokens) ids.insert(ids.end(), tokenizer.suffix.begin(), tokenizer.suffix.end());
  return ids;
}

std::string decode(const Tokenizer& tokenizer, std::span<const int64_t> ids, bool skip_special_tokens) {
  TextStream stream;
  std::string text;
  for (int64_t id : ids) text += decode_next(tokenizer, stream, id, skip_special_tokens);
  return text + decode_end(stream);
}

std::string decode_next(const Tokenizer& tokenizer, TextStream& stream, int64_t id, bool skip_special_tokens) {
  const size_t index = static_cast<size_t>(id);  // a negative id is beyond the end
  if (index >= tokenizer.token_bytes.size() || (skip_special_tokens && tokenizer.special[index])) return {};
  stream.pending += tokenizer.token_bytes[index];
  return take_text(stream.pending);
}

std::string decode_end(TextStream& stream) { return std::exchange(stream.pending, {}).empty() ? "" : "\uFFFD"; }

std::optional<int64_t> added_token_id(const Tokenizer& tokenizer, std::string_view content) {
  for (const AddedTokenTrie& trie : tokenizer.added)
    if (const AddedToken* token = match_added(trie, content); token && token->content == content) return token->id;
  return std::nullopt;
}

}  // namespace npusim
