// The text: elements of both tiles come to shared memory some of the row at a time, each pair is reduced in index
// order.
#include "backends/cuda/codegen/rows/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backends/cuda/codegen/locals.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/visit.h"

namespace npusim::cuda::codegen::rows {
namespace {

constexpr int64_t threads_across = 16,
                  most_depth = 32;  // threads of a block along each side, elements of a row at a time

// Expressions of the kernel, and the dimensions along which only one of both operands differs.
struct Pairs {
  int32_t first = -1, second = -1, reduced = -1;
  int rows = -1, columns = -1;
  std::vector<int> batch;
  int64_t batches = 1;
};

struct PairTile {
  int64_t side = 64;  // pairs of a block along each
  int64_t own() const { return side / threads_across; }
};

int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

int64_t tiles_of(const Kernel& k, const Pairs& p, int64_t side) {
  return p.batches * parts(k.space[static_cast<size_t>(p.rows)], side) *
         parts(k.space[static_cast<size_t>(p.columns)], side);
}

PairTile choose_tile(const Kernel& k, const Pairs& p, const Features& features) {
  return {tiles_of(k, p, 64) >= features.units * 3 / 4 ? 64 : 32};
}

const Access& access_of(const Kernel& k, int32_t load) {
  return k.accesses[static_cast<size_t>(k.exprs[static_cast<size_t>(load)].integer)];
}

// Of the dimensions along which only `access` differs, the longest; -1: none.
int own_dim(const Kernel& k, const Access& access, const Access& other) {
  int longest = -1;
  for (size_t d = 0; d + 1 < k.space.size(); ++d)
    if (access.strides[d] != 0 && other.strides[d] == 0 &&
        (longest < 0 || k.space[d] > k.space[static_cast<size_t>(longest)]))
      longest = static_cast<int>(d);
  return longest;
}

// What is reduced: all that it is made of, two loads and constants.
std::string find_operands(const Kernel& k, Pairs& p) {
  std::vector<bool> needed(k.exprs.size(), false);
  needed[static_cast<size_t>(k.exprs[static_cast<size_t>(p.reduced)].in[0])] = true;
  for (auto i = static_cast<size_t>(p.reduced); i-- > 0;) {
    if (!needed[i]) continue;
    const Expr& e = k.exprs[i];
    if (e.op == ExprOp::index) return "an index that is reduced";
    for_each_operand(k, e, [&](int32_t operand) { needed[static_cast<size_t>(operand)] = true; });
    if (e.op != ExprOp::load) continue;
    const Access& a = access_of(k, static_cast<int32_t>(i));
    if (!a.guards.empty() || !a.terms.empty()) return "an operand that is not all there";
    if (a.strides.back() == 0 || p.first >= 0) return "not two operands";
    (p.second < 0 ? p.second : p.first) = static_cast<int32_t>(i);
  }
  return p.first < 0 ? "not two operands" : "";
}

std::optional<Pairs> find_pairs(const Kernel& k, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (k.contraction || k.call || k.row_dims != 1 || k.space.back() == 0) return none("no row of one dimension");
  if (takes_trap(k)) return none("it may trap");
  const std::vector<bool> live = live_expressions(k, true);
  Pairs p;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    if (!live[i]) continue;
    if (k.exprs[i].op == ExprOp::scan) return none("a row that is scanned");
    if (k.exprs[i].op != ExprOp::reduce) continue;
    if (p.reduced >= 0 || k.exprs[i].type == Scalar::boolean) return none("not one reduction of numbers");
    p.reduced = static_cast<int32_t>(i);
  }
  if (p.reduced < 0) return none("nothing is reduced");
  const Dependence depends = dependence_of(k);
  const auto along_row = [&](const Access& a) {
    return a.strides.back() != 0 ||
           std::any_of(a.guards.begin(), a.guards.end(), [](const Guard& g) { return g.coeffs.back() != 0; });
  };
  for (const Store& s : k.stores)
    if (s.accumulate || along_row(s.access) || (depends.dims[static_cast<size_t>(s.expr)] & row_of(k)))
      return none("a result for each element of the row");
  if (std::string reason = find_operands(k, p); !reason.empty()) return none(std::move(reason));
  const Access &a = access_of(k, p.first), &b = access_of(k, p.second);
  p.rows = own_dim(k, a, b), p.columns = own_dim(k, b, a);
  if (p.rows < 0 || p.columns < 0) return none("operands that share their rows");
  for (int d = 0; d + 1 < static_cast<int>(k.space.size()); ++d)
    if (d != p.rows && d != p.columns) p.batch.push_back(d), p.batches *= k.space[static_cast<size_t>(d)];
  return p;
}

DType dtype_of(Scalar type) { return type == Scalar::f64 ? DType::f64 : type == Scalar::f32 ? DType::f32 : DType::i64; }

std::string identity(const Expr& reduce) {
  switch (reduce.reduction) {
    case Reduction::sum:
      return "0";
    case Reduction::product:
      return "1";
    case Reduction::min:
      return reduce.type == Scalar::i64 ? "0x7fffffffffffffffLL" : "INFINITY";
    case Reduction::max:
      break;
  }
  return reduce.type == Scalar::i64 ? "-0x7fffffffffffffffLL - 1" : "-INFINITY";
}

class PairsText {
 public:
  PairsText(const Kernel& kernel, const Pairs& pairs, const PairTile& tile)
      : k_(kernel),
        p_(pairs),
        tile_(tile),
        reduce_(kernel.exprs[static_cast<size_t>(pairs.reduced)]),
        depth_(std::min(kernel.space.back(), most_depth)),
        name_(kernel_name(kernel)) {}

