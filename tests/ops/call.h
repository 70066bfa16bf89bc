// Calls of one op made by hand: operands in schema order, attributes by name, results as the record infers them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/op.h"

namespace npusim::testing_ops {

inline HostTensor tensor(DType dtype, Shape shape, const std::vector<double>& values) {
  HostTensor t = make_tensor({dtype, std::move(shape)});
  for (size_t i = 0; i < values.size(); ++i) store_double(t.data.data(), dtype, static_cast<int64_t>(i), values[i]);
  return t;
}
inline HostTensor floats(Shape shape, const std::vector<double>& values) {
  return tensor(DType::f32, std::move(shape), values);
}
// 0, 1, 2, … in the shape.
inline HostTensor counting(Shape shape, DType dtype = DType::f32) {
  HostTensor t = make_tensor({dtype, std::move(shape)});
  for (int64_t i = 0; i < element_count(t.type.shape); ++i)
    store_double(t.data.data(), dtype, i, static_cast<double>(i));
  return t;
}
inline std::vector<double> values(const HostTensor& t) {
  std::vector<double> list;
  for (int64_t i = 0; i < element_count(t.type.shape); ++i) list.push_back(load_double(t.data.data(), t.type.dtype, i));
  return list;
}

class HandCall {
 public:
  using Attrs = std::map<std::string, Attr>;

  // One operand per Tensor argument and list element, nullopt for None; missing ones at the end are None.
  HandCall(std::string_view name, std::vector<std::optional<HostTensor>> operands, const Attrs& attrs = {},
           std::vector<int> list_sizes = {})
      : operands_(std::move(operands)) {
    call_.op = find_op(name);
    if (!call_.op) fail(ErrorKind::internal, "no record for {}", name);
    size_t needed = 0, list = 0;
    for (const SchemaArg& arg : call_.op->schema.args) {
      const auto given = attrs.find(arg.name);
      attrs_.push_back(given != attrs.end() ? given->second : arg.default_value);
      needed += arg.kind == ArgKind::tensor;
      if (arg.kind == ArgKind::tensor_list) needed += static_cast<size_t>(list_sizes[list++]);
    }
    operands_.resize(needed);
    for (const auto& operand : operands_) {
      call_.inputs.push_back(operand ? &operand->type : nullptr);
      views_.push_back(operand ? view_of(*operand) : TensorView{});
    }
    call_.list_sizes = std::move(list_sizes);
    call_.attrs = attrs_;
  }
  HandCall(const HandCall&) = delete;
  HandCall& operator=(const HandCall&) = delete;

  const OpCall& call() const { return call_; }

  // Why the call is refused or does not fit; empty when it does.
  std::string problem() {
    try {
      if (const OpRecord& record = call_.op->record; record.refuse)
        if (std::string reason = record.refuse(call_); !reason.empty()) return reason;
      call_.outputs.clear();
      call_.outputs = call_.op->record.infer(call_);
      return check_call(call_);
    } catch (const Error& error) {
      return error.what();
    }
  }

  Lowering lowered() {
    if (const std::string text = problem(); !text.empty()) fail(ErrorKind::internal, "{}", text);
    return lower_call(call_);
  }

  std::vector<HostTensor> run() {
    lowered();
    std::vector<const TensorView*> inputs;
    for (size_t i = 0; i < views_.size(); ++i) inputs.push_back(operands_[i] ? &views_[i] : nullptr);
    return evaluate_call(call_, inputs);
  }

 private:
  std::vector<std::optional<HostTensor>> operands_;
  std::vector<TensorView> views_;
  std::vector<Attr> attrs_;
  OpCall call_;
};

// The first result's elements.
inline std::vector<double> result(std::string_view name, std::vector<std::optional<HostTensor>> operands,
                                  const HandCall::Attrs& attrs = {}) {
  return values(HandCall(name, std::move(operands), attrs).run()[0]);
}
inline std::string problem(std::string_view name, std::vector<std::optional<HostTensor>> operands,
                           const HandCall::Attrs& attrs = {}) {
  return HandCall(name, std::move(operands), attrs).problem();
}

}  // namespace npusim::testing_ops
