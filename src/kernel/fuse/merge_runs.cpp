// A merge sort as kernels.
#include "kernel/fuse/merge_runs.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernel/fuse/order_steps.h"

namespace npusim {
namespace {

// The elements of each row between two kernels: sorted runs one behind the other, all as long but the last.
struct Runs {
  int64_t elements = 0;
  int64_t length = 1;  // of a run
  int keys = -1;       // the value that holds them
  int indices = -1;    // the value that says where they come from; −1: they are the operand as it is
};

class Merger {
 public:
  explicit Merger(const Kernel& kernel) : steps_(kernel) {}

  Unfused run() {
    Runs runs{form_.length, 1, form_.from->arg, -1};
    do {
      runs = merge(runs);
    } while (runs.elements > runs.length);
    return std::move(steps_.unfused);
  }

 private:
  // Whether a comes before b whatever their positions. Of !(a >= b) && !isnan(a), which is the same, ptxas 13.0.88
  // makes wrong code in the last merge of seven elements.
  Ex is_before(Ex a, Ex b) const {
    const Ex less = form_.descending ? b < a : a < b;
    if (a.type() < Scalar::f32) return less;
    return less || (form_.descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a));
  }

  // The kernel that makes of each two runs one: the space is rows × pairs × positions of the merged run.
  Runs merge(const Runs& from) {
    const int64_t two = 2 * from.length, pairs = (from.elements + two - 1) / two;
    const bool first = from.indices < 0, last = pairs <= 1;
    const int64_t width = last ? form_.count : std::min(two, form_.first + form_.count);
    const int64_t left_over = from.elements - std::max<int64_t>(pairs - 1, 0) * two;  // of the last pair
    Runs to{std::max<int64_t>(pairs - 1, 0) * width + std::min(left_over, width), width, -1, -1};
    const DType key_type = steps_.argument(*form_.from).dtype;
    const DType index_type = form_.length <= std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;

    Shape space = steps_.rows;
    space.insert(space.end(), {pairs, width});
    KernelBuilder k(space);
    std::vector<int> values;
    const auto input = [&](int value, const TensorType& type) {
      values.push_back(value);
      return k.input(type);
    };
    const int keys = input(from.keys, {key_type, steps_.of_rows(from.elements)});
    const int indices = first ? -1 : input(from.indices, {index_type, steps_.of_rows(from.elements)});
    const int before = last ? steps_.argument(*form_.to).updates : -1;  // what the result updates
    const int updated = before < 0 ? -1 : input(before, {DType::i64, {steps_.argument(*form_.to).elements}});

    const Ex along = k.index(static_cast<int>(steps_.rows.size()) + 1);
    const Ex source = source_of(k, keys, from, last && form_.first > 0 ? along + form_.first : along);
    const Ex index = first ? source : load(k, indices, source);
    if (last) {
      values.push_back(form_.to->arg);
      const int result = k.output({DType::i64, {steps_.argument(*form_.to).elements}}, updated);
      const Coord start[] = {int64_t{0}};
      k.store(result, start, index);  // where: below
    } else {
      std::vector<Coord> at = steps_.row_of(k);
      at.emplace_back(k.dim(static_cast<int>(steps_.rows.size())) * width +
                      k.dim(static_cast<int>(steps_.rows.size()) + 1));
      const Ex key = load(k, keys, source);
      to.keys = steps_.add_scratch(steps_.of_rows(to.elements), key_type);
      to.indices = steps_.add_scratch(steps_.of_rows(to.elements), index_type);
      values.insert(values.end(), {to.keys, to.indices});
      k.store(k.output({key_type, steps_.of_rows(to.elements)}), at, key);
      k.store(k.output({index_type, steps_.of_rows(to.elements)}), at, index);
    }
    steps_.add(k, "_merge", std::move(values), first ? keys : -1,
               last ? std::optional<int64_t>(form_.step) : std::nullopt);
    return to;
  }

  // The row's element at a position, which is kept within the row where it has no meaning.
  Ex load(KernelBuilder& k, int arg, Ex position) const {
    std::vector<Coord> at = steps_.row_of(k);
    at.emplace_back(max(min(position, k.shape(arg).back() - 1), 0));
    return k.load(arg, at);
  }

  // Where in the row is the element that comes to a position in the point's merged run. Of the `position` elements that
  // come before it the first `taken` of the left run are some, if each of them comes before all that the right run
  // would have there instead: `taken` is the largest such number.
  Ex source_of(KernelBuilder& k, int keys, const Runs& from, Ex position) const {
    const int pair = static_cast<int>(steps_.rows.size());
    const int64_t length = from.length;
    const Ex left = k.index(pair) * (2 * length), right = left + length;
    const bool whole = from.elements % (2 * length) == 0;
    const Ex lefts = whole ? k.integer(length) : min(k.integer(from.elements) - left, length);
    const Ex rights = whole ? k.integer(length) : max(min(k.integer(from.elements) - right, length), 0);
    const Ex most = min(position, lefts);
    Ex taken = max(position - rights, 0);
    for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length))); step > 0; step /= 2) {
      const Ex more = taken + step;
      const Ex other = load(k, keys, right + position - more), own = load(k, keys, left + more - 1);
      taken = select(more <= most && !is_before(other, own), more, taken);
    }
    const Ex rest = position - taken;
    const Ex other = load(k, keys, right + rest), own = load(k, keys, left + taken);
    const Ex is_left = taken < lefts && (rest >= rights || !is_before(other, own));
    return select(is_left, left + taken, right + rest);
  }

  OrderSteps steps_;
  const OrderForm& form_ = steps_.form;
};

}  // namespace

Unfused merge_runs(const Kernel& kernel) { return Merger(kernel).run(); }

}  // namespace npusim
