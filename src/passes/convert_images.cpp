// Where a target's convolutions take only padded or tiled images: what comes from outside is converted before they read
// it, unless it reads this one as it lies, and what goes outside after they wrote it. choose_layout then gives both
// sides their layouts.
#include "passes/image_layout.h"
#include "passes/pass.h"

namespace npusim {
namespace {

struct Converter {
  Graph& graph;
  const PassContext& context;
  std::vector<bool> own = private_values(graph);
  std::vector<Node> nodes = {};
  std::vector<ValueId> converted = {};  // by value: its copy for convolutions

  ValueId add_copy(ValueId v) { return add_value(graph, value_of(graph, v).name + "_image", value_of(graph, v).type); }

  void read(Node& node) {
    const Kernel& k = *node.kernel;
    ValueId& image = node.inputs[static_cast<size_t>(k.contraction->a.arg)];
    if (static_cast<size_t>(image) >= own.size() || own[static_cast<size_t>(image)] ||
        !is_image(k, value_of(graph, image), read_channel_stride(k)))
      return;
    if (node.device == 0 && context.reads_as_it_lies && context.reads_as_it_lies(k)) return;
    ValueId& copy = converted[static_cast<size_t>(image)];
    if (copy == no_value) {
      copy = add_copy(image);
      nodes.push_back(copy_node(graph, image, copy, "to_image", &node));
    }
    image = copy;
  }

  // The copies to make after the node.
  void write(Node& node) {
    const Kernel& k = *node.kernel;
    std::vector<Node> after;
    for (const Store& store : k.stores) {
      ValueId& image = node.outputs[static_cast<size_t>(store.access.arg) - node.inputs.size()];
      if (own[static_cast<size_t>(image)] || k.args[static_cast<size_t>(store.access.arg)].updates >= 0 ||
          !is_image(k, value_of(graph, image), written_channel_stride(k, store)))
        continue;
      const ValueId copy = add_copy(image);
      after.push_back(copy_node(graph, copy, image, "from_image", &node));
      image = copy;
    }
    nodes.push_back(std::move(node));
    for (Node& copy : after) nodes.push_back(std::move(copy));
  }

  void run() {
    converted.assign(graph.values.size(), no_value);
    for (Node& node : graph.nodes) {
      if (!node.kernel->contraction || node.kernel->contraction->kind != ContractionKind::conv) {
        nodes.push_back(std::move(node));
        continue;
      }
      read(node);
      write(node);
    }
    graph.nodes = std::move(nodes);
    set_producers(graph);
  }
};

}  // namespace

void convert_images(Graph& graph, PassContext& context) {
  if (has_own_images(context.target)) Converter{graph, context}.run();
}

}  // namespace npusim
