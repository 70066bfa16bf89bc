// The tokenizer: ids equal to those of Hugging Face's `tokenizers`, decoding in pieces, and the message of every
// refusal.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace npusim {
namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;

const std::string folder = NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/";

// The character by which tokenizer.json writes a byte.
std::string character(int byte) {
  int code = byte, next = 256;
  for (int b = 0; b <= byte; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    if (!printable && b == byte) code = next;
    if (!printable) ++next;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// A file whose token ids are the bytes' values, with the merges "1"+"2" (256), "12"+"3" (257), "a"+"b" (258), " "+"a"
// (259), "b"+"c" (260), in this order of rank, and <|end|> (300).
json document() {
  json doc = json::parse(R"({"added_tokens": [{"id": 300, "content": "<|end|>", "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["1 2", "12 3", ["a", "b"], ["Ġ", "a"], "b c"],
              "vocab": {"12": 256, "123": 257, "ab": 258, "Ġa": 259, "bc": 260}}})");
  for (int b = 0; b < 256; ++b) doc["model"]["vocab"][character(b)] = b;
  return doc;
}

json patched(const char* pointer, const json& value) {
  json doc = document();
  doc[json::json_pointer(pointer)] = value;
  return doc;
}

// With tokens that nothing is made of, so that the first added one is 300.
Tokenizer parse(json doc) {
  json& vocab = doc["model"]["vocab"];
  for (int id = 261; vocab.is_object() && vocab.size() < 300; ++id) vocab["unused " + std::to_string(id)] = id;
  return parse_tokenizer(doc.dump(), "t.json");
}

// document() that cuts by this pre-tokenizer and then maps bytes only.
Tokenizer splitting(const json& step) {
  const json last = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json steps = json::array({step, last});
  return parse(patched("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}));
}
json regex(const std::string& pattern, const std::string& behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}, {"invert", invert}};
}

template <typename Action>
std::string error_of(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "no error";
}
std::string bad(const char* pointer, const json& value) {
  return error_of(ErrorKind::bad_input, [&] { parse(patched(pointer, value)); });
}
std::string refused(const char* pointer, const json& value) {
  return error_of(ErrorKind::unsupported, [&] { parse(patched(pointer, value)); });
}

TEST(Tokenizer, TinyQwenPrompts) {
  const Tokenizer tokenizer = load_tokenizer(folder + "tokenizer.json");
  const json cases = json::parse(read_file(folder + "golden_greedy.json"));
  ASSERT_FALSE(cases.empty());
  for (const json& item : cases) {
    const std::string prompt = item["prompt"];
    EXPECT_EQ(encode(tokenizer, prompt), item["prompt_ids"].get<Ids>()) << prompt;
    EXPECT_EQ(decode(tokenizer, item["prompt_ids"].get<Ids>()), prompt);
  }
}

TEST(Tokenizer, TinyQwenVariedText) {
  const Tokenizer tokenizer = load_tokenizer(folder + "tokenizer.json");
  const std::pair<std::string, Ids> cases[] = {
      {"", {}},
      {" ", {221}},
      {"Hello, world!", {40, 470, 336, 12, 318, 271, 1664, 1}},
      {"  two  spaces\n\n\tand tabs \r\n",
       {221, 269, 1989, 221, 1320, 782, 83, 484, 198, 448, 269, 734, 83, 221, 202, 199}},
      {"don't we'll I'M", {68, 267, 890, 687, 7, 1123, 437, 7, 45}},
      {"x = 3.14159 // pi", {88, 282, 390, 14, 1051, 17, 1003, 221, 1100, 299, 73}},
      {"안녕하세요, 세계!", {169, 244, 231, 168, 228, 244, 170, 244, 247, 169, 227, 117,
                             169, 249, 243, 12,  221, 169, 227, 117, 167, 112, 227, 1}},
      {"naïve café — déjà vu",
       {78, 65, 128, 108, 416, 1042, 70, 128, 103, 221, 1372, 243, 400, 128, 103, 74, 128, 255, 387, 85}},
      {"🙂👨‍👩‍👧 ok",
       {611, 248, 225, 611, 240, 102, 1372, 236, 611, 240, 103, 1372, 236, 611, 240, 101, 300, 75}},
      {"日本語\u3000と。", {163, 246, 99, 163, 251, 106, 165, 104, 253, 160, 223, 223, 160, 224, 102, 160, 223, 225}},
      {"a<|endoftext|>b <|endoftext|>", {65, 0, 66, 221, 0}},
      {"नमस्ते", {157, 98, 102, 157, 98, 107, 157, 98, 117, 157, 99, 236, 157, 98, 98, 157, 99, 230}},
      {std::string("\0\x7f\u00a0\u180e", 7), {189, 222, 127, 255, 158, 255, 237}}};
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(encode(tokenizer, text), ids) << text;
    EXPECT_EQ(decode(tokenizer, ids, false), text);
    TextStream stream;
    std::string streamed;
    for (int64_t id : ids) streamed += decode_next(tokenizer, stream, id, false);
    EXPECT_EQ(streamed + decode_end(stream), text);
  }
}

