// Packing of weights, and the cache that keeps them.
#include "backends/cpu/product/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "base/threads.h"

namespace npusim::cpu {
namespace {

bool narrow_type(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// A panel without conversion, for a 16-bit operand without bounds.
void pack_panel_bits(const Operand& b, int64_t width, int64_t batch, int64_t j0, uint16_t* dst) {
  const int64_t columns = std::min(width, b.size(1) - j0);
  const auto* from = reinterpret_cast<const uint16_t*>(b.data) + b.offset + b.offsets[0][static_cast<size_t>(batch)];
  for (int64_t k = 0; k < b.size(2); ++k) {
    const auto* row = from + b.offsets[2][static_cast<size_t>(k)];
    for (int64_t n = 0; n < columns; ++n) dst[k * width + n] = row[b.offsets[1][static_cast<size_t>(j0 + n)]];
    for (int64_t n = columns; n < width; ++n) dst[k * width + n] = 0;
  }
}

std::shared_ptr<const PackedWeight> pack_weight(const Operand& b, int64_t width, int threads) {
  const int64_t panels = ceil_div(b.size(1), width), depth = b.size(2);
  auto packed = std::make_shared<PackedWeight>();
  packed->dtype = narrow_type(b.dtype) && b.bounds.empty() ? b.dtype : DType::f32;
  const int64_t element = static_cast<int64_t>(dtype_size(packed->dtype)), panel_bytes = depth * width * element;
  packed->data = aligned_bytes(static_cast<size_t>(b.size(0) * panels * panel_bytes));
  on_threads(threads, [&](int thread) {
    const int64_t all = b.size(0) * panels;
    for (int64_t p = all * thread / threads; p < all * (thread + 1) / threads; ++p) {
      std::byte* dst = packed->data.get() + p * panel_bytes;
      const int64_t batch = p / panels, j0 = p % panels * width;
      if (packed->dtype == DType::f32)
        pack_panel(b, width, batch, j0, 0, depth, reinterpret_cast<float*>(dst));
      else
        pack_panel_bits(b, width, batch, j0, reinterpret_cast<uint16_t*>(dst));
    }
  });
  return packed;
}

std::string weight_key(const Operand& b, int64_t width) {
  uint64_t hash = 1469598103934665603u;
  auto mix = [&](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211u; };
  for (const auto& offsets : b.offsets)
    for (int64_t offset : offsets) mix(offset);
  for (const auto& bound : b.bounds) {
    mix(bound.limit), mix(bound.stride);
    for (const auto& values : bound.values)
      for (int64_t value : values) mix(value);
  }
  return fmt::format("{} {} {} {} {}x{}x{} {:x}", width, static_cast<const void*>(b.data), dtype_name(b.dtype),
                     b.offset, b.size(0), b.size(1), b.size(2), hash);
}

}  // namespace

void pack_panel(const Operand& b, int64_t width, int64_t batch, int64_t j0, int64_t k0, int64_t k1, float* dst) {
  const int64_t columns = std::min(width, b.size(1) - j0);
  if (columns < width) std::memset(dst, 0, static_cast<size_t>((k1 - k0) * width) * 4);
  pack_transposed(b, {batch, j0, j0 + columns, k0, k1}, dst, width);
}

std::shared_ptr<const PackedWeight> packed_weight(const Operand& b, int64_t width, const Context& context) {
  if (!context.weights) return pack_weight(b, width, context.threads);
  const std::string key = weight_key(b, width);
  const std::lock_guard lock(context.weights->mutex);
  auto& entry = context.weights->weights[key];
  if (!entry) entry = pack_weight(b, width, context.threads);
  return entry;
}

}  // namespace npusim::cpu
