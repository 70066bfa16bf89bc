// The source tree keeps the order of docs/design.md: no include goes upward, no folder but its own names a backend, and
// operators are named in ops/ only.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path root = NPUSIM_SOURCE_DIR;

struct Line {
  std::string file;  // relative to the root
  int number = 0;
  std::string text;
  std::string where() const { return file + ":" + std::to_string(number) + ": " + text; }
};

std::vector<Line> read_lines(const fs::path& path) {
  std::vector<Line> lines;
  std::ifstream in(path);
  const std::string name = fs::relative(path, root).string();
  for (std::string text; std::getline(in, text);) lines.push_back({name, static_cast<int>(lines.size()) + 1, text});
  return lines;
}

// Every line of src/ and include/.
const std::vector<Line>& all_lines() {
  static const std::vector<Line> lines = [] {
    std::vector<Line> result;
    for (const char* top : {"src", "include"})
      for (const auto& entry : fs::recursive_directory_iterator(root / top))
        if (const auto kind = entry.path().extension(); kind == ".cpp" || kind == ".h" || kind == ".cuh")
          for (Line& line : read_lines(entry.path())) result.push_back(std::move(line));
    return result;
  }();
  return lines;
}

// "src/backends/cpu/x.cpp" -> "backends/cpu", "include/npusim/x.h" -> "npusim".
std::string folder_of(const std::string& file) {
  const size_t begin = file.find('/') + 1, end = file.rfind('/');
  return begin > end ? "" : file.substr(begin, end - begin);
}

std::string without_comment(const std::string& text) { return text.substr(0, text.find("//")); }

// What each folder may include beside itself: folders, and single files of others. Facts are asked of the IR alone, and
// the IR's own check and interpreter ask them too. The headers of include/npusim are interfaces that rooms implement;
// they see nothing but each other, and the command line sees nothing but them.
const std::map<std::string, std::set<std::string>> may_see = {
    {"npusim", {}},
    {"base",
     {"npusim/cancel.h", "npusim/error.h", "npusim/files.h", "npusim/message.h", "npusim/tensor.h",
      "npusim/machine.h"}},
    {"kernel", {"base", "kernel/facts"}},
    {"kernel/facts", {"base", "kernel/kernel.h"}},
    {"kernel/fuse", {"base", "kernel", "kernel/facts"}},
    {"print", {"base", "kernel", "kernel/facts", "print/cuda"}},
    {"print/cuda", {}},
    {"ops", {"base", "kernel", "kernel/facts"}},
    {"aten", {"base", "kernel", "npusim/aten.h"}},
    {"aten/torch", {"aten/plugin.h"}},
    {"graph", {"base", "kernel", "kernel/facts", "ops", "aten", "npusim/message.h"}},
    {"passes", {"base", "kernel", "kernel/facts", "kernel/fuse", "ops", "graph", "program/target_config.h"}},
    {"program", {"base", "kernel", "kernel/facts", "npusim/device.h", "npusim/message.h", "npusim/program.h"}},
    {"plan", {"base", "kernel", "kernel/facts", "kernel/fuse", "print", "program"}},
    {"partition",
     {"base", "kernel", "kernel/facts", "graph", "passes", "program", "codegen/build_program.h", "npusim/compiler.h",
      "npusim/message.h"}},
    {"codegen",
     {"base", "kernel", "kernel/facts", "kernel/fuse", "ops", "graph", "passes", "program", "print", "plan",
      "npusim/message.h"}},
    {"runtime",
     {"base", "kernel", "kernel/facts", "aten", "program", "npusim/device.h", "npusim/message.h", "npusim/session.h",
      "npusim/tensor_set.h"}},
    {"text", {"base", "program", "runtime", "kernel/draw.h", "npusim/session.h", "npusim/text.h"}},
    {"measure", {"base", "npusim/compare.h", "npusim/machine.h"}},
    {"compiler",
     {"base", "kernel", "kernel/facts", "aten", "ops", "graph", "passes", "partition", "codegen", "program", "runtime",
      "npusim/compare.h", "npusim/compiler.h", "npusim/files.h", "npusim/message.h", "npusim/session.h",
      "npusim/tensor_set.h", "npusim/tune.h"}},
    {"c", {"npusim"}},
    {"cli", {"npusim"}},
};
// The halves of a backend: each sees the interface that it implements and nothing else of those who call it.
const std::set<std::string> target_half_may_see = {"base",  "kernel",  "kernel/facts", "kernel/fuse",
                                                   "print", "program", "plan",         "codegen/target.h"};
