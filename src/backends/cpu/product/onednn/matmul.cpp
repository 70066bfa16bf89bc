// Recognising what oneDNN's matmul takes along.
#include "backends/cpu/product/onednn/matmul.h"

#include <fmt/format.h>

#include <optional>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/blocks/streamed.h"
#include "backends/cpu/product/onednn/nan_guard.h"
#include "backends/cpu/product/onednn/onednn.h"

namespace npusim::cpu::product::onednn {
namespace {

constexpr int64_t least_rows = 16;

// Rows that are not dense, copied before they are multiplied.
struct Gather {
  loops::Loops loops;
  std::vector<void*> args;  // from, to
  size_t bytes;
};

std::unique_ptr<Gather> gather_rows(const Matrices& m, std::span<const Binding> args, int threads) {
  const Access& rows = m.rows();
  std::vector<int64_t> space, strides;
  for (const Axis* axis : {&m.axes.rows, &m.axes.depth})
    for (size_t i = 0; i < axis->dims.size(); ++i) {
      space.push_back(axis->extents[i]);
      strides.push_back(rows.strides[static_cast<size_t>(axis->dims[i])]);
    }
  const auto arg = static_cast<size_t>(rows.arg);
  const DType dtype = m.kernel.args[arg].dtype;
  const size_t bytes = static_cast<size_t>(element_count(space)) * dtype_size(dtype);
  return std::make_unique<Gather>(
      Gather{loops::Loops(dense_copy(m.kernel.args[arg], rows.offset, space, strides, dtype), threads),
             {args[arg].data, nullptr},
             (bytes + 63) / 64 * 64});
}

class ProductStep final : public BoundStep {
 public:
  ProductStep(const Context& context, std::unique_ptr<BoundPrimitive> product, const ProductSpec& spec,
              std::unique_ptr<Gather> gather)
      : cache_(context.primitives),
        product_(std::move(product)),
        gather_(std::move(gather)),
        text_(fmt::format("matmul {}x{}x{} {}{}", spec.rows, spec.columns, spec.depth, product_->implementation(),
                          gather_ ? " gathered" : "")) {
    scratch_bytes_ = product_->scratch_bytes + (gather_ ? gather_->bytes : 0);
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    if (gather_) gather_->args[1] = scratch;
    product_->rebind({.workspace = scratch_ + (gather_ ? gather_->bytes : 0), .src = gather_ ? scratch : nullptr});
  }
  void run() override {
    if (gather_) gather_->loops.run(gather_->args.data());
    product_->run();
  }
  std::string describe() const override { return text_; }

