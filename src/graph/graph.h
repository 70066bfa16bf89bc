// The one graph: values (edges) and nodes, from ATen ops as imported to kernels ready to be scheduled.
//
// A node is an ATen call (`op` set) or, after lowering, one kernel (`kernel` set): inputs are then the kernel's read
// arguments in order and outputs its written ones. Nodes stand in topological order.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/origin.h"
#include "base/tensor.h"
#include "kernel/kernel.h"
#include "ops/op.h"

namespace npusim {

using ValueId = int32_t;
inline constexpr ValueId no_value = -1;

enum class ValueSource : uint8_t {
  input,     // given at each run
  weight,    // read from the weight file under `fqn`
  constant,  // stored in the program
  node,      // computed
};

struct Value {
  std::string name;  // unique; the IR's own name for inputs and outputs
  TensorType type;
  Shape stored = {};  // extents in memory, outermost first, once choose_layout gave it another than row-major
  ValueSource source = ValueSource::node;
  int32_t producer = -1;                   // node position, for ValueSource::node
  std::string fqn;                         // weight
  std::vector<std::string> tied;           // weight: other names the same values may have in a checkpoint
  std::shared_ptr<const HostTensor> data;  // constant
  std::string finite_for = {};             // known at load: the fusion that is right only if every element is finite
  int32_t device = 0;                      // given: where it is put
  std::string state = {};                  // input that is only read: the state of the program that it is, by name
  bool generator = false;                  // input: the state of the random numbers (kernel/draw.h)
};

struct Node {
  std::string name;  // the IR's; messages and reports use it
  const Op* op = nullptr;
  bool in_place = false;        // aten.xxx_: writes its first operand (until functionalize)
  std::vector<ValueId> inputs;  // one per Tensor argument, then per list element; no_value is None
  std::vector<int> list_sizes;  // one per Tensor[] argument
  std::vector<Attr> attrs;      // one per schema argument, defaults filled in
  std::vector<ValueId> outputs;
  std::shared_ptr<const Kernel> kernel;  // after lowering
  std::vector<int32_t> origins;          // positions in Graph::origins, ascending: the nodes it does the work of
  int32_t device = 0;                    // position in Program::devices, once assign_devices chose it
};

struct GraphOutput {
  std::string name;  // the IR's, kept whatever the value becomes
  ValueId value = no_value;
  Shape shape = {};  // set by lowering, which may make the value an alias of one of another shape
  // The input, a state, whose next value it is, where the IR says so; after functionalize also a weight or a constant
  // that nodes write into, of which share_states makes one.
  ValueId next_of = no_value;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;  // in IR order
  std::vector<GraphOutput> outputs;
  std::vector<std::pair<std::string, std::string>> aliases;  // a state, and the buffer whose memory the model gives it
  // Of a loop that feeds itself: the input, among `inputs`, of one element that says where in the text it stands. Keys
  // and values behind it do not exist, whatever memory holds there.
  int position = -1;
  std::vector<Origin> origins;                     // the nodes as they were imported
  std::unordered_map<std::string, int32_t> names;  // of all values, each with the next suffix to try for it
};

inline const Value& value_of(const Graph& graph, ValueId id) { return graph.values[static_cast<size_t>(id)]; }
inline Value& value_of(Graph& graph, ValueId id) { return graph.values[static_cast<size_t>(id)]; }

// Adds a value computed by a node (a unique name is made from `name`); its producer is set by add_node or
// set_producers.
ValueId add_value(Graph& graph, std::string name, TensorType type);
ValueId add_constant(Graph& graph, std::string name, HostTensor tensor);
// Gives values these very names, all different; whoever has one gets another.
void rename_values(Graph& graph, const std::vector<std::pair<ValueId, std::string>>& names);
// Appends a node and makes it the producer of its outputs; returns its position.
int32_t add_node(Graph& graph, Node node);
// A kernel node that copies `from` to `to`, a value of the same shape, cast where their dtypes differ, on behalf of
// another node, if there is one, and where that is. Not yet appended.
Node copy_node(const Graph& graph, ValueId from, ValueId to, std::string kernel, const Node* behalf);
// Every node becomes an origin of its own.
void set_origins(Graph& graph);
// Of the node that computes a value; none for one that is given.
std::vector<int32_t> origins_of(const Graph& graph, ValueId id);
// `from`'s origins join `into`'s. Of many the last stay: each end of a chain that all steps fold would have all of it.
inline constexpr std::ptrdiff_t most_origins = 256;
void add_origins(Node& into, const std::vector<int32_t>& from);
// Where a value is: its producer's device, or the one it is put on.
int32_t device_of(const Graph& graph, ValueId id);
// The nodes of the IR that it does the work of are done by another device than the first, for this reason; one that was
// given before stays.
void send_away(Graph& graph, const Node& node, const std::string& reason);
// Sets every value's producer from the nodes' outputs.
void set_producers(Graph& graph);

// The call a node is, as op records take it. Valid while the graph is not changed.
OpCall call_of(const Graph& graph, const Node& node);

// For every value, the nodes that read it, each once and in order; being a graph output counts as one last reader -1.
std::vector<std::vector<int32_t>> readers_of(const Graph& graph);

// Rewrites every use of `from` (operands and graph outputs) to `to[from]` (chains are followed; identity where equal).
void replace_values(Graph& graph, const std::vector<ValueId>& to);

// Drops nodes marked dead (`dead` may be shorter than the nodes), and nodes none of whose results reach an output when
// `unused` is set (a node that writes its operand stays); drops values nobody names (never graph inputs), renumbers,
// sets producers, and restores topological order when nodes were appended out of order (stable: otherwise the order is
// kept). Linear.
void compact(Graph& graph, const std::vector<bool>& dead, bool unused);

// Why a call's operands are not those its schema asks for; empty when they are. Shape rules rely on it: a required
// tensor is there, unless it is a number beside a tensor of a pointwise op, and a Tensor[] is not empty.
std::string check_operands(const Node& node);

// Everything that must hold between passes: ids in range, one producer per value, topological order, kernels sound and
// fitting their operands, calls matching their schema. Empty when it does.
std::vector<std::string> check_graph(const Graph& graph);

}  // namespace npusim
