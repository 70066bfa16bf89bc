// Kinds of values, and the words of a command before they are values.
#include "cli/options.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "npusim/message.h"

namespace npusim::cli {
namespace {

// Marks the option for kind_of().
CLI::Option* mark(CLI::Option* option, const char* kind, const char* type) {
  return option->type_name(type)->check(CLI::Validator([](std::string&) { return std::string(); }, "", kind));
}

bool is_marked(const CLI::Option& option, const char* mark) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(mark) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

// What was written, as far as a message shows it; the error makes of a code point that is cut what can be read.
std::string shown(const std::string& text) {
  constexpr size_t longest = 80;
  return text.empty() ? "nothing" : text.size() <= longest ? text : text.substr(0, longest) + "…";
}
std::string found(const std::string& text) { return text.empty() ? shown(text) : "'" + shown(text) + "'"; }

// Empty where `text` may be what `what` says.
std::string refuse_word(const std::string& text, std::string_view what, bool streams) {
  if (text.empty() || (text == "-" && !streams)) return fmt::format("expected {}, found {}", what, found(text));
  if (text[0] != '-' || text == "-") return {};
  return fmt::format("expected {}, found {}, which looks like an option", what, found(text));
}

CLI::Option* check_word(CLI::Option* option, const char* kind, const char* type, const char* what, bool streams) {
  return mark(option->check([=](const std::string& text) { return refuse_word(text, what, streams); }), kind, type);
}

template <typename T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

template <typename T>
struct Range {
  const char* what;
  T low, high;  // both are in it
  bool any = false;
};
constexpr Range<double> any_number{"a number", 0, 0, true};

template <typename T, typename Store>
CLI::Option* add_parsed(CLI::App& verb, const std::string& names, Store store, Range<T> range, const char* kind,
                        const char* type, const char* help) {
  const auto check = [=](const std::string& text) -> std::string {
    T value{};
    if (parse(text, value) && (range.any || (value >= range.low && value <= range.high))) return {};  // no NaN in it
    const std::string expected = range.any ? "" : fmt::format(" from {} to {}", range.low, range.high);
    return fmt::format("expected {}{}, found {}", range.what, expected, shown(text));
  };
  const auto take = [store](const CLI::results_t& results) {
    T value{};
    parse(results.at(0), value);
    store(value);
    return true;
  };
  return mark(verb.add_option(names, take, help)->check(check), kind, type);
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0, end = 0; begin <= list.size(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
  }
  return names;
}

// May stand several times, each time with one value.
CLI::Option* repeated(CLI::Option* option) {
  return option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
}

const CLI::Option* find(const CLI::App& verb, const std::string& name) {
  for (const CLI::App* app = &verb; app; app = app->get_parent())
    if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
  return nullptr;
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::App* app = &verb; app; app = app->get_parent())
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// An option as it is written: "--name", "--name=value", "-n", "-nvalue".
struct Word {
  std::string name, value;
  bool has_value = false;
};
Word word_of(const std::string& text) {
  if (text.starts_with("--")) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return {text, "", false};
    return {text.substr(0, equals), text.substr(equals + 1), true};
  }
  return {text.substr(0, 2), text.substr(2), text.size() > 2};
}
bool is_option(const std::string& text) { return text.size() > 1 && text[0] == '-'; }

}  // namespace

CLI::Option* add_file(CLI::App& verb, const std::string& names, std::string& value, const char* type, const char* help,
                      bool streams) {
  return check_word(verb.add_option(names, value, help), "file", type, "the name of a file", streams);
}

CLI::Option* add_name(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                      const char* help) {
  return check_word(verb.add_option(names, value, help), "name", type, "a name", false);
}

CLI::Option* add_names(CLI::App& verb, const std::string& names, std::vector<std::string>& values, const char* type,
                       const char* help) {
  const auto check = [](const std::string& list) -> std::string {
    for (const std::string& name : split_list(list))
      if (std::string problem = refuse_word(name, "names with commas between them", false); !problem.empty())
        return problem + (list.empty() || !name.empty() ? "" : " beside a comma");
    return {};
  };
  const auto take = [&values](const CLI::results_t& lists) {
    for (const std::string& list : lists)
      for (std::string& name : split_list(list)) values.push_back(std::move(name));
    return true;
  };
  return mark(repeated(verb.add_option(names, take, help))->check(check), "names", type);
}

