// Every reader at sizes that double: what is linear takes twice as long, what is quadratic four times. Times are
// compared with much room, and only where they are long enough to tell.
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "fuzz/run_program.h"
#include "graph/import.h"
#include "npusim/compiler.h"
#include "npusim/session.h"
#include "program/sample.h"
#include "runtime/npy.h"
#include "runtime/safetensors.h"
#include "runtime/tensor_set.h"
#include "text/tokenizer.h"

namespace npusim {
namespace {

#ifdef NPUSIM_SANITIZED
constexpr double most_seconds = 100;
#else
constexpr double most_seconds = 10;
#endif

// Of the processor: others may be at work beside this.
double seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

// `make(n)` gives the work for size n, ready to be timed. From `size` to four times that the time grows by four where
// it is linear, by sixteen where it is quadratic.
void expect_linear(const std::string& what, size_t size, const std::function<std::function<void()>(size_t)>& make) {
  SCOPED_TRACE(what);
  double first = seconds_of(make(size));
  double last = seconds_of(make(4 * size));
  testing::Test::RecordProperty(what, fmt::format("{:.3f} s, {:.3f} s for four times as much", first, last));
  EXPECT_LT(last, most_seconds) << "of size " << 4 * size;
  if (last < 0.4) return;
  first = std::min(first, seconds_of(make(size)));
  if (last / first >= 11) last = std::min(last, seconds_of(make(4 * size)));
  EXPECT_LT(last / first, 11) << first << " s for " << size << ", " << last << " s for four times as much";
}

template <typename Line>
std::string joined(size_t count, const char* separator, const Line& line) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i ? separator : "") + line(i);
  return text;
}

std::string safetensors_of(size_t tensors) {
  std::string header =
      "{" +
      joined(tensors, ",",
             [](size_t i) {
               return fmt::format(R"("layer.{}.weight":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}})", i, 4 * i,
                                  4 * i + 4);
             }) +
      "}";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(4 * tensors, '\0');
}

TEST(Readers, Safetensors) {
  expect_linear("tensors", 20'000, [](size_t n) {
    return [file = safetensors_of(n), n] {
      EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(file)), "w").entries.size(), n);
    };
  });
  expect_linear("metadata", 20'000, [](size_t n) {
    const std::string header =
        R"({"__metadata__":{)" + joined(n, ",", [](size_t i) { return fmt::format(R"("k{}":"v")", i); }) + "}}";
    const uint64_t length = header.size();
    return [file = std::string(reinterpret_cast<const char*>(&length), 8) + header] {
      parse_safetensors(std::as_bytes(std::span(file)), "w");
    };
  });
  expect_linear("index", 20'000, [](size_t n) {
    return [text = R"({"weight_map":{)" +
                   joined(n, ",", [](size_t i) { return fmt::format(R"("k{}":"w{}.safetensors")", i, i % 9); }) + "}}",
            n] { EXPECT_EQ(parse_safetensors_index(text, "i").size(), n); };
  });
}

// Names with what wrappers put into them, again and again.
TEST(Readers, NamesOfWrappers) {
  for (const std::string part : {"_orig_mod.", "module.", "_fsdp_wrapped_module.", "a._checkpoint_wrapped_module."})
    expect_linear(part.c_str(), 100'000, [&](size_t n) {
      const std::string name = joined(n, "", [&](size_t) { return part; }) + "w";
      return [name] { EXPECT_TRUE(bare_name(name).ends_with("w")); };
    });
}

TEST(Readers, Npy) {
  expect_linear("bytes", 1'000'000, [](size_t n) {
    std::string header = fmt::format("{{'descr': '|u1', 'fortran_order': True, 'shape': ({}, 4), }}", n);
    header.resize(118, ' ');
    return [file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + std::string(4 * n, 'x')] {
      parse_npy(std::as_bytes(std::span(file)), "x");
    };
  });
}