TEST(Tokenizer, MergesByRankNotByPosition) {
  const Tokenizer tokenizer = parse(document());
  EXPECT_EQ(encode(tokenizer, "123"), (Ids{257}));
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{258, 'c'}));
  EXPECT_EQ(encode(tokenizer, " abc"), (Ids{' ', 258, 'c'}));  // a+b ranks before space+a
  EXPECT_EQ(encode(tokenizer, " ac bc"), (Ids{259, 'c', ' ', 260}));
  EXPECT_EQ(encode(tokenizer, "1 23"), (Ids{'1', ' ', '2', '3'}));
}

TEST(Tokenizer, LongRunsAreNotQuadratic) {
  json doc = document();
  std::string run = "a";
  for (int i = 0; i < 10; ++i, run += run) {
    doc["model"]["merges"].push_back(json::array({run, run}));
    doc["model"]["vocab"][run + run] = 400 + i;
  }
  const Tokenizer tokenizer = parse(doc);
  EXPECT_EQ(encode(tokenizer, std::string(1 << 20, 'a')), Ids(1 << 10, 409));
  EXPECT_EQ(encode(tokenizer, std::string(1 << 20, ' ') + "x").size(), (1u << 20) + 1);
}

TEST(Tokenizer, IgnoreMergesTakesWholeWords) {
  json doc = document();
  doc["model"]["vocab"]["Ġabc"] = 301;
  EXPECT_EQ(encode(parse(doc), " abc"), (Ids{' ', 258, 'c'}));
  doc["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(parse(doc), " abc abcd"), (Ids{301, ' ', 258, 'c', 'd'}));
}

TEST(Tokenizer, UnknownBytes) {
  json doc = document();
  doc["model"]["vocab"].erase("x");
  doc["model"]["vocab"]["unused"] = 'x';
  EXPECT_EQ(error_of(ErrorKind::bad_input, [&] { encode(parse(doc), "axxb"); }),
            "text to tokenize: t.json has no token for byte 0x78 and no unk_token");
  doc["model"]["unk_token"] = "12";
  EXPECT_EQ(encode(parse(doc), "axxb"), (Ids{'a', 256, 256, 'b'}));
  doc["model"]["fuse_unk"] = true;
  EXPECT_EQ(encode(parse(doc), "axxb"), (Ids{'a', 256, 'b'}));
}

TEST(Tokenizer, PrefixSpace) {
  const Tokenizer tokenizer = parse(patched("/pre_tokenizer/add_prefix_space", true));
  EXPECT_EQ(encode(tokenizer, "ac<|end|>ac"), (Ids{259, 'c', 300, 259, 'c'}));
  EXPECT_EQ(encode(tokenizer, " ac"), (Ids{259, 'c'}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
}

TEST(Tokenizer, SplitBehaviors) {
  // Merges show the cuts: "123" is one token only if nothing cuts it.
  const auto ids = [](const std::string& behavior, bool invert, const char* text) {
    return encode(splitting(regex("2", behavior, invert)), text);
  };
  EXPECT_EQ(ids("Isolated", false, "123"), (Ids{'1', '2', '3'}));
  EXPECT_EQ(ids("Removed", false, "123"), (Ids{'1', '3'}));
  EXPECT_EQ(ids("Removed", true, "123"), (Ids{'2'}));
  EXPECT_EQ(ids("MergedWithPrevious", false, "123"), (Ids{256, '3'}));
  EXPECT_EQ(ids("MergedWithNext", false, "1212"), (Ids{'1', '2', '1', '2'}));
  EXPECT_EQ(ids("MergedWithNext", true, "1212"), (Ids{256, 256}));
  EXPECT_EQ(ids("Contiguous", false, "122"), (Ids{'1', '2', '2'}));
  EXPECT_EQ(encode(splitting(regex("x*")), "12x123"), (Ids{'1', '2', 'x', '1', '2', '3'}));  // empty matches cut
  json literal = regex("");
  literal["pattern"] = {{"String", ".2"}};
  EXPECT_EQ(encode(splitting(literal), "123.212"), (Ids{257, '.', '2', 256}));
}

TEST(Tokenizer, SplitPatternsOfModels) {
  const char* qwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                      R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(encode(splitting(regex(qwen2)), "123 ab ac"), (Ids{'1', '2', '3', ' ', 258, 259, 'c'}));
  EXPECT_EQ(encode(splitting(regex(qwen2)), "A'SaB"), (Ids{'A', '\'', 'S', 'a', 'B'}));
  EXPECT_EQ(encode(splitting(regex(R"(\p{N}{1,3})")), "12123"), (Ids{256, '1', '2', '3'}));
  EXPECT_EQ(encode(splitting(json{{"type", "Digits"}, {"individual_digits", true}}), "a123"),
            (Ids{'a', '1', '2', '3'}));
  EXPECT_EQ(encode(splitting(json{{"type", "Digits"}}), "a123b"), (Ids{'a', 257, 'b'}));
  // Oniguruma's \s has no U+180E, its \w has U+24D0; both differ in PCRE2.
  EXPECT_EQ(encode(splitting(regex(R"(\s)", "Removed")), "1\u00a02\u180e"), (Ids{'1', '2', 0xe1, 0xa0, 0x8e}));
  EXPECT_EQ(encode(splitting(regex(R"([\S\n])", "Removed")), "1\u180e\n "), (Ids{' '}));
  EXPECT_EQ(encode(splitting(regex(R"(\w|[\w.])", "Removed")), "ⓐ_é.-"), (Ids{'-'}));
  EXPECT_EQ(encode(splitting(regex(R"(\p{Han}+|\p{^L})", "Removed")), "漢、字ab"), (Ids{258}));
}

TEST(Tokenizer, AddedTokenOptions) {
  json doc = document();
  doc["added_tokens"].push_back({{"id", 301}, {"content", "<|en"}});
  doc["added_tokens"].push_back({{"id", 302}, {"content", "foo"}, {"single_word", true}});
  doc["added_tokens"].push_back({{"id", 303}, {"content", "<m>"}, {"lstrip", true}, {"rstrip", true}});
  doc["added_tokens"].push_back({{"id", 304}, {"content", "<n>"}, {"normalized", true}});
  doc["added_tokens"].push_back({{"id", 256}, {"content", "12"}});
  const Tokenizer tokenizer = parse(doc);
  EXPECT_EQ(encode(tokenizer, "<|end|><|en|>"), (Ids{300, 301, '|', '>'}));  // the longest
  EXPECT_EQ(encode(tokenizer, "foo.foo_foo"), (Ids{302, '.', 'f', 'o', 'o', '_', 'f', 'o', 'o'}));
  EXPECT_EQ(encode(tokenizer, "a \u3000<m>\n b"), (Ids{'a', 303, 'b'}));
  EXPECT_EQ(encode(tokenizer, "<n><n"), (Ids{304, '<', 'n'}));
  EXPECT_EQ(added_token_id(tokenizer, "<|end|>"), 300);
  EXPECT_EQ(added_token_id(tokenizer, "<n>"), 304);
  EXPECT_EQ(added_token_id(tokenizer, "<|end|>x"), std::nullopt);
  EXPECT_EQ(added_token_id(tokenizer, ""), std::nullopt);
  const Ids ids = {'a', 300, 301, 304, 'b'};
  EXPECT_EQ(decode(tokenizer, ids), "a<|en<n>b");
  EXPECT_EQ(decode(tokenizer, ids, false), "a<|end|><|en<n>b");
}

// Expected values of this test and the next three are those of `tokenizers` 0.23.3;
// python/tests/test_tokenizer_search.py asks it itself.
TEST(Tokenizer, WhiteSpaceAroundAddedTokens) {
  json doc = document();
  const auto add = [&](int id, const char* content, const json& flags) {
    json token = {{"id", id}, {"content", content}};
    token.update(flags);
    doc["added_tokens"].push_back(token);
  };
  add(301, "<r>", {{"rstrip", true}});
  add(302, "\t\t", json::object());
  add(303, "<l>", {{"lstrip", true}});
  add(304, "<w>", {{"lstrip", true}, {"single_word", true}});
  add(305, "<m>", {{"lstrip", true}, {"rstrip", true}});
  const Tokenizer tokenizer = parse(doc);
  // A token that begins in white space that another took is still found, and text goes on behind it.
  EXPECT_EQ(encode(tokenizer, "<r> \t\t a"), (Ids{301, 302, 259}));
  EXPECT_EQ(encode(tokenizer, "<r>\t\t\t\tb<l>"), (Ids{301, 302, 302, 'b', 303}));
  EXPECT_EQ(encode(tokenizer, "<m> \u3000<m> b"), (Ids{305, 305, 'b'}));
  EXPECT_EQ(encode(tokenizer, "  <m>  "), Ids{305});
  EXPECT_EQ(encode(tokenizer, "<r>\u00a0\u200b<l>"), (Ids{301, 0xe2, 0x80, 0x8b, 303}));  // U+200B is no white space
  EXPECT_EQ(encode(tokenizer, "a <w> b"), (Ids{'a', 304, ' ', 'b'}));
  EXPECT_EQ(encode(tokenizer, "a <w>b"), (Ids{'a', ' ', '<', 'w', '>', 'b'}));
  EXPECT_EQ(encode(tokenizer, "a\u200d<w>"), (Ids{'a', 0xe2, 0x80, 0x8d, '<', 'w', '>'}));  // a joiner is of a word
  EXPECT_EQ(encode(tokenizer, "\u00b2<w>"), (Ids{0xc2, 0xb2, 304}));                        // a superscript is not
}

TEST(Tokenizer, EmptyMatchesTakePartInBehaviors) {
  const auto ids = [](const char* pattern, const char* behavior, const char* text, bool invert = false) {
    return encode(splitting(regex(pattern, behavior, invert)), text);
  };
  EXPECT_EQ(ids("x*", "Contiguous", "12x123"), (Ids{'1', '2', 'x', '1', '2', '3'}));
  EXPECT_EQ(ids("2*", "Contiguous", "123212", true), (Ids{'1', '2', '3', '2', '1', '2'}));
  EXPECT_EQ(ids("", "Contiguous", "123"), (Ids{'1', '2', '3'}));
  EXPECT_EQ(ids("x*", "MergedWithPrevious", "12x12"), (Ids{'1', '2', 'x', '1', '2'}));
  EXPECT_EQ(ids("(?=2)", "MergedWithNext", "123"), (Ids{'1', '2', '3'}));
  EXPECT_EQ(ids("b*", "MergedWithNext", "abcab"), (Ids{'a', 260, 'a', 'b'}));
}

TEST(Tokenizer, WholeWordsAreOfBytes) {
  json doc = document();
  doc["model"]["vocab"].update({{"\u65e5", 297}, {"\u0120abc", 298}, {"a b", 299}});
  doc["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = parse(doc);
  EXPECT_EQ(encode(tokenizer, "\u65e5"), (Ids{0xe6, 0x97, 0xa5}));
  EXPECT_EQ(encode(tokenizer, " abc"), Ids{298});
  EXPECT_EQ(encode(tokenizer, "a b"), (Ids{'a', ' ', 'b'}));
}

TEST(Tokenizer, WordsAndCaseOfOniguruma) {
  const auto left = [](const char* pattern, const char* text) {
    const Tokenizer tokenizer = splitting(regex(pattern, "Removed"));
    return decode(tokenizer, encode(tokenizer, text));
  };
  // Numbers of Latin-1 are of words outside sets only.
  EXPECT_EQ(left(R"(\w)", "\u00b9\u00b2\u00b3\u00bc\u00bd\u00be\u2070\u2160\u0301\u203f-"), "\u2070-");
  EXPECT_EQ(left(R"([\w])", "\u00b9\u00bc\u2160\u0301\u203f-"), "\u00b9\u00bc-");
  EXPECT_EQ(left(R"(\W)", "\u00b2-"), "\u00b2");
  EXPECT_EQ(left(R"([^\w])", "\u00b2a-"), "a");
  EXPECT_EQ(left("(?i:s)", "sS\u017f\u00df-"), "\u00df-");
  EXPECT_EQ(left("(?i:k)", "kK\u212a-"), "-");
  EXPECT_EQ(left("(?i:'s|'t)", "'\u017f'S\ufb06-"), "\ufb06-");
  EXPECT_EQ(left(R"((?i:[^\p{L}]))", "-\u0345a"), "\u0345a");  // U+0345 is iota in other case
  EXPECT_EQ(left("(?i:[a-z])", "K\u212aS\u017f1"), "1");
  EXPECT_EQ(left(R"((?i:\p{Lu}))", "aA"), "a");  // case of a property by itself is not ignored
}

TEST(Tokenizer, SequencesInSequences) {
  const auto sequence = [](const char* list, const json& parts) { return json{{"type", "Sequence"}, {list, parts}}; };
  const json last = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json steps =
      sequence("pretokenizers", json::array({sequence("pretokenizers", json::array({regex("2")})), last}));
  EXPECT_EQ(encode(parse(patched("/pre_tokenizer", steps)), "123"), (Ids{'1', '2', '3'}));
  json nfc = {{"type", "NFC"}};
  for (int i = 0; i < 40; ++i) nfc = sequence("normalizers", json::array({nfc}));
  EXPECT_EQ(encode(parse(patched("/normalizer", nfc)), "e\u0301"), (Ids{0xc3, 0xa9}));
  const json roberta = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 4}}, {"sep", {"</s>", 5}}};
  const json post = sequence("processors", json::array({sequence("processors", json::array({roberta}))}));
  EXPECT_EQ(encode(parse(patched("/post_processor", post)), "x"), (Ids{4, 'x', 5}));
  EXPECT_EQ(refused("/normalizer", sequence("normalizers", json(65, json{{"type", "NFC"}}))),
            "t.json: normalizer.normalizers: array is not supported (supported: at most 64 steps)");
}

TEST(Tokenizer, PostProcessors) {
  const json wrap = json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "b", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "e", "type_id": 0}}],
    "special_tokens": {"b": {"id": "b", "ids": [1, 2], "tokens": []}, "e": {"id": "e", "ids": [3], "tokens": []}}})");
  EXPECT_EQ(encode(parse(patched("/post_processor", wrap)), "x"), (Ids{1, 2, 'x', 3}));
  EXPECT_EQ(encode(parse(patched("/post_processor", wrap)), "x", false), (Ids{'x'}));
  const json roberta = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 4}}, {"sep", {"</s>", 5}}};
  const json bytes = {{"type", "ByteLevel"}};
  const auto sequence = [](json parts) { return json{{"type", "Sequence"}, {"processors", std::move(parts)}}; };
  for (const json& parts : {json{bytes, wrap}, json{wrap, bytes}})
    EXPECT_EQ(encode(parse(patched("/post_processor", sequence(parts))), ""), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(parse(patched("/post_processor", sequence({roberta, wrap}))), ""), (Ids{1, 2, 4, 5, 3}));
  // In `tokenizers` the second of these gets three texts.
  for (const json& parts : {json{wrap, wrap}, json{wrap, roberta}, json{bytes, wrap, bytes, roberta}})
    EXPECT_EQ(refused("/post_processor", sequence(parts)),
              "t.json: post_processor.processors[" + std::to_string(parts.size() - 1) +
                  "]: object is not supported (supported: ByteLevel behind TemplateProcessing)");
}

