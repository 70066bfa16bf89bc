// The plugin over PyTorch's own library: operators by their schemas, through its boxed dispatcher.
//
// An operator is taken if a call of it is a function of its arguments alone: no random numbers, no results whose
// extents depend on values, nothing but tensors returned. It is asked for shapes where it can be without data, so that
// most calls that it would refuse are refused when they are prepared.
#include "aten/plugin.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::pair<const char*, at::ScalarType> dtypes[] = {
    {"bool", at::kBool},     {"uint8", at::kByte},    {"int8", at::kChar},    {"int16", at::kShort},
    {"int32", at::kInt},     {"int64", at::kLong},    {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
    {"float32", at::kFloat}, {"float64", at::kDouble}};

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& [known, type] : dtypes)
    if (name == known) return type;
  throw Refusal("no dtype " + name);
}

// What a thread begins with, whatever its caller has it do around the call: no autocast, no vmap or other
// transformation, no mode that Python has entered, and nothing of gradients.
struct OwnState {
  const c10::impl::ForceDispatchKeyGuard keys{c10::default_included_set, c10::default_excluded_set | c10::python_ks};
  const c10::InferenceMode inference;
};

struct Type {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
};
Type type_of(const npusim_aten_type& type) { return {dtype_of(type.dtype), {type.shape, type.shape + type.rank}}; }

std::string text_of(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(dtype) << shape;
  return text.str();
}

struct Argument {
  int32_t kind = NPUSIM_ATEN_NONE;
  std::vector<int32_t> tensors;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::string text;
};

struct Handle {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<Type> operands, results;
};

int say(const std::string& what, char* text, size_t size) {
  std::snprintf(text, size, "%s", what.c_str());
  return 1;
}

// Whatever body() throws, as text; 0 where it throws nothing.
template <typename Body>
int guarded(char* text, size_t size, Body&& body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    return say(error.what_without_backtrace(), text, size);
  } catch (const std::exception& error) {
    return say(error.what(), text, size);
  } catch (...) {
    return say("an unknown exception", text, size);
  }
}

// "aten.relu.default"
c10::OperatorHandle find(const std::string& name) {
  const size_t first = name.find('.'), last = name.rfind('.');
  if (first == std::string::npos || last == first) throw Refusal("expected namespace.operator.overload");
  if (name.substr(0, first) != "aten") throw Refusal("it is no operator of ATen");  // others come and go with packages
  const std::string overload = name.substr(last + 1);
  const auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, first) + "::" + name.substr(first + 1, last - first - 1), overload == "default" ? "" : overload});
  if (!op) throw Refusal("it has no such operator");
  return *op;
}

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

bool is_integer(const c10::Type& type) {
  return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType;
}

bool is_known(const c10::Type& given) {
  const c10::Type& type = without_optional(given);
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::DeviceObjType:
      return true;
    case c10::TypeKind::GeneratorType:
      return given.kind() == c10::TypeKind::OptionalType;
    case c10::TypeKind::ListType: {
      const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
      if (element.kind() == c10::TypeKind::OptionalType)
        return without_optional(element).kind() == c10::TypeKind::TensorType;
      return element.kind() == c10::TypeKind::TensorType || element.kind() == c10::TypeKind::FloatType ||
             element.kind() == c10::TypeKind::BoolType || is_integer(element);
    }
    default:
      return false;
  }
}

