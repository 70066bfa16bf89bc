// Kernels for the mask, the next token and the next position.
#include "compiler/close_loop.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/nucleus.h"
#include "kernel/builder.h"
#include "kernel/draw.h"
#include "passes/states.h"

namespace npusim {
namespace {

constexpr int64_t most_parts = 256, least_in_part = 4;  // of the vocabulary, each searched by itself

class LoopCloser {
 public:
  LoopCloser(const MethodGraph& decode, std::string name, NextToken next)
      : method_(decode), next_(next), draws_(next != NextToken::likeliest) {
    method_.name = std::move(name);
  }

  std::optional<MethodGraph> run() {
    const int tokens = input_of(Role::tokens), position = input_of(Role::positions), logits = logits_of();
    if (tokens < 0 || position < 0 || logits < 0 || type_of(tokens).shape.back() != 1) return std::nullopt;
    const std::vector<int> updates = updates_of_inputs(graph_);
    if (std::none_of(updates.begin(), updates.end(), [](int output) { return output >= 0; })) return std::nullopt;
    const auto is_generator = [&](ValueId id) { return value_of(graph_, id).generator; };
    if (draws_ && std::any_of(graph_.inputs.begin(), graph_.inputs.end(), is_generator)) return std::nullopt;
    token_ = graph_.inputs[static_cast<size_t>(tokens)];
    position_ = graph_.inputs[static_cast<size_t>(position)];
    logits_ = graph_.outputs[static_cast<size_t>(logits)].value;
    replace_positions();
    replace_mask();
    drop_inputs();
    // Behind all that reads the old token and position.
    if (draws_) {
      generator_ = add_state("sampling", {DType::i64, {generator_size}}, Role::generator);
      value_of(graph_, generator_).generator = true;
      temperature_ = add_state("temperature", {DType::f32, {1}}, Role::temperature);
    }
    if (next_ == NextToken::drawn_of_nucleus) {
      const ValueId top_p = add_state("top_p", {DType::f32, {1}}, Role::top_p);
      nucleus_ = find_nucleus(graph_, logits_, temperature_, top_p, parts());
      if (!nucleus_) return std::nullopt;
    }
    choose_token();
    if (draws_) {
      update(generator_, {}, count_draw(), Role::generator, {});
      update(temperature_, {}, keep_temperature(), Role::temperature, {});
    }
    if (nucleus_) update(nucleus_->top_p, {}, keep_top_p(), Role::top_p, {});
    update(position_, {}, next_position(), Role::positions, {});
    const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), position_);
    graph_.position = static_cast<int>(at - graph_.inputs.begin());
    compact(graph_, {}, false);
    return std::move(method_);
  }

 private:
  int input_of(Role role) const {
    const auto found = std::find(method_.input_roles.begin(), method_.input_roles.end(), role);
    return found == method_.input_roles.end() ? -1 : static_cast<int>(found - method_.input_roles.begin());
  }
  int logits_of() const {
    const auto found = std::find(method_.output_roles.begin(), method_.output_roles.end(), Role::logits);
    return found == method_.output_roles.end() ? -1 : static_cast<int>(found - method_.output_roles.begin());
  }
  const TensorType& type_of(int input) const {
    return value_of(graph_, graph_.inputs[static_cast<size_t>(input)]).type;
  }

  // `input` becomes a value that `kernel` computes from the position, before everything else.
  void compute(ValueId input, Kernel kernel) {
    const Value& value = value_of(graph_, input);
    const ValueId result = add_value(graph_, value.name, value.type);
    Node node;
    node.name = value_of(graph_, input).name;
    node.inputs = {position_};
    node.outputs = {result};
    node.kernel = std::make_shared<const Kernel>(std::move(kernel));
    graph_.nodes.insert(graph_.nodes.begin(), std::move(node));
    replace(input, result);
  }

  void replace(ValueId from, ValueId to) {
    std::vector<ValueId> values(graph_.values.size());
    std::iota(values.begin(), values.end(), 0);
    values[static_cast<size_t>(from)] = to;
    replace_values(graph_, values);
    set_producers(graph_);
  }

