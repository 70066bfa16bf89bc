// The rules of x[indices].
#include "ops/advanced_index.h"

#include "base/error.h"

namespace npusim {

int in_result_dtype(Lowering& lowering, int operand, int result) {
  const TensorType type = lowering.type(operand);
  const DType wanted = lowering.type(lowering.output(result)).dtype;
  if (type.dtype == wanted) return operand;
  const int copy = lowering.temporary({wanted, type.shape});
  lower_flat(lowering, "cast", operand, copy);
  return copy;
}

Updated updated_result(Lowering& lowering, bool adds) {
  const int result = lowering.output(0);
  const TensorType type = lowering.type(result);
  const DType dtype = updated_dtype(type.dtype, adds);
  if (dtype == type.dtype) return {in_result_dtype(lowering, lowering.input(0)), result};
  const int from = lowering.temporary({dtype, type.shape}), to = lowering.temporary({dtype, type.shape});
  lower_flat(lowering, "cast", lowering.input(0), from);
  return {from, to};
}

void round_update(Lowering& lowering, Updated updated) {
  if (updated.to != lowering.output(0)) lower_flat(lowering, "cast", updated.to, lowering.output(0));
}

void need_index(const OpCall& call, const TensorType& type) {
  if (!is_integer(type.dtype))
    fail(ErrorKind::bad_input, "{}: an index must be of integers, found {}", call.op->name(), to_string(type));
}

std::string AdvancedIndex::refuse(const OpCall& call) {
  for (int operand : call.list("indices")) {
    const TensorType* type = call.inputs[static_cast<size_t>(operand)];
    if (type && (type->dtype == DType::boolean || type->dtype == DType::u8))
      return "the shape of a result indexed with a mask is not known before it runs";
  }
  return {};
}

AdvancedIndex::AdvancedIndex(const OpCall& call) : self_(call.type("self").shape) {
  operands_.assign(self_.size(), -1);
  size_t d = 0;
  for (int operand : call.list("indices")) {
    const TensorType* type = call.inputs[static_cast<size_t>(operand)];
    if (d >= self_.size())
      fail(ErrorKind::bad_input, "{}: more indices than {} has dimensions", call.op->name(), to_string(self_));
    if (type) {
      need_index(call, *type);
      broadcast = broadcast_shapes(broadcast, type->shape);
      operands_[d] = operand;
    }
    ++d;
  }
  bool begun = false, ended = false, apart = false;
  for (size_t i = 0; i < self_.size(); ++i) {
    if (operands_[i] < 0) {
      ended = begun;
      if (!begun) ++first;
    } else {
      apart = apart || ended;
      begun = true;
    }
  }
  if (apart || !begun) first = 0;
  for (size_t i = 0; i < self_.size(); ++i)
    if (operands_[i] < 0) shape.push_back(self_[i]);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(first), broadcast.begin(), broadcast.end());
}

std::vector<Coord> AdvancedIndex::coordinates(OpKernel& k) const {
  std::vector<Coord> at;
  size_t kept = 0;
  for (size_t d = 0; d < self_.size(); ++d) {
    if (operands_[d] < 0) {
      at.emplace_back(k.dim(static_cast<int>(kept < first ? kept : kept + broadcast.size())));
      ++kept;
      continue;
    }
    const int arg = k.read(operands_[d]);
    const Shape& own = k.shape(arg);
    std::vector<Coord> from;
    for (size_t i = 0; i < own.size(); ++i)
      from.emplace_back(own[i] == 1 ? Affine{} : k.dim(static_cast<int>(first + broadcast.size() - own.size() + i)));
    at.emplace_back(wrapped(k.load(arg, from), self_[d]));
  }
  return at;
}

}  // namespace npusim
