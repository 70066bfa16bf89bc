// docs/cli.md and --help say the same: every verb and every flag of one is in the other.
#include <regex>
#include <set>

#include "cli/invoke.h"

namespace npusim {
namespace {

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

// The section of one verb: up to the next heading.
std::string section(const std::string& docs, const std::string& verb) {
  const size_t begin = docs.find("\n## npusim " + verb + "\n");
  if (begin == std::string::npos) return {};
  return docs.substr(begin, docs.find("\n## ", begin + 4) - begin);
}

TEST_F(CliTest, EveryFlagIsDocumented) {
  const std::string docs = read_file(NPUSIM_SOURCE_DIR "/docs/cli.md");
  const Invocation help = npusim({"--help"});
  ASSERT_EQ(help.code, 0);
  const std::string list = help.out.substr(help.out.find("Subcommands:"));
  const std::set<std::string> verbs = matches(list, "\n  ([a-z]+) ");
  EXPECT_GE(verbs.size(), 9u);
  EXPECT_EQ(matches(docs, "\n## npusim ([a-z]+)\n"), verbs);
  for (const std::string& verb : verbs) {
    const Invocation help_of = npusim({verb, "--help"});
    EXPECT_EQ(help_of.code, 0);
    const std::string text = section(docs, verb);
    std::set<std::string> flags = matches(help_of.out, "\n  (?:-[a-z],)?(--[a-z0-9-]+)");
    flags.erase("--help");
    for (const std::string& flag : flags)
      EXPECT_TRUE(std::regex_search(text, std::regex(flag + "[^a-z-]")))
          << verb << " " << flag << " is not in docs/cli.md";
    // Flags in the tables are the verb's own.
    for (const std::string& flag : matches(text, "[|,] `(--[a-z0-9-]+)"))
      EXPECT_TRUE(flags.contains(flag)) << "docs/cli.md: " << verb << " has no " << flag;
  }
}

}  // namespace
}  // namespace npusim
