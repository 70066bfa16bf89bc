// Recognising what oneDNN's matmul takes along.
#include "backends/cpu/product/onednn_matmul.h"

#include <fmt/format.h>

#include <optional>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/nan_guard.h"
#include "backends/cpu/product/onednn.h"

namespace npusim::cpu {
namespace {

constexpr int64_t least_rows = 16;

// Rows that are not dense, copied before they are multiplied.
struct Gather {
  Loops loops;
  std::vector<void*> args;  // from, to
  size_t bytes;
};

std::unique_ptr<Gather> gather_rows(const Kernel& kernel, std::span<const Binding> args, const MatmulAxes& axes,
                                    const Access& rows, int threads) {
  std::vector<int64_t> space, strides;
  for (const Axis* axis : {&axes.rows, &axes.depth})
    for (size_t i = 0; i < axis->dims.size(); ++i) {
      space.push_back(axis->extents[i]);
      strides.push_back(rows.strides[static_cast<size_t>(axis->dims[i])]);
    }
  const auto arg = static_cast<size_t>(rows.arg);
  const DType dtype = kernel.args[arg].dtype;
  const size_t bytes = static_cast<size_t>(element_count(space)) * dtype_size(dtype);
  return std::make_unique<Gather>(
      Gather{Loops(dense_copy(kernel.args[arg], rows.offset, space, strides, dtype), threads),
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
    product_->rebind(scratch_ + (gather_ ? gather_->bytes : 0), gather_ ? scratch : nullptr, nullptr);
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

bool plain(const Operand& o, DType dtype) { return o.dtype == dtype && o.bounds.empty() && o.size(0) == 1; }

// Rows a positive distance apart, elements of a row side by side, in float32 or the type of the operands.
std::optional<Operand> dense_rows(const Kernel& kernel, const Access& access, std::span<const Binding> args,
                                  const MatmulAxes& axes, DType operands) {
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

bool set_ops(const Kernel& kernel, std::span<const Binding> args, const MatmulAxes& axes, ProductSpec& spec,
             PrimitiveMemory& memory) {
  auto ops = match_post_ops(kernel, kernel.stores[0].expr);
  if (!ops) return false;
  for (const PostOp& op : *ops) {
    if (op.add < 0) {
      if (kernel.contraction->kind != ContractionKind::conv && !is_smooth(op.activation)) return false;
      continue;
    }
    const auto added =
        dense_rows(kernel, kernel.accesses[static_cast<size_t>(op.add)], args, axes, spec.types.operands);
    if (!added) return false;
    if (&op == ops->data() && added->step[1] == 0) {
      spec.bias = true;
      spec.types.bias = added->dtype;
      memory.bias = added->at(0, 0, 0);
      continue;
    }
    if (added->step[1] != 0 && added->step[1] != spec.dst_stride) return false;  // oneDNN adds where it writes
    spec.add_strides.push_back(added->step[1]);
    spec.types.adds.push_back(added->dtype);
    memory.adds.push_back(added->at(0, 0, 0));
  }
  if (spec.bias) ops->erase(ops->begin());
  spec.ops = std::move(*ops);
  return true;
}

}  // namespace

std::unique_ptr<BoundStep> make_product_step(const Kernel& kernel, std::span<const Binding> args,
                                             const Context& context, const MatmulAxes& axes, const Access& rows,
                                             const Operand& a, const Operand& b) {
  const size_t known = axes.rows.dims.size() + axes.columns.dims.size();
  if (!context.primitives || kernel.stores.size() != 1 || kernel.stores[0].accumulate || known != kernel.space.size())
    return nullptr;
  const DType type = a.dtype;
  if (!context.multiplies(type) || !plain(a, type) || !plain(b, type) || a.size(1) < least_rows || a.size(2) == 0)
    return nullptr;
  if (b.step[1] < 1 || b.step[2] < 1) return nullptr;
  // Own float32 products take any rows.
  const bool dense = a.step[1] >= a.size(2) && a.step[2] == 1;
  if (!dense && type == DType::f32) return nullptr;
  const auto out = dense_rows(kernel, kernel.stores[0].access, args, axes, type);
  if (!out || out->step[1] < out->size(2)) return nullptr;
  ProductSpec spec;
  spec.types.operands = type, spec.types.dst = out->dtype;
  spec.rows = a.size(1), spec.columns = b.size(1), spec.depth = a.size(2);
  spec.src_stride = dense ? a.step[1] : a.size(2), spec.dst_stride = out->step[1];
  spec.weight_column_stride = b.step[1], spec.weight_stride = b.step[2];
  PrimitiveMemory memory{a.at(0, 0, 0), b.at(0, 0, 0), nullptr, const_cast<std::byte*>(out->at(0, 0, 0)), {}};
  if (!set_ops(kernel, args, axes, spec, memory)) return nullptr;
  const bool guarded = may_lose_nan(spec.ops);
  if (guarded && !(context.sees_nan && repeatable(kernel))) return nullptr;
  auto product = make_product(*context.primitives, spec, memory);
  if (!product) return nullptr;
  auto gather = dense ? nullptr : gather_rows(kernel, args, axes, rows, context.threads);
  auto step = std::make_unique<ProductStep>(context, std::move(product), spec, std::move(gather));
  if (!guarded) return step;
  return guard_nan(std::move(step), make_streamed_step(kernel, args, context), context);
}

}  // namespace npusim::cpu
