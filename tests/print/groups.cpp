// The samples of groups.
#include "groups.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "kernel/fuse/unfuse.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f32 = DType::f32, f16 = DType::f16, i64 = DType::i64;

int add_memory(GroupSample& s, DType dtype, int64_t elements, bool shared = false) {
  s.group.memories.push_back({dtype, elements, shared});
  return static_cast<int>(s.group.memories.size()) - 1;
}

void add_part(GroupSample& s, Kernel kernel, RowLoop row, std::vector<int> memory) {
  s.kernels.push_back(std::make_shared<const Kernel>(std::move(kernel)));
  s.group.parts.push_back({s.kernels.back().get(), {row, 128}, std::move(memory)});
}

Kernel rms_norm(int64_t rows, int64_t length) {
  K k({rows, length}, 1);
  const int x = k.input({f32, {rows, length}}), out = k.output({f16, {rows, length}});
  const Ex v = k.load_broadcast(x);
  const Ex mean = k.reduce(Reduction::sum, v * v) / static_cast<double>(length);
  k.store(out, v * k.unary(ExprOp::rsqrt, mean + 1e-5));
  return k.finish("rms_norm");
}

Kernel product(int64_t rows, int64_t length, int64_t columns) {
  K k({rows, columns, length}, 1);
  const int a = k.input({f16, {rows, length}}), b = k.input({f32, {columns, length}}),
            out = k.output({f32, {rows, columns}});
  const Coord a_at[] = {k.dim(0), k.dim(2)}, b_at[] = {k.dim(1), k.dim(2)};
  k.store(out, k.reduce(Reduction::sum, k.load(a, a_at) * k.load(b, b_at)));
  return k.finish("product");
}

Kernel pointwise(int64_t n, double factor, bool in_place) {
  K k({n});
  const int x = k.input({f32, {n}});
  const int out = k.output({f32, {n}}, in_place ? x : -1);
  k.store(out, k.load_broadcast(x) * factor);
  return k.finish("scale");
}

GroupSample norm_product() {
  GroupSample s{.name = "group_norm_product"};
  const int x = add_memory(s, f32, 1800), h = add_memory(s, f16, 1800, true), w = add_memory(s, f32, 4800),
            y = add_memory(s, f32, 24), z = add_memory(s, f32, 24);
  add_part(s, rms_norm(3, 600), RowLoop::block, {x, h});
  add_part(s, product(3, 600, 8), RowLoop::warp, {h, w, y});
  add_part(s, pointwise(24, 0.5, false), RowLoop::none, {y, z});
  s.inputs = {x, w}, s.outputs = {y, z};
  return s;
}

// Rows of one block each, twice: what a block shares is used again by the next one.
GroupSample many_rows() {
  GroupSample s{.name = "group_many_rows"};
  const int x = add_memory(s, f32, 9 * 300), h = add_memory(s, f16, 9 * 300), w = add_memory(s, f32, 5 * 300),
            y = add_memory(s, f32, 45, true), z = add_memory(s, f32, 45);
  add_part(s, rms_norm(9, 300), RowLoop::block, {x, h});
  add_part(s, product(9, 300, 5), RowLoop::block, {h, w, y});
  add_part(s, pointwise(45, 3, true), RowLoop::none, {y, y});
  add_part(s, pointwise(45, 2, false), RowLoop::none, {y, z});
  s.inputs = {x, w}, s.outputs = {h, z};
  return s;
}

// softmax(q·kᵀ)·v of q [6, 16], k and v [70, 16].
GroupSample attention() {
  constexpr int64_t queries = 6, keys = 70, size = 16;
  auto score = std::make_shared<Score>();
  score->space = {queries, keys};
  score->reduce = {size};
  score->a = {.arg = 0, .offset = 0, .strides = {size, 0, 1}, .guards = {}, .terms = {}};
  score->b = {.arg = 1, .offset = 0, .strides = {0, size, 1}, .guards = {}, .terms = {}};
  score->exprs = {{.op = ExprOp::contraction}};
  score->result = 0;
  Kernel kernel;
  kernel.name = "attention";
  kernel.space = {queries, size};
  kernel.args = {{f32, queries * size, false, -1},
                 {f32, keys * size, false, -1},
                 {f32, keys * size, false, -1},
                 {f32, queries * size, true, -1}};
  Contraction whole;
  whole.kind = ContractionKind::attention;
  whole.reduce = {keys};
  whole.b = {.arg = 2, .offset = 0, .strides = {0, 1, size}, .guards = {}, .terms = {}};
  whole.score = score;
  kernel.contraction = std::make_shared<const Contraction>(whole);
  kernel.exprs = {{.op = ExprOp::contraction}};
  kernel.stores = {{.access = {.arg = 3, .offset = 0, .strides = {size, 1}, .guards = {}, .terms = {}}, .expr = 0}};

  GroupSample s{.name = "group_attention"};
  for (const KernelArg& arg : kernel.args) add_memory(s, arg.dtype, arg.elements);
  const Unfused unfused = unfuse(kernel);
  for (const Unfused::Scratch& m : unfused.scratch) add_memory(s, m.dtype, m.elements, true);
  const RowLoop rows[] = {RowLoop::thread, RowLoop::warp, RowLoop::thread};
  for (size_t i = 0; i < unfused.steps.size(); ++i)
    add_part(s, unfused.steps[i].kernel, rows[i], unfused.steps[i].values);
  s.inputs = {0, 1, 2}, s.outputs = {3};
  return s;
}

