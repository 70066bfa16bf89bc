// The structure of a printed body: thread to index, loops along the row, reductions, stores.
#include "print/writer.h"

#include <fmt/format.h>

#include <algorithm>
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
void KernelWriter::indices(const std::string& flat, const std::vector<size_t>& dims) {
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  int64_t inner = 1;
  std::vector<std::string> lines;
  for (size_t n = dims.size(); n-- > 0;) {
    const size_t d = dims[n];
    std::string text = flat;
    if (inner != 1) text += fmt::format(" / {}", inner);
    if (n != 0) text += fmt::format(" % {}", k_.space[d]);
    if (uses_dim(d)) lines.push_back(fmt::format("const {} i{} = {};", type, d, text));
    inner *= std::max<int64_t>(k_.space[d], 1);
  }
  for (size_t n = lines.size(); n-- > 0;) line(lines[n]);
}

// Which point or row this thread has, and the loops over the dimensions it walks itself.
void KernelWriter::positions() {
  const std::string_view unsigned_type = p_.wide ? d_.ulong : d_.uint;
  const std::string block = p_.wide ? fmt::format("({}){}", d_.ulong, place_.block) : std::string(place_.block);
  const std::string thread(place_.thread);
  std::string flat;
  if (p_.schedule.row == RowLoop::warp) {
    flat = fmt::format("{} * {} + {} / {}", block, p_.schedule.threads / d_.warp, thread, d_.warp);
    line(fmt::format("const {} lane = {} % {};", d_.narrow, thread, d_.warp));
  } else if (p_.schedule.row == RowLoop::block) {
    flat = block;
  } else {
    flat = fmt::format("{} * {} + {}", block, p_.schedule.threads, thread);
  }
  const std::string id = p_.schedule.row == RowLoop::none ? "point" : "row";
  const size_t own = p_.schedule.row == RowLoop::none ? k_.space.size() : p_.outer();
  std::vector<size_t> parallel;
  for (size_t d = 0; d < own; ++d)
    if (!p_.serial[d]) parallel.push_back(d);
  const bool guarded = p_.schedule.row != RowLoop::block;  // a block has its row to itself
  if (guarded || std::any_of(parallel.begin(), parallel.end(), [&](size_t d) { return uses_dim(d); }))
    line(fmt::format("const {} {} = {};", unsigned_type, id, flat));
  if (guarded) line(fmt::format("if ({} >= {}) return;", id, p_.points));
  indices(id, parallel);
  for (size_t d = 0; d < own; ++d)
    if (p_.serial[d])
      open(fmt::format("for ({0} i{1} = 0; i{1} < {2}; ++i{1})",
                       p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow, d,
                       index_number(k_.space[d])));
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
  const std::string text = expression(id);
  if (e.op == ExprOp::scan)
    line(fmt::format("{} = {};", name(id), text));
  else
    line(fmt::format("const {} {} = {};", type_of(id), name(id), text));
}

void KernelWriter::store(size_t number) {
  const Store& s = k_.stores[number];
  const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
  const Scalar scalar = scalar_of(dtype);
  const Dialect::Element& element_text = d_.elements[static_cast<size_t>(dtype)];
  for (const IndexTerm& t : s.access.terms) define(t.expr);
  define(s.expr);
  std::string condition;
  const std::string memory = side_by_side(s.access) && !s.accumulate
                                 ? fmt::format("stored_{}.at[lane]", number)
                                 : element(s.access, first_trap_code(k_, number, true), condition);
  std::string value = convert(name(s.expr), k_.exprs[static_cast<size_t>(s.expr)].type, scalar);
  if (s.accumulate) {
    const std::string old = fmt::format(fmt::runtime(element_text.load), memory);
    if (scalar == Scalar::boolean)
      value = fmt::format("({} || {})", old, value);
    else
      value = combine(Reduction::sum, scalar, old, value);
    if (scalar >= Scalar::f32) value = "(" + value + ")";
  }
  if (p_.schedule.row == RowLoop::none && row_constant(s))
    for (size_t d = p_.outer(); d < k_.space.size(); ++d)
      condition = fmt::format("i{} == 0{}{}", d, condition.empty() ? "" : " && ", condition);
  const std::string text = fmt::format("{} = {};", memory, fmt::format(fmt::runtime(element_text.store), value));
  line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
}

void KernelWriter::points() {
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (p_.live[i] && can_trap(k_, k_.exprs[i])) define(static_cast<int32_t>(i));
  for (size_t n = 0; n < k_.stores.size(); ++n) store(n);
}

// What is the same along the row, once the reductions it waits for are done.
void KernelWriter::invariants(int stage) {
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (p_.live[i] && p_.stage[i] == stage && !p_.varies[i] && k_.exprs[i].op != ExprOp::reduce)
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
      line(fmt::format("{}{} = {};", scans_.insert(i).second ? type_of(i) + " " : "", name(i),
                       identity(e.reduction, e.type)));
  }
}

void KernelWriter::row_loop() {
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  const std::string start = p_.schedule.row == RowLoop::thread ? "0"
                            : p_.schedule.row == RowLoop::warp ? "lane"
                                                               : std::string(place_.thread);
  const int64_t step = p_.schedule.row == RowLoop::thread ? 1
                       : p_.schedule.row == RowLoop::warp ? d_.warp
                                                          : p_.schedule.threads;
  const size_t rank = k_.space.size(), outer = p_.outer();
  const std::string r = rank == outer + 1 ? fmt::format("i{}", outer) : "r";
  open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {4})", type, r, start, index_number(p_.row_length),
                   step == 1 ? "++" + r : fmt::format("{} += {}", r, step)));
  if (rank == outer + 1) return;
  std::vector<size_t> dims;
  for (size_t d = outer; d < rank; ++d) dims.push_back(d);
  indices(r, dims);
}

