// The number of keys as a kernel of its own.
#include "kernel/facts/key_count.h"

#include "kernel/facts/compact.h"
#include "kernel/facts/score_kernel.h"

namespace npusim {

Kernel key_count(const Kernel& outer) {
  Kernel k = score_kernel(outer);
  k.name = "keys";
  k.contraction = nullptr;
  k.stores = {{.access = {}, .expr = outer.contraction->score->keys}};
  drop_dead(k);
  return k;
}

Kernel stored_count(const Kernel& outer) {
  Kernel count = key_count(outer);
  const int32_t expr = count.stores[0].expr;
  return storing(std::move(count), expr, DType::i64);
}

}  // namespace npusim
