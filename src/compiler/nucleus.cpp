// A search for a key: digit by digit, with the sum of all weights from a key on for each value of the next digit.  A
// weight is exp((x − largest) / temperature) as a whole number of 2^-40, so that sums do not depend on their order.
// Below it a key has how many tokens come behind: no two keys are equal, larger keys are of likelier tokens, or of
// those that come before equally likely ones. What is searched is the largest key from which on the weights reach top_p
// of all weights; every prefix of its digits, followed by zeros, reaches it too.
#include "compiler/nucleus.h"

#include <bit>
#include <utility>

namespace npusim {
namespace {

constexpr int weight_bits = 40, digit_bits = 4;
constexpr int share_bits = 24;      // top_p as a whole number, which a float32 holds
constexpr int most_positions = 21;  // bits: a key, and the sum of all weights, have 62 then

// The largest of a few elements, which every point of the space loads.
Ex largest_of(KernelBuilder& k, int arg) {
  std::optional<Ex> largest;
  for (int64_t i = 0; i < k.shape(arg)[0]; ++i) {
    const Coord at[] = {i};
    const Ex x = k.load(arg, at);
    largest = largest ? max(*largest, x) : x;
  }
  return *largest;
}

class Search {
 public:
  Search(Graph& graph, ValueId logits, ValueId temperature, ValueId top_p, int64_t parts)
      : graph_(graph),
        logits_(logits),
        temperature_(temperature),
        top_p_(top_p),
        parts_(parts),
        vocabulary_(element_count(value_of(graph, logits).type.shape)),
        index_bits_(std::bit_width(static_cast<uint64_t>(vocabulary_ - 1))) {}

  std::optional<Nucleus> run() {
    if (index_bits_ > most_positions) return std::nullopt;
    const auto [keys, weights] = weigh(largest_logit());
    const ValueId target = find_target(weights);
    ValueId thresholds = no_value;
    for (int bits = weight_bits + 1 + index_bits_, shift = bits; shift > 0; bits = shift) {
      shift = (bits - 1) / digit_bits * digit_bits;
      thresholds = next_digit(keys, target, thresholds, int64_t{1} << (bits - shift), shift);
    }
    return Nucleus{keys, thresholds, top_p_};
  }

 private:
  ValueId add(std::vector<ValueId> inputs, KernelBuilder& k, const std::string& name, const TensorType& type) {
    return add_all(std::move(inputs), k, name, {type})[0];
  }
  std::vector<ValueId> add_all(std::vector<ValueId> inputs, KernelBuilder& k, const std::string& name,
                               const std::vector<TensorType>& types) {
    Node node;
    node.name = name;
    node.inputs = std::move(inputs);
    node.kernel = std::make_shared<const Kernel>(k.finish(name));
    for (const TensorType& type : types) node.outputs.push_back(add_value(graph_, name, type));
    node.origins = origins_of(graph_, logits_);
    const std::vector<ValueId> outputs = node.outputs;
    add_node(graph_, std::move(node));
    return outputs;
  }

  Affine position(KernelBuilder& k, int part, int within) const {
    return k.dim(part) * (vocabulary_ / parts_) + k.dim(within);
  }

  ValueId largest_logit() {
    const DType dtype = value_of(graph_, logits_).type.dtype;
    const TensorType some{dtype, {parts_}}, one{dtype, {1}};
    KernelBuilder in_part({parts_, vocabulary_ / parts_}, 1);
    const Coord at[] = {position(in_part, 0, 1)};
    const Ex largest = in_part.reduce(Reduction::max, in_part.load(in_part.input({dtype, {vocabulary_}}), at));
    in_part.store(in_part.output(some), largest);
    const ValueId in_parts = add({logits_}, in_part, "largest_in_parts", some);

    KernelBuilder k({parts_}, 1);
    const Coord part[] = {k.dim(0)}, first[] = {int64_t{0}};
    const Ex of_all = k.reduce(Reduction::max, k.load(k.input(some), part));
    k.store(k.output(one), first, of_all);
    return add({in_parts}, k, "largest_logit", one);
  }

