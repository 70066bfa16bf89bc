// ResNet-18 at batch 3, made from its IR at batch 1, gives what three single runs give.
#include <algorithm>
#include <fstream>

#include "models/model.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

void set_batch(Json& tensors, int64_t batch) {
  for (Json& tensor : tensors) {
    Json& shape = tensor["shape"];
    if (!shape.empty() && shape[0] == 1) shape[0] = batch;
  }
}

// Only values have a producer: a weight whose first extent is 1 stays. ResNet-18 has no attribute that says a size of
// its activations.
std::string with_batch(const std::string& path, int64_t batch) {
  std::ifstream in(path);
  Json ir = Json::parse(in);
  set_batch(ir["graph_inputs"], batch);
  set_batch(ir["graph_outputs"], batch);
  for (Json& node : ir["nodes"]) {
    set_batch(node["outputs"], batch);
    for (Json& input : node["inputs"])
      if (input.contains("producer_node") && input["shape"][0] == 1) input["shape"][0] = batch;
  }
  return ir.dump();
}

// The image shifted by `by` elements of itself: another one of the same kind.
HostTensor rotated(const TensorView& image, int64_t by) {
  HostTensor result = make_tensor(image.type);
  const int64_t count = element_count(image.type.shape);
  for (int64_t i = 0; i < count; ++i)
    store_double(result.data.data(), image.type.dtype, i, load_double(image.data, image.type.dtype, (i + by) % count));
  return result;
}

void copy_input(Session& session, const HostTensor& from, size_t at) {
  const std::span<std::byte> to = session.input(0, 0).subspan(at * from.data.size(), from.data.size());
  std::copy(from.data.begin(), from.data.end(), to.begin());
}

class Batch : public ::testing::TestWithParam<const char*> {};

TEST_P(Batch, ThreeImagesAreThreeRuns) {
  MATERIALIZE_OR_SKIP(folder, "zoo/resnet18");
  const std::string ir = examples + "zoo/resnet18/ir.json", weights = folder + "model.safetensors";
  Model one = load_model({{.path = ir, .json = {}}}, weights, GetParam());
  Model three = load_model({{.path = "batch 3", .json = with_batch(ir, 3)}}, weights, GetParam());
  const TensorSet inputs = map_tensors(folder + "inputs.safetensors");
  const TensorView& image = get_tensor(inputs, method_inputs(*one.program, "main")[0].name);

  std::vector<double> singles;
  for (size_t i = 0; i < 3; ++i) {
    const HostTensor rolled = rotated(image, static_cast<int64_t>(i) * 12347);
    copy_input(*one.session, rolled, 0);
    copy_input(*three.session, rolled, i);
    one.session->run(0);
    const TensorInfo output = method_outputs(*one.program, "main")[0];
    const std::vector<double> logits = to_doubles({output.type, one.session->output(0, 0).data()});
    singles.insert(singles.end(), logits.begin(), logits.end());
  }
  three.session->run(0);
  const TensorInfo output = method_outputs(*three.program, "main")[0];
  EXPECT_EQ(output.type.shape, (Shape{3, 1000}));
  const std::vector<double> batch = to_doubles({output.type, three.session->output(0, 0).data()});
  const bool exact = std::string(GetParam()) == "float32";
  expect_close(batch, singles, 1000, exact ? Bars{1e-12, 1e-6} : Bars{1e-7, 6e-4}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(ResNet18, Batch, ::testing::Values("float32", "auto"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace npusim
