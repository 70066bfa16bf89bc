// The text: what is read of the row is in registers, 32 neighbours to a warp; each scan that waits for another one is a
// pass over them; then all is stored.
#include "backends/cuda/codegen/rows/scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/locals.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/visit.h"

namespace npusim::cuda::codegen::rows {
namespace {

constexpr int64_t most_elements = 8;  // of a thread

int64_t rows_of(const Kernel& k) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < k.space.size(); ++d) rows *= k.space[d];
  return rows;
}

bool is_scan(const Expr& e) { return e.op == ExprOp::scan; }
bool folds(const Expr& e) { return is_scan(e) || e.op == ExprOp::reduce; }

// Threads of a row, and how many of its elements each has at a time.
struct ScanShare {
  int64_t threads = 32, elements = 1, rows = 1;  // rows: of a block
  int64_t at_once() const { return threads * elements; }
};

ScanShare share_scan(const Kernel& k, const Features& features) {
  const int64_t length = k.space.back(), rows = rows_of(k);
  const int64_t most_threads = rows >= 4 * features.units ? 256 : rows >= 2 * features.units ? 512 : 1024;
  ScanShare s;
  while (s.elements < most_elements && s.at_once() < length) s.elements *= 2;
  s.threads = std::min((length + 32 * s.elements - 1) / (32 * s.elements) * 32, most_threads);
  if (s.threads == 32) s.rows = 4;
  return s;
}

// What a kernel does along its row: what it reads there, and its scans and reductions by what they wait for.
struct ScanForm {
  std::vector<int32_t> loads;
  std::vector<std::vector<int32_t>> passes;
};

ScanForm scan_form(const Kernel& k) {
  ScanForm form;
  const std::vector<bool> live = live_expressions(k, true);
  const Dependence depends = dependence_of(k);
  std::vector<size_t> waits(k.exprs.size(), 0);  // for so many passes
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    for_each_operand(k, e,
                     [&](int32_t operand) { waits[i] = std::max(waits[i], waits[static_cast<size_t>(operand)]); });
    if (!live[i]) continue;
    if (folds(e)) {
      if (form.passes.size() <= waits[i]) form.passes.resize(waits[i] + 1);
      form.passes[waits[i]++].push_back(static_cast<int32_t>(i));
    }
    if (e.op == ExprOp::load && waits[i] == 0 && (depends.dims[i] & row_of(k)))
      form.loads.push_back(static_cast<int32_t>(i));
  }
  return form;
}

DType dtype_of(Scalar type) { return type == Scalar::f64 ? DType::f64 : type == Scalar::f32 ? DType::f32 : DType::i64; }

std::string identity(const Expr& scan) {
  const bool largest = scan.integer != 0 || scan.reduction == Reduction::max;  // a log of a sum begins as the largest
  if (!largest && scan.reduction == Reduction::sum) return "0";
  if (!largest && scan.reduction == Reduction::product) return "1";
  if (scan.type == Scalar::i64) return largest ? "-0x7fffffffffffffffLL - 1" : "0x7fffffffffffffffLL";
  return largest ? "-INFINITY" : "INFINITY";
}

class ScanText {
 public:
  ScanText(const Kernel& kernel, const ScanShare& share)
      : k_(kernel), s_(share), form_(scan_form(kernel)), name_(kernel_name(kernel)) {
    for (size_t d = 0; d + 1 < k_.space.size(); ++d) outer_.push_back(static_cast<int>(d));
  }

  // Before the kernel's own function; also what the function calls.
  std::string functions() {
    std::string text;
    const auto positions = std::vector<PointPosition>{{"row", outer_}, {"position", {static_cast<int>(outer_.size())}}};
    const auto named = [&](PointValues& values, const std::string& name, const std::vector<std::string>& given,
                           const std::vector<std::string>& taken) {
      text += values.print(name, positions);
      calls_.push_back(values.call(name, {"row", "position"}, given, taken));
    };
    PointValues reads = point(false);
    std::vector<std::string> given, taken;
    for (const int32_t id : form_.loads) {
      reads.take(id, load_dtype(id));
      taken.push_back(fmt::format("&x_{}[e]", id));
    }
    if (!form_.loads.empty()) named(reads, name_ + "_read", {}, taken);
    given = taken;
    std::vector<int32_t> known = form_.loads;
    const auto give_all = [&](PointValues& values) {
      for (const int32_t id : known)
        values.give(id, folds(k_.exprs[static_cast<size_t>(id)]) ? scan_dtype(id) : load_dtype(id));
    };
    for (size_t pass = 0; pass < form_.passes.size(); ++pass) {
      PointValues operands = point(false);
      give_all(operands);
      taken.clear();
      for (const int32_t id : form_.passes[pass]) {
        const Expr& scan = k_.exprs[static_cast<size_t>(id)];
        operands.take(scan.in[0], scan_dtype(id));
        taken.push_back(fmt::format("&scan_{}[e]", id));
        text += combination_text(combination(id), scan_dtype(id), scan.reduction, scan.integer != 0);
      }
      named(operands, fmt::format("{}_pass{}", name_, pass), given, taken);
      for (const int32_t id : form_.passes[pass])
        given.push_back(fmt::format(fmt::runtime(is_reduced(id) ? "&all_{}" : "&scan_{}[e]"), id));
      known.insert(known.end(), form_.passes[pass].begin(), form_.passes[pass].end());
    }
    PointValues results = point(true);
    give_all(results);
    named(results, name_ + "_store", given, {});
    return text;
  }

