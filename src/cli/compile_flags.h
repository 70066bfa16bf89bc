// The compiler's flags, which compile and verify share.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "npusim/compiler.h"

namespace npusim::cli {

struct CompileFlags {
  std::string target = "cpu", dtype = "auto", config, kv_map, plan;
  std::vector<std::string> disabled, force_cpu;
  bool strict = false, no_fallback = false;
  Budget budget;
};

void add_compile_flags(CLI::App& verb, CompileFlags& flags);
void add_ir_flag(CLI::App& verb, std::string& ir);
// Of verbs that take several methods.
void add_method_flags(CLI::App& verb, std::string& ir, std::vector<NamedFile>& methods);
void add_kv_map_flag(CLI::App& verb, CompileFlags& flags);
CompileOptions compile_options(const CompileFlags& flags);

// Throws usage unless either the one IR or --method's are given.
void need_one_source(const std::string& ir, const std::vector<NamedFile>& methods);
// What is given, read where it is standard input.
std::vector<MethodSource> method_sources(const std::string& ir, const std::vector<NamedFile>& methods);

// The IR at `path`, read here when it is standard input, which can be read only once.
MethodSource read_source(const std::string& name, const std::string& path);

}  // namespace npusim::cli
