// Runs the command line in a folder of its own and keeps what it printed.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "runtime/npy.h"
#include "runtime/tensor_set.h"

namespace npusim {

struct Invocation {
  int code = -1;
  std::string out, err;
};

// A folder that is gone after the test. Commands run in it.
class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "npusim_cli_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string digits(const std::string& name) { return NPUSIM_SOURCE_DIR "/examples/models/digits/" + name; }
  static std::string tinyqwen(const std::string& name) { return NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/" + name; }

  // What goes to a terminal is for whoever holds its other end.
  Invocation npusim(const std::vector<std::string>& args, const std::string& input = "/dev/null",
                    const std::string& terminal = "") const {
    // Waiting actively costs more than it saves where tests share the cores.
    std::string command =
        "cd '" + folder_.string() + "' && " + environment_ + " OMP_WAIT_POLICY=passive '" NPUSIM_BINARY "'";
    for (const std::string& arg : args) command += " '" + arg + "'";
    command += " < '" + input + "' > .out 2> '" + (terminal.empty() ? ".err" : terminal) + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path(".out")),
            terminal.empty() ? read_file(path(".err")) : ""};
  }

  // Names of the files that are there, but for the captured streams.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (const std::string name = entry.path().filename(); name != ".out" && name != ".err") names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }

  void write(const std::string& name, const std::string& text) const { write_file(path(name), text); }

  // A tensor whose elements count up from `first`.
  HostTensor counting(TensorType type, double first = 0) const {
    HostTensor tensor = make_tensor(std::move(type));
    for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
      store_double(tensor.data.data(), tensor.type.dtype, i, first + static_cast<double>(i));
    return tensor;
  }
  void save(const std::string& name, const std::vector<std::pair<std::string, HostTensor>>& tensors) const {
    std::vector<NamedTensor> views;
    for (const auto& [key, tensor] : tensors) views.push_back({key, view_of(tensor)});
    write_safetensors(path(name), views);
  }

  // y = x + w and z = relu(y): x [2, 3], w [3], all float32.
  void write_model(const std::string& name = "model.json") const {
    write(name, R"({"model_name": "small",
      "graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
      "graph_outputs": [{"name": "y", "shape": [2, 3], "dtype": "float32"}, {"name": "z", "shape": [2, 3], "dtype": "float32"}],
      "weights": [{"name": "layer.w", "shape": [3], "dtype": "float32"}],
      "weight_name_mapping": {"p_w": "layer.w"},
      "nodes": [
        {"name": "y", "op_type": "aten.add.Tensor",
         "inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0},
                    {"name": "p_w", "shape": [3], "dtype": "float32"}],
         "outputs": [{"name": "y", "shape": [2, 3], "dtype": "float32"}], "attrs": {}},
        {"name": "z", "op_type": "aten.relu.default",
         "inputs": [{"name": "y", "shape": [2, 3], "dtype": "float32", "producer_node": "y", "producer_output_idx": 0}],
         "outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32"}], "attrs": {}}]})");
  }
  // model.npubin of write_model(), its weights w.safetensors, an input x.safetensors.
  void make_program() const {
    write_model();
    save("w.safetensors", {{"layer.w", counting({DType::f32, {3}}, 10)}});
    save("x.safetensors", {{"x", counting({DType::f32, {2, 3}}, -12)}});
    const Invocation compiled = npusim({"compile", "model.json", "--dtype", "float32"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
  }

  std::filesystem::path folder_;
  std::string environment_;  // of commands: "NAME=value"
};

}  // namespace npusim
