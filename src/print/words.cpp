// Lanes: what is read and written as words, what is uniform across them, and what comes before a launch's wait.
#include <fmt/format.h>

#include <utility>

#include "kernel/facts/depend.h"
#include "kernel/facts/visit.h"
#include "print/writer.h"

namespace npusim {

std::string KernelWriter::lanes_type(const Access& a) const {
  const std::string_view type = d_.elements[static_cast<size_t>(k_.args[static_cast<size_t>(a.arg)].dtype)].type;
  return fmt::format(fmt::runtime(d_.words), type, lanes_);
}

Term KernelWriter::word_name(int32_t id) const { return term("lanes_{}{}", id, p_.kept_words ? "[word]" : ""); }

// Statements of one lane. Outside of them the index along the lanes is the first one's.
void KernelWriter::each_lane(const std::function<void()>& statements) {
  const std::string index = fmt::format("i{}", lane_dim_), before = std::exchange(out_, {});
  outer_scopes_.push_back(scope_);
  std::erase_if(scope_.coordinates, [&](const auto& known) { return mentions(known.first, index); });
  ++indent_;
  statements();
  --indent_;
  scope_ = std::move(outer_scopes_.back());
  outer_scopes_.pop_back();
  const std::string inside = std::exchange(out_, before);
  const bool used = mentions(inside, index);
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  line("#pragma unroll");
  line(fmt::format("for ({} lane = 0{}; lane < {}; ++lane) {{", type, used ? ", first = " + index : "", lane_count_));
  if (used) line(fmt::format("  const {} {} = first + lane;", type, index));
  out_ += inside;
  line("}");
}

void KernelWriter::read_word(int32_t id) {
  const auto i = static_cast<size_t>(id), number = static_cast<size_t>(k_.exprs[i].integer);
  const Access& a = k_.accesses[number];
  for (const IndexTerm& t : a.terms) define(t.expr);
  std::string condition;
  const std::string memory = element(a, first_trap_code(k_, number, false), condition).text;
  const std::string words = word_name(id).text;
  if (!p_.kept_words) line(fmt::format("{} {};", lanes_type(a), words));
  const std::string read = fmt::format("read_lanes({}, &{});", words, memory);
  line(condition.empty() ? read : fmt::format("if ({}) {}", condition, read));
  if (!condition.empty()) line(fmt::format("else clear_lanes({});", words));
  scope_.read[i] = true;
}

// What the lanes' statements need of these and is not yet there: what is uniform across them, and words.
void KernelWriter::before_lanes(const std::vector<int32_t>& roots) {
  std::set<int32_t> needed(roots.begin(), roots.end());
  for (auto i = static_cast<int32_t>(k_.exprs.size()); i-- > 0;)
    if (needed.count(i) && !scope_.defined[static_cast<size_t>(i)] &&
        k_.exprs[static_cast<size_t>(i)].op != ExprOp::reduce)
      for_each_operand(k_, k_.exprs[static_cast<size_t>(i)], [&](int32_t operand) { needed.insert(operand); });
  for (const int32_t id : needed) {
    if (!varies(id))
      define(id);
    else if (word_loads_[static_cast<size_t>(id)] && !scope_.read[static_cast<size_t>(id)])
      read_word(id);
  }
}

// The words of a row that its threads keep, of arguments that are there ahead or of the others.
void KernelWriter::keep_words(bool ahead) {
  const std::vector<bool> early = find_early();
  std::vector<int32_t> loads;
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (word_loads_[i] && !scope_.read[i] && early[i] == ahead) loads.push_back(static_cast<int32_t>(i));
  if (loads.empty()) return;
  for (const int32_t id : loads)
    line(fmt::format("{} lanes_{}[{}];",
                     lanes_type(k_.accesses[static_cast<size_t>(k_.exprs[static_cast<size_t>(id)].integer)]), id,
                     p_.kept_words));
  for (const int32_t id : loads)
    for (const IndexTerm& t : k_.accesses[static_cast<size_t>(k_.exprs[static_cast<size_t>(id)].integer)].terms)
      if (!p_.varies[static_cast<size_t>(t.expr)]) define(t.expr);
  along_row([&] {
    for (const int32_t id : loads) read_word(id);
  });
  for (const int32_t id : loads) scope_.read[static_cast<size_t>(id)] = true;
}

// Loads, by expression, of which all that is read is there ahead. A trap is written behind the wait.
std::vector<bool> KernelWriter::find_early() const {
  std::vector<bool> early(k_.exprs.size()), known(k_.exprs.size());
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    const Expr& e = k_.exprs[i];
    known[i] = e.op != ExprOp::reduce && e.op != ExprOp::scan && !can_trap(k_, e);
    if (e.op == ExprOp::load) {
      const auto arg = static_cast<size_t>(k_.accesses[static_cast<size_t>(e.integer)].arg);
      known[i] = known[i] && arg < context_.ahead.size() && context_.ahead[arg];
    }
    for_each_operand(k_, e, [&](int32_t operand) { known[i] = known[i] && known[static_cast<size_t>(operand)]; });
    early[i] = known[i] && p_.live[i] && e.op == ExprOp::load && p_.row_length > 0;
  }
  return early;
}

