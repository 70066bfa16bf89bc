// Images between convolutions are stored as the target wants them (channels last on the CPU; padded or in tiles of
// channels), results of attention as the product that reads them walks them: strides of readers and writers change, and
// no conversion is needed because nobody else sees them.
#include <algorithm>

#include "kernel/facts/conv_windows.h"
#include "kernel/fuse/index_map.h"
#include "kernel/fuse/simplify.h"
#include "passes/image_layout.h"
#include "passes/pass.h"

namespace npusim {
namespace {

// A value's row-major storage by dimension (extents of 1 left out).
StoredDims row_major(const Shape& shape) {
  StoredDims stored;
  const Shape strides = row_major_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    stored.dims.push_back(d);
    stored.strides.push_back(strides[d]);
    stored.extents.push_back(shape[d]);
  }
  return stored;
}

std::vector<int64_t> wide_extents(const Kernel& k) {
  std::vector<int64_t> extents = k.space;
  if (k.contraction) extents.insert(extents.end(), k.contraction->reduce.begin(), k.contraction->reduce.end());
  return extents;
}

// Splits the kernel until all its accesses to `arg` map onto the value's dimensions. A convolution whose channels are
// `tiled` is split too: it is then a product like any other.
bool split_to_fit(Kernel& k, int arg, const StoredDims& stored, bool tiled = false) {
  for (int rounds = 0; rounds < 32; ++rounds) {
    std::optional<SplitRequest> split;
    bool ok = true;
    auto visit = [&](const Access& a, const std::vector<int64_t>& extents) {
      if (a.arg == arg && !split) ok = ok && (map_access(a, extents, stored, split).has_value() || split.has_value());
    };
    for (const Access& a : k.accesses) visit(a, k.space);
    for (const Store& s : k.stores) visit(s.access, k.space);
    if (k.contraction) {
      if (k.contraction->kind == ContractionKind::attention)
        return ok && !split && k.args[static_cast<size_t>(arg)].written;
      visit(k.contraction->a, wide_extents(k));
      visit(k.contraction->b, wide_extents(k));
    }
    if (!ok) return false;
    if (!split) return true;
    if (!may_split(k, split->dim)) return false;
    if (k.contraction && k.contraction->kind != ContractionKind::matmul) {
      if (!tiled) return false;
      auto product = std::make_shared<Contraction>(*k.contraction);
      product->kind = ContractionKind::matmul;
      k.contraction = std::move(product);
    }
    split_dim(k, split->dim, split->inner);
  }
  return false;
}

void restride_all(Kernel& k, int arg, const StoredDims& stored, const std::vector<int64_t>& strides) {
  for (Access& a : k.accesses)
    if (a.arg == arg) a = restride(a, k.space, stored, strides);
  for (Store& s : k.stores)
    if (s.access.arg == arg) s.access = restride(s.access, k.space, stored, strides);
  if (!k.contraction) return;
  auto c = std::make_shared<Contraction>(*k.contraction);
  for (Access* a : {&c->a, &c->b})
    if (a->arg == arg) *a = restride(*a, wide_extents(k), stored, strides);
  k.contraction = c;
}

class LayoutChooser {
 public:
  LayoutChooser(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), own_(private_values(graph)), wanted_(graph.values.size(), false) {}

  void run() {
    touching_.resize(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (ValueId v : graph_.nodes[n].inputs) touching_[static_cast<size_t>(v)].push_back(n);
      for (ValueId v : graph_.nodes[n].outputs) touching_[static_cast<size_t>(v)].push_back(n);
    }
    const TargetConfig& config = context_.target;
    if (config.image_layout == ImageLayout::channels_last || has_own_images(config))
      for (const Node& node : graph_.nodes) want(node);
    for (size_t v = 0; v < wanted_.size(); ++v) {
      if (!wanted_[v]) continue;
      apply(static_cast<ValueId>(v), image_storage(value_of(graph_, static_cast<ValueId>(v)).type, config));
    }
    for (const Node& node : graph_.nodes) store_rows(node);
    if (graph_.values.size() > wanted_.size()) compact(graph_, {}, false);  // conversions to their places
  }

