// Well-formed calls, values and choices.
#include "random/maker.h"

#include <algorithm>

#include "base/error.h"
#include "graph/attrs.h"
#include "random/values.h"

namespace npusim::test {
namespace {

// Extents around the width of registers and tiles, and what lies beside them.
const std::vector<int64_t> small_extents{1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8};
const std::vector<int64_t> large_extents{9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 130};

constexpr size_t most_results = 8;  // of one call

// Multiplications and expressions that the reference would have to evaluate.
double work_of(const Lowering& lowering) {
  double work = 0;
  for (const Lowering::Call& call : lowering.calls) {
    const Kernel& k = call.kernel;
    double points = 1, inner = static_cast<double>(k.exprs.size());
    for (const int64_t n : k.space) points *= static_cast<double>(n);
    if (k.contraction) {
      double products = 1;
      for (const int64_t n : k.contraction->reduce) products *= static_cast<double>(n);
      if (k.contraction->score)
        for (const int64_t n : k.contraction->score->reduce) products *= static_cast<double>(n);
      inner += 2 * products;
    }
    work += points * inner;
  }
  return work;
}

}  // namespace

Maker::Maker(uint64_t seed, std::set<std::string> off)
    : random_(seed * 0x9e3779b97f4a7c15ULL + 1), off_(std::move(off)) {
  graph_.name = "random";
  const bool large = on("large") && chance(8);
  most_elements_ = large ? 60000 : 1500;
  work_left_ = large ? 600000 : 60000;
  for (int i = 0; i < 4; ++i) extents_.push_back(choose(i == 3 || large ? large_extents : small_extents));
  if (on("empty") && chance(4)) extents_.push_back(0);
  kinds_ = {"normal", "normal", "normal", "whole"};
  if (chance(30)) kinds_.emplace_back("wide");
  if (on("zeros") && chance(20)) kinds_.emplace_back("zeros");
  if (on("special") && chance(12)) kinds_.emplace_back("special");
  if (on("huge") && chance(4)) kinds_.emplace_back("huge");
  if (on("tiny") && chance(4)) kinds_.emplace_back("tiny");
  if (on("half") && chance(6)) real_dtype_ = chance(50) ? DType::f16 : DType::bf16;
  if (on("double") && chance(12)) real_dtype_ = DType::f64;
}

double Maker::real() {
  static const std::vector<double> numbers{0, 1, -1, 2, 0.5, -0.25, 3, 0.1, -1.5, 100};
  return choose(numbers);
}

int64_t Maker::extent() { return chance(8) ? 1 : choose(extents_); }
int64_t Maker::positive_extent() { return std::max<int64_t>(1, extent()); }

Shape Maker::shape(size_t least, size_t most) {
  Shape result;
  const auto rank = least + static_cast<size_t>(pick(static_cast<int64_t>(most - least) + 1));
  while (result.size() < rank) result.push_back(extent());
  while (element_count(result) > most_elements_) *std::max_element(result.begin(), result.end()) = 2;
  return result;
}

Shape Maker::broadcast_to(Shape shape) {
  if (!shape.empty() && chance(40))
    shape.erase(shape.begin(), shape.begin() + pick(static_cast<int64_t>(shape.size()) + 1));
  for (int64_t& extent : shape)
    if (chance(25)) extent = 1;
  return shape;
}

int64_t Maker::dim(const Shape& shape) {
  const auto rank = std::max<int64_t>(1, static_cast<int64_t>(shape.size()));
  return pick(rank) - (chance(30) ? rank : 0);
}

ValueId Maker::input(TensorType type, const std::string& kind) {
  const ValueId id = add_value(graph_, new_name("x") + "_" + kind, std::move(type));
  value_of(graph_, id).source = ValueSource::input;
  graph_.inputs.push_back(id);
  return id;
}

ValueId Maker::weight(TensorType type, const std::string& kind) {
  const ValueId id = add_value(graph_, new_name("w") + "_" + kind, std::move(type));
  value_of(graph_, id).source = ValueSource::weight;
  value_of(graph_, id).fqn = value_of(graph_, id).name;
  return id;
}

ValueId Maker::given(TensorType type, const std::string& kind) {
  const int64_t which = pick(10);
  if (which < 6) return input(std::move(type), kind);
  if (which < 9 || element_count(type.shape) > 64) return weight(std::move(type), kind);
  HostTensor data = make_values(new_name("c") + "_" + kind, type, random_());
  return add_constant(graph_, new_name("c"), std::move(data));
}

ValueId Maker::given_float(const Shape& shape, bool as_weight) {
  const std::string kind = choose(kinds_);
  return as_weight ? weight({real_dtype_, shape}, kind) : given({real_dtype_, shape}, kind);
}

ValueId Maker::index(const Shape& shape, int64_t below, bool distinct) {
  const DType dtype = chance(85) ? DType::i64 : DType::i32;
  return given({dtype, shape}, (distinct ? "distinct" : "below") + std::to_string(below));
}

ValueId Maker::some(const std::function<bool(const TensorType&)>& fits) {
  std::vector<ValueId> found;
  for (size_t v = graph_.values.size(); v-- > 0;)
    if (fits(graph_.values[v].type)) found.push_back(static_cast<ValueId>(v));
  if (found.empty()) return no_value;
  const size_t reach = chance(60) ? std::min<size_t>(3, found.size()) : found.size();
  return found[static_cast<size_t>(pick(static_cast<int64_t>(reach)))];
}

ValueId Maker::floats(size_t least_rank, size_t most_rank) {
  const auto fits = [&](const TensorType& t) {
    return is_float(t.dtype) && t.shape.size() >= least_rank && t.shape.size() <= most_rank;
  };
  const ValueId known = chance(90) ? some(fits) : no_value;
  return known != no_value
             ? known
             : given_float(shape(least_rank, std::min<size_t>(most_rank, std::max<size_t>(least_rank, 4))));
}

ValueId Maker::like(const Shape& wanted, ValueId other) {
  if (on("twice") && chance(20) && shape_of(other) == wanted) return other;
  const ValueId known =
      chance(60) ? some([&](const TensorType& t) { return is_float(t.dtype) && t.shape == wanted; }) : no_value;
  return known != no_value ? known : given_float(wanted);
}

ValueId Maker::partner(ValueId other) {
  const Shape of = shape_of(other);
  if (on("twice") && chance(20)) return other;
  const DType dtype = type(other).dtype;
  const auto broadcasts = [&](const TensorType& t) {
    if (is_float(t.dtype) != is_float(dtype) || t.shape.size() > of.size()) return false;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      const int64_t n = t.shape[t.shape.size() - 1 - d];
      if (n != 1 && n != of[of.size() - 1 - d]) return false;
    }
    return true;
  };
  const ValueId known = chance(65) ? some(broadcasts) : no_value;
  if (known != no_value) return known;
  const Shape wanted = chance(50) ? of : broadcast_to(of);
  if (is_float(dtype)) return given_float(wanted);
  return given({dtype, wanted}, chance(20) ? "big" : "small");
}