const std::set<std::string> device_half_may_see = {"base", "kernel", "kernel/facts", "program", "runtime/backend.h"};
// The rooms of a backend, each of which sees those before it. Of the files beside them they see those that include no
// room themselves.
const std::map<std::string, std::vector<std::string>> rooms = {
    {"cpu",
     {"order", "fourier", "loops/tiles", "loops/rewrite", "loops/moves", "loops/plan", "loops", "product",
      "product/gemv", "product/blocks", "product/onednn", "product/winograd", "product/channels_last", "product/planes",
      "product/in_place", "product/batched", "product/reductions", "window", "attention"}},
    {"cuda",
     {"codegen", "codegen/device", "codegen/products", "codegen/attention", "codegen/rows", "codegen/choose",
      "codegen/stream/facts", "codegen/stream/attention", "codegen/stream", "helper"}}};

std::set<std::string> backends() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(root / "src/backends"))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  return names;
}

struct Include {
  const Line* line;
  std::string path;
};
std::vector<Include> all_includes() {
  const std::regex include("\\s*#\\s*include\\s*\"([^\"]+)\".*");
  std::smatch match;
  std::vector<Include> includes;
  for (const Line& line : all_lines())
    if (std::regex_match(line.text, match, include)) includes.push_back({&line, match[1]});
  return includes;
}

// "src/backends/cpu/x.cpp" -> "backends/cpu/x".
std::string stem_of(const std::string& file) {
  return file.substr(file.find('/') + 1, file.rfind('.') - file.find('/') - 1);
}

// Whether a file of `backend` may include another of it. `above`: stems of files beside the rooms that include a room.
bool within_backend(const std::string& backend, const std::string& from, const std::string& path,
                    const std::set<std::string>& above) {
  const std::string prefix = "backends/" + backend, to = folder_of("/" + path);
  if (from == prefix || from == to) return true;
  if (to == prefix) return !above.contains(stem_of("/" + path));
  const auto& order = rooms.at(backend);
  const auto floor = [&](const std::string& folder) {
    return std::find(order.begin(), order.end(), folder.substr(prefix.size() + 1));
  };
  return floor(from) != order.end() && floor(to) < floor(from);
}

TEST(Tree, RoomsOfABackendSeeThoseBelow) {
  const std::vector<Include> includes = all_includes();
  for (const auto& [backend, order] : rooms) {
    const std::string prefix = "backends/" + backend;
    std::set<std::string> above;
    for (const auto& [line, path] : includes)
      if (folder_of(line->file) == prefix && folder_of("/" + path).starts_with(prefix + "/"))
        above.insert(stem_of(line->file));
    EXPECT_FALSE(above.empty());
    for (const auto& [line, path] : includes)
      if (line->file.starts_with("src/" + prefix + "/") && path.starts_with(prefix + "/")) {
        EXPECT_TRUE(within_backend(backend, folder_of(line->file), path, above)) << line->where();
      }
  }
}

// "backends/cuda/codegen/stream" is npusim::cuda::codegen::stream, in all its files; so is each folder of backends/cpu,
// and what is compiled once per instruction set is in a namespace of it.
TEST(Tree, ARoomIsANamespace) {
  const std::regex opens("namespace (npusim[\\w:]*?)(::HWY_NAMESPACE)? \\{");
  std::map<std::string, size_t> files;
  for (const Line& line : all_lines()) {
    const std::string folder = folder_of(line.file);
    std::smatch match;
    const bool held = folder.starts_with("backends/cpu") || folder.starts_with("backends/cuda/codegen");
    if (!held || !std::regex_match(line.text, match, opens)) continue;
    const std::string path = "npusim" + folder.substr(folder.find('/'));
    EXPECT_EQ(match[1], std::regex_replace(path, std::regex("/"), "::")) << line.where();
    ++files[folder.substr(0, folder.find('/', sizeof("backends")))];
  }
  EXPECT_GT(files["backends/cpu"], 150u);
  EXPECT_GT(files["backends/cuda"], 60u);
}

