// Where a program leaves the reference: launch by launch beside what its steps mean, on the memory that the program
// itself left; then parts of the IR compiled on their own, fed with what the reference computes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "compiler/bisect_for.h"
#include "compiler/bisect_launches.h"
#include "compiler/bisect_parts.h"
#include "compiler/compile_for.h"
#include "graph/document.h"
#include "npusim/compare.h"
#include "npusim/files.h"
#include "npusim/message.h"
#include "npusim/session.h"
#include "passes/pass.h"
#include "program/program.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

using Json = nlohmann::json;
using Values = std::map<std::string, HostTensor>;  // by the name of the IR's tensor

class Bisector {
 public:
  Bisector(const CodegenTarget& target, const MethodSource& source, const CompileOptions& options,
           std::shared_ptr<const TensorSet> weights, std::vector<std::shared_ptr<Backend>> devices)
      : target_(target),
        where_(source.path),
        options_(options),
        weights_(std::move(weights)),
        devices_(std::move(devices)) {
    progress_ = std::exchange(options_.progress, {});
    ir_ = parse_ir(source.json.empty() ? read_file(source.path) : source.json, where_);
    if (!ir_.is_object()) fail(ErrorKind::bad_input, "{}: expected a JSON object with nodes", where_);
  }

  Bisection run(const std::vector<HostTensor>& inputs, std::optional<double> tolerance, const std::string& folder) {
    if (!folder.empty()) check_folder(folder);
    Bisection found;
    const auto program = compile_json(ir_, options_);
    if (options_.plan.given() || !options_.force_cpu.empty())
      on_cpu_ = parse_json_object(partition_plan(*program), "plan")["methods"]["main"]["cpu"];
    found.tolerance = tolerance.value_or(usual_tolerance(*program));
    if (!tolerance) noise_from_ = found.tolerance;
    for (const TensorInfo& input : method_inputs(*program, "main"))
      if (input.role == "generator")
        fail(ErrorKind::unsupported, "the model draws random numbers: its parts, run alone, would draw others");
    std::set<std::vector<std::string>> seen;
    for (const StepOverview& step : method_steps(*program, "main"))
      if (step.kernel != "transfer" && !step.nodes.empty() && seen.insert(step.nodes).second)
        found.parts.push_back({step.nodes, step.operators});
    announce("evaluate the reference");
    std::vector<std::string> written;  // weights
    for (const TensorInfo& input : method_inputs(*program, "main")) written.push_back(input.name);
    written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(ir_["graph_inputs"].size()));
    give_weights(ir_, written);  // of what was compiled: it is well-formed
    name_producers(ir_);
    index_.emplace(ir_);
    const OpenedIr all = with_outputs(ir_, nullptr);
    const std::vector<HostTensor> expected = evaluate_ir(source_of(all.ir), inputs, weights_.get()).outputs;
    values_ = named(all, expected);
    names_of_inputs_ = names_of(ir_["graph_inputs"]);
    for (size_t i = 0; i < inputs.size(); ++i) values_[names_of_inputs_[i]] = inputs[i];
    Session session(program, {.weights = weights_, .devices = devices_});
    const std::vector<HostTensor> outputs = run_session(session, inputs);
    for (size_t i = 0; i < ir_["graph_outputs"].size(); ++i)
      found.outputs = std::max(found.outputs, distance(outputs[i], expected[i]));
    announce("compare step by step");
    compare_carried(found, inputs);
    compare_executed(found, session, inputs);
    if (found.culprit >= 0) {
      if (!folder.empty()) write(found.parts[static_cast<size_t>(found.culprit)], folder);
      return found;
    }
    for (size_t i = 0; i < found.parts.size() && found.culprit < 0; ++i) {
      announce(fmt::format("part {} of {}: {}", i + 1, found.parts.size(), found.parts[i].nodes.back()));
      if (measure(found.parts[i], options_) > found.tolerance) found.culprit = static_cast<int>(i);
    }
    if (found.culprit >= 0) descend(found, folder);
    return found;
  }

 private:
  void announce(const std::string& stage) const {
    if (progress_) progress_(stage);
  }

  static MethodSource source_of(const Json& ir) { return {"main", "part of the IR", ir.dump()}; }

  static std::vector<std::string> names_of(const Json& tensors) {
    std::vector<std::string> names;
    for (const Json& tensor : tensors) names.push_back(tensor["name"]);
    return names;
  }

  std::shared_ptr<const Program> compile_json(const Json& ir, CompileOptions options) const {
    if (on_cpu_) {  // what the whole was told says of a part what it says of its nodes
      Json plan = {{"methods", {{"main", {{"cpu", Json::object()}}}}}};
      for (const Json& node : ir["nodes"])
        if (const auto reason = on_cpu_->find(node["name"]); reason != on_cpu_->end())
          plan["methods"]["main"]["cpu"][node["name"].get<std::string>()] = *reason;
      options.force_cpu.clear();
      options.plan = {"plan", plan.dump()};
    }
    return compile_for(target_, {{"main", where_, ir.dump()}}, options).program;
  }

  static Values named(const OpenedIr& open, const std::vector<HostTensor>& outputs) {
    Values values;
    for (const auto& [tensor, at] : open.at) values[tensor] = outputs[at];
    return values;
  }

  // By the narrowest numbers that steps leave to each other.
  static double usual_tolerance(const Program& program) {
    double tolerance = 1e-4;
    if (program.strict) return tolerance;  // it rounds where the reference does
    for (const Buffer& b : program.buffers) {
      if (b.kind != BufferKind::arena && b.kind != BufferKind::local && b.kind != BufferKind::output) continue;
      if (b.type.dtype == DType::f16) tolerance = std::max(tolerance, 0.02);
      if (b.type.dtype == DType::bf16) tolerance = std::max(tolerance, 0.04);
    }
    return tolerance;
  }

  static void set_inputs(Session& session, const std::vector<HostTensor>& inputs) {
    const std::vector<TensorInfo> takes = method_inputs(session.program(), "main");
    for (size_t i = 0; i < takes.size(); ++i) {
      const bool same = inputs[i].type == takes[i].type;  // else the program takes it wider
      const HostTensor wide = same ? HostTensor{} : convert_tensor(view_of(inputs[i]), takes[i].type.dtype);
      session.set_input(0, i, view_of(same ? inputs[i] : wide));
    }
  }

  static std::vector<HostTensor> run_session(Session& session, const std::vector<HostTensor>& inputs) {
    set_inputs(session, inputs);
    session.run(0);
    std::vector<HostTensor> outputs;
    for (size_t i = 0; i < method_outputs(session.program(), "main").size(); ++i)
      outputs.push_back(copy_tensor(session.output_view(0, i)));
    return outputs;
  }

  std::vector<HostTensor> run_program(const std::shared_ptr<const Program>& program,
                                      const std::vector<HostTensor>& inputs) const {
    Session session(program, {.weights = weights_, .devices = devices_});
    return run_session(session, inputs);
  }

  static double distance(const HostTensor& found, const HostTensor& expected) {
    const Comparison c = compare(to_doubles(view_of(found)), to_doubles(view_of(expected)), 1);
    return std::isnan(c.relative_l2) ? std::numeric_limits<double>::infinity() : c.relative_l2;
  }

  // What the last node of the part gives, in one program whose steps are the same: all parts' results are outputs, and
  // so as wide as the IR says.
  void compare_carried(Bisection& found, const std::vector<HostTensor>& inputs) {
    std::set<std::string> last;
    for (const PartError& part : found.parts) last.insert(part.nodes.back());
    const OpenedIr open = with_outputs(ir_, &last);
    const Values values = named(open, run_program(compile_json(open.ir, options_), inputs));
    for (size_t i = 0; i < found.parts.size(); ++i) {
      PartError& part = found.parts[i];
      if (const auto node = index_->nodes.find(part.nodes.back()); node != index_->nodes.end())
        for (const std::string& name : names_of(ir_["nodes"][node->second]["outputs"]))
          if (values.contains(name)) part.carried = std::max(part.carried, distance(values.at(name), values_.at(name)));
      if (found.first < 0 && part.carried > found.tolerance) found.first = static_cast<int>(i);
    }
  }

  // Each launch of the program itself beside what its steps mean. Its run left states that were updated.
  void compare_executed(Bisection& found, Session& session, const std::vector<HostTensor>& inputs) const {
    set_inputs(session, inputs);
    // Where the outputs are wrong a launch is that is further away than rounding makes it.
    const double least = found.outputs > found.tolerance ? 0 : found.tolerance;
    const std::vector<StepOverview> steps = method_steps(session.program(), "main");
    std::map<std::vector<std::string>, PartError*> by_nodes;
    for (PartError& part : found.parts) by_nodes.emplace(part.nodes, &part);
    const auto executed = compare_launches(
        session, [&](size_t step) { announce(fmt::format("launch at step {} of {}", step + 1, steps.size())); });
    for (const ExecutedSteps& one : executed)
      for (size_t n = one.first; n < one.first + one.count; ++n) {
        const auto known = by_nodes.find(steps[n].nodes);
        PartError* part = known == by_nodes.end() ? nullptr : known->second;
        if (!part || !(one.distance > part->executed || part->how.empty())) continue;
        part->executed = one.distance, part->how = one.how;
        if (!one.problem.empty()) part->problem = one.problem;
        const auto at = static_cast<int>(part - found.parts.data());
        if (one.distance > std::max(least, one.rounding) && (!found.launch || at < found.culprit))
          found.culprit = at, found.launch = true;
      }
  }

  // The part on its own; 0 where only rounding is between what it gives and what it should.
  double measure(PartError& part, const CompileOptions& options) const {
    std::vector<std::string> names;
    const Json ir = part_of(ir_, *index_, {part.nodes.begin(), part.nodes.end()}, names);
    try {
      const std::vector<HostTensor> inputs = given(names);
      const std::vector<HostTensor> expected = evaluate_ir(source_of(ir), inputs, weights_.get()).outputs;
      const std::vector<HostTensor> outputs = run_program(compile_json(ir, options), inputs);
      for (size_t i = 0; i < outputs.size(); ++i)
        part.isolated = std::max(part.isolated, distance(outputs[i], expected[i]));
      if (part.isolated > noise_from_ && !is_beyond_noise(part.isolated, ir, inputs, expected, outputs)) return 0;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      part.problem = error.what();
      part.isolated = std::numeric_limits<double>::infinity();
    }
    return part.isolated;
  }

  // False where operands that are some roundings away make as much of a part, whose sums cancel: what is left of them
  // is small beside the operands. What a rounding decides, as the floor of a whole number, is not.
  bool is_beyond_noise(double apart, const Json& ir, std::vector<HostTensor> inputs,
                       const std::vector<HostTensor>& expected, const std::vector<HostTensor>& found) const {
    double operand = 0, difference = 0;
    for (const HostTensor& input : inputs)
      for (const double x : to_doubles(view_of(input))) operand = std::max(operand, std::fabs(x));
    for (size_t i = 0; i < found.size(); ++i)
      difference =
          std::max(difference, compare(to_doubles(view_of(found[i])), to_doubles(view_of(expected[i])), 1).l_inf);
    if (!(difference <= cancelled * operand)) return true;
    for (HostTensor& input : inputs) add_noise(input.type.dtype, input.data);
    const std::vector<HostTensor> noisy = evaluate_ir(source_of(ir), inputs, weights_.get()).outputs;
    double far = 0;
    for (size_t i = 0; i < expected.size(); ++i) far = std::max(far, distance(noisy[i], expected[i]));
    return apart > far;
  }

  std::vector<HostTensor> given(const std::vector<std::string>& names) const {
    std::vector<HostTensor> inputs;
    for (const std::string& name : names) {
      const auto value = values_.find(name);
      if (value == values_.end()) fail(ErrorKind::internal, "the reference has no value for '{}'", name);
      inputs.push_back(value->second);
    }
    return inputs;
  }

  // The culprit's nodes one by one, its fusions, and what another needs to see it.
  void descend(Bisection& found, const std::string& folder) const {
    const PartError& part = found.parts[static_cast<size_t>(found.culprit)];
    CompileOptions alone = options_;
    alone.disabled_fusions = {"all"};
    for (size_t i = 0; i < part.nodes.size(); ++i) {
      found.nodes.push_back({{part.nodes[i]}, {part.operators[i]}});
      if (measure(found.nodes.back(), alone) > found.tolerance && found.node < 0) found.node = static_cast<int>(i);
    }
    if (found.node < 0) {
      std::vector<std::string> names = fusion_names();
      for (const Pass& pass : pipeline())
        if (pass.optional) names.emplace_back(pass.name);
      for (const std::string& name : names) {
        CompileOptions without = options_;
        if (!without.disabled_fusions.insert(name).second) continue;
        PartError tried{part.nodes, part.operators};
        if (measure(tried, without) <= found.tolerance) found.fusions.push_back(name);
      }
    }
    if (!folder.empty()) write(found.node < 0 ? part : found.nodes[static_cast<size_t>(found.node)], folder);
  }

  // What is left there must not take the place of what is read.
  void check_folder(const std::string& folder) const {
    check_path(folder, ErrorKind::usage);
    std::vector<std::string> reads = {where_};
    if (weights_ && !weights_->from_memory) reads = tensor_files(weights_->path), reads.push_back(where_);
    for (const char* name : bisection_files)
      for (const std::string path = (std::filesystem::path(folder) / name).string(); const std::string& read : reads)
        if (is_same_file(path, read))
          fail(ErrorKind::usage, "folder {}: expected one whose {} is not read, found {}", folder, name, read);
  }

  void write(const PartError& part, const std::string& folder) const {
    std::vector<std::string> names;
    const Json ir = part_of(ir_, *index_, {part.nodes.begin(), part.nodes.end()}, names);
    const std::vector<HostTensor> inputs = given(names),
                                  golden = evaluate_ir(source_of(ir), inputs, weights_.get()).outputs;
    const auto named = [](const std::vector<std::string>& keys, const std::vector<HostTensor>& tensors) {
      std::vector<NamedTensor> list;
      for (size_t i = 0; i < keys.size(); ++i) list.push_back({keys[i], view_of(tensors[i])});
      return list;
    };
    std::vector<NamedTensor> used;
    const auto program = compile_json(ir, options_);
    for (const Buffer& buffer : program->buffers) {
      if (buffer.kind != BufferKind::weight) continue;
      if (const TensorView* tensor = find_program_weight(*weights_, buffer)) used.push_back({buffer.fqn, *tensor});
    }
    const auto path = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
    std::vector<NewFile> files = {{path("ir.json"), ir.dump(1)},
                                  {path("inputs.safetensors"), named(names, inputs)},
                                  {path("golden.safetensors"), named(names_of(ir["graph_outputs"]), golden)}};
    std::vector<std::string> stale;  // of a bisection before
    if (used.empty())
      stale.push_back(path("weights.safetensors"));
    else
      files.push_back({path("weights.safetensors"), used});
    NewFolder made(folder);
    save_files(files, stale);
    made.keep();
  }

  const CodegenTarget& target_;
  std::string where_;
  CompileOptions options_;  // of the parts
  std::function<void(const std::string&)> progress_;
  double noise_from_ =
      std::numeric_limits<double>::infinity();  // of parts on their own; a tolerance that is given holds
  std::shared_ptr<const TensorSet> weights_;
  std::vector<std::shared_ptr<Backend>> devices_;  // none: those of the build
  Json ir_;
  std::optional<Json> on_cpu_;  // where the caller says which nodes the CPU runs: these, and why
  std::optional<IrIndex> index_;
  std::vector<std::string> names_of_inputs_;
  Values values_;  // what the reference computes
};

