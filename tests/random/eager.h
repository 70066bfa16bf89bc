// Graphs run as a framework runs them eagerly: storages, and tensors that are places in them. Operators mean what the
// reference says (evaluate_call); what shares memory with what, and which writes are seen where, is decided here and
// nowhere else, so that the compiler's and the reference's removal of in-place operators is tested too.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace npusim::test {

// Why eager execution would refuse the program, or gives no certain result: a write to overlapping memory, a view that
// the strides do not allow, a reshape of unknown strides that is written to.
struct Unspecified : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Random errors put upon every result that is rounded (Monte Carlo arithmetic): what differs between runs with
// different seeds cannot be asked of an implementation that rounds in another order.
struct Noise {
  uint64_t seed = 0;
  DType storage = DType::f32;  // the widest rounding step of a float32 value
  bool round = false;          // rounds what has fewer digits than float32, and changes nothing else of it
  bool opposite = false;       // the same errors with the other sign: of the two sides of a threshold one is met
  bool overturned = false;     // sums that overflow do so with either sign
  std::optional<double> overflow = {};  // what all of them become
  bool plain = false;                   // float32 arithmetic without errors
  bool apart = false;  // each reader of a computed value sees it rounded to `storage`, or in its last digits, or not
  double scale = 1;    // how many times as large they are as usual
};

using Tensors = std::map<std::string, HostTensor>;

struct EagerResult {
  std::vector<HostTensor> outputs;  // one per graph output
  std::vector<bool> exact;          // made without any rounding
};

// `given`: inputs and weights by name. Throws Unspecified, and Error as evaluate does.
EagerResult run_eager(const Graph& graph, const Tensors& given, const Noise* noise = nullptr);

void round_to(HostTensor& tensor, DType dtype);

}  // namespace npusim::test
