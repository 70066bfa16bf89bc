// The compiler's flags, which compile and verify share.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "npusim/compiler.h"

namespace npusim::cli {

struct CompileFlags {
  std::string target = "cpu", dtype = "auto", config, kv_map;
  std::vector<std::string> disabled;
  bool strict = false;
};

void add_compile_flags(CLI::App& verb, CompileFlags& flags);
CompileOptions compile_options(const CompileFlags& flags);

// The IR at `path`, read here when it is standard input, which can be read only once.
MethodSource read_source(const std::string& name, const std::string& path);

}  // namespace npusim::cli
