// The structure of a printed body: thread to index, loops along the row, reductions, stores.
#include "print/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "kernel/facts/depend.h"
#include "kernel/facts/visit.h"

namespace npusim {

void KernelWriter::open(const std::string& text) {
  line(text + " {");
  ++indent_;
  outer_scopes_.push_back(scope_);
}

void KernelWriter::close() {
  scope_ = std::move(outer_scopes_.back());
  outer_scopes_.pop_back();
  --indent_;
  line("}");
}

bool KernelWriter::uses_dim(size_t d) const {
  auto touches = [&](const Access& a) {
    return a.strides[d] ||
           std::any_of(a.guards.begin(), a.guards.end(), [&](const Guard& g) { return g.coeffs[d] != 0; });
  };
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    if (!p_.live[i]) continue;
    const Expr& e = k_.exprs[i];
    if (e.op == ExprOp::index && static_cast<size_t>(e.integer) == d) return true;
    if (e.op == ExprOp::load && touches(k_.accesses[static_cast<size_t>(e.integer)])) return true;
  }
  return std::any_of(k_.stores.begin(), k_.stores.end(), [&](const Store& s) {
    return touches(s.access) || (p_.schedule.row == RowLoop::none && d >= p_.outer() && row_constant(s));
  });
}

// Stored once per row. An accumulating store adds at every point.
bool KernelWriter::row_constant(const Store& s) const {
  if (s.accumulate) return false;
  for (size_t d = p_.outer(); d < k_.space.size(); ++d) {
    if (s.access.strides[d]) return false;
    for (const Guard& g : s.access.guards)
      if (g.coeffs[d]) return false;
  }
  return std::none_of(s.access.terms.begin(), s.access.terms.end(),
                      [&](const IndexTerm& t) { return p_.varies[static_cast<size_t>(t.expr)]; });
}

// i0, i1, … from a flat position over `dims`, the last one fastest.
void KernelWriter::indices(const Term& flat, const std::vector<size_t>& dims) {
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  int64_t inner = 1;
  std::vector<std::string> lines;
  for (size_t n = dims.size(); n-- > 0;) {
    const size_t d = dims[n];
    Term index = flat;
    if (inner != 1) index = term("{:*} / {}", index, inner);
    const int64_t steps = context_.lanes > 1 ? k_.space[d] : p_.steps_along(d);
    if (n != 0) index = term("{:*} % {}", index, steps);
    if (steps != k_.space[d]) index = term("{:*} * {}", index, lanes_);
    if (uses_dim(d)) lines.push_back(fmt::format("const {} i{} = {};", type, d, index.text));
    inner *= std::max<int64_t>(steps, 1);
  }
  for (size_t n = lines.size(); n-- > 0;) line(lines[n]);
}

// Which point or row this thread has, and the loops over the dimensions it walks itself.
void KernelWriter::positions() {
  const Term block = p_.wide ? term("({}){}", d_.ulong, Term(context_.block)) : Term(context_.block);
  const Term thread(context_.thread);
  Term flat;
  if (p_.schedule.row == RowLoop::warp) {
    flat = term("{:*} * {} + {:*} / {}", block, p_.schedule.threads / d_.warp, thread, d_.warp);
    line(fmt::format("const {} {} = {:*} % {};", d_.narrow, warp_lane(), thread, d_.warp));
  } else if (p_.schedule.row == RowLoop::block) {
    flat = block;
  } else {
    flat = term("{:*} * {} + {:+}", block, p_.schedule.threads, thread);
  }
  // Rows are numbered by a signed number: NVRTC 13.0 dies of loops over what depends on an unsigned one's remainder.
  const bool is_point = p_.schedule.row == RowLoop::none;
  const std::string id = is_point ? "point" : "row";
  const std::string_view type =
      is_point ? (p_.wide ? d_.ulong : d_.uint) : (p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow);
  const size_t own = is_point ? k_.space.size() : p_.outer();
  std::vector<size_t> parallel;
  for (size_t d = 0; d < own; ++d)
    if (!p_.serial[d]) parallel.push_back(d);
  const bool guarded = p_.schedule.row != RowLoop::block;  // a block has its row to itself
  if (guarded || std::any_of(parallel.begin(), parallel.end(), [&](size_t d) { return uses_dim(d); }))
    line(fmt::format("const {} {} = {};", type, id, flat.text));
  if (guarded) line(fmt::format("if ({} >= {}) return;", id, p_.points));
  indices(id, parallel);
  constexpr int64_t most_of_batch = 16;
  const int by_batches = batch_dim();
  if (by_batches >= 0) batch_ = static_cast<int>(std::min(k_.space[static_cast<size_t>(by_batches)], most_of_batch));
  for (size_t d = 0; d < own; ++d)
    if (p_.serial[d]) {
      const bool by_batch = batch_ > 0 && static_cast<int>(d) == by_batches;
      const std::string index = by_batch ? "batch" : fmt::format("i{}", d);
      open(fmt::format("for ({0} {1} = 0; {1} < {2}; {3})",
                       p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow, index,
                       index_number(k_.space[d]), by_batch ? fmt::format("{} += {}", index, batch_) : "++" + index));
    }
}