bool runs_on_the_cpu(const c10::OperatorHandle& op) {
  for (const c10::DispatchKey key :
       {c10::DispatchKey::CPU, c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}

void check_operator(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  if (schema.name() == "aten::from_file") throw Refusal("it reads files");
  if (op.hasTag(at::Tag::nondeterministic_seeded)) throw Refusal("it draws random numbers");
  if (op.hasTag(at::Tag::dynamic_output_shape)) throw Refusal("the shape of its result depends on values");
  if (!runs_on_the_cpu(op)) throw Refusal("it has no kernel for the CPU");
  for (const c10::Argument& arg : schema.arguments())
    if (!is_known(*arg.real_type()))
      throw Refusal("argument '" + arg.name() + "' is of the type " + arg.real_type()->str());
  const std::vector<c10::Argument>& returns = schema.returns();
  for (const c10::Argument& result : returns) {
    const c10::Type& type = *result.real_type();
    const bool list = type.kind() == c10::TypeKind::ListType && returns.size() == 1 &&
                      type.castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::TensorType;
    if (!list && type.kind() != c10::TypeKind::TensorType) throw Refusal("it returns " + type.str());
  }
  if (returns.empty()) throw Refusal("it returns nothing");
}

int64_t memory_format(const std::string& text) {
  const std::string name = text.rfind("torch.", 0) == 0 ? text.substr(6) : text;
  if (name == "contiguous_format") return static_cast<int64_t>(at::MemoryFormat::Contiguous);
  if (name == "preserve_format") return static_cast<int64_t>(at::MemoryFormat::Preserve);
  if (name == "channels_last") return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
  if (name == "channels_last_3d") return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
  throw Refusal("no memory format " + text);
}

double number_of(const Argument& a) {
  if (a.kind == NPUSIM_ATEN_REAL) return a.reals[0];
  if (a.kind == NPUSIM_ATEN_INTEGER || a.kind == NPUSIM_ATEN_BOOLEAN) return static_cast<double>(a.integers[0]);
  throw Refusal("expected a number");
}

at::Scalar scalar_of(const Argument& a) {
  if (a.kind == NPUSIM_ATEN_BOOLEAN) return a.integers[0] != 0;
  if (a.kind == NPUSIM_ATEN_INTEGER) return a.integers[0];
  return number_of(a);
}

c10::IValue list_of(const c10::Type& element, const Argument& a, const std::vector<at::Tensor>& tensors) {
  const auto expect = [&](int32_t kind) {
    if (a.kind != kind) throw Refusal("expected a list of " + element.str());
  };
  if (element.kind() == c10::TypeKind::OptionalType) {
    expect(NPUSIM_ATEN_TENSORS);
    c10::List<std::optional<at::Tensor>> list;
    for (const int32_t t : a.tensors)
      list.push_back(t < 0 ? std::optional<at::Tensor>() : std::optional(tensors[static_cast<size_t>(t)]));
    return list;
  }
  if (element.kind() == c10::TypeKind::TensorType) {
    expect(NPUSIM_ATEN_TENSORS);
    c10::List<at::Tensor> list;
    for (const int32_t t : a.tensors) {
      if (t < 0) throw Refusal("None in a list of tensors");
      list.push_back(tensors[static_cast<size_t>(t)]);
    }
    return list;
  }
  if (element.kind() == c10::TypeKind::FloatType) {
    c10::List<double> list;
    if (a.kind != NPUSIM_ATEN_INTEGERS) expect(NPUSIM_ATEN_REALS);
    for (const int64_t x : a.integers) list.push_back(static_cast<double>(x));
    for (const double x : a.reals) list.push_back(x);
    return list;
  }
  if (element.kind() == c10::TypeKind::BoolType) {
    expect(NPUSIM_ATEN_BOOLEANS);
    c10::List<bool> list;
    for (const int64_t x : a.integers) list.push_back(x != 0);
    return list;
  }
  expect(NPUSIM_ATEN_INTEGERS);
  c10::List<int64_t> list;
  for (const int64_t x : a.integers) list.push_back(x);
  return list;
}

// Tensors are made on `device`.
c10::IValue value_of(const c10::Type& given, const Argument& a, const std::vector<at::Tensor>& tensors,
                     at::Device device) {
  const c10::Type& type = without_optional(given);
  if (type.kind() == c10::TypeKind::DeviceObjType) return device;
  const bool none = a.kind == NPUSIM_ATEN_NONE;
  if (none && given.kind() == c10::TypeKind::OptionalType) return {};
  const auto expect = [&](bool right) {
    if (!right) throw Refusal("expected " + given.str());
  };
  switch (type.kind()) {
    case c10::TypeKind::TensorType: {
      if (a.kind == NPUSIM_ATEN_TENSOR) return tensors[static_cast<size_t>(a.tensors[0])];
      at::Tensor number = at::scalar_tensor(scalar_of(a), at::TensorOptions(device).dtype(scalar_of(a).type()));
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    case c10::TypeKind::ListType:
      return list_of(*type.castRaw<c10::ListType>()->getElementType(), a, tensors);
    case c10::TypeKind::FloatType:
      return number_of(a);
    case c10::TypeKind::NumberType:
      return scalar_of(a);
    case c10::TypeKind::BoolType:
      expect(a.kind == NPUSIM_ATEN_BOOLEAN);
      return a.integers[0] != 0;
    case c10::TypeKind::StringType:
      expect(a.kind == NPUSIM_ATEN_TEXT);
      return a.text;
    case c10::TypeKind::ScalarTypeType:
      if (a.kind == NPUSIM_ATEN_DTYPE) return static_cast<int64_t>(dtype_of(a.text));
      expect(a.kind == NPUSIM_ATEN_INTEGER);  // a default
      return a.integers[0];
    case c10::TypeKind::MemoryFormatType:
      return none ? static_cast<int64_t>(at::MemoryFormat::Contiguous) : memory_format(a.text);
    case c10::TypeKind::LayoutType:
      return static_cast<int64_t>(at::kStrided);
    default:
      expect(a.kind == NPUSIM_ATEN_INTEGER || a.kind == NPUSIM_ATEN_BOOLEAN);
      return a.integers[0];
  }
}

// Which of the returned values a call asks for: an output_mask says so, where there is one. What it leaves out may be
// there nevertheless.
std::vector<int64_t> asked_for(const Handle& handle, size_t returned) {
  const std::vector<c10::Argument>& arguments = handle.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "output_mask" && handle.arguments[i].integers.size() == returned)
      return handle.arguments[i].integers;
  return std::vector<int64_t>(returned, 1);
}

// Calls it and gives its results, which are as the handle says.
std::vector<at::Tensor> call(const Handle& handle, const std::vector<at::Tensor>& operands, at::Device device) {
  torch::jit::Stack stack;
  const std::vector<c10::Argument>& arguments = handle.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    try {
      stack.push_back(value_of(*arguments[i].real_type(), handle.arguments[i], operands, device));
    } catch (const Refusal& refusal) {
      throw Refusal("argument '" + arguments[i].name() + "': " + refusal.what());
    }
  }
  handle.op.callBoxed(stack);
  std::vector<at::Tensor> results;
  const std::vector<int64_t> asked = asked_for(handle, stack.size());
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!asked[i]) continue;
    if (stack[i].isTensorList())
      for (const at::Tensor& tensor : stack[i].toTensorVector()) results.push_back(tensor);
    else
      results.push_back(stack[i].toTensor());
  }
  if (results.size() != handle.results.size())
    throw Refusal("expected " + std::to_string(handle.results.size()) + " results, found " +
                  std::to_string(results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& expected = handle.results[i];
    const std::string which = results.size() == 1 ? "result" : "result " + std::to_string(i);
    if (!results[i].defined()) throw Refusal(which + ": there is none");
    if (results[i].layout() != at::kStrided || results[i].scalar_type() != expected.dtype ||
        results[i].sizes() != at::IntArrayRef(expected.shape))
      throw Refusal(which + ": expected " + text_of(expected.dtype, expected.shape) + ", found " +
                    text_of(results[i].scalar_type(), results[i].sizes()));
    for (const at::Tensor& operand : operands)
      if (operand.defined() && operand.numel() > 0 && results[i].storage().is_alias_of(operand.storage()))
        throw Refusal(which + ": is memory of an operand, which the schema does not say");
  }
  return results;
}

