// A merge sort: a thread orders a few elements in registers, then runs of the row's threads become one, two at a time.
// An element is a number that is ordered as it is, with its index in the row behind it: no two are equal, so equal
// elements keep their order whatever merges them, and what fills up the last thread comes last.
#include "backends/cuda/codegen/rows/order.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/text.h"
#include "kernel/facts/order.h"
#include "kernel/facts/product_axes.h"
#include "print/point.h"

namespace npusim::cuda::codegen::rows {
namespace {

constexpr int64_t most_bytes = least_block_bytes - (3 << 10);

// How an element and its index are kept: "{0}" its value as it lies in memory, "{1}" its index.
struct Keyed {
  std::string_view type, number, item, last, index;
  int bits;
};

// Numbers are of `bits`; what is descending has their complement.
Keyed keyed(DType dtype) {
  constexpr std::string_view none = "0xffffffffu", last_word = "0xffffffffffffffffull";
  const auto narrow = [&](std::string_view number, int bits) {
    return Keyed{"unsigned", number, "({0}) << 16 | {1}", none, "{0} & 0xffffu", bits};
  };
  switch (dtype) {
    case DType::boolean:
      return narrow("(unsigned)({0} != 0)", 16);
    case DType::u8:
      return narrow("(unsigned){0}", 16);
    case DType::i8:
    case DType::i16:
      return narrow("(unsigned)({0} + 0x8000)", 16);
    case DType::f16:
      return narrow("ordered_half({0}, 0x7c00u)", 16);
    case DType::bf16:
      return narrow("ordered_half({0}, 0x7f80u)", 16);
    case DType::i32:
    case DType::f32:
      return {"unsigned long long",
              dtype == DType::f32 ? "ordered_float({0})" : "(unsigned){0} ^ 0x80000000u",
              "(unsigned long long)({0}) << 32 | (unsigned){1}",
              last_word,
              "(unsigned){0}",
              32};
    case DType::i64:
    case DType::f64:
      break;
  }
  return {"Indexed",
          dtype == DType::f64 ? "ordered_double({0})" : "(unsigned long long){0} ^ 0x8000000000000000ull",
          "Indexed{{{0}, (unsigned){1}}}",
          "Indexed{0xffffffffffffffffull, 0xffffffffu}",
          "{0}.index",
          64};
}

int64_t item_bytes(const Keyed& keys) { return keys.bits == 64 ? 16 : keys.bits / 4; }

// Threads of a row and what each has of it.
struct RowShare {
  int elements = 1;
  int64_t threads = 32;
  int64_t rows = 1;   // of a block
  int64_t items = 0;  // of a row in shared memory, with room between them and one behind
};

RowShare share_row(int64_t length) {
  RowShare s;
  while (s.elements < 8 && s.elements * 32 < length) s.elements *= 2;
  s.threads = ((length + s.elements - 1) / s.elements + 31) / 32 * 32;
  s.rows = std::max<int64_t>(128 / s.threads, 1);
  const int64_t filled = s.threads * s.elements;
  s.items = (filled + (s.elements > 1 ? filled / s.elements : 0) + 2) / 2 * 2;
  return s;
}

int64_t rows_of(const Kernel& k) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < k.space.size(); ++d) rows *= k.space[d];
  return rows;
}

class OrderText {
 public:
  OrderText(const Kernel& kernel, const RowShare& share)
      : k_(kernel),
        s_(share),
        form_(order_form(kernel)),
        keys_(keyed(kernel.args[static_cast<size_t>(form_.from->arg)].dtype)) {}

  std::string body() {
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    t_.add("extern __shared__ uint4 shared_words[];");
    const bool several = s_.rows > 1, even = rows_of(k_) % s_.rows == 0;
    t_.add(fmt::format("const int thread = threadIdx.x{};", several ? fmt::format(" % {}", s_.threads) : ""));
    if (!even || rows_of(k_) > 1)
      t_.add(fmt::format("const int row = blockIdx.x{};",
                         several ? fmt::format(" * {} + threadIdx.x / {}", s_.rows, s_.threads) : ""));
    if (!even) t_.add(fmt::format("const bool there = row < {};", rows_of(k_)));
    t_.add(fmt::format("{0}* const items = ({0}*)shared_words{1};", keys_.type,
                       several ? fmt::format(" + threadIdx.x / {} * {}", s_.threads, s_.items) : ""));
    for (size_t d = 0; d + 1 < k_.space.size(); ++d)
      if (k_.space[d] > 1) axis_.dims.push_back(static_cast<int>(d)), axis_.extents.push_back(k_.space[d]);
    take_apart(t_, "row", axis_, "row");
    read(!even);
    merges();
    results(!even);
    return std::move(t_.text);
  }

