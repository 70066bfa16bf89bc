// Attribute values and constants: JSON as the schema and the declared type say it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "base/tensor.h"
#include "ops/schema.h"

namespace npusim {

// The value as the argument's kind asks; a Tensor argument takes a number. Throws bad_input ("expected …, found …"),
// or unsupported for what no device program can hold (complex numbers, unknown dtypes).
Attr read_attr(const nlohmann::json& value, const SchemaArg& arg);
// What an argument that is not given holds: its default, typed as read_attr() would; None where it has none.
Attr default_attr(const SchemaArg& arg);
// Whether the argument is given by tensors, not by an attribute.
inline bool is_operand(const SchemaArg& arg) { return arg.kind == ArgKind::tensor || arg.kind == ArgKind::tensor_list; }
// "NaN", "Infinity", "-inf", …: numbers JSON cannot write.
bool is_special_number(std::string_view text);

// `data` is a number or nested lists of the shape's extents (in whole or flat). Throws bad_input.
HostTensor read_constant(const nlohmann::json& data, const TensorType& type);

}  // namespace npusim