CLI::Option* add_named_files(CLI::App& verb, const std::string& names, std::vector<NamedFile>& values, const char* type,
                             const char* help) {
  const auto check = [type](const std::string& text) -> std::string {
    const auto [name, file] = split_named(text);
    if (name.empty() || file.empty()) return fmt::format("expected {}, found {}", type, found(text));
    return refuse_word(file, "the name of a file behind =", true);
  };
  const auto take = [&values](const CLI::results_t& results) {
    for (const std::string& text : results) values.push_back(split_named(text));
    return true;
  };
  return mark(repeated(verb.add_option(names, take, help))->check(check), "named files", type);
}

CLI::Option* add_text(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                      const char* help) {
  return mark(verb.add_option(names, value, help), "text", type);
}

CLI::Option* add_number(CLI::App& verb, const std::string& names, double& value, double low, double high,
                        const char* type, const char* help) {
  const Range<double> range{"a number", low, high};
  return add_parsed(
      verb, names, [&value](double parsed) { value = parsed; }, range, "number", type, help);
}

CLI::Option* add_number(CLI::App& verb, const std::string& names, std::function<void(double)> store, const char* type,
                        const char* help) {
  return add_parsed(verb, names, std::move(store), any_number, "number", type, help);
}

CLI::Option* add_integer(CLI::App& verb, const std::string& names, std::function<void(int64_t)> store, int64_t low,
                         int64_t high, const char* type, const char* help) {
  return add_parsed(verb, names, std::move(store), Range<int64_t>{"an integer", low, high}, "integer", type, help);
}

CLI::Option* add_seed(CLI::App& verb, const std::string& names, std::function<void(uint64_t)> store, const char* help) {
  return add_parsed(verb, names, std::move(store), Range<uint64_t>{"an integer", 0, UINT64_MAX}, "seed", "N", help);
}

NamedFile split_named(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  return {text.substr(0, equals), text.substr(std::min(equals + 1, text.size()))};
}

CLI::Option* add_output(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                        const char* help, bool streams) {
  return mark(add_file(verb, names, value, type, help, streams), "output", type);
}

CLI::Option* add_in_place_output(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                                 const char* help) {
  return mark(add_output(verb, names, value, type, help), "in place", type);
}

bool is_output(const CLI::Option& option) { return is_marked(option, "output"); }
bool is_in_place(const CLI::Option& option) { return is_marked(option, "in place"); }

std::string kind_of(const CLI::Option& option) {
  if (!takes_value(option)) return "flag";
  for (const char* kind : {"file", "name", "names", "named files", "text", "number", "integer", "seed"})
    if (is_marked(option, kind)) return kind;
  return {};
}

std::string refuse_words(const CLI::App& verb, const std::vector<std::string>& words) {
  std::set<const CLI::Option*> seen;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") break;  // the rest is no options
    if (!is_option(words[i])) continue;
    const Word word = word_of(words[i]);
    const CLI::Option* option = find(verb, word.name);
    if (!option)
      return fmt::format("{} has no option {}{}", verb.get_name(), word.name,
                         did_you_mean(word.name, option_names(verb)));
    if (!takes_value(*option)) {
      if (word.has_value && word.name.starts_with("--"))
        return fmt::format("{}: expected no value, found '{}'", word.name, word.value);
      continue;
    }
    if (!seen.insert(option).second && option->get_items_expected_max() == 1)
      return fmt::format("{}: expected once, found twice", word.name);
    const auto missing = [&](const std::string& found) {
      return fmt::format("{}: expected a value ({}), found {}", word.name, option->get_type_name(), found);
    };
    const bool with_equals = !word.name.starts_with("--") && word.value.starts_with("=");
    if (with_equals) return missing(found(word.value));
    if (word.has_value && word.value.empty()) return missing("nothing");
    if (word.has_value) continue;
    if (++i == words.size()) return missing("nothing");
    if (is_option(words[i]) && find(verb, word_of(words[i]).name))
      return missing("the option " + word_of(words[i]).name);
  }
  return {};
}

}  // namespace npusim::cli
