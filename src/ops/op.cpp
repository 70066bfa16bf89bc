// Lookup of op records, typed access to a call's arguments, lowering and reference evaluation of one call.
#include "ops/op.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/error.h"
#include "kernel/evaluate.h"
#include "ops/tables.h"

namespace npusim {
namespace {

// In-place overloads whose functional form has another overload name.
constexpr std::pair<std::string_view, std::string_view> renamed_overloads[] = {
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar"},
    {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.transpose_.default", "aten.transpose.int"},
    {"aten.normal_.default", "aten.normal_functional.default"},
    {"aten.bernoulli_.float", "aten.bernoulli.p"},
};

// "aten.relu_.default" -> "aten.relu.default", "aten.__iand__.Tensor" -> "aten.__and__.Tensor"; empty if it has no
// in-place form.
std::string functional_name(std::string_view name) {
  for (const auto& [in_place, functional] : renamed_overloads)
    if (name == in_place) return std::string(functional);
  if (name.starts_with("aten.__i")) return "aten.__" + std::string(name.substr(8));
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name[dot - 1] != '_' || !name.starts_with("aten.")) return {};
  if (dot >= 2 && name[dot - 2] == '_') return {};  // dunder names
  return std::string(name.substr(0, dot - 1)) + std::string(name.substr(dot));
}

int position(const OpCall& call, std::string_view arg) {
  const int at = call.op->schema.find(arg);
  if (at < 0) fail(ErrorKind::internal, "{} has no argument {}", call.op->name(), arg);
  return at;
}

// What stands before an argument of the schema.
struct Before {
  int inputs = 0;
  size_t lists = 0;
};
Before operands_before(const OpCall& call, std::string_view arg) {
  const int wanted = position(call, arg);
  Before before;
  for (int i = 0; i < wanted; ++i) {
    const ArgKind kind = call.op->schema.args[static_cast<size_t>(i)].kind;
    if (kind == ArgKind::tensor)
      ++before.inputs;
    else if (kind == ArgKind::tensor_list)
      before.inputs += call.list_sizes[before.lists++];
  }
  return before;
}

[[noreturn]] void wrong_kind(const OpCall& call, std::string_view arg, const char* expected, const Attr& found) {
  fail(ErrorKind::bad_input, "{}: argument {} must be {}, found {}", call.op->name(), arg, expected, to_string(found));
}

}  // namespace

std::string_view family_name(OpFamily family) {
  constexpr std::array<std::string_view, 6> names{"formula", "view", "contract", "reduce", "index", "create"};
  return names[static_cast<size_t>(family)];
}

const std::map<std::string, Op, std::less<>>& op_table() {
  static const auto table = [] {
    std::map<std::string, Op, std::less<>> ops;
    for (std::span<const OpRecord> records : op_tables())
      for (const OpRecord& record : records) {
        Schema schema = parse_schema(record.schema);
        std::string name = schema.name;
        if (!ops.emplace(name, Op{record, std::move(schema)}).second)
          fail(ErrorKind::internal, "two records for {}", name);
      }
    return ops;
  }();
  return table;
}

const Op* find_op(std::string_view name) {
  const auto& table = op_table();
  if (auto it = table.find(name); it != table.end()) return &it->second;
  if (auto it = table.find(functional_name(name)); it != table.end()) return &it->second;
  return nullptr;
}

bool is_in_place(std::string_view name) {
  const auto& table = op_table();
  return table.find(name) == table.end() && table.find(functional_name(name)) != table.end();
}

int OpCall::tensor(std::string_view arg) const {
  const int at = operands_before(*this, arg).inputs;
  return inputs[static_cast<size_t>(at)] ? at : -1;
}

int OpCall::tensor_or_number(std::string_view arg) const {
  const int at = op->schema.find(arg);
  return at >= 0 && op->schema.args[static_cast<size_t>(at)].kind == ArgKind::tensor ? tensor(arg) : -1;
}

std::vector<int> OpCall::list(std::string_view arg) const {
  const auto [first, lists] = operands_before(*this, arg);
  std::vector<int> positions;
  for (int i = 0; i < list_sizes[lists]; ++i) positions.push_back(first + i);
  return positions;
}

const TensorType& OpCall::type(std::string_view arg) const {
  const int at = tensor(arg);
  if (at < 0) fail(ErrorKind::bad_input, "{}: argument {} must be a tensor", op->name(), arg);
  return *inputs[static_cast<size_t>(at)];
}

const Attr& OpCall::attr(std::string_view arg) const { return attrs[static_cast<size_t>(position(*this, arg))]; }
bool OpCall::is_none(std::string_view arg) const { return std::holds_alternative<std::monostate>(attr(arg)); }

bool OpCall::boolean(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const bool* b = std::get_if<bool>(&a)) return *b;
  if (const int64_t* i = std::get_if<int64_t>(&a)) return *i != 0;
  wrong_kind(*this, arg, "true or false", a);
}

