// compile(): import → passes → codegen → plan → Program.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "codegen/build_program.h"
#include "compiler/adopt.h"
#include "compiler/compile_for.h"
#include "compiler/fill_states.h"
#include "compiler/last_row.h"
#include "compiler/read_config.h"
#include "compiler/roles.h"
#include "compiler/share_states.h"
#include "compiler/text_facts.h"
#include "graph/import.h"
#include "graph/text.h"
#include "npusim/compiler.h"
#include "npusim/message.h"
#include "partition/partition.h"
#include "passes/pass.h"
#include "program/budget.h"
#include "program/program.h"

namespace npusim {
namespace {

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

constexpr std::array dtype_names = {"auto", "float16", "bfloat16", "float32"};

std::optional<DType> compute_dtype(const std::string& name) {
  if (name == "auto") return std::nullopt;
  const auto dtype = parse_dtype(name);
  if (!dtype || !is_float(*dtype) || *dtype == DType::f64)
    fail(ErrorKind::usage, "--dtype {}: expected auto, float16, bfloat16 or float32{}", name,
         did_you_mean(name, dtype_names));
  return dtype;
}

// bfloat16 when the IR's weights or inputs are, else float16.
DType automatic_dtype(const Graph& graph) {
  for (const Value& v : graph.values)
    if ((v.source == ValueSource::weight || v.source == ValueSource::input) && v.type.dtype == DType::bf16)
      return DType::bf16;
  return DType::f16;
}

void run_passes(std::span<const Pass> passes, MethodGraph& method, PassContext& context,
                const CompileOptions& options) {
  context.fusions.clear();
  context.materialized.clear();
  for (const Pass& pass : passes) {
    check_cancelled();
    if (pass.optional && !context.enabled(pass.name)) continue;
    pass.run(method.graph, context);
    if (options.dump && options.dump_pass == pass.name) options.dump(to_text(method.graph));
  }
  for (const auto& [name, count] : context.fusions) method.fusions[name] += count;
  for (const auto& [name, count] : context.materialized) method.materialized[name] += count;
}

// What --disable-fusion takes.
std::vector<std::string> fusion_choices() {
  std::vector<std::string> names = fusion_names();
  for (const Pass& pass : pipeline())
    if (pass.optional) names.emplace_back(pass.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// What a method takes, and what it gives, is needed whatever becomes of its nodes.
void check_ports(const MethodGraph& method, const Budget& budget) {
  const auto check = [&](const char* what, std::set<ValueId> values) {
    uint64_t bytes = 0;
    for (const ValueId id : values) bytes += byte_size(value_of(method.graph, id).type);
    if (budget.max_bytes > 0 && bytes > budget.max_bytes)
      fail(ErrorKind::unsupported, "the {} of method '{}' need {} bytes of memory: max_bytes allows {}", what,
           method.name, bytes, budget.max_bytes);
  };
  check("inputs", {method.graph.inputs.begin(), method.graph.inputs.end()});
  std::set<ValueId> outputs;
  for (const GraphOutput& output : method.graph.outputs) outputs.insert(output.value);
  check("outputs", outputs);
}

void check_names(const CompileOptions& options) {
  const auto passes = pipeline();
  const auto is_pass = [&](const Pass& pass) { return options.dump_pass == pass.name; };
  if (!options.dump_pass.empty() && std::none_of(passes.begin(), passes.end(), is_pass)) {
    std::vector<std::string_view> names;
    for (const Pass& pass : passes) names.push_back(pass.name);
    fail(ErrorKind::usage, "--dump {}: no such pass: expected one of {}{}", options.dump_pass, fmt::join(names, ", "),
         did_you_mean(options.dump_pass, names));
  }
  const std::vector<std::string> choices = fusion_choices();
  for (const std::string& name : options.disabled_fusions)
    if (name != "all" && !std::binary_search(choices.begin(), choices.end(), name))
      fail(ErrorKind::usage, "--disable-fusion {}: no such fusion: expected all, or some of {}{}", name,
           fmt::join(choices, ", "), did_you_mean(name, choices));
}

void check_method_name(const std::string& name) {
  if (name.empty()) fail(ErrorKind::usage, "expected the name of a method, found an empty one");
  if (!is_utf8(name) || name.find('\0') != std::string::npos)
    fail(ErrorKind::usage, "method '{}': expected a name in UTF-8 without a NUL byte", name);
  constexpr size_t most_bytes = 1024;
  if (name.size() > most_bytes)
    fail(ErrorKind::usage, "expected the name of a method, found one of {} bytes (at most {})", name.size(),
         most_bytes);
}

// A target by the rules that a user gave, and those rules.
struct Configured {
  std::shared_ptr<const CodegenTarget> target;
  TargetConfig config;
};
Configured configure(const CodegenTarget& target, const JsonSource& rules) {
  Configured made{{std::shared_ptr<void>(), &target}, target.config()};
  if (!rules.given()) return made;
  read_config(rules, target.own(), made.config);
  if (auto other = target.with_config(made.config)) made.target = std::move(other);
  return made;
}

// Each method that takes one token gets three that loop on their own output, each that takes more another with the
// logits of one.
std::vector<ClosedLoop> add_text_methods(std::vector<MethodGraph>& methods, std::vector<std::string>& notes) {
  std::vector<ClosedLoop> loops;
  const auto name_of = [&](const MethodGraph& method, std::string name) {
    const auto taken = [&](const MethodGraph& m) { return m.name == name; };
    while (std::any_of(methods.begin(), methods.end(), taken)) name = method.name + "_" + name;
    return name;
  };
  const auto add = [&](std::optional<MethodGraph> method, const MethodGraph& from, std::string_view what) {
    if (!method) return false;
    notes.push_back(fmt::format("added method {}: {} with {}", method->name, from.name, what));
    methods.push_back(std::move(*method));
    return true;
  };
  constexpr std::array<std::tuple<NextToken, const char*, const char*>, 3> loops_of = {
      {{NextToken::likeliest, "greedy", "its token, position and mask on the device"},
       {NextToken::drawn, "sample", "the same, and its token drawn there"},
       {NextToken::drawn_of_nucleus, "nucleus", "the same, and its token drawn there among the likeliest"}}};
  for (size_t i = 0, count = methods.size(); i < count; ++i) {
    const MethodGraph from = methods[i];
    for (const auto& [next, name, what] : loops_of)
      if (add(close_loop(from, name_of(from, name), next), from, what)) loops.push_back({methods.size() - 1, i, next});
    std::string reason;
    add(last_row(from, name_of(from, "prompt"), reason), from, "the logits of one token");
    if (!reason.empty()) notes.push_back(fmt::format("{} gets no method for prompts: {}", from.name, reason));
  }
  return loops;
}

// One compilation, stage after stage: what each leaves is what the next one finds.
class Compilation {
 public:
  Compilation(const CodegenTarget& given, const CompileOptions& options)
      : options_(options), host_(*find_target("cpu")), target_(configure(given, options.config)) {
    for (const auto& variant : given.variants()) others_.push_back(configure(*variant, options.config));
    context_.strict = options.strict;
    context_.disabled = options.disabled_fusions;
    context_.dtype = compute_dtype(options.dtype);
    context_.planned = options.plan.given();
    if (options.fallback) context_.fallback = &host_.config();
    ask(target_, context_);
    may_repeat_ = context_.fallback && !context_.planned && &given != &host_;
  }

  CompileResult run(const std::vector<MethodSource>& sources) {
    import(sources);
    make_kernels();
    build();
    plan_launches();
    double total = 0;
    for (const auto& [name, seconds] : result_.seconds) total += seconds;
    result_.seconds["total"] = total;
    result_.program = std::make_shared<const Program>(std::move(program_));
    return std::move(result_);
  }

 private:
  void stage(const char* name) const {
    check_cancelled();
    if (options_.progress) options_.progress(name);
  }
  void lap(const char* name) { result_.seconds[name] += watch_.lap(); }

  // Has the context ask this target, and the host where that is another device.
  void ask(const Configured& of, PassContext& context) const {
    context.target = of.config;
    context.refuse = [&host = host_, target = of.target](const Kernel& kernel, int32_t device) -> std::string {
      const CodegenTarget& asked = device ? host : *target;
      if (kernel.call) return &asked == &host ? "" : "it has no kernel: ATen runs it";
      return asked.refuse(kernel);
    };
    context.reads_as_it_lies = [target = of.target](const Kernel& kernel) { return target->reads_as_it_lies(kernel); };
  }

  // The passes behind this one.
  template <typename Run>
  auto after(const Run& run) const {
    return std::find_if(passes_.begin(), passes_.end(), [&](const Pass& pass) { return pass.run == run; }) + 1;
  }

  // Graphs of calls on values, of a dtype that is known.
  void import(const std::vector<MethodSource>& sources) {
    for (const MethodSource& source : sources) {
      check_method_name(source.name);
      for (const MethodGraph& other : methods_)
        if (other.name == source.name) fail(ErrorKind::usage, "two methods are called {}", source.name);
      stage("import");
      MethodGraph& method = methods_.emplace_back();
      method.name = source.name;
      method.graph = import_ir(source.json.empty() ? read_file(source.path) : source.json, source.path,
                               {.notes = &result_.notes, .find_plugin = find_aten_plugin});
    }
    for (MethodGraph& method : methods_)
      run_passes({passes_.begin(), after(functionalize)}, method, context_, options_);
    share_states(methods_);
    for (const MethodGraph& method : methods_) check_ports(method, options_.budget);
    choose_fallbacks(methods_, options_);
    if (!context_.dtype) {
      context_.dtype = DType::f16;
      for (const MethodGraph& method : methods_)
        if (automatic_dtype(method.graph) == DType::bf16) context_.dtype = DType::bf16;
    }
    lap("import");
  }

  // Graphs of kernels that know their roles, and the methods that are added for text.
  void make_kernels() {
    stage("passes");
    for (MethodGraph& method : methods_)
      run_passes({after(functionalize), after(check_constraints)}, method, context_, options_);
    fill_states(methods_, options_.kv_map, result_.notes);
    for (MethodGraph& method : methods_) find_roles(method);
    if (options_.text.value_or(methods_.size() > 1)) loops_ = add_text_methods(methods_, result_.notes);
  }

  // The program but for its launches: anew where kernels turn out to be refused that the host then runs.
  void build() {
    const std::string model = methods_.front().graph.name;
    for (bool again = true; again;) {
      if (may_repeat_)
        placed_ = methods_;
      else
        placed_.swap(methods_);
      const bool divided = has_fallbacks(placed_);
      if (divided) assign_devices(placed_);
      for (MethodGraph& method : placed_)
        run_passes({after(check_constraints), passes_.end()}, method, context_, options_);
      for (MethodGraph& method : placed_)
        if (divided) divide(method.graph);
      lap("passes");
      stage("plan");
      if (!others_.empty()) for_others_ = placed_;
      BuiltProgram built = build_program(placed_, context_, target_.target.get());
      program_ = std::move(built.program), plans_ = std::move(built.plans);
      check_needs(program_, options_.budget);
      again = may_repeat_ && send_refused(program_, context_, methods_);
      lap("plan");
    }
    program_.model = model;
    for (std::string& note : overflow_notes(program_, nullptr)) result_.notes.push_back(std::move(note));
    for (std::string& note : fallback_notes(program_)) result_.notes.push_back(std::move(note));
    lap("plan");
  }

  // Its launches, and the variants for architectures with others.
  void plan_launches() {
    stage("codegen");
    raise_refused(program_, context_);
    target_.target->plan(program_, plans_, result_.notes);
    for (const Configured& other : others_) {
      std::vector<MethodGraph> graphs = for_others_;
      PassContext context = context_;
      ask(other, context);
      auto [made, plans] = build_program(graphs, context, other.target.get());
      raise_refused(made, context);
      other.target->plan(made, plans, result_.notes);
      program_.variants.push_back(adopt(program_, std::move(made)));
    }
    program_.text = find_text_facts(program_, loops_);
    if (const auto problems = check_program(program_); !problems.empty())
      fail(ErrorKind::internal, "the compiled program is unsound: {}", fmt::join(problems, "; "));
    lap("codegen");
  }

  const CompileOptions& options_;
  const CodegenTarget& host_;
  const Configured target_;
  std::vector<Configured> others_;
  const std::vector<Pass> passes_ = pipeline();
  PassContext context_;
  bool may_repeat_ = false;

  CompileResult result_;
  Stopwatch watch_;
  std::vector<MethodGraph> methods_, placed_, for_others_;
  std::vector<ClosedLoop> loops_;
  Program program_;
  ProgramPlans plans_;
};

}  // namespace

std::vector<std::pair<std::string, bool>> pass_names() {
  std::vector<std::pair<std::string, bool>> names;
  for (const Pass& pass : pipeline()) names.emplace_back(pass.name, pass.optional);
  return names;
}

CompileResult compile(const std::vector<MethodSource>& sources, const CompileOptions& options) {
  return compile_for(*open_target(options.target), sources, options);
}

CompileResult compile_for(const CodegenTarget& target, const std::vector<MethodSource>& sources,
                          const CompileOptions& options) {
  if (sources.empty()) fail(ErrorKind::usage, "expected a method to compile, found none");
  check_names(options);
  return Compilation(target, options).run(sources);
}

}  // namespace npusim
