// The text of products whose matrices are streamed.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream {

// One of several that multiply the same rows: its kernel, and the name of that kernel's point function (name_at).
struct NamedProduct {
  const Kernel* kernel = nullptr;
  const facts::StreamProduct* product = nullptr;
  std::string name;
};

// Of a block's memory, which two lots of tiles use alternately.
int64_t product_scratch();
// The functions NAME_begin(), which takes the first piece, and NAME_stream(): the products tile after tile; a block's
// lines of one begin with a tile of their own.
std::string print_products(std::span<const NamedProduct> run, const std::string& name);

}  // namespace npusim::cuda::codegen::stream