void KernelWriter::declare_shared(const SharedArray& array) {
  if (place_.shared)
    place_.shared->push_back(array);
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
    if (block) declare_shared({type, "shared_" + name(id), warps});
    line(fmt::format("{} {} = {};", type, name(id), identity(e.reduction, e.type)));
    scope_.defined[static_cast<size_t>(id)] = printed_[static_cast<size_t>(id)] = true;
  }
  if (p_.row_length == 0) return;
  row_loop();
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    define(e.in[0]);
    line(fmt::format("{} = {};", name(id), combine(e.reduction, e.type, name(id), name(e.in[0]))));
  }
  close();
  if (alone) return;
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    line(fmt::format("{0} = {1}({0});", name(id), warp_reduction_name(e.reduction, e.type)));
    if (block) line(fmt::format("if ({0} % {1} == 0) shared_{2}[{0} / {1}] = {2};", place_.thread, d_.warp, name(id)));
  }
  if (!block) return;
  line(std::string(d_.barrier));
  for (int32_t id : group) {
    const Expr& e = k_.exprs[static_cast<size_t>(id)];
    line(fmt::format("{0} = shared_{0}[0];", name(id)));
    line(fmt::format("for (int warp = 1; warp < {}; ++warp) {} = {};", warps, name(id),
                     combine(e.reduction, e.type, name(id), fmt::format("shared_{}[warp]", name(id)))));
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
    row_loop();
    for (int32_t id : traps) define(id);
    for (size_t n : along) store(n);
    close();
  }
  if (once.empty()) return;
  if (p_.schedule.row == RowLoop::warp) open("if (lane == 0)");
  if (p_.schedule.row == RowLoop::block) open(fmt::format("if ({} == 0)", place_.thread));
  for (size_t n : once) store(n);
  if (p_.schedule.row != RowLoop::thread) close();
}

// Every address of the first lane is a multiple of the lanes, and they fill words of 16 bytes.
bool KernelWriter::side_by_side(const Access& a) const {
  if (place_.lanes == 1 || !a.guards.empty() || !a.terms.empty() || a.offset % place_.lanes != 0) return false;
  if (place_.lanes * static_cast<int64_t>(dtype_size(k_.args[static_cast<size_t>(a.arg)].dtype)) % 16 != 0)
    return false;
  for (size_t d = 0; d < k_.space.size(); ++d)
    if (static_cast<int>(d) == place_.lane_dim ? a.strides[d] != 1 : a.strides[d] % place_.lanes != 0) return false;
  return true;
}

std::string KernelWriter::indices_of(const std::string& flat, const std::vector<size_t>& dims) {
  indices(flat, dims);
  return std::exchange(out_, {});
}

std::string KernelWriter::zero_index(size_t d) {
  if (uses_dim(d)) line(fmt::format("const {} i{} = 0;", d_.narrow, d));
  return std::exchange(out_, {});
}

std::string KernelWriter::at_point(std::vector<Words>& words, std::string& reads) {
  scope_.defined.assign(k_.exprs.size(), false);
  if (place_.lanes == 1) {
    points();
    return std::exchange(out_, {});
  }
  std::string condition;
  const auto lanes_type = [&](const Access& a) {
    const std::string_view type = d_.elements[static_cast<size_t>(k_.args[static_cast<size_t>(a.arg)].dtype)].type;
    return fmt::format("Lanes<{}, {}>", type, place_.lanes);
  };
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    const Expr& e = k_.exprs[i];
    if (!p_.live[i] || e.op != ExprOp::load) continue;
    const Access& a = k_.accesses[static_cast<size_t>(e.integer)];
    if (!side_by_side(a)) continue;
    words.push_back({lanes_type(a), fmt::format("lanes_{}", i)});
    line(fmt::format("read_lanes(words.lanes_{}, &{});", i, element(a, 0, condition)));
  }
  reads = std::exchange(out_, {});
  for (const Words& w : words) line(fmt::format("const {0}& {1} = words.{1};", w.type, w.name));
  for (size_t n = 0; n < k_.stores.size(); ++n)
    if (const Store& s = k_.stores[n]; side_by_side(s.access) && !s.accumulate)
      line(fmt::format("{} stored_{};", lanes_type(s.access), n));
  const std::string index = fmt::format("i{}", place_.lane_dim);
  const std::string before = std::exchange(out_, {});
  ++indent_;
  points();
  --indent_;
  const std::string inside = std::exchange(out_, before);
  const bool used = mentions(inside, index);
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  if (used) line(fmt::format("const {} first = {};", type, index));
  line("#pragma unroll");
  open(fmt::format("for (int lane = 0; lane < {}; ++lane)", place_.lanes));
  if (used) line(fmt::format("const {} {} = first + lane;", type, index));
  out_ += inside;
  close();
  for (size_t n = 0; n < k_.stores.size(); ++n) {
    const Store& s = k_.stores[n];
    if (side_by_side(s.access) && !s.accumulate)
      line(fmt::format("write_lanes(stored_{}, &{});", n, element(s.access, 0, condition)));
  }
  return std::exchange(out_, {});
}

std::string KernelWriter::body() {
  scope_.defined.assign(k_.exprs.size(), false);
  positions();
  if (p_.schedule.row == RowLoop::none)
    points();
  else
    rows();
  while (!outer_scopes_.empty()) close();
  return std::exchange(out_, {});
}

}  // namespace npusim
