// A program with every kind of buffer, a recipe, an attention, a state that two methods share, and a link.
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

// q [2, 4], k and v [8, 4]: softmax(q·kᵀ)·v.
inline Kernel attention_kernel() {
  auto score = std::make_shared<Kernel>();
  score->space = {2, 8};
  Contraction product;
  product.reduce = {4};
  product.a = {.arg = 0, .offset = 0, .strides = {4, 0, 1}, .guards = {}, .terms = {}};
  product.b = {.arg = 1, .offset = 0, .strides = {0, 4, 1}, .guards = {}, .terms = {}};
  score->contraction = std::make_shared<const Contraction>(product);
  score->exprs = {{.op = ExprOp::contraction}};
  score->stores = {{.access = {}, .expr = 0}};
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
  p.target = "cpu";
  p.config.name = "cpu";
  p.toolchain = "none";
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
  p.buffers[static_cast<size_t>(mixed)].offset = 64;
  p.kernels = {update_kernel(state), attention_kernel(), copy_kernel(rows, std::numeric_limits<double>::quiet_NaN()),
               copy_kernel(state, 0.1)};
  p.recipes = {{3, {weight, ready}, "scale"}};
  Method decode;
  decode.name = "decode";
  decode.inputs = {{"x", row, x}, {"position", position, at}, {"cache", state, cache}};
  decode.outputs = {{"y", rows, y}, {"cache_out", state, cache}};
  decode.steps = {{0, {cache, x, at, cache}, "index_copy"},
                  {1, {queries, cache, ready, mixed}, "attention"},
                  {2, {mixed, y}, "mul"}};
  decode.arena_bytes = 96;
  decode.arena_lower_bound_bytes = 32;
  decode.nodes = 5;
  decode.fusions = {{"attention", 1}};
  decode.materialized = {{"expand", 0}};
  Method prefill;
  prefill.name = "prefill";
  prefill.inputs = {{"given", rows, given}};
  prefill.outputs = {{"filled", rows, filled}};
  prefill.steps = {{2, {given, filled}, "copy"}};
  p.methods = {prefill, decode};
  p.links = {{"prefill", "filled", "decode", "cache"}};
  return p;
}

}  // namespace npusim