int64_t OpCall::integer(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const int64_t* i = std::get_if<int64_t>(&a)) return *i;
  if (const bool* b = std::get_if<bool>(&a)) return *b;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a); v && v->size() == 1) return (*v)[0];
  if (const double* d = std::get_if<double>(&a); d && *d == static_cast<double>(to_integer(*d))) return to_integer(*d);
  wrong_kind(*this, arg, "an integer", a);
}

double OpCall::number(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const double* d = std::get_if<double>(&a)) return *d;
  if (const int64_t* i = std::get_if<int64_t>(&a)) return static_cast<double>(*i);
  if (const bool* b = std::get_if<bool>(&a)) return *b;
  wrong_kind(*this, arg, "a number", a);
}

bool OpCall::is_real(std::string_view arg) const { return std::holds_alternative<double>(attr(arg)); }

std::optional<DType> OpCall::dtype(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const DType* d = std::get_if<DType>(&a)) return *d;
  if (std::holds_alternative<std::monostate>(a)) return std::nullopt;
  wrong_kind(*this, arg, "a dtype", a);
}

std::string OpCall::text(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const std::string* s = std::get_if<std::string>(&a)) return *s;
  wrong_kind(*this, arg, "a string", a);
}

static const Attr& schema_default(const Op& op, std::string_view arg) {
  static const Attr none;
  const int at = op.schema.find(arg);
  return at < 0 ? none : op.schema.args[static_cast<size_t>(at)].default_value;
}

std::vector<int64_t> OpCall::ints(std::string_view arg, size_t size) const {
  const Attr& a = attr(arg);
  std::vector<int64_t> list;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a))
    list = *v;
  else if (const int64_t* i = std::get_if<int64_t>(&a))
    list = {*i};
  else if (!std::holds_alternative<std::monostate>(a))
    wrong_kind(*this, arg, "a list of integers", a);
  if (size && list.size() == 1) list.assign(size, list[0]);
  // Empty is what None is, or what the schema has where nothing is said: stride=[].
  const bool may_be_empty = std::holds_alternative<std::monostate>(a) || a == schema_default(*op, arg);
  if (size && list.size() != size && !(list.empty() && may_be_empty))
    fail(ErrorKind::bad_input, "{}: argument {} must have {} elements, found {}", op->name(), arg, size, to_string(a));
  return list;
}

std::vector<double> OpCall::reals(std::string_view arg) const {
  const Attr& a = attr(arg);
  if (const auto* v = std::get_if<std::vector<double>>(&a)) return *v;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a)) return {v->begin(), v->end()};
  if (std::holds_alternative<std::monostate>(a)) return {};
  wrong_kind(*this, arg, "a list of numbers", a);
}

int Lowering::temporary(TensorType type) {
  temporaries.push_back(std::move(type));
  return static_cast<int>(call.inputs.size() + call.outputs.size() + temporaries.size()) - 1;
}

const TensorType& Lowering::type(int operand) const {
  auto at = static_cast<size_t>(operand);
  if (at < call.inputs.size()) return *call.inputs[at];
  at -= call.inputs.size();
  if (at < call.outputs.size()) return call.outputs[at];
  return temporaries[at - call.outputs.size()];
}

