// Validation of a program: everything that the runtime relies on and does not check again.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "kernel/fuse.h"
#include "program/program.h"

namespace npusim {
namespace {

constexpr size_t max_problems = 20;
constexpr size_t max_rank = 64;
constexpr uint64_t max_bytes = uint64_t{1} << 46;  // of a buffer or an arena

// One list of steps and what belongs to it: a method's, or the recipes (method == nullptr).
struct StepList {
  std::string where;
  const std::vector<Step>& steps;
  uint64_t arena_bytes;
  const Method* method;
  int id;
};

class ProgramChecker {
 public:
  explicit ProgramChecker(const Program& program)
      : program_(program), input_of_(program.buffers.size(), -1), output_of_(input_of_), arena_of_(input_of_) {}

  std::vector<std::string> run() {
    config();
    for (const HostTensor& constant : program_.constants) {
      const size_t i = static_cast<size_t>(&constant - program_.constants.data());
      if (type(constant.type, "constant", i) && byte_size(constant.type) != constant.data.size())
        add("constant {}: expected {} bytes for {}, found {}", i, byte_size(constant.type), to_string(constant.type),
            constant.data.size());
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) buffer(i);
    for (size_t i = 0; i < program_.kernels.size(); ++i) kernel(i);
    if (!program_.sources.empty() && program_.sources.size() != program_.kernels.size())
      add("expected a source for each of the {} kernels, found {}", program_.kernels.size(), program_.sources.size());
    if (!problems_.empty()) return std::move(problems_);  // what follows relies on all of the above
    written_.assign(program_.buffers.size(), false);
    steps({"recipes", program_.recipes, program_.recipe_arena_bytes, nullptr, 0});
    if (program_.methods.empty()) add("expected at least one method, found none");
    for (size_t i = 0; i < program_.methods.size(); ++i) method(i);
    for (const StateLink& link : program_.links) check_link(link);
    return std::move(problems_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (problems_.size() < max_problems) problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void config() {
    const TargetConfig& c = program_.config;
    const int64_t align = c.buffer_alignment_bytes;
    if (align < 1 || align > 65536 || (align & (align - 1)) != 0)
      add("config: expected a power of two up to 65536 as buffer_alignment_bytes, found {}", align);
    if (c.channel_alignment_bytes < 1 || c.channel_tile < 0 || c.matmul_tile < 0 || c.max_rank < 1 ||
        c.max_threadgroup_1d < 1 || c.max_threadgroup_2d < 1 || c.max_threadgroup_3d < 1 ||
        c.max_dispatches_per_batch < 0)
      add("config: a value is below its smallest");
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

  // Only values of the arena are in layouts of the target's own, and none has fewer elements than its type.
  bool stored(const Buffer& b) {
    if (b.kind != BufferKind::arena || b.stored.size() > max_rank) return false;
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
    if (b.kind == BufferKind::constant) {
      if (b.constant < 0 || static_cast<size_t>(b.constant) >= program_.constants.size())
        add("buffer {} '{}': expected a constant 0 to {}, found {}", i, b.name, program_.constants.size(), b.constant);
      else if (program_.constants[static_cast<size_t>(b.constant)].type != b.type)
        add("buffer {} '{}': expected constant {} of {}, found {}", i, b.name, b.constant, to_string(b.type),
            to_string(program_.constants[static_cast<size_t>(b.constant)].type));
    }
    if (b.kind == BufferKind::arena && b.offset % dtype_size(b.type.dtype) != 0)
      add("buffer {} '{}': offset {} is not aligned for {}", i, b.name, b.offset, to_string(b.type));
  }

  void kernel(size_t i) {
    const Kernel& k = program_.kernels[i];
    for (const std::string& problem : check_kernel(k)) add("kernel {} '{}': {}", i, k.name, problem);
    if (!k.contraction) return;
    try {  // the work of a contraction must be countable
      for (const Kernel* part : {&k, k.contraction->score.get()}) {
        if (!part || !part->contraction) continue;
        Shape all = part->space;
        all.insert(all.end(), part->contraction->reduce.begin(), part->contraction->reduce.end());
        element_count(all);
      }
    } catch (const Error& error) {
      add("kernel {} '{}': {}", i, k.name, error.what());
    }
  }

  const Buffer& at(int32_t buffer) const { return program_.buffers[static_cast<size_t>(buffer)]; }

  void steps(const StepList& list) {
    if (list.arena_bytes > max_bytes) add("{}: an arena of {} bytes", list.where, list.arena_bytes);
    for (size_t i = 0; i < list.steps.size() && problems_.size() < max_problems; ++i) {
      const Step& step = list.steps[i];
      if (step.kernel < 0 || static_cast<size_t>(step.kernel) >= program_.kernels.size()) {
        add("{}: step {} '{}': expected a kernel 0 to {}, found {}", list.where, i, step.node, program_.kernels.size(),
            step.kernel);
        continue;
      }
      const Kernel& k = program_.kernels[static_cast<size_t>(step.kernel)];
      if (step.buffers.size() != k.args.size()) {
        add("{}: step {} '{}': expected {} buffers for kernel '{}', found {}", list.where, i, step.node, k.args.size(),
            k.name, step.buffers.size());
        continue;
      }
      for (size_t a = 0; a < k.args.size(); ++a) {
        const std::string problem = argument(list, step, k, a);
        if (!problem.empty()) add("{}: step {} '{}': argument {}: {}", list.where, i, step.node, a, problem);
      }
    }
  }

  // What is wrong with the buffer of one argument; empty when nothing is.
  std::string argument(const StepList& list, const Step& step, const Kernel& k, size_t a) {
    const KernelArg& arg = k.args[a];
    const int32_t id = step.buffers[a];
    if (id < 0 || static_cast<size_t>(id) >= program_.buffers.size())
      return fmt::format("expected a buffer 0 to {}, found {}", program_.buffers.size(), id);
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
    for (size_t w = 0; w < k.args.size() && !arg.written; ++w)
      if (k.args[w].written && step.buffers[w] == id && !may_share(k, static_cast<int>(a), static_cast<int>(w)))
        return fmt::format("buffer '{}' is overwritten while it is read", b.name);
    return place(list, id);
  }

  // Neither given nor kept from run to run.
  static bool is_computed(const Buffer& b) {
    return b.kind == BufferKind::prepared || b.kind == BufferKind::arena || b.kind == BufferKind::output;
  }

  static bool may_write(const StepList& list, const Buffer& b) {
    if (!list.method) return b.kind == BufferKind::prepared || b.kind == BufferKind::arena;
    return b.kind == BufferKind::output || b.kind == BufferKind::state || b.kind == BufferKind::arena;
  }

  // Why the buffer does not exist while the steps of this list run.
  std::string place(const StepList& list, int32_t id) {
    const Buffer& b = at(id);
    switch (b.kind) {
      case BufferKind::weight:
      case BufferKind::constant:
      case BufferKind::prepared:
        return {};
      case BufferKind::input:
      case BufferKind::state:
        if (input_of_[static_cast<size_t>(id)] == list.id) return {};
        return fmt::format("buffer '{}' is no input of the method", b.name);
      case BufferKind::output:
        if (output_of_[static_cast<size_t>(id)] == list.id) return {};
        return fmt::format("buffer '{}' is no output of the method", b.name);
      case BufferKind::arena:
        break;
    }
    int& owner = arena_of_[static_cast<size_t>(id)];
    if (owner >= 0 && owner != list.id) return fmt::format("arena buffer '{}' belongs to another method", b.name);
    owner = list.id;
    if (b.offset <= list.arena_bytes && stored_bytes(b) <= list.arena_bytes - b.offset) return {};
    return fmt::format("buffer '{}' at {} with {} bytes is not within the arena of {}", b.name, b.offset,
                       stored_bytes(b), list.arena_bytes);
  }

  void method(size_t i) {
    const Method& m = program_.methods[i];
    const std::string where = fmt::format("method '{}'", m.name);
    if (m.name.empty() || !names_.insert(m.name).second) add("{}: expected a name of its own", where);
    if (m.arena_lower_bound_bytes > m.arena_bytes)
      add("{}: the arena has {} bytes, below its lower bound of {}", where, m.arena_bytes, m.arena_lower_bound_bytes);
    inputs(m, static_cast<int>(i) + 1, where);
    outputs(m, static_cast<int>(i) + 1, where);
    if (problems_.empty()) steps({where, m.steps, m.arena_bytes, &m, static_cast<int>(i) + 1});
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

  // An output may be an input or a weight as it is, and one buffer may be several outputs.
  void outputs(const Method& m, int id, const std::string& where) {
    for (const TensorSpec& spec : m.outputs) {
      if (!tensor(spec, where + ": output")) continue;
      const auto position = static_cast<size_t>(spec.buffer);
      const Buffer& b = at(spec.buffer);
      const bool given = b.kind == BufferKind::input || b.kind == BufferKind::state;
      if (b.kind == BufferKind::arena || (given && input_of_[position] != id))
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
    const Buffer& b = at(spec.buffer);
    if (!type(spec.type, where, 0)) return false;
    if (spec.type.dtype == b.type.dtype && element_count(spec.type.shape) == element_count(b.type.shape)) return true;
    add("{} '{}': expected a buffer of {}, found {}", where, spec.name, to_string(spec.type), to_string(b.type));
    return false;
  }

  const TensorSpec* find(const std::string& method, const std::string& name, std::vector<TensorSpec> Method::*list) {
    for (const Method& m : program_.methods)
      if (m.name == method)
        for (const TensorSpec& spec : m.*list)
          if (spec.name == name) return &spec;
    add("link: there is no '{}' in method '{}'", name, method);
    return nullptr;
  }

  void check_link(const StateLink& link) {
    const TensorSpec* from = find(link.from_method, link.output, &Method::outputs);
    const TensorSpec* to = find(link.to_method, link.input, &Method::inputs);
    if (!from || !to) return;
    const Shape& a = from->type.shape;
    const Shape& b = to->type.shape;
    int differing = 0;
    bool fits = from->type.dtype == to->type.dtype && a.size() == b.size() && a.size() >= 2;
    for (size_t d = 0; fits && d < a.size(); ++d) {
      differing += a[d] != b[d];
      fits = a[d] <= b[d] && differing <= 1;
    }
    if (!fits)
      add("link: output '{}' of {} does not fill input '{}' of {} along one dimension", link.output,
          to_string(from->type), link.input, to_string(to->type));
  }

  const Program& program_;
  std::vector<std::string> problems_;
  std::vector<bool> written_;  // by buffer, by the steps so far
  // By buffer: the last step list it is an input or an output of, and the one in whose arena it is.
  std::vector<int> input_of_, output_of_, arena_of_;
  std::set<std::string_view> names_;
};

}  // namespace

std::vector<std::string> check_program(const Program& program) { return ProgramChecker(program).run(); }

}  // namespace npusim
