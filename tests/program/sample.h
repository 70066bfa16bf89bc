// A program with every kind of buffer, a recipe, an attention, and a state that one method
// updates and another fills.
#pragma once
#include <limits>

#include "kernel/builder.h"
#include "program/program.h"

namespace npusim {

inline Kernel copy_kernel(const TensorType& type, double factor) {
  KernelBuilder k({element_count(type.shape)});
  const int in = k.input(type);
  const Ex x = k.load_flat(in);
  const int out = k.output(type);
  k.store_flat(out, x * factor);
  return k.finish("scale");
}

inline Kernel update_kernel(const TensorType& state) {
  KernelBuilder k({1, state.shape[1]});
  const int old = k.input(state);
  const int row = k.input({state.dtype, {1, state.shape[1]}});
  const int position = k.input({DType::i64, {1}});
  const Coord from[] = {k.dim(0), k.dim(1)};
  const Coord first[] = {Coord(int64_t{0})};
  const Ex at = k.load(position, first);
  const Ex x = k.load(row, from);
  const int out = k.output(state, old);
  const Coord to[] = {Coord(at), Coord(k.dim(1))};
  k.store(out, to, x);
  return k.finish("update");
}

// The first rows of a state.
inline Kernel fill_kernel(const TensorType& rows, const TensorType& state) {
  KernelBuilder k(rows.shape);
  const int old = k.input(state);
  const Coord at[] = {k.dim(0), k.dim(1)};
  const Ex x = k.load(k.input(rows), at);
  k.store(k.output(state, old), at, x);
  return k.finish("fill");
}

// q [2, 4], k and v [8, 4]: softmax(q·kᵀ)·v.
inline Kernel attention_kernel() {
  auto score = std::make_shared<Score>();
  score->space = {2, 8};
  score->reduce = {4};
  score->a = {.arg = 0, .offset = 0, .strides = {4, 0, 1}, .guards = {}, .terms = {}};
  score->b = {.arg = 1, .offset = 0, .strides = {0, 4, 1}, .guards = {}, .terms = {}};
  score->exprs = {{.op = ExprOp::contraction}};
  score->result = 0;
  Kernel kernel;
  kernel.name = "attention";
  kernel.space = {2, 4};
  kernel.args = {
      {DType::f32, 8, false, -1}, {DType::f32, 32, false, -1}, {DType::f32, 32, false, -1}, {DType::f32, 8, true, -1}};
  Contraction attention;
  attention.kind = ContractionKind::attention;
  attention.reduce = {8};
  attention.b = {.arg = 2, .offset = 0, .strides = {0, 1, 4}, .guards = {}, .terms = {}};
  attention.score = score;
  kernel.contraction = std::make_shared<const Contraction>(attention);
  kernel.exprs = {{.op = ExprOp::contraction}};
  kernel.stores = {{.access = {.arg = 3, .offset = 0, .strides = {4, 1}, .guards = {}, .terms = {}}, .expr = 0}};
  return kernel;
}

inline Program sample_program() {
  const TensorType row{DType::f32, {1, 4}}, rows{DType::f32, {2, 4}}, state{DType::f32, {8, 4}},
      position{DType::i64, {1}};
  Program p;
  p.model = "sample";
  p.devices.resize(1);
  p.devices[0].target = p.devices[0].config.name = "cpu";
  HostTensor constant = make_tensor(rows);
  for (int i = 0; i < 8; ++i)
    store_double(constant.data.data(), DType::f32, i, i == 3 ? std::numeric_limits<double>::infinity() : i);
  p.constants = {constant};
  auto buffer = [&](std::string name, BufferKind kind, TensorType type) {
    p.buffers.push_back(
        {.name = std::move(name), .kind = kind, .type = std::move(type), .stored = {}, .fqn = {}, .tied = {}});
    return static_cast<int32_t>(p.buffers.size()) - 1;
  };
  const int32_t cache = buffer("cache", BufferKind::state, state), at = buffer("position", BufferKind::input, position);
  const int32_t x = buffer("x", BufferKind::input, row), weight = buffer("w", BufferKind::weight, state);
  const int32_t ready = buffer("w_scaled", BufferKind::prepared, state),
                queries = buffer("q", BufferKind::constant, rows);
  const int32_t mixed = buffer("mixed", BufferKind::arena, rows), y = buffer("y", BufferKind::output, rows);
  const int32_t given = buffer("given", BufferKind::input, rows), filled = buffer("filled", BufferKind::output, rows);
  p.buffers[static_cast<size_t>(weight)].fqn = "layer.weight";
  p.buffers[static_cast<size_t>(weight)].tied = {"other.weight"};
  p.buffers[static_cast<size_t>(queries)].constant = 0;
  p.buffers[static_cast<size_t>(ready)].finite_for = "conv_bn";
  p.buffers[static_cast<size_t>(mixed)].offset = 64;
  p.kernels = {update_kernel(state), attention_kernel(), copy_kernel(rows, std::numeric_limits<double>::quiet_NaN()),
               copy_kernel(state, 0.1), fill_kernel(rows, state)};
  p.origins = {{"given", "aten.copy.default"},
               {"scale", "aten.mul.Scalar"},
               {"index_copy", "aten.index_copy.default"},
               {"expand", "aten.expand.default"},
               {"attention", "aten.scaled_dot_product_attention.default"},
               {"mul", "aten.mul.Tensor"}};
  p.recipes.steps = {{3, {weight, ready}, 0, {1}}};
  Method decode;
  decode.name = "decode";
  decode.inputs = {{"x", row, x}, {"position", position, at}, {"cache", state, cache}};
  decode.outputs = {{"y", rows, y}, {"cache_out", state, cache}};
  decode.steps = {
      {0, {cache, x, at, cache}, 0, {2}}, {1, {queries, cache, ready, mixed}, 0, {3, 4}}, {2, {mixed, y}, 0, {5}}};
  decode.arenas = {{96, 32, 0}};
  decode.nodes = 5;
  decode.fusions = {{"attention", 1}};
  decode.materialized = {{"expand", 0}};
  Method prefill;
  prefill.name = "prefill";
  prefill.inputs = {{"given", rows, given}};
  prefill.outputs = {{"filled", rows, filled}, {"filled_cache", state, cache}};
  prefill.steps = {{2, {given, filled}, 0, {0}}, {4, {cache, filled, cache}, 0, {0}}};
  prefill.arenas.resize(1);
  prefill.nodes = 1;
  p.methods = {prefill, decode};
  return p;
}

// The same with the last step of decode on a second device, for which it is compiled ahead: two transfers, and a launch
// whose second kernel reads what lives within it.
inline Program split_program() {
  Program p = sample_program();
  const TensorType rows = p.buffers[6].type;
  p.devices.push_back({"toy", {}});
  p.devices[1].config.name = "toy";
  const auto first = static_cast<int32_t>(p.buffers.size());
  for (const BufferKind kind : {BufferKind::arena, BufferKind::local, BufferKind::arena})
    p.buffers.push_back({.name = "moved",
                         .kind = kind,
                         .type = rows,
                         .stored = {},
                         .offset = kind == BufferKind::arena
                                       ? static_cast<uint64_t>(32 * (p.buffers.size() - static_cast<size_t>(first)))
                                       : 0,
                         .fqn = {},
                         .tied = {},
                         .constant = -1,
                         .device = 1});
  const std::string text = "kernel void f() {}";
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  p.code = {{{"toy", "", {bytes, bytes + text.size()}}}};
  p.methods[1].declined = "a step of another device";
  Method& decode = p.methods[1];
  decode.steps.pop_back();
  decode.steps.push_back({-1, {6, first}, 1, {5}});
  decode.steps.push_back({2, {first, first + 1}, 1, {5}});
  decode.steps.push_back({2, {first + 1, first + 2}, 1, {5}});
  decode.steps.push_back({-1, {first + 2, 7}, 0, {5}});
  decode.launches = {{3, 2, 0, "f", {1, 1, 1}, {32, 1, 1}, {first, first + 2, trap_word}, {"an index is wrong"}}};
  decode.launches.back().declined = {{"tiles", "8 rows"}};
  decode.arenas.push_back({96, 32, 32});
  p.choices = {{"f", "a device", "a compiler 1.0", "as one block", "as two blocks", 0.25, 0.5}};
  p.methods[0].arenas.resize(2);
  return p;
}

// A method that is one call, with arguments of every kind.
inline Program call_program() {
  const TensorType type{DType::f32, {2, 3}};
  Program p;
  p.model = "call";
  p.devices = {{"cpu", {}}};
  p.devices[0].config.name = "cpu";
  for (const auto& [name, kind] :
       {std::pair<std::string, BufferKind>{"x", BufferKind::input}, {"y", BufferKind::output}})
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  Kernel kernel;
  kernel.name = "aten.fake_join.out_of";
  kernel.args = {{DType::f32, 6, false, -1}, {DType::f32, 6, true, -1}};
  kernel.call = std::make_shared<const Call>(Call{"aten.fake_join.out_of",
                                                  {{.kind = CallKind::tensors, .tensors = {0, -1, 1}},
                                                   {.kind = CallKind::integers, .integers = {3, -4}},
                                                   {.kind = CallKind::boolean, .integers = {1}},
                                                   {.kind = CallKind::text, .text = "plain"},
                                                   {.kind = CallKind::dtype, .text = "float32"},
                                                   {.kind = CallKind::reals, .reals = {2.5, -0.5}},
                                                   {}},
                                                  {{0, {2, 3}}, {0, {6}}},
                                                  {{1, {3, 2}}}});
  p.kernels = {kernel};
  p.origins = {{"join", "aten.fake_join.out_of"}};
  Method main;
  main.name = "main";
  main.inputs = {{"x", type, 0}};
  main.outputs = {{"y", type, 1}};
  main.steps = {{0, {0, 1}, 0, {0}}};
  main.arenas.resize(1);
  main.nodes = 1;
  p.methods = {main};
  return p;
}

// One that orders rows of x, keeps the first two places of each, and at these multiplies what is there: z starts as w.
inline Program order_program() {
  const TensorType x{DType::f16, {3, 5}}, w{DType::i32, {5}}, first{DType::i64, {3, 2}};
  Program p;
  p.model = "order";
  p.devices = {{"cpu", {}}};
  p.devices[0].config.name = "cpu";
  const auto buffer = [&](const char* name, BufferKind kind, const TensorType& type) {
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  };
  buffer("x", BufferKind::input, x);
  buffer("z", BufferKind::state, w);
  buffer("first", BufferKind::output, first);
  KernelBuilder order({3, 5}, 1);
  const Coord at[] = {order.dim(0), order.dim(1)};
  const Ex element = order.load(order.input(x), at);
  order.store(order.output(first), at, order.order(element, true));
  KernelBuilder combine({3, 2});
  const int before = combine.input(w);
  const Coord place[] = {combine.load_broadcast(combine.input(first))};
  combine.store(combine.output(w, before), place, combine.index(1), Reduction::product);
  p.kernels = {order.finish("order"), combine.finish("combine")};
  p.origins = {{"topk", "aten.topk.default"}, {"combine", "aten.scatter_reduce.two"}};
  Method main;
  main.name = "main";
  main.inputs = {{"x", x, 0}, {"z", w, 1}};
  main.outputs = {{"first", first, 2}, {"z", w, 1}};
  main.steps = {{0, {0, 2}, 0, {0}}, {1, {1, 2, 1}, 0, {1}}};
  main.arenas.resize(1);
  main.nodes = 2;
  p.methods = {main};
  return p;
}

// A text's: states [8, 4] have at each position a token, as four numbers, and the logits are those of one. One method
// takes one token, one two, and one the token that it left itself.
inline Program text_program() {
  const TensorType cache{DType::f32, {8, 4}}, one{DType::i64, {1, 1}}, two{DType::i64, {1, 2}}, at{DType::i64, {1}},
      logits{DType::f32, {1, 1, 4}};
  Program p;
  p.model = "text";
  p.devices = {{"cpu", {}}};
  p.devices[0].config.name = "cpu";
  const auto buffer = [&](const char* name, BufferKind kind, const TensorType& type) {
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  };
  buffer("cache", BufferKind::state, cache), buffer("token", BufferKind::state, one);
  buffer("position", BufferKind::state, at), buffer("input_ids", BufferKind::input, one);
  buffer("cache_position", BufferKind::input, at), buffer("prompt", BufferKind::input, two);
  for (int i = 0; i < 3; ++i) buffer("logits", BufferKind::output, logits);
  p.buffers[0].kept = true;
  const std::array first = {Coord(int64_t{0})};
  const std::array firsts = {Coord(int64_t{0}), Coord(int64_t{0})};
  KernelBuilder keep({1, 4}), fill({2, 4}), show({1, 1, 4}), next({1});
  {
    const int old = keep.input(cache);
    const Ex token = keep.cast(keep.load(keep.input(one), firsts), Scalar::f32);
    const std::array to = {Coord(keep.load(keep.input(at), first)), Coord(keep.dim(1))};
    keep.store(keep.output(cache, old), to, token);
  }
  {
    const int old = fill.input(cache);
    const std::array from = {Coord(int64_t{0}), Coord(fill.dim(0))}, to = {Coord(fill.dim(0)), Coord(fill.dim(1))};
    const Ex token = fill.cast(fill.load(fill.input(two), from), Scalar::f32);
    fill.store(fill.output(cache, old), to, token);
  }
  const std::array row = {Coord(int64_t{0}), Coord(show.dim(2))};
  const Ex shown = show.load(show.input(cache), row);
  show.store(show.output(logits), shown);
  const int old = next.input(one);
  next.store_flat(next.output(one, old), next.load_flat(old) + 1);
  p.kernels = {keep.finish("keep"), fill.finish("fill"), show.finish("show"), next.finish("next")};
  p.origins.assign(3, {"text", "aten.copy.default"});
  const TensorSpec state{"cache", cache, 0}, after{"cache_next", cache, 0};
  const auto logits_at = [&](int32_t at) { return TensorSpec{"logits", logits, at, Role::logits}; };
  Method read, decode, greedy;
  read.name = "read", decode.name = "decode", greedy.name = "greedy";
  read.inputs = {{"prompt", two, 5, Role::tokens}};
  read.outputs = {logits_at(6), after};
  read.steps = {{1, {0, 5, 0}, 0, {0}}, {2, {0, 6}, 0, {0}}};
  decode.inputs = {{"input_ids", one, 3, Role::tokens}, {"cache_position", at, 4, Role::positions}, state};
  decode.outputs = {logits_at(7), after};
  decode.steps = {{0, {0, 3, 4, 0}, 0, {1}}, {2, {0, 7}, 0, {1}}};
  greedy.inputs = {{"input_ids", one, 1, Role::tokens}, {"cache_position", at, 2, Role::positions}, state};
  greedy.outputs = {logits_at(8), after, {"token", one, 1, Role::tokens}, {"position", at, 2, Role::positions}};
  greedy.steps = {{0, {0, 1, 2, 0}, 0, {2}}, {2, {0, 8}, 0, {2}}, {3, {1, 1}, 0, {2}}};
  p.methods = {read, decode, greedy};
  for (Method& m : p.methods) m.arenas.resize(1), m.nodes = 1;
  p.text = {1, {0}, 2, -1, -1, 1, 4, 8, true, {}};
  return p;
}

}  // namespace npusim