// ATen makes as many of something as an integer says, before it looks at what comes of it: a file of a few bytes must
// not name more than its tensors account for.
void check_counts(const Handle& handle) {
  int64_t most = int64_t{1} << 16;
  for (const auto* types : {&handle.operands, &handle.results})
    for (const Type& type : *types) most += 4 * c10::multiply_integers(type.shape);
  const std::vector<c10::Argument>& arguments = handle.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = handle.arguments[i];
    const std::string& name = arguments[i].name();
    const bool counts = without_optional(*arguments[i].real_type()).kind() == c10::TypeKind::IntType &&
                        a.kind == NPUSIM_ATEN_INTEGER && name != "ignore_index" && name != "padding_idx";
    if (counts && a.integers[0] > most)
      throw Refusal("argument '" + name + "': " + std::to_string(a.integers[0]) +
                    " is more than its operands and results account for");
  }
}

// Shapes alone; what cannot be told without data is left to the run.
void try_without_data(const Handle& handle) {
  std::vector<at::Tensor> operands;
  for (const Type& type : handle.operands)
    operands.push_back(at::empty(type.shape, at::TensorOptions(at::kMeta).dtype(type.dtype)));
  try {
    call(handle, operands, at::kMeta);
  } catch (const c10::NotImplementedError&) {
  } catch (const c10::Error& error) {
    if (std::string(error.what_without_backtrace()).find("meta") == std::string::npos) throw;
  }
}

