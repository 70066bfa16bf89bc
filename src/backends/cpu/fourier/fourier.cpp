// The step that transforms rows: which are transformed together, and how they come into scratch and out of it.
#include "backends/cpu/fourier/fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <type_traits>

#include "backends/cpu/fourier/transform.h"
#include "base/dtype.h"
#include "base/threads.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"

namespace npusim::cpu::fourier {
namespace {

constexpr int64_t column_bytes = 1 << 20;  // of a group of columns with its scratch: a share of the second cache
constexpr int64_t least_elements = 4096;   // of rows that are worth a thread

// What steps of one length share. It lives as long as one of them.
template <class T>
std::shared_ptr<const Transform<T>> transform_of(int64_t length, bool rows) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, bool>, std::weak_ptr<const Transform<T>>> known;
  const std::lock_guard lock(mutex);
  auto& entry = known[{length, rows}];
  auto found = entry.lock();
  if (!found) entry = found = std::make_shared<const Transform<T>>(length, rows);
  return found;
}

// The rows of one tensor: element j of a row at data[offset of the row + j · step], where j < count.
struct Side {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t count = 0, step = 0;
  bool is_there() const { return data != nullptr; }

  template <class T>
  bool is_plain() const {
    return dtype == (std::is_same_v<T, double> ? DType::f64 : DType::f32);
  }
  template <class T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(data) + offset;
  }
  template <class T>
  T read(int64_t at) const {
    if (dtype == DType::f16) return static_cast<T>(f16_to_float(reinterpret_cast<const uint16_t*>(data)[at]));
    if (dtype == DType::bf16) return static_cast<T>(bf16_to_float(reinterpret_cast<const uint16_t*>(data)[at]));
    return reinterpret_cast<const T*>(data)[at];
  }
  template <class T>
  void write(int64_t at, T x) const {
    if (dtype == DType::f16)
      reinterpret_cast<uint16_t*>(data)[at] = float_to_f16(static_cast<float>(x));
    else if (dtype == DType::bf16)
      reinterpret_cast<uint16_t*>(data)[at] = float_to_bf16(static_cast<float>(x));
    else
      reinterpret_cast<T*>(data)[at] = x;
  }
};

enum Of : size_t { from_re, from_im, to_re, to_im };

template <class T>
class FourierStep final : public BoundStep {
 public:
  FourierStep(const Kernel& kernel, const std::vector<void*>& args, int threads) : threads_(std::max(threads, 1)) {
    const FourierForm form = fourier_form(kernel);
    length_ = form.length, signal_ = form.signal, real_ = !form.im && !form.signal;
    halves_ = (real_ || signal_) && length_ % 2 == 0;
    half_ = length_ / 2;
    bind(kernel, form, args);
    if (rows_ == 0) return;
    const int64_t complex = halves_ ? half_ : length_;
    const bool apart = sides_[from_re].step != 1;
    const int64_t bytes = complex * lanes_ * 8 * static_cast<int64_t>(sizeof(T));
    columns_ = 2 * rows_ > lanes_ && bytes <= column_bytes * (apart ? 16 : 1);
    transform_ = transform_of<T>(complex, !columns_);
    room_ = (length_ + 1) * (columns_ ? lanes_ : 1) + lanes_;
    of_thread_ = 2 * room_ + (columns_ ? transform_->columns_scratch() : transform_->row_scratch());
    of_thread_ = (of_thread_ + lanes_ - 1) / lanes_ * lanes_;
    for (int64_t k = 0; halves_ && k <= half_ / 2 + lanes_; ++k) {
      const Twiddle factor = twiddle(k % length_, length_);
      twiddle_cos_.push_back(static_cast<T>(factor.cos)), twiddle_sin_.push_back(static_cast<T>(-factor.sin));
    }
    scratch_bytes_ = static_cast<size_t>(of_thread_ * threads_) * sizeof(T);
  }

  void run() override {
    if (scratch_bytes_ == 0) return;
    const int64_t items = columns_ ? (rows_ + lanes_ - 1) / lanes_ : rows_;
    const int64_t worth = std::max<int64_t>(rows_ * length_ / least_elements, 1);
    const auto shares = static_cast<int>(std::min<int64_t>({threads_, thread_count(), items, worth}));
    on_threads(shares, [&](int share) {
      T* scratch = reinterpret_cast<T*>(scratch_) + share * of_thread_;
      const int64_t end = items * (share + 1) / shares;
      int64_t item = items * share / shares;
      Walk walk(*this, item * (columns_ ? lanes_ : 1));
      for (; item < end; ++item) columns_ ? group_of_columns(walk, scratch) : one_row(walk, scratch);
    });
  }
  std::string describe() const override {
    return fmt::format("Fourier transform of {}{}, {}", halves_ ? "2 x " : "", halves_ ? half_ : length_,
                       columns_ ? "rows side by side" : "one row after the other");
  }