// Nothing of an empty row is touched; what is the same along it has a value.
bool KernelWriter::is_absent(int32_t id) const { return p_.row_length == 0 && p_.varies[static_cast<size_t>(id)]; }

void KernelWriter::define(int32_t id) {
  const auto i = static_cast<size_t>(id);
  const Expr& e = k_.exprs[i];
  if (scope_.defined[i] || e.op == ExprOp::constant || e.op == ExprOp::index) return;
  for (int n = 0; n < expr_arity(e.op); ++n) define(e.in[static_cast<size_t>(n)]);
  if (e.op == ExprOp::load && !is_absent(id))
    for (const IndexTerm& t : k_.accesses[static_cast<size_t>(e.integer)].terms) define(t.expr);
  scope_.defined[i] = printed_[i] = true;
  const std::string text = expression(id).text;
  if (e.op == ExprOp::scan)
    line(fmt::format("{} = {};", name(id).text, text));
  else
    line(fmt::format("const {} {} = {};", type_of(id), name(id).text, text));
}

void KernelWriter::store(size_t number) {
  const Store& s = k_.stores[number];
  const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
  const Scalar scalar = scalar_of(dtype);
  for (const IndexTerm& t : s.access.terms) define(t.expr);
  const Expr& e = k_.exprs[static_cast<size_t>(s.expr)];
  const bool copies = !s.accumulate && word_loads_[static_cast<size_t>(s.expr)] &&
                      k_.args[static_cast<size_t>(k_.accesses[static_cast<size_t>(e.integer)].arg)].dtype == dtype;
  if (!copies) define(s.expr);
  std::string condition;
  const Term memory = word_stores_[number] ? term("stored_{}.at[lane]", number)
                                           : element(s.access, first_trap_code(k_, number, true), condition);
  Term value = convert(name(s.expr), e.type, scalar);
  if (s.accumulate) value = combined(s, loaded(dtype, memory), value);
  if (p_.schedule.row == RowLoop::none && row_constant(s))
    for (size_t d = p_.outer(); d < k_.space.size(); ++d)
      condition = fmt::format("i{} == 0{}{}", d, condition.empty() ? "" : " && ", condition);
  value = copies ? word_element(s.expr) : stored(dtype, value);
  const std::string text = fmt::format("{} = {};", memory.text, value.text);
  line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
}

// Stores of all lanes, behind expressions that trap.
void KernelWriter::store_all(const std::vector<size_t>& numbers, const std::vector<int32_t>& traps) {
  const auto all = [&] {
    for (const int32_t id : traps)
      if (!word_loads_[static_cast<size_t>(id)]) define(id);
    for (const size_t n : numbers) store(n);
  };
  if (lanes_ == 1) return all();
  std::vector<int32_t> roots = traps;
  for (const size_t n : numbers) {
    roots.push_back(k_.stores[n].expr);
    for (const IndexTerm& t : k_.stores[n].access.terms) roots.push_back(t.expr);
  }
  before_lanes(roots);
  const std::string_view empty = lane_count_ < lanes_ ? " = {}" : "";
  for (const size_t n : numbers)
    if (word_stores_[n]) line(fmt::format("{} stored_{}{};", lanes_type(k_.stores[n].access), n, empty));
  // Exact division branches for what is very large or very small, into which each lane by itself would branch: they all
  // branch at once.
  const bool quick = d_.quotients && context_.lanes > 1 && traps.empty() &&
                     std::all_of(numbers.begin(), numbers.end(), [&](size_t n) { return word_stores_[n]; });
  const std::string before = out_;
  if (quick) line("float least = 1, most = 1;");
  quick_ = quick, divided_ = false;
  each_lane(all);
  quick_ = false;
  if (divided_) {
    open("if (!(least >= 0x1p-60f && most <= 0x1p60f))");
    each_lane(all);
    close();
  } else if (quick) {
    out_ = before;
    each_lane(all);
  }
  for (const size_t n : numbers) {
    if (!word_stores_[n]) continue;
    std::string condition;
    const Term memory = element(k_.stores[n].access, first_trap_code(k_, n, true), condition);
    const std::string text = fmt::format("write_lanes(stored_{}, &{});", n, memory.text);
    line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
  }
}

