// Conversions between dtypes at their limits: a number comes out as it was, or is refused by its place and value.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/dtype.h"
#include "base/error.h"
#include "base/fit.h"
#include "base/tensor.h"
#include "runtime/tensor_set.h"

namespace npusim {
namespace {

constexpr DType all_dtypes[] = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32,
                                DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};

struct Limits {
  int64_t low, high;
};
// Of integers.
Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return {0, 1};
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::i16:
      return {-32768, 32767};
    case DType::i32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

// Whether a whole number is one of a dtype's: within its limits, or with no more binary digits than it has.
bool holds(DType dtype, int64_t value) {
  if (!is_float(dtype)) return value >= limits_of(dtype).low && value <= limits_of(dtype).high;
  const auto magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (magnitude == 0) return true;
  const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : dtype == DType::f32 ? 24 : 53;
  const int used = 64 - std::countl_zero(magnitude) - std::countr_zero(magnitude);
  return used <= digits && (dtype != DType::f16 || magnitude <= 65504);
}

std::set<int64_t> interesting_integers() {
  std::set<int64_t> values = {0, 1, -1, 2, int64_t{1} << 40};
  for (const DType dtype : all_dtypes) {
    if (is_float(dtype)) continue;
    const auto [low, high] = limits_of(dtype);
    values.insert({low, high, low / 2, high / 2});
    if (low > INT64_MIN) values.insert(low - 1);
    if (high < INT64_MAX) values.insert(high + 1);
  }
  for (const int bits : {8, 11, 24, 53})
    for (const int64_t near : {-1, 0, 1}) values.insert({(int64_t{1} << bits) + near, -(int64_t{1} << bits) + near});
  values.insert({65504, 65505, 65520, 65536});
  return values;
}

HostTensor tensor_of(DType dtype, int64_t value) {
  HostTensor tensor = make_tensor({dtype, {3}});
  store_int(tensor.data.data(), dtype, 1, value);
  return tensor;
}

std::string refusal(const TensorView& from, DType to) {
  try {
    convert_tensor(from, to);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return {};
}

TEST(Conversion, WholeNumbersComeOutAsTheyWere) {
  for (const int64_t value : interesting_integers())
    for (const DType from : all_dtypes) {
      if (!holds(from, value)) continue;
      const HostTensor tensor = tensor_of(from, value);
      for (const DType to : all_dtypes) {
        const std::string shown = fmt::format("{} from {} to {}", value, dtype_name(from), dtype_name(to));
        if (is_float(from) && is_float(to)) {
          EXPECT_EQ(refusal(view_of(tensor), to), "") << shown;  // rounded
          continue;
        }
        const std::string said = refusal(view_of(tensor), to);
        if (holds(to, value)) {
          ASSERT_EQ(said, "") << shown;
          EXPECT_EQ(load_int(convert_tensor(view_of(tensor), to).data.data(), to, 1), value) << shown;
        } else {
          EXPECT_TRUE(said.starts_with("element 1 is ")) << shown << ": " << said;
          EXPECT_TRUE(said.ends_with(fmt::format(", which {} does not hold", dtype_name(to)))) << shown << ": " << said;
        }
      }
    }
}

TEST(Conversion, OtherNumbersAreNoIntegers) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {0.5, -0.25, 1e-30, infinity, -infinity, std::nan(""), 1e300, 0x1p63})
    for (const DType to : all_dtypes) {
      if (is_float(to)) continue;
      HostTensor tensor = make_tensor({DType::f64, {2}});
      store_double(tensor.data.data(), DType::f64, 1, value);
      EXPECT_TRUE(refusal(view_of(tensor), to).starts_with("element 1 is ")) << value << " " << dtype_name(to);
    }
}

TEST(Conversion, NamesWithoutWrappers) {
  EXPECT_EQ(bare_name("module.fc.weight"), "fc.weight");
  EXPECT_EQ(bare_name("module.module._orig_mod.fc.weight"), "fc.weight");
  EXPECT_EQ(bare_name("_orig_mod.module.fc.weight"), "fc.weight");
  EXPECT_EQ(bare_name("layers.0._orig_mod.fc._fsdp_wrapped_module.weight"), "layers.0.fc.weight");
  EXPECT_EQ(bare_name("a_orig_mod.weight"), "a_orig_mod.weight");
  EXPECT_EQ(bare_name("net.module.weight"), "net.module.weight");
  EXPECT_EQ(bare_name("_orig_mod._orig_mod._orig_mod.w"), "w");
  const float one = 1, two = 2;
  const TensorType type{DType::f32, {1}};
  const auto tensors = make_tensors({{"module.a", {type, reinterpret_cast<const std::byte*>(&one)}},
                                     {"_orig_mod.a", {type, reinterpret_cast<const std::byte*>(&two)}},
                                     {"module.b", {type, reinterpret_cast<const std::byte*>(&two)}}});
  EXPECT_EQ(find_bare_tensor(*tensors, "a"), nullptr);  // which of the two?
  EXPECT_NE(find_bare_tensor(*tensors, "b"), nullptr);
  EXPECT_NE(find_bare_tensor(*tensors, "_orig_mod.b"), nullptr);
  EXPECT_EQ(find_bare_tensor(*tensors, "c"), nullptr);
}

}  // namespace
}  // namespace npusim