std::string part_name(const PartError& part) {
  return printable(fmt::format("{} ({})", fmt::join(part.nodes, ", "), fmt::join(part.operators, ", ")));
}

std::string shortened_name(const PartError& part) {
  const std::string name = part_name(part);
  return shortened(name, 100);
}

Json part_json(const PartError& part) {
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json("Infinity"); };
  Json json = {{"nodes", part.nodes},
               {"operators", part.operators},
               {"carried", number(part.carried)},
               {"isolated", number(part.isolated)},
               {"executed", number(part.executed)},
               {"how", part.how}};
  if (!part.problem.empty()) json["problem"] = part.problem;
  return json;
}

}  // namespace

Bisection bisect_for(const CodegenTarget& target, const MethodSource& source, const CompileOptions& options,
                     const std::vector<HostTensor>& inputs, std::shared_ptr<const TensorSet> weights,
                     std::optional<double> tolerance, const std::string& folder,
                     const std::vector<std::shared_ptr<Backend>>& devices) {
  return Bisector(target, source, options, std::move(weights), devices).run(inputs, tolerance, folder);
}

Bisection bisect(const MethodSource& source, const CompileOptions& options, const std::vector<HostTensor>& inputs,
                 std::shared_ptr<const TensorSet> weights, std::optional<double> tolerance, const std::string& folder) {
  return bisect_for(*open_target(options.target), source, options, inputs, std::move(weights), tolerance, folder);
}

