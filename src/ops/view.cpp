// Copy kernels of views.
#include "ops/view.h"

namespace npusim {

void lower_copy(Lowering& lowering, std::string name,
                const std::function<std::vector<Coord>(const KernelBuilder&)>& coordinates, int operand, int result) {
  OpKernel k(lowering, lowering.type(lowering.output(result)).shape);
  const int from = k.read(lowering.input(operand));
  const Ex x = k.load(from, coordinates(k));
  k.store(k.write(lowering.output(result)), x);
  k.done(std::move(name));
}

void lower_reshape(Lowering& lowering, std::string name, int operand, int result) {
  const TensorType& source = lowering.type(lowering.input(operand));
  OpKernel k(lowering, {element_count(source.shape)});
  const Ex x = k.load_flat(k.read(lowering.input(operand)));
  k.store_flat(k.write(lowering.output(result)), x);
  k.done(std::move(name));
}

}  // namespace npusim
