// The counter of a random call.
#include "ops/philox.h"

#include "base/error.h"

namespace npusim {

Draw draw(OpKernel& k, const Lowering& lowering) { return draw(k, lowering, static_cast<int>(k.space().size())); }

Draw draw(OpKernel& k, const Lowering& lowering, int dims) {
  const OpCall& call = lowering.call;
  if (call.attrs.size() != call.op->schema.args.size() + 1)
    fail(ErrorKind::internal, "{}: no generator", call.op->name());
  Affine element;
  element.coeffs.assign(static_cast<size_t>(dims), 0);
  int64_t elements = 1;
  for (int d = dims; d-- > 0;) {
    element.coeffs[static_cast<size_t>(d)] = elements;
    elements *= k.space()[static_cast<size_t>(d)];
  }
  const int generator = k.read(lowering.input(static_cast<int>(call.inputs.size()) - 1));
  const Coord seed_at[] = {Coord(int64_t{0})}, calls_at[] = {Coord(int64_t{1})};
  const Ex seed = k.load(generator, seed_at);
  const Ex calls = k.load(generator, calls_at) + std::get<int64_t>(call.attrs.back());
  return {k, seed, calls, k.value(element), elements};
}

}  // namespace npusim