TEST(Readers, KeysComeOnceInAnObject) {
  EXPECT_EQ(parse_json(R"([{"a":1,"b":{"a":2}},{"a":3}])", "j").size(), 2U);
  for (const std::string_view text :
       {R"({"a":1,"a":1})", R"({"b":{"a":1,"c":[],"a":2}})", R"([{"a":{},"b":1,"a":{}}])", R"({"":0,"":0})"})
    EXPECT_THROW(parse_json(text, "j"), Error) << text;
  for (const std::string text : {R"({"a":1})", "[]", "1"}) {  // whatever stands behind a zero byte, or before it
    EXPECT_THROW(parse_json(text + '\0', "j"), Error) << text;
    EXPECT_THROW(parse_json(text + '\0' + text, "j"), Error) << text;
    EXPECT_THROW(parse_json('\0' + text, "j"), Error) << text;
  }
}

TEST(Readers, Json) {
  expect_linear("members", 50'000, [](size_t n) {
    return [text = "{" + joined(n, ",", [](size_t i) { return fmt::format(R"("k{}":[{}, {{"a": 1.5}}])", i, i); }) +
                   "}"] { parse_json_object(text, "j"); };
  });
  for (const std::string& open : {std::string("["), std::string(R"({"a":)")}) {
    std::string deep;
    for (int i = 0; i < 500'000; ++i) deep += open;
    EXPECT_THROW(parse_json(deep, "deep"), Error);
  }
}

// ---- IR

std::string tensor(const std::string& name, const std::string& shape, const std::string& producer = {},
                   size_t output = 0) {
  return fmt::format(
      R"({{"name":"{}","shape":{},"dtype":"float32"{}}})", name, shape,
      producer.empty() ? "" : fmt::format(R"(,"producer_node":"{}","producer_output_idx":{})", producer, output));
}
std::string node(const std::string& name, const std::string& op, const std::string& inputs, const std::string& outputs,
                 const std::string& attrs = "") {
  return fmt::format(R"({{"name":"{}","op_type":"aten.{}","inputs":[{}],"outputs":[{}],"attrs":{{{}}}}})", name, op,
                     inputs, outputs, attrs);
}
std::string ir(const std::string& inputs, const std::string& nodes, const std::string& outputs) {
  return fmt::format(R"({{"graph_inputs":[{}],"graph_outputs":[{}],"weights":[],"nodes":[{}]}})", inputs, outputs,
                     nodes);
}

std::string cat_of(size_t n) {
  const auto x = [](size_t i) { return tensor(fmt::format("x{}", i), "[1,2]"); };
  const std::string all = joined(n, ",", x), y = tensor("y", fmt::format("[{},2]", n));
  return ir(all, node("y", "cat.default", all, y, fmt::format(R"("dim":0,"_tensor_list_sizes":[{}])", n)), y);
}
std::string unbind_of(size_t n) {
  const std::string x = tensor("x", fmt::format("[{},2]", n));
  const std::string all = joined(n, ",", [](size_t i) { return tensor(fmt::format("u_{}", i), "[2]"); });
  return ir(x, node("u", "unbind.int", x, all, R"("dim":0)"), all);
}
// x + sum(x, 1) again and again.
std::string sums_of(size_t n) {
  std::string last = tensor("x", "[4,8]"), nodes;
  for (size_t i = 0; i < n; ++i) {
    const std::string s = fmt::format("s{}", i), a = fmt::format("a{}", i);
    nodes += (i ? "," : "") + node(s, "sum.dim_IntList", last, tensor(s, "[4,1]"), R"("dim":[1],"keepdim":true)") + ",";
    nodes += node(a, "add.Tensor", last + "," + tensor(s, "[4,1]", s), tensor(a, "[4,8]"));
    last = tensor(a, "[4,8]", a);
  }
  return ir(tensor("x", "[4,8]"), nodes, tensor(fmt::format("a{}", n - 1), "[4,8]"));
}
std::string pointwise_of(size_t n) {
  std::string last = tensor("x", "[4,8]"), nodes;
  for (size_t i = 0; i < n; ++i) {
    const std::string a = fmt::format("a{}", i);
    nodes += (i ? "," : "") + node(a, i % 2 ? "sin.default" : "exp.default", last, tensor(a, "[4,8]"));
    last = tensor(a, "[4,8]", a);
  }
  return ir(tensor("x", "[4,8]"), nodes, tensor(fmt::format("a{}", n - 1), "[4,8]"));
}

