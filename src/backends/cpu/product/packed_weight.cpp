// Packing of weights, and the cache that keeps them.
#include "backends/cpu/product/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "base/threads.h"

namespace npusim::cpu::product {
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

int64_t panel_bytes(const PackedWeight& packed, const Operand& b, int64_t width) {
  return b.size(2) * width * static_cast<int64_t>(dtype_size(packed.dtype));
}

std::shared_ptr<PackedWeight> room_for(const Operand& b, int64_t width) {
  auto packed = std::make_shared<PackedWeight>();
  packed->dtype = narrow_type(b.dtype) && b.bounds.empty() ? b.dtype : DType::f32;
  const int64_t panels = b.size(0) * ceil_div(b.size(1), width);
  packed->data = aligned_bytes(static_cast<size_t>(panels * panel_bytes(*packed, b, width)));
  return packed;
}

void pack_weight(const Operand& b, int64_t width, int threads, const PackedWeight& packed) {
  const int64_t panels = ceil_div(b.size(1), width), bytes = panel_bytes(packed, b, width);
  on_threads(threads, [&](int thread) {
    const int64_t all = b.size(0) * panels;
    for (int64_t p = all * thread / threads; p < all * (thread + 1) / threads; ++p) {
      std::byte* dst = packed.data.get() + p * bytes;
      const int64_t batch = p / panels, j0 = p % panels * width;
      if (packed.dtype == DType::f32)
        pack_panel(b, width, batch, j0, 0, b.size(2), reinterpret_cast<float*>(dst));
      else
        pack_panel_bits(b, width, batch, j0, reinterpret_cast<uint16_t*>(dst));
    }
  });
}

std::shared_ptr<const PackedWeight> packed_now(const Operand& b, int64_t width, int threads) {
  const std::shared_ptr<PackedWeight> packed = room_for(b, width);
  pack_weight(b, width, threads, *packed);
  return packed;
}

// All memory that it may read.
SharedInputs::Range memory_of(const Operand& b) {
  int64_t first = b.offset, last = b.offset;
  const auto reach = [&](const std::vector<int64_t>& all, int64_t stride) {
    if (all.empty()) return;
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    first += std::min(*least * stride, *most * stride), last += std::max(*least * stride, *most * stride);
  };
  for (const auto& offsets : b.offsets) reach(offsets, 1);
  for (const Operand::Bound& bound : b.bounds)
    for (const auto& values : bound.values) reach(values, bound.stride);
  const auto bytes = static_cast<int64_t>(dtype_size(b.dtype));
  return {b.data + first * bytes, b.data + (last + 1) * bytes};
}

bool is_written(const SharedInputs& shared, const SharedInputs::Range& memory) {
  const auto behind = [](const SharedInputs::Range& range, const std::byte* at) { return range.second <= at; };
  const auto found = std::lower_bound(shared.written.begin(), shared.written.end(), memory.first, behind);
  return found != shared.written.end() && found->first < memory.second;
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
  if (!context.weights) return packed_now(b, width, context.threads);
  const std::string key = weight_key(b, width);
  const std::lock_guard lock(context.weights->mutex);
  auto& entry = context.weights->weights[key];
  if (!entry) entry = packed_now(b, width, context.threads);
  return entry;
}

void note_written(SharedInputs& shared, std::vector<SharedInputs::Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (const SharedInputs::Range& range : ranges)
    if (shared.written.empty() || range.first > shared.written.back().second)
      shared.written.push_back(range);
    else
      shared.written.back().second = std::max(shared.written.back().second, range.second);
}

std::shared_ptr<SharedInput> shared_input(const Operand& b, int64_t width, const Context& context) {
  if (!context.inputs || b.size(0) * b.size(1) * b.size(2) == 0 || is_written(*context.inputs, memory_of(b)))
    return nullptr;
  std::shared_ptr<SharedInput>& input = context.inputs->inputs[weight_key(b, width)];
  if (!input) input = std::make_shared<SharedInput>();
  if (++input->steps < 2) return nullptr;
  if (!input->packed) input->packed = room_for(b, width), input->run = context.inputs->run;
  return input;
}

void renew(SharedInput& input, const Operand& b, int64_t width, int threads) {
  if (input.packed_in == *input.run) return;
  pack_weight(b, width, threads, *input.packed);
  input.packed_in = *input.run;
}

}  // namespace npusim::cpu::product
