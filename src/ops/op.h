// Op records: everything the system knows about one ATen operator, and the call a record is asked about.
//
// A record is one row of a table in one file of this folder: its schema, its shape and dtype rule, and its meaning,
// which is its lowering to kernels (kernel/builder.h). The reference, every backend, the support table and the tests
// all derive from that one lowering. Adding an op touches one file: see docs/add-an-op.md.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "kernel/builder.h"
#include "ops/schema.h"

namespace npusim {

struct OpCall;
struct Lowering;
struct ViewMap;

enum class OpFamily : uint8_t { formula, view, contract, reduce, index, create };
std::string_view family_name(OpFamily family);

// Where eager PyTorch puts a call's results: which share an operand's memory, so that a write to one is seen through
// the other, and what strides the others have (ops/placement.h).
enum class Memory : uint8_t {
  // Own memory.
  dense,      // row-major where every operand is; else not known
  row_major,  // row-major whatever the operands are
  iterated,   // in the order of the operands' strides, as TensorIterator has it
  preserved,  // in the order of the first operand's strides, or as the memory_format attribute says
  joined,     // row-major where some operand has no channels innermost; else as `dense`
  padded,     // of the operand's memory format where constants are put around it, else as `dense`
  arbitrary,  // not known
  // The operand's memory (result i of a call on a list is operand i's).
  itself,              // the operand itself
  same,                // the same elements, another tensor
  mapped,              // the elements that `maps` says
  reshaped,            // the same elements in the same order
  reshaped_or_own,     // that where the strides allow it, else row-major memory of its own
  contiguous,          // the operand where it has the memory format asked for, else memory of its own in that format
  contiguous_raveled,  // `contiguous`, then reshaped
  converted,           // the operand where nothing is to be changed, else `preserved`
  strided,             // addresses of the operand's whole memory
  computed,            // a part of it that starts where a tensor says
  // Made from the addresses of the operand's whole memory.
  strided_own,      // a copy of what `strided` would be
  strided_scatter,  // a copy of the whole memory, seen as the operand is, with such elements replaced
};

struct OpRecord {
  std::string_view schema;  // ATen's text
  OpFamily family = OpFamily::formula;
  // Types of the results; throws bad_input naming what does not fit.
  std::vector<TensorType> (*infer)(const OpCall&) = nullptr;
  // Appends kernels that compute the results.
  void (*lower)(const OpCall&, Lowering&) = nullptr;
  // Why this call cannot be compiled ("" if it can): attributes no kernel exists for.
  std::string (*refuse)(const OpCall&) = nullptr;
  // Formulas and rows: constants of the generic lowering above, owned by the family's file.
  const void* detail = nullptr;
  // Largest error against float64, in rounding steps of the output's dtype at the size of what an element sums up.
  double tolerance = 4;
  Memory memory = Memory::dense;
  // Memory::mapped: what each result is of its operand.
  std::vector<ViewMap> (*maps)(const OpCall&) = nullptr;
  // A check without results that matter (asserts).
  bool is_check = false;
  // Whether the call draws random numbers; null: never does. Then it has an operand and an attribute more than its
  // schema (ops/philox.h).
  bool (*draws)(const OpCall&) = nullptr;
};

constexpr OpRecord in_memory(OpRecord record, Memory memory) {
  record.memory = memory;
  return record;
}

// An op with its parsed schema.
struct Op {
  OpRecord record;
  Schema schema;
  const std::string& name() const { return schema.name; }
};

// The table of all records, by name: built once, from the tables of every file of this folder.
const std::map<std::string, Op, std::less<>>& op_table();
// nullptr if unknown. In-place names ("aten.relu_.default") find the op they are the in-place form of.
const Op* find_op(std::string_view name);
// Whether `name` is an in-place form of the op find_op() gives.
bool is_in_place(std::string_view name);

// One call: the op, its operands' types and its attributes.
struct OpCall {
  const Op* op = nullptr;
  std::vector<const TensorType*> inputs;  // one per Tensor argument, one per element of each list; nullptr is None
  std::vector<int> list_sizes;            // one per Tensor[] argument
  std::span<const Attr> attrs;            // one per schema argument; monostate where it is an operand or None
  std::vector<TensorType> outputs;        // as declared by the IR (empty while inferring)

  // Positions in `inputs`. tensor(): -1 when None or given as a scalar.
  int tensor(std::string_view arg) const;
  int tensor_or_number(std::string_view arg) const;    // the same; -1 also for a Scalar, or where there is no such one
  std::vector<int> list(std::string_view arg) const;   // elements may be None: see inputs
  const TensorType& type(std::string_view arg) const;  // of a tensor argument that must be there

  bool is_none(std::string_view arg) const;  // attribute
  bool boolean(std::string_view arg) const;
  int64_t integer(std::string_view arg) const;
  double number(std::string_view arg) const;  // of an int, float or bool
  bool is_real(std::string_view arg) const;   // a Scalar given as float
  std::optional<DType> dtype(std::string_view arg) const;
  std::string text(std::string_view arg) const;
  // A list; a single number counts as `size` equal ones, and so does a list of one.
  std::vector<int64_t> ints(std::string_view arg, size_t size = 0) const;
  std::vector<double> reals(std::string_view arg) const;
  const Attr& attr(std::string_view arg) const;
};

inline bool draws(const OpCall& call) { return call.op->record.draws && call.op->record.draws(call); }

// The kernels that compute one call. Operand ids: inputs, then outputs, then temporaries.
struct Lowering {
  struct Call {
    Kernel kernel;
    std::vector<int> operands;  // one per kernel argument
  };
  explicit Lowering(const OpCall& call) : call(call) {}
  int input(int position) const { return position; }
  int output(int result) const { return static_cast<int>(call.inputs.size()) + result; }
  int temporary(TensorType type);
  const TensorType& type(int operand) const;

  const OpCall& call;
  std::vector<TensorType> temporaries;
  std::vector<Call> calls;
};

// A kernel of a lowering: a KernelBuilder that knows which operand each argument is.
class OpKernel : public KernelBuilder {
 public:
  OpKernel(Lowering& lowering, Shape space, int row_dims = 0)
      : KernelBuilder(std::move(space), row_dims), lowering_(lowering) {}
  int read(int operand);                     // the same argument when asked again
  int write(int operand, int updates = -1);  // after all reads; `updates`: an argument read() gave
  void done(std::string name);               // appends the kernel to the lowering

 private:
  Lowering& lowering_;
  std::vector<int> operands_;
};

// Results' types when the declared ones may be trusted in dtype but not in shape, and so on: every call is checked
// with this before it is lowered. Returns problems ("" none).
std::string check_call(const OpCall& call);
Lowering lower_call(const OpCall& call);

// Runs the call's kernels by evaluate(): the reference. `inputs[i]` is null for None.
std::vector<HostTensor> evaluate_call(const OpCall& call, std::span<const TensorView* const> inputs,
                                      bool single = false);

}  // namespace npusim
