// The kernel of a matrix product.
#include "ops/contract.h"

#include <algorithm>

namespace npusim {
namespace {

// Coordinates of a matmul operand in a kernel whose space is the result's and whose dimension `k_dim` is reduced.
// `matrix` are the coordinates of the last two dimensions (one for a vector); leading ones broadcast from the right.
std::vector<Coord> operand_at(const KernelBuilder& k, const Shape& shape, size_t batch_rank, std::vector<Coord> matrix) {
  std::vector<Coord> at;
  const size_t batch = shape.size() - matrix.size();
  for (size_t d = 0; d < batch; ++d) {
    if (shape[d] == 1) at.emplace_back(int64_t{0});
    else at.emplace_back(k.dim(static_cast<int>(batch_rank - batch + d)));
  }
  at.insert(at.end(), matrix.begin(), matrix.end());
  return at;
}

}  // namespace

void lower_matmul(Lowering& lowering, std::string name, const MatmulSpec& spec) {
  const TensorType& a = lowering.type(spec.a);
  const TensorType& b = lowering.type(spec.b);
  const TensorType& result = lowering.type(spec.result);
  const bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  const int64_t inner = a.shape.back();
  const size_t batch_rank = result.shape.size() - !row - !column;
  const auto rank = static_cast<int>(result.shape.size());
  const bool narrow = is_float(a.dtype) && is_float(b.dtype) && a.dtype != DType::f64 && b.dtype != DType::f64;
  const bool reduces = !narrow && inner != 1;

  Shape space = result.shape;
  if (reduces) space.push_back(inner);
  OpKernel k(lowering, space, reduces);
  const int a_arg = k.read(spec.a), b_arg = k.read(spec.b);
  const Coord along_k = inner == 1 ? Coord(int64_t{0}) : Coord(k.dim(rank));
  const Coord along_m = k.dim(static_cast<int>(batch_rank)), along_n = k.dim(rank - 1);
  const auto a_at = operand_at(k, a.shape, batch_rank, row ? std::vector{along_k} : std::vector{along_m, along_k});
  const auto b_at = operand_at(k, b.shape, batch_rank,
                               column ? std::vector{along_k}
                                      : spec.b_transposed ? std::vector{along_n, along_k} : std::vector{along_k, along_n});
  Ex x;
  if (inner == 1) x = k.load(a_arg, a_at) * k.load(b_arg, b_at);
  else if (reduces) x = k.reduce(Reduction::sum, k.load(a_arg, a_at) * k.load(b_arg, b_at));
  else x = k.contract(ContractionKind::matmul, {inner}, a_arg, a_at, b_arg, b_at);
  if (spec.alpha != 1) x = x * spec.alpha;
  if (spec.bias >= 0 && spec.beta != 0) {
    Ex bias = k.load_broadcast(k.read(spec.bias), reduces);
    x = x + (spec.beta == 1 ? bias : bias * spec.beta);
  }
  k.store(k.write(spec.result), x);
  k.done(std::move(name));
}

}  // namespace npusim