  std::string functions() {
    Kernel points = k_;
    points.row_dims = 0;
    PointValues operand(points), result(points, true);
    operand.give(p_.first, held(p_.first)), operand.give(p_.second, held(p_.second));
    operand.take(reduce_.in[0], dtype_of(reduce_.type));
    result.give(p_.reduced, dtype_of(reduce_.type));
    std::string text = operand.print(name_ + "_pair", {});
    text += combination_text(name_ + "_combine", dtype_of(reduce_.type), reduce_.reduction);
    text += result.print(name_ + "_store", {{"batch", p_.batch}, {"row", {p_.rows}}, {"column", {p_.columns}}});
    pair_ = operand.call(name_ + "_pair", {}, {"&first[u]", "&second[v]"}, {"&both"});
    store_ = result.call(name_ + "_store", {"batch", "row", "column"}, {"&sums[u][v]"}, {});
    return text;
  }

  std::string body() {
    const int64_t across = parts(extent(p_.columns), tile_.side), down = parts(extent(p_.rows), tile_.side);
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    t_.add(fmt::format("const int x = threadIdx.x % {0}, y = threadIdx.x / {0};", threads_across));
    t_.add(fmt::format("const int column_0 = blockIdx.x % {} * {};", across, tile_.side));
    t_.add(fmt::format("const int row_0 = blockIdx.x / {} % {} * {};", across, down, tile_.side));
    t_.add(fmt::format("const int batch = blockIdx.x / {};", across * down));
    for (size_t d = 0; d < p_.batch.size(); ++d)
      batch_.dims.push_back(p_.batch[d]), batch_.extents.push_back(extent(p_.batch[d]));
    take_apart(t_, "batch", batch_, "batch");
    for (const std::string_view which : {"first", "second"}) {
      const int32_t load = which == "first" ? p_.first : p_.second;
      t_.add(fmt::format("__shared__ {} {}_tile[{}];", type(load), which, depth_ * (tile_.side + 1)));
    }
    const std::string_view sum = held_type(dtype_of(reduce_.type));
    t_.add(fmt::format("{} sums[{}][{}];", sum, tile_.own(), tile_.own()));
    each_pair(fmt::format("sums[u][v] = {};", identity(reduce_)));
    t_.open(fmt::format("for (int begin = 0; begin < {}; begin += {})", k_.space.back(), depth_));
    load_operand(p_.first, "first", "row_0", p_.rows);
    load_operand(p_.second, "second", "column_0", p_.columns);
    t_.add("__syncthreads();");
    const bool whole = k_.space.back() % depth_ == 0;
    if (!whole) t_.add(fmt::format("const int depth = min({}, {} - begin);", depth_, k_.space.back()));
    t_.add("#pragma unroll 4");
    t_.open(fmt::format("for (int k = 0; k < {}; ++k)", whole ? std::to_string(depth_) : "depth"));
    t_.add(fmt::format("{} first[{}];", type(p_.first), tile_.own()));
    t_.add(fmt::format("{} second[{}];", type(p_.second), tile_.own()));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int n = 0; n < {}; ++n)", tile_.own()));
    t_.add(fmt::format("first[n] = first_tile[k * {} + n * {} + y];", tile_.side + 1, threads_across));
    t_.add(fmt::format("second[n] = second_tile[k * {} + n * {} + x];", tile_.side + 1, threads_across));
    t_.close();
    each_pair(fmt::format("{} both;\n{}\n{}_combine(&sums[u][v], &both, &sums[u][v], 0);", sum, pair_, name_));
    t_.close();
    t_.add("__syncthreads();");
    t_.close();
    each_pair(fmt::format("const int row = row_0 + u * {0} + y, column = column_0 + v * {0} + x;\n{1}{2}",
                          threads_across, inside(), store_));
    return std::move(t_.text);
  }

