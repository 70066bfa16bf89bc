// Keys, and for each digit what is counted and what is taken.
#include "kernel/fuse/select_digits.h"

#include <bit>
#include <cmath>

#include "kernel/fuse/order_steps.h"

namespace npusim {
namespace {

constexpr int digit_bits = 8;
constexpr int64_t digits = int64_t{1} << digit_bits;

// How a float is made of bits: of a sign, an exponent and a fraction.
struct FloatBits {
  int exponent = 0, fraction = 0;
};

FloatBits float_bits(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {5, 10};
    case DType::bf16:
      return {8, 7};
    case DType::f32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

// The bits of |x|, and behind those of infinity of NaN, as a whole number: arithmetic by powers of two, which is exact.
Ex magnitude_bits(KernelBuilder& k, Ex x, FloatBits bits) {
  const Scalar type = x.type();
  const int bias = (1 << (bits.exponent - 1)) - 1;
  const auto power = [&](int exponent) { return k.number(std::ldexp(1.0, exponent), type); };
  const Ex whole = abs(x), least = power(1 - bias);
  Ex scaled = whole, exponent = k.integer(bias);
  for (int by = 1 << (bits.exponent - 2); by > 0; by /= 2) {  // up to 1 and more
    const Ex small = scaled < power(1 - by);
    exponent = select(small, exponent - by, exponent), scaled = select(small, scaled * power(by), scaled);
  }
  for (int by = 1 << (bits.exponent - 2); by > 0; by /= 2) {  // down to less than 2
    const Ex large = scaled >= power(by);
    exponent = select(large, exponent + by, exponent), scaled = select(large, scaled * power(-by), scaled);
  }
  const int64_t one = int64_t{1} << bits.fraction, infinity = ((int64_t{1} << bits.exponent) - 1) * one;
  const Ex normal = exponent * one + k.cast((scaled - 1) * power(bits.fraction), Scalar::i64);
  const int half = (bias - 1 + bits.fraction) / 2;  // what has no exponent of its own, by a factor that is none either
  const Ex few = k.cast(whole * power(half) * power(bias - 1 + bits.fraction - half), Scalar::i64);
  const Ex finite = select(whole < least, few, normal);
  return select(isnan(x), k.integer(infinity + 1),
                select(whole == k.number(HUGE_VAL, type), k.integer(infinity), finite));
}

class Selector {
 public:
  explicit Selector(const Kernel& kernel) : steps_(kernel), dtype_(steps_.argument(*form_.from).dtype) {
    key_bits_ = dtype_ == DType::boolean ? digit_bits : 8 * static_cast<int>(dtype_size(dtype_));
    const auto most = static_cast<uint64_t>(std::max<int64_t>(form_.length - 1, 1));
    index_bits_ = (static_cast<int>(std::bit_width(most)) + digit_bits - 1) / digit_bits * digit_bits;
  }

  Unfused run() {
    make_keys();
    make_zeros();
    for (const bool of_index : {false, true})
      for (int shift = (of_index ? index_bits_ : key_bits_) - digit_bits; shift >= 0; shift -= digit_bits)
        take(of_index, shift, count(of_index, shift));
    return std::move(steps_.unfused);
  }

 private:
  // What is found of a row: digits of the key and of the index, zeros behind them, and which of the elements that have
  // them it is. −1: nothing yet.
  struct Found {
    int key = -1, index = -1, rank = -1;
  };

  // Signed whole numbers of key_bits_ bits.
  void make_keys() {
    KernelBuilder k(steps_.of_rows(form_.length));
    const int from = k.input({dtype_, k.space()});
    const Ex x = k.load_broadcast(from);
    Ex key = x;
    if (is_float(dtype_)) {
      const Ex magnitude = magnitude_bits(k, x, float_bits(dtype_));
      key = select(x < 0, -magnitude, magnitude);
    } else {
      key = k.cast(x, Scalar::i64);
      if (dtype_ == DType::u8) key = key - 128;
    }
    if (form_.descending) key = bit_xor(key, k.integer(-1));
    const DType dtype = key_bits_ > 32 ? DType::i64 : DType::i32;
    keys_ = steps_.add_scratch(k.space(), dtype);
    k.store(k.output({dtype, k.space()}), key);
    steps_.add(k, "_keys", {form_.from->arg, keys_}, from, {});
  }

  void make_zeros() {
    KernelBuilder k(steps_.of_rows(digits));
    for (int n = 0; n < (key_bits_ + index_bits_) / digit_bits; ++n) {
      zeros_.push_back(steps_.add_scratch(k.space(), DType::i32));
      k.store(k.output({DType::i32, k.space()}), k.integer(0));
    }
    steps_.add(k, "_zeros", zeros_, -1, {});
  }

  // Reads for a kernel what the values hold: of a row, at its index.
  struct Reads {
    const OrderSteps& steps;
    KernelBuilder& k;
    std::vector<int> values;

    int input(int value, const TensorType& type) {
      values.push_back(value);
      return k.input(type);
    }
    Ex of_row(int value) { return k.load(input(value, {DType::i64, steps.rows}), steps.row_of(k)); }
  };

  // How many elements have which digit, among those that have what is found.
  int count(bool of_index, int shift) {
    KernelBuilder k(steps_.of_rows(form_.length));
    Reads reads{steps_, k, {}};
    const Ex key = k.load_broadcast(reads.input(keys_, {steps_.unfused.scratch[0].dtype, k.space()}));
    const Ex number = of_index ? k.index(static_cast<int>(steps_.rows.size())) : key;
    const auto above = [&](Ex x) { return shr(x, k.integer(shift + digit_bits)); };
    const Ex found = found_.key < 0 ? k.integer(0) : reads.of_row(found_.key);
    Ex among = k.integer(1, Scalar::boolean);
    if (of_index) {
      among = key == found;
      if (found_.index >= 0) among = among && above(number) == above(reads.of_row(found_.index));
    } else if (found_.key >= 0) {
      among = above(key) == above(found);
    }
    Ex digit = shr(number, k.integer(shift));
    const bool sign = !of_index && shift + digit_bits == key_bits_;
    digit = sign ? digit + digits / 2 : bit_and(digit, k.integer(digits - 1));
    const int zeros = zeros_[counted_++], counts = steps_.add_scratch(steps_.of_rows(digits), DType::i32);
    const int before = reads.input(zeros, {DType::i32, steps_.of_rows(digits)});
    reads.values.push_back(counts);
    std::vector<Coord> at = steps_.row_of(k);
    at.emplace_back(digit);
    k.store(k.output({DType::i32, steps_.of_rows(digits)}, before), at, k.cast(among, Scalar::i64), Reduction::sum);
    steps_.add(k, "_count", std::move(reads.values), -1, {});
    return counts;
  }

  // The digit that has the rank among the elements counted, and the rank among those that have it.
  void take(bool of_index, int shift, int counts) {
    const bool last = of_index && shift == 0;
    KernelBuilder k(steps_.of_rows(digits), 1);
    Reads reads{steps_, k, {}};
    const Ex count = k.load_broadcast(reads.input(counts, {DType::i32, k.space()}));
    const Ex rank = found_.rank < 0 ? k.integer(form_.first) : reads.of_row(found_.rank);
    const int known = of_index ? found_.index : found_.key;
    const Ex higher = known < 0 ? k.integer(0) : reads.of_row(known);
    const int updated = last ? steps_.argument(*form_.to).updates : -1;  // what the result updates
    const int before = updated < 0 ? -1 : reads.input(updated, {DType::i64, {steps_.argument(*form_.to).elements}});
    const Ex up_to = k.scan(Reduction::sum, count), below = up_to <= rank;
    Ex digit = k.reduce(Reduction::sum, k.cast(below, Scalar::i64));
    if (!of_index && shift + digit_bits == key_bits_) digit = digit - digits / 2;
    const Ex number = higher + digit * (int64_t{1} << shift);
    if (last) {
      reads.values.push_back(form_.to->arg);
      const Coord start[] = {int64_t{0}};
      k.store(k.output({DType::i64, {steps_.argument(*form_.to).elements}}, before), start, number);  // where: add()
      return steps_.add(k, "_take", std::move(reads.values), -1, 0);
    }
    const auto keep = [&](Ex x) {
      reads.values.push_back(steps_.add_scratch(steps_.rows, DType::i64));
      k.store(k.output({DType::i64, steps_.rows}), steps_.row_of(k), x);
      return reads.values.back();
    };
    (of_index ? found_.index : found_.key) = keep(number);
    found_.rank = keep(rank - k.reduce(Reduction::max, select(below, up_to, k.integer(0))));
    steps_.add(k, "_take", std::move(reads.values), -1, {});
  }

  OrderSteps steps_;
  const OrderForm& form_ = steps_.form;
  const DType dtype_;
  int key_bits_ = 0, index_bits_ = 0;  // multiples of a digit's
  int keys_ = -1;
  std::vector<int> zeros_;  // what each digit's counts begin as
  size_t counted_ = 0;
  Found found_;
};

}  // namespace

Unfused select_digits(const Kernel& kernel) { return Selector(kernel).run(); }

}  // namespace npusim