TEST(Tokenizer, StreamHoldsBackIncompleteCharacters) {
  const Tokenizer tokenizer = parse(document());
  TextStream stream;
  EXPECT_EQ(decode_next(tokenizer, stream, 0xf0), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 0x9f), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 0x99), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 0x82), "🙂");
  EXPECT_EQ(decode_next(tokenizer, stream, 0xe2), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 'a'), "\uFFFDa");
  EXPECT_EQ(decode_end(stream), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 0xe2), "");
  EXPECT_EQ(decode_next(tokenizer, stream, 0x82), "");
  EXPECT_EQ(decode_end(stream), "\uFFFD");
  EXPECT_EQ(decode_end(stream), "");
  // One U+FFFD for each longest prefix of a code point, as in Rust's from_utf8_lossy.
  EXPECT_EQ(decode(tokenizer, Ids{0x80, 0xc0, 0xaf, 0xed, 0xa0, 0x80, 0xf0, 0x9f, 'z', 0xf4, 0x90}),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDz\uFFFD\uFFFD");
  EXPECT_EQ(decode(tokenizer, Ids{'a', -1, 301, 302, int64_t{1} << 40, 'b'}), "ab");  // ids without a token
}

TEST(Tokenizer, TextIsNormalized) {
  const auto text_of = [](const json& normalizer, const char* text) {
    const Tokenizer tokenizer = parse(patched("/normalizer", normalizer));
    return decode(tokenizer, encode(tokenizer, text));
  };
  const json nfc = {{"type", "NFC"}}, nfd = {{"type", "NFD"}};
  for (const char* text : {"plain", "naïve café", "안녕하세요", "日本語。", "नमस्ते दुनिया", "ที่ ดุ่",
                           "🙂👨‍👩‍👧", "Việt Nam", "বাংলা কো", "கொ", "ಕೋ", "കോ", "කෝ", "ဢို", "ẹ̀kọ́"})
    EXPECT_EQ(text_of(nfc, text), text);
  EXPECT_EQ(text_of(nfc, "cafe\u0301"), "café");
  EXPECT_EQ(text_of(nfc, "\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(text_of(nfc, "10 \u2126"), "10 \u03a9");
  EXPECT_EQ(text_of(nfc, "\U0002f800"), "\u4e3d");
  EXPECT_EQ(text_of(nfc, "\u0651\u064e"), "\u064e\u0651");        // marks out of order
  EXPECT_EQ(text_of(nfc, "\u0958"), "\u0915\u093c");              // what is never composed
  EXPECT_EQ(text_of(nfc, "\u0bc6\u0bbe"), "\u0bca");              // Tamil vowels, no marks by their classes
  EXPECT_EQ(text_of(nfc, "\U00011382\U000113c9"), "\U00011383");  // of Unicode 16
  EXPECT_EQ(text_of(nfd, "caf\u00e9\ud55c"), "cafe\u0301\u1112\u1161\u11ab");
  EXPECT_EQ(text_of({{"type", "Sequence"}, {"normalizers", json::array()}}, "cafe\u0301"), "cafe\u0301");
  EXPECT_EQ(text_of({{"type", "Sequence"}, {"normalizers", {nfc}}}, "cafe\u0301"), "café");
  EXPECT_EQ(text_of({{"type", "Sequence"}, {"normalizers", {nfd, nfc}}}, "cafe\u0301"), "café");
}

// Tokens of the raw text are found before it is normalized, and cut it; others in what it becomes.
TEST(Tokenizer, AddedTokensBesideNormalization) {
  json doc = patched("/normalizer", {{"type", "NFC"}});
  doc["added_tokens"].push_back({{"id", 301}, {"content", "e\u0301"}, {"normalized", true}});
  doc["added_tokens"].push_back({{"id", 302}, {"content", "o\u0301"}, {"normalized", false}});
  const Tokenizer tokenizer = parse(doc);
  EXPECT_EQ(encode(tokenizer, "xe\u0301y\u00e9"), (Ids{'x', 301, 'y', 301}));
  EXPECT_EQ(encode(tokenizer, "o\u0301\u00f3"), (Ids{302, 0xc3, 0xb3}));
  EXPECT_EQ(encode(tokenizer, "o<|end|>\u0301"), (Ids{'o', 300, 0xcc, 0x81}));
}

// Code points that are newer than PCRE2's tables are what Unicode says they are, in and out of sets.
TEST(Tokenizer, NewerCodePointsHaveTheirProperties) {
  const auto removed = [](const char* pattern, const std::string& text) {
    const Tokenizer tokenizer = splitting(regex(pattern, "Removed"));
    return decode(tokenizer, encode(tokenizer, text));
  };
  // A letter of Unicode 15, 16 and 17, a digit of 16, a mark of 16, a symbol of 16.
  const std::string letter15 = "\U00031350", letter16 = "\u1c89", letter17 = "\u088f", digit = "\U00010d40",
                    mark = "\u0897", symbol = "\U0001cc00";
  const std::string all = "1-" + letter15 + letter16 + letter17 + digit + mark + symbol;
  EXPECT_EQ(removed(R"(\p{L})", all), "1-" + digit + mark + symbol);
  EXPECT_EQ(removed(R"([\p{L}-])", all), "1" + digit + mark + symbol);
  EXPECT_EQ(removed(R"([^\p{L}\p{N}])", all), "1" + letter15 + letter16 + letter17 + digit);
  EXPECT_EQ(removed(R"(\P{L})", all), letter15 + letter16 + letter17);
  EXPECT_EQ(removed(R"([\P{L}])", all), letter15 + letter16 + letter17);
  EXPECT_EQ(removed(R"([^\P{L}1])", all), "1-" + digit + mark + symbol);
  EXPECT_EQ(removed(R"(\p{^L})", all), letter15 + letter16 + letter17);
  EXPECT_EQ(removed(R"(\p{Lu})", all), "1-" + letter15 + letter17 + digit + mark + symbol);
  EXPECT_EQ(removed(R"(\d)", all), "-" + letter15 + letter16 + letter17 + mark + symbol);
  EXPECT_EQ(removed(R"(\w)", all), "-" + symbol);
  EXPECT_EQ(removed(R"([\W])", all), "1" + letter15 + letter16 + letter17 + digit + mark);
  EXPECT_EQ(removed(R"(\p{Han})", all), "1-" + letter16 + letter17 + digit + mark + symbol);
  EXPECT_EQ(removed(R"(\p{Cyrillic})", all), "1-" + letter15 + letter17 + digit + mark + symbol);
}

TEST(Tokenizer, TextMustBeUtf8) {
  const Tokenizer tokenizer = parse(document());
  const auto text_error = [&](const char* text) {
    return error_of(ErrorKind::bad_input, [&] { encode(tokenizer, text); });
  };
  EXPECT_EQ(text_error("ab\xff"), "text to tokenize: expected UTF-8, found byte 0xff at byte 2");
  EXPECT_EQ(text_error("\xe2\x82"), "text to tokenize: expected UTF-8, found byte 0xe2 at byte 0");
  EXPECT_EQ(text_error("\xed\xa0\x80"), "text to tokenize: expected UTF-8, found byte 0xed at byte 0");
}

TEST(Tokenizer, MalformedFiles) {
  const auto text_error = [](std::string_view text) {
    return error_of(ErrorKind::bad_input, [&] { parse_tokenizer(text, "t.json"); });
  };
  EXPECT_EQ(text_error("").substr(0, 50), "t.json: not JSON: parse error at line 1, column 1:");
  EXPECT_EQ(text_error("{\"model\": 1e999}"), "t.json: not JSON: number overflow parsing '1e999'");
  EXPECT_EQ(text_error("[]"), "t.json: expected an object, found array");
  EXPECT_EQ(text_error("{}"), "t.json: model: expected an object, found null");
  EXPECT_EQ(text_error(std::string(100'000, '[')), "t.json: nested deeper than 100 levels");
  const std::string whole = document().dump();
  for (size_t size = 0; size < whole.size(); size += 97) EXPECT_NE(text_error(whole.substr(0, size)), "no error");

  EXPECT_EQ(bad("/model/vocab", json::array()), "t.json: model.vocab: expected an object, found array");
  EXPECT_EQ(bad("/model/vocab/b", "x"), "t.json: model.vocab[\"b\"]: expected a token id below 4194304, found string");
  EXPECT_EQ(bad("/model/vocab/b", -1), "t.json: model.vocab[\"b\"]: expected a token id below 4194304, found -1");
  EXPECT_EQ(bad("/model/vocab/b", 4194304),
            "t.json: model.vocab[\"b\"]: expected a token id below 4194304, found 4194304");
  EXPECT_EQ(bad("/model/vocab/b", 'a'), "t.json: model.vocab: token \"b\" has id 97, which is taken");
  EXPECT_EQ(bad("/model/merges", 3), "t.json: model.merges: expected an array, found 3");
  EXPECT_EQ(bad("/model/merges/0", "12"),
            "t.json: model.merges[0]: expected two tokens around one space, found \"12\"");
  EXPECT_EQ(bad("/model/merges/0", "1 2 3"),
            "t.json: model.merges[0]: expected two tokens around one space, found \"1 2 3\"");
  EXPECT_EQ(bad("/model/merges/0", {"1"}),
            "t.json: model.merges[0]: expected \"left right\" or [\"left\", \"right\"], found array");
  EXPECT_EQ(bad("/model/merges/1", {"x\n", "y"}), "t.json: model.merges[1]: token \"x\\n\" is not in model.vocab");
  EXPECT_EQ(bad("/model/merges/1", "1 3"), "t.json: model.merges[1]: token \"13\" is not in model.vocab");
  EXPECT_EQ(bad("/model/unk_token", "?!"), "t.json: model.unk_token: token \"?!\" is not in model.vocab");
  EXPECT_EQ(bad("/model/fuse_unk", 1), "t.json: model.fuse_unk: expected true or false, found 1");
}

TEST(Tokenizer, MalformedParts) {
  EXPECT_EQ(bad("/added_tokens", 1), "t.json: added_tokens: expected an array, found 1");
  EXPECT_EQ(bad("/added_tokens/0", 1), "t.json: added_tokens[0]: expected an object, found 1");
  EXPECT_EQ(bad("/added_tokens/0/id", nullptr),
            "t.json: added_tokens[0].id: expected a token id below 4194304, found null");
  EXPECT_EQ(
      bad("/added_tokens/0/id", 97),
      "t.json: added_tokens[0]: token \"<|end|>\" has id 97, expected 300: the tokens of model.vocab and those added "
      "before");
  EXPECT_EQ(bad("/added_tokens/0/content", ""), "t.json: added_tokens[0].content: expected text, found none");
  EXPECT_EQ(bad("/added_tokens/0/content", "a"),
            "t.json: added_tokens[0]: token \"a\" has id 300, but 97 in model.vocab");
  EXPECT_EQ(bad("/added_tokens/0/special", "yes"),
            "t.json: added_tokens[0].special: expected true or false, found string");
  EXPECT_EQ(bad("/added_tokens/1", {{"id", 301}, {"content", "<|end|>"}}),
            "t.json: added_tokens[1]: duplicate token \"<|end|>\"");
  EXPECT_EQ(bad("/normalizer", "NFC"), "t.json: normalizer: expected an object, found string");
  EXPECT_EQ(bad("/pre_tokenizer", json::object()), "t.json: pre_tokenizer.type: expected a string, found null");
  EXPECT_EQ(bad("/pre_tokenizer/use_regex", 3), "t.json: pre_tokenizer.use_regex: expected true or false, found 3");
  EXPECT_EQ(bad("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array()}}),
            "t.json: pre_tokenizer.pretokenizers: expected ByteLevel as the last element, found array");
  EXPECT_EQ(bad("/pre_tokenizer", {{"type", "Split"}, {"pattern", "x"}}),
            "t.json: pre_tokenizer.pattern: expected an object, found string");
  EXPECT_EQ(bad("/pre_tokenizer", {{"type", "Split"}, {"pattern", json::object()}}),
            "t.json: pre_tokenizer.pattern.String: expected a string, found null");
  EXPECT_EQ(bad("/post_processor", {{"type", "RobertaProcessing"}, {"cls", 3}}),
            "t.json: post_processor.cls: expected an array, found 3");
  EXPECT_EQ(bad("/post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>"}}}),
            "t.json: post_processor.cls: expected [token, id], found array");
  EXPECT_EQ(bad("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Sequence"}}}}}),
            "t.json: pre_tokenizer.pretokenizers[0].pretokenizers: expected an array, found null");
  EXPECT_EQ(bad("/post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", 301}}}),
            "t.json: post_processor.cls[1]: expected a token id below 301, found 301");
  EXPECT_EQ(bad("/post_processor", json::parse(R"({"type":"TemplateProcessing","single":[]})")),
            "t.json: post_processor.single: expected sequence A once, found array");
  EXPECT_EQ(bad("/post_processor", json::parse(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}]})")),
            "t.json: post_processor.single[0]: expected sequence A once, found object");
}

