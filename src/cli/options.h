// Options of verbs: one function for each kind of value. What a user writes is parsed and checked here and nowhere
// else, and refused as "--name: expected …, found …".
#pragma once
#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace npusim::cli {

// The name of a file; not empty. "-" is standard input or output where `streams`.
CLI::Option* add_file(CLI::App& verb, const std::string& names, std::string& value, const char* type, const char* help,
                      bool streams = true);
// One that is written, and one that may take the place of the program that is read.
CLI::Option* add_output(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                        const char* help, bool streams = true);
CLI::Option* add_in_place_output(CLI::App& verb, const std::string& names, std::string& value, const char* type,
                                 const char* help);
bool is_output(const CLI::Option& option);    // of either kind
bool is_in_place(const CLI::Option& option);  // of the second
// A name of something: a method, a device, a pass; not empty.
CLI::Option* add_name(CLI::App& verb, const std::string& names, std::string& value, const char* type, const char* help);
// Several, with commas between them or in several options; none is empty.
CLI::Option* add_names(CLI::App& verb, const std::string& names, std::vector<std::string>& values, const char* type,
                       const char* help);
// NAME=FILE, once per option; neither is empty.
using NamedFile = std::pair<std::string, std::string>;
NamedFile split_named(const std::string& text);
CLI::Option* add_named_files(CLI::App& verb, const std::string& names, std::vector<NamedFile>& values, const char* type,
                             const char* help);
// Whatever it says, also nothing.
CLI::Option* add_text(CLI::App& verb, const std::string& names, std::string& value, const char* type, const char* help);
// A decimal number in full, both bounds included: no sign but -, no spaces, no other base, no NaN.
CLI::Option* add_number(CLI::App& verb, const std::string& names, double& value, double low, double high,
                        const char* type, const char* help);
// One whose range another checks.
CLI::Option* add_number(CLI::App& verb, const std::string& names, std::function<void(double)> store, const char* type,
                        const char* help);
CLI::Option* add_integer(CLI::App& verb, const std::string& names, std::function<void(int64_t)> store, int64_t low,
                         int64_t high, const char* type, const char* help);
template <std::signed_integral T>
CLI::Option* add_integer(CLI::App& verb, const std::string& names, T& value, std::type_identity_t<T> low,
                         std::type_identity_t<T> high, const char* type, const char* help) {
  const auto store = [&value](int64_t found) { value = static_cast<T>(found); };
  return add_integer(verb, names, store, low, high, type, help);
}
// An integer from 0 to 2^64 - 1.
CLI::Option* add_seed(CLI::App& verb, const std::string& names, std::function<void(uint64_t)> store, const char* help);

// Which kind of value an option takes, one of those above: "file", "name", "names", "named files", "text", "number",
// "integer", "seed"; "flag" for none; "" for an option that was not added here.
std::string kind_of(const CLI::Option& option);

// Why the words behind the verb are no options and values of it: an unknown option, a missing value, one given to a
// flag or twice. Empty where nothing is wrong with them so far.
std::string refuse_words(const CLI::App& verb, const std::vector<std::string>& words);

}  // namespace npusim::cli