// A folder of more has more than one job.
TEST(Tree, RoomsAreSmall) {
  std::map<std::string, std::set<std::string>> files;
  for (const Line& line : all_lines())
    if (const std::string folder = folder_of(line.file); folder.starts_with("backends/cpu"))
      files[folder].insert(line.file);
  EXPECT_EQ(files.size(), rooms.at("cpu").size() + 1);
  for (const auto& [folder, names] : files) EXPECT_LE(names.size(), 30u) << folder;
}

// As src/CMakeLists.txt divides a backend's folder, "src/backends/x/": target*, codegen/ and the programs of helper/
// are the target half.
bool is_target_half(const std::string& file) {
  if (!file.starts_with("src/backends/")) return false;
  const std::string name = file.substr(file.find('/', std::string("src/backends/").size()) + 1);
  return name.starts_with("helper/") || name.starts_with("codegen/") ||
         (name.starts_with("target") && name.find('/') == std::string::npos);
}

// Headers of a backend without a file of their own to be linked may be read by both halves.
TEST(Tree, HalvesOfABackendAreApart) {
  size_t halves = 0;
  for (const auto& [line, path] : all_includes()) {
    if (!line->file.starts_with("src/backends/") || !path.starts_with("backends/")) continue;
    const std::string included = "src/" + path;
    halves += is_target_half(line->file);
    if (is_target_half(line->file) == is_target_half(included)) continue;
    EXPECT_FALSE(fs::exists(root / fs::path(included).replace_extension(".cpp"))) << line->where();
  }
  EXPECT_GT(halves, 0u);
}

TEST(Tree, NoIncludeGoesUpward) {
  const std::vector<Include> all = all_includes();
  for (const auto& [found, path] : all) {
    const Line& line = *found;
    const std::string from = folder_of(line.file), to = folder_of("/" + path);
    if (from == to || path.starts_with("hwy/")) continue;
    const bool backend = from.starts_with("backends/");
    if (backend && path.starts_with(from.substr(0, from.find('/', 9)) + "/")) continue;  // its rooms: above
    ASSERT_TRUE(backend || may_see.contains(from)) << "folder " << from << " is not in this test's table";
    const std::set<std::string>& allowed = !backend                    ? may_see.at(from)
                                           : is_target_half(line.file) ? target_half_may_see
                                                                       : device_half_may_see;
    EXPECT_TRUE(allowed.contains(to) || allowed.contains(path)) << line.where();
  }
  EXPECT_GT(all.size(), 300u);  // the reader reads
}

TEST(Tree, EveryFolderIsInTheTable) {
  for (const auto& entry : fs::recursive_directory_iterator(root / "src")) {
    const std::string name = fs::relative(entry.path(), root / "src").string();
    if (entry.is_directory() && !name.starts_with("backends")) {
      EXPECT_TRUE(may_see.contains(name)) << name;
    }
  }
  for (const std::string& backend : backends()) {
    const fs::path folder = root / "src/backends" / backend;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = fs::relative(entry.path(), folder).string();
      if (!entry.is_directory()) continue;
      ASSERT_TRUE(rooms.contains(backend)) << backend;
      const auto& order = rooms.at(backend);
      EXPECT_TRUE(std::find(order.begin(), order.end(), name) != order.end()) << backend << "/" << name;
    }
  }
}

// Names may appear as the default of an option and in text; deciding something by a backend's name may not.
TEST(Tree, NoFolderButItsOwnKnowsABackend) {
  for (const std::string& name : backends()) {
    const std::regex knows("\"backends/" + name + "/|\\b" + name + "::|[=!]= *\"" + name + "\"|\"" + name +
                           "\" *[=!]=");
    for (const Line& line : all_lines()) {
      if (line.file.starts_with("src/backends/" + name + "/")) continue;
      EXPECT_FALSE(std::regex_search(without_comment(line.text), knows)) << line.where();
    }
  }
}