std::string describe_bisection(const Bisection& b, bool json) {
  if (json) {
    Json report = {{"ok", b.outputs <= b.tolerance && b.culprit < 0},
                   {"outputs", std::isfinite(b.outputs) ? Json(b.outputs) : Json("Infinity")},
                   {"tolerance", b.tolerance},
                   {"first", b.first},
                   {"culprit", b.culprit},
                   {"launch", b.launch},
                   {"node", b.node},
                   {"fusions", b.fusions},
                   {"parts", Json::array()},
                   {"nodes", Json::array()}};
    for (const PartError& part : b.parts) report["parts"].push_back(part_json(part));
    for (const PartError& node : b.nodes) report["nodes"].push_back(part_json(node));
    return json_text(report, 2) + "\n";
  }
  std::string text = fmt::format("outputs are {:.3g} from the reference (relative L2), {:.3g} is allowed; {} parts\n",
                                 b.outputs, b.tolerance, b.parts.size());
  const auto part = [&](int i) -> const PartError& { return b.parts[static_cast<size_t>(i)]; };
  if (b.first >= 0)
    text += fmt::format("the first result that is too far: {:.3g}, of part {}: {}\n", part(b.first).carried, b.first,
                        shortened_name(part(b.first)));
  if (b.culprit < 0)
    return text + "every part on its own is right" +
           (b.outputs > b.tolerance ? ": it is what parts hand to each other, which is not as wide as the IR says\n"
                                    : "\n");
  if (b.launch) {
    text += fmt::format("the first part that the device makes something else of than it means: {:.3g}, part {}: {}\n",
                        part(b.culprit).executed, b.culprit, part_name(part(b.culprit)));
    if (!part(b.culprit).problem.empty()) text += fmt::format("  it fails: {}\n", part(b.culprit).problem);
    return text + fmt::format("it is executed as: {}\n", part(b.culprit).how);
  }
  text += fmt::format("the first part that is wrong by itself: {:.3g}, part {}: {}\n", part(b.culprit).isolated,
                      b.culprit, part_name(part(b.culprit)));
  if (!part(b.culprit).problem.empty()) text += fmt::format("  it fails: {}\n", part(b.culprit).problem);
  if (b.node >= 0) {
    const PartError& node = b.nodes[static_cast<size_t>(b.node)];
    return text + fmt::format("its node {} is wrong alone: {:.3g}\n", part_name(node), node.isolated);
  }
  text += "each of its nodes is right alone\n";
  return b.fusions.empty() ? text
                           : text + fmt::format("it is right without {}\n", fmt::join(b.fusions, ", or without "));
}

}  // namespace npusim
