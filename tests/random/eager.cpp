// Storages and places.
#include "random/eager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "kernel/evaluate.h"
#include "random/noise.h"

namespace npusim::test {
namespace {

// Elements in memory. `doubtful`: a reshape may or may not have copied it, so a write is not certain to be seen.
struct Storage {
  HostTensor elements;  // one dimension
  bool doubtful = false;
  bool exact = true;    // nothing in it was rounded
  bool narrow = false;  // comes from a product or an embedding: what 16 bits may hold
};

// What is known of an operand.
struct Seen {
  bool computed = false, narrow = false;
};

struct Placed {
  size_t storage = 0;
  TensorType type;
  std::vector<int64_t> at;  // by element: its position in the storage
  bool certain = true;      // whether positions are those that eager execution would choose
};

bool in_order(const std::vector<int64_t>& at) {
  for (size_t i = 1; i < at.size(); ++i)
    if (at[i] != at[0] + static_cast<int64_t>(i)) return false;
  return true;
}

// Whether one stride for each dimension says where all elements are.
bool has_strides(const Shape& shape, const std::vector<int64_t>& at) {
  if (at.empty()) return true;
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] > 1) strides[d] = at[static_cast<size_t>(inner)] - at[0];
    inner *= shape[d];
  }
  for (size_t i = 0; i < at.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t expected = at[0];
    for (size_t d = shape.size(); d-- > 0;) {
      expected += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    if (expected != at[i]) return false;
  }
  return true;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

class EagerRun {
 public:
  EagerRun(const Graph& graph, const Tensors& given, const Noise* noise)
      : graph_(graph), tensors_(graph.values.size()) {
    if (noise) noise_.emplace(*noise);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (value.source == ValueSource::node) continue;
      place(static_cast<ValueId>(v), value.source == ValueSource::constant ? *value.data : given.at(value.name), true);
    }
  }

  EagerResult run() {
    for (const Node& node : graph_.nodes) {
      try {
        step(node);
      } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("node {}: {}", node.name, error.what()));
      }
    }
    EagerResult result;
    for (const GraphOutput& output : graph_.outputs) {
      result.outputs.push_back(gather(placed(output.value)));
      result.exact.push_back(storages_[placed(output.value).storage].exact);
    }
    return result;
  }

 private:
  Placed& placed(ValueId v) { return tensors_[static_cast<size_t>(v)]; }

  void place(ValueId v, HostTensor tensor, bool certain) {
    Placed& p = placed(v);
    p.type = tensor.type;
    p.certain = certain;
    p.storage = storages_.size();
    p.at.resize(static_cast<size_t>(element_count(tensor.type.shape)));
    std::iota(p.at.begin(), p.at.end(), 0);
    tensor.type.shape = {static_cast<int64_t>(p.at.size())};
    storages_.push_back({std::move(tensor), false, true});
  }

  HostTensor gather(const Placed& p) const {
    const Storage& storage = storages_[p.storage];
    HostTensor tensor{p.type, {}};
    const size_t size = dtype_size(p.type.dtype);
    tensor.data.resize(p.at.size() * size);
    for (size_t i = 0; i < p.at.size(); ++i)
      std::copy_n(&storage.elements.data[static_cast<size_t>(p.at[i]) * size], size, &tensor.data[i * size]);
    return tensor;
  }

  void write(const Placed& p, const HostTensor& values, const Node& node) {
    Storage& storage = storages_[p.storage];
    storage.exact = storage.exact && exact_;
    storage.narrow = storage.narrow || narrow_;
    if (storage.doubtful) throw Unspecified(fmt::format("{}: writes what a reshape may have copied", node.name));
    if (std::unordered_set<int64_t>(p.at.begin(), p.at.end()).size() != p.at.size())
      throw Unspecified(fmt::format("{}: writes an element more than once", node.name));
    const size_t size = dtype_size(p.type.dtype);
    for (size_t i = 0; i < p.at.size(); ++i)
      std::copy_n(&values.data[i * size], size, &storage.elements.data[static_cast<size_t>(p.at[i]) * size]);
  }

  // Operands that share some elements with what is written, but not all.
  void refuse_overlap(const Node& node) {
    const Placed& target = placed(node.inputs[0]);
    const std::unordered_set<int64_t> written(target.at.begin(), target.at.end());
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == no_value) continue;
      const Placed& other = placed(node.inputs[i]);
      if (other.storage != target.storage || (other.at == target.at && other.type == target.type)) continue;
      if (std::any_of(other.at.begin(), other.at.end(), [&](int64_t at) { return written.contains(at); }))
        throw Unspecified(fmt::format("{}: reads and writes memory that overlaps", node.name));
    }
  }

  std::vector<HostTensor> evaluate(const Node& node) {
    std::vector<HostTensor> tensors(node.inputs.size());
    std::vector<TensorView> views(node.inputs.size());
    std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
    std::vector<Seen> seen(node.inputs.size());
    const OpCall call = call_of(graph_, node);
    const Lowering lowering = lower_call(call);
    const CallTraits traits = traits_of(lowering);
    exact_ = traits.exact;
    narrow_ = traits.contracts || traits.gathers;
    bool finite = true;
    std::map<ValueId, size_t> known;  // one value is off by the same wherever this call reads it
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == no_value) continue;
      const Storage& storage = storages_[placed(node.inputs[i]).storage];
      exact_ = exact_ && storage.exact;
      narrow_ = narrow_ || storage.narrow;
      seen[i] = {!storage.exact, storage.narrow};
      const auto [first, fresh] = known.try_emplace(node.inputs[i], i);
      if (fresh) {
        tensors[i] = gather(placed(node.inputs[i]));
        finite = finite && is_finite(tensors[i]);
        if (noise_ && traits.sums) noise_->disturb_operand(tensors[i], traits);
      }
      views[i] = view_of(tensors[first->second]);
      inputs[i] = &views[i];
    }
    if (!noise_) return evaluate_call(call, inputs);
    std::vector<HostTensor> results = evaluate_noisy(call, lowering, inputs, seen);
    for (HostTensor& result : results) {
      noise_->disturb_result(result, traits);
      const double most = largest(tensors);
      const double reach = traits.multiplies ? std::pow(most, traits.terms) : traits.terms * most * most;
      if (traits.sums) noise_->disturb_overflow(result, finite, reach > std::numeric_limits<float>::max());
      if (traits.weighs) noise_->disturb_lost_weights(result, most);
      if (traits.fades) noise_->disturb_faded(result, most);
      if (traits.casts && node.inputs.size() == 1) noise_->disturb_casts(tensors[0], result);
    }
    return results;
  }

  // Of the finite numbers.
  static double largest(const std::vector<HostTensor>& tensors) {
    double most = 0;
    for (const HostTensor& tensor : tensors)
      for (int64_t i = 0; !tensor.data.empty() && is_float(tensor.type.dtype) && i < element_count(tensor.type.shape);
           ++i)
        if (const double x = std::fabs(load_double(tensor.data.data(), tensor.type.dtype, i)); std::isfinite(x))
          most = std::max(most, x);
    return most;
  }

  static bool is_finite(const HostTensor& tensor) {
    for (int64_t i = 0; is_float(tensor.type.dtype) && i < element_count(tensor.type.shape); ++i)
      if (!std::isfinite(load_double(tensor.data.data(), tensor.type.dtype, i))) return false;
    return true;
  }

  // evaluate_call() of kernels whose expressions are off.
  std::vector<HostTensor> evaluate_noisy(const OpCall& call, const Lowering& lowering,
                                         const std::vector<const TensorView*>& inputs, const std::vector<Seen>& seen) {
    std::vector<HostTensor> made;  // outputs, then temporaries
    for (const TensorType& type : call.outputs) made.push_back(make_tensor(type));
    for (const TensorType& type : lowering.temporaries) made.push_back(make_tensor(type));
    for (const Lowering::Call& step : lowering.calls) {
      std::vector<void*> args;
      std::deque<HostTensor> others;
      for (const int operand : step.operands) {
        const auto at = static_cast<size_t>(operand);
        const bool given = at < inputs.size(), read = !step.kernel.args[args.size()].written;
        args.push_back(given ? const_cast<std::byte*>(inputs[at]->data) : made[at - inputs.size()].data.data());
        const TensorType& type = given ? inputs[at]->type : made[at - inputs.size()].type;
        if (!is_float(type.dtype) || !read || (given && !seen[at].computed) || !noise_->sees_other()) continue;
        others.push_back(copy_tensor({type, static_cast<const std::byte*>(args.back())}));
        noise_->see_other(others.back(), given ? seen[at].narrow : narrow_);
        args.back() = others.back().data.data();
      }
      for (size_t i = 0; i < step.kernel.args.size(); ++i) {
        const KernelArg& arg = step.kernel.args[i];
        if (arg.updates >= 0)
          std::copy_n(static_cast<const std::byte*>(args[static_cast<size_t>(arg.updates)]),
                      static_cast<size_t>(arg.elements) * dtype_size(arg.dtype), static_cast<std::byte*>(args[i]));
      }
      npusim::evaluate(noise_->disturbed(step.kernel), args, true);
    }
    made.resize(call.outputs.size());
    return made;
  }

  void step(const Node& node) {
    if (node.outputs.empty()) return;
    if (node.in_place) {
      refuse_overlap(node);
      const std::vector<HostTensor> results = evaluate(node);
      write(placed(node.inputs[0]), results[0], node);
      placed(node.outputs[0]) = placed(node.inputs[0]);
      return;
    }
    if (view(node)) return;
    const bool certain = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v == no_value || (placed(v).certain && in_order(placed(v).at));
    });
    const std::string& name = node.op->name();
    const bool odd = name.find("attention") != std::string::npos || name.find("einsum") != std::string::npos;
    std::vector<HostTensor> results = evaluate(node);
    for (size_t i = 0; i < results.size(); ++i) {
      place(node.outputs[i], std::move(results[i]), certain && !odd);
      storages_.back().exact = exact_;
      storages_.back().narrow = narrow_;
    }
  }

  bool view(const Node& node) {
    const std::vector<SchemaArg>& args = node.op->schema.args;
    if (node.inputs.empty() || node.inputs[0] == no_value || args.empty() || !args[0].aliased) return false;
    const std::string& name = node.op->name();
    const Placed self = placed(node.inputs[0]);
    if (name.starts_with("aten.to.") || name == "aten.contiguous.default") {
      if (value_of(graph_, node.outputs[0]).type.dtype != self.type.dtype) return false;
      const bool copies =
          name == "aten.contiguous.default" ? !in_order(self.at) : call_of(graph_, node).boolean("copy");
      if (copies) return false;
      if (name == "aten.contiguous.default" && !self.certain) storages_[self.storage].doubtful = true;
      placed(node.outputs[0]) = self;
      return true;
    }
    if (name == "aten.as_strided.default") return as_strided(node, self);
    // Where the elements are is asked of the operator itself, about positions in the place of elements.
    Graph question;
    Node asked = node;
    const auto positions = [&](ValueId v) {
      return add_value(question, value_of(graph_, v).name, {DType::i64, value_of(graph_, v).type.shape});
    };
    HostTensor at = make_tensor({DType::i64, self.type.shape});
    for (size_t i = 0; i < self.at.size(); ++i)
      store_int(at.data.data(), DType::i64, static_cast<int64_t>(i), self.at[i]);
    const TensorView given = view_of(at);
    std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
    inputs[0] = &given;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != no_value) asked.inputs[i] = positions(node.inputs[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i) asked.outputs[i] = positions(node.outputs[i]);
    const std::vector<HostTensor> results = evaluate_call(call_of(question, asked), inputs);
    const bool reshapes = is_one_of(
        name, {"aten.reshape.default", "aten.flatten.using_ints", "aten.ravel.default", "aten.reshape_as.default"});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Placed result = self;
      result.type.shape = results[i].type.shape;
      result.at.resize(static_cast<size_t>(element_count(result.type.shape)));
      for (size_t e = 0; e < result.at.size(); ++e)
        result.at[e] = load_int(results[i].data.data(), DType::i64, static_cast<int64_t>(e));
      if (has_strides(result.type.shape, result.at) && (self.certain || !reshapes)) {
        placed(node.outputs[i]) = std::move(result);
        continue;
      }
      if (!reshapes) throw Unspecified(fmt::format("{}: no strides show this", node.name));
      const HostTensor copy = gather(result);
      place(node.outputs[i], copy, self.certain);
      storages_.back().exact = storages_[self.storage].exact;
      storages_.back().narrow = storages_[self.storage].narrow;
      if (self.certain) continue;
      storages_[self.storage].doubtful = true;
      storages_.back().doubtful = true;
    }
    return true;
  }

  // Strides of the storage, not of the tensor.
  bool as_strided(const Node& node, const Placed& self) {
    const OpCall call = call_of(graph_, node);
    const std::vector<int64_t> size = call.ints("size"), strides = call.ints("stride");
    if (!self.certain || self.at.empty()) throw Unspecified(fmt::format("{}: of unknown strides", node.name));
    const int64_t offset = call.is_none("storage_offset") ? self.at[0] : call.integer("storage_offset");
    Placed result = self;
    result.type.shape = size;
    result.at.assign(static_cast<size_t>(element_count(size)), offset);
    for (size_t i = 0; i < result.at.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      for (size_t d = size.size(); d-- > 0;) {
        result.at[i] += rest % size[d] * strides[d];
        rest /= size[d];
      }
      if (result.at[i] >= storages_[self.storage].elements.type.shape[0])
        throw Unspecified(fmt::format("{}: leaves its storage", node.name));
    }
    placed(node.outputs[0]) = std::move(result);
    return true;
  }

  const Graph& graph_;
  std::optional<NoiseSource> noise_;
  std::vector<Placed> tensors_;  // by value
  std::vector<Storage> storages_;
  bool exact_ = true, narrow_ = false;  // what was evaluated last
};

}  // namespace

void round_to(HostTensor& tensor, DType dtype) {
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
    store_double(tensor.data.data(), tensor.type.dtype, i,
                 round_through(dtype, load_double(tensor.data.data(), tensor.type.dtype, i)));
}

EagerResult run_eager(const Graph& graph, const Tensors& given, const Noise* noise) {
  return EagerRun(graph, given, noise).run();
}

}  // namespace npusim::test
