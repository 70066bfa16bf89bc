// Every field of a program file has a rule: values that are refused, or why any value will do. A field that is added to
// program/fields.h fails here until it has one.
#include "program/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "program/config_ranges.h"
#include "program/sample.h"
#include "program/walk.h"

namespace npusim {
namespace {

constexpr int64_t large = int64_t{1} << 60, far = int64_t{1} << 50;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Rule {
  std::string field;
  std::vector<double> refused = {};     // instead of the number, or of any number of the list
  std::vector<std::string> texts = {};  // likewise
  bool sized = false;                   // a list with one element more or fewer is refused
  std::string any = {};                 // why any value will do, or that what is refused depends on others: then a
                                        // program that is accepted runs without a fault (the mutants see to that)
};

const std::string inner = "its elements have rules", shown = "only shown", flag = "either value has a meaning",
                  others = "depends on others", values = "any value has a meaning";

Rule never(const char* field, std::vector<double> refused) { return {field, std::move(refused), {}, false, {}}; }
Rule sized(const char* field, std::vector<double> refused) { return {field, std::move(refused), {}, true, {}}; }
Rule no_text(const char* field, std::vector<std::string> texts) { return {field, {}, std::move(texts), false, {}}; }
Rule any(const char* field, const std::string& why) { return {field, {}, {}, false, why}; }

const std::vector<Rule> rules = {
    never("TensorType.dtype", {10}),
    never("TensorType.shape", {-1, large}),
    any("HostTensor.type", inner),
    sized("HostTensor.data", {}),
    never("Expr.op", {double{expr_op_count}}),
    never("Expr.type", {4}),
    never("Expr.dtype", {10}),
    never("Expr.reduction", {4}),
    never("Expr.in", {-2, 999}),
    any("Expr.number", values),
    any("Expr.integer", others),
    sized("Guard.coeffs", {large}),
    any("Guard.offset", "what leaves the dimension touches nothing"),
    any("Guard.limit", others),
    never("Guard.stride", {large}),
    never("IndexTerm.expr", {-1, 999}),
    never("IndexTerm.stride", {-1, large}),
    never("IndexTerm.extent", {far}),
    never("Access.arg", {-1, 999}),
    never("Access.offset", {-1, far}),
    sized("Access.strides", {large}),
    any("Access.guards", inner),
    any("Access.terms", inner),
    any("Store.access", inner),
    never("Store.expr", {-1, 999}),
    any("Store.accumulate", flag),
    never("Store.reduction", {4}),
    never("KernelArg.dtype", {10}),
    never("KernelArg.elements", {-1, large}),
    any("KernelArg.written", others),
    never("KernelArg.updates", {-2, 999}),
    sized("Score.space", {-1}),
    any("Score.accesses", inner),
    any("Score.exprs", inner),
    never("Score.result", {-1, 999}),
    sized("Score.reduce", {-1}),
    any("Score.a", inner),
    any("Score.b", inner),
    never("Score.keys", {-2, 999}),
    never("Contraction.kind", {3}),
    sized("Contraction.reduce", {-1, far}),
    any("Contraction.a", inner),
    any("Contraction.b", inner),
    any("Contraction.score", inner),
    any("Contraction.masked_rows_are_zero", flag),
    never("CallArgument.kind", {11}),
    never("CallArgument.tensors", {-2, 999}),
    any("CallArgument.integers", "the operator's own"),
    any("CallArgument.reals", "the operator's own"),
    any("CallArgument.text", "the operator's own"),
    never("CallTensor.arg", {-1, 999}),
    never("CallTensor.shape", {-1, 7}),
    no_text("Call.op", {""}),
    any("Call.arguments", inner),
    any("Call.operands", inner),
    any("Call.results", inner),
    any("Kernel.name", shown),
    sized("Kernel.space", {-1, large}),
    never("Kernel.row_dims", {-1, 999}),
    any("Kernel.args", inner),
    sized("Kernel.accesses", {}),
    any("Kernel.exprs", inner),
    any("Kernel.stores", inner),
    any("Kernel.contraction", inner),
    any("Kernel.call", inner),
    any("TargetConfig.name", shown),
    any("TargetConfig.equal_operands", flag),
    never("TargetConfig.channel_alignment_bytes", {-1, 0, 70000}),
    never("TargetConfig.channel_tile", {-1, 70000}),
    any("TargetConfig.pad_channels", flag),
    never("TargetConfig.buffer_alignment_bytes", {-1, 0, 3, 131072}),
    never("TargetConfig.max_rank", {-1, 0, 65}),
    never("TargetConfig.image_layout", {2}),
    any("TargetConfig.machine", inner),
    any("TargetConfig.own", "a table of numbers: texts_test"),
    never("Machine.units", {-1, 0, large}),
    never("Machine.unit_bytes", {-1, double{far}}),
    never("Machine.block_bytes", {-1, double{far}}),
    never("Machine.memory_gb_s", {-1, 0, large}),
    never("Machine.gflop_s", {-1, 0, large}),
    never("Machine.gflop_s_16_bit", {-1, 0, large}),
    never("Machine.link_gb_s", {-1, 0, large}),
    never("Machine.link_us", {-1, large}),
    any("Buffer.name", shown),
    never("Buffer.kind", {8}),
    any("Buffer.type", inner),
    sized("Buffer.stored", {}),
    never("Buffer.offset", {1, double{far}}),
    no_text("Buffer.fqn", {""}),
    any("Buffer.tied", "a weight's: any names"),
    never("Buffer.constant", {-2, 999}),
    never("Buffer.device", {-1, 999}),
    any("Buffer.finite_for", others),
    any("Buffer.kept", others),
    any("TensorSpec.name", "any name that no other input has"),
    any("TensorSpec.type", inner),
    never("TensorSpec.buffer", {-1, 999}),
    never("TensorSpec.role", {double{role_count}}),
    never("Step.kernel", {-2, 999}),
    sized("Step.buffers", {-1, 999}),
    never("Step.device", {-1, 999}),
    never("Step.origins", {-1, 999}),
    any("Step.estimate", inner),
    never("Estimate.seconds", {-1, double{INFINITY}}),
    never("Estimate.bound", {double{resource_count}}),
    any("Origin.node", shown),
    any("Origin.op", shown),
    any("Origin.reason", shown),
    never("Launch.first", {-1, 999}),
    never("Launch.count", {-1, 0, 999}),
    never("Launch.code", {-1, 999}),
    no_text("Launch.symbol", {""}),
    any("Launch.grid", "launches are code"),
    never("Launch.block", {0, 5000}),
    never("Launch.args", {-3, 999}),
    any("Launch.traps", others),
    never("Launch.shared_bytes", {double{1 << 30}}),
    never("Launch.own_bytes", {1, double{large}}),
    any("Launch.together", "launches are code"),
    any("Launch.how", shown),
    any("Launch.declined", inner),
    any("Declined.implementation", shown),
    any("Declined.reason", shown),
    any("Launch.early", "launches are code"),
    any("Sequence.steps", inner),
    any("Sequence.launches", inner),
    never("Arena.bytes", {4096, double{far}}),
    never("Arena.lower_bound_bytes", {double{far}}),
    never("Arena.workspace_bytes", {4096, double{far}}),
    no_text("Method.name", {""}),
    any("Method.inputs", inner),
    any("Method.outputs", inner),
    any("Method.steps", inner),
    any("Method.launches", inner),
    sized("Method.arenas", {}),
    never("Method.nodes", {-1, 999, double{large}}),
    any("Method.declined", shown),
    any("Method.fusions", shown),
    any("Method.materialized", shown),
    any("Code.format", "launches are code"),
    any("Code.architecture", "launches are code"),
    any("Code.bytes", "launches are code"),
    no_text("ProgramDevice.target", {""}),
    any("ProgramDevice.config", inner),
    never("TextFacts.decode", {-2, 999}),
    never("TextFacts.prefills", {-1, 1, 999}),
    never("TextFacts.greedy", {-2, 0, 1, 999}),
    never("TextFacts.sample", {-2, 0, 2, 999}),
    never("TextFacts.nucleus", {-2, 0, 2, 999}),
    never("TextFacts.batch", {-1, 2, double{large}}),
    never("TextFacts.vocabulary", {-1, 3, 5, double{large}}),
    never("TextFacts.capacity", {-1, 7, 9, double{large}}),
    any("TextFacts.by_position", others),
    any("TextFacts.lacks", shown),
    any("Choice.kernel", shown),
    any("Choice.device", shown),
    any("Choice.compiler", shown),
    any("Choice.how", shown),
    any("Choice.before", shown),
    never("Choice.ms", {nan, -1}),
    never("Choice.before_ms", {nan, -1}),
    any("Variant.devices", inner),
    any("Variant.buffers", inner),
    any("Variant.kernels", inner),
    any("Variant.code", inner),
    any("Variant.recipes", inner),
    any("Variant.methods", inner),
    any("Variant.choices", inner),
    any("Program.model", shown),
    never("Program.dtype", {10}),
    any("Program.strict", flag),
    any("Program.devices", inner),
    any("Program.buffers", inner),
    any("Program.constants", inner),
    any("Program.kernels", inner),
    any("Program.code", inner),
    any("Program.origins", inner),
    any("Program.recipes", inner),
    any("Program.methods", inner),
    any("Program.text", inner),
    any("Program.choices", inner),
    any("Program.variants", inner),
};

// Gathers the rows of image [1, 5, 4] that `rows` names, padded, and adds them up: guards, index terms, what
// accumulates.
Program gather_program() {
  KernelBuilder k({3, 4});
  const int image = k.input({DType::f32, {5, 4}}), rows = k.input({DType::i64, {3}});
  const Coord row_at[] = {k.dim(0)};
  const Ex row = k.load(rows, row_at);
  const Coord at[] = {Coord(row), Coord(k.dim(1) + (-1))};
  const Ex x = k.load(image, at);
  const int out = k.output({DType::f32, {5, 4}}, -1);
  const Coord to[] = {Coord(row), Coord(k.dim(1))};
  k.store(out, to, x, Reduction::sum);
  Program p;
  p.model = "gather";
  p.devices = {{"cpu", {}}};
  p.devices[0].config.name = "cpu";
  p.kernels = {k.finish("gather")};
  const TensorType images{DType::f32, {5, 4}}, indices{DType::i64, {3}};
  const auto add = [&](const char* name, BufferKind kind, const TensorType& type) {
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  };
  add("image", BufferKind::input, images), add("rows", BufferKind::input, indices);
  add("sum", BufferKind::output, images);
  p.origins = {{"gather", "aten.index_add.default"}};
  Method main;
  main.name = "main";
  main.inputs = {{"image", images, 0}, {"rows", indices, 1}};
  main.outputs = {{"sum", images, 2}};
  main.steps = {{0, {0, 1, 2}, 0, {0}}};
  main.arenas.resize(1);
  main.nodes = 1;
  p.methods = {main};
  return p;
}

Program variant_program() {
  Program p = split_program();
  p.variants = {static_cast<const Variant&>(p)};
  return p;
}

std::vector<Program> samples() {
  return {sample_program(), variant_program(), call_program(), gather_program(), text_program()};
}

bool accepted(const Program& program) {
  try {
    const Program again = deserialize(serialize(program), "p");
    describe(again, false);
    describe_steps(again, true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <typename T>
void set(T& value, double number) {
  if constexpr (std::is_same_v<T, double>)
    value = number;
  else if constexpr (std::is_enum_v<T>)
    value = static_cast<T>(static_cast<int>(number));
  else
    value = static_cast<T>(static_cast<int64_t>(number));
}

// Gives `program` the n-th of the changes that the rule forbids at this field; false: there are no more.
struct Change {
  size_t n;
  const Rule& rule;

  bool numbers(auto& value) {
    if (n >= rule.refused.size()) return n -= rule.refused.size(), false;
    set(value, rule.refused[n]);
    return true;
  }
  template <typename T>
  bool field(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (n < rule.texts.size()) return value = rule.texts[n], true;
      return false;
    } else if constexpr (std::is_same_v<T, bool>) {
      return false;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      return numbers(value);
    } else if constexpr (requires { value.size(), value.begin(); }) {
      return list(value);
    } else {
      return false;
    }
  }
  template <typename T>
  bool list(T& value) {
    if constexpr (requires { value.push_back(value.front()), value.pop_back(); })
      if (rule.sized) {
        if (n == 0) return value.emplace_back(), true;
        if (n == 1 && !value.empty()) return value.pop_back(), true;
        n -= std::min<size_t>(n, 1 + !value.empty());
      }
    if constexpr (requires(int64_t x) { value[0] = static_cast<std::decay_t<decltype(value[0])>>(x); })
      for (auto& element : value)
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(element)>>)
          if (numbers(element)) return true;
    return false;
  }
};

TEST(Fields, EachHasARule) {
  std::set<std::string> known, ruled;
  collect_fields<Program>(known);
  for (const Rule& rule : rules) {
    EXPECT_TRUE(ruled.insert(rule.field).second) << rule.field << " has two rules";
    const bool has_one = !rule.refused.empty() || !rule.texts.empty() || rule.sized || !rule.any.empty();
    EXPECT_TRUE(has_one) << rule.field;
  }
  EXPECT_EQ(known, ruled) << "a field needs a rule in this file, and a check in program/check*.cpp or kernel/check.cpp";
}

TEST(Fields, WhatRulesRefuseIsRefused) {
  for (const Program& sample : samples()) {
    ASSERT_EQ(check_program(sample), std::vector<std::string>{});
    ASSERT_TRUE(accepted(sample));
    for (const Rule& rule : rules) {
      size_t places = 0;
      Program counted = sample;
      walk_fields(counted, [&](const std::string& name, auto&) { places += name == rule.field; });
      for (size_t place = 0; place < std::min<size_t>(places, 40); ++place)
        for (size_t n = 0;; ++n) {
          Program changed = sample;
          bool made = false;
          size_t at = 0;
          walk_fields(changed, [&](const std::string& name, auto& value) {
            if (name == rule.field && at++ == place) made = Change{n, rule}.field(value);
          });
          if (!made) break;
          if (serialize(changed) == serialize(sample)) continue;
          EXPECT_FALSE(accepted(changed))
              << sample.model << ": " << rule.field << ", place " << place << ", change " << n;
        }
    }
  }
}

TEST(Fields, NumbersOfAConfigAtTheirEnds) {
  const auto check = [](const auto& ranges) {
    for (const auto& range : ranges) {
      EXPECT_EQ(range_problem(range, range.low), "") << range.key;
      EXPECT_EQ(range_problem(range, range.high), "") << range.key;
      for (const int64_t value : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, range.low - 1, range.high + 1, INT64_MAX})
        EXPECT_NE(range_problem(range, value), "") << range.key << ' ' << value;
      EXPECT_EQ(range_problem(range, 3).empty(), !range.power_of_two) << range.key;
    }
  };
  check(config_ranges());
  check(machine_ranges());
}

TEST(Fields, ValuesOfATargetsOwn) {
  Program program = samples()[0];
  std::map<std::string, int64_t>& own = program.devices[0].config.own;
  own = {{"some", 0}, {"most", most_own_value}};
  EXPECT_TRUE(accepted(program));
  for (const int64_t value : {INT64_MIN, int64_t{-1}, most_own_value + 1, INT64_MAX}) {
    own = {{"some", value}};
    EXPECT_FALSE(accepted(program)) << value;
  }
  own.clear();
  for (size_t n = 0; n <= most_own_values; ++n) own[std::to_string(n)] = 1;
  EXPECT_FALSE(accepted(program));
}

}  // namespace
}  // namespace npusim
