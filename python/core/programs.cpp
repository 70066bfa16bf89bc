// Compiling and programs.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>

#include "convert.h"
#include "npusim/aten.h"
#include "npusim/compare.h"
#include "npusim/compiler.h"
#include "npusim/device.h"
#include "npusim/message.h"
#include "npusim/program.h"

namespace npusim::python {
namespace {

using Compiled = Handle<Program>;
using Text = std::function<void(const std::string&)>;
using Source = std::tuple<std::string, FilePath, std::string>;  // name, path, JSON

MethodSource source_of(const Source& source) { return {std::get<0>(source), std::get<1>(source), std::get<2>(source)}; }

using Document = std::optional<std::tuple<FilePath, std::string>>;  // path or name, JSON

JsonSource source_of(const Document& document) {
  return document ? JsonSource{std::get<0>(*document), std::get<1>(*document)} : JsonSource{};
}

CompileOptions make_options(const std::string& target, const std::string& dtype, const Document& config, bool strict,
                            const std::set<std::string>& disabled_fusions, bool fallback,
                            const std::set<std::string>& force_cpu, const Document& plan, const Document& kv_map,
                            std::optional<bool> text, uint64_t max_bytes, uint64_t max_flops) {
  CompileOptions options;
  options.target = target;
  options.dtype = dtype;
  options.config = source_of(config);
  options.strict = strict;
  options.disabled_fusions = disabled_fusions;
  options.fallback = fallback;
  options.force_cpu = force_cpu;
  options.plan = source_of(plan);
  options.kv_map = source_of(kv_map);
  options.text = text;
  options.budget = {max_bytes, max_flops};
  return options;
}

std::tuple<Compiled, std::map<std::string, double>, std::vector<std::string>> compile_sources(
    const std::vector<Source>& sources, CompileOptions options, const std::optional<Text>& progress) {
  std::vector<MethodSource> methods;
  for (const Source& source : sources) methods.push_back(source_of(source));
  if (progress) options.progress = *progress;
  CompileResult result = [&] {
    const Work work;
    return compile(methods, options);
  }();
  for (std::string& note : result.notes) note = valid_utf8(note);
  return {Compiled{std::move(result.program)}, std::move(result.seconds), std::move(result.notes)};
}

// Name, dtype, shape, state, role, kept.
using Info = std::tuple<std::string, std::string, Shape, bool, std::string, bool>;

std::vector<Info> infos(const std::vector<TensorInfo>& tensors) {
  std::vector<Info> list;
  for (const TensorInfo& t : tensors)
    list.emplace_back(t.name, std::string(dtype_name(t.type.dtype)), t.type.shape, t.state, t.role, t.kept);
  return list;
}

nb::dict info(const Compiled& program) {
  const ProgramInfo found = program_info(*program.of);
  nb::dict result;
  result["model"] = found.model;
  result["dtype"] = std::string(dtype_name(found.dtype));
  result["strict"] = found.strict;
  result["targets"] = found.targets;
  result["weights_bytes"] = found.weights_bytes;
  return result;
}

// Of a program that is compared with tensors of such dtypes.
double bar_of(const Compiled& program, const std::vector<std::string>& with) {
  std::vector<DType> dtypes = used_dtypes(*program.of);
  for (const std::string& name : with)
    if (const auto dtype = parse_dtype(name)) dtypes.push_back(*dtype);
  return relative_l2_bar(dtypes);
}

std::vector<HostTensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<HostTensor> values;
  for (const Tensor& tensor : tensors) values.push_back(copy_tensor(view_of(tensor)));
  return values;
}

std::string bisect_source(const Source& source, const CompileOptions& options, const std::vector<Tensor>& inputs,
                          const std::optional<Handle<TensorSet>>& weights, std::optional<double> tolerance,
                          const std::optional<FilePath>& folder) {
  const std::vector<HostTensor> values = copies_of(inputs);
  const Work work;
  return describe_bisection(bisect(source_of(source), options, values, weights ? weights->of : nullptr, tolerance,
                                   folder ? folder->bytes : std::string()),
                            true);
}

nb::list steps_of(const Compiled& program, const std::string& method) {
  nb::list list;
  for (const StepOverview& step : method_steps(*program.of, method)) {
    nb::dict row;
    row["kernel"] = step.kernel;
    row["device"] = step.device;
    row["bytes"] = step.work.read_bytes + step.work.written_bytes;
    row["flops"] = step.work.flops;
    row["nodes"] = step.nodes;
    row["operators"] = step.operators;
    row["weights"] = step.weights;
    list.append(row);
  }
  return list;
}

std::pair<std::vector<OwnTensor>, std::vector<std::string>> evaluate(const Source& source,
                                                                     const std::vector<Tensor>& inputs,
                                                                     const std::optional<Handle<TensorSet>>& weights) {
  const std::vector<HostTensor> values = copies_of(inputs);
  Evaluated found;
  {
    const Work work;
    found = evaluate_ir(source_of(source), values, weights ? weights->of.get() : nullptr);
  }
  std::vector<OwnTensor> list;
  for (HostTensor& tensor : found.outputs) list.push_back(own(std::move(tensor)));
  std::vector<std::string> dtypes;
  for (const DType dtype : found.dtypes) dtypes.emplace_back(dtype_name(dtype));
  return {std::move(list), std::move(dtypes)};
}

using Release = nb::call_guard<Work>;

void add_compiling(nb::module_& m) {
  nb::class_<Compiled>(m, "Program");
  nb::class_<CompileOptions>(m, "Options");
  m.def("options", &make_options, nb::arg("target"), nb::arg("dtype"), nb::arg("config").none(), nb::arg("strict"),
        nb::arg("disabled_fusions"), nb::arg("fallback"), nb::arg("force_cpu"), nb::arg("plan").none(),
        nb::arg("kv_map").none(), nb::arg("text").none(), nb::arg("max_bytes") = 0, nb::arg("max_flops") = 0);
  m.def("compile", &compile_sources, nb::arg("sources"), nb::arg("options"), nb::arg("progress").none());
  m.def("bisect", &bisect_source, nb::arg("source"), nb::arg("options"), nb::arg("inputs"), nb::arg("weights").none(),
        nb::arg("tolerance").none(), nb::arg("folder").none());
  m.def(
      "recompile", [](const Compiled& p, const std::string& target) { return Compiled{recompile(*p.of, target)}; },
      nb::arg("program"), nb::arg("target"), Release());
  m.def("method_steps", &steps_of, nb::arg("program"), nb::arg("method"));
  m.def(
      "weights_read", [](const Compiled& program) { return weights_read(*program.of); }, nb::arg("program"));
}

void add_files(nb::module_& m) {
  m.def(
      "load_program", [](const FilePath& path, bool code) { return Compiled{load_program(path, {.code = code})}; },
      nb::arg("path"), nb::arg("code"), Release());
  m.def(
      "parse_program",
      [](const nb::bytes& bytes, const std::string& where, bool code) {
        return Compiled{parse_program({static_cast<const char*>(bytes.data()), bytes.size()}, where, {.code = code})};
      },
      nb::arg("bytes"), nb::arg("where"), nb::arg("code"));
  m.def(
      "save_program", [](const Compiled& p, const FilePath& path) { save_program(*p.of, path); }, nb::arg("program"),
      nb::arg("path"), Release());
  m.def(
      "serialize",
      [](const Compiled& p) {
        const std::string bytes = serialize(*p.of);
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("program"));
}

void add_descriptions(nb::module_& m) {
  m.def(
      "describe", [](const Compiled& p, bool json) { return describe(*p.of, json); }, nb::arg("program"),
      nb::arg("json"));
  m.def(
      "describe_steps", [](const Compiled& p, bool json) { return describe_steps(*p.of, json); }, nb::arg("program"),
      nb::arg("json"));
  m.def(
      "describe_partition", [](const Compiled& p, bool json) { return describe_partition(*p.of, json); },
      nb::arg("program"), nb::arg("json"));
  m.def(
      "partition_plan", [](const Compiled& p) { return partition_plan(*p.of); }, nb::arg("program"));
  m.def(
      "partition_picture", [](const Compiled& p) { return partition_picture(*p.of); }, nb::arg("program"));
  m.def(
      "use_aten_plugin", [](const FilePath& path) { use_aten_plugin(path); }, nb::arg("path"));
  m.def("aten_plugin", [] {
    const DeviceInfo plugin = aten_plugin();
    return nb::make_tuple(text(plugin.name), text(plugin.description), plugin.usable);
  });
}

void add_facts(nb::module_& m) {
  m.def("program_info", &info, nb::arg("program"));
  m.def(
      "program_needs",
      [](const Compiled& p) {
        const Needs needs = program_needs(*p.of);
        return nb::make_tuple(needs.bytes, needs.flops);
      },
      nb::arg("program"));
  m.def(
      "check_budget",
      [](const Compiled& p, uint64_t max_bytes, uint64_t max_flops) {
        check_budget(*p.of, {max_bytes, max_flops});
      },
      nb::arg("program"), nb::arg("max_bytes"), nb::arg("max_flops"));
  m.def(
      "method_names", [](const Compiled& p) { return method_names(*p.of); }, nb::arg("program"));
  m.def(
      "method_inputs", [](const Compiled& p, const std::string& method) { return infos(method_inputs(*p.of, method)); },
      nb::arg("program"), nb::arg("method"));
  m.def(
      "method_outputs",
      [](const Compiled& p, const std::string& method) { return infos(method_outputs(*p.of, method)); },
      nb::arg("program"), nb::arg("method"));
}

void add_irs(nb::module_& m) {
  m.def("relative_l2_bar", &bar_of, nb::arg("program"), nb::arg("compared_with"));
  m.def(
      "write_text", [](const std::string& text, const FilePath& path) { save_text(text, path); }, nb::arg("text"),
      nb::arg("path"), Release());
  m.def(
      "check_ir_text", [](const Source& source) { check_ir_text(source_of(source)); }, nb::arg("source"));
  m.def(
      "check_json_text",
      [](const FilePath& path, const std::string& text) {
        check_json_text({path, text});
      },
      nb::arg("path"), nb::arg("text"));
  m.def("describe_ops", &describe_ops, nb::arg("target"), nb::arg("json"));
  m.def(
      "describe_ir", [](const Source& source, bool json) { return describe_ir(source_of(source), json); },
      nb::arg("source"), nb::arg("json"));
  m.def("evaluate_ir", &evaluate, nb::arg("source"), nb::arg("inputs"), nb::arg("weights").none());
  m.def("list_devices", [] {
    std::vector<std::tuple<std::string, std::string, bool>> list;
    for (const DeviceInfo& device : list_devices())
      list.emplace_back(device.name, valid_utf8(device.description), device.usable);
    return list;
  });
}

}  // namespace

void add_programs(nb::module_& m) {
  add_compiling(m);
  add_files(m);
  add_descriptions(m);
  add_facts(m);
  add_irs(m);
}

}  // namespace npusim::python
