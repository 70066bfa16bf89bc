// Binary searches: which chains they are, and the steps of several points at once.
#include "backends/cpu/loops/rewrite/search.h"

#include <algorithm>
#include <optional>

#include "base/dtype.h"
#include "kernel/search.h"

namespace npusim::cpu::loops::rewrite {
namespace {

int code_of(Before b) { return (b.op == ExprOp::le) + 2 * b.element_first + 4 * b.negated; }

template <class ElementType, class LaneType = ElementType>
struct Plain {
  using Element = ElementType;
  using Lane = LaneType;
  static Lane of(Element x) { return static_cast<Lane>(x); }
};
struct Half {
  using Element = uint16_t;
  using Lane = float;
  static Lane of(Element x) { return f16_to_float(x); }
};
struct Brain {
  using Element = uint16_t;
  using Lane = float;
  static Lane of(Element x) { return bf16_to_float(x); }
};

template <int code, class Lane>
bool is_before(Lane element, Lane value) {
  const Lane first = code & 2 ? element : value, second = code & 2 ? value : element;
  const bool holds = code & 1 ? first <= second : first < second;
  return code & 4 ? !holds : holds;
}

// So many points go side by side: each step of one waits for its memory.
constexpr int64_t at_once = 8;

template <class Type, int code, int64_t points>
void search_some(const typename Type::Element* memory, int64_t step, const SearchTile& t,
                 const typename Type::Lane* values, int steps, int64_t* out) {
  typename Type::Lane value[points];
  int64_t first[points] = {}, left[points];
  for (int64_t i = 0; i < points; ++i) value[i] = values[i * t.values_column], left[i] = t.extent;
  // Without branches, which would be guesses. Only at the last step there may be nothing left.
  for (int s = 1; s < steps; ++s)
    for (int64_t i = 0; i < points; ++i) {
      const int64_t half = left[i] >> 1;
      const auto element = Type::of(memory[i * step + (first[i] + half) * t.stride]);
      const int64_t further = -static_cast<int64_t>(is_before<code>(element, value[i]));
      first[i] += (half + 1) & further;
      left[i] = half + (((left[i] & 1) - 1) & further);
    }
  for (int64_t i = 0; i < points; ++i) {
    const auto element = Type::of(memory[i * step + std::min(first[i], t.extent - 1) * t.stride]);
    first[i] += (left[i] > 0) & is_before<code>(element, value[i]);
  }
  std::copy_n(first, points, out);
}

template <class Type, int code>
void search(const SearchTile& t) {
  const int steps = search_steps(t.extent);
  for (int64_t r = 0; r < t.rows; ++r) {
    const auto* memory = reinterpret_cast<const typename Type::Element*>(t.memory) + r * t.row_step;
    const auto* values = static_cast<const typename Type::Lane*>(t.values) + r * t.values_row;
    int64_t* out = t.out + r * t.out_row;
    int64_t c = 0;
    for (; c + at_once <= t.columns; c += at_once)
      search_some<Type, code, at_once>(memory + c * t.column_step, t.column_step, t, values + c * t.values_column,
                                       steps, out + c);
    for (; c < t.columns; ++c)
      search_some<Type, code, 1>(memory + c * t.column_step, t.column_step, t, values + c * t.values_column, steps,
                                 out + c);
  }
}

template <class Type>
SearchFn by_code(int code) {
  static constexpr SearchFn fns[] = {search<Type, 0>, search<Type, 1>, search<Type, 2>, search<Type, 3>,
                                     search<Type, 4>, search<Type, 5>, search<Type, 6>, search<Type, 7>};
  return fns[code];
}

}  // namespace

bool is_search(const Expr& e) { return e.op == ExprOp::load && e.in[0] >= 0; }

void find_searches(Kernel& k) {
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    std::optional<Search> found = search_at(k, static_cast<int32_t>(i));
    if (!found || k.args[static_cast<size_t>(found->access.arg)].dtype == DType::boolean) continue;
    found->access.terms[0].expr = found->value;
    k.exprs[i] = {.op = ExprOp::load, .type = Scalar::i64, .in = {code_of(found->before), -1, -1}};
    k.exprs[i].integer = static_cast<int64_t>(k.accesses.size());
    k.accesses.push_back(std::move(found->access));
  }
}

SearchFn search_fn(const Expr& e, DType dtype) {
  const int code = e.in[0];
  switch (dtype) {
    case DType::f16:
      return by_code<Half>(code);
    case DType::bf16:
      return by_code<Brain>(code);
    case DType::f32:
      return by_code<Plain<float>>(code);
    case DType::f64:
      return by_code<Plain<double>>(code);
    case DType::i64:
      return by_code<Plain<int64_t>>(code);
    case DType::i32:
      return by_code<Plain<int32_t, int64_t>>(code);
    case DType::i16:
      return by_code<Plain<int16_t, int64_t>>(code);
    case DType::i8:
      return by_code<Plain<int8_t, int64_t>>(code);
    case DType::u8:
      return by_code<Plain<uint8_t, int64_t>>(code);
    case DType::boolean:
      break;
  }
  return nullptr;
}

}  // namespace npusim::cpu::loops::rewrite
