// Stores that combine, by element type and reduction, compiled once per instruction set.
#include "backends/cpu/loops/moves/combine.h"

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/moves/combine.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "backends/cpu/loops/tiles/tile-inl.h"
#include "base/dtype.h"
#include "kernel/facts/index_form.h"
#include "kernel/scalar.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::moves::HWY_NAMESPACE {
using namespace tiles::HWY_NAMESPACE;
namespace {

// How an element of memory takes a lane.
template <class Type, class LaneType, class F>
struct InType {
  using Element = Type;
  using Lane = LaneType;
  static void combine(Element& there, Lane lane) {
    there = static_cast<Element>(F::of(there, static_cast<Element>(lane)));
  }
};
template <DType dtype, Reduction reduction>
struct InHalf {
  using Element = uint16_t;
  using Lane = float;
  static void combine(Element& there, Lane lane) {
    const Number now{load_double(&there, dtype, 0), 0}, value{static_cast<double>(lane), 0};
    store_double(&there, dtype, 0, npusim::combine(reduction, now, value).f);
  }
};

// Integers wrap; NaN stays.
struct Add {
  template <class T>
  static auto of(T a, T b) {
    using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    return static_cast<Wide>(a) + static_cast<Wide>(b);
  }
};
struct Multiply {
  template <class T>
  static auto of(T a, T b) {
    using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    return static_cast<Wide>(a) * static_cast<Wide>(b);
  }
};
struct Lowest {
  template <class T>
  static T of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Highest {
  template <class T>
  static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Either {
  static uint8_t of(uint8_t a, uint8_t b) { return a || b; }
};
struct Both {
  static uint8_t of(uint8_t a, uint8_t b) { return a && b; }
};

template <class How>
void combine_run(typename How::Element* memory, int64_t step, const typename How::Lane* lanes, int64_t n) {
  if (step == 1) {
    NPUSIM_IVDEP
    for (int64_t i = 0; i < n; ++i) How::combine(memory[i], lanes[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) How::combine(memory[i * step], lanes[i]);
}

// Points with a value each. Held here is what stores of integers might change for all the compiler knows, and a value
// is an index of a vector of numbers (`dense`).
template <class How, bool dense>
void combine_points(const CombineTile& c, typename How::Element* memory, const typename How::Lane* lanes,
                    const int64_t* values) {
  const auto extent = static_cast<uint64_t>(c.extent);
  const int64_t n = c.columns, apart = c.values_column, step = c.column_step, stride = c.stride;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = values[dense ? i : i * apart];
    if (static_cast<uint64_t>(value) >= extent) {
      c.trap->index(index_as_given(value, c.added), c.extent);
      continue;
    }
    How::combine(memory[dense ? value : value * stride + i * step], lanes[i]);
  }
}

template <class How>
void combine_tile(const CombineTile& c) {
  const auto extent = static_cast<uint64_t>(c.extent);
  const bool dense = c.values_column == 1 && c.column_step == 0 && c.stride == 1;
  for (int64_t r = 0; r < c.rows; ++r) {
    auto* memory = reinterpret_cast<typename How::Element*>(c.memory) + r * c.row_step;
    const auto* lanes = reinterpret_cast<const typename How::Lane*>(c.lanes) + r * c.lanes_row;
    const int64_t* values = c.values ? c.values + r * c.values_row : nullptr;
    if (values && c.values_column != 0) {
      dense ? combine_points<How, true>(c, memory, lanes, values)
            : combine_points<How, false>(c, memory, lanes, values);
      continue;
    }
    if (values) {
      if (static_cast<uint64_t>(*values) >= extent) {
        c.trap->index(index_as_given(*values, c.added), c.extent);
        continue;
      }
      memory += *values * c.stride;
    }
    combine_run<How>(memory, c.column_step, lanes, c.columns);
  }
}

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <Reduction reduction>
HWY_INLINE V combined(V there, V x) {
  const auto keeps = [&](auto better) { return hn::IfThenElse(hn::Or(better, hn::IsNaN(there)), there, x); };
  if constexpr (reduction == Reduction::sum) return hn::Add(there, x);
  if constexpr (reduction == Reduction::product) return hn::Mul(there, x);
  if constexpr (reduction == Reduction::min) return keeps(hn::Lt(there, x));
  return keeps(hn::Gt(there, x));
}
template <Reduction reduction>
float combined_one(float there, float x) {
  return reduction == Reduction::sum       ? there + x
         : reduction == Reduction::product ? there * x
         : reduction == Reduction::min     ? Lowest::of(there, x)
                                           : Highest::of(there, x);
}

// Rows [begin, end) onto the same elements.
template <Reduction reduction, bool scaled>
void combine_onto(float* to, const CombineTile& c, int64_t begin, int64_t end) {
  const D d;
  constexpr int64_t vectors = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row = [&](int64_t r) {
    return reinterpret_cast<const float*>(c.source) + r * c.source_step + c.addresses[r * c.addresses_row];
  };
  const auto scale = [&](int64_t r) { return scaled ? c.scales[r * c.scales_row] : 1.0f; };
  int64_t j = 0;
  for (; j + vectors * lanes <= c.columns; j += vectors * lanes) {
    V sum[vectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < vectors; ++v) sum[v] = hn::LoadU(d, to + j + v * lanes);
    for (int64_t r = begin; r < end; ++r) {
      const float* from = row(r) + j;
      const V factor = hn::Set(d, scale(r));
#pragma GCC unroll 8
      for (int64_t v = 0; v < vectors; ++v) {
        V x = hn::LoadU(d, from + v * lanes);
        if constexpr (scaled) x = hn::Mul(x, factor);
        sum[v] = combined<reduction>(sum[v], x);
      }
    }
#pragma GCC unroll 8
    for (int64_t v = 0; v < vectors; ++v) hn::StoreU(sum[v], d, to + j + v * lanes);
  }
  for (; j + lanes <= c.columns; j += lanes) {
    V sum = hn::LoadU(d, to + j);
    for (int64_t r = begin; r < end; ++r) {
      V x = hn::LoadU(d, row(r) + j);
      if constexpr (scaled) x = hn::Mul(x, hn::Set(d, scale(r)));
      sum = combined<reduction>(sum, x);
    }
    hn::StoreU(sum, d, to + j);
  }
  for (; j < c.columns; ++j)
    for (int64_t r = begin; r < end; ++r)
      to[j] = combined_one<reduction>(to[j], scaled ? row(r)[j] * scale(r) : row(r)[j]);
}

template <Reduction reduction>
void combine_rows(const CombineTile& c) {
  // A tile's rows lie anywhere: all are asked for before the first is needed.
  const auto* source = reinterpret_cast<const float*>(c.source);
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t j = 0; j < c.columns; j += 16)
      __builtin_prefetch(source + r * c.source_step + c.addresses[r * c.addresses_row] + j, 0, 3);
  for (int64_t begin = 0, end = 0; begin < c.rows; begin = end) {
    const int64_t value = c.values[begin * c.values_row];
    for (end = begin + 1; end < c.rows && c.row_step == 0 && c.values[end * c.values_row] == value;) ++end;
    if (static_cast<uint64_t>(value) >= static_cast<uint64_t>(c.extent)) {
      c.trap->index(index_as_given(value, c.added), c.extent);
      continue;
    }
    float* to = reinterpret_cast<float*>(c.memory) + value * c.stride + begin * c.row_step;
    c.scales ? combine_onto<reduction, true>(to, c, begin, end) : combine_onto<reduction, false>(to, c, begin, end);
  }
}

CombineFn find_combine_rows(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return combine_rows<Reduction::sum>;
    case Reduction::product:
      return combine_rows<Reduction::product>;
    case Reduction::min:
      return combine_rows<Reduction::min>;
    case Reduction::max:
      return combine_rows<Reduction::max>;
  }
  return nullptr;
}

template <class T, class Lane>
CombineFn of_type(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return combine_tile<InType<T, Lane, Add>>;
    case Reduction::product:
      return combine_tile<InType<T, Lane, Multiply>>;
    case Reduction::min:
      return combine_tile<InType<T, Lane, Lowest>>;
    case Reduction::max:
      return combine_tile<InType<T, Lane, Highest>>;
  }
  return nullptr;
}

template <DType dtype>
CombineFn of_half(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return combine_tile<InHalf<dtype, Reduction::sum>>;
    case Reduction::product:
      return combine_tile<InHalf<dtype, Reduction::product>>;
    case Reduction::min:
      return combine_tile<InHalf<dtype, Reduction::min>>;
    case Reduction::max:
      return combine_tile<InHalf<dtype, Reduction::max>>;
  }
  return nullptr;
}