void KernelWriter::points() {
  std::vector<int32_t> traps;
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (p_.live[i] && can_trap(k_, k_.exprs[i])) traps.push_back(static_cast<int32_t>(i));
  if (batch_ > 0) return batch(traps);
  std::vector<size_t> stores(k_.stores.size());
  std::iota(stores.begin(), stores.end(), size_t{0});
  store_all(stores, traps);
}

// What is the same along the row, once the reductions it waits for are done.
void KernelWriter::invariants(int stage) {
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (p_.live[i] && p_.stage[i] == stage && !p_.varies[i] && k_.exprs[i].op != ExprOp::reduce &&
        !varies(static_cast<int32_t>(i)))
      define(static_cast<int32_t>(i));
}

// Scans restart in every loop that needs them.
void KernelWriter::declare_scans(const std::vector<int32_t>& roots) {
  std::set<int32_t> needed(roots.begin(), roots.end());
  for (auto i = static_cast<int32_t>(k_.exprs.size()); i-- > 0;) {
    if (!needed.count(i) || scope_.defined[static_cast<size_t>(i)]) continue;
    const Expr& e = k_.exprs[static_cast<size_t>(i)];
    for_each_operand(k_, e, [&](int32_t operand) { needed.insert(operand); });
    if (e.op == ExprOp::scan)
      line(fmt::format("{}{} = {};", scans_.insert(i).second ? type_of(i) + " " : "", name(i).text,
                       identity(e.integer ? Reduction::max : e.reduction, e.type).text));
  }
}

// The statements for each element of the row that is this thread's, or each word of it.
void KernelWriter::along_row(const std::function<void()>& statements) {
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  const Term start = p_.schedule.row == RowLoop::thread ? "0"
                     : p_.schedule.row == RowLoop::warp ? Term(warp_lane())
                                                        : Term(context_.thread);
  const int64_t step = p_.schedule.row == RowLoop::thread ? 1
                       : p_.schedule.row == RowLoop::warp ? d_.warp
                                                          : p_.schedule.threads;
  const size_t rank = k_.space.size(), outer = p_.outer();
  const std::string r = rank == outer + 1 ? fmt::format("i{}", outer) : "r", length = index_number(p_.row_length);
  if (p_.kept_words) {
    line("#pragma unroll");
    open(fmt::format("for (int word = 0; word < {}; ++word)", p_.kept_words));
    const bool whole = p_.kept_words * step * lanes_ == p_.row_length;
    const std::string before = std::exchange(out_, {});
    if (!whole) open(fmt::format("if ({} < {})", r, length));
    statements();
    if (!whole) close();
    const std::string inside = std::exchange(out_, before);
    if (mentions(inside, r)) line(fmt::format("const {} {} = (word * {} + {:+}) * {};", type, r, step, start, lanes_));
    out_ += inside;
    return close();
  }
  const bool words = lanes_ > 1 && p_.schedule.row != RowLoop::thread;
  if (lanes_ > 1 && !words) line(p_.row_length <= 16 ? "#pragma unroll" : "#pragma unroll 8");
  const int64_t by = words ? step * lanes_ : step;
  open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {4})", type, r,
                   (words ? term("{:*} * {}", start, lanes_) : start).text, length,
                   by == 1 ? "++" + r : fmt::format("{} += {}", r, by)));
  std::vector<size_t> dims;
  for (size_t d = outer; d < rank && rank != outer + 1; ++d) dims.push_back(d);
  indices(r, dims);
  statements();
  close();
}

void KernelWriter::declare_shared(const SharedArray& array) {
  if (context_.shared)
    context_.shared->push_back(array);
  else
    line(fmt::format(fmt::runtime(d_.shared), array.type, array.name, array.elements));
}

