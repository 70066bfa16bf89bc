// Prints groups: a function for each kernel, and the entry with its barriers.
#include "print/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "print/part.h"
#include "print/writer.h"

namespace npusim {
namespace {

class GroupPrinter {
 public:
  GroupPrinter(const KernelGroup& group, const Dialect& dialect)
      : g_(group), d_(dialect), name_(group_name(group)), trap_(takes_trap(group)) {}

  std::string run() {
    std::string functions, declarations, calls;
    for (size_t m = 0; m < g_.memories.size(); ++m)
      if (const KernelGroup::Memory& memory = g_.memories[m]; memory.shared)
        declarations += declaration({element_type(memory.dtype), memory_name(m), memory.elements});
    for (size_t n = 0; n < g_.parts.size(); ++n) {
      const PrintedPart part = function(n);
      functions += part.function;
      for (const SharedArray& array : part.shared)
        declarations += declaration({array.type, shared_name(n, array), array.elements});
      calls += call(n, part.shared);
    }
    std::string text = functions + fmt::format("\n// {}: {} kernels, one block of {} threads\n", name_, g_.parts.size(),
                                               g_.parts[0].schedule.threads);
    text += fmt::format(fmt::runtime(d_.kernel), name_, parameters(), g_.parts[0].schedule.threads);
    return text + declarations + calls + "}\n";
  }

 private:
  std::string_view element_type(DType dtype) const { return d_.elements[static_cast<size_t>(dtype)].type; }
  static std::string memory_name(size_t m) { return fmt::format("m{}", m); }
  static std::string shared_name(size_t part, const SharedArray& array) {
    return fmt::format("part{}_{}", part, array.name);
  }
  std::string function_name(size_t part) const { return fmt::format("{}_part{}", name_, part); }
  std::string declaration(const SharedArray& array) const {
    return "  " + fmt::format(fmt::runtime(d_.shared), array.type, array.name, std::max<int64_t>(array.elements, 1)) +
           "\n";
  }

  PrintedPart function(size_t n) const {
    const KernelGroup::Part& part = g_.parts[n];
    PartContext context{{}, first_trap(g_, n)};  // what pointers point to changes between the parts
    for (int m : part.memory) context.in_shared.push_back(g_.memories[static_cast<size_t>(m)].shared);
    return print_part(*part.kernel, d_, part.schedule, function_name(n), context);
  }

  // All blocks of a part, then the barrier. Between blocks there is one where the next could overwrite what is shared.
  std::string call(size_t n, const std::vector<SharedArray>& shared) const {
    const KernelGroup::Part& part = g_.parts[n];
    const int64_t blocks = launch_of(*part.kernel, d_, part.schedule).blocks;
    std::vector<std::string> args;
    for (int m : part.memory) args.push_back(memory_name(static_cast<size_t>(m)));
    if (takes_trap(*part.kernel)) args.emplace_back("trap");
    for (const SharedArray& array : shared) args.push_back(shared_name(n, array));
    args.emplace_back(blocks == 1 ? "0" : "block");
    args.emplace_back(d_.thread);
    std::string text = fmt::format("{}({});\n", function_name(n), fmt::join(args, ", "));
    if (blocks == 1) {
      text = "  " + text;
    } else if (shared.empty()) {
      text = fmt::format("  for ({0} block = 0; block < {1}; ++block) {2}", d_.uint, blocks, text);
    } else {
      text = fmt::format("  for ({0} block = 0; block < {1}; ++block) {{\n    {2}    {3}\n  }}\n", d_.uint, blocks,
                         text, d_.barrier);
    }
    return n + 1 < g_.parts.size() ? text + "  " + std::string(d_.memory_barrier) + "\n" : text;
  }