// Losses of n sequences of 4000 steps, one kernel each.
std::string losses_of(size_t n) {
  const std::string x = tensor("x", "[4000,1,2]");
  const std::string labels = R"({"name":"labels","shape":[1,1],"dtype":"int64"})";
  const auto name = [](size_t i) { return fmt::format("loss{}", i); };
  const std::string nodes = joined(n, ",", [&](size_t i) {
    return node(
        name(i), "ctc_loss.IntList", x + "," + labels, tensor(name(i), "[]"),
        fmt::format(R"("input_lengths":[{}],"target_lengths":[1],"blank":0,"reduction":1,"zero_infinity":false)",
                    4000 - i));
  });
  return ir(x + "," + labels, nodes, joined(n, ",", [&](size_t i) { return tensor(name(i), "[]", name(i)); }));
}

// A short text of long sequences is refused before anything is done with its kernels.
TEST(Readers, UnrolledSequences) {
  std::string why;
  const double seconds = seconds_of([&] {
    try {
      compile({{"main", "ir", losses_of(40)}});
    } catch (const Error& error) {
      why = error.what();
    }
  });
  EXPECT_NE(why.find("at most 32768"), std::string::npos) << why;
  EXPECT_LT(seconds, most_seconds);
}

// x flipped n times, each of which is a result: a kernel each, of all flips up to there.
std::string flips_of(size_t n) {
  std::string last = tensor("x", "[4,8]"), nodes, results;
  for (size_t i = 0; i < n; ++i) {
    const std::string a = fmt::format("a{}", i);
    nodes += (i ? "," : "") + node(a, "flip.default", last, tensor(a, "[4,8]"), R"("dims":[0])");
    last = tensor(a, "[4,8]", a);
    results += (i ? "," : "") + last;
  }
  return ir(tensor("x", "[4,8]"), nodes, results);
}

TEST(Readers, StepsOfManyNodes) {
  const auto bytes = [](size_t n) { return serialize(*compile({{"main", "ir", flips_of(n)}}).program).size(); };
  const size_t one = bytes(700), twice = bytes(1400);
  EXPECT_LT(twice, 2.5 * static_cast<double>(one)) << one;
}

TEST(Readers, SpacesThatAreNotCounted) {
  const std::string x = tensor("x", "[1048576,1048576]"), y = tensor("y", "[1048576,1048576]");
  const std::string both = x + "," + y;
  const auto kind = [&](const std::string& op, const std::string& attrs) {
    try {
      compile({{"main", "ir",
                ir(both, node("r", op, both, tensor("r", "[1048576,1048576]"), attrs),
                   tensor("r", "[1048576,1048576]", "r"))}});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("node r"), std::string::npos) << error.what();
      return error.kind();
    }
    return ErrorKind::internal;
  };
  EXPECT_EQ(kind("mm.default", ""), ErrorKind::unsupported);
  EXPECT_EQ(kind("_cdist_forward.default", R"("p":2.0,"compute_mode":null)"), ErrorKind::unsupported);
}

