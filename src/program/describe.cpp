// What a program holds, as text for people and as JSON for scripts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "kernel/facts/fourier.h"
#include "npusim/message.h"
#include "program/config_ranges.h"
#include "program/program.h"
#include "program/recipes.h"
#include "program/work.h"

namespace npusim {
namespace {

using Json = nlohmann::ordered_json;

const Buffer& buffer_at(const Program& program, int32_t id) { return program.buffers[static_cast<size_t>(id)]; }

// Bytes of the weights and states that a method's steps and outputs reach, through the recipes that prepare for it.
struct Footprint {
  uint64_t weights = 0, states = 0;
  bool all_weights = false;  // `weights` are the program's: the recipes are too many to follow for each method
  size_t kernels = 0;        // different ones
};

// By method.
std::vector<Footprint> footprints(const Program& program) {
  constexpr size_t most_arguments = 1'000'000;  // of recipes, each counted for every method that needs it
  const RecipeWriters writers = recipe_writers(program);
  const uint64_t all_weights = weights_bytes(program);
  size_t budget = most_arguments;
  std::vector<Footprint> found;
  for (const Method& method : program.methods) {
    std::set<int32_t> used, kernels;
    const auto use = [&](const Step& step) { used.insert(step.buffers.begin(), step.buffers.end()); };
    for (const Step& step : method.steps) {
      use(step);
      if (!step.is_transfer()) kernels.insert(step.kernel);
    }
    for (const TensorSpec& spec : method.outputs) used.insert(spec.buffer);
    const auto recipes = budget > 0 ? needed_recipes(program, writers, method, budget) : std::nullopt;
    if (recipes)
      for (const size_t recipe : *recipes) use(program.recipes.steps[recipe]);
    else
      budget = 0;
    Footprint result{.all_weights = !recipes, .kernels = kernels.size()};
    for (int32_t id : used) {
      const Buffer& b = buffer_at(program, id);
      if (b.kind == BufferKind::weight) result.weights += byte_size(b.type);
      if (b.kind == BufferKind::state) result.states += byte_size(b.type);
    }
    if (result.all_weights) result.weights = all_weights;
    found.push_back(result);
  }
  return found;
}

struct Transfers {
  size_t count = 0;
  uint64_t bytes = 0;
};

Transfers transfers(const Program& program, const Method& method) {
  Transfers result;
  for (const Step& step : method.steps) {
    if (!step.is_transfer()) continue;
    ++result.count;
    result.bytes += stored_bytes(buffer_at(program, step.buffers[0]));
  }
  return result;
}

uint64_t bytes_of_kind(const Program& program, BufferKind kind) {
  uint64_t bytes = 0;
  for (const Buffer& b : program.buffers)
    if (b.kind == kind) bytes += byte_size(b.type);
  return bytes;
}

std::string readable(uint64_t bytes) {
  if (bytes < 10000) return fmt::format("{} bytes", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "none" : text;
}

// The steps of each kernel, of all methods.
std::vector<size_t> uses_of_kernels(const Program& program) {
  std::vector<size_t> counts(program.kernels.size());
  for (const Method& method : program.methods)
    for (const Step& step : method.steps)
      if (!step.is_transfer()) ++counts[static_cast<size_t>(step.kernel)];
  return counts;
}

std::string hash_of(const Kernel& kernel) { return fmt::format("{:016x}", content_hash(kernel)); }

std::string arguments_text(const Kernel& kernel) {
  std::string text;
  for (const KernelArg& arg : kernel.args)
    text += fmt::format("{}{}{} x{}", text.empty() ? "" : ", ", arg.written ? "-> " : "", dtype_name(arg.dtype),
                        arg.elements);
  return text;
}

std::string kind_text(const Kernel& kernel) {
  if (kernel.call) return "call";
  if (has_fourier(kernel)) return "transform";
  if (!kernel.contraction) return kernel.row_dims > 0 ? "rows" : "elementwise";
  switch (kernel.contraction->kind) {
    case ContractionKind::matmul:
      return "matmul";
    case ContractionKind::conv:
      return "conv";
    case ContractionKind::attention:
      return "attention";
  }
  return "";
}

std::string specs_text(const Program& program, std::string_view title, const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) {
    std::string notes;
    if (spec.role != Role::data) notes = fmt::format("  ({})", role_name(spec.role));
    if (const Buffer& b = buffer_at(program, spec.buffer); b.kind == BufferKind::state)
      notes += fmt::format("  ({}state{}{})", b.kept ? "kept " : "", b.name == spec.name ? "" : " ",
                           b.name == spec.name ? "" : printable(b.name));
    text += fmt::format("  {:<8} {:<24} {}{}\n", title, printable(spec.name), to_string(spec.type), notes);
    title = "";
  }
  return text;
}

std::string method_text(const Program& program, KernelWorks& works, const Method& method, const Footprint& use) {
  const Work work = method_work(works, method);
  std::string text = fmt::format("\nmethod {}\n", printable(method.name));
  text += specs_text(program, "inputs", method.inputs);
  text += specs_text(program, "outputs", method.outputs);
  text += fmt::format("  {} nodes -> {} kernels -> {} steps\n", method.nodes, use.kernels, method.steps.size());
  if (!method.launches.empty()) text += fmt::format("  launches     {}\n", method.launches.size());
  if (const Transfers t = transfers(program, method); t.count)
    text += fmt::format("  transfers    {} of {}\n", t.count, readable(t.bytes));
  text += fmt::format("  fusions      {}\n", counts_text(method.fusions));
  text += fmt::format("  materialized {}\n", counts_text(method.materialized));
  text += fmt::format("  weights      {}{}\n", use.all_weights ? "at most " : "", readable(use.weights));
  text += fmt::format("  arena        {} (lower bound {})\n", readable(arena_bytes(method)),
                      readable(arena_lower_bound_bytes(method)));
  if (use.states) text += fmt::format("  state        {}\n", readable(use.states));
  text += fmt::format("  work         {} read, {} written, {:.3f} GFLOP\n", readable(work.read_bytes),
                      readable(work.written_bytes), static_cast<double>(work.flops) / 1e9);
  return text;
}

std::string methods_text(const Program& program) {
  const std::vector<Footprint> uses = footprints(program);
  std::string text;
  KernelWorks works(program);
  for (size_t m = 0; m < uses.size(); ++m) text += method_text(program, works, program.methods[m], uses[m]);
  return text;
}

std::string codes_text(const Variant& variant) {
  std::string text;
  for (const CodeSet& set : variant.code)
    for (const Code& code : set)
      text += fmt::format("code       {} {} {}\n", code.format, code.architecture, readable(code.bytes.size()));
  return text;
}

// What timing chose: npusim tune.
std::string choices_text(const Variant& program) {
  std::string text = program.choices.empty() ? "" : "\nchoices\n";
  for (const Choice& c : program.choices)
    text += fmt::format("  {}: {}; {:.4f} ms for {:.4f} as {}; {}, {}\n", c.kernel, c.how, c.ms, c.before_ms, c.before,
                        c.device, c.compiler);
  return text;
}

// Nothing where no method reads tokens.
std::string facts_text(const Program& program) {
  const TextFacts& text = program.text;
  const auto name = [&](int32_t method) { return printable(program.methods[static_cast<size_t>(method)].name); };
  if (text.decode < 0) {
    const auto reads = [](const Method& m) { return find_role(m.inputs, Role::tokens) >= 0; };
    if (std::none_of(program.methods.begin(), program.methods.end(), reads)) return "";
    std::string lines;
    for (const std::string& lack : text.lacks) lines += fmt::format("no text    {}\n", printable(lack));
    return lines;
  }
  std::string line = fmt::format("text       decode: {}", name(text.decode));
  for (size_t i = 0; i < text.prefills.size(); ++i)
    line += fmt::format("{}{}", i == 0 ? "; prefill: " : ", ", name(text.prefills[i]));
  for (const auto& [what, method] :
       {std::pair("greedy", text.greedy), std::pair("sample", text.sample), std::pair("nucleus", text.nucleus)})
    if (method >= 0) line += fmt::format("; {}: {}", what, name(method));
  return line + fmt::format("\n           {} {}, vocabulary of {}, {} positions, {}\n", text.batch,
                            text.batch == 1 ? "text" : "texts", text.vocabulary, text.capacity,
                            text.by_position ? "all states by position" : "not all states by position");
}

std::string program_text(const Program& program) {
  const uint64_t constants = bytes_of_kind(program, BufferKind::constant);
  const uint64_t prepared = bytes_of_kind(program, BufferKind::prepared);
  std::string text =
      fmt::format("program    {}\ntarget     {}\ndtype      {}\nnumerics   {}\n", printable(program.model),
                  program.devices[0].target, dtype_name(program.dtype), program.strict ? "strict" : "fused");
  for (size_t d = 1; d < program.devices.size(); ++d)
    text += fmt::format("device {}   {}\n", d, program.devices[d].target);
  text += codes_text(program);
  text += fmt::format("weights    {}\nconstants  {}\n", readable(weights_bytes(program)), readable(constants));
  text += fmt::format("recipes    {} steps at load prepare {}\n", program.recipes.steps.size(), readable(prepared));
  text += facts_text(program);
  text += methods_text(program);
  text += "\nkernels\n   steps  kind         name\n";
  const std::vector<size_t> counts = uses_of_kernels(program);
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& k = program.kernels[i];
    if (counts[i] == 0) continue;
    text += fmt::format("  {:>6}  {:<11}  {}  {}({})\n", counts[i], kind_text(k), k.name, to_string(k.space),
                        arguments_text(k));
  }
  text += choices_text(program);
  for (size_t n = 0; n < program.variants.size(); ++n) {
    const Program variant = with_variant(program, n);
    text += fmt::format("\nvariant {}\n", n) + codes_text(variant);
    text += fmt::format("recipes    {} steps at load prepare {}\n", variant.recipes.steps.size(),
                        readable(bytes_of_kind(variant, BufferKind::prepared)));
    text += methods_text(variant);
    text += choices_text(variant);
  }
  return text;
}

Json choices_json(const Variant& program) {
  Json list = Json::array();
  for (const Choice& c : program.choices)
    list.push_back({{"kernel", c.kernel},
                    {"how", c.how},
                    {"ms", c.ms},
                    {"before", c.before},
                    {"before_ms", c.before_ms},
                    {"device", c.device},
                    {"compiler", c.compiler}});
  return list;
}

Json specs_json(const Program& program, const std::vector<TensorSpec>& specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs)
    list.push_back({{"name", spec.name},
                    {"dtype", dtype_name(spec.type.dtype)},
                    {"shape", spec.type.shape},
                    {"role", role_name(spec.role)},
                    {"state", buffer_at(program, spec.buffer).kind == BufferKind::state},
                    {"kept", buffer_at(program, spec.buffer).kept}});
  return list;
}

