// Recurrent layers over static sequences: lstm, gru, rnn_tanh and rnn_relu, unrolled to two kernels a step.
#include "base/error.h"
#include "ops/contract.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

enum class Cell { lstm, gru, tanh, relu };

constexpr int64_t most_steps = 4096;  // of all layers and directions

constexpr int gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

struct Network {
  int64_t layers, directions, steps, batch;
  int64_t hidden;  // elements of a cell, and of each gate
  int64_t width;   // elements of a hidden state: fewer where an lstm projects it
  bool batch_first, biases;
  bool projects() const { return width != hidden; }
  size_t weights() const { return (biases ? 4 : 2) + projects(); }  // of one direction
};

int state_operand(const OpCall& call, int nth) {
  const bool list = call.op->schema.args[1].kind == ArgKind::tensor_list;
  return list ? call.list("hx").at(static_cast<size_t>(nth)) : call.tensor("hx");
}

Network network(const OpCall& call, Cell cell) {
  const Shape& input = call.type("input").shape;
  const auto states = static_cast<size_t>(cell == Cell::lstm ? 2 : 1);
  Network n{call.integer("num_layers"), call.boolean("bidirectional") ? 2 : 1, 0, 0, 0, 0, call.boolean("batch_first"),
            call.boolean("has_biases")};
  if (input.size() != 3 || (cell == Cell::lstm && call.list("hx").size() != states))
    fail(ErrorKind::bad_input, "{}: expected input of 3 dimensions and {} states, found {}", call.op->name(), states,
         to_string(input));
  n.steps = input[n.batch_first];
  n.batch = input[!n.batch_first];
  for (size_t i = 0; i < states; ++i) {
    const Shape& state = call.inputs[static_cast<size_t>(state_operand(call, static_cast<int>(i)))]->shape;
    if (state.size() != 3 || state[0] != n.layers * n.directions || state[1] != n.batch)
      fail(ErrorKind::bad_input, "{}: a state of {} layers and directions for a batch of {} must not be {}",
           call.op->name(), n.layers * n.directions, n.batch, to_string(state));
    (i == 0 ? n.width : n.hidden) = state[2];
  }
  if (states == 1) n.hidden = n.width;
  const auto wanted = static_cast<size_t>(n.layers * n.directions) * n.weights();
  const std::vector<int> params = call.list("params");
  if (params.size() != wanted)
    fail(ErrorKind::bad_input, "{}: {} weights, expected {}", call.op->name(), params.size(), wanted);
  for (size_t i = 0; i < wanted; ++i) {
    const Shape& weight = call.inputs[static_cast<size_t>(params[i])]->shape;
    const bool projection = n.projects() && i % n.weights() == n.weights() - 1;
    const int64_t rows = projection ? n.width : gates_of(cell) * n.hidden;
    if (weight.empty() || weight[0] != rows)
      fail(ErrorKind::bad_input, "{}: weight {} is {}, expected {} rows", call.op->name(), i, to_string(weight), rows);
  }
  return n;
}

template <Cell cell>
std::vector<TensorType> infer_recurrent(const OpCall& call) {
  const Network n = network(call, cell);
  Shape shape = call.type("input").shape;
  const DType dtype = call.type("input").dtype;
  shape.back() = n.directions * n.width;
  std::vector<TensorType> types{{dtype, shape}, {dtype, {n.layers * n.directions, n.batch, n.width}}};
  if (cell == Cell::lstm) types.push_back({dtype, {n.layers * n.directions, n.batch, n.hidden}});
  return types;
}

template <Cell cell>
std::string refuse_recurrent(const OpCall& call) {
  if (call.boolean("train") && call.number("dropout") != 0)
    return "train=true drops random elements; only inference is compiled";
  const Network n = network(call, cell);
  const int64_t steps = n.steps * n.layers * n.directions;
  if (steps == 0) return "an empty sequence has no last state";
  return steps > most_steps ? fmt::format("{} unrolled steps are too many (at most {})", steps, most_steps) : "";
}