// Rows of a table, then quotients: an index of 4 and a divisor of 0 are errors.
GroupSample traps() {
  GroupSample s{.name = "group_traps"};
  const int table = add_memory(s, f32, 20), ids = add_memory(s, i64, 6), rows = add_memory(s, f32, 30),
            by = add_memory(s, i64, 6), out = add_memory(s, i64, 6);
  K lookup({6, 5});
  const int t = lookup.input({f32, {4, 5}}), i = lookup.input({i64, {6}}), o = lookup.output({f32, {6, 5}});
  const Coord id_at[] = {lookup.dim(0)};
  const Coord at[] = {Coord(lookup.load(i, id_at)), lookup.dim(1)};
  lookup.store(o, lookup.load(t, at));
  add_part(s, lookup.finish("lookup"), RowLoop::none, {table, ids, rows});
  K divide({6});
  const int a = divide.input({i64, {6}}), b = divide.input({i64, {6}}), q = divide.output({i64, {6}});
  divide.store(q, divide.binary(ExprOp::idiv, divide.load_broadcast(a), divide.load_broadcast(b)));
  add_part(s, divide.finish("divide"), RowLoop::none, {ids, by, out});
  s.inputs = {table, ids, by}, s.outputs = {rows, out};
  return s;
}

}  // namespace

std::vector<GroupSample> group_samples() { return {norm_product(), many_rows(), attention(), traps()}; }

std::vector<HostTensor> group_memory(const GroupSample& sample) {
  std::mt19937_64 random(7);
  std::vector<HostTensor> memory;
  for (const KernelGroup::Memory& m : sample.group.memories) {
    memory.push_back(make_tensor({m.dtype, {m.elements}}));
    std::fill(memory.back().data.begin(), memory.back().data.end(), std::byte{0xff});
  }
  for (int m : sample.inputs) {
    HostTensor& t = memory[static_cast<size_t>(m)];
    std::uniform_real_distribution<double> real(-1, 1);
    std::uniform_int_distribution<int64_t> whole(1, sample.integers - 1);
    for (int64_t i = 0; i < t.type.shape[0]; ++i) {
      if (is_float(t.type.dtype))
        store_double(t.data.data(), t.type.dtype, i, real(random));
      else
        store_int(t.data.data(), t.type.dtype, i, whole(random));
    }
  }
  return memory;
}

std::vector<HostTensor> group_reference(const GroupSample& sample) {
  std::vector<HostTensor> memory = group_memory(sample);
  for (const KernelGroup::Part& part : sample.group.parts) {
    std::vector<void*> args;
    for (int m : part.memory) args.push_back(memory[static_cast<size_t>(m)].data.data());
    evaluate(*part.kernel, args);
  }
  return memory;
}

std::string group_difference(const GroupSample& sample, const std::vector<HostTensor>& expected,
                             const std::vector<HostTensor>& found) {
  for (int m : sample.outputs) {
    const HostTensor &a = expected[static_cast<size_t>(m)], &b = found[static_cast<size_t>(m)];
    const double allowed = a.type.dtype == f16 ? 0x1p-9 : is_float(a.type.dtype) ? 0x1p-18 : 0;
    for (int64_t i = 0; i < a.type.shape[0]; ++i) {
      const double x = load_double(a.data.data(), a.type.dtype, i), y = load_double(b.data.data(), b.type.dtype, i);
      if (!(std::fabs(x - y) <= allowed * std::max(1.0, std::fabs(x))))
        return fmt::format("{}: memory {} element {}: expected {}, found {}", sample.name, m, i, x, y);
    }
  }
  return {};
}

}  // namespace npusim