// graph/ reads and writes the IR's operator names: spellings in import.cpp and text.cpp, the calls that stand for the
// rotary embedding's lost body in rotary.cpp. Reports know how in-place forms are spelled.
TEST(Tree, OperatorsAreNamedInOpsOnly) {
  const std::regex names("\"aten\\.[a-z0-9_]+");
  const std::set<std::string> exempt = {"src/graph/import.cpp", "src/graph/text.cpp", "src/graph/rotary.cpp",
                                        "src/compiler/reports.cpp"};
  for (const Line& line : all_lines()) {
    if (line.file.starts_with("src/ops/") || exempt.contains(line.file)) continue;
    EXPECT_FALSE(std::regex_search(without_comment(line.text), names)) << line.where();
  }
}

TEST(Tree, FilesOpenWithOneSentence) {
  for (const Line& line : all_lines()) {
    if (line.number != 1) continue;
    EXPECT_TRUE(line.text.starts_with("// ") || line.text.starts_with("/* ")) << line.where();  // C has no //
  }
}

// g++'s precompiled headers bring it along; clang's build has none.
TEST(Tree, FormatsAreIncludedWhereTheyAreUsed) {
  const std::regex uses("fmt::(to_string|join|format_to|memory_buffer|formatter)"),
      includes("#include <fmt/(format|ranges)\\.h>");
  std::map<std::string, std::string> first;  // file -> where it first uses one
  std::set<std::string> included;
  for (const Line& line : all_lines()) {
    if (std::regex_search(line.text, includes)) included.insert(line.file);
    if (std::regex_search(without_comment(line.text), uses)) first.emplace(line.file, line.where());
  }
  EXPECT_GT(first.size(), 30u);
  for (const auto& [file, where] : first) EXPECT_TRUE(included.contains(file)) << where;
}

// Two types of one name in one namespace are one type to the linker, which takes the functions of either.
TEST(Tree, NoTypeOfOneNamespaceIsInTwoHeaders) {
  const std::regex opens("^namespace ([A-Za-z0-9_:]+) \\{"),
      type("^(?:class|struct|enum class|enum) (?:NPUSIM_API )?([A-Za-z0-9_]+)\\b(?!::)[^;]*$");
  std::map<std::string, std::set<std::string>> files;
  std::string space;
  size_t found = 0;
  for (const Line& line : all_lines()) {
    if (!line.file.ends_with(".h")) continue;
    if (line.number == 1) space.clear();
    std::smatch match;
    const std::string text = without_comment(line.text);
    if (std::regex_search(text, match, opens)) space = match[1];
    if (!std::regex_search(text, match, type)) continue;
    files[space + "::" + match[1].str()].insert(line.file);
    ++found;
  }
  EXPECT_GT(found, 300u);
  for (const auto& [name, headers] : files)
    EXPECT_EQ(headers.size(), 1u) << name << " is in " << *headers.begin() << " and " << *headers.rbegin();
}

// Device SDKs are for the one file of a backend that talks to the device.
TEST(Tree, NoSdkOutsideBackends) {
  const std::regex sdk("#\\s*include\\s*[<\"](cuda|cudnn|cublas|nvrtc|Metal/|Foundation/|dnnl|oneapi/)");
  for (const Line& line : all_lines()) {
    if (line.file.starts_with("src/backends/")) continue;
    EXPECT_FALSE(std::regex_search(line.text, sdk)) << line.where();
  }
}

// A kernel in a string is text that no editor reads and nothing compiles alone: device text is .cuh files, and the
// printer's own pieces are short. Instructions are the backend's, and the dialect's in its files.
TEST(Tree, NoKernelIsAString) {
  const std::regex raw("R\"(\\w*)\\(");
  size_t found = 0;
  for (const char* folder : {"src/backends", "src/print"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      std::ifstream in(entry.path());
      const std::string text(std::istreambuf_iterator<char>(in), {});
      for (std::sregex_iterator match(text.begin(), text.end(), raw), end; match != end; ++match) {
        const size_t begin = static_cast<size_t>(match->position() + match->length());
        const size_t size = text.find(")" + (*match)[1].str() + "\"", begin) - begin;
        EXPECT_LE(size, 3000U) << entry.path() << ": " << text.substr(begin, 60);
        ++found;
      }
    }
  EXPECT_GT(found, 10U);
  for (const Line& line : all_lines())
    if (line.file.starts_with("src/print/") && !line.file.ends_with(".cuh")) {
      EXPECT_FALSE(std::regex_search(line.text, std::regex("\\basm\\b"))) << line.where();
    }
}

}  // namespace
