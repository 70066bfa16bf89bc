// What a random call draws.
#pragma once
#include "kernel/draw.h"
#include "ops/op.h"

namespace npusim {

// Of a call whose record says that it draws. Behind the operands of its schema it has the generator's state, behind its
// attributes how many of the method's calls draw before it (graph/generator.h). The element is the kernel's own,
// counted over the first `dims` dimensions of its space; all of them by default.
Draw draw(OpKernel& k, const Lowering& lowering);
Draw draw(OpKernel& k, const Lowering& lowering, int dims);

}  // namespace npusim
