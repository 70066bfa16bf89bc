// Declarations at namespace scope: functions, kernels, instantiations, constants; threadgroup variables in bodies.
#include <algorithm>

#include "scan.h"

namespace mslx {

size_t Scan::skip_namespace(size_t i) {
  size_t open = i;
  if (is(i, "namespace") || (is(i, "inline") && is(i + 1, "namespace"))) {
    while (!is(open, "{") && !is(open, ";")) ++open;
    if (is(open, ";")) return open + 1;
  } else if (is(i, "extern") && tokens_[i + 1].kind == 's' && is(i + 2, "{")) {
    open = i + 2;
  } else {
    return i;
  }
  const size_t close = match(open);
  declarations(open + 1, close);
  return close + 1;
}

// One declaration from `begin`: to its ';' or to the end of its body.
Scan::Declaration Scan::declaration(size_t begin, size_t end) const {
  Declaration d;
  d.start = d.first = begin;
  if (is(begin, "template")) {
    d.is_template = is(begin + 1, "<");
    d.is_instance = !d.is_template;
    d.first = d.is_template ? match_angle(begin + 1) + 1 : begin + 1;
  }
  bool initialised = false;
  size_t k = d.first;
  for (; k < end; ++k) {
    if (attribute_at(k)) {
      for (Attribute& a : attributes_at(k)) {
        if (a.name == "kernel") d.is_kernel = true;
        if (a.name == "host_name") d.host_name = a.argument;
        if (!d.paren) d.attributes.push_back(a);
      }
      k = match(k);
      continue;
    }
    if (is(k, "kernel")) d.is_kernel = true;
    if (!d.paren && (is(k, "struct") || is(k, "class") || is(k, "union") || is(k, "enum"))) d.has_record = true;
    if (is(k, "=")) initialised = true;
    if (is(k, ";")) break;
    if (is(k, "decltype")) {
      k = match(k + 1);
    } else if (is(k, "(")) {
      if (!d.paren && !initialised) d.paren = k;
      k = match(k);
    } else if (is(k, "[")) {
      k = match(k);
    } else if (is(k, "{")) {
      if (!initialised && !d.has_record) {
        d.body = k;
        break;
      }
      k = match(k);
    }
  }
  d.end = d.body ? match(d.body) : k;
  return d;
}

void Scan::declarations(size_t begin, size_t end) {
  for (size_t i = begin; i < end;) {
    if (is(i, ";") || is(i, "}")) {
      ++i;
      continue;
    }
    if (const size_t after = skip_namespace(i); after != i) {
      i = after;
      continue;
    }
    const Declaration d = declaration(i, end);
    const bool alias = is(d.start, "using") || is(d.start, "typedef");
    const bool callable = d.paren && is_word(d.paren - 1) && !alias;
    if (d.is_instance)
      instance(d);
    else if (callable && d.body)
      function(d);
    else if (!d.body && !d.has_record && !callable && !alias && !is(d.start, "static_assert") &&
             !is(d.start, "friend") && d.end > d.start + 1)
      variable(d);
    i = d.end + 1;
  }
}

// template [[host_name("x")]] [[kernel]] decltype(f<A>) f<A>;
void Scan::instance(const Declaration& d) {
  if (!d.is_kernel && d.host_name.empty()) return;
  size_t q = d.first;
  auto skip_attributes = [&] {
    while (attribute_at(q)) q = match(q) + 1;
  };
  skip_attributes();
  if (is(q, "kernel")) ++q;
  skip_attributes();
  if (is(q, "decltype"))
    q = match(q + 1) + 1;
  else if (is(q, "void"))
    ++q;
  if (is(q, "kernel")) ++q;
  const size_t last = is(q + 1, "<") ? match_angle(q + 1) : q;
  std::string name = d.host_name;
  for (char c : {'"', ' '}) name.erase(std::remove(name.begin(), name.end(), c), name.end());
  instances_.push_back({name, text(q, last + 1), tokens_[q].text, tokens_[q].line});
}

void Scan::function(const Declaration& d) {
  Function f;
  f.is_kernel = d.is_kernel;
  f.begin = d.body;
  f.end = d.end;
  const std::string& name = tokens_[d.paren - 1].text;
  const int line = tokens_[d.paren - 1].line;
  if (d.is_kernel) {
    f.parameters = parameters(d.paren);
    if (!is(d.paren - 2, "void")) report("error", line, "kernel '" + name + "' must return void");
    if (!d.is_template) instances_.push_back({d.host_name.empty() ? name : d.host_name, name, name, line});
  }
  const bool overload = functions_.count(name) && !d.is_kernel;
  functions_[overload ? name + "#" + std::to_string(overloads_++) : name] = f;
  threadgroup_variables(d.body, d.end);
}

void Scan::variable(const Declaration& d) {
  bool constant = false;
  for (size_t q = d.start; q < d.end; ++q) constant = constant || is(q, "constant");
  size_t name_at = d.start;
  for (size_t q = d.first; q < d.end && !is(q, "=") && !attribute_at(q) && !is(q, "{"); ++q)
    if (is_word(q)) name_at = q;
  const std::string& name = tokens_[name_at].text;
  if (!constant && !d.is_template && !d.paren)
    report("error", tokens_[d.start].line,
           "program-scope variable '" + name + "' must be in the 'constant' address space");
  for (const Attribute& a : d.attributes) {
    if (a.name != "function_constant") continue;
    std::string type;
    for (size_t q = d.first; q < name_at; ++q)
      if (is_word(q) && !is(q, "constant") && !is(q, "const") && !is(q, "static")) type = tokens_[q].text;
    // constant T f [[function_constant(n)]]; gets the value that the driver defines as MSLX_FCVAL_n.
    const std::string n = a.argument;
    edits_.push_back(
        {tokens_[d.end].offset, 0,
         " = " + type + "(MSLX_FCVAL_" + n + "); enum { mslx_fcdef_" + name + " = MSLX_FCSET_" + n + " }"});
    constants_ += "#ifndef MSLX_FCVAL_" + n + "\n#define MSLX_FCVAL_" + n + "\n#define MSLX_FCSET_" + n +
                  " 0\n#else\n#define MSLX_FCSET_" + n + " 1\n#endif\n";
  }
}

std::vector<Parameter> Scan::parameters(size_t paren) const {
  std::vector<Parameter> list;
  const size_t close = match(paren);
  size_t start = paren + 1;
  int angles = 0;
  for (size_t i = paren + 1; i <= close; ++i) {
    if (is(i, "<"))
      ++angles;
    else if (is(i, ">") && angles)
      --angles;
    else if (is(i, "(") || is(i, "[")) {
      i = match(i);
      continue;
    }
    if (i != close && (!is(i, ",") || angles)) continue;
    if (i > start) {
      Parameter p;
      p.line = tokens_[start].line;
      for (size_t k = start; k < i; ++k) {
        if (attribute_at(k)) {
          for (Attribute& a : attributes_at(k)) p.attributes.push_back(a);
          k = match(k);
          continue;
        }
        p.declaration += (p.declaration.empty() ? "" : " ") + tokens_[k].text;
        if (is_word(k)) p.name = tokens_[k].text;
      }
      list.push_back(p);
    }
    start = i + 1;
  }
  return list;
}

void Scan::threadgroup_variables(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    if (is(i, "threadgroup") && (is(i - 1, "{") || is(i - 1, "}") || is(i - 1, ";") || is(i - 1, ")")))
      i = threadgroup_variable(i);
}

// threadgroup T a[n], b; becomes references into the threadgroup's memory; threadgroup T* p is left alone.
size_t Scan::threadgroup_variable(size_t at) {
  size_t end = at;
  int angles = 0;
  for (; !is(end, ";") && !is(end, "="); ++end) {
    if (is(end, "(") || is(end, "["))
      end = match(end);
    else if (is(end, "<"))
      ++angles;
    else if (is(end, ">"))
      --angles;
    else if ((is(end, "*") || is(end, "&")) && !angles)
      return at;
  }
  if (is(end, "=")) {
    report("warning", tokens_[at].line, "initializer on a threadgroup variable is ignored (do not rely on it)");
    size_t semicolon = end;
    for (; !is(semicolon, ";"); ++semicolon)
      if (is(semicolon, "{")) semicolon = match(semicolon);
    const size_t offset = tokens_[end].offset, length = tokens_[semicolon].offset - offset;
    edits_.push_back({offset, length, blank(offset, length)});
  }
  size_t name = at + 1;  // the last word before [ , ;
  angles = 0;
  for (size_t q = at + 1; q <= end; ++q) {
    if (is(q, "<"))
      ++angles;
    else if (is(q, ">"))
      --angles;
    else if (is_word(q) && !angles)
      name = q;
    else if (is(q, "[") || is(q, ";") || (is(q, ",") && !angles))
      break;
  }
  const std::string type = text(at + 1, name);
  std::string replacement;
  for (size_t q = name; q < end && is_word(q);) {
    size_t after = q + 1;
    while (is(after, "[")) after = match(after) + 1;
    replacement += "MSLX_TGVAR(" + std::to_string(sites_++) + ", " + tokens_[q].text + ", " + type + " " +
                   text(q + 1, after) + "); ";
    q = is(after, ",") ? after + 1 : end;
  }
  const size_t offset = tokens_[at].offset, length = tokens_[end].offset - offset;
  const auto lines = std::count(source_.begin() + static_cast<long>(offset),
                                source_.begin() + static_cast<long>(offset + length), '\n');
  edits_.push_back({offset, length, replacement + std::string(static_cast<size_t>(lines), '\n')});
  return end;
}

}  // namespace mslx
