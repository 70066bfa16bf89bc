// The step that orders rows: how they are shared among threads, and where each thread works.
#include "backends/cpu/order/order.h"

#include "backends/cpu/order/entries.h"
#include "backends/cpu/order/keys.h"
#include "kernel/facts/order.h"

namespace npusim::cpu {
namespace {

constexpr int64_t long_row = 32768;       // elements that are worth all threads
constexpr int64_t least_elements = 2048;  // of rows that are worth a thread
constexpr int64_t count_bytes = digits * static_cast<int64_t>(sizeof(int64_t));

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
    length_ = form.length, count_ = form.count;
    from_step_ = form.from->strides.back(), to_step_ = form.step;
    for (size_t d = 0; d + 1 < kernel.space.size(); ++d) {
      dims_.push_back({kernel.space[d], form.from->strides[d], form.to->strides[d]});
      rows_ *= kernel.space[d];
    }
    if (form.descending) flip_ = static_cast<Key>(~uint64_t{0} >> (64 - Keys::bits));
    few_ = count_ <= length_ / 8;
    const int64_t entries = few_ ? room_of_first(count_) : 2 * length_;
    of_thread_ = rounded(entries * static_cast<int64_t>(sizeof(Entry))) + count_bytes;
    if (count_ > 0 && rows_ > 0) scratch_bytes_ = static_cast<size_t>(of_thread_ * threads_);
  }

  void run() override {
    if (scratch_bytes_ == 0) return;
    int parts = std::min(threads_, thread_count());
    if (few_ && rows_ < parts)
      parts = static_cast<int>(std::min<int64_t>(parts, length_ / count_));  // each finds as many
    if (rows_ < parts && length_ >= long_row) {
      for (int64_t row = 0; row < rows_; ++row) few_ ? first_of(row, 0, parts) : all_of(row, 0, parts);
      return;
    }
    parallel_for(rows_, std::max<int64_t>(least_elements / length_, 1), [this](int64_t begin, int64_t end, int thread) {
      for (int64_t row = begin; row < end; ++row) few_ ? first_of(row, thread, 1) : all_of(row, thread, 1);
    });
  }
  std::string describe() const override { return few_ ? "first of rows" : "order of rows"; }

 private:
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

  Entry* entries_of(int thread) const { return reinterpret_cast<Entry*>(scratch_ + thread * of_thread_); }
  int64_t* counts() const {  // of all parts, behind all entries of the first thread's
    return reinterpret_cast<int64_t*>(scratch_ + threads_ * (of_thread_ - count_bytes));
  }

  // use(keys, n, place) for blocks of the row's elements [begin, end).
  template <typename Use>
  void each_block(const Raw* from, int64_t begin, int64_t end, Use&& use) const {
    Key keys[scan_block];
    for (int64_t at = begin; at < end; at += scan_block) {
      const int64_t n = std::min(scan_block, end - at);
      const Raw* block = from + at * from_step_;
      if (from_step_ == 1 && n == scan_block)
        for (int64_t i = 0; i < scan_block; ++i) keys[i] = Keys::key(block[i]) ^ flip_;
      else
        for (int64_t i = 0; i < n; ++i) keys[i] = Keys::key(block[i * from_step_]) ^ flip_;
      use(keys, n, at);
    }
  }

  void all_of(int64_t row, int thread, int parts) const {
    const Row at = row_at(row);
    Entry* entries = entries_of(thread);
    int64_t* own_counts = reinterpret_cast<int64_t*>(scratch_ + (thread + 1) * of_thread_ - count_bytes);
    for_parts(parts, [&](int part) {
      each_block(at.from, length_ * part / parts, length_ * (part + 1) / parts,
                 [&](const Key* keys, int64_t n, int64_t place) {
                   for (int64_t i = 0; i < n; ++i)
                     entries[place + i] = Entry(keys[i], static_cast<uint64_t>(place + i));
                 });
    });
    const Entry* sorted =
        sort_entries(entries, entries + length_, parts > 1 ? counts() : own_counts, length_, Keys::bits, parts);
    for_parts(parts, [&](int part) {
      for (int64_t i = count_ * part / parts; i < count_ * (part + 1) / parts; ++i)
        at.to[i * to_step_] = sorted[i].place();
    });
  }

  void first_of(int64_t row, int thread, int parts) const {
    const Row at = row_at(row);
    for_parts(parts, [&](int part) {
      First<Entry, Key> first(entries_of(thread + part), count_);
      each_block(at.from, length_ * part / parts, length_ * (part + 1) / parts,
                 [&](const Key* keys, int64_t n, int64_t place) { first.add(keys, n, place); });
      first.finish();
    });
    Entry* found = entries_of(thread);
    // Each part has found `count` of its own: it is long and they are few.
    for (int part = 1; part < parts; ++part) {
      std::copy_n(entries_of(part), count_, found + count_);
      std::nth_element(found, found + count_ - 1, found + 2 * count_);
    }
    std::sort(found, found + count_);
    for (int64_t i = 0; i < count_; ++i) at.to[i * to_step_] = found[i].place();
  }

  const Raw* from_ = nullptr;
  int64_t* to_ = nullptr;
  std::vector<Dim> dims_;  // all but the row
  int64_t rows_ = 1, length_ = 0, count_ = 0, from_step_ = 0, to_step_ = 0;
  Key flip_ = 0;  // descending: all bits
  bool few_ = false;
  int threads_;
  int64_t of_thread_ = 0;  // bytes of scratch
};

}  // namespace

std::unique_ptr<BoundStep> make_order_step(const Kernel& kernel, std::vector<void*> args, int threads) {
  const DType dtype = kernel.args[static_cast<size_t>(kernel.accesses[0].arg)].dtype;
  return with_keys_of(dtype, [&](auto keys) -> std::unique_ptr<BoundStep> {
    using Keys = decltype(keys);
    if constexpr (Keys::bits <= 32)
      if (kernel.space.back() <= int64_t{1} << 32)
        return std::make_unique<OrderStep<Keys, ShortEntry>>(kernel, std::move(args), threads);
    return std::make_unique<OrderStep<Keys, LongEntry>>(kernel, std::move(args), threads);
  });
}

}  // namespace npusim::cpu