  std::string body() {
    const int64_t length = k_.space.back(), rows = rows_of(k_);
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    t_.add("const int lane = threadIdx.x % 32;");
    if (s_.rows > 1) {
      t_.add(fmt::format("const int row = blockIdx.x * {} + threadIdx.x / 32, warp = 0;", s_.rows));
      if (rows % s_.rows != 0) t_.add(fmt::format("if (row >= {}) return;", rows));
    } else {
      t_.add("const int row = blockIdx.x, warp = threadIdx.x / 32;");
    }
    const bool several = length > s_.at_once();
    each_scan([&](int32_t id) {
      if (several) t_.add(fmt::format("{} carried_{} = {};", type(id), id, first(id)));
      if (s_.threads > 32) t_.add(fmt::format("__shared__ {} of_warps_{}[{}];", type(id), id, s_.threads / 32));
    });
    if (several) t_.open(fmt::format("for (int begin = 0; begin < {}; begin += {})", length, s_.at_once()));
    t_.add(fmt::format("const int first = {}warp * {} + lane;", several ? "begin + " : "", 32 * s_.elements));
    for (const int32_t id : form_.loads)
      t_.add(fmt::format("{} x_{}[{}];", cuda_dialect.elements[static_cast<size_t>(load_dtype(id))].type, id,
                         s_.elements));
    each_scan([&](int32_t id) { t_.add(fmt::format("{} scan_{}[{}];", type(id), id, s_.elements)); });
    size_t next = 0;
    const auto called = [&] { return calls_[next++]; };
    if (!form_.loads.empty()) each_element(called());
    for (const std::vector<int32_t>& pass : form_.passes) {
      for (const int32_t id : pass) each_element({}, fmt::format("scan_{}[e] = {};", id, first(id)));
      each_element(called());
      for (const int32_t id : pass) is_reduced(id) ? reduce(id) : scan(id);
      if (s_.threads > 32) t_.add("__syncthreads();");
      for (const int32_t id : pass) is_reduced(id) ? join_reduced(id) : join(id, several);
      if (s_.threads > 32 && several) t_.add("__syncthreads();");
    }
    each_element(called());
    if (several) t_.close();
    return std::move(t_.text);
  }

 private:
  PointValues point(bool stores) const {
    Kernel points = k_;
    points.row_dims = 0;
    return PointValues(points, stores);
  }
  DType load_dtype(int32_t id) const {
    const Access& a = k_.accesses[static_cast<size_t>(k_.exprs[static_cast<size_t>(id)].integer)];
    return held_dtype(k_.args[static_cast<size_t>(a.arg)].dtype);
  }
  bool is_reduced(int32_t id) const { return !is_scan(k_.exprs[static_cast<size_t>(id)]); }
  DType scan_dtype(int32_t id) const { return dtype_of(k_.exprs[static_cast<size_t>(id)].type); }
  std::string_view type(int32_t id) const { return held_type(scan_dtype(id)); }
  std::string first(int32_t id) const { return identity(k_.exprs[static_cast<size_t>(id)]); }
  std::string combination(int32_t id) const { return fmt::format("{}_combine{}", name_, id); }
  // a = a before b
  std::string combine(int32_t id, const std::string& before, const std::string& then, const std::string& to) const {
    return fmt::format("{}(&{}, &{}, &{}, 0);", combination(id), before, then, to);
  }
  template <typename F>
  void each_scan(F&& statements) {
    for (const std::vector<int32_t>& pass : form_.passes)
      for (const int32_t id : pass) statements(id);
  }