// Once the thread's position is known: what every thread reads once.
void KernelWriter::early_reads(const std::vector<bool>& early) {
  const bool rows = p_.schedule.row != RowLoop::none;
  if (p_.kept_words) keep_words(true);
  for (size_t i = 0; i < early.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!early[i] || (rows && p_.varies[i]) || scope_.read[i]) continue;
    if (!varies(id))
      define(id);
    else if (word_loads_[i])
      read_word(id);
  }
}

// Every address of the first lane is a multiple of the lanes, and they fill words of 16 bytes.
bool KernelWriter::is_word(const Access& a) const {
  if (lanes_ == 1 || !a.guards.empty() || !a.terms.empty() || a.offset % lanes_ != 0) return false;
  if (lanes_ * static_cast<int64_t>(dtype_size(k_.args[static_cast<size_t>(a.arg)].dtype)) % 16 != 0) return false;
  for (size_t d = 0; d < k_.space.size(); ++d)
    if (static_cast<int>(d) == lane_dim_ ? a.strides[d] != 1 : a.strides[d] % lanes_ != 0) return false;
  return true;
}

std::string KernelWriter::indices_of(const Term& flat, const std::vector<size_t>& dims) {
  indices(flat, dims);
  return std::exchange(out_, {});
}

std::string KernelWriter::zero_index(size_t d) {
  if (uses_dim(d)) line(fmt::format("const {} i{} = 0;", d_.narrow, d));
  return std::exchange(out_, {});
}

std::string KernelWriter::at_point(std::vector<Words>& words, std::string& reads) {
  if (context_.lanes == 1) {
    points();
    return std::exchange(out_, {});
  }
  lane_varies_.assign(k_.exprs.size(), true);
  std::string condition;
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    const Expr& e = k_.exprs[i];
    if (!p_.live[i] || e.op != ExprOp::load) continue;
    const Access& a = k_.accesses[static_cast<size_t>(e.integer)];
    if (!is_word(a)) continue;
    word_loads_[i] = scope_.read[i] = true;
    words.push_back({lanes_type(a), fmt::format("lanes_{}", i)});
    line(fmt::format("read_lanes(words.lanes_{}, &{});", i, element(a, 0, condition).text));
  }
  reads = std::exchange(out_, {});
  for (const Words& w : words) line(fmt::format("const {0}& {1} = words.{1};", w.type, w.name));
  for (size_t n = 0; n < k_.stores.size(); ++n)
    word_stores_[n] = !k_.stores[n].accumulate && is_word(k_.stores[n].access);
  points();
  return std::exchange(out_, {});
}

}  // namespace npusim
