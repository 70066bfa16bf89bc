// A walk along the steps with what each value follows from.
#include "program/state_stores.h"

#include <algorithm>
#include <map>

namespace npusim {
namespace {

// What a value follows from: of several the last.
enum class From : uint8_t { constants, positions, others };

// The stores of a kernel into one argument, all together.
struct Stored {
  int64_t fewest = 0;      // extents of index terms; 0: there are none
  std::vector<int> loads;  // the arguments that the index terms load from
  bool computed = false;   // a term follows from a contraction, too
};

Stored stored_in(const Kernel& k, size_t arg) {
  Stored result;
  std::vector<bool> seen(k.exprs.size(), false);
  std::vector<int> open;
  const auto visit = [&](const Access& access) {
    for (const IndexTerm& term : access.terms) open.push_back(term.expr);
  };
  for (const Store& store : k.stores) {
    if (static_cast<size_t>(store.access.arg) != arg) continue;
    for (const IndexTerm& term : store.access.terms)
      result.fewest = result.fewest ? std::min(result.fewest, term.extent) : term.extent;
    visit(store.access);
  }
  while (!open.empty()) {
    const auto at = static_cast<size_t>(open.back());
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Expr& expr = k.exprs[at];
    for (int i = 0; i < expr_arity(expr.op); ++i) open.push_back(expr.in[static_cast<size_t>(i)]);
    result.computed = result.computed || expr.op == ExprOp::contraction;
    if (expr.op != ExprOp::load) continue;
    const Access& access = k.accesses[static_cast<size_t>(expr.integer)];
    result.loads.push_back(access.arg);
    visit(access);
  }
  return result;
}

class StoreReader {
 public:
  StoreReader(const Variant& variant, const Method& method)
      : variant_(variant), method_(method), from_(variant.buffers.size(), From::others) {
    for (size_t b = 0; b < from_.size(); ++b)
      if (const BufferKind kind = variant.buffers[b].kind;
          kind == BufferKind::weight || kind == BufferKind::constant || kind == BufferKind::prepared)
        from_[b] = From::constants;
    for (const TensorSpec& spec : method.inputs)
      if (spec.role == Role::positions) from(spec.buffer) = From::positions;
  }

  StateStores run() {
    for (const Step& step : method_.steps)
      if (step.is_transfer())
        transfer(step);
      else
        kernel(step);
    return result_;
  }

 private:
  From& from(int32_t buffer) { return from_[static_cast<size_t>(buffer)]; }
  bool is_state(int32_t buffer) const {
    return variant_.buffers[static_cast<size_t>(buffer)].kind == BufferKind::state;
  }

  void transfer(const Step& step) {
    from(step.buffers[1]) = from(step.buffers[0]);
    if (is_state(step.buffers[1])) result_.by_position = false;
  }

  void kernel(const Step& step) {
    const Kernel& k = variant_.kernels[static_cast<size_t>(step.kernel)];
    From read = From::constants;
    for (size_t a = 0; a < k.args.size(); ++a)
      if (!k.args[a].written) read = std::max(read, from(step.buffers[a]));
    for (size_t a = 0; a < k.args.size(); ++a)
      if (k.args[a].written && is_state(step.buffers[a])) state(step, k, a);
    for (size_t a = 0; a < k.args.size(); ++a)
      if (k.args[a].written) from(step.buffers[a]) = read;
  }

  // What a step stores in a state, with what values follow from before it.
  void state(const Step& step, const Kernel& k, size_t arg) {
    const auto [known, fresh] = stored_.try_emplace({step.kernel, arg});
    if (fresh) known->second = stored_in(k, arg);
    const Stored& stored = known->second;
    From index = stored.computed ? From::others : From::constants;
    for (const int a : stored.loads) index = std::max(index, from(step.buffers[static_cast<size_t>(a)]));
    if (stored.fewest > 0)
      result_.capacity = result_.capacity ? std::min(result_.capacity, stored.fewest) : stored.fewest;
    result_.by_position = result_.by_position && index == From::positions;
  }

  const Variant& variant_;
  const Method& method_;
  std::vector<From> from_;  // by buffer
  std::map<std::pair<int32_t, size_t>, Stored> stored_;
  StateStores result_;
};

}  // namespace

StateStores state_stores(const Program& program, size_t method) {
  const auto of = [&](const Variant& variant) { return StoreReader(variant, variant.methods[method]).run(); };
  StateStores result = of(program);
  for (const Variant& variant : program.variants) result.by_position = result.by_position && of(variant).by_position;
  return result;
}

}  // namespace npusim
