// Scores to kernels and back.
#include "kernel/facts/score_kernel.h"

namespace npusim {

Kernel score_kernel(const Kernel& outer) {
  const Score& score = *outer.contraction->score;
  Kernel k;
  k.name = outer.name + "_scores";
  k.space = score.space;
  for (const KernelArg& arg : outer.args)
    if (!arg.written) k.args.push_back(arg);
  k.accesses = score.accesses;
  k.exprs = score.exprs;
  Contraction product;
  product.reduce = score.reduce;
  product.a = score.a;
  product.b = score.b;
  k.contraction = std::make_shared<const Contraction>(std::move(product));
  return k;
}

Kernel storing(Kernel kernel, int32_t expr, DType dtype) {
  kernel.args.push_back({dtype, 1, true, -1});
  Access access;
  access.arg = static_cast<int>(kernel.args.size()) - 1;
  access.strides.assign(kernel.space.size(), 0);
  kernel.stores = {{.access = std::move(access), .expr = expr}};
  return kernel;
}

Kernel stored_score(const Kernel& outer) {
  return storing(score_kernel(outer), outer.contraction->score->result, DType::f32);
}

Score to_score(const Kernel& k) {
  const Contraction& product = *k.contraction;
  return {k.space,        k.accesses, k.exprs,   k.stores[0].expr,
          product.reduce, product.a,  product.b, k.stores.size() > 1 ? k.stores[1].expr : -1};
}

}  // namespace npusim
