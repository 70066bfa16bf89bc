// A store that combines with what is there, a batch of elements at a time: a thread that walks them one by one waits
// for memory at each of them.
#include <fmt/format.h>

#include "kernel/facts/memory.h"
#include "kernel/scalar.h"
#include "print/writer.h"

namespace npusim {

// The dimension whose elements are taken by batches, -1: none. What a batch reads is read before it stores, so nothing
// that is read may lie where it stores.
int KernelWriter::batch_dim() const {
  if (p_.schedule.row != RowLoop::none || lanes_ > 1 || k_.stores.size() != 1 || !k_.stores[0].accumulate) return -1;
  const int to = k_.stores[0].access.arg;
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    if (!p_.live[i] || k_.exprs[i].op != ExprOp::load) continue;
    const int from = k_.accesses[static_cast<size_t>(k_.exprs[i].integer)].arg;
    if (from == to || may_be_one(k_, from, to)) return -1;
  }
  for (size_t d = k_.space.size(); d-- > 0;)
    if (p_.serial[d]) return static_cast<int>(d);
  return -1;
}

// One batch, at `batch` along its dimension: the positions and values of all its elements, what is there, and the
// results one by one. Of elements of one position each finds what the one before it left.
void KernelWriter::batch(const std::vector<int32_t>& traps) {
  const Store& s = k_.stores[0];
  const auto d = static_cast<size_t>(batch_dim());
  const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
  const Scalar scalar = scalar_of(dtype);
  const std::string_view type = p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow;
  const std::string to = pointer(s.access.arg);
  const auto each = [&] {
    line("#pragma unroll");
    open(fmt::format("for (int step = 0; step < {}; ++step)", batch_));
  };
  line(fmt::format("{} positions[{}];", type, batch_));
  line(fmt::format("{} values[{}];", d_.scalars[static_cast<size_t>(scalar)], batch_));
  line(fmt::format("{} kept[{}];", d_.elements[static_cast<size_t>(dtype)].type, batch_));
  each();
  line("positions[step] = -1;");
  line(fmt::format("const {} i{} = batch + step;", type, d));
  const bool even = k_.space[d] % batch_ == 0;
  if (!even) open(fmt::format("if (i{} < {})", d, index_number(k_.space[d])));
  for (const int32_t id : traps) define(id);
  for (const IndexTerm& t : s.access.terms) define(t.expr);
  define(s.expr);
  std::string condition;
  const Term at = element_index(s.access, first_trap_code(k_, 0, true), condition);
  line(condition.empty() ? fmt::format("positions[step] = {};", at.text)
                         : fmt::format("positions[step] = {} ? {:+} : -1;", condition, at));
  line(fmt::format("values[step] = {};",
                   convert(name(s.expr), k_.exprs[static_cast<size_t>(s.expr)].type, scalar).text));
  if (!even) close();
  close();
  each();
  line(fmt::format("if (positions[step] >= 0) kept[step] = {}[positions[step]];", to));
  close();
  each();
  line("if (positions[step] < 0) continue;");
  line("#pragma unroll");
  open("for (int before = 0; before < step; ++before)");
  line("if (positions[before] == positions[step]) kept[step] = kept[before];");
  close();
  line(fmt::format("kept[step] = {};", stored(dtype, combined(s, loaded(dtype, "kept[step]"), "values[step]")).text));
  line(fmt::format("{}[positions[step]] = kept[step];", to));
  close();
}

// What a store leaves where `old` is, of a value of the element's type.
Term KernelWriter::combined(const Store& s, const Term& old, const Term& value) const {
  const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
  const Scalar scalar = scalar_of(dtype);
  const bool either = s.reduction == Reduction::sum || s.reduction == Reduction::max;
  if (scalar == Scalar::boolean) return term("{} {} {}", old, either ? "||" : "&&", value);
  if (scalar == Scalar::i64)  // its functions are overloaded on the type
    return combine(s.reduction, scalar, term("({}){}", d_.scalars[static_cast<size_t>(scalar)], old),
                   term("({}){}", d_.elements[static_cast<size_t>(dtype)].type, value));
  return combine(s.reduction, scalar, old, value);
}

}  // namespace npusim