 private:
  void mark(ValueId v) {
    const Shape& shape = value_of(graph_, v).type.shape;
    if (own_[static_cast<size_t>(v)] && shape.size() >= 3 && (shape[1] > 1 || has_own_images(context_.target)))
      wanted_[static_cast<size_t>(v)] = true;
  }

  // What a view stands between, as after a shuffle of channels, gets the shape in which the convolution sees it: it is
  // the same memory.
  void name_image(const Kernel& conv, ValueId v) {
    Value& value = value_of(graph_, v);
    if (!own_[static_cast<size_t>(v)] || value.type.shape.size() + 1 == conv.space.size()) return;
    const auto windows = conv_windows(conv);
    if (!windows || conv.contraction->a.offset != 0) return;
    Shape shape{windows->batch, windows->groups * windows->in_channels};
    shape.insert(shape.end(), windows->input.begin(), windows->input.end());
    const Shape strides = row_major_strides(shape);
    bool same = element_count(shape) == element_count(value.type.shape);
    for (size_t d = 0; d < shape.size(); ++d) same = same && (shape[d] == 1 || windows->image_strides[d] == strides[d]);
    if (same) value.type.shape = std::move(shape);
  }

  void want(const Node& node) {
    const Kernel& k = *node.kernel;
    if (k.contraction && k.contraction->kind == ContractionKind::conv) {
      const ValueId in = node.inputs[static_cast<size_t>(k.contraction->a.arg)];
      name_image(k, in);
      if (is_image(k, value_of(graph_, in), read_channel_stride(k))) mark(in);
      for (const Store& s : k.stores) {
        const ValueId out = node.outputs[static_cast<size_t>(s.access.arg) - node.inputs.size()];
        if (is_image(k, value_of(graph_, out), written_channel_stride(k, s))) mark(out);
      }
      return;
    }
    if (k.contraction) return;
    // Pointwise, pooling, concatenation: an image in gives an image out, when channels run along the same indices.
    for (const Access& a : k.accesses) {
      const ValueId in = node.inputs[static_cast<size_t>(a.arg)];
      if (!wanted_[static_cast<size_t>(in)]) continue;
      for (const Store& s : k.stores) {
        const ValueId out = node.outputs[static_cast<size_t>(s.access.arg) - node.inputs.size()];
        if (value_of(graph_, out).type.shape.size() == value_of(graph_, in).type.shape.size() &&
            same_channels(k, a, in, s.access, out))
          mark(out);
      }
    }
  }

  bool same_channels(const Kernel& k, const Access& from, ValueId in, const Access& to, ValueId out) const {
    const StoredDims source = row_major(value_of(graph_, in).type.shape),
                     target = row_major(value_of(graph_, out).type.shape);
    bool any = false;
    for (size_t d = 0; d < k.space.size(); ++d) {
      if (k.space[d] <= 1) continue;
      const int b = stored_digit(to, d, target);
      const bool channel_out = b >= 0 && target.dims[static_cast<size_t>(b)] == 1;
      const int a = stored_digit(from, d, source);
      bool channel_in = a >= 0 && source.dims[static_cast<size_t>(a)] == 1;
      for (const Guard& g : from.guards) {
        const Access probe{0, 0, {g.stride}, {}, {}};
        const int digit = g.coeffs[d] != 0 ? stored_digit(probe, 0, source) : -1;
        channel_in = channel_in || (digit >= 0 && source.dims[static_cast<size_t>(digit)] == 1);
      }
      if (channel_in != channel_out) return false;
      any = any || channel_in;
    }
    return any;
  }

