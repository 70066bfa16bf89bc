// Binding of a node's tensors and attributes to its schema's arguments (docs/ir_format.md section 5).
#pragma once
#include <functional>
#include <span>

#include "graph/document.h"
#include "ops/schema.h"

namespace npusim {

// A tensor a node reads: an input, or an operand named in attrs.
struct BoundTensor {
  std::string_view
      name;            // what it is called where it comes from: a weight's FQN, an input's name; "": nothing that says
  int32_t value = -1;  // the importer's
  bool is_buffer = false;
  bool is_parameter = false;
};

struct Binding {
  std::vector<int32_t> inputs;  // values, one per Tensor argument and list element; -1 is None
  std::vector<int> list_sizes;  // one per Tensor[] argument
  std::vector<Attr> attrs;      // one per argument
};

// Throws bad_input, or unsupported where the file leaves open which optional argument a tensor is.
// `named` finds the tensor an attribute names; `fits` says whether a candidate binding satisfies the op's own shape
// rule, asked only where the file leaves a choice.
Binding bind_arguments(const Schema& schema, const IrNode& node, std::span<const BoundTensor> tensors,
                       const std::function<BoundTensor(std::string_view)>& named,
                       const std::function<bool(const Binding&)>& fits);

}  // namespace npusim
