// Strides of padded and tiled images.
#include "passes/image_layout.h"

#include <algorithm>

namespace npusim {
namespace {

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// One dimension of the image as stored: how far indices run and how much memory there is for them.
struct Part {
  size_t dim;
  int64_t extent, memory;
};

}  // namespace

int64_t aligned_channels(DType dtype, const TargetConfig& config) {
  return std::max<int64_t>(1, config.channel_alignment_bytes / static_cast<int64_t>(dtype_size(dtype)));
}

bool has_own_images(const TargetConfig& config) {
  return config.channel_tile > 0 || (config.pad_channels && config.channel_alignment_bytes > 1);
}

ImageStorage image_storage(const TensorType& type, const TargetConfig& config) {
  const Shape& shape = type.shape;
  const int64_t channels = shape[1], tile = config.channel_tile;
  int64_t padded = config.pad_channels ? round_up(channels, aligned_channels(type.dtype, config)) : channels;
  if (tile > 0) padded = round_up(padded, tile);
  ImageStorage storage;
  storage.tiled = tile > 0 && channels > tile && channels % tile == 0;
  // Row-major: n, channels (outer, inner), spatial…
  std::vector<Part> parts{{0, shape[0], shape[0]}};
  if (storage.tiled) parts.push_back({1, channels / tile, padded / tile});
  parts.push_back({1, storage.tiled ? tile : channels, storage.tiled ? tile : padded});
  const size_t inner = parts.size() - 1;
  for (size_t d = 2; d < shape.size(); ++d) parts.push_back({d, shape[d], shape[d]});

  std::vector<size_t> order;  // of the parts in memory, outermost first
  const bool last = config.image_layout == ImageLayout::channels_last || tile > 0;
  for (size_t i = 0; i < parts.size(); ++i)
    if (i != inner || !last) order.push_back(i);
  if (last) order.push_back(inner);
  std::vector<int64_t> strides(parts.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= parts[order[i]].memory) strides[order[i]] = stride;
  for (size_t i : order) storage.extents.push_back(parts[i].memory);

  int64_t logical = element_count(shape);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].extent <= 1) continue;
    logical /= parts[i].extent;
    storage.dims.dims.push_back(parts[i].dim);
    storage.dims.extents.push_back(parts[i].extent);
    storage.dims.strides.push_back(logical);
    storage.strides.push_back(strides[i]);
  }
  return storage;
}

namespace {

// What weights and constants alone decide: recipes may prepare it. More than early values, for what an update in place
// makes late now may be early once the update has a copy of its own.
std::vector<bool> values_of_weights(const Graph& graph) {
  std::vector<bool> result;
  for (const Value& v : graph.values)
    result.push_back(v.source == ValueSource::weight || v.source == ValueSource::constant);
  for (const Node& node : graph.nodes) {
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId v) { return v < 0 || result[static_cast<size_t>(v)]; });
    for (const ValueId v : node.outputs) result[static_cast<size_t>(v)] = all;
  }
  return result;
}

}  // namespace

std::vector<bool> private_values(const Graph& graph) {
  std::vector<bool> result = values_of_weights(graph);
  for (size_t v = 0; v < result.size(); ++v) result[v] = !result[v] && graph.values[v].source == ValueSource::node;
  for (const GraphOutput& o : graph.outputs) result[static_cast<size_t>(o.value)] = false;
  for (const Node& node : graph.nodes)
    if (node.kernel->call)
      for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
        for (const ValueId v : *values) result[static_cast<size_t>(v)] = false;
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.kernel->args.size(); ++i)
      if (const int source = node.kernel->args[i].updates; source >= 0) {
        result[static_cast<size_t>(node.inputs[static_cast<size_t>(source)])] = false;
        result[static_cast<size_t>(node.outputs[i - node.inputs.size()])] = false;
      }
  return result;
}

int64_t read_channel_stride(const Kernel& conv) {
  const Contraction& c = *conv.contraction;
  return c.reduce[0] > 1 ? c.a.strides[conv.space.size()] : c.a.strides[1];
}

int64_t written_channel_stride(const Kernel& conv, const Store& store) {
  return conv.space[2] > 1 ? store.access.strides[2] : store.access.strides[1];
}

bool is_image(const Kernel& conv, const Value& value, int64_t channel_stride) {
  const Shape& shape = value.type.shape;
  if (shape.size() + 1 != conv.space.size()) return false;
  int64_t pixels = 1;
  for (size_t d = 2; d < shape.size(); ++d) pixels *= shape[d];
  return shape[1] == 1 || channel_stride == pixels;
}

}  // namespace npusim
