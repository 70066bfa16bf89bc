// One command names what is wrong with a real model: a fusion, and an operator that rounds.
#include <nlohmann/json.hpp>

#include "cli/invoke.h"
#include "materialize.h"

namespace npusim {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

class Faults : public CliTest {
 protected:
  // npusim bisect of a model of the zoo, with --json.
  Json bisect(const std::string& model, const std::string& folder, const std::string& target, const Names& flags) {
    Names args = {"bisect",   examples + "zoo/" + model + "/ir.json", "--weights", folder + "model.safetensors",
                  "--inputs", folder + "inputs.safetensors",          "--target",  target,
                  "--json"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Invocation found = npusim(args);
    EXPECT_EQ(found.code, 1) << found.err;
    return Json::parse(found.out, nullptr, false);
  }
};

TEST_F(Faults, AFusionOfResNet50) {
  MATERIALIZE_OR_SKIP(folder, "zoo/resnet50");
  const Json found = bisect("resnet50", folder, "wrong_fusion", {"--dtype", "float32"});
  ASSERT_GE(found["culprit"], 0) << found;
  const Json& part = found["parts"][found["culprit"].get<size_t>()];
  EXPECT_EQ(part["operators"],
            (Names{"aten.conv2d.default", "aten.batch_norm.default", "aten.add.Tensor", "aten.relu.default"}));
  EXPECT_EQ(found["node"], -1);  // it is wrong only as a whole
  const Names fusions = found["fusions"];
  EXPECT_NE(std::find(fusions.begin(), fusions.end(), "fuse_epilogues"), fusions.end()) << found["fusions"];
  // The sum is written over the batch norm's result, whose part is before it: what it carries is wrong already.
  EXPECT_GE(found["first"], 0);
  EXPECT_LE(found["first"], found["culprit"]);
}

TEST_F(Faults, AnOperatorOfQwen2) {
  MATERIALIZE_OR_SKIP(folder, "zoo/qwen2_2l");
  const Json found =
      bisect("qwen2_2l", folder, "wrong_operator", {"--strict", "--dtype", "float32", "-o", path("bundle")});
  ASSERT_GE(found["node"], 0) << found;
  const Json& node = found["nodes"][found["node"].get<size_t>()];
  EXPECT_EQ(node["operators"], Names{"aten.rsqrt.default"});
  // What is left behind is that node alone.
  const Json bundle = Json::parse(read_file(path("bundle/ir.json")));
  ASSERT_EQ(bundle["nodes"].size(), 1U);
  EXPECT_EQ(bundle["nodes"][0]["op_type"], "aten.rsqrt.default");
  EXPECT_EQ(bundle["nodes"][0]["name"], node["nodes"][0]);
}

}  // namespace
}  // namespace npusim