int OpKernel::read(int operand) {
  const auto known = std::find(operands_.begin(), operands_.end(), operand);
  if (known != operands_.end()) return static_cast<int>(known - operands_.begin());
  operands_.push_back(operand);
  return input(lowering_.type(operand));
}

int OpKernel::write(int operand, int updates) {
  operands_.push_back(operand);
  return output(lowering_.type(operand), updates);
}

void OpKernel::done(std::string name) { lowering_.calls.push_back({finish(std::move(name)), std::move(operands_)}); }

// What measures windows and repetitions is no larger than any dimension can be, so that records may calculate with it.
static std::string check_sizes(const OpCall& call) {
  constexpr int64_t largest = int64_t{1} << 30;
  constexpr std::string_view sizes[] = {"kernel_size",
                                        "stride",
                                        "padding",
                                        "dilation",
                                        "output_padding",
                                        "output_size",
                                        "pad",
                                        "repeats",
                                        "block_size",
                                        "upscale_factor",
                                        "num_classes",
                                        "downscale_factor",
                                        "diagonal",
                                        "offset",
                                        "row",
                                        "col",
                                        "dims"};
  for (const SchemaArg& arg : call.op->schema.args) {
    const bool list = arg.kind == ArgKind::int_list;
    if ((!list && arg.kind != ArgKind::integer) ||
        std::find(std::begin(sizes), std::end(sizes), arg.name) == std::end(sizes))
      continue;
    if (call.is_none(arg.name)) continue;
    for (int64_t value : list ? call.ints(arg.name) : std::vector<int64_t>{call.integer(arg.name)})
      if (value > largest || value < -largest) return fmt::format("{}={} is beyond any dimension", arg.name, value);
  }
  return {};
}

std::string check_call(const OpCall& call) {
  const OpRecord& record = call.op->record;
  if (std::string problem = check_sizes(call); !problem.empty()) return problem;
  if (record.refuse)
    if (std::string reason = record.refuse(call); !reason.empty()) return reason;
  if (!record.infer) return {};
  OpCall question = call;
  question.outputs.clear();
  const std::vector<TensorType> expected = record.infer(question);
  if (expected.size() != call.outputs.size())
    return fmt::format("declares {} results, expected {}", call.outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i].shape != call.outputs[i].shape)
      return fmt::format("declares result {} as {}, expected {}", i, to_string(call.outputs[i]),
                         to_string(expected[i]));
  return {};
}

Lowering lower_call(const OpCall& call) {
  Lowering lowering(call);
  call.op->record.lower(call, lowering);
  return lowering;
}

std::vector<HostTensor> evaluate_call(const OpCall& call, std::span<const TensorView* const> inputs, bool single) {
  const Lowering lowering = lower_call(call);
  std::vector<HostTensor> outputs, temporaries;
  for (const TensorType& type : call.outputs) outputs.push_back(make_tensor(type));
  for (const TensorType& type : lowering.temporaries) temporaries.push_back(make_tensor(type));
  auto memory = [&](int operand) -> void* {
    auto at = static_cast<size_t>(operand);
    if (at < inputs.size()) return const_cast<std::byte*>(inputs[at]->data);
    at -= inputs.size();
    return at < outputs.size() ? outputs[at].data.data() : temporaries[at - outputs.size()].data.data();
  };
  for (const Lowering::Call& step : lowering.calls) {
    std::vector<void*> args;
    for (int operand : step.operands) args.push_back(memory(operand));
    for (size_t i = 0; i < step.kernel.args.size(); ++i) {
      const KernelArg& arg = step.kernel.args[i];
      if (arg.updates < 0) continue;
      const auto bytes = static_cast<size_t>(arg.elements) * dtype_size(arg.dtype);
      const auto* source = static_cast<const std::byte*>(args[static_cast<size_t>(arg.updates)]);
      std::copy(source, source + bytes, static_cast<std::byte*>(args[i]));
    }
    evaluate(step.kernel, args, single);
  }
  return outputs;
}

}  // namespace npusim