  // An attention's result that one matrix product reads as its left side: heads side by side within a row.
  void store_rows(const Node& attention) {
    const auto& c = attention.kernel->contraction;
    if (!c || c->kind != ContractionKind::attention || attention.outputs.size() != 1) return;
    const ValueId v = attention.outputs[0];
    if (static_cast<size_t>(v) >= own_.size()) return;
    const std::vector<size_t>& touching = touching_[static_cast<size_t>(v)];
    if (!own_[static_cast<size_t>(v)] || !value_of(graph_, v).stored.empty() || touching.size() != 2) return;
    const Node& reader = graph_.nodes[touching[1]];
    const auto& product = reader.kernel->contraction;
    if (!product || product->kind != ContractionKind::matmul || reader.inputs[static_cast<size_t>(product->a.arg)] != v)
      return;
    const StoredDims stored = row_major(value_of(graph_, v).type.shape);
    Kernel split = *reader.kernel;
    if (!split_to_fit(split, product->a.arg, stored)) return;
    // The stored dimensions in the order of the product's, from the last one on.
    ImageStorage rows{stored, std::vector<int64_t>(stored.dims.size(), 0), {}, false};
    std::vector<int64_t>& strides = rows.strides;
    int64_t stride = 1;
    for (size_t d = wide_extents(split).size(); d-- > 0;) {
      const int digit = stored_digit(split.contraction->a, d, stored);
      if (digit < 0 || strides[static_cast<size_t>(digit)] != 0) continue;
      strides[static_cast<size_t>(digit)] = stride;
      stride *= stored.extents[static_cast<size_t>(digit)];
      rows.extents.insert(rows.extents.begin(), stored.extents[static_cast<size_t>(digit)]);
    }
    if (std::find(strides.begin(), strides.end(), 0) == strides.end()) apply(v, rows);
  }

  // The kernel with its arguments that are `v` in the given storage; null when an access does not follow it.
  std::shared_ptr<Kernel> stored_as(const Node& node, ValueId v, const ImageStorage& storage) const {
    auto kernel = std::make_shared<Kernel>(*node.kernel);
    for (size_t i = 0; i < node.inputs.size() + node.outputs.size(); ++i) {
      const ValueId at = i < node.inputs.size() ? node.inputs[i] : node.outputs[i - node.inputs.size()];
      if (at != v) continue;
      if (!split_to_fit(*kernel, static_cast<int>(i), storage.dims, storage.tiled)) return nullptr;
      restride_all(*kernel, static_cast<int>(i), storage.dims, storage.strides);
      kernel->args[i].elements = element_count(storage.extents);
    }
    return kernel;
  }

  // Stores the value so. Who cannot follow reads or writes a row-major copy where convolutions take the image in no
  // other form; else the value stays as it is.
  void apply(ValueId v, const ImageStorage& storage) {
    if (element_count(value_of(graph_, v).type.shape) == 0) return;
    std::vector<std::pair<size_t, std::shared_ptr<Kernel>>> edited;
    std::vector<size_t> others;
    for (size_t n : touching_[static_cast<size_t>(v)]) {
      if (!edited.empty() && edited.back().first == n) continue;
      if (auto kernel = stored_as(graph_.nodes[n], v, storage))
        edited.emplace_back(n, std::move(kernel));
      else if (has_own_images(context_.target))
        others.push_back(n);
      else
        return;
    }
    for (auto& [n, kernel] : edited) graph_.nodes[n].kernel = std::move(kernel);
    value_of(graph_, v).stored = storage.extents;
    if (!others.empty()) convert_for(others, v, storage);
  }

  void convert_for(const std::vector<size_t>& others, ValueId v, const ImageStorage& storage) {
    const Value& image = value_of(graph_, v);
    const ValueId copy = add_value(graph_, image.name + "_dense", image.type);
    bool written = false;  // by one of the others, and then none of them reads it before
    for (size_t n : others) {
      Node& node = graph_.nodes[n];
      written = written || std::find(node.outputs.begin(), node.outputs.end(), v) != node.outputs.end();
      std::replace(node.inputs.begin(), node.inputs.end(), v, copy);
      std::replace(node.outputs.begin(), node.outputs.end(), v, copy);
    }
    const Node* behalf = &graph_.nodes[others.front()];
    Node convert =
        written ? copy_node(graph_, copy, v, "to_image", behalf) : copy_node(graph_, v, copy, "from_image", behalf);
    convert.kernel = stored_as(convert, v, storage);
    add_node(graph_, std::move(convert));
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<bool> own_, wanted_;
  std::vector<std::vector<size_t>> touching_;
};

}  // namespace

void choose_layout(Graph& graph, PassContext& context) { LayoutChooser(graph, context).run(); }

}  // namespace npusim