Json method_json(const Program& program, KernelWorks& works, const Method& method, const Footprint& use) {
  const Work work = method_work(works, method);
  return {{"nodes", method.nodes},
          {"kernels", use.kernels},
          {"steps", method.steps.size()},
          {"weights_bytes", use.weights},
          {"launches", method.launches.size()},
          {"transfers", transfers(program, method).count},
          {"transfer_bytes", transfers(program, method).bytes},
          {"arena_bytes", arena_bytes(method)},
          {"arena_lower_bound_bytes", arena_lower_bound_bytes(method)},
          {"fusions", method.fusions},
          {"materialized", method.materialized},
          {"state_bytes", use.states},
          {"read_bytes", work.read_bytes},
          {"written_bytes", work.written_bytes},
          {"flops", work.flops},
          {"inputs", specs_json(program, method.inputs)},
          {"outputs", specs_json(program, method.outputs)}};
}

Json config_json(const TargetConfig& c) {
  Json machine = Json::object();
  for (const ConfigRange<Machine>& range : machine_ranges()) machine[range.key] = c.machine.*range.member;
  return {{"name", c.name},
          {"channel_alignment_bytes", c.channel_alignment_bytes},
          {"channel_tile", c.channel_tile},
          {"pad_channels", c.pad_channels},
          {"equal_operands", c.equal_operands},
          {"buffer_alignment_bytes", c.buffer_alignment_bytes},
          {"max_rank", c.max_rank},
          {"image_layout", c.image_layout == ImageLayout::channels_last ? "channels_last" : "channels_first"},
          {"machine", std::move(machine)},
          {"own", c.own}};
}