 private:
  struct Dim {
    int64_t extent;
    std::array<int64_t, 4> strides;
  };
  using Offsets = std::array<int64_t, 4>;  // of a row, by side

  // The rows one after the other.
  class Walk {
   public:
    Walk(const FourierStep& step, int64_t row) : step_(step), at_(step.begin_), left_(step.rows_ - row) {
      for (size_t d = step.dims_.size(); d-- > 0; row /= step.dims_[d].extent) {
        index_[d] = row % step.dims_[d].extent;
        move(d, index_[d]);
      }
    }
    int64_t left() const { return left_; }
    Offsets next() {
      const Offsets now = at_;
      --left_;
      for (size_t d = step_.dims_.size(); d-- > 0;) {
        move(d, 1);
        if (++index_[d] < step_.dims_[d].extent) break;
        move(d, -index_[d]);
        index_[d] = 0;
      }
      return now;
    }

   private:
    void move(size_t d, int64_t by) {
      for (size_t side = 0; side < 4; ++side) at_[side] += by * step_.dims_[d].strides[side];
    }
    const FourierStep& step_;
    Offsets at_;
    std::array<int64_t, max_dims> index_{};
    int64_t left_;
  };

  void bind(const Kernel& kernel, const FourierForm& form, const std::vector<void*>& args) {
    std::array<const Access*, 4> accesses{};
    const auto side = [&](Of of, const FourierForm::Row& row) {
      const auto arg = static_cast<size_t>(row.access->arg);
      sides_[of] = {static_cast<std::byte*>(args[arg]), kernel.args[arg].dtype, row.count, row.step};
      accesses[of] = row.access;
      begin_[of] = row.access->offset;
      const std::vector<bool> meets = of < to_re ? std::vector<bool>{} : colliding_dims(kernel, *row.access);
      if (std::find(meets.begin(), meets.end(), true) != meets.end()) threads_ = 1;  // the last one stays
    };
    side(from_re, form.re);
    if (form.im) side(from_im, *form.im);
    for (const size_t part : {0, 1})
      if (const auto& stored = form.parts[part]) {
        side(part ? to_im : to_re, stored->to);
        scales_[part] = static_cast<T>(stored->scale);
      }
    for (size_t d = 0; d + 1 < kernel.space.size(); ++d) {
      Dim dim{kernel.space[d], {}};
      for (size_t s = 0; s < 4; ++s) dim.strides[s] = accesses[s] ? accesses[s]->strides[d] : 0;
      dims_.push_back(dim);
      rows_ *= dim.extent;
    }
    // Neighbours in memory are neighbours among the rows.
    std::stable_sort(dims_.begin(), dims_.end(), [](const Dim& a, const Dim& b) {
      return std::abs(a.strides[from_re]) > std::abs(b.strides[from_re]);
    });
  }

  // ---- columns: real and imaginary parts of an element one behind the other, so that a real signal's elements are too

  struct Group {
    std::array<Offsets, 64> rows;
    int64_t count = 0;
    // From each to the next row of a side, or 0 where that is not always the same.
    int64_t distance(Of side) const {
      if (count < 2) return 1;
      const int64_t step = rows[1][side] - rows[0][side];
      for (int64_t l = 2; l < count; ++l)
        if (rows[static_cast<size_t>(l)][side] - rows[static_cast<size_t>(l - 1)][side] != step) return 0;
      return step;
    }
  };