// One direction of one layer, as it is unrolled.
struct Direction {
  Cell cell;
  Network n;
  DType compute;
  int gates_in;  // [steps, batch, gates · hidden]: what the input adds to the gates
  int weight;    // [gates · hidden, width]
  int bias;      // of the hidden state; -1
  int projects;  // [width, hidden]; -1
};

// A value that grows by updates: each one keeps what the one before it stored.
struct Growing {
  TensorType type;
  int last;         // the operand the final update writes
  int64_t updates;  // still to come
  int now = -1;
};

int next_version(Lowering& lowering, Growing& g) { return --g.updates == 0 ? g.last : lowering.temporary(g.type); }

Ex sigmoid(Ex x) { return 1 / (1 + exp(-x)); }

// The sums of hidden state and weights, [batch, gates · hidden].
int lower_hidden_gates(Lowering& lowering, const Direction& d, int hidden) {
  const int gates = lowering.temporary({d.compute, {d.n.batch, gates_of(d.cell) * d.n.hidden}});
  lower_product(lowering, "hidden_gates", {hidden, {0, 1}}, {d.weight, {2, 1}}, {gates, {0, 2}},
                [&](OpKernel& k, Ex x, int rows) { return add_bias(k, x, rows, {}, d.bias, {}); });
  return gates;
}

// Stores [batch, width] at a step of the layer's output.
void keep_output(Lowering& lowering, Growing& output, int hidden, const std::vector<Affine>& at) {
  const int version = next_version(lowering, output);
  OpKernel k(lowering, lowering.type(hidden).shape);
  const Ex x = k.load_broadcast(k.read(hidden));
  const int kept = output.now < 0 ? -1 : k.read(output.now);
  k.store(k.write(version, kept), coordinates(at), x);
  k.done("keep_output");
  output.now = version;
}

// The new hidden (and cell) state from the gates; the hidden one is also kept in the layer's output.
struct Step {
  int hidden, cell;
};
Step lower_step(Lowering& lowering, const Direction& d, Step before, int64_t t, Growing& output,
                const std::vector<Affine>& at) {
  const int gates = lower_hidden_gates(lowering, d, before.hidden);
  const bool projects = d.projects >= 0;
  const int version = projects ? -1 : next_version(lowering, output);
  const TensorType state{d.compute, {d.n.batch, d.n.hidden}};
  Step after{lowering.temporary(state), d.cell == Cell::lstm ? lowering.temporary(state) : -1};
  OpKernel k(lowering, state.shape);
  const int in_arg = k.read(d.gates_in), hidden_arg = k.read(gates);
  auto in = [&](int gate) {
    const Coord from[] = {t, k.dim(0), k.dim(1) + gate * d.n.hidden};
    return k.load(in_arg, from);
  };
  auto hidden = [&](int gate) {
    const Coord from[] = {k.dim(0), k.dim(1) + gate * d.n.hidden};
    return k.load(hidden_arg, from);
  };
  auto both = [&](int gate) { return in(gate) + hidden(gate); };
  Ex h, c;
  if (d.cell == Cell::lstm) {
    const Ex old = k.load_broadcast(k.read(before.cell));
    c = sigmoid(both(1)) * old + sigmoid(both(0)) * tanh(both(2));
    h = sigmoid(both(3)) * tanh(c);
  } else if (d.cell == Cell::gru) {
    const Ex old = k.load_broadcast(k.read(before.hidden)), update = sigmoid(both(1));
    const Ex fresh = tanh(in(2) + sigmoid(both(0)) * hidden(2));
    h = (old - fresh) * update + fresh;
  } else {
    h = d.cell == Cell::tanh ? tanh(both(0)) : max(both(0), 0.0);
  }
  const int kept = projects || output.now < 0 ? -1 : k.read(output.now);
  k.store(k.write(after.hidden), h);
  if (d.cell == Cell::lstm) k.store(k.write(after.cell), c);
  if (!projects) k.store(k.write(version, kept), coordinates(at), h);
  k.done("recurrent_step");
  if (projects) {
    const int narrow = lowering.temporary({d.compute, {d.n.batch, d.n.width}});
    lower_product(lowering, "projection", {after.hidden, {0, 1}}, {d.projects, {2, 1}}, {narrow, {0, 2}});
    keep_output(lowering, output, narrow, at);
    return {narrow, after.cell};
  }
  output.now = version;
  return after;
}