Json devices_json(const Variant& variant) {
  Json list = Json::array();
  for (const ProgramDevice& device : variant.devices)
    list.push_back({{"target", device.target}, {"config", config_json(device.config)}});
  return list;
}

Json codes_json(const Variant& variant) {
  Json list = Json::array();
  for (size_t n = 0; n < variant.code.size(); ++n)
    for (const Code& code : variant.code[n])
      list.push_back(
          {{"set", n}, {"format", code.format}, {"architecture", code.architecture}, {"bytes", code.bytes.size()}});
  return list;
}

Json methods_json(const Program& program) {
  Json methods = Json::object();
  const std::vector<Footprint> uses = footprints(program);
  KernelWorks works(program);
  for (size_t m = 0; m < uses.size(); ++m) {
    Json& json = methods[program.methods[m].name] = method_json(program, works, program.methods[m], uses[m]);
    if (uses[m].all_weights) json["weights_bytes_at_most"] = true;
  }
  return methods;
}

Json facts_json(const Program& program) {
  const TextFacts& text = program.text;
  if (text.decode < 0) return {{"lacks", text.lacks}};
  const auto name = [&](int32_t method) {
    return method < 0 ? Json() : Json(program.methods[static_cast<size_t>(method)].name);
  };
  Json prefills = Json::array();
  for (const int32_t prefill : text.prefills) prefills.push_back(name(prefill));
  return {{"decode", name(text.decode)},   {"prefills", prefills},          {"greedy", name(text.greedy)},
          {"sample", name(text.sample)},   {"nucleus", name(text.nucleus)}, {"batch", text.batch},
          {"vocabulary", text.vocabulary}, {"capacity", text.capacity},     {"by_position", text.by_position}};
}