// A name that many steps show would be more than the file.
TEST(Readers, LongNames) {
  const std::string name(1025, 'n'), x = tensor("x", "[2]");
  const auto refused = [](const std::string& text) {
    try {
      compile({{"main", "ir", text}});
    } catch (const Error& error) {
      return std::string(error.what()).find("1025 bytes (at most 1024)") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused(ir(x, node(name, "sin.default", x, tensor("y", "[2]")), tensor("y", "[2]", name))));
  EXPECT_TRUE(refused(ir(tensor(name, "[2]"), node("y", "sin.default", tensor(name, "[2]"), tensor("y", "[2]")),
                         tensor("y", "[2]", "y"))));
  Program p = sample_program();
  p.origins[0].node = std::string(4097, 'n');
  EXPECT_THROW(deserialize(serialize(p), "p"), Error);
  EXPECT_THROW(compile({{name, "ir", ir(x, node("y", "sin.default", x, tensor("y", "[2]")), tensor("y", "[2]", "y"))}}),
               Error);
}

TEST(Readers, Ir) {
  const auto import = [](std::string (*make)(size_t)) {
    return [make](size_t n) { return [text = make(n)] { import_ir(text, "ir"); }; };
  };
  const auto compiled = [](std::string (*make)(size_t)) {
    return [make](size_t n) { return [text = make(n)] { compile({{"main", "ir", text}}); }; };
  };
  expect_linear("import of pointwise nodes", 4000, import(pointwise_of));
  expect_linear("import of operands", 5000, import(cat_of));
  expect_linear("compile cat", 1000, compiled(cat_of));
  expect_linear("compile unbind", 1000, compiled(unbind_of));
  expect_linear("compile sums", 250, compiled(sums_of));
  expect_linear("compile pointwise", 1000, compiled(pointwise_of));
}

// ---- programs

Program with_steps(size_t n) {
  Program p = sample_program();
  Method& prefill = p.methods[0];
  for (size_t i = 0; i < n; ++i) prefill.steps.push_back(prefill.steps[1]);
  return p;
}
// One kernel with n loads, accesses, arguments.
Program with_arguments(size_t n) {
  Program p = call_program();
  p.buffers.resize(1);
  p.methods[0].inputs.resize(1);
  p.methods[0].outputs.clear();
  p.methods[0].steps = {{0, {}, 0, {0}}};
  KernelBuilder k({6});
  Ex x = k.number(0.0, Scalar::f32);
  const TensorType type{DType::f32, {6}};
  for (size_t i = 0; i < n; ++i) {
    x = x + k.load_flat(k.input(type));
    p.methods[0].steps[0].buffers.push_back(0);
  }
  k.store_flat(k.output(type), x);
  p.kernels = {k.finish("many")};
  p.buffers.push_back(
      {.name = "y", .kind = BufferKind::output, .type = {DType::f32, {2, 3}}, .stored = {}, .fqn = {}, .tied = {}});
  p.methods[0].outputs = {{"y", {DType::f32, {2, 3}}, 1}};
  p.methods[0].steps[0].buffers.push_back(1);
  return p;
}
// Many buffers in the arena, half of them alive to the end.
Program with_buffers(size_t n) {
  Program p = with_arguments(1);
  const TensorType type{DType::f32, {2, 3}};
  Method& main = p.methods[0];
  main.steps.clear();
  int32_t last = 0;
  for (size_t i = 0; i < n; ++i) {
    p.buffers.push_back({.name = "v", .type = type, .stored = {}, .offset = 64 * i, .fqn = {}, .tied = {}});
    main.steps.push_back({0, {last, static_cast<int32_t>(i) + 2}, 0, {0}});
    last = static_cast<int32_t>(i) + 2;
  }
  main.steps.push_back({0, {last, 1}, 0, {0}});
  for (size_t i = 0; i < n; i += 2) main.steps.push_back({0, {static_cast<int32_t>(i) + 2, 1}, 0, {0}});
  main.arenas[0].bytes = 64 * n;
  return p;
}

TEST(Readers, Programs) {
  const auto read = [](Program (*make)(size_t)) {
    return [make](size_t n) {
      const Program made = make(n);
      return [file = serialize(made)] {
        const Program p = deserialize(file, "p");
        describe(p, true), describe_steps(p, false);
      };
    };
  };
  ASSERT_EQ(check_program(with_arguments(3)), std::vector<std::string>{});
  ASSERT_EQ(check_program(with_buffers(9)), std::vector<std::string>{});
  expect_linear("steps", 5000, read(with_steps));
  expect_linear("arguments", 1500, read(with_arguments));
  expect_linear("buffers", 5000, read(with_buffers));
  expect_linear("strings", 50'000, [](size_t n) {
    Program p = sample_program();
    p.buffers[3].tied.assign(n, "t");
    return [file = serialize(p)] { deserialize(file, "p"); };
  });
}