  // `call` is for elements that there are, `any` for all.
  void each_element(const std::string& call, const std::string& any = {}) {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int e = 0; e < {}; ++e)", s_.elements));
    if (!any.empty()) t_.add(any);
    if (!call.empty()) {
      t_.add("const int position = first + e * 32;");
      t_.add((k_.space.back() % s_.at_once() == 0 ? "" : fmt::format("if (position < {}) ", k_.space.back())) + call);
    }
    t_.close();
  }

  // Elements of the warp with all before them, and what they come to for the other warps.
  void scan(int32_t id) {
    t_.add(fmt::format("{0} all_{1} = {2};", type(id), id, first(id)));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int e = 0; e < {}; ++e)", s_.elements));
    const std::string own = fmt::format("scan_{}[e]", id), all = fmt::format("all_{}", id);
    t_.add("#pragma unroll");
    t_.open("for (int apart = 1; apart < 32; apart *= 2)");
    t_.add(fmt::format("const {} other = __shfl_up_sync(0xffffffffu, {}, apart);", type(id), own));
    t_.add(fmt::format("if (lane >= apart) {}", combine(id, "other", own, own)));
    t_.close();
    t_.add(fmt::format("const {} last = __shfl_sync(0xffffffffu, {}, 31);", type(id), own));
    t_.add(combine(id, all, own, own));
    t_.add(combine(id, all, "last", all));
    t_.close();
    if (s_.threads > 32) t_.add(fmt::format("if (lane == 0) of_warps_{0}[warp] = all_{0};", id));
  }

  // Of a row that is all there: what the warp has of it, then all of them in their order.
  void reduce(int32_t id) {
    const std::string all = fmt::format("all_{}", id);
    t_.add(fmt::format("{} {} = {};", type(id), all, first(id)));
    each_element({}, combine(id, all, fmt::format("scan_{}[e]", id), all));
    t_.add("#pragma unroll");
    t_.open("for (int apart = 16; apart > 0; apart /= 2)");
    t_.add(fmt::format("const {} other = __shfl_xor_sync(0xffffffffu, {}, apart);", type(id), all));
    t_.add(combine(id, all, "other", all));
    t_.close();
    if (s_.threads > 32) t_.add(fmt::format("if (lane == 0) of_warps_{0}[warp] = all_{0};", id));
  }
  void join_reduced(int32_t id) {
    if (s_.threads == 32) return;
    const std::string all = fmt::format("all_{}", id);
    t_.add(fmt::format("{} = of_warps_{}[0];", all, id));
    t_.open(fmt::format("for (int other = 1; other < {}; ++other)", s_.threads / 32));
    t_.add(fmt::format("const {0} of_other = of_warps_{1}[other];", type(id), id));
    t_.add(combine(id, all, "of_other", all));
    t_.close();
  }

  // What the warps before, and the parts of the row before, come to.
  void join(int32_t id, bool several) {
    if (s_.threads == 32 && !several) return;
    const std::string before = fmt::format("before_{}", id), carried = fmt::format("carried_{}", id);
    t_.add(fmt::format("{} {} = {};", type(id), before, several ? carried : first(id)));
    if (s_.threads > 32) {
      t_.open(fmt::format("for (int other = 0; other < {}; ++other)", s_.threads / 32));
      t_.add(fmt::format("const {0} of_other = of_warps_{1}[other];", type(id), id));
      t_.add(fmt::format("if (other < warp) {}", combine(id, before, "of_other", before)));
      if (several) t_.add(combine(id, carried, "of_other", carried));
      t_.close();
    } else {
      t_.add(combine(id, carried, fmt::format("all_{}", id), carried));
    }
    const std::string own = fmt::format("scan_{}[e]", id);
    each_element({}, combine(id, before, own, own));
  }

  const Kernel& k_;
  const ScanShare& s_;
  const ScanForm form_;
  const std::string name_;
  std::vector<int> outer_;
  std::vector<std::string> calls_;  // what is read, the operands of each pass, what is stored
  Lines t_;
};

}  // namespace

std::string scan_problem(const Kernel& k, const Features& features) {
  if (k.contraction || k.call || k.row_dims != 1) return "no row of one dimension";
  if (takes_trap(k)) return "it may trap";
  const std::vector<bool> live = live_expressions(k, true);
  for (const Store& s : k.stores)
    if (s.accumulate) return "it combines with what is there";
  bool scans = false, reduces = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (!live[i]) continue;
    if (folds(e) && e.type == Scalar::boolean) return "a scan of booleans";
    reduces = reduces || e.op == ExprOp::reduce;
    scans = scans || is_scan(e);
    if (e.op != ExprOp::load) continue;
    const Access& a = k.accesses[static_cast<size_t>(e.integer)];
    if (std::abs(a.strides.back()) > 1) return "elements of a row that do not lie side by side";
  }
  if (!scans) return "nothing is scanned";
  if (rows_of(k) * k.space.back() == 0) return "no elements";
  if (rows_of(k) >= int64_t{1} << 30 || k.space.back() >= int64_t{1} << 30) return "many elements";
  if (reduces && k.space.back() > share_scan(k, features).at_once()) return "a long row that is reduced, too";
  return {};
}

std::string scan_decline(const Kernel& k, const Features& features) {
  constexpr int64_t least_length = 32, few_rows = 96, long_row = 16384;
  if (std::string problem = scan_problem(k, features); !problem.empty()) return problem;
  if (k.space.back() < least_length) return fmt::format("rows of {} elements", k.space.back());
  if (rows_of(k) < few_rows && k.space.back() > long_row) return fmt::format("{} long rows", rows_of(k));
  return {};
}

GeneratedKernel make_scanned(const Kernel& kernel, const Features& features) {
  const ScanShare share = share_scan(kernel, features);
  ScanText text(kernel, share);
  GeneratedKernel made;
  made.symbol = kernel_name(kernel);
  made.shape = {(rows_of(kernel) + share.rows - 1) / share.rows, static_cast<int>(share.threads * share.rows)};
  made.how = fmt::format("scanned rows, {} elements of {} threads", share.elements, share.threads);
  made.functions = text.functions();
  add_kernel(made, kernel, text.body(), true);
  return made;
}

}  // namespace npusim::cuda::codegen::rows
