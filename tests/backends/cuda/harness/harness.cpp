// A text becomes C++: shared memory by its offset, a table of what is launched.
#include "backends/cuda/harness/harness.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "backends/cuda/codegen/device/texts.h"
#include "print/print.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;

// Shared memory is a block's: the harness hands it out by a number, that of its mention in the text.
std::string with_shared_memory(const std::string& text) {
  static const std::regex dynamic(R"(extern __shared__ (?:__align__\(1024\) )?(\w+) (\w+)\[\];)"),
      fixed(R"(__shared__ ([\w ]+) (\w+)\[(\d+)\];)");
  const std::string first = std::regex_replace(text, dynamic, "$1* const $2 = ($1*)mslx_current()->tgm[0];");
  std::string out;
  int site = 0;
  auto at = first.cbegin();
  for (std::sregex_iterator m(first.begin(), first.end(), fixed), end; m != end; ++m) {
    out.append(at, (*m)[0].first);
    out += fmt::format("{0}* const {1} = ({0}*)mslx_tg_alloc({2}, sizeof({0}) * {3});", (*m)[1].str(), (*m)[2].str(),
                       ++site, (*m)[3].str());
    at = (*m)[0].second;
  }
  return out.append(at, first.cend());
}

std::string table_of(const std::string& text) {
  static const std::regex kernel(
      R"(extern "C" __global__ void __launch_bounds__\([\d, ]+\)(?: __cluster_dims__\([\d, ]+\))? (\w+)\(\s*([^{]*)\) \{)");
  std::string thunks, rows;
  for (std::sregex_iterator m(text.begin(), text.end(), kernel), end; m != end; ++m) {
    const std::string name = (*m)[1], parameters = (*m)[2];
    std::string passed, descriptions;
    int count = 0;
    for (size_t begin = 0; begin < parameters.size();) {
      const size_t comma = std::min(parameters.find(',', begin), parameters.size());
      const std::string one = parameters.substr(begin, comma - begin);
      const size_t star = one.find('*');
      if (star == std::string::npos)  // passed as it is: its type is the word before the name
        passed += fmt::format("{}*({}*)c->buf[{}]", count ? ", " : "", one.substr(0, one.rfind(' ')), count);
      else
        passed += fmt::format("{}({})c->buf[{}]", count ? ", " : "", one.substr(0, star + 1), count);
      descriptions += fmt::format("{{0, {}, 0, 1, \"\", \"\"}}, ", count++);
      begin = comma + 1;
    }
    thunks += fmt::format(
        "static void thunk_{0}(const mslx_call* c) {{\n  my_copies() = {{}};\n  {0}({1});\n}}\n"
        "static const mslx_param_desc params_{0}[] = {{{2}}};\n",
        name, passed, descriptions);
    rows += fmt::format("  {{\"{0}\", thunk_{0}, nullptr, params_{0}, {1}}},\n", name, count);
  }
  return fmt::format("\n{}extern \"C\" const mslx_kernel_desc mslx_kernels[] = {{\n{}  {{}}}};\n", thunks, rows);
}

std::string run(const std::string& command, int& status) {
  std::string messages;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (size_t n; pipe && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) messages.append(buffer, n);
  status = pipe ? pclose(pipe) : -1;
  return messages;
}

}  // namespace

// What is written in PTX, and these, shim.h has in C++.
const Dialect& harness_dialect() {
  static const std::set<std::string_view> own = {"INFINITY", "NAN", "group_matrix", "group_matrix_transposed", "pause"};
  static const std::vector<Dialect::Helper> helpers = [] {
    std::vector<Dialect::Helper> kept;
    for (const Dialect::Helper& h : cuda::codegen::device::device_dialect().helpers)
      if (h.text.find("asm") == std::string_view::npos && !own.contains(h.name)) kept.push_back(h);
    return kept;
  }();
  static const Dialect dialect = [] {
    Dialect d = cuda_dialect;
    d.helpers = helpers;
    return d;
  }();
  return dialect;
}

// A text that was compiled before is loaded anew, with variables of its own; one that another run compiled ccache has,
// where it is installed: for that it is named without a path, and for no particular processor. A folder is left behind
// where clang refuses a text.
mslx::Library compile_on_cpu(const std::string& functions) {
  static std::map<std::string, std::string> compiled;  // shared objects by text
  static int count = 0;
  const fs::path folder = fs::temp_directory_path() / fmt::format("npusim_cuda_{}_{}", getpid(), count++);
  fs::create_directories(folder);
  const fs::path object = folder / "text.so";
  mslx::Library library;
  if (const auto known = compiled.find(functions); known != compiled.end()) {
    std::ofstream(object) << known->second;
  } else {
    const std::string text = with_shared_memory(with_helpers(functions, harness_dialect()));
    std::ofstream(folder / "text.cpp") << "#include \"" NPUSIM_SOURCE_DIR "/tests/backends/cuda/harness/shim.h\"\n"
                                       << text << table_of(text);
    int status = 0;
    library.error = run("cd " + folder.string() +
                            " && " NPUSIM_COMPILE
                            " -std=c++20 -O1 -w -ffp-contract=off -march=x86-64-v3 -fPIC -c text.cpp && " NPUSIM_CLANG
                            " -shared --rtlib=compiler-rt -lgcc_s text.o -o text.so",
                        status);
    if (status != 0) return library;
    std::ifstream file(object);
    compiled[functions].assign(std::istreambuf_iterator<char>(file), {});
  }
  library = mslx::load(object);
  fs::remove_all(folder);
  return library;
}

}  // namespace npusim
