// Real models with operators forced to the CPU, beside a device whose memory the host does not reach: the answers of
// the CPU alone, bit for bit, and no transfer that the plan does not name.
#include "program/partition.h"

#include <algorithm>

#include "hidden_memory.h"
#include "models/model.h"

namespace npusim {
namespace {

struct Forced {
  const char* model;
  std::set<std::string> operators;
};
std::ostream& operator<<(std::ostream& out, const Forced& forced) { return out << forced.model; }

class Partitions : public testing::TestWithParam<Forced> {};

std::vector<HostTensor> outputs_of(Session& session, const Program& program) {
  std::vector<HostTensor> outputs;
  const std::vector<TensorInfo> infos = method_outputs(program, "main");
  for (size_t i = 0; i < infos.size(); ++i)
    outputs.push_back(copy_tensor({infos[i].type, session.output(0, i).data()}));
  return outputs;
}

void run_on(Session& session, const Program& program, const TensorSet& inputs) {
  for (const TensorInfo& info : method_inputs(program, "main")) {
    const TensorView& tensor = get_tensor(inputs, info.name);
    session.set_input(0, info.name, {tensor.data, byte_size(tensor.type)});
  }
  session.run(0);
}

TEST_P(Partitions, GiveTheAnswersOfOneDevice) {
  const std::string name = GetParam().model;
  MATERIALIZE_OR_SKIP(folder, "zoo/" + name);
  const std::vector<MethodSource> sources = {{.path = examples + "zoo/" + name + "/ir.json", .json = {}}};
  const auto weights = open_tensors(folder + "model.safetensors");
  const TensorSet inputs = map_tensors(folder + "inputs.safetensors");
  // Without fusions the kernels are the same wherever they run.
  CompileOptions options;
  options.dtype = "float32";
  options.disabled_fusions = {"all"};
  const auto whole = compile(sources, options).program;
  options.force_cpu = GetParam().operators;
  const auto divided = compile(sources, options).program;
  ASSERT_EQ(divided->devices.size(), 2U);
  for (const std::string& op : GetParam().operators)
    EXPECT_TRUE(std::any_of(divided->origins.begin(), divided->origins.end(), [&](const Origin& origin) {
      return origin.reason == "--force-cpu " + op;
    })) << op;
  Session one(whole, {.weights = weights, .devices = {}});
  run_on(one, *whole, inputs);
  const auto count = std::make_shared<test::Crossings>();
  Session two(divided,
              {.weights = weights, .devices = {std::make_shared<test::HiddenMemory>(count), open_backend("cpu")}});
  run_on(two, *divided, inputs);
  const auto expected = outputs_of(one, *whole), found = outputs_of(two, *divided);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].data == expected[i].data) << "output " << i;

  // A second run moves the inputs that are on the device, and what the plan says.
  uint64_t up = 0, down = 0, up_bytes = 0, down_bytes = 0;
  KernelWorks works(*divided);
  for (const DeviceSegment& segment : segments_of(*divided, works, divided->methods[0]))
    for (const Crossing& crossing : segment.before) {
      (crossing.to == 0 ? up : down) += 1;
      (crossing.to == 0 ? up_bytes : down_bytes) += crossing.bytes;
    }
  EXPECT_GT(up + down, 0U);
  for (const TensorSpec& spec : divided->methods[0].inputs)
    if (divided->buffers[static_cast<size_t>(spec.buffer)].device == 0) {
      ++up;
      up_bytes += byte_size(spec.type);
    }
  const uint64_t uploads = count->uploads, uploaded = count->uploaded, downloads = count->downloads,
                 downloaded = count->downloaded;
  two.run(0);
  EXPECT_EQ(count->uploads - uploads, up);
  EXPECT_EQ(count->uploaded - uploaded, up_bytes);
  EXPECT_EQ(count->downloads - downloads, down);
  EXPECT_EQ(count->downloaded - downloaded, down_bytes);
}

// Fused, each device in its own way: as near as ever.
TEST_P(Partitions, FuseOnEachDevice) {
  const std::string name = GetParam().model;
  MATERIALIZE_OR_SKIP(folder, "zoo/" + name);
  CompileOptions options;
  options.dtype = "float32";
  options.force_cpu = GetParam().operators;
  Model model;
  model.program = compile({{.path = examples + "zoo/" + name + "/ir.json", .json = {}}}, options).program;
  model.session = std::make_unique<Session>(
      model.program,
      SessionOptions{
          .weights = open_tensors(folder + "model.safetensors"),
          .devices = {std::make_shared<test::HiddenMemory>(std::make_shared<test::Crossings>()), open_backend("cpu")}});
  const TensorSet inputs = map_tensors(folder + "inputs.safetensors"),
                  golden = map_tensors(folder + "golden.safetensors");
  const std::vector<HostTensor> outputs = run_model(model, "main", inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    expect_close(to_doubles(view_of(outputs[i])), to_doubles(get_tensor(golden, "out" + std::to_string(i))),
                 outputs[i].type.shape.back(), {8e-11, 2.2e-5}, name);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Partitions,
    testing::Values(Forced{"resnet18", {"add", "max_pool2d", "linear", "relu", "adaptive_avg_pool2d"}},
                    Forced{"resnet50", {"batch_norm", "linear", "max_pool2d", "adaptive_avg_pool2d", "flatten"}},
                    Forced{"mobilenet_v2", {"hardtanh", "linear", "add", "adaptive_avg_pool2d", "flatten"}},
                    Forced{"densenet121", {"cat", "avg_pool2d", "max_pool2d", "linear", "relu"}},
                    Forced{"convnext_tiny", {"layer_norm", "gelu", "permute", "mul", "linear"}},
                    Forced{"vit_b_16", {"layer_norm", "gelu", "scaled_dot_product_attention", "cat", "transpose"}},
                    Forced{"minilm_l6", {"embedding", "layer_norm", "gelu", "linear", "add"}},
                    Forced{"gpt2_2l", {"embedding", "layer_norm", "tanh", "addmm", "split"}},
                    Forced{"t5_enc_2l", {"embedding", "mean", "matmul", "softmax", "pow"}},
                    Forced{"qwen2_2l", {"mul", "rsqrt", "linear", "silu", "cat"}}),
    [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace npusim