int schema(const char* op, char* text, size_t size) {
  std::string found;
  const int failed = guarded(text, size, [&] {
    const c10::OperatorHandle handle = find(op);
    check_operator(handle);
    found = c10::toString(handle.schema());
    found.erase(0, found.find("::") + 2);
    if (found.size() >= size) throw Refusal("its schema is too long");
  });
  if (!failed) say(found, text, size);
  return failed;
}

void* prepare(const npusim_aten_call* given, char* text, size_t size) {
  Handle* result = nullptr;
  const int failed = guarded(text, size, [&] {
    const OwnState state;
    Handle handle{find(given->op), {}, {}, {}};
    check_operator(handle.op);
    for (int64_t i = 0; i < given->argument_count; ++i) {
      const npusim_aten_argument& from = given->arguments[i];
      Argument a;
      a.kind = from.kind;
      const auto copy = [&](auto& to, const auto* list) { to.assign(list, list + from.count); };
      if (a.kind == NPUSIM_ATEN_TENSOR || a.kind == NPUSIM_ATEN_TENSORS)
        copy(a.tensors, from.tensors);
      else if (a.kind == NPUSIM_ATEN_REAL || a.kind == NPUSIM_ATEN_REALS)
        copy(a.reals, from.reals);
      else if (a.kind == NPUSIM_ATEN_TEXT || a.kind == NPUSIM_ATEN_DTYPE)
        a.text = from.text;
      else if (a.kind != NPUSIM_ATEN_NONE)
        copy(a.integers, from.integers);
      handle.arguments.push_back(std::move(a));
    }
    for (int64_t i = 0; i < given->operand_count; ++i) handle.operands.push_back(type_of(given->operands[i]));
    for (int64_t i = 0; i < given->result_count; ++i) handle.results.push_back(type_of(given->results[i]));
    if (handle.arguments.size() != handle.op.schema().arguments().size())
      throw Refusal("expected " + std::to_string(handle.op.schema().arguments().size()) + " arguments, found " +
                    std::to_string(handle.arguments.size()));
    check_counts(handle);
    try_without_data(handle);
    result = new Handle(std::move(handle));
  });
  return failed ? nullptr : result;
}

int run(void* given, const void* const* operands, void* const* results, char* text, size_t size) {
  return guarded(text, size, [&] {
    const OwnState state;
    const Handle& handle = *static_cast<Handle*>(given);
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < handle.operands.size(); ++i)
      tensors.push_back(at::from_blob(const_cast<void*>(operands[i]), handle.operands[i].shape,
                                      at::TensorOptions(handle.operands[i].dtype)));
    const std::vector<at::Tensor> found = call(handle, tensors, at::kCPU);
    for (size_t i = 0; i < found.size(); ++i)
      at::from_blob(results[i], handle.results[i].shape, at::TensorOptions(handle.results[i].dtype)).copy_(found[i]);
  });
}

void release(void* handle) { delete static_cast<Handle*>(handle); }

}  // namespace

const npusim_aten_plugin_table* npusim_aten_plugin() {
  static const npusim_aten_plugin_table table{
      NPUSIM_ATEN_PLUGIN_VERSION, "ATen of PyTorch " TORCH_VERSION, schema, prepare, run, release};
  return &table;
}