  std::string parameters() const {
    std::vector<std::string> parts;
    for (size_t m = 0; m < g_.memories.size(); ++m)
      if (const KernelGroup::Memory& memory = g_.memories[m]; !memory.shared)
        parts.push_back(fmt::format(fmt::runtime(is_written(m) ? d_.write_arg : d_.read_arg),
                                    element_type(memory.dtype), memory_name(m), parts.size(), ""));
    if (trap_) parts.push_back(fmt::format(fmt::runtime(d_.trap_arg), parts.size()));
    if (!d_.index_args.empty()) parts.emplace_back(d_.index_args);
    return fmt::format("{}", fmt::join(parts, ",\n    "));
  }

  bool is_written(size_t m) const {
    for (const KernelGroup::Part& part : g_.parts)
      for (size_t i = 0; i < part.memory.size(); ++i)
        if (part.memory[i] == static_cast<int>(m) && part.kernel->args[i].written) return true;
    return false;
  }

  const KernelGroup& g_;
  const Dialect& d_;
  const std::string name_;
  const bool trap_;
};

int64_t shared_bytes(const KernelGroup& group, const Dialect& dialect) {
  constexpr int64_t alignment = 16;
  int64_t bytes = 0;
  for (const KernelGroup::Memory& m : group.memories)
    if (m.shared)
      bytes += (m.elements * static_cast<int64_t>(dtype_size(m.dtype)) + alignment - 1) / alignment * alignment;
  for (const KernelGroup::Part& part : group.parts) {  // a number for each warp, of each reduction
    if (part.schedule.row != RowLoop::block) continue;
    const auto& exprs = part.kernel->exprs;
    const auto reductions =
        std::count_if(exprs.begin(), exprs.end(), [](const Expr& e) { return e.op == ExprOp::reduce; });
    bytes += reductions * std::max<int64_t>(8 * (part.schedule.threads / dialect.warp), alignment);
  }
  return bytes;
}

}  // namespace

std::optional<std::string> cannot_print(const KernelGroup& group, const Dialect& dialect) {
  if (group.parts.empty()) return "a group of no kernels";
  for (const KernelGroup::Part& part : group.parts) {
    if (part.schedule.threads != group.parts[0].schedule.threads)
      return "its kernels are for blocks of different sizes";
    if (auto reason = cannot_print(*part.kernel, dialect, part.schedule)) return reason;
  }
  const auto pointers = std::count_if(group.memories.begin(), group.memories.end(),
                                      [](const KernelGroup::Memory& m) { return !m.shared; });
  if (const auto args = pointers + takes_trap(group); args > dialect.max_args)
    return fmt::format("{} arguments, {} takes {}", args, dialect.name, dialect.max_args);
  if (const int64_t bytes = shared_bytes(group, dialect); bytes > dialect.max_shared_bytes)
    return fmt::format("{} bytes of a block's own, {} has {}", bytes, dialect.name, dialect.max_shared_bytes);
  return std::nullopt;
}

std::string group_name(const KernelGroup& group) {
  std::string text;
  for (const KernelGroup::Memory& m : group.memories)
    text += fmt::format("{} {} {};", dtype_name(m.dtype), m.elements, m.shared);
  for (const KernelGroup::Part& part : group.parts)
    text += fmt::format("{} {} {} {} {};", to_text(*part.kernel), identifier(part.kernel->name),
                        static_cast<int>(part.schedule.row), part.schedule.threads, fmt::join(part.memory, " "));
  return "group_" + hash_hex(text);
}

std::string print_group(const KernelGroup& group, const Dialect& dialect) { return GroupPrinter(group, dialect).run(); }

bool takes_trap(const KernelGroup& group) {
  return std::any_of(group.parts.begin(), group.parts.end(),
                     [](const KernelGroup::Part& part) { return takes_trap(*part.kernel); });
}

int first_trap(const KernelGroup& group, size_t part) {
  int first = 0;
  for (size_t n = 0; n < part; ++n)
    if (const Kernel& k = *group.parts[n].kernel; takes_trap(k)) first += trap_count(k);
  return first;
}

}  // namespace npusim
