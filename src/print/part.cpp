// A body behind the signature of a function that is called.
#include "print/part.h"

#include <fmt/format.h>

#include "print/print.h"
#include "print/writer.h"

namespace npusim {

PrintedPart print_part(const Kernel& k, const Dialect& d, const Schedule& schedule, const std::string& name,
                       const PartContext& context) {
  PrintedPart text;
  const PrintPlan plan = plan_print(k, d, schedule);
  const std::string body = KernelWriter(plan, d, {"block", "thread_index", context.first_trap, &text.shared}).body();
  std::vector<std::string> parts;
  int reads = 0, writes = 0;
  for (size_t i = 0; i < k.args.size(); ++i) {
    const bool written = k.args[i].written;
    const bool apart = context.apart || (context.no_alias && !may_alias(k, i));
    parts.push_back(fmt::format("{}{}{}*{} {}{}", context.in_shared[i] ? d.shared_space : d.argument_space,
                                written ? "" : "const ", d.elements[static_cast<size_t>(k.args[i].dtype)].type,
                                apart ? d.no_alias : "", written ? "out" : "in", written ? writes++ : reads++));
  }
  if (takes_trap(k)) parts.push_back(fmt::format("{} trap", d.trap_type));
  for (const SharedArray& array : text.shared)
    parts.push_back(fmt::format("{}{}* {}", d.shared_space, array.type, array.name));
  for (const char* index : {"block", "thread_index"}) parts.push_back(fmt::format("{} {}", d.uint, index));
  text.function = fmt::format("\n{}{} void {}(\n    {}) {{\n{}}}\n", kernel_comment(plan, k), d.function, name,
                              fmt::join(parts, ",\n    "), body);
  return text;
}

}  // namespace npusim