// The reductions that complete stage + 1.
void KernelWriter::reductions(int stage) {
  std::vector<int32_t> group, operands;
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    if (!p_.live[i] || k_.exprs[i].op != ExprOp::reduce || p_.stage[i] != stage + 1) continue;
    group.push_back(static_cast<int32_t>(i));
    operands.push_back(k_.exprs[i].in[0]);
  }
  if (p_.row_length > 0) declare_scans(operands);
  const bool block = p_.schedule.row == RowLoop::block, alone = p_.schedule.row == RowLoop::thread;
  const int warps = p_.schedule.threads / d_.warp;
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    const std::string_view type = d_.scalars[static_cast<size_t>(e.type)];
    if (block) declare_shared({type, "shared_" + name(id).text, warps});
    const std::string first = identity(e.reduction, e.type).text;
    if (varies(id)) {
      line(fmt::format("{} {}_{}[{}];", type, reduction_name(e.reduction), id, lanes_));
      each_lane([&] { line(fmt::format("{} = {};", name(id), first)); });
    } else {
      line(fmt::format("{} {} = {};", type, name(id), first));
    }
    scope_.defined[static_cast<size_t>(id)] = printed_[static_cast<size_t>(id)] = true;
  }
  if (p_.row_length == 0) return;
  const auto add = [&](int32_t id) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    define(e.in[0]);
    line(fmt::format("{} = {};", name(id), combine(e.reduction, e.type, name(id), name(e.in[0])).text));
  };
  // What does not vary from lane to lane is reduced once, unless the lanes are the row's own elements.
  const auto in_lanes = [&](int32_t id) { return lanes_ > 1 && (!alone || varies(id)); };
  along_row([&] {
    if (lanes_ > 1) before_lanes(operands);
    for (int32_t id : group)
      if (!in_lanes(id)) add(id);
    if (std::any_of(group.begin(), group.end(), in_lanes))
      each_lane([&] {
        for (int32_t id : group)
          if (in_lanes(id)) add(id);
      });
  });
  if (alone) return;
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    line(fmt::format("{0} = {1}({0});", name(id), warp_reduction_name(e.reduction, e.type)));
    if (block)
      line(fmt::format("if ({0:*} % {1} == 0) shared_{2}[{0:*} / {1}] = {2};", Term(context_.thread), d_.warp,
                       name(id)));
  }
  if (!block) return;
  line(std::string(d_.barrier));
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    line(fmt::format("{0} = shared_{0}[0];", name(id)));
    line(fmt::format("for (int warp = 1; warp < {}; ++warp) {} = {};", warps, name(id),
                     combine(e.reduction, e.type, name(id), term("shared_{}[warp]", name(id))).text));
  }
}

void KernelWriter::rows() {
  if (p_.row_length == 0) {  // nothing runs along the row; indices along it are those of its beginning
    std::set<int64_t> indices;
    for (size_t i = 0; i < k_.exprs.size(); ++i)
      if (p_.live[i] && k_.exprs[i].op == ExprOp::index) indices.insert(k_.exprs[i].integer);
    for (int64_t d : indices)
      if (static_cast<size_t>(d) >= p_.outer()) line(fmt::format("const {} i{} = 0;", d_.narrow, d));
  }
  if (p_.kept_words) keep_words(false);
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (word_loads_[i] && !p_.varies[i] && !scope_.read[i]) read_word(static_cast<int32_t>(i));
  for (int stage = 0; stage <= p_.last_stage; ++stage) {
    invariants(stage);
    if (stage < p_.last_stage) reductions(stage);
  }
  std::vector<size_t> along, once;
  for (size_t n = 0; n < k_.stores.size(); ++n) (row_constant(k_.stores[n]) ? once : along).push_back(n);
  std::vector<int32_t> traps, roots;
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (p_.live[i] && !printed_[i] && can_trap(k_, k_.exprs[i])) traps.push_back(static_cast<int32_t>(i));
  if (p_.row_length > 0 && (!along.empty() || !traps.empty())) {
    roots = traps;
    for (size_t n : along) {
      roots.push_back(k_.stores[n].expr);
      for (const IndexTerm& t : k_.stores[n].access.terms) roots.push_back(t.expr);
    }
    declare_scans(roots);
    along_row([&] { store_all(along, traps); });
  }
  if (once.empty()) return;
  if (p_.schedule.row == RowLoop::warp) open(fmt::format("if ({} == 0)", warp_lane()));
  if (p_.schedule.row == RowLoop::block) open(fmt::format("if ({} == 0)", context_.thread));
  if (p_.schedule.row == RowLoop::thread)
    store_all(once, {});
  else
    for (size_t n : once) store(n);
  if (p_.schedule.row != RowLoop::thread) close();
}

std::string KernelWriter::body() {
  const std::vector<bool> early = find_early();
  // What each thread walks itself it reads in its loops.
  const bool reads_early = std::find(early.begin(), early.end(), true) != early.end() &&
                           std::find(p_.serial.begin(), p_.serial.end(), true) == p_.serial.end();
  if (!reads_early) out_ += context_.wait;
  positions();
  if (reads_early) {
    early_reads(early);
    out_ += context_.wait;
  }
  if (p_.schedule.row == RowLoop::none)
    points();
  else
    rows();
  while (!outer_scopes_.empty()) close();
  return std::exchange(out_, {});
}

}  // namespace npusim