Json program_json(const Program& program) {
  Json json = {{"version", program_version},
               {"model", program.model},
               {"target", program.devices[0].target},
               {"dtype", dtype_name(program.dtype)},
               {"numerics", program.strict ? "strict" : "fused"},
               {"devices", devices_json(program)},
               {"weights_bytes", weights_bytes(program)},
               {"constants_bytes", bytes_of_kind(program, BufferKind::constant)},
               {"prepared_bytes", bytes_of_kind(program, BufferKind::prepared)},
               {"recipes", program.recipes.steps.size()},
               {"code", codes_json(program)},
               {"methods", methods_json(program)},
               {"text", facts_json(program)},
               {"choices", choices_json(program)},
               {"kernels", Json::array()}};
  const std::vector<size_t> counts = uses_of_kernels(program);
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& k = program.kernels[i];
    json["kernels"].push_back(
        {{"name", k.name}, {"hash", hash_of(k)}, {"kind", kind_text(k)}, {"steps", counts[i]}, {"text", to_text(k)}});
  }
  for (size_t n = 0; n < program.variants.size(); ++n) {
    const Program variant = with_variant(program, n);
    json["variants"].push_back({{"devices", devices_json(variant)},
                                {"code", codes_json(variant)},
                                {"recipes", variant.recipes.steps.size()},
                                {"methods", methods_json(variant)},
                                {"choices", choices_json(variant)}});
  }
  return json;
}