  // There is one position, whatever the shapes of the inputs that give it.
  void replace_positions() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      if (method_.input_roles[i] != Role::positions || id == position_) continue;
      dropped_.push_back(id);
      if (value_of(graph_, id).type.dtype == value_of(graph_, position_).type.dtype) {
        replace(id, position_);
        continue;
      }
      KernelBuilder k({1});
      const Ex x = k.load_flat(k.input(value_of(graph_, position_).type));
      k.store_flat(k.output(value_of(graph_, id).type), x);
      compute(id, k.finish("position"));
    }
  }

  void replace_mask() {
    const int mask = input_of(Role::mask);
    if (mask < 0) return;
    const ValueId id = graph_.inputs[static_cast<size_t>(mask)];
    const TensorType type = value_of(graph_, id).type;
    const int last = static_cast<int>(type.shape.size()) - 1;
    KernelBuilder k(type.shape);
    const Coord first[] = {Coord(int64_t{0})};
    const Ex position = k.load(k.input({value_of(graph_, position_).type.dtype, {1}}), first);
    const Ex seen = k.index(last) <= position;
    const Scalar scalar = scalar_of(type.dtype);
    Ex value = seen;
    if (last == 1 && scalar != Scalar::boolean)  // ones
      value = scalar >= Scalar::f32 ? select(seen, k.number(1, scalar), k.number(0, scalar))
                                    : select(seen, k.integer(1), k.integer(0));
    else if (scalar != Scalar::boolean)  // added to scores
      value = select(seen, k.number(0, scalar), k.number(-std::numeric_limits<double>::infinity(), scalar));
    k.store(k.output(type), value);
    compute(id, k.finish("mask"));
    dropped_.push_back(id);
  }

  void drop_inputs() {
    for (const ValueId id : dropped_) {
      const auto found = std::find(graph_.inputs.begin(), graph_.inputs.end(), id);
      method_.input_roles.erase(method_.input_roles.begin() + (found - graph_.inputs.begin()));
      graph_.inputs.erase(found);
    }
  }

  // The first of the largest along the row, and its index; NaN counts as the largest.
  static std::pair<Ex, Ex> first_of_largest(KernelBuilder& k, Ex x, Ex index, int64_t none) {
    const Ex top = k.reduce(Reduction::max, x);
    return {top, k.reduce(Reduction::min, select(x == top || isnan(x), index, none))};
  }

  // Equal ones, for as many groups of threads.
  int64_t parts() const {
    const int64_t vocabulary = element_count(value_of(graph_, logits_).type.shape);
    int64_t parts = std::clamp<int64_t>(vocabulary / least_in_part, 1, most_parts);
    while (vocabulary % parts != 0) --parts;
    return parts;
  }

  // Parts of the vocabulary have a token each, then one is taken of these.
  void choose_token() {
    const DType dtype = value_of(graph_, logits_).type.dtype;
    const int64_t vocabulary = element_count(value_of(graph_, logits_).type.shape), parts = this->parts();
    const TensorType top_type{draws_ && dtype != DType::f64 ? DType::f32 : dtype, {parts}},
        token_type{DType::i64, {parts}};
    Node node;
    node.name = draws_ ? "drawn" : "likeliest";
    node.inputs = {logits_};
    if (draws_) node.inputs.insert(node.inputs.end(), {generator_, temperature_});
    if (nucleus_) node.inputs.insert(node.inputs.end(), {nucleus_->keys, nucleus_->thresholds, nucleus_->top_p});
    {
      KernelBuilder k({parts, vocabulary / parts}, 1);
      const Affine index = k.dim(0) * (vocabulary / parts) + k.dim(1);
      const Coord at[] = {index};
      Ex x = k.load(k.input({dtype, {vocabulary}}), at);
      if (draws_) x = add_noise(k, x, k.value(index), vocabulary);
      if (nucleus_) x = select(is_taken(k, index), x, -std::numeric_limits<double>::infinity());
      const auto [top, token] = first_of_largest(k, x, k.value(index), vocabulary);
      k.store(k.output(top_type), top);
      k.store(k.output(token_type), token);
      node.kernel = std::make_shared<const Kernel>(k.finish(node.name));
    }
    node.outputs = {add_value(graph_, node.name, top_type), add_value(graph_, node.name + "_tokens", token_type)};
    node.origins = origins_of(graph_, logits_);
    const std::vector<ValueId> found = node.outputs;
    add_node(graph_, std::move(node));

    KernelBuilder k({parts}, 1);
    const Coord at[] = {k.dim(0)}, first[] = {Coord(int64_t{0}), Coord(int64_t{0})};
    const Ex x = k.load(k.input(top_type), at), index = k.load(k.input(token_type), at);
    const int old = k.input(value_of(graph_, token_).type);
    const Ex token = first_of_largest(k, x, index, vocabulary).second;
    k.store(k.output(value_of(graph_, token_).type, old), first, token);
    update(token_, found, k.finish("next_token"), Role::tokens, origins_of(graph_, logits_));
  }

  // The largest of x + temperature * g, with g of Gumbel's distribution and each token's own, is a token drawn with the
  // probabilities of softmax(x / temperature).
  Ex add_noise(KernelBuilder& k, Ex x, Ex token, int64_t vocabulary) const {
    const int generator = k.input(value_of(graph_, generator_).type),
              heat = k.input(value_of(graph_, temperature_).type);
    const Coord seed[] = {Coord(int64_t{0})}, calls[] = {Coord(int64_t{1})};
    const Draw draw(k, k.load(generator, seed), k.load(generator, calls) + sampling_calls, token, vocabulary);
    return x + k.load(heat, seed) * -log(draw.exponential(Scalar::f32));
  }

  Ex is_taken(KernelBuilder& k, const Affine& token) const {
    const auto input = [&](ValueId id) { return k.input(value_of(graph_, id).type); };
    const int keys = input(nucleus_->keys), thresholds = input(nucleus_->thresholds), top_p = input(nucleus_->top_p);
    return contains(k, keys, thresholds, top_p, token);
  }

  Kernel count_draw() const {
    const TensorType& type = value_of(graph_, generator_).type;
    KernelBuilder k(type.shape);
    const int old = k.input(type);
    k.store_flat(k.output(type, old), k.load_flat(old) + k.index(0));  // the seed stays
    return k.finish("count_draw");
  }

  Kernel keep_temperature() const {
    const TensorType& type = value_of(graph_, temperature_).type;
    KernelBuilder k(type.shape);
    const int old = k.input(type);
    k.store_flat(k.output(type, old), max(k.load_flat(old), k.number(0)));
    return k.finish("keep_temperature");
  }

  Kernel keep_top_p() const {
    const TensorType& type = value_of(graph_, nucleus_->top_p).type;
    KernelBuilder k(type.shape);
    const int old = k.input(type);
    k.store_flat(k.output(type, old), min(k.load_flat(old), k.number(1)));
    return k.finish("keep_top_p");
  }

  Kernel next_position() const {
    const TensorType& type = value_of(graph_, position_).type;
    KernelBuilder k({1});
    const int old = k.input(type);
    const Ex next = k.load_flat(old) + 1;
    k.store_flat(k.output(type, old), next);
    return k.finish("next_position");
  }

  // An input, which update() makes a state of.
  ValueId add_state(std::string name, TensorType type, Role role) {
    const ValueId state = add_value(graph_, std::move(name), std::move(type));
    value_of(graph_, state).source = ValueSource::input;
    graph_.inputs.push_back(state);
    method_.input_roles.push_back(role);
    return state;
  }

  // Writes over `state`, which is an output too, what the kernel makes of `inputs` and of what it was.
  void update(ValueId state, std::vector<ValueId> inputs, Kernel kernel, Role role, std::vector<int32_t> origins) {
    const Value& value = value_of(graph_, state);
    const Shape shape = value.type.shape;
    Node node;
    node.name = kernel.name;
    node.inputs = std::move(inputs);
    node.inputs.push_back(state);
    node.outputs = {add_value(graph_, node.name, value.type)};
    node.kernel = std::make_shared<const Kernel>(std::move(kernel));
    node.origins = std::move(origins);
    graph_.outputs.push_back({node.name, node.outputs[0], shape});
    method_.output_roles.push_back(role);
    add_node(graph_, std::move(node));
  }

  MethodGraph method_;
  Graph& graph_ = method_.graph;
  NextToken next_;
  bool draws_;
  ValueId token_ = no_value, position_ = no_value, logits_ = no_value, generator_ = no_value, temperature_ = no_value;
  std::optional<Nucleus> nucleus_;
  std::vector<ValueId> dropped_;
};

}  // namespace

std::optional<MethodGraph> close_loop(const MethodGraph& decode, std::string name, NextToken next) {
  return LoopCloser(decode, std::move(name), next).run();
}

}  // namespace npusim