// Stores a final state as row `row` of the states' result.
void keep_state(Lowering& lowering, Growing& states, int state, int64_t row) {
  const int version = next_version(lowering, states);
  OpKernel k(lowering, lowering.type(state).shape);
  const Ex x = k.load_broadcast(k.read(state));
  const int kept = states.now < 0 ? -1 : k.read(states.now);
  const Coord at[] = {row, k.dim(0), k.dim(1)};
  k.store(k.write(version, kept), at, x);
  k.done("keep_state");
  states.now = version;
}

template <Cell cell>
void lower_recurrent(const OpCall& call, Lowering& lowering) {
  const Network n = network(call, cell);
  const DType compute = compute_dtype(call.type("input").dtype);
  const std::vector<int> params = call.list("params");
  std::vector<Growing> states;
  for (int i = 1; i < static_cast<int>(call.outputs.size()); ++i)
    states.push_back({call.outputs[static_cast<size_t>(i)], lowering.output(i), n.layers * n.directions});
  int input = lowering.input(call.tensor("input"));
  bool batch_first = n.batch_first;
  size_t next_param = 0;
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    const bool last = layer + 1 == n.layers;
    const TensorType type = last ? call.outputs[0] : TensorType{compute, {n.steps, n.batch, n.directions * n.width}};
    Growing output{type, last ? lowering.output(0) : lowering.temporary(type), n.steps * n.directions};
    for (int64_t direction = 0; direction < n.directions; ++direction) {
      const int64_t row = layer * n.directions + direction;
      const int* weights = &params[next_param];
      next_param += n.weights();
      const int gates_in = lowering.temporary({compute, {n.steps, n.batch, gates_of(cell) * n.hidden}});
      lower_product(lowering, "input_gates", {input, batch_first ? std::vector{1, 0, 2} : std::vector{0, 1, 2}},
                    {weights[0], {3, 2}}, {gates_in, {0, 1, 3}}, [&](OpKernel& k, Ex x, int rows) {
                      return add_bias(k, x, rows, {}, n.biases ? weights[2] : -1, {});
                    });
      const Direction d{cell,
                        n,
                        compute,
                        gates_in,
                        weights[1],
                        n.biases ? weights[3] : -1,
                        n.projects() ? weights[n.weights() - 1] : -1};
      Step state{-1, -1};
      for (int i = 0; i < static_cast<int>(states.size()); ++i) {
        const Shape shape{n.batch, i == 0 ? n.width : n.hidden};
        const int first = lowering.temporary({compute, shape});
        lower_map(lowering, "select", {shape, {Affine{{}, row}, along(0), along(1)}},
                  lowering.input(state_operand(call, i)), first);
        (i == 0 ? state.hidden : state.cell) = first;
      }
      for (int64_t i = 0; i < n.steps; ++i) {
        const int64_t t = direction == 0 ? i : n.steps - 1 - i;
        std::vector<Affine> at{Affine{{}, t}, along(0), along(1) + direction * n.width};
        if (last && n.batch_first) std::swap(at[0], at[1]);
        state = lower_step(lowering, d, state, t, output, at);
      }
      keep_state(lowering, states[0], state.hidden, row);
      if (cell == Cell::lstm) keep_state(lowering, states[1], state.cell, row);
    }
    input = output.now;
    batch_first = false;
  }
}

template <Cell cell>
constexpr OpRecord recurrent(std::string_view schema) {
  OpRecord record = contraction(schema, infer_recurrent<cell>, lower_recurrent<cell>);
  record.refuse = refuse_recurrent<cell>;
  record.memory = Memory::arbitrary;
  record.tolerance = 32;
  return record;
}

constexpr OpRecord records[] = {
    recurrent<Cell::lstm>(
        "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
        "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"),
    recurrent<Cell::gru>(
        "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
        "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"),
    recurrent<Cell::tanh>(
        "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
        "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"),
    recurrent<Cell::relu>(
        "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
        "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"),
};

}  // namespace

std::span<const OpRecord> recurrent_ops() { return records; }

}  // namespace npusim