 private:
  int64_t extent(int d) const { return k_.space[static_cast<size_t>(d)]; }
  DType held(int32_t load) const { return held_dtype(k_.args[static_cast<size_t>(access_of(k_, load).arg)].dtype); }
  std::string_view type(int32_t load) const { return held_type(held(load)); }

  std::string inside() const {
    std::vector<std::string> conditions;
    if (extent(p_.rows) % tile_.side != 0) conditions.push_back(fmt::format("row < {}", extent(p_.rows)));
    if (extent(p_.columns) % tile_.side != 0) conditions.push_back(fmt::format("column < {}", extent(p_.columns)));
    return conditions.empty() ? "" : fmt::format("if ({}) ", fmt::join(conditions, " && "));
  }

  void each_pair(const std::string& statements) {
    for (const char index : {'u', 'v'}) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", index, tile_.own()));
    }
    for (size_t begin = 0; begin < statements.size();) {
      const size_t end = std::min(statements.find('\n', begin), statements.size());
      t_.add(statements.substr(begin, end - begin));
      begin = end + 1;
    }
    t_.close(), t_.close();
  }

  // Elements of a tile's rows, side by side along the row as they mostly lie; what is not there is 0.
  void load_operand(int32_t load, std::string_view which, std::string_view from, int dim) {
    const Access& a = access_of(k_, load);
    const auto times = [](const Term& index, int64_t stride) {
      return stride == 0 ? Term() : stride == 1 ? index : term("{:*} * {:*}", index, Term(stride));
    };
    const auto threads = threads_across * threads_across;
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int n = threadIdx.x; n < {}; n += {})", depth_ * tile_.side, threads));
    t_.add(fmt::format("const int line = n / {0}, k = n % {0};", depth_));
    std::vector<std::string> conditions;
    if (extent(dim) % tile_.side != 0) conditions.push_back(fmt::format("{} + line < {}", from, extent(dim)));
    if (k_.space.back() % depth_ != 0) conditions.push_back(fmt::format("begin + k < {}", k_.space.back()));
    const Term at = sum_of({Term(a.offset), put_together(a.strides, batch_, "batch"),
                            times(term("{} + line", from), a.strides[static_cast<size_t>(dim)]),
                            times("begin + k", a.strides.back())});
    const auto& element = cuda_dialect.elements[static_cast<size_t>(k_.args[static_cast<size_t>(a.arg)].dtype)];
    const std::string memory = fmt::format("{}[{}]", pointer_of(k_, a.arg), at.text),
                      value = element.type == type(load) ? memory : fmt::format(fmt::runtime(element.load), memory);
    t_.add(fmt::format(
        "{}_tile[k * {} + line] = {};", which, tile_.side + 1,
        conditions.empty() ? value : fmt::format("{} ? {} : ({})0", fmt::join(conditions, " && "), value, type(load))));
    t_.close();
  }

  const Kernel& k_;
  const Pairs& p_;
  const PairTile tile_;
  const Expr& reduce_;
  const int64_t depth_;
  const std::string name_;
  Axis batch_;
  std::string pair_, store_;  // the calls
  Lines t_;
};

}  // namespace

bool has_pairs(const Kernel& k) {
  std::string why;
  return find_pairs(k, why).has_value();
}

std::string pairs_decline(const Kernel& k) {
  constexpr int64_t least_side = 16, least_pairs = 16384;
  std::string why;
  const auto p = find_pairs(k, why);
  if (!p) return why;
  const int64_t rows = k.space[static_cast<size_t>(p->rows)], columns = k.space[static_cast<size_t>(p->columns)];
  if (std::min(rows, columns) < least_side || p->batches * rows * columns < least_pairs)
    return fmt::format("{} x {} pairs", rows, columns);
  constexpr int64_t most = int64_t{1} << 30;
  for (const KernelArg& arg : k.args)
    if (arg.elements >= most) return "large memory";
  return {};
}

GeneratedKernel make_pairs(const Kernel& kernel, const Features& features) {
  std::string why;
  const Pairs pairs = *find_pairs(kernel, why);
  const PairTile tile = choose_tile(kernel, pairs, features);
  PairsText text(kernel, pairs, tile);
  GeneratedKernel made;
  made.symbol = kernel_name(kernel);
  made.shape = {tiles_of(kernel, pairs, tile.side), static_cast<int>(threads_across * threads_across)};
  made.how = fmt::format("pairs, {0} x {0} to a block", tile.side);
  made.functions = text.functions();
  add_kernel(made, kernel, text.body(), made.shape.blocks <= features.units);
  return made;
}

}  // namespace npusim::cuda::codegen::rows