// Each expression the sum of the last one with itself: as a tree there were 2^n.
Kernel doubled(size_t n) {
  KernelBuilder k({6});
  Ex x = k.load_flat(k.input({DType::f32, {6}}));
  for (size_t i = 0; i < n; ++i) x = x + x;
  k.store_flat(k.output({DType::f32, {6}}), x);
  return k.finish("doubled");
}

TEST(Readers, ExpressionsThatManyUse) {
  Program p = with_arguments(1);
  p.kernels = {doubled(5000)};
  EXPECT_LT(seconds_of([&] { hostile::run_program(*parse_program(serialize(p), "p")); }), most_seconds);
  EXPECT_LT(seconds_of([&] { recompile(p); }), most_seconds);
}

// Steps that share a kernel take no time of its size.
TEST(Readers, RecompiledSteps) {
  expect_linear("steps of one kernel", 2000, [](size_t n) {
    Program p = with_arguments(1);
    p.kernels = {doubled(n)};
    p.methods[0].steps.assign(n, Step{p.methods[0].steps[0]});
    return [p] { recompile(p); };
  });
}

Kernel sum_kernel(const TensorType& type) {
  KernelBuilder k({element_count(type.shape)});
  const Ex sum = k.load_flat(k.input(type)) + k.load_flat(k.input(type));
  k.store_flat(k.output(type), sum);
  return k.finish("sum");
}
// n methods, each of one step that reads what one of n recipes prepares: from a constant, or from a weight and the
// recipe before it.
Program with_recipes(size_t n, bool chained) {
  const TensorType type{DType::f32, {4}};
  Program p;
  p.devices.resize(1);
  p.devices[0].target = p.devices[0].config.name = "cpu";
  p.constants = {make_tensor(type)};
  p.kernels = {copy_kernel(type, 2), sum_kernel(type)};
  const auto buffer = [&](const std::string& name, BufferKind kind) {
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
    return static_cast<int32_t>(p.buffers.size()) - 1;
  };
  int32_t last = buffer("c", BufferKind::constant);
  const int32_t x = buffer("x", BufferKind::input), y = buffer("y", BufferKind::output);
  p.buffers[0].constant = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t prepared = buffer(fmt::format("p{}", i), BufferKind::prepared);
    if (chained) {
      const int32_t weight = buffer(fmt::format("w{}", i), BufferKind::weight);
      p.buffers.back().fqn = fmt::format("layers.{}.weight", i);
      p.recipes.steps.push_back({1, {last, weight, prepared}, 0, {}});
    } else {
      p.recipes.steps.push_back({0, {0, prepared}, 0, {}});
    }
    last = prepared;
    Method& method = p.methods.emplace_back();
    method.name = fmt::format("m{}", i);
    method.inputs = {{"x", type, x}};
    method.outputs = {{"y", type, y}};
    method.steps = {{1, {x, prepared, y}, 0, {}}};
    method.arenas.resize(1);
  }
  return p;
}

TEST(Readers, RecipesOfManyMethods) {
  ASSERT_EQ(check_program(with_recipes(9, true)), std::vector<std::string>{});
  for (const bool chained : {false, true})
    expect_linear(chained ? "a chain of recipes" : "recipes", 2000, [chained](size_t n) {
      const Program p = with_recipes(n, chained);
      return [p] { describe(p, true), weights_read(p), method_steps(p, p.methods.back().name); };
    });
  EXPECT_EQ(weights_read(with_recipes(300, true)).size(), 300u);
  expect_linear("recipes that are compiled", 500, [](size_t n) {
    const Program p = with_recipes(n, false);
    return [p] { recompile(p); };
  });
  // Every method's graph would have all recipes before its own.
  EXPECT_THROW(recompile(with_recipes(2000, true)), Error);
}