TEST(Tokenizer, UnsupportedParts) {
  EXPECT_EQ(refused("/model/type", "Unigram"), "t.json: model.type: \"Unigram\" is not supported (supported: \"BPE\")");
  EXPECT_EQ(refused("/model/dropout", 0.1), "t.json: model.dropout: 0.1 is not supported (supported: null)");
  EXPECT_EQ(refused("/model/byte_fallback", true),
            "t.json: model.byte_fallback: true is not supported (supported: false)");
  EXPECT_EQ(refused("/model/end_of_word_suffix", "</w>"),
            "t.json: model.end_of_word_suffix: \"</w>\" is not supported (supported: none)");
  EXPECT_EQ(refused("/normalizer", {{"type", "Lowercase"}}),
            "t.json: normalizer.type: \"Lowercase\" is not supported (supported: null, \"NFC\", \"NFD\", and a "
            "Sequence of them)");
  EXPECT_EQ(refused("/pre_tokenizer", nullptr),
            "t.json: pre_tokenizer: null is not supported (supported: ByteLevel, alone or last in a Sequence)");
  EXPECT_EQ(refused("/pre_tokenizer", {{"type", "Metaspace"}}),
            "t.json: pre_tokenizer.type: \"Metaspace\" is not supported (supported: ByteLevel, Split, Digits, and a "
            "Sequence of them)");
  EXPECT_EQ(
      refused("/pre_tokenizer", {{"type", "Digits"}}),
      "t.json: pre_tokenizer.type: \"Digits\" is not supported (supported: ByteLevel, alone or last in a Sequence)");
  EXPECT_EQ(refused("/pre_tokenizer", regex("x", "Sideways")),
            "t.json: pre_tokenizer.behavior: \"Sideways\" is not supported (supported: Isolated, Removed, "
            "MergedWithPrevious, MergedWithNext, Contiguous)");
  EXPECT_EQ(refused("/post_processor", {{"type", "Other"}}),
            "t.json: post_processor.type: \"Other\" is not supported (supported: ByteLevel, TemplateProcessing, "
            "RobertaProcessing, and a Sequence of them)");
  EXPECT_EQ(refused("/decoder", nullptr), "t.json: decoder: null is not supported (supported: ByteLevel)");
  EXPECT_EQ(refused("/decoder", {{"type", "WordPiece"}}),
            "t.json: decoder.type: \"WordPiece\" is not supported (supported: ByteLevel)");
}

