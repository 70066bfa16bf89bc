// ATen schemas: argument names, kinds and defaults, parsed from ATen's own schema text
// (aten/src/ATen/native/native_functions.yaml), and typed attribute values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace npusim {

// monostate is None.
using Attr = std::variant<std::monostate, bool, int64_t, double, DType, std::string, std::vector<int64_t>,
                          std::vector<double>, std::vector<bool>>;
std::string to_string(const Attr& attr);

enum class ArgKind : uint8_t {
  tensor,
  tensor_list,  // operands; everything else is an attribute
  boolean,
  integer,
  real,
  scalar,
  text,
  dtype,
  int_list,
  real_list,
  bool_list,
  memory_format,  // text: decides strides, which only functionalize asks for
  ignored,        // device, layout, pin_memory, generator: no meaning for a static device program
};

struct SchemaArg {
  std::string name;
  ArgKind kind = ArgKind::tensor;
  bool optional = false;  // may be None (for a list: its elements may)
  bool has_default = false;
  int list_size = 0;  // int[2]: a single number stands for that many equal ones
  Attr default_value;
  bool mutated = false;  // Tensor(a!)
  bool aliased = false;  // Tensor(a): a result may share its storage
};

struct Schema {
  std::string name;  // "aten.add.Tensor"
  std::vector<SchemaArg> args;
  int results = 1;                       // number of results; -1 for a list
  int find(std::string_view arg) const;  // position or -1
};

// "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; throws internal on text it cannot read.
Schema parse_schema(std::string_view text);

}  // namespace npusim