 private:
  std::shared_ptr<PrimitiveCache> cache_;
  std::unique_ptr<BoundPrimitive> product_;
  std::unique_ptr<Gather> gather_;
  std::string text_;
};

// Rows a positive distance apart, elements of a row side by side, in float32 or the type of the operands.
std::optional<Operand> dense_rows(const Kernel& kernel, const Access& access, std::span<const Binding> args,
                                  const ProductAxes& axes, DType operands) {
  const auto arg = static_cast<size_t>(access.arg);
  const DType dtype = kernel.args[arg].dtype;
  if (!access.guards.empty() || !access.terms.empty() || (dtype != DType::f32 && dtype != operands))
    return std::nullopt;
  Operand o = make_operand(access, dtype, args[arg].data, {axes.batch, axes.rows, axes.columns});
  if (o.step[1] < 0 || o.step[2] != 1) return std::nullopt;
  return o;
}

// What products of matrices leave to oneDNN; in the others they end by themselves.
bool is_smooth(Activation activation) {
  return activation == Activation::linear || activation == Activation::gelu_erf ||
         activation == Activation::gelu_tanh || activation == Activation::swish;
}

// Fills bias, ops and what they add; empty, or what of the epilogue oneDNN does not do.
std::string set_ops(const Problem& p, const Matrices& m, ProductSpec& spec, PrimitiveMemory& memory) {
  std::vector<EpilogueOp> ops = *p.chain;
  for (const EpilogueOp& op : ops) {
    if (op.add < 0) {
      if (p.kernel.contraction->kind != ContractionKind::conv && !is_smooth(op.activation))
        return "an activation that own products end with";
      continue;
    }
    const auto added =
        dense_rows(m.kernel, m.kernel.accesses[static_cast<size_t>(op.add)], p.args, m.axes, spec.types.operands);
    if (!added) return "a sum with a tensor of other rows or another type";
    if (&op == ops.data() && added->step[1] == 0) {
      spec.bias = true;
      spec.types.bias = added->dtype;
      memory.bias = added->at(0, 0, 0);
      continue;
    }
    if (added->step[1] != 0 && added->step[1] != spec.dst_stride) return "a sum with a tensor of another layout";
    spec.add_strides.push_back(added->step[1]);
    spec.types.adds.push_back(added->dtype);
    memory.adds.push_back(added->at(0, 0, 0));
  }
  if (spec.bias) ops.erase(ops.begin());
  spec.ops = std::move(ops);
  return {};
}

// Why operands are not matrices that oneDNN multiplies; empty: they are.
std::string refuse_operands(const Problem& p, const Matrices& m) {
  const Operand &a = m.a, &b = m.b;
  if (!p.context.primitives) return "no oneDNN";
  if (!m.constant) return "no operand is constant";
  if (!p.context.multiplies(a.dtype)) return fmt::format("no arithmetic for {} on this machine", dtype_name(a.dtype));
  if (a.dtype != b.dtype) return fmt::format("{} times {}", dtype_name(a.dtype), dtype_name(b.dtype));
  if (std::string why = own_product_wins(a, b.size(1)); !why.empty()) return why;
  if (a.size(0) != 1 || b.size(0) != 1) return fmt::format("{} products", a.size(0));
  if (a.size(1) < least_rows) return fmt::format("{} rows", a.size(1));
  if (a.size(2) == 0) return "a sum of nothing";
  if (!a.bounds.empty() || !b.bounds.empty()) return "an operand with padding";
  if (b.step[1] < 1 || b.step[2] < 1) return "a weight with more than two strides";
  if (m.axes.rows.dims.size() + m.axes.columns.dims.size() != m.kernel.space.size()) return "a broadcast result";
  return {};
}

}  // namespace

Answer make_onednn_matmul_step(Problem& p) {
  const Matrices& m = matrices_of(p);
  const Operand &a = m.a, &b = m.b;
  if (std::string why = refuse_operands(p, m); !why.empty()) return decline(std::move(why));
  const DType type = a.dtype;
  // Own float32 products take any rows.
  const bool dense = a.step[1] >= a.size(2) && a.step[2] == 1;
  if (!dense && type == DType::f32) return decline("rows that do not lie densely");
  if (!p.chain) return decline(no_chain(p.kernel));
  const auto out = dense_rows(m.kernel, m.kernel.stores[0].access, p.args, m.axes, type);
  if (!out || out->step[1] < out->size(2)) return decline("a result whose rows do not lie densely, or of another type");
  ProductSpec spec;
  spec.types.operands = type, spec.types.dst = out->dtype;
  spec.rows = a.size(1), spec.columns = b.size(1), spec.depth = a.size(2);
  spec.src_stride = dense ? a.step[1] : a.size(2), spec.dst_stride = out->step[1];
  spec.weight_column_stride = b.step[1], spec.weight_stride = b.step[2];
  PrimitiveMemory memory{a.at(0, 0, 0), b.at(0, 0, 0), nullptr, const_cast<std::byte*>(out->at(0, 0, 0)), {}, b.dtype};
  if (std::string why = set_ops(p, m, spec, memory); !why.empty()) return decline(std::move(why));
  const bool guarded = may_lose_nan(spec.ops);
  if (guarded && !(p.context.sees_nan && repeatable(p.kernel))) return decline("a NaN could get lost unseen");
  auto [product, why_not] = make_product(*p.context.primitives, spec, memory);
  if (!product) return decline(std::move(why_not));
  auto gather = dense ? nullptr : gather_rows(m, p.args, p.context.threads);
  auto step = std::make_unique<ProductStep>(p.context, std::move(product), spec, std::move(gather));
  if (!guarded) return accept(std::move(step));
  return accept(guard_nan(std::move(step), blocks::make_streamed_step(p)));
}

}  // namespace npusim::cpu::product::onednn
