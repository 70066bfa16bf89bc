// Matching of rows.
#include "kernel/fuse/match_row.h"

#include <algorithm>

#include "kernel/fuse/simplify.h"
#include "kernel/fuse/substitute.h"

namespace npusim {
namespace {

using Dims = std::vector<size_t>;

// A consumer and the row it is asked for.
struct RowRequest {
  const Kernel& consumer;
  const StoredDims& stored;
  const std::vector<MappedIndex>& map;
  size_t outer;                 // dimensions of the producer before its row
  std::vector<int64_t> wanted;  // extents of the producer's row
  std::vector<bool> used;       // by dimension of the consumer: the producer's outer dimensions depend on it
};

RowRequest request_row(const Kernel& consumer, const Kernel& producer, const StoredDims& stored,
                       const std::vector<MappedIndex>& map) {
  const size_t outer = producer.space.size() - static_cast<size_t>(producer.row_dims);
  RowRequest r{consumer, stored, map, outer, {}, std::vector<bool>(consumer.space.size(), false)};
  r.wanted.assign(producer.space.begin() + static_cast<std::ptrdiff_t>(outer), producer.space.end());
  for (size_t i = 0; i < stored.dims.size(); ++i) {
    if (stored.dims[i] >= outer) continue;
    for (size_t d = 0; d < r.used.size(); ++d) r.used[d] = r.used[d] || map[i].coeffs[d] != 0;
  }
  return r;
}

// The stored value differs along the row: its dimensions map one to one.
std::optional<Dims> mapped_row(const RowRequest& r) {
  const size_t none = r.consumer.space.size();
  Dims row(r.wanted.size(), none);
  for (size_t i = 0; i < r.stored.dims.size(); ++i) {
    if (r.stored.dims[i] < r.outer) continue;
    const MappedIndex& m = r.map[i];
    if (m.guarded || m.term >= 0 || m.offset != 0) return std::nullopt;
    for (size_t d = 0; d < m.coeffs.size(); ++d) {
      if (m.coeffs[d] == 0) continue;
      size_t& slot = row[r.stored.dims[i] - r.outer];
      if (m.coeffs[d] != 1 || slot != none || r.consumer.space[d] != r.stored.extents[i] || r.used[d])
        return std::nullopt;
      slot = d;
    }
  }
  if (std::find(row.begin(), row.end(), none) != row.end()) return std::nullopt;
  return row;
}

// The consumer's own row.
Dims own_row(const Kernel& consumer) {
  Dims row;
  for (size_t d = consumer.space.size() - static_cast<size_t>(consumer.row_dims); d < consumer.space.size(); ++d)
    row.push_back(d);
  return row;
}

bool serves(const RowRequest& r, const Dims& row) {
  if (row.size() != r.wanted.size()) return false;
  for (size_t j = 0; j < row.size(); ++j)
    if (r.consumer.space[row[j]] != r.wanted[j] || r.used[row[j]]) return false;
  return true;
}

// The last free dimensions of the right extents; none when there are not enough.
Dims free_row(const RowRequest& r) {
  Dims row;
  size_t d = r.consumer.space.size();
  for (size_t j = r.wanted.size(); j-- > 0;) {
    while (d > 0 && (r.used[d - 1] || r.consumer.space[d - 1] != r.wanted[j])) --d;
    if (d == 0) return {};
    row.insert(row.begin(), --d);
  }
  return row;
}

// The dimensions to be the row; none: the consumer becomes the reduction's epilogue.
std::optional<Dims> match_row(const RowRequest& r) {
  const bool varies = std::any_of(r.stored.dims.begin(), r.stored.dims.end(), [&](size_t d) { return d >= r.outer; });
  if (!varies && r.consumer.row_dims == 0) return free_row(r);
  const std::optional<Dims> row = varies ? mapped_row(r) : std::optional(own_row(r.consumer));
  if (!row || (!varies && !serves(r, *row))) return std::nullopt;
  if (r.consumer.row_dims > 0 && *row != own_row(r.consumer)) return std::nullopt;
  return row;
}

// Moves the dimensions `row` (in this order) behind all others and makes them the row.
void make_row(Kernel& k, const std::vector<size_t>& row) {
  std::vector<size_t> order;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (std::find(row.begin(), row.end(), d) == row.end()) order.push_back(d);
  order.insert(order.end(), row.begin(), row.end());
  permute_dims(k, order);
  k.row_dims = static_cast<int>(row.size());
}

// Appends the producer's row dimensions to a consumer that has none: all it computes is the same along the row.
void append_row(Kernel& k, const std::vector<int64_t>& extents) {
  const size_t count = extents.size();
  k.space.insert(k.space.end(), extents.begin(), extents.end());
  k.row_dims = static_cast<int>(count);
  auto widen = [&](Access& a) {
    a.strides.resize(a.strides.size() + count, 0);
    for (Guard& g : a.guards) g.coeffs.resize(g.coeffs.size() + count, 0);
  };
  for (Access& a : k.accesses) widen(a);
  for (Store& s : k.stores) widen(s.access);
}

}  // namespace

bool take_row(Kernel& consumer, const Kernel& producer, const StoredDims& stored, const std::vector<MappedIndex>& map) {
  // What is added up is added once per point.
  if (std::any_of(consumer.stores.begin(), consumer.stores.end(), [](const Store& s) { return s.accumulate; }))
    return false;
  const RowRequest request = request_row(consumer, producer, stored, map);
  const std::optional<Dims> row = match_row(request);
  if (!row) return false;
  // A reduction is computed once per outer point: no more of them than the producer had.
  int64_t outer = 1;
  for (size_t d = 0; d < consumer.space.size(); ++d)
    if (std::find(row->begin(), row->end(), d) == row->end()) outer *= consumer.space[d];
  if (outer != points(producer.space, 0, request.outer)) return false;
  if (row->empty())
    append_row(consumer, request.wanted);
  else
    make_row(consumer, *row);
  return true;
}

}  // namespace npusim