std::vector<ValueId> Maker::call(std::string_view name, const std::vector<Operand>& operands, const Attributes& attrs) {
  Node node;
  node.op = find_op(name);
  if (!node.op) fail(ErrorKind::internal, "random programs: no op {}", name);
  node.in_place = is_in_place(name);
  const std::vector<SchemaArg>& args = node.op->schema.args;
  node.attrs.resize(args.size());
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != ArgKind::tensor && args[i].kind != ArgKind::tensor_list) {
      node.attrs[i] = default_attr(args[i]);
      continue;
    }
    const Operand operand = next < operands.size() ? operands[next++] : Operand{};
    if (args[i].kind == ArgKind::tensor_list) node.list_sizes.push_back(static_cast<int>(operand.values.size()));
    if (operand.values.empty() && !operand.is_list) node.inputs.push_back(no_value);
    node.inputs.insert(node.inputs.end(), operand.values.begin(), operand.values.end());
    if (operand.number) node.attrs[i] = *operand.number;
  }
  for (const auto& [arg, attr] : attrs) {
    const int at = node.op->schema.find(arg);
    if (at < 0) fail(ErrorKind::internal, "random programs: {} has no {}", name, arg);
    node.attrs[static_cast<size_t>(at)] = attr;
  }
  OpCall question = call_of(graph_, node);
  try {
    if (!check_operands(node).empty()) return {};
    question.outputs = node.op->record.infer(question);
    if (node.in_place) {
      const TensorType target = type(node.inputs[0]);
      if (question.outputs[0].shape != target.shape) return {};
      const DType result = question.outputs[0].dtype;
      if ((is_float(result) && !is_float(target.dtype)) || (target.dtype == DType::boolean && result != DType::boolean))
        return {};
      question.outputs[0].dtype = target.dtype;
    }
    if (!check_call(question).empty()) return {};
    if (question.outputs.size() > most_results) return {};
    for (const TensorType& output : question.outputs)
      if (output.shape.size() > 6 || element_count(output.shape) > most_elements_) return {};
    const double work = work_of(lower_call(question));
    if (work > work_left_) return {};
    work_left_ -= work;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return {};
  }
  std::vector<ValueId> results;
  const std::string& full = node.op->name();
  const std::string stem = full.substr(5, full.find('.', 5) - 5) + "_";
  for (const TensorType& output : question.outputs) results.push_back(add_value(graph_, new_name(stem), output));
  node.name = value_of(graph_, results.empty() ? 0 : results[0]).name;
  node.outputs = results;
  add_node(graph_, std::move(node));
  return results;
}

ValueId Maker::one(std::string_view op, const std::vector<Operand>& operands, const Attributes& attrs) {
  const std::vector<ValueId> results = call(op, operands, attrs);
  return results.empty() ? no_value : results[0];
}

}  // namespace npusim::test
