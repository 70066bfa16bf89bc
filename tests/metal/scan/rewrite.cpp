// Expressions that are MSL but not C++: float literals, attributes, vector constructors and casts.
#include <algorithm>
#include <cctype>

#include "scan.h"

namespace mslx {
namespace {

bool is_vector_name(const std::string& name) {
  static const std::set<std::string> scalars = {"float",  "half", "bfloat", "int",  "uint",  "short",
                                                "ushort", "char", "uchar",  "long", "ulong", "bool"};
  return name.size() > 3 && name.back() >= '2' && name.back() <= '4' && scalars.count(name.substr(0, name.size() - 1));
}

}  // namespace

void Scan::replace(size_t first, size_t last, std::string replacement) {
  const size_t offset = tokens_[first].offset;
  edits_.push_back({offset, tokens_[last].offset + tokens_[last].text.size() - offset, std::move(replacement)});
}

// An unsuffixed floating literal is a float.
bool Scan::rewrite_literal(size_t i) {
  const Token& t = tokens_[i];
  if (t.kind != 'n') return false;
  const bool hex = t.text.size() > 1 && (t.text[1] | 32) == 'x';
  const char last = t.text.back();
  if (!hex && t.text.find_first_of(".eE") != std::string::npos &&
      (std::isdigit(static_cast<unsigned char>(last)) || last == '.'))
    edits_.push_back({t.offset + t.text.size(), 0, "f"});
  return true;
}

// Member functions overloaded on the address space of *this: one stays, the device, constant and threadgroup twins go.
// Returns the last token of what was dropped, or `i`.
size_t Scan::drop_address_space_twin(size_t i, size_t first_edit) {
  const bool space = is(i, "device") || is(i, "constant") || is(i, "threadgroup");
  const bool after_parameters = i > 2 && (is(i - 1, ")") || (is(i - 1, "const") && is(i - 2, ")")));
  if (!space || !after_parameters || !(is(i + 1, ":") || is(i + 1, "{") || is(i + 1, ";"))) return i;
  size_t begin = i;
  int depth = 0;
  while (begin > 0) {
    --begin;
    if (is(begin, ")") || is(begin, "]"))
      ++depth;
    else if (is(begin, "(") || is(begin, "["))
      --depth;
    else if (!depth && (is(begin, ";") || is(begin, "{") || is(begin, "}"))) {
      ++begin;
      break;
    }
  }
  size_t end = i;
  for (; !is(end, "{") && !is(end, ";"); ++end)
    if (is(end, "(")) end = match(end);
  if (is(end, "{")) end = match(end);
  if (is(end + 1, ";")) ++end;
  const size_t offset = tokens_[begin].offset, length = tokens_[end].offset + 1 - offset;
  while (edits_.size() > first_edit && edits_.back().offset >= offset) edits_.pop_back();
  edits_.push_back({offset, length, blank(offset, length)});
  return end;
}

// float4(a, b.xy, c), (half4)v: calls of the shim. Returns the last token that was looked at.
size_t Scan::rewrite_vector(size_t i) {
  bool vector = is_word(i) && is_vector_name(tokens_[i].text);
  size_t end = i;
  if (is(i, "vec") && is(i + 1, "<")) {
    end = match_angle(i + 1);
    vector = end != 0;
  }
  if (!vector) return i;
  if (is(end + 1, "(") && !is(i - 1, "operator")) {
    const size_t begin = is(i - 1, "::") && is(i - 2, "metal") ? i - 2 : i;
    const bool declares = is_word(begin - 1) && !is(begin - 1, "return") && !is(begin - 1, "case");
    if (!declares) replace(begin, end, "mslx::mk<" + text(begin, end + 1) + ">");
    return end;
  }
  if (i < 2 || !is(i - 1, "(") || !is(end + 1, ")")) return i;
  const Token &before = tokens_[i - 2], &after = tokens_[end + 2];
  const bool begins =
      (before.kind == 'p' && before.text != ")" && before.text != "]" && before.text != ">") || before.text == "return";
  const bool operand =
      after.kind == 'i' || after.kind == 'n' || after.text == "(" || after.text == "-" || after.text == "*";
  if (!begins || !operand) return i;
  replace(i - 1, end + 1, "mslx::vcast<" + text(i, end + 1) + ">()->*");
  return end + 1;
}

void Scan::rewrite() {
  const size_t first_edit = edits_.size();
  for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (rewrite_literal(i)) continue;
    if (attribute_at(i)) {
      const size_t end = match(i), offset = tokens_[i].offset, length = tokens_[end].offset + 1 - offset;
      edits_.push_back({offset, length, blank(offset, length)});
      i = end;
      continue;
    }
    if (const size_t end = drop_address_space_twin(i, first_edit); end != i) {
      i = end;
      continue;
    }
    if (is(i, "static_cast") && is(i + 1, "<")) {
      const size_t close = match_angle(i + 1);
      bool pointer = false;
      for (size_t k = i + 2; k < close; ++k) pointer = pointer || is(k, "*") || is(k, "&");
      if (close && !pointer) replace(i, i, "mslx::scast");
      continue;
    }
    i = rewrite_vector(i);
  }
}

std::string Scan::output(bool with_kernels) {
  std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.offset < b.offset; });
  std::string out = "#include <mslx_prelude>\n" + constants_;
  size_t position = 0;
  for (const Edit& e : edits_) {
    if (e.offset < position) continue;
    out += source_.substr(position, e.offset - position) + e.replacement;
    position = e.offset + e.length;
  }
  out += source_.substr(position) + "\n";
  if (!with_kernels) return out;
  return out + "# 1 \"<mslx thunks>\"\n#pragma clang diagnostic ignored \"-Weverything\"\n" + thunks_ +
         "extern \"C\" const mslx_kernel_desc mslx_kernels[] = {\n" + table_ + "  {0, 0, 0, 0, 0}};\n";
}

}  // namespace mslx
