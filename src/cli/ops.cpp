// npusim ops: the table of operators.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/cli.h"
#include "cli/options.h"
#include "npusim/compiler.h"

namespace npusim::cli {
namespace {

// docs/operators.md.
std::string markdown(const nlohmann::json& report) {
  std::map<std::string, std::string> rows;  // by family
  size_t count = 0;
  for (const nlohmann::json& op : report["ops"]) {
    const auto text = [&](const char* key) { return op[key].get<std::string>(); };
    std::string also;
    for (const nlohmann::json& form : op["in_place"]) also += fmt::format(" and `{}`", form.get<std::string>());
    std::string schema = text("schema");  // a bar would end the cell
    for (size_t bar = 0; (bar = schema.find('|', bar)) != std::string::npos; bar += 2) schema.insert(bar, 1, '\\');
    rows[text("family")] += fmt::format("| `{}`{} | `{}` |\n", text("name"), also, schema);
    ++count;
  }
  std::string page = fmt::format(
      "# Operators\n\nWhat can be compiled: {} overloads of operators, by family, with the schemas that `compile` "
      "binds "
      "arguments to. Made by\n`npusim ops --markdown`; others need the plugin "
      "([partitioning](partitioning.md#operators-without-a-kernel)).\n",
      count);
  for (const auto& [family, list] : rows)
    page += fmt::format("\n## {}\n| operator | schema |\n|---|---|\n{}", family, list);
  return page;
}

}  // namespace

Action add_ops(CLI::App& verb) {
  struct Flags {
    std::string target = "cpu";
    bool json = false, markdown = false;
  };
  auto flags = std::make_shared<Flags>();
  add_name(verb, "--target", flags->target, "T", "the target asked about")->capture_default_str();
  CLI::Option* json = verb.add_flag("--json", flags->json, "report as JSON");
  verb.add_flag("--markdown", flags->markdown, "the page docs/operators.md")->excludes(json);
  return [flags] {
    const std::string report = describe_ops(flags->target, flags->json || flags->markdown);
    print_report(flags->markdown ? markdown(nlohmann::json::parse(report)) : report);
    return 0;
  };
}

}  // namespace npusim::cli
