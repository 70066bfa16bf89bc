// The table of kernels the host can call, and the rules for kernel parameters.
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "scan.h"

namespace mslx {
namespace {

// Built-in attributes and the field of mslx_call that holds them; of three components, or scalar ("&").
const std::map<std::string, std::string> built_ins = {{"thread_position_in_grid", "tpig"},
                                                      {"threadgroup_position_in_grid", "tgpig"},
                                                      {"thread_position_in_threadgroup", "tpitg"},
                                                      {"threads_per_threadgroup", "tptg"},
                                                      {"dispatch_threads_per_threadgroup", "tptg"},
                                                      {"threadgroups_per_grid", "tgpg"},
                                                      {"threads_per_grid", "tpg"},
                                                      {"thread_index_in_threadgroup", "&tiitg"},
                                                      {"thread_index_in_simdgroup", "&tiisg"},
                                                      {"simdgroup_index_in_threadgroup", "&sgitg"},
                                                      {"simdgroups_per_threadgroup", "&sgptg"},
                                                      {"dispatch_simdgroups_per_threadgroup", "&sgptg"},
                                                      {"threads_per_simdgroup", "&tpsg"},
                                                      {"thread_execution_width", "&tpsg"},
                                                      {"quadgroup_index_in_threadgroup", "&qgitg"},
                                                      {"thread_index_in_quadgroup", "&tiiqg"},
                                                      {"quadgroups_per_threadgroup", "&qgptg"}};

bool has_word(const std::string& declaration, const std::string& word) {
  return (" " + declaration + " ").find(" " + word + " ") != std::string::npos;
}

bool is_synchronising(const std::string& name) {
  static const std::set<std::string> names = {"threadgroup_barrier", "simdgroup_barrier",
                                              "simdgroup_load",      "simdgroup_store",
                                              "simdgroup_multiply",  "simdgroup_multiply_accumulate"};
  return name.rfind("simd_", 0) == 0 || name.rfind("quad_", 0) == 0 || names.count(name);
}

}  // namespace

bool Scan::synchronises(const std::string& name, std::set<std::string>& seen) const {
  const auto it = functions_.find(name);
  if (it == functions_.end() || !seen.insert(name).second) return false;
  for (size_t i = it->second.begin; i < it->second.end; ++i)
    if (is_word(i) && (is_synchronising(tokens_[i].text) || synchronises(tokens_[i].text, seen))) return true;
  return false;
}

void Scan::bind_built_in(const Instance& in, const Parameter& p, const Attribute& a, std::string& grid_components) {
  std::stringstream words(p.declaration);
  std::string type;
  words >> type;
  while (type == "const") words >> type;
  std::string base = type, components = "1";
  if (!type.empty() && std::isdigit(static_cast<unsigned char>(type.back()))) {
    components = type.back();
    base.pop_back();
  }
  if (base != "uint" && base != "ushort" && base != "uint32_t" && base != "uint16_t")
    report("error", p.line,
           "[[" + a.name + "]] parameter '" + p.name + "' must be uint/ushort (vector), not '" + type + "'");
  if (built_ins.at(a.name)[0] == '&') {
    if (components != "1") report("error", p.line, "[[" + a.name + "]] must be scalar");
    return;
  }
  if (grid_components.empty())
    grid_components = components;
  else if (grid_components != components)
    report("warning", p.line,
           "grid attributes of kernel '" + in.function +
               "' mix component counts (Metal rejects this for several attribute pairs)");
}

Scan::Bound Scan::bind(const Instance& in, const Parameter& p, const std::string& type, std::string& grid_components) {
  Bound b;
  const bool points = p.declaration.find_first_of("*&[") != std::string::npos;
  const bool global = has_word(p.declaration, "device") || has_word(p.declaration, "constant");
  for (const Attribute& a : p.attributes) {
    if (a.name == "buffer" || a.name == "threadgroup") {
      const bool buffer = a.name == "buffer";
      b.kind = buffer ? 0 : 1;
      b.index = std::atoi(a.argument.c_str());
      b.attribute = a.name;
      b.value = "mslx::ptr_or_ref<" + type + ">::get(c." + (buffer ? "buf[" : "tgm[") + a.argument + "])";
      if (buffer && (!points || !global))
        report("error", p.line, "[[buffer]] parameter '" + p.name + "' needs a device/constant pointer or reference");
      if (!buffer && (!points || !has_word(p.declaration, "threadgroup")))
        report("error", p.line, "[[threadgroup]] parameter '" + p.name + "' needs a threadgroup pointer");
      if (b.index > 30) report("error", p.line, "buffer index > 30");
    } else if (a.name == "function_constant") {
      b.condition = a.argument;
    } else if (const auto field = built_ins.find(a.name); field != built_ins.end()) {
      b.kind = 2;
      b.attribute = a.name;
      const std::string& f = field->second;
      b.value = "mslx::b3<" + type + ">(" + (f[0] == '&' ? "&c." + f.substr(1) : "c." + f) + ")";
      bind_built_in(in, p, a, grid_components);
    } else if (a.name != "maybe_unused") {
      report("error", p.line, "unsupported parameter attribute [[" + a.name + "]]");
    }
  }
  if (b.kind < 0) {
    report("error", p.line, "kernel parameter '" + p.name + "' has no [[buffer/threadgroup/built-in]] attribute");
    b.value = "*(mslx::rmref<" + type + ">::type*)0";
  }
  return b;
}

void Scan::kernel(const Instance& in, const Function& f, const std::string& id) {
  std::string arguments, descriptions, grid_components;
  std::set<std::string> used;
  std::set<int> taken;
  for (const Parameter& p : f.parameters)
    for (const Attribute& a : p.attributes)
      if (a.name == "buffer") taken.insert(std::atoi(a.argument.c_str()));
  int position = 0;
  for (Parameter p : f.parameters) {
    bool placed = false;
    for (const Attribute& a : p.attributes)
      placed = placed || (a.name != "function_constant" && a.name != "maybe_unused");
    if (!placed && (has_word(p.declaration, "device") || has_word(p.declaration, "constant"))) {
      int index = 0;
      while (taken.count(index)) ++index;
      taken.insert(index);
      p.attributes.push_back({"buffer", std::to_string(index)});
      if (!warned_about_index_)
        report(
            "warning", p.line,
            "kernel parameter '" + p.name + "' has no explicit [[buffer(n)]]: the index is assigned by the compiler");
      warned_about_index_ = true;
    }
    const std::string type = "mslx::param<mslx_F" + id + ", " + std::to_string(position) + ">::type";
    const Bound b = bind(in, p, type, grid_components);
    const bool memory = b.kind == 0 || b.kind == 1;
    if (memory && !used.insert(b.attribute + std::to_string(b.index)).second && b.condition.empty())
      report("error", p.line, "two parameters share [[" + b.attribute + "(" + std::to_string(b.index) + ")]]");
    const bool constant = has_word(p.declaration, "constant") || has_word(p.declaration, "const");
    arguments += (position ? ", " : "") + b.value;
    descriptions += "  {" + std::to_string(b.kind) + ", " + std::to_string(b.index) + ", " + (constant ? "1" : "0") +
                    ", " + (memory ? "(unsigned)mslx::esize<" + type + ">::n" : "0") + ", \"" + p.name + "\", \"" +
                    (b.kind == 2 ? b.attribute : b.condition) + "\"},\n";
    ++position;
  }
  std::set<std::string> seen;
  const bool flat = !synchronises(in.function, seen);
  thunks_ += "typedef decltype(&" + in.expression + ") mslx_F" + id + ";\n";
  thunks_ += "static inline __attribute__((always_inline)) void mslx_one" + id + "(const mslx_call& c) { " +
             in.expression + "(" + arguments + "); }\n";
  thunks_ += "static void mslx_thunk" + id + "(const mslx_call* c) { mslx_one" + id + "(*c); }\n";
  if (flat)
    thunks_ += "static void mslx_flat" + id +
               "(const mslx_call* c0) { mslx::flat([](const mslx_call& c) __attribute__((always_inline)) { mslx_one" +
               id + "(c); }, *c0); }\n";
  thunks_ += "static const mslx_param_desc mslx_ps" + id + "[] = {\n" + descriptions + "  {-1, 0, 0, 0, 0, 0}};\n";
  table_ += "  {\"" + in.host_name + "\", mslx_thunk" + id + ", " + (flat ? "mslx_flat" + id : "nullptr") +
            ", mslx_ps" + id + ", " + std::to_string(position) + "},\n";
}

void Scan::kernels() {
  std::set<std::string> names;
  int count = 0;
  for (const Instance& in : instances_) {
    const auto it = functions_.find(in.function);
    if (it == functions_.end() || !it->second.is_kernel)
      report("error", in.line, "instantiation of unknown kernel '" + in.function + "'");
    else if (!names.insert(in.host_name).second)
      report("error", in.line, "duplicate kernel name '" + in.host_name + "'");
    else
      kernel(in, it->second, std::to_string(count++));
  }
}

Scan::Scan(std::string source) : source_(std::move(source)) {
  lex();
  declarations(0, tokens_.size() - 1);
  rewrite();
  kernels();
}

}  // namespace mslx