CombineFn find_combine(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::f32:
      return of_type<float, float>(reduction);
    case DType::f64:
      return of_type<double, double>(reduction);
    case DType::i64:
      return of_type<int64_t, int64_t>(reduction);
    case DType::i32:
      return of_type<int32_t, int64_t>(reduction);
    case DType::i16:
      return of_type<int16_t, int64_t>(reduction);
    case DType::i8:
      return of_type<int8_t, int64_t>(reduction);
    case DType::u8:
      return of_type<uint8_t, int64_t>(reduction);
    case DType::boolean:
      if (reduction == Reduction::sum || reduction == Reduction::max)
        return combine_tile<InType<uint8_t, uint8_t, Either>>;
      return combine_tile<InType<uint8_t, uint8_t, Both>>;
    case DType::f16:
      return of_half<DType::f16>(reduction);
    case DType::bf16:
      return of_half<DType::bf16>(reduction);
  }
  return nullptr;
}

}  // namespace
}  // namespace npusim::cpu::loops::moves::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::moves {
HWY_EXPORT(find_combine);
HWY_EXPORT(find_combine_rows);

CombineFn combine_fn(DType dtype, Reduction reduction) { return HWY_DYNAMIC_DISPATCH(find_combine)(dtype, reduction); }
CombineFn combine_rows_fn(Reduction reduction) { return HWY_DYNAMIC_DISPATCH(find_combine_rows)(reduction); }

}  // namespace npusim::cpu::loops::moves
#endif
