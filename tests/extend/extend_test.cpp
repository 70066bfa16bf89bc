// What the documentation promises: an op added as one file and a backend added as one folder are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "npusim/compiler.h"
#include "npusim/session.h"

namespace npusim {
namespace {

constexpr const char* ir = R"({
  "graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
  "graph_outputs": [{"name": "relu", "shape": [2, 3], "dtype": "float32"}],
  "weights": [],
  "nodes": [
    {"name": "toy", "op_type": "aten.toy_square.default", "attrs": {"offset": -4},
     "inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0}],
     "outputs": [{"name": "toy", "shape": [2, 3], "dtype": "float32"}]},
    {"name": "relu", "op_type": "aten.relu.default", "attrs": {},
     "inputs": [{"name": "toy", "shape": [2, 3], "dtype": "float32", "producer_node": "toy", "producer_output_idx": 0}],
     "outputs": [{"name": "relu", "shape": [2, 3], "dtype": "float32"}]}]})";

std::shared_ptr<const Program> compile_for(const std::string& target) {
  CompileOptions options;
  options.target = target;
  options.dtype = "float32";
  return compile({{.path = "toy", .json = ir}}, options).program;
}

void run_and_check(const std::string& device) {
  Session session(compile_for(device));
  for (int64_t i = 0; i < 6; ++i) store_double(session.input(0, 0).data(), DType::f32, i, static_cast<double>(i - 3));
  session.run(0);
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(load_double(session.output(0, 0).data(), DType::f32, i),
              std::max(0.0, static_cast<double>((i - 3) * (i - 3) - 4)));
}

TEST(Extend, ToyOpRunsOnTheCpu) { run_and_check("cpu"); }
TEST(Extend, ToyOpRunsOnTheToy) { run_and_check("toy"); }

TEST(Extend, ToyOpIsInTheTable) { EXPECT_NE(describe_ops("cpu", false).find("toy_square"), std::string::npos); }

TEST(Extend, ToyIsInTheListOfDevices) {
  const std::vector<DeviceInfo> devices = list_devices();
  EXPECT_TRUE(std::any_of(devices.begin(), devices.end(), [](const DeviceInfo& d) { return d.name == "toy"; }));
}

// What a target takes is asked of the target.
TEST(Extend, ToyTargetRefusesByName) {
  std::string linear = ir;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"aten.relu.default", "aten.matmul.default"}})
    linear.replace(linear.find(from), from.size(), to);
  // toy [2, 3] times weight [3, 3]
  const std::string weight = R"({"name": "w", "shape": [3, 3], "dtype": "float32"})";
  linear.replace(linear.find("\"weights\": []"), 13, "\"weights\": [" + weight + "]");
  const std::string operand =
      R"("name": "toy", "shape": [2, 3], "dtype": "float32", "producer_node": "toy", "producer_output_idx": 0})";
  linear.insert(linear.find(operand) + operand.size(), ", " + weight);
  CompileOptions options;
  options.target = "toy";
  options.fallback = false;
  try {
    compile({{.path = "toy", .json = linear}}, options);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("the toy has no contractions"), std::string::npos) << error.what();
  }
}

std::string read_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The documents show these files as they are.
TEST(Extend, DocumentsShowTheToys) {
  const std::string root = NPUSIM_SOURCE_DIR;
  EXPECT_NE(read_text(root + "/docs/add-an-op.md").find(read_text(root + "/tests/extend/toy.cpp")), std::string::npos);
  EXPECT_NE(read_text(root + "/docs/add-a-backend.md").find(read_text(root + "/tests/extend/backends/toy/target.cpp")),
            std::string::npos);
}

TEST(Extend, DocumentsShowTheEmulatorsTarget) {
  const std::string root = NPUSIM_SOURCE_DIR;
  const std::string text = read_text(root + "/tests/metal/backends/emulator/target.cpp");
  const size_t begin = text.find("class EmulatorTarget");
  ASSERT_NE(begin, std::string::npos);
  const std::string shown = text.substr(begin, text.find("\n};\n", begin) + 3 - begin);
  EXPECT_NE(read_text(root + "/docs/add-a-backend.md").find("```cpp\n" + shown + "\n```"), std::string::npos);
}

}  // namespace
}  // namespace npusim
