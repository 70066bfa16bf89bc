// Validation of a program: everything that the runtime relies on and does not check again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/cancel.h"
#include "base/error.h"
#include "kernel/facts/memory.h"
#include "program/budget.h"
#include "program/check_launches.h"
#include "program/check_memory.h"
#include "program/check_text.h"
#include "program/config_ranges.h"
#include "program/program.h"
#include "program/variant.h"

namespace npusim {
namespace {

constexpr size_t max_problems = 20;
constexpr size_t max_rank = 64;
constexpr size_t max_devices = 64, max_variants = 64;
constexpr uint64_t max_bytes = most_value_bytes;
// Of kernels, nodes of the IR and what is transferred, as all steps name them: lists of steps print them.
constexpr uint64_t max_named_bytes = 1 << 26;
constexpr size_t max_target_bytes = 128;

// A name that C would take for a shorter one.
bool has_nul(std::string_view name) { return name.find('\0') != std::string_view::npos; }

// As XML and JSON print a text.
uint64_t printed_bytes(std::string_view text) {
  uint64_t bytes = 0;
  for (const char c : text) bytes += static_cast<unsigned char>(c) < ' ' || strchr("&<>\"\\", c) ? 6 : 1;
  return bytes;
}

// One list of steps and what belongs to it: a method's, or the recipes (method == nullptr).
struct StepList {
  std::string where;
  const Sequence& sequence;
  const Method* method;
  int id;
};

class ProgramChecker {
 public:
  // named: the bytes that steps name, of this program and of those before it.
  ProgramChecker(const Program& program, uint64_t& named)
      : program_(program),
        named_(named),
        sharing_(program.kernels.size()),
        input_of_(program.buffers.size(), -1),
        output_of_(input_of_),
        arena_of_(input_of_) {}

