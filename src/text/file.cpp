// Reading tokenizer.json: everything around the vocabulary.
#include "text/file.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/pattern.h"

namespace npusim {
namespace bpe {
namespace {

using nlohmann::json;

constexpr const char* gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior parse_behavior(const Field& field) {
  constexpr std::array names = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto it = std::find(names.begin(), names.end(), string(field));
  if (it == names.end()) unsupported(field, "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
  return static_cast<SplitBehavior>(it - names.begin());
}

void add_parts(const Field& field, const char* list, std::vector<Field>& parts) {
  if (string(member(field, "type")) != "Sequence") {
    parts.push_back(field);
    return;
  }
  const Field inner = member(field, list);
  if (inner.value.is_array() && parts.size() + inner.value.size() > most_parts)
    unsupported(inner, fmt::format("at most {} steps", most_parts));
  for (const Field& part : elements(inner)) add_parts(part, list, parts);
}

// The parts of a Sequence and of those in it, in order; what is no Sequence is its only part.
std::vector<Field> flattened(const Field& field, const char* list) {
  std::vector<Field> parts;
  add_parts(field, list, parts);
  return parts;
}

std::vector<Normalization> parse_normalizer(const Field& field) {
  if (field.value.is_null()) return {};
  std::vector<Normalization> forms;
  for (const Field& part : flattened(field, "normalizers")) {
    const Field type = member(part, "type");
    if (string(type) == "NFC")
      forms.push_back(Normalization::nfc);
    else if (string(type) == "NFD")
      forms.push_back(Normalization::nfd);
    else
      unsupported(type, "null, \"NFC\", \"NFD\", and a Sequence of them");
  }
  return forms;
}

void set_regex(SplitStep& step, const Field& pattern) {
  step.pattern = compile_regex(pattern, false);
  step.newer = compile_regex(pattern, true);
}

// A pattern of this code, where `field` asks for it.
void set_own(SplitStep& step, const char* pattern, const Field& field) {
  const json value = pattern;
  set_regex(step, {value, field.origin, field.path});
}

SplitStep parse_split_step(const Field& field) {
  const Field type = member(field, "type");
  SplitStep step;
  if (string(type) == "ByteLevel") {
    step.add_prefix_space = boolean(member(field, "add_prefix_space"), true);
    if (boolean(member(field, "use_regex"), true)) set_own(step, gpt2_pattern, field);
  } else if (string(type) == "Digits") {
    set_own(step, boolean(member(field, "individual_digits"), false) ? "\\p{N}" : "\\p{N}+", field);
  } else if (string(type) == "Split") {
    const Field pattern = member(field, "pattern");
    const Field regex = member(pattern, "Regex");
    const Field literal = member(pattern, "String");
    if (regex.value.is_null())
      step.pattern = step.newer = compile_literal(literal);
    else
      set_regex(step, regex);
    step.behavior = parse_behavior(member(field, "behavior"));
    step.invert = boolean(member(field, "invert"), false);
  } else {
    unsupported(type, "ByteLevel, Split, Digits, and a Sequence of them");
  }
  return step;
}

std::vector<SplitStep> parse_pre_tokenizer(const Field& field) {
  if (field.value.is_null()) unsupported(field, "ByteLevel, alone or last in a Sequence");
  const std::vector<Field> parts = flattened(field, "pretokenizers");
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

// Whether the text is several from then on, with what a template puts around it.
bool parse_post_processor(Tokenizer& tokenizer, const Field& field) {
  const std::string& type = string(member(field, "type"));
  if (type == "ByteLevel") return false;  // moves offsets only
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
      if (before.size() + after.size() > most_template_tokens)
        unsupported(member(field, "single"), fmt::format("at most {} tokens around the text", most_template_tokens));
    }
    if (!seen_text) expected(member(field, "single"), "sequence A once");
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
  if (tokenizer.prefix.size() + tokenizer.suffix.size() > most_template_tokens)
    unsupported(field, fmt::format("at most {} tokens around the text", most_template_tokens));
  return type == "TemplateProcessing" && before.size() + after.size() > 0;
}

}  // namespace
}  // namespace bpe

Tokenizer parse_tokenizer(std::string_view text, const std::string& origin) {
  using namespace bpe;
  const nlohmann::json document = parse_json(text, origin);
  const Field root = {document, origin, ""};
  Tokenizer tokenizer;
  tokenizer.origin = origin;
  tokenizer.normalizations = parse_normalizer(member(root, "normalizer"));
  std::vector<bool> defined;  // the ids that have a token
  const Field model = member(root, "model");
  parse_model(tokenizer, defined, model);
  parse_added_tokens(tokenizer, defined, member(model, "vocab").value, member(root, "added_tokens"));
  tokenizer.splits = parse_pre_tokenizer(member(root, "pre_tokenizer"));
  if (const Field post = member(root, "post_processor"); !post.value.is_null())
    for (bool several = false; const Field& part : flattened(post, "processors")) {
      if (several && string(member(part, "type")) != "ByteLevel")
        unsupported(part, "ByteLevel behind TemplateProcessing");
      several = parse_post_processor(tokenizer, part) || several;
    }
  const Field decoder = member(root, "decoder");
  if (decoder.value.is_null()) unsupported(decoder, "ByteLevel");
  if (string(member(decoder, "type")) != "ByteLevel") unsupported(member(decoder, "type"), "ByteLevel");
  return tokenizer;
}

Tokenizer load_tokenizer(const std::string& path) { return parse_tokenizer(read_file(path), path); }

std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view text, const std::string& origin) {
  return std::make_shared<const Tokenizer>(parse_tokenizer(text, origin));
}
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path) {
  return make_tokenizer(read_file(path), path);
}

}  // namespace npusim
