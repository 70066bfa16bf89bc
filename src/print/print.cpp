// Whole sources: names, comments, signatures, and the helpers that are mentioned.
#include "print/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "kernel/facts/memory.h"
#include "print/point.h"
#include "print/writer.h"

namespace npusim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

bool may_alias(const Kernel& k, size_t arg) {
  for (size_t other = 0; other < k.args.size(); ++other) {
    if (k.args[arg].written == k.args[other].written) continue;
    const size_t read = k.args[arg].written ? other : arg, written = k.args[arg].written ? arg : other;
    if (may_be_one(k, static_cast<int>(read), static_cast<int>(written))) return true;
  }
  return false;
}

bool mentions(const std::string& text, const std::string& word) {
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text.substr(0, 80)) name += is_word(c) ? c : '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "k_" + name : name;
}

std::string parameters(const Kernel& k, const Dialect& d, std::string_view suffix, bool trap) {
  std::vector<std::string> parts;
  int reads = 0, writes = 0;
  for (size_t i = 0; i < k.args.size(); ++i) {
    const KernelArg& arg = k.args[i];
    const std::string name =
        fmt::format("{}{}{}", arg.written ? "out" : "in", arg.written ? writes++ : reads++, suffix);
    parts.push_back(fmt::format(fmt::runtime(arg.written ? d.write_arg : d.read_arg),
                                d.elements[static_cast<size_t>(arg.dtype)].type, name, i,
                                may_alias(k, i) ? std::string_view{} : d.no_alias));
  }
  if (trap && takes_trap(k)) parts.push_back(fmt::format(fmt::runtime(d.trap_arg), parts.size()));
  if (!d.index_args.empty()) parts.emplace_back(d.index_args);
  return fmt::format("{}", fmt::join(parts, ",\n    "));
}

std::string parameter_names(const Kernel& k, std::string_view suffix) {
  std::vector<std::string> names;
  int reads = 0, writes = 0;
  for (const KernelArg& arg : k.args)
    names.push_back(arg.written ? fmt::format("out{}{}", writes++, suffix) : fmt::format("in{}{}", reads++, suffix));
  if (takes_trap(k)) names.emplace_back("trap");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string kernel_comment(const PrintPlan& p, const Kernel& k) {
  std::string text = fmt::format("// {}: {}", identifier(k.name), to_string(k.space));
  if (k.row_dims) text += fmt::format(", the last {} the row", k.row_dims);
  text += "\n//";
  int reads = 0, writes = 0;
  for (const KernelArg& arg : k.args) {
    text += fmt::format(" {}{} {}[{}]", arg.written ? "out" : "in", arg.written ? writes++ : reads++,
                        dtype_name(arg.dtype), arg.elements);
    if (arg.updates >= 0) text += fmt::format(" is in{}", arg.updates);
  }
  constexpr std::string_view shares[] = {"one thread a point", "one thread a row", "one warp a row", "one block a row"};
  text += fmt::format("\n// {} blocks of {} threads, {}", p.launch.blocks, p.launch.threads,
                      shares[static_cast<size_t>(p.schedule.row)]);
  return text + (p.schedule.lanes > 1 ? fmt::format(", {} lanes\n", p.schedule.lanes) : "\n");
}

std::string kernel_name(const Kernel& kernel) {
  return fmt::format("{}_{:016x}", identifier(kernel.name), content_hash(kernel));
}

LaunchShape launch_of(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule) {
  return plan_print(kernel, dialect, schedule).launch;
}
LaunchShape launch_of(const Kernel& kernel, const Dialect& dialect) {
  return launch_of(kernel, dialect, choose_schedule(kernel, dialect));
}

std::string with_helpers(const std::string& text, const Dialect& dialect) {
  std::string above;
  const auto helpers = printed_helpers(dialect);
  for (size_t i = helpers.size(); i-- > 0;)
    if (mentions(text, helpers[i].first) || mentions(above, helpers[i].first)) above = helpers[i].second + "\n" + above;
  return std::string(dialect.prologue) + above + text;
}

std::string print_functions(std::span<const Scheduled> kernels, const Dialect& dialect) {
  std::string text;
  std::set<std::string> names;
  for (const Scheduled& one : kernels) {
    const Kernel& kernel = *one.kernel;
    const std::string name = kernel_name(kernel) + one.suffix;
    if (!names.insert(name).second) continue;
    const PrintPlan plan = plan_print(kernel, dialect, one.schedule);
    BodyContext context{dialect.block, dialect.thread};
    context.wait = one.wait;
    context.ahead = one.ahead;
    text += "\n" + kernel_comment(plan, kernel);
    text += fmt::format(fmt::runtime(dialect.kernel), name, parameters(kernel, dialect), one.schedule.threads);
    text += one.opening + KernelWriter(plan, dialect, context).body() + "}\n";
  }
  return text;
}

std::string print_kernels(std::span<const Scheduled> kernels, const Dialect& dialect) {
  return with_helpers(print_functions(kernels, dialect), dialect);
}

std::string print_kernels(std::span<const Kernel* const> kernels, const Dialect& dialect) {
  std::vector<Scheduled> scheduled;
  for (const Kernel* kernel : kernels) scheduled.push_back({kernel, choose_schedule(*kernel, dialect)});
  return print_kernels(scheduled, dialect);
}

std::string print_kernel(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule) {
  const Scheduled one{&kernel, schedule};
  return print_kernels({&one, 1}, dialect);
}
std::string print_kernel(const Kernel& kernel, const Dialect& dialect) {
  return print_kernel(kernel, dialect, choose_schedule(kernel, dialect));
}

}  // namespace npusim