  // Keys, and the sum of each part's weights. The largest logit has weight 1 whatever it is, and so has NaN, which is
  // taken before all; with an infinite one, or at a temperature of 0, nothing else has any.
  std::pair<ValueId, ValueId> weigh(ValueId top) {
    const TensorType keys{DType::i64, {vocabulary_}}, sums{DType::i64, {parts_}};
    KernelBuilder k({parts_, vocabulary_ / parts_}, 1);
    const Affine token = position(k, 0, 1);
    const Coord at[] = {token}, first[] = {int64_t{0}};
    const Ex x = k.load(k.input({value_of(graph_, logits_).type.dtype, {vocabulary_}}), at);
    const Ex largest = k.load(k.input(value_of(graph_, top).type), first);
    const Ex heat = max(k.load(k.input(value_of(graph_, temperature_).type), first), 0);
    const Ex e = exp(k.cast(x - largest, Scalar::f32) / heat);
    const Ex share = select(x == largest || isnan(x), k.number(1), select(e >= 0, min(e, 1), k.number(0)));
    const Ex weight = k.cast(share * static_cast<double>(int64_t{1} << weight_bits), Scalar::i64);
    const Ex behind = k.integer(vocabulary_ - 1) - k.value(token);
    k.store(k.output(keys), at, weight * (int64_t{1} << index_bits_) + behind);
    k.store(k.output(sums), k.reduce(Reduction::sum, weight));
    const std::vector<ValueId> found = add_all({logits_, top, temperature_}, k, "weights_of_tokens", {keys, sums});
    return {found[0], found[1]};
  }

  // The least sum of weights that is not below top_p of all, and not 0. The product has more than 64 bits.
  ValueId find_target(ValueId weights) {
    const TensorType one{DType::i64, {1}};
    KernelBuilder k({parts_}, 1);
    const Coord part[] = {k.dim(0)}, first[] = {int64_t{0}};
    const Ex sum = k.reduce(Reduction::sum, k.load(k.input({DType::i64, {parts_}}), part));
    const Ex p = k.load(k.input(value_of(graph_, top_p_).type), first);
    constexpr int64_t whole = int64_t{1} << share_bits;
    const Ex share = k.cast(select(p >= 0, min(p, 1), k.number(0)) * static_cast<double>(whole), Scalar::i64);
    const Ex high = shr(sum, k.integer(share_bits)), low = bit_and(sum, k.integer(whole - 1));
    const Ex target = high * share + shr(low * share + (whole - 1), k.integer(share_bits));
    k.store(k.output(one), first, max(target, 1));
    return add({weights, top_p_}, k, "share_of_weights", one);
  }

  // `values` keys: what was found of the key with each value of the digit at `shift`, and 0 for those from which on the
  // weights are fewer than `target`. With 0 for the digit they never are.
  ValueId next_digit(ValueId keys, ValueId target, ValueId before, int64_t values, int shift) {
    const TensorType sums{DType::i64, {parts_, values}}, found{DType::i64, {values}};
    const auto threshold = [&](KernelBuilder& k, int digit) {
      const Ex last = k.index(digit) * (int64_t{1} << shift);
      return before == no_value ? last : largest_of(k, k.input(value_of(graph_, before).type)) + last;
    };
    const auto inputs = [&](std::vector<ValueId> values_of) {
      if (before != no_value) values_of.push_back(before);
      return values_of;
    };
    KernelBuilder in_part({parts_, values, vocabulary_ / parts_}, 1);
    const Coord at[] = {position(in_part, 0, 2)};
    const Ex key = in_part.load(in_part.input({DType::i64, {vocabulary_}}), at);
    const Ex weight = select(key >= threshold(in_part, 1), shr(key, in_part.integer(index_bits_)), 0);
    const Ex in_sum = in_part.reduce(Reduction::sum, weight);
    in_part.store(in_part.output(sums), in_sum);
    const ValueId in_parts = add(inputs({keys}), in_part, "weights_from_keys", sums);

    KernelBuilder k({values, parts_}, 1);
    const Coord of_part[] = {k.dim(1), k.dim(0)}, first[] = {int64_t{0}};
    const Ex sum = k.reduce(Reduction::sum, k.load(k.input(sums), of_part));
    const Ex least = k.load(k.input({DType::i64, {1}}), first);
    const Ex reached = select(sum >= least, threshold(k, 0), 0);
    k.store(k.output(found), reached);
    return add(inputs({in_parts, target}), k, "digit_of_key", found);
  }

  Graph& graph_;
  ValueId logits_, temperature_, top_p_;
  int64_t parts_, vocabulary_;
  int index_bits_;
};

}  // namespace

std::optional<Nucleus> find_nucleus(Graph& graph, ValueId logits, ValueId temperature, ValueId top_p, int64_t parts) {
  return Search(graph, logits, temperature, top_p, parts).run();
}

Ex contains(KernelBuilder& k, int keys, int thresholds, int top_p, const Affine& position) {
  const Coord at[] = {position}, first[] = {int64_t{0}};
  return k.load(keys, at) >= largest_of(k, thresholds) || k.load(top_p, first) >= 1;
}

}  // namespace npusim
