// The reference: a graph evaluated call by call in double precision, without any pass but that which makes in-place
// operators plain.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "npusim/tensor_set.h"

namespace npusim {

// `inputs[i]` is graph.inputs[i]; one tensor per graph output comes back. Weights are found as the runtime finds them.
// Throws bad_input naming every weight that is missing or has another shape.
std::vector<HostTensor> run_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                      const TensorSet* weights);

}  // namespace npusim
