// The step that orders rows: how they are shared among threads, and where each thread works.
#include "backends/cpu/order/order.h"

#include <bit>
#include <utility>

#include "backends/cpu/order/entries.h"
#include "backends/cpu/order/float_keys.h"
#include "backends/cpu/order/keys.h"
#include "backends/cpu/order/neighbours.h"
#include "backends/cpu/order/select.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"

namespace npusim::cpu::order {
namespace {

constexpr int64_t longest_row = int64_t{1} << 40;
constexpr int64_t long_row = 32768;       // elements that are worth all threads
constexpr int64_t least_elements = 2048;  // of rows that are worth a thread
constexpr int64_t few_elements = 8;       // of rows that are put in order side by side
constexpr int64_t count_bytes = digits * static_cast<int64_t>(sizeof(int64_t));

using FloatKeys = KeyOfFloat<uint32_t, 0x7f800000>;

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename Keys, typename Entry>
class OrderStep final : public BoundStep {
  using Raw = typename Keys::Raw;
  using Key = typename Keys::Key;

 public:
  OrderStep(const Kernel& kernel, std::vector<void*> args, int threads) : threads_(std::max(threads, 1)) {
    const OrderForm form = order_form(kernel);
    from_ = static_cast<const Raw*>(args[static_cast<size_t>(form.from->arg)]) + form.from->offset;
    to_ = static_cast<int64_t*>(args[static_cast<size_t>(form.to->arg)]) + form.to->offset;
    length_ = form.length, first_ = form.first, count_ = form.count;
    from_step_ = form.from->strides.back(), to_step_ = form.step;
    for (size_t d = 0; d + 1 < kernel.space.size(); ++d) {
      dims_.push_back({kernel.space[d], form.from->strides[d], form.to->strides[d]});
      rows_ *= kernel.space[d];
    }
    const std::vector<bool> meets = colliding_dims(kernel, *form.to);
    if (std::find(meets.begin(), meets.end(), true) != meets.end()) threads_ = 1;  // the last one stays
    if (form.descending) flip_ = static_cast<Key>(~uint64_t{0} >> (64 - Keys::bits));
    const bool short_row = length_ <= 2 * scan_block;  // whose elements a search has room for
    const bool few = first_ + count_ <= length_ / (short_row ? 4 : 8);
    mode_ = few ? Mode::few : count_ == 1 ? Mode::one : Mode::all;
    const int64_t entries = mode_ == Mode::few ? room_of_first(first_ + count_) : 2 * length_;
    of_thread_ =
        rounded(entries * static_cast<int64_t>(mode_ == Mode::one ? sizeof(Key) : sizeof(Entry))) + count_bytes;
    if (count_ > 0 && rows_ > 0) scratch_bytes_ = static_cast<size_t>(of_thread_ * threads_);
  }

  void run() override {
    if (scratch_bytes_ == 0) return;
    const int threads = std::min(threads_, thread_count());
    if (rows_ < threads && length_ >= long_row && mode_ != Mode::one) {
      // Of a few each part finds as many.
      const int64_t most = mode_ == Mode::few ? length_ / (first_ + count_) : threads;
      const auto parts = static_cast<int>(std::min<int64_t>(threads, most));
      for (int64_t row = 0; row < rows_; ++row) order_row(row, 0, parts);
      return;
    }
    const int64_t shares = std::min(rows_, rows_ * length_ / least_elements);
    const auto parts = static_cast<int>(std::clamp<int64_t>(shares, 1, threads));
    for_parts(parts, [&](int part) {
      const int64_t begin = rows_ * part / parts, end = rows_ * (part + 1) / parts;
      if (length_ <= few_elements) return order_short_rows(begin, end);
      for (int64_t row = begin; row < end; ++row) order_row(row, part, 1);
    });
  }
  std::string describe() const override {
    if (length_ <= few_elements) return "order of short rows";
    return mode_ == Mode::few ? "first of rows" : mode_ == Mode::one ? "one of rows" : "order of rows";
  }

 private:
  enum class Mode { all, few, one };
  struct Dim {
    int64_t extent, from, to;
  };
  struct Row {
    const Raw* from;
    int64_t* to;
  };
  Row row_at(int64_t row) const {
    Row at{from_, to_};
    for (size_t d = dims_.size(); d-- > 0; row /= dims_[d].extent) {
      const int64_t index = row % dims_[d].extent;
      at.from += index * dims_[d].from, at.to += index * dims_[d].to;
    }
    return at;
  }

  // Neighbours are exchanged where they must be, as many times as there are elements, in all rows of a block together.
  void order_short_rows(int64_t begin, int64_t end) const {
    constexpr int64_t block = 32;
    Entry entries[few_elements][block];
    int64_t* to[block];
    for (int64_t row = begin; row < end; row += block) {
      const int64_t n = std::min(block, end - row);
      for (int64_t r = 0; r < n; ++r) {
        const Row at = row_at(row + r);
        to[r] = at.to;
        for (int64_t i = 0; i < length_; ++i)
          entries[i][r] = Entry(Keys::key(at.from[i * from_step_]) ^ flip_, static_cast<uint64_t>(i));
      }
      for (int64_t pass = 0; pass < length_; ++pass)
        for (int64_t i = pass % 2; i + 1 < length_; i += 2)
          for (int64_t r = 0; r < n; ++r) put_in_order(entries[i][r], entries[i + 1][r]);
      for (int64_t r = 0; r < n; ++r)
        for (int64_t i = 0; i < count_; ++i) to[r][i * to_step_] = entries[first_ + i][r].index();
    }
  }