TEST(Tokenizer, UnsupportedPatterns) {
  const std::pair<const char*, const char*> cases[] = {{R"(a\h)", R"(\h)"},
                                                       {R"(\bx)", R"(\b)"},
                                                       {R"((a)\1)", R"(\1)"},
                                                       {"\\", "\\"},
                                                       {"[a[b]]", "a set inside a set"},
                                                       {"[a&&b]", "an intersection of sets"},
                                                       {"[]a]", "a set that begins with ]"},
                                                       {"(*UTF)a", "(*"},
                                                       {"(?m:.)", "the group (?m:"},
                                                       {"a(?i)b", "the group (?i)"},
                                                       {"(?<n>a)", "the group (?<n>a)"},
                                                       {"a{,2}", "{,"},
                                                       {"a{1,2}+", "}+"},
                                                       {"a{2}?", "}?"},
                                                       {"a)", "unmatched closing parenthesis"},
                                                       {"(?i:ss)", "\"ss\" where case is ignored"},
                                                       {"(?i)é", "U+00E9 where case is ignored"},
                                                       {R"((?i)[\p{L}x])", R"(a set with \p{L} where case is ignored)"},
                                                       {R"(\p{Nonsense})", "unknown property after \\P or \\p"}};
  for (const auto& [pattern, what] : cases)
    EXPECT_EQ(error_of(ErrorKind::unsupported, [&, text = pattern] { splitting(regex(text)); }),
              fmt::format("t.json: pre_tokenizer.pretokenizers[0].pattern.Regex: {} in {} is not supported", what,
                          json(pattern).dump()));
  EXPECT_NO_THROW(splitting(regex(R"((?i)a|(?<!\\)[\p{Nd}\]&.-]++(?>x)?\x{1F600})")));
  const Tokenizer slow = splitting(regex("(a*)*[bc]"));
  EXPECT_EQ(error_of(ErrorKind::unsupported, [&] { encode(slow, std::string(60, 'a')); }),
            "text to tokenize: the split patterns take too long: at byte 0 of a piece of 60 bytes they are beyond 50 "
            "tries for "
            "each byte of the text");
}

}  // namespace
}  // namespace npusim
