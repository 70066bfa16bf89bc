// Padding: constant, reflected, replicated and circular borders; negative amounts crop.
#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

enum class PadMode { reflect, replicate, circular, constant };  // ATen's numbers

// Elements added before and after each dimension of the operand.
struct Padding {
  PadMode mode = PadMode::constant;
  std::vector<int64_t> before, after;
  double value = 0;
};

PadMode mode_of(const OpCall& call) {
  const std::string name = kernel_name(call);
  if (name.starts_with("reflection")) return PadMode::reflect;
  if (name.starts_with("replication")) return PadMode::replicate;
  if (name == "_pad_circular") return PadMode::circular;
  if (call.op->schema.find("mode") < 0) return PadMode::constant;
  if (std::holds_alternative<int64_t>(call.attr("mode"))) {
    if (call.integer("mode") < 0 || call.integer("mode") > 3)
      fail(ErrorKind::bad_input, "{}: unknown mode {}", call.op->name(), call.integer("mode"));
    return static_cast<PadMode>(call.integer("mode"));
  }
  const std::string mode = call.text("mode");
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "replicate") return PadMode::replicate;
  if (mode == "circular") return PadMode::circular;
  fail(ErrorKind::bad_input, "{}: unknown mode '{}'", call.op->name(), mode);
}

// The list goes from the last dimension to the first, two numbers each.
Padding padding_of(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  Padding p;
  p.mode = mode_of(call);
  p.before.assign(self.size(), 0);
  p.after.assign(self.size(), 0);
  const auto list = call.ints(call.op->schema.find("pad") >= 0 ? "pad" : "padding");
  if (list.size() % 2 != 0 || list.size() / 2 > self.size())
    fail(ErrorKind::bad_input, "{}: {} pad amounts for {}", call.op->name(), list.size(), to_string(self));
  for (size_t i = 0; i < list.size() / 2; ++i) {
    const size_t d = self.size() - 1 - i;
    p.before[d] = list[2 * i];
    p.after[d] = list[2 * i + 1];
    const int64_t most = std::max(p.before[d], p.after[d]);
    // What is cropped takes no part in a circle.
    const int64_t circle = self[d] + std::min<int64_t>(p.before[d], 0) + std::min<int64_t>(p.after[d], 0);
    if ((p.mode == PadMode::reflect && most >= self[d] && most > 0) ||
        (p.mode == PadMode::circular && most > 0 && most > circle) ||
        (p.mode == PadMode::replicate && most > 0 && self[d] == 0))
      fail(ErrorKind::bad_input, "{}: padding {} is too large for {}", call.op->name(), most, to_string(self));
  }
  if (call.op->schema.find("value") >= 0 && !call.is_none("value")) p.value = call.number("value");
  return p;
}

std::vector<TensorType> infer_pad(const OpCall& call) {
  TensorType type = call.type("self");
  const Padding p = padding_of(call);
  for (size_t d = 0; d < type.shape.size(); ++d) {
    int64_t both = 0;
    if (__builtin_add_overflow(p.before[d], p.after[d], &both) ||
        __builtin_add_overflow(type.shape[d], both, &type.shape[d]))
      fail(ErrorKind::bad_input, "{}: padding {} and {} is too large", call.op->name(), p.before[d], p.after[d]);
    if (type.shape[d] < 0)
      fail(ErrorKind::bad_input, "{}: more is cropped than {} has", call.op->name(), to_string(call.type("self")));
  }
  return {type};
}

// Which of the operand's n elements stands at `at`, counted from its first.
Ex border_index(KernelBuilder& k, const Padding& p, size_t d, int64_t n) {
  const Ex j = k.value(k.dim(static_cast<int>(d)) + (-p.before[d]));
  if (p.mode == PadMode::replicate) return max(min(j, n - 1), 0);
  if (p.mode == PadMode::reflect) return (n - 1) - abs((n - 1) - abs(j));
  const int64_t first = std::max<int64_t>(-p.before[d], 0), end = n - std::max<int64_t>(-p.after[d], 0);
  return select(j < first, j + (end - first), select(j >= end, j - (end - first), j));
}

void lower_pad(const OpCall& call, Lowering& lowering) {
  const Shape& self = call.type("self").shape;
  const Padding p = padding_of(call);
  OpKernel k(lowering, call.outputs[0].shape);
  const int from = k.read(lowering.input(0));
  std::vector<Coord> at;
  Ex inside = k.integer(1, Scalar::boolean);
  bool bordered = false;
  for (size_t d = 0; d < self.size(); ++d) {
    const Affine own = k.dim(static_cast<int>(d)) + (-p.before[d]);
    const bool crosses = p.before[d] > 0 || p.after[d] > 0;
    if (!crosses || p.mode == PadMode::constant)
      at.emplace_back(own);
    else
      at.emplace_back(border_index(k, p, d, self[d]));
    if (crosses && p.mode == PadMode::constant) {
      inside = bordered ? inside && k.in_bounds(own, self[d]) : k.in_bounds(own, self[d]);
      bordered = true;
    }
  }
  Ex x = k.load(from, at);
  if (bordered) x = select(inside, x, k.number(p.value, x.type()));
  k.store(k.write(lowering.output(0)), x);
  k.done("pad");
}

constexpr OpRecord pad(std::string_view schema, Memory memory = Memory::dense) {
  return in_memory(view(schema, infer_pad, lower_pad), memory);
}

constexpr OpRecord records[] = {
    pad("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", Memory::padded),
    pad("pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", Memory::padded),
    pad("_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", Memory::padded),
    pad("_pad_circular(Tensor self, SymInt[] pad) -> Tensor"),
    pad("reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"),
    pad("reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"),
    pad("reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor"),
    pad("replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"),
    pad("replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"),
    pad("replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> pad_ops() { return records; }

}  // namespace npusim