 private:
  void each() {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int e = 0; e < {}; ++e)", s_.elements));
  }

  Term address(const Access& a, const Term& along) const {
    return sum_of({Term(a.offset), put_together(a.strides, axis_, "row"), along});
  }

  void read(bool guarded) {
    t_.add(fmt::format("{} own[{}];", keys_.type, s_.elements));
    each();
    t_.add(fmt::format("const int index = thread * {} + e;", s_.elements));
    t_.add(fmt::format("own[e] = {};", keys_.last));
    std::string condition = guarded ? "there" : "";
    if (form_.length < s_.threads * s_.elements)
      condition += fmt::format("{}index < {}", guarded ? " && " : "", form_.length);
    if (!condition.empty()) t_.open(fmt::format("if ({})", condition));
    const Term along =
        form_.from->strides.back() == 1 ? Term("index") : term("index * {:*}", Term(form_.from->strides.back()));
    t_.add(fmt::format("const auto element = in0[{}];", address(*form_.from, along).text));
    std::string number = fmt::format(fmt::runtime(keys_.number), "element");
    if (form_.descending) number = fmt::format(fmt::runtime(keys_.bits == 16 ? "0xffffu - ({})" : "~({})"), number);
    t_.add(fmt::format("own[e] = {};", fmt::format(fmt::runtime(keys_.item), number, "index")));
    if (!condition.empty()) t_.close();
    t_.close();
    t_.add(fmt::format("sort_own<{}>(own);", s_.elements));
  }

  void write() {
    each();
    t_.add(fmt::format("items[spread<{0}>(thread * {0} + e)] = own[e];", s_.elements));
    t_.close();
  }

  // Of each run as many elements are kept as the row stores.
  void merges() {
    const int64_t filled = s_.threads * s_.elements, kept = form_.first + form_.count;
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int length = {}; length < {}; length *= 2)", s_.elements, form_.length));
    write();
    const std::string meet =
        s_.threads == 32 ? "__syncwarp();"
                         : fmt::format("if (length < {}) __syncwarp(); else __syncthreads();", 16 * s_.elements);
    t_.add(meet);
    t_.add(fmt::format("const int begin = thread * {} / (2 * length) * (2 * length);", s_.elements));
    t_.add(fmt::format("const int middle = min(begin + length, {0}), end = min(begin + 2 * length, {0});", filled));
    t_.add(fmt::format("const int from = thread * {} - begin;", s_.elements));
    std::string wanted;
    if (kept < form_.length) wanted = fmt::format("from < {}", kept);
    if (form_.first > 0)
      wanted += fmt::format("{}(2 * length < {} || from + {} > {})", wanted.empty() ? "" : " && ", form_.length,
                            s_.elements, form_.first);
    t_.add(fmt::format("{}merge_own<{}>(own, items, begin, middle, end, from);",
                       wanted.empty() ? "" : fmt::format("if ({}) ", wanted), s_.elements));
    t_.add(meet);
    t_.close();
  }

  void results(bool guarded) {
    write();
    t_.add(s_.threads == 32 ? "__syncwarp();" : "__syncthreads();");
    if (guarded) t_.add("if (!there) return;");
    t_.open(fmt::format("for (int n = thread; n < {}; n += {})", form_.count, s_.threads));
    const Term along = form_.step == 1 ? Term("n") : term("n * {:*}", Term(form_.step));
    const Term item =
        term("items[spread<{}>({})]", s_.elements, (form_.first > 0 ? term("n + {}", form_.first) : Term("n")).text);
    t_.add(fmt::format("out0[{}] = {};", address(*form_.to, along).text, fmt::format(fmt::runtime(keys_.index), item)));
    t_.close();
  }

  const Kernel& k_;
  const RowShare& s_;
  const OrderForm form_;
  const Keyed keys_;
  Axis axis_;
  Lines t_;
};

}  // namespace

std::string order_decline(const Kernel& k) {
  const OrderForm form = order_form(k);
  const KernelArg& from = k.args[static_cast<size_t>(form.from->arg)];
  if (form.length == 0 || form.count == 0 || rows_of(k) == 0) return "nothing to order";
  if (form.length > int64_t{8} * cuda_dialect.max_threads) return fmt::format("rows of {} elements", form.length);
  const RowShare share = share_row(form.length);
  const int64_t bytes = share.rows * share.items * item_bytes(keyed(from.dtype));
  if (bytes > most_bytes) return fmt::format("rows of {} elements of {}", form.length, dtype_name(from.dtype));
  constexpr int64_t most = int64_t{1} << 30;
  if (from.elements >= most || k.args[static_cast<size_t>(form.to->arg)].elements >= most || rows_of(k) >= most)
    return "large memory";
  return {};
}

GeneratedKernel make_ordered(const Kernel& kernel, const Features& features) {
  const OrderForm form = order_form(kernel);
  const RowShare share = share_row(form.length);
  const DType dtype = kernel.args[static_cast<size_t>(form.from->arg)].dtype;
  GeneratedKernel made;
  made.symbol = kernel_name(kernel);
  made.shape = {(rows_of(kernel) + share.rows - 1) / share.rows, static_cast<int>(share.threads * share.rows)};
  made.shared_bytes = share.rows * share.items * item_bytes(keyed(dtype));
  made.how = fmt::format("ordered rows, {} elements of {} threads", share.elements, share.threads);
  add_kernel(made, kernel, OrderText(kernel, share).body(), made.shape.blocks <= features.units);
  return made;
}

}  // namespace npusim::cuda::codegen::rows