  void group_of_columns(Walk& walk, T* scratch) const {
    Group group;
    group.count = std::min(lanes_, walk.left());
    for (int64_t l = 0; l < group.count; ++l) group.rows[static_cast<size_t>(l)] = walk.next();
    T* rest = scratch + 2 * room_;
    const Planar<T> z{scratch, scratch + lanes_, 2 * lanes_};
    if (group.count < lanes_) std::fill(scratch, scratch + 2 * (length_ + 1) * lanes_, T{});
    if (real_ && halves_) {
      load(group, from_re, z.re, lanes_, length_);
      transform_->columns(z, rest);
      f_.spectrum_of_halves(z, half_, twiddle_cos_.data(), twiddle_sin_.data(), false);
    } else if (real_) {
      load(group, from_re, z.re, z.ld, length_);
      fill(z.im, z.ld, 0, length_, lanes_);
      transform_->columns(z, rest);
    } else {
      const int64_t bins = signal_ ? half_ + 1 : length_;
      load(group, from_re, z.re, z.ld, bins);
      if (sides_[from_im].is_there())
        load(group, from_im, z.im, z.ld, bins);
      else
        fill(z.im, z.ld, 0, bins, lanes_);
      if (signal_ && halves_) f_.halves_of_spectrum(z, half_, twiddle_cos_.data(), twiddle_sin_.data(), false);
      if (signal_ && !halves_) make_whole(z, lanes_);
      transform_->columns(signal_ && halves_ ? Planar<T>{z.im, z.re, z.ld} : z, rest);
    }
    if (real_) finish_real(z, lanes_);
    if (sides_[to_re].is_there()) store(group, to_re, z.re, signal_ && halves_ ? lanes_ : z.ld);
    if (sides_[to_im].is_there()) store(group, to_im, z.im, z.ld);
  }

  static void fill(T* to, int64_t ld, int64_t begin, int64_t end, int64_t width) {
    for (int64_t j = begin; j < end; ++j) std::fill_n(to + j * ld, width, T{});
  }

  // Bins that are real, and those behind the middle where they are asked for.
  void finish_real(Planar<T> z, int64_t width) const {
    fill(z.im, z.ld, 0, 1, width);
    if (halves_) fill(z.im, z.ld, half_, half_ + 1, width);
    const int64_t kept = std::max(sides_[to_re].count, sides_[to_im].count);
    for (int64_t k = half_ + 1; halves_ && k < kept; ++k)
      for (int64_t l = 0; l < width; ++l) {
        z.re[k * z.ld + l] = z.re[(length_ - k) * z.ld + l];
        z.im[k * z.ld + l] = -z.im[(length_ - k) * z.ld + l];
      }
  }

  // The conjugate of a whole spectrum from its first half, of an odd length: its transform is the signal.
  void make_whole(Planar<T> z, int64_t width) const {
    fill(z.im, z.ld, 0, 1, width);
    for (int64_t k = 1; k <= half_; ++k)
      for (int64_t l = 0; l < width; ++l) {
        T &im = z.im[k * z.ld + l], &other = z.im[(length_ - k) * z.ld + l];
        z.re[(length_ - k) * z.ld + l] = z.re[k * z.ld + l];
        other = im, im = -im;
      }
  }

  void load(const Group& group, Of of, T* to, int64_t ld, int64_t length) const {
    const Side& side = sides_[of];
    const int64_t count = std::min(side.count, length), distance = group.distance(of);
    fill(to, ld, count, length, lanes_);
    const int64_t first = group.rows[0][of];
    if (side.is_plain<T>() && distance == 1 && group.count > 1) {
      for (int64_t j = 0; j < count; ++j) std::copy_n(side.at<T>(first + j * side.step), group.count, to + j * ld);
    } else if (side.is_plain<T>() && side.step == 1 && distance != 0) {
      f_.transpose(side.at<T>(first), distance, group.count, count, to, ld, T{1});
    } else {
      for (int64_t l = 0; l < group.count; ++l)
        for (int64_t j = 0; j < count; ++j)
          to[j * ld + l] = side.read<T>(group.rows[static_cast<size_t>(l)][of] + j * side.step);
    }
  }

  void store(const Group& group, Of of, const T* from, int64_t ld) const {
    const Side& side = sides_[of];
    const int64_t distance = group.distance(of), first = group.rows[0][of];
    const T scale = scales_[of - to_re];
    if (side.is_plain<T>() && distance == 1 && group.count > 1) {
      for (int64_t j = 0; j < side.count; ++j) {
        T* to = side.at<T>(first + j * side.step);
        for (int64_t l = 0; l < group.count; ++l) to[l] = scale * from[j * ld + l];
      }
    } else if (side.is_plain<T>() && side.step == 1 && distance != 0) {
      f_.transpose(from, ld, side.count, group.count, side.at<T>(first), distance, scale);
    } else {
      for (int64_t l = 0; l < group.count; ++l)
        for (int64_t j = 0; j < side.count; ++j)
          side.write<T>(group.rows[static_cast<size_t>(l)][of] + j * side.step, scale * from[j * ld + l]);
    }
  }