// n steps of one kernel of n expressions, in one method or in one each: what is found of a kernel is found once.
Program with_steps(size_t n, size_t methods) {
  const TensorType type{DType::f32, {1}};
  KernelBuilder k({1});
  const Ex first = k.load_flat(k.input(type));
  Ex x = first;
  for (size_t i = 0; i < n; ++i) x = x + first;
  k.store_flat(k.output(type), x);
  Program p;
  p.devices.resize(1);
  p.devices[0].target = p.devices[0].config.name = "cpu";
  p.kernels = {k.finish("long")};
  for (const auto& [name, kind] : {std::pair("x", BufferKind::input), std::pair("y", BufferKind::output)})
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  for (size_t m = 0; m < methods; ++m) {
    Method& method = p.methods.emplace_back();
    method.name = fmt::format("m{}", m);
    method.inputs = {{"x", type, 0}};
    method.outputs = {{"y", type, 1}};
    method.steps.assign(n / methods, {0, {0, 1}, 0, {}});
    method.arenas.resize(1);
  }
  return p;
}

TEST(Readers, StepsOfOneKernel) {
  ASSERT_EQ(check_program(with_steps(9, 3)), std::vector<std::string>{});
  for (const size_t methods : {1, 500}) {
    const std::string of = fmt::format("steps of one kernel in {} methods: ", methods);
    const auto with = [&](const char* what, const std::function<void(const std::shared_ptr<const Program>&)>& use) {
      expect_linear(of + what, 2000, [&](size_t n) {
        return [p = std::make_shared<const Program>(with_steps(n, methods)), use] { use(p); };
      });
    };
    with("described", [](const auto& p) { describe(*p, false), describe_partition(*p, true), partition_picture(*p); });
    with("listed", [](const auto& p) { method_steps(*p, "m0"), method_work(*p, "m0"); });
    with("opened", [](const auto& p) { Session session(p); });
  }
}

// ---- text

std::string tokenizer_of(const std::string& added, const std::string& pattern = R"(\\s+)") {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [], "unk_token": "a"}, "added_tokens": [)" +
         added +
         R"(], "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" +
         pattern +
         R"("}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}]}, "decoder": {"type": "ByteLevel"}})";
}
std::string added(size_t id, const std::string& content, const std::string& flags = "") {
  return fmt::format(R"({{"id": {}, "content": "{}", "special": true{}}})", id, content, flags);
}

TEST(Readers, Tokenizers) {
  expect_linear("added tokens", 10'000, [](size_t n) {
    return [text = tokenizer_of(joined(n, ",", [](size_t i) { return added(i + 2, fmt::format("<{}>", i)); }))] {
      parse_tokenizer(text, "t");
    };
  });
  EXPECT_THROW(parse_tokenizer(tokenizer_of(added(2, std::string(5000, 'a'))), "t"), Error);
  const auto encoding = [](const std::string& tokenizer, const std::string& piece) {
    return [made = std::make_shared<Tokenizer>(parse_tokenizer(tokenizer, "t")), piece](size_t n) {
      std::string text;
      while (text.size() < n) text += piece;
      return [made, text] {
        try {
          encode(*made, text, false);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
        }
      };
    };
  };
  const std::string long_one = tokenizer_of(added(2, std::string(255, 'a') + "b"));
  expect_linear("a long token that never ends", 100'000, encoding(long_one, "a"));
  const std::string stripped = tokenizer_of(added(2, " ", R"(, "rstrip": true, "lstrip": true)"));
  expect_linear("white space behind tokens", 50'000, encoding(stripped, " "));
  for (const char* pattern : {R"((a*)*[bc])", R"(a*+b)", R"((?>a*)[^a])", R"(a*a*a*[bc])", R"((?:a{100}|c)b)",
                              R"((?=a*+c)a)", R"((?:a|aa)+$b)", R"(\\s+(?!\\S)|\\s+)"})
    expect_linear(pattern, 20'000, encoding(tokenizer_of("", pattern), "a"));
}

}  // namespace
}  // namespace npusim
