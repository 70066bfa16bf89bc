// First fit, the large ones first.
#include "backends/cuda/target/stream/block_memory.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace npusim::cuda {
namespace {

constexpr int64_t alignment = 128;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

void BlockMemory::keep(Places& where, int32_t name, int64_t bytes, int64_t now) {
  const auto [life, fresh] = lives_.try_emplace({&where, name}, Life{bytes, now, now});
  life->second.end = now;
  where.emplace(name, 0);
}

int64_t BlockMemory::place() {
  std::vector<std::pair<Places*, int32_t>> order;
  for (const auto& [key, life] : lives_) order.push_back(key);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::make_tuple(-lives_.at(a).bytes, lives_.at(a).begin, a.second) <
           std::make_tuple(-lives_.at(b).bytes, lives_.at(b).begin, b.second);
  });
  int64_t bytes = 0;
  for (const auto& key : order) {
    Life& mine = lives_.at(key);
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const auto& [other, life] : lives_)
      if (life.offset >= 0 && life.begin <= mine.end && mine.begin <= life.end)
        taken.emplace_back(life.offset, life.offset + life.bytes);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken)
      if (at + mine.bytes > begin) at = std::max(at, aligned(end));
    mine.offset = at;
    (*key.first)[key.second] = at;
    bytes = std::max(bytes, aligned(at + mine.bytes));
  }
  return bytes;
}

}  // namespace npusim::cuda