  Entry* entries_of(int thread) const { return reinterpret_cast<Entry*>(scratch_ + thread * of_thread_); }
  int64_t* counts() const {  // of all parts, behind all entries of the first thread's
    return reinterpret_cast<int64_t*>(scratch_ + threads_ * (of_thread_ - count_bytes));
  }

  // use(keys, n, first) for blocks of the row's elements [begin, end).
  template <typename Use>
  void each_block(const Raw* from, int64_t begin, int64_t end, Use&& use) const {
    Key keys[scan_block];
    for (int64_t at = begin; at < end; at += scan_block) {
      const int64_t n = std::min(scan_block, end - at);
      const Raw* block = from + at * from_step_;
      if (from_step_ != 1 || n < scan_block)
        for (int64_t i = 0; i < n; ++i) keys[i] = Keys::key(block[i * from_step_]) ^ flip_;
      else if constexpr (std::is_same_v<Keys, FloatKeys>)
        float_keys(block, flip_, 0, keys);
      else
        for (int64_t i = 0; i < scan_block; ++i) keys[i] = Keys::key(block[i]) ^ flip_;
      use(keys, n, at);
    }
  }

  // By `parts` threads, the first of which is this one.
  void order_row(int64_t row, int thread, int parts) const {
    if (mode_ == Mode::one) return one_of(row, thread);
    mode_ == Mode::few ? first_of(row, thread, parts) : all_of(row, thread, parts);
  }

  int64_t* counts_of(int thread) const {
    return reinterpret_cast<int64_t*>(scratch_ + (thread + 1) * of_thread_ - count_bytes);
  }

  void one_of(int64_t row, int thread) const {
    const Row at = row_at(row);
    Key* keys = reinterpret_cast<Key*>(scratch_ + thread * of_thread_);
    each_block(at.from, 0, length_,
               [&](const Key* block, int64_t n, int64_t first) { std::copy_n(block, n, keys + first); });
    auto* counts = reinterpret_cast<uint32_t*>(counts_of(thread));
    *at.to = select_index(keys, keys + length_, counts, length_, first_);
  }

  // The least and the largest key of some elements of the row.
  std::pair<Key, Key> range_of(const Row& at, int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<Keys, KeyOfInteger<int64_t, 64>>) {
      if (from_step_ == 1 && begin < end) {
        const auto [least, most] = order::range_of(reinterpret_cast<const int64_t*>(at.from) + begin, end - begin);
        const Key low = Keys::key(static_cast<Raw>(least)) ^ flip_, high = Keys::key(static_cast<Raw>(most)) ^ flip_;
        return flip_ == 0 ? std::pair(low, high) : std::pair(high, low);
      }
    }
    Key low = static_cast<Key>(~Key{0}), high = 0;
    each_block(at.from, begin, end, [&](const Key* keys, int64_t n, int64_t) {
      for (int64_t i = 0; i < n; ++i) low = std::min(low, keys[i]), high = std::max(high, keys[i]);
    });
    return {low, high};
  }
  // The same of all.
  std::pair<Key, Key> range_of_row(const Row& at, int thread, int parts) const {
    const auto ends = [&](int part) {
      return reinterpret_cast<Key*>(parts > 1 ? counts() + part * digits : counts_of(thread));
    };
    for_parts(parts, [&](int part) {
      const auto [low, high] = range_of(at, length_ * part / parts, length_ * (part + 1) / parts);
      ends(part)[0] = low, ends(part)[1] = high;
    });
    std::pair<Key, Key> range{ends(0)[0], ends(0)[1]};
    for (int part = 1; part < parts; ++part)
      range = {std::min(range.first, ends(part)[0]), std::max(range.second, ends(part)[1])};
    return range;
  }

  void all_of(int64_t row, int thread, int parts) const {
    const Row at = row_at(row);
    if constexpr (!Keys::narrow) return sort_row<Entry>(at, 0, Keys::bits, thread, parts);
    const auto [low, high] = range_of_row(at, thread, parts);
    const int bits = std::bit_width(static_cast<Key>(high - low));
    if (length_ <= int64_t{1} << 32 && sort_row_by_high_bits(at, low, bits, thread, parts)) return;
    sort_row<Entry>(at, low, bits, thread, parts);
  }

  // By keys from `low` on, of so many bits.
  template <typename Sorted>
  void sort_row(const Row& at, Key low, int bits, int thread, int parts) const {
    store_indices(at, sorted_by<Sorted>(at, low, 0, bits, thread, parts), parts);
  }