  // ---- one row

  void one_row(Walk& walk, T* scratch) const {
    const Offsets row = walk.next();
    T *re = scratch, *im = scratch + room_, *rest = scratch + 2 * room_;
    const Planar<T> z{re, im, 1};
    if (real_ && halves_) {
      load_pairs(row, re, im);
    } else {
      const int64_t bins = signal_ ? half_ + 1 : length_;
      load_row(row, from_re, re, bins);
      load_row(row, from_im, im, bins);
    }
    if (signal_ && halves_) f_.halves_of_spectrum(z, half_, twiddle_cos_.data(), twiddle_sin_.data(), true);
    if (signal_ && !halves_) make_whole(z, 1);
    const bool exchanged = signal_ && halves_;
    transform_->row(exchanged ? im : re, exchanged ? re : im, rest);
    if (real_ && halves_) f_.spectrum_of_halves(z, half_, twiddle_cos_.data(), twiddle_sin_.data(), true);
    if (real_) finish_real(z, 1);
    if (signal_ && halves_) return store_pairs(row, re, im);
    if (sides_[to_re].is_there()) store_row(row, to_re, re);
    if (sides_[to_im].is_there()) store_row(row, to_im, im);
  }

  void load_row(const Offsets& row, Of of, T* to, int64_t length) const {
    const Side& side = sides_[of];
    const int64_t count = std::min(side.count, length);
    if (count > 0 && side.is_plain<T>() && side.step == 1)
      std::copy_n(side.at<T>(row[of]), count, to);
    else
      for (int64_t j = 0; j < count; ++j) to[j] = side.read<T>(row[of] + j * side.step);
    std::fill(to + count, to + length, T{});
  }

  void load_pairs(const Offsets& row, T* re, T* im) const {
    const Side& side = sides_[from_re];
    if (side.is_plain<T>() && side.step == 1 && side.count == length_)
      return f_.split_pairs(side.at<T>(row[from_re]), half_, re, im);
    for (int64_t j = 0; j < length_; ++j) {
      T* to = j % 2 != 0 ? im : re;
      to[j / 2] = j < side.count ? side.read<T>(row[from_re] + j * side.step) : T{};
    }
  }

  void store_row(const Offsets& row, Of of, const T* from) const {
    const Side& side = sides_[of];
    const T scale = scales_[of - to_re];
    if (side.is_plain<T>() && side.step == 1) {
      T* to = side.at<T>(row[of]);
      for (int64_t j = 0; j < side.count; ++j) to[j] = scale * from[j];
    } else {
      for (int64_t j = 0; j < side.count; ++j) side.write<T>(row[of] + j * side.step, scale * from[j]);
    }
  }

  void store_pairs(const Offsets& row, const T* re, const T* im) const {
    const Side& side = sides_[to_re];
    if (side.is_plain<T>() && side.step == 1 && side.count == length_)
      return f_.join_pairs(re, im, half_, scales_[0], side.at<T>(row[to_re]));
    for (int64_t j = 0; j < side.count; ++j) {
      const T* from = j % 2 != 0 ? im : re;
      side.write<T>(row[to_re] + j * side.step, scales_[0] * from[j / 2]);
    }
  }

  const LaneFunctions<T>& f_ = lane_functions<T>();
  const int64_t lanes_ = f_.lanes;
  int threads_;
  int64_t length_ = 0, half_ = 0, rows_ = 1;
  bool signal_ = false, real_ = false;
  bool halves_ = false;   // transformed as complex elements of half the length
  bool columns_ = false;  // side by side
  std::shared_ptr<const Transform<T>> transform_;
  std::vector<T> twiddle_cos_, twiddle_sin_;
  std::array<Side, 4> sides_{};
  std::array<T, 2> scales_{1, 1};
  Offsets begin_{};
  std::vector<Dim> dims_;             // all but the row
  int64_t room_ = 0, of_thread_ = 0;  // elements
};

}  // namespace

std::unique_ptr<BoundStep> make_fourier_step(const Kernel& kernel, std::vector<void*> args, int threads) {
  if (kernel.exprs[static_cast<size_t>(kernel.stores[0].expr)].type == Scalar::f64)
    return std::make_unique<FourierStep<double>>(kernel, args, threads);
  return std::make_unique<FourierStep<float>>(kernel, args, threads);
}

}  // namespace npusim::cpu::fourier