std::vector<TensorInfo> infos(const Program& program, const std::vector<TensorSpec>& specs) {
  std::vector<TensorInfo> result;
  for (const TensorSpec& spec : specs) {
    const Buffer& b = buffer_at(program, spec.buffer);
    result.push_back({spec.name, spec.type, b.kind == BufferKind::state, std::string(role_name(spec.role)), b.kept});
  }
  return result;
}

}  // namespace

std::string step_name(const Program& program, const Step& step) {
  if (!step.origins.empty()) return program.origins[static_cast<size_t>(step.origins.back())].node;
  return step.is_transfer() ? "transfer" : program.kernels[static_cast<size_t>(step.kernel)].name;
}

bool is_written(const Program& program, const Step& step, size_t n) {
  return step.is_transfer() ? n == 1 : program.kernels[static_cast<size_t>(step.kernel)].args[n].written;
}

uint64_t arena_bytes(const Method& method) {
  uint64_t bytes = 0;
  for (const Arena& arena : method.arenas) bytes += arena.bytes + arena.workspace_bytes;
  return bytes;
}

uint64_t arena_lower_bound_bytes(const Method& method) {
  uint64_t bytes = 0;
  for (const Arena& arena : method.arenas) bytes += arena.lower_bound_bytes + arena.workspace_bytes;
  return bytes;
}

uint64_t weights_bytes(const Program& program) { return bytes_of_kind(program, BufferKind::weight); }

std::string describe(const Program& program, bool json) {
  return json ? json_text(program_json(program), 2) + "\n" : printable_lines(program_text(program));
}

std::vector<std::string> method_names(const Program& program) {
  std::vector<std::string> names;
  for (const Method& method : program.methods) names.push_back(method.name);
  return names;
}

std::vector<TensorInfo> method_inputs(const Program& program, const std::string& method) {
  return infos(program, method_named(program, method).inputs);
}

std::vector<TensorInfo> method_outputs(const Program& program, const std::string& method) {
  return infos(program, method_named(program, method).outputs);
}

ProgramInfo program_info(const Program& program) {
  ProgramInfo info{program.model, program.dtype, program.strict, {}, weights_bytes(program)};
  for (const ProgramDevice& device : program.devices) info.targets.push_back(device.target);
  return info;
}

Work method_work(const Program& program, const std::string& method) {
  KernelWorks works(program);
  return method_work(works, method_named(program, method));
}

const Method& method_named(const Program& program, const std::string& name) {
  for (const Method& method : program.methods)
    if (method.name == name) return method;
  fail(ErrorKind::usage, "there is no method '{}': expected {}", name, fmt::join(method_names(program), " or "));
}

std::vector<std::string> step_names(const Program& program, const std::string& method) {
  std::vector<std::string> names;
  for (const Step& step : method_named(program, method).steps) names.push_back(step_name(program, step));
  return names;
}

std::vector<DType> used_dtypes(const Program& program) {
  std::set<DType> dtypes;
  for (const Buffer& buffer : program.buffers)
    if (buffer.kind != BufferKind::weight && buffer.kind != BufferKind::constant) dtypes.insert(buffer.type.dtype);
  const auto add = [&](const std::vector<Expr>& exprs) {
    for (const Expr& e : exprs)
      if (e.op == ExprOp::round_to) dtypes.insert(e.dtype);
  };
  for (const Kernel& kernel : program.kernels) {
    add(kernel.exprs);
    if (kernel.contraction && kernel.contraction->score) add(kernel.contraction->score->exprs);
  }
  return {dtypes.begin(), dtypes.end()};
}

}  // namespace npusim