  std::vector<std::string> run() {
    if (program_.devices.empty() || program_.devices.size() > max_devices)
      add("expected 1 to {} devices, found {}", max_devices, program_.devices.size());
    for (const ProgramDevice& device : program_.devices) config(device);
    for (const HostTensor& constant : program_.constants) {
      const size_t i = static_cast<size_t>(&constant - program_.constants.data());
      if (type(constant.type, "constant", i) && byte_size(constant.type) != constant.data.size())
        add("constant {}: expected {} bytes for {}, found {}", i, byte_size(constant.type), to_string(constant.type),
            constant.data.size());
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) buffer(i);
    for (size_t i = 0; i < program_.kernels.size(); ++i) check_cancelled(), kernel(i);
    for (const Choice& choice : program_.choices)
      for (const double ms : {choice.ms, choice.before_ms})
        if (!(ms >= 0 && std::isfinite(ms))) add("choice for '{}': expected milliseconds, found {}", choice.kernel, ms);
    if (!problems_.empty()) return std::move(problems_);  // what follows relies on all of the above
    written_.assign(program_.buffers.size(), false);
    steps({"recipes", program_.recipes, nullptr, 0});
    if (program_.methods.empty()) add("expected at least one method, found none");
    for (size_t i = 0; i < program_.methods.size(); ++i) method(i);
    uint64_t nodes = 0;
    for (const Method& m : program_.methods) nodes += static_cast<uint64_t>(m.nodes);
    if (problems_.empty() && nodes != program_.origins.size())
      add("expected {} nodes of the IR, as many as the methods have, found {}", nodes, program_.origins.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      if (problems_.empty() && output_of_[i] > 0 && program_.buffers[i].kind == BufferKind::state && input_of_[i] <= 0)
        add("no method has buffer '{}', a state, as an input", program_.buffers[i].name);
    if (problems_.empty()) problems_ = check_sizes(program_);
    return std::move(problems_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (problems_.size() < max_problems) problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void config(const ProgramDevice& device) {
    if (device.target.empty()) add("expected the name of a device's target, found none");
    if (device.target.size() > max_target_bytes)
      add("expected the name of a device's target in {} bytes, found {}", max_target_bytes, device.target.size());
    const auto in_range = [&](const auto& ranges, const auto& of) {
      for (const auto& range : ranges)
        if (const std::string problem = range_problem(range, of.*range.member); !problem.empty())
          add("config: {}", problem);
    };
    in_range(config_ranges(), device.config);
    in_range(machine_ranges(), device.config.machine);
    if (device.config.own.size() > most_own_values)
      add("config: expected at most {} values of the target's own, found {}", most_own_values,
          device.config.own.size());
    for (const auto& [key, value] : device.config.own)
      if (const std::string problem = range_problem(key.c_str(), value, 0, most_own_value); !problem.empty())
        add("config: {}", problem);
  }

  bool type(const TensorType& type, std::string_view what, size_t i) {
    if (type.shape.size() > max_rank) {
      add("{} {}: expected at most {} dimensions, found {}", what, i, max_rank, type.shape.size());
      return false;
    }
    try {
      element_count(type.shape);
      return true;
    } catch (const Error& error) {
      add("{} {}: {}", what, i, error.what());
      return false;
    }
  }

  // Has an offset of its own.
  static bool is_placed(const Buffer& b) { return b.kind == BufferKind::arena || b.kind == BufferKind::local; }

  bool is_device(int32_t device) const { return device >= 0 && static_cast<size_t>(device) < program_.devices.size(); }

  // Only values of the arena are in layouts of the target's own, and none has fewer elements than its type.
  bool stored(const Buffer& b) {
    if (!is_placed(b) || b.stored.size() > max_rank) return false;
    try {
      return element_count(b.stored) >= element_count(b.type.shape) && stored_bytes(b) <= max_bytes;
    } catch (const Error&) {
      return false;
    }
  }

  void buffer(size_t i) {
    const Buffer& b = program_.buffers[i];
    if (!type(b.type, "buffer", i)) return;
    if (byte_size(b.type) > max_bytes) return add("buffer {} '{}': {} is too large", i, b.name, to_string(b.type));
    if (!b.stored.empty() && !stored(b))
      return add("buffer {} '{}': extents in memory {} do not hold {}", i, b.name, to_string(b.stored),
                 to_string(b.type));
    if (!is_placed(b) && b.offset != 0) add("buffer {} '{}': expected no offset, found {}", i, b.name, b.offset);
    if (b.kind == BufferKind::weight && b.fqn.empty())
      add("buffer {} '{}': expected its name in a weight file, found none", i, b.name);
    if (b.kind != BufferKind::weight && (!b.fqn.empty() || !b.tied.empty()))
      add("buffer {} '{}': expected no name in a weight file, found one", i, b.name);
    if (b.kind != BufferKind::constant && b.constant != -1)
      add("buffer {} '{}': expected no constant, found {}", i, b.name, b.constant);
    if (b.kept && b.kind != BufferKind::state) add("buffer {} '{}': expected a state of what is kept", i, b.name);
    const bool narrow = b.type.dtype == DType::bf16 || b.type.dtype == DType::f16;
    if (!b.finite_for.empty() && (b.kind != BufferKind::prepared || (b.type.dtype != DType::f32 && !narrow)))
      add("buffer {} '{}': expected float32 or a 16-bit float that a recipe prepares where elements must be finite", i,
          b.name);
    if (b.kind == BufferKind::constant) {
      if (b.constant < 0 || static_cast<size_t>(b.constant) >= program_.constants.size())
        add("buffer {} '{}': expected a constant 0 to {}, found {}", i, b.name, program_.constants.size(), b.constant);
      else if (program_.constants[static_cast<size_t>(b.constant)].type != b.type)
        add("buffer {} '{}': expected constant {} of {}, found {}", i, b.name, b.constant, to_string(b.type),
            to_string(program_.constants[static_cast<size_t>(b.constant)].type));
    }
    if (!is_device(b.device))
      add("buffer {} '{}': expected a device 0 to {}, found {}", i, b.name, program_.devices.size(), b.device);
    if (is_placed(b) && b.offset % dtype_size(b.type.dtype) != 0)
      add("buffer {} '{}': offset {} is not aligned for {}", i, b.name, b.offset, to_string(b.type));
  }

  void kernel(size_t i) {
    const Kernel& k = program_.kernels[i];
    for (const std::string& problem : check_kernel(k)) add("kernel {} '{}': {}", i, k.name, problem);
  }

  const Buffer& at(int32_t buffer) const { return program_.buffers[static_cast<size_t>(buffer)]; }

  // For messages; a step may have any contents.
  std::string name(const Step& step) const {
    const bool known = !step.origins.empty() && step.origins.back() >= 0 &&
                       static_cast<size_t>(step.origins.back()) < program_.origins.size();
    return known ? program_.origins[static_cast<size_t>(step.origins.back())].node : "";
  }

  void steps(const StepList& list) {
    const std::vector<Step>& steps = list.sequence.steps;
    for (size_t a = 0; list.method && a < list.method->arenas.size(); ++a) {
      const Arena& arena = list.method->arenas[a];
      if (arena.bytes > max_bytes || arena.workspace_bytes > max_bytes)
        add("{}: an arena of {} bytes and {} of workspace", list.where, arena.bytes, arena.workspace_bytes);
    }
    for (size_t i = 0; i < steps.size() && problems_.size() < max_problems; ++i) {
      check_cancelled();
      const Step& step = steps[i];
      std::string problem = step.is_transfer() ? transfer(list, step) : kernel_step(list, step);
      if (problem.empty()) problem = named(step);
      if (problem.empty()) continue;
      add("{}: step {} '{}': {}", list.where, i, name(step), problem);
      for (int32_t id : step.buffers)  // what reads it later has no problem of its own
        if (id >= 0 && static_cast<size_t>(id) < written_.size()) written_[static_cast<size_t>(id)] = true;
    }
    if (!problems_.empty()) return;
    for (const std::string& problem : check_launches(program_, list.sequence)) add("{}: {}", list.where, problem);
    if (!problems_.empty() || !list.method) return;
    for (const std::string& problem : check_arenas(program_, *list.method)) add("{}: {}", list.where, problem);
  }

  // What is wrong with what every step has; empty when nothing is.
  std::string common(const Step& step) {
    if (!is_device(step.device))
      return fmt::format("expected a device 0 to {}, found {}", program_.devices.size(), step.device);
    constexpr double most_seconds = 1e12;
    if (!(step.estimate.seconds >= 0 && step.estimate.seconds <= most_seconds))
      return fmt::format("expected estimated seconds, found {}", step.estimate.seconds);
    for (size_t i = 0; i < step.origins.size(); ++i)
      if (step.origins[i] < (i ? step.origins[i - 1] + 1 : 0) ||
          static_cast<size_t>(step.origins[i]) >= program_.origins.size())
        return fmt::format("expected nodes of the IR below {} in order, found {}", program_.origins.size(),
                           step.origins[i]);
    for (const int32_t id : step.origins) {
      const Origin& origin = program_.origins[static_cast<size_t>(id)];
      for (const std::string* text : {&origin.node, &origin.op, &origin.reason}) named_ += printed_bytes(*text);
    }
    return {};
  }

  // Of a step whose positions are right: what it does, of the bytes that steps may name.
  std::string named(const Step& step) {
    if (step.is_transfer()) {
      for (const int32_t id : step.buffers) named_ += printed_bytes(at(id).name);
    } else {
      named_ += printed_bytes(program_.kernels[static_cast<size_t>(step.kernel)].name);
    }
    if (named_ <= max_named_bytes) return {};
    return fmt::format("steps up to here name kernels and nodes of the IR with more than {} bytes", max_named_bytes);
  }

  // What is wrong with a buffer's position.
  std::string position(int32_t id) const {
    if (id >= 0 && static_cast<size_t>(id) < program_.buffers.size()) return {};
    return fmt::format("expected a buffer 0 to {}, found {}", program_.buffers.size(), id);
  }

  std::string kernel_step(const StepList& list, const Step& step) {
    if (std::string problem = common(step); !problem.empty()) return problem;
    if (static_cast<size_t>(step.kernel) >= program_.kernels.size())
      return fmt::format("expected a kernel 0 to {}, found {}", program_.kernels.size(), step.kernel);
    const Kernel& k = program_.kernels[static_cast<size_t>(step.kernel)];
    if (step.buffers.size() != k.args.size())
      return fmt::format("expected {} buffers for kernel '{}', found {}", k.args.size(), k.name, step.buffers.size());
    for (size_t a = 0; a < k.args.size(); ++a) {
      std::string problem = argument(list, step, k, a);
      if (problem.empty() && at(step.buffers[a]).device != step.device)
        problem = fmt::format("buffer '{}' is on device {}, the step on {}", at(step.buffers[a]).name,
                              at(step.buffers[a]).device, step.device);
      if (!problem.empty()) return fmt::format("argument {}: {}", a, problem);
    }
    return shared(step, k);
  }

  std::string transfer(const StepList& list, const Step& step) {
    if (std::string problem = common(step); !problem.empty()) return problem;
    if (step.kernel != -1 || step.buffers.size() != 2)
      return fmt::format("expected a kernel, or two buffers to transfer, found {}", step.buffers.size());
    for (int32_t id : step.buffers)
      if (std::string problem = position(id); !problem.empty()) return problem;
    const Buffer &from = at(step.buffers[0]), &to = at(step.buffers[1]);
    if (from.device == to.device || to.device != step.device)
      return fmt::format("expected a transfer to device {} from another, found {} to {}", step.device, from.device,
                         to.device);
    // Values of other shapes may have been united with either; what is in memory is moved.
    if (from.type.dtype != to.type.dtype || stored_bytes(from) != stored_bytes(to))
      return fmt::format("a transfer of {} to {}", to_string(from.type), to_string(to.type));
    if (is_computed(from) && !written_[static_cast<size_t>(step.buffers[0])])
      return fmt::format("nothing writes buffer '{}' before", from.name);
    if (from.kind == BufferKind::local || to.kind == BufferKind::local || !may_write(list, to))
      return fmt::format("buffer '{}' must not be transferred to '{}' here", from.name, to.name);
    written_[static_cast<size_t>(step.buffers[1])] = true;
    if (std::string problem = place(list, step.buffers[0]); !problem.empty()) return problem;
    return place(list, step.buffers[1]);
  }

  // What is wrong with the buffer of one argument; empty when nothing is.
  std::string argument(const StepList& list, const Step& step, const Kernel& k, size_t a) {
    const KernelArg& arg = k.args[a];
    const int32_t id = step.buffers[a];
    if (std::string problem = position(id); !problem.empty()) return problem;
    const Buffer& b = at(id);
    if (b.type.dtype != arg.dtype || stored_elements(b.type, b.stored) != arg.elements)
      return fmt::format("expected {} elements of {}, found buffer '{}' of {}", arg.elements, dtype_name(arg.dtype),
                         b.name, to_string(b.type));
    if (arg.updates >= 0 && step.buffers[static_cast<size_t>(arg.updates)] != id)
      return fmt::format("expected the buffer of argument {}, which it updates, found '{}'", arg.updates, b.name);
    if (arg.written && !may_write(list, b)) return fmt::format("buffer '{}' must not be written here", b.name);
    if (arg.written)
      written_[static_cast<size_t>(id)] = true;
    else if (!written_[static_cast<size_t>(id)] && is_computed(b))
      return fmt::format("nothing writes buffer '{}' before", b.name);
    return place(list, id);
  }

  // A buffer that a kernel writes is one argument's that it writes, and is read only where each point reads what it
  // overwrites.
  std::string shared(const Step& step, const Kernel& k) {
    std::unordered_map<int32_t, size_t> written;
    for (size_t a = 0; a < k.args.size(); ++a)
      if (k.args[a].written && !written.emplace(step.buffers[a], a).second)
        return fmt::format("argument {}: buffer '{}' is written as another one, too", a, at(step.buffers[a]).name);
    for (size_t a = 0; a < k.args.size() && !k.args[a].written; ++a) {
      const auto found = written.find(step.buffers[a]);
      if (found == written.end()) continue;
      std::optional<Sharing>& known = sharing_[static_cast<size_t>(step.kernel)];
      if (!known) known = sharing_of(k);
      if (!may_share(*known, static_cast<int>(a), static_cast<int>(found->second)))
        return fmt::format("argument {}: buffer '{}' is overwritten while it is read", a, at(step.buffers[a]).name);
    }
    return {};
  }

  // Neither given nor kept from run to run.
  static bool is_computed(const Buffer& b) {
    return b.kind == BufferKind::prepared || b.kind == BufferKind::output || is_placed(b);
  }

  static bool may_write(const StepList& list, const Buffer& b) {
    if (!list.method) return b.kind == BufferKind::prepared;
    return b.kind == BufferKind::output || b.kind == BufferKind::state || is_placed(b);
  }

  // Why the buffer does not exist while the steps of this list run.
  std::string place(const StepList& list, int32_t id) {
    const Buffer& b = at(id);
    switch (b.kind) {
      case BufferKind::weight:
      case BufferKind::constant:
      case BufferKind::prepared:
        return {};
      case BufferKind::state:
        if (output_of_[static_cast<size_t>(id)] == list.id) return {};
        [[fallthrough]];
      case BufferKind::input:
        if (input_of_[static_cast<size_t>(id)] == list.id) return {};
        return fmt::format("buffer '{}' is no input of the method", b.name);
      case BufferKind::output:
        if (output_of_[static_cast<size_t>(id)] == list.id) return {};
        return fmt::format("buffer '{}' is no output of the method", b.name);
      case BufferKind::arena:
      case BufferKind::local:
        break;
    }
    if (!list.method) return fmt::format("buffer '{}' is of a method", b.name);
    int& owner = arena_of_[static_cast<size_t>(id)];
    if (owner >= 0 && owner != list.id) return fmt::format("arena buffer '{}' belongs to another method", b.name);
    owner = list.id;
    const Arena& arena = list.method->arenas[static_cast<size_t>(b.device)];
    const uint64_t bytes = b.kind == BufferKind::arena ? arena.bytes : arena.workspace_bytes;
    if (b.offset <= bytes && stored_bytes(b) <= bytes - b.offset) return {};
    return fmt::format("buffer '{}' at {} with {} bytes is not within the {} of {}", b.name, b.offset, stored_bytes(b),
                       b.kind == BufferKind::arena ? "arena" : "workspace", bytes);
  }

  void method(size_t i) {
    const Method& m = program_.methods[i];
    const std::string where = fmt::format("method '{}'", m.name);
    if (m.name.empty() || has_nul(m.name) || !names_.insert(m.name).second)
      add("{}: expected a name of its own, without a NUL byte", where);
    if (m.nodes < 0 || static_cast<size_t>(m.nodes) > program_.origins.size())
      add("{}: expected 0 to {} nodes of the IR, found {}", where, program_.origins.size(), m.nodes);
    if (m.arenas.size() != program_.devices.size())
      return add("{}: expected an arena for each of the {} devices, found {}", where, program_.devices.size(),
                 m.arenas.size());
    for (const Arena& arena : m.arenas)
      if (arena.lower_bound_bytes > arena.bytes)
        add("{}: the arena has {} bytes, below its lower bound of {}", where, arena.bytes, arena.lower_bound_bytes);
    inputs(m, static_cast<int>(i) + 1, where);
    outputs(m, static_cast<int>(i) + 1, where);
    for (const std::string& problem : check_roles(m)) add("{}: {}", where, problem);
    if (problems_.empty()) steps({where, m, &m, static_cast<int>(i) + 1});
    for (const TensorSpec& spec : m.outputs)
      if (problems_.empty() && at(spec.buffer).kind == BufferKind::output &&
          !written_[static_cast<size_t>(spec.buffer)])
        add("{}: output '{}': nothing writes buffer '{}'", where, spec.name, at(spec.buffer).name);
  }

  void inputs(const Method& m, int id, const std::string& where) {
    std::set<std::string_view> names;
    for (const TensorSpec& spec : m.inputs) {
      if (!tensor(spec, where + ": input")) continue;
      const BufferKind kind = at(spec.buffer).kind;
      if (kind != BufferKind::input && kind != BufferKind::state)
        add("{}: input '{}': buffer '{}' is not the caller's", where, spec.name, at(spec.buffer).name);
      int& owner = input_of_[static_cast<size_t>(spec.buffer)];
      if (!names.insert(spec.name).second || owner == id)
        add("{}: input '{}': expected a name and a buffer of its own", where, spec.name);
      owner = id;
    }
  }

  // An output may be a state, or an input or a weight as it is, and one buffer may be several outputs.
  void outputs(const Method& m, int id, const std::string& where) {
    for (const TensorSpec& spec : m.outputs) {
      if (!tensor(spec, where + ": output")) continue;
      const auto position = static_cast<size_t>(spec.buffer);
      const Buffer& b = at(spec.buffer);
      if (is_placed(b) || (b.kind == BufferKind::input && input_of_[position] != id))
        add("{}: output '{}': buffer '{}' does not outlive the run", where, spec.name, b.name);
      if (b.kind == BufferKind::prepared && !written_[position])
        add("{}: output '{}': no recipe prepares buffer '{}'", where, spec.name, b.name);
      output_of_[position] = id;
    }
  }

  bool tensor(const TensorSpec& spec, const std::string& where) {
    if (spec.buffer < 0 || static_cast<size_t>(spec.buffer) >= program_.buffers.size()) {
      add("{} '{}': expected a buffer 0 to {}, found {}", where, spec.name, program_.buffers.size(), spec.buffer);
      return false;
    }
    if (has_nul(spec.name)) {
      add("{} '{}': expected a name without a NUL byte", where, spec.name);
      return false;
    }
    const Buffer& b = at(spec.buffer);
    if (!type(spec.type, where, 0)) return false;
    if (spec.type.dtype == b.type.dtype && element_count(spec.type.shape) == element_count(b.type.shape)) return true;
    add("{} '{}': expected a buffer of {}, found {}", where, spec.name, to_string(spec.type), to_string(b.type));
    return false;
  }

  const Program& program_;
  uint64_t& named_;
  std::vector<std::string> problems_;
  std::vector<std::optional<Sharing>> sharing_;  // by kernel, of those where it was asked for
  std::vector<bool> written_;                    // by buffer, by the steps so far
  // By buffer: the last step list it is an input or an output of, and the one in whose arena it is.
  std::vector<int> input_of_, output_of_, arena_of_;
  std::set<std::string_view> names_;
};

}  // namespace

namespace {

bool same_targets(const Variant& a, const Variant& b) {
  return std::equal(a.devices.begin(), a.devices.end(), b.devices.begin(), b.devices.end(),
                    [](const ProgramDevice& x, const ProgramDevice& y) { return x.target == y.target; });
}

}  // namespace

std::vector<std::string> check_program(const Program& program) {
  uint64_t named = 0;
  std::vector<std::string> problems = ProgramChecker(program, named).run();
  if (program.variants.size() > max_variants)
    problems.push_back(fmt::format("expected at most {} variants, found {}", max_variants, program.variants.size()));
  for (size_t n = 0; n < program.variants.size() && problems.empty(); ++n) {
    problems = check_methods_of_variant(program, program.variants[n]);
    if (!same_targets(program, program.variants[n]))
      problems.emplace_back("expected the program's devices, of the same targets in the same order");
    if (problems.empty()) problems = ProgramChecker(with_variant(program, n), named).run();
    for (std::string& problem : problems) problem = fmt::format("variant {}: {}", n, problem);
  }
  return problems.empty() ? check_text(program) : problems;
}

}  // namespace npusim
