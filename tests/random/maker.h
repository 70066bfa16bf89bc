// The making of a random graph: random choices, values to read, calls that are appended where they are well-formed.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace npusim::test {

// An operand: a value, a list of values, a number in a tensor's place, or None.
struct Operand {
  std::vector<ValueId> values;
  bool is_list = false;
  std::optional<double> number;
  Operand() = default;
  Operand(ValueId value) : values{value} {}
  Operand(std::vector<ValueId> list) : values(std::move(list)), is_list(true) {}
};
inline Operand number_operand(double number) {
  Operand operand;
  operand.number = number;
  return operand;
}
using Attributes = std::vector<std::pair<std::string, Attr>>;

class Maker {
 public:
  Maker(uint64_t seed, std::set<std::string> off);

  // Random choices.
  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(count)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <typename T>
  const T& choose(const std::vector<T>& from) {
    return from[static_cast<size_t>(pick(static_cast<int64_t>(from.size())))];
  }
  double real();  // a scalar operand
  bool on(const std::string& feature) const { return !off_.contains(feature); }

  // Shapes.
  int64_t extent();                        // one of this graph's extents
  int64_t positive_extent();               // not 0
  Shape shape(size_t least, size_t most);  // of this many dimensions
  Shape broadcast_to(Shape shape);         // some dimensions 1, some leading ones left out
  int64_t dim(const Shape& shape);         // may be negative, as ATen counts

  // New values.
  ValueId input(TensorType type, const std::string& kind);
  ValueId weight(TensorType type, const std::string& kind);
  ValueId given(TensorType type, const std::string& kind);  // an input, a weight or a constant
  ValueId given_float(const Shape& shape, bool as_weight = false);
  ValueId index(const Shape& shape, int64_t below, bool distinct = false);

  // Values there are, the youngest most likely; no_value when none will do, which is never so for floats().
  ValueId some(const std::function<bool(const TensorType&)>& fits);
  ValueId floats(size_t least_rank = 0, size_t most_rank = 8);
  ValueId like(const Shape& shape, ValueId other);  // of this shape: known (perhaps `other` itself) or new
  ValueId partner(ValueId other);                   // of a shape that broadcasts with other's, often other itself

  // Appends the call and returns its results; nothing where the op refuses the operands, the work would be too much, or
  // the result of an in-place form does not fit its operand.
  std::vector<ValueId> call(std::string_view op, const std::vector<Operand>& operands, const Attributes& attrs = {});
  ValueId one(std::string_view op, const std::vector<Operand>& operands, const Attributes& attrs = {});  // no_value

  // By value: calls add values, which moves them.
  TensorType type(ValueId id) const { return value_of(graph_, id).type; }
  Shape shape_of(ValueId id) const { return type(id).shape; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape_of(id).size()); }
  ValueSource source(ValueId id) const { return value_of(graph_, id).source; }

  Graph& graph() { return graph_; }
  std::mt19937_64& random() { return random_; }
  DType real_dtype() const { return real_dtype_; }

 private:
  std::string new_name(const std::string& stem) { return stem + std::to_string(count_++); }

  std::mt19937_64 random_;
  std::set<std::string> off_;
  Graph graph_;
  std::vector<int64_t> extents_;
  std::vector<std::string> kinds_;  // of this graph's floats
  DType real_dtype_ = DType::f32;
  int64_t most_elements_ = 0;
  double work_left_ = 0;
  int count_ = 0;
};

// One way to go on: appends calls; false when it could not.
struct Action {
  const char* name;
  int weight;
  bool (*run)(Maker&);
};
std::vector<Action> pointwise_actions();
std::vector<Action> reduce_actions();
std::vector<Action> contract_actions();
std::vector<Action> attention_actions();
std::vector<Action> view_actions();
std::vector<Action> index_actions();
std::vector<Action> update_actions();

// What several of them use.
bool epilogue(Maker& m, ValueId value);        // pointwise calls behind a value, some of which read it twice
ValueId random_view(Maker& m, ValueId value);  // no_value when none was made
std::string unary_op(Maker& m);                // a formula of one float operand

}  // namespace npusim::test