  // By the first 32 of those bits, and of the few whose are equal by all. False: more are, and nothing is stored.
  bool sort_row_by_high_bits(const Row& at, Key low, int bits, int thread, int parts) const {
    const int behind = std::max(bits - 32, 0);
    ShortEntry* sorted = sorted_by<ShortEntry>(at, low, behind, bits - behind, thread, parts);
    constexpr int64_t few = 16;
    const auto key = [&](const ShortEntry& e) { return Keys::key(at.from[e.index() * from_step_]) ^ flip_; };
    bool equal = false;
    for (int64_t i = 1; behind > 0 && i < length_; ++i) equal |= sorted[i].key() == sorted[i - 1].key();
    for (int64_t i = 0, end = 0; equal && i < length_; i = end) {
      for (end = i + 1; end < length_ && sorted[end].key() == sorted[i].key();) ++end;
      if (end - i > few) return false;
      if (end - i > 1)
        std::sort(sorted + i, sorted + end, [&](const ShortEntry& a, const ShortEntry& b) {
          return std::pair(key(a), a.index()) < std::pair(key(b), b.index());
        });
    }
    store_indices(at, sorted, parts);
    return true;
  }

  // By the bits of the keys from `low` on that `behind` lower ones stand behind.
  template <typename Sorted>
  Sorted* sorted_by(const Row& at, Key low, int behind, int bits, int thread, int parts) const {
    auto* entries = reinterpret_cast<Sorted*>(entries_of(thread));
    for_parts(parts, [&](int part) {
      each_block(at.from, length_ * part / parts, length_ * (part + 1) / parts,
                 [&](const Key* keys, int64_t n, int64_t first) {
                   using Part = decltype(entries->key());
                   for (int64_t i = 0; i < n; ++i)
                     entries[first + i] =
                         Sorted(static_cast<Part>((keys[i] - low) >> behind), static_cast<uint64_t>(first + i));
                 });
    });
    return sort_entries(entries, entries + length_, parts > 1 ? counts() : counts_of(thread), length_, bits, parts);
  }

  template <typename Sorted>
  void store_indices(const Row& at, const Sorted* sorted, int parts) const {
    for_parts(parts, [&](int part) {
      const int64_t end = count_ * (part + 1) / parts, step = to_step_;
      const Sorted* from = sorted + first_;
      for (int64_t i = count_ * part / parts; i < end; ++i) at.to[i * step] = from[i].index();
    });
  }

  void first_of(int64_t row, int thread, int parts) const {
    const Row at = row_at(row);
    const int64_t count = first_ + count_;
    for_parts(parts, [&](int part) {
      First<Entry, Key> first(entries_of(thread + part), count);
      int64_t begin = length_ * part / parts;
      const int64_t end = length_ * (part + 1) / parts;
      if constexpr (std::is_same_v<Keys, FloatKeys>)
        for (Key keys[scan_block]; from_step_ == 1 && begin + scan_block <= end; begin += scan_block)
          if (float_keys(at.from + begin, flip_, first.limit(), keys) || !first.full())
            first.take(keys, scan_block, begin);
      each_block(at.from, begin, end, [&](const Key* keys, int64_t n, int64_t from) { first.add(keys, n, from); });
      first.finish();
    });
    Entry* found = entries_of(thread);
    // Each part has found `count` of its own: it is long and they are few.
    for (int part = 1; part < parts; ++part) {
      std::copy_n(entries_of(part), count, found + count);
      std::nth_element(found, found + count - 1, found + 2 * count);
    }
    std::sort(found, found + count);
    for (int64_t i = 0; i < count_; ++i) at.to[i * to_step_] = found[first_ + i].index();
  }

  const Raw* from_ = nullptr;
  int64_t* to_ = nullptr;
  std::vector<Dim> dims_;  // all but the row
  int64_t rows_ = 1, length_ = 0, first_ = 0, count_ = 0, from_step_ = 0, to_step_ = 0;
  Key flip_ = 0;  // descending: all bits
  Mode mode_ = Mode::all;
  int threads_;
  int64_t of_thread_ = 0;  // bytes of scratch
};

}  // namespace

std::unique_ptr<BoundStep> make_order_step(const Kernel& kernel, std::vector<void*> args, int threads) {
  const DType dtype = kernel.args[static_cast<size_t>(kernel.accesses[0].arg)].dtype;
  if (kernel.space.back() > longest_row)
    fail(ErrorKind::unsupported, "rows of {} elements are too long to order (at most {})", kernel.space.back(),
         longest_row);
  return with_keys_of(dtype, [&](auto keys) -> std::unique_ptr<BoundStep> {
    using Keys = decltype(keys);
    if constexpr (Keys::bits <= 32)
      if (kernel.space.back() <= int64_t{1} << 32)
        return std::make_unique<OrderStep<Keys, ShortEntry>>(kernel, std::move(args), threads);
    return std::make_unique<OrderStep<Keys, LongEntry>>(kernel, std::move(args), threads);
  });
}

}  // namespace npusim::cpu::order
