// Small products where their matrices lie: every tile, columns that end within a vector, layouts, types and ends.
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/allocations.h"
#include "backends/cpu/product/check.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

std::string described(const Kernel& kernel) { return prepare(kernel, {}, make_context(2)).step->describe(); }

// A matrix, with its axes in order or transposed, in rows that are longer by a gap, from the gap's middle on; or one
// for all products.
struct Layout {
  bool transposed = false, shared = false;
  int64_t gap = 0;
};
struct Case {
  int64_t batches, m, n, k;
  DType a = DType::f32, b = DType::f32, out = DType::f32;
  Layout at_a = {}, at_b = {}, at_out = {};
};
int matrices(KernelBuilder& b, const Case& c, DType type, const Layout& at, int64_t rows, int64_t columns,
             bool writes) {
  const int64_t outer = at.transposed ? columns : rows, inner = (at.transposed ? rows : columns) + at.gap;
  Shape shape{outer, inner};
  if (!at.shared) shape.insert(shape.begin(), c.batches);
  return writes ? b.output({type, shape}) : b.input({type, shape});
}
Coords coords_of(KernelBuilder& b, const Layout& at, int row, int column) {
  Coords coords;
  if (!at.shared) coords.emplace_back(b.dim(0));
  coords.emplace_back(b.dim(at.transposed ? column : row));
  coords.emplace_back(b.dim(at.transposed ? row : column) + at.gap / 2);
  return coords;
}
// f(builder, leaf, bias, residual) of [batches, m, k] times [batches, k, n]; its bias may be one for all or one for
// each product.
template <typename Epilogue>
Kernel products(const Case& c, Epilogue&& epilogue, bool biases = false) {
  KernelBuilder b({c.batches, c.m, c.n});
  const int x = matrices(b, c, c.a, c.at_a, c.m, c.k, false), w = matrices(b, c, c.b, c.at_b, c.k, c.n, false),
            bias = b.input({DType::f32, biases ? Shape{c.batches, 1, c.n} : Shape{c.n}}),
            rest = b.input({c.out, {c.batches, c.m, c.n}}), out = matrices(b, c, c.out, c.at_out, c.m, c.n, true);
  Ex leaf = b.contract(ContractionKind::matmul, {c.k}, x, coords_of(b, c.at_a, 1, 3), w, coords_of(b, c.at_b, 3, 2));
  b.store(out, coords_of(b, c.at_out, 1, 2), epilogue(b, leaf, b.load_broadcast(bias), b.load_broadcast(rest)));
  return b.finish("products");
}
Ex nothing(KernelBuilder&, Ex leaf, Ex, Ex) { return leaf; }

// Smaller ones are multiplied side by side.
void check_in_place(const Kernel& kernel, bool epilogue = false) {
  const std::string step = described(kernel);
  const auto says = [&](const char* words) { return step.find(words) != std::string::npos; };
  ASSERT_TRUE(says("in place") || says("packed times packed") || says("side by side")) << step;
  ASSERT_EQ(says("epilogue"), epilogue) << step;
  check_contraction(kernel);
}

// Rows of every tile, and columns at, below and above whole vectors.
TEST(ContractionMatricesInPlace, Sizes) {
  for (int64_t m = 5; m <= 26; ++m)
    for (int64_t n : {15, 17, 33, 64, 79}) check_in_place(products({2, m, n, 9 + m}, nothing));
  for (int64_t m : {33, 65, 130})
    for (int64_t n : {1, 5, 7, 16, 31, 47, 63, 130})
      for (int64_t k : {2, 3, 17, 130}) {
        if (n < 5 || m * n * k > 400000) continue;
        check_in_place(products({2, m, n, k}, nothing));
        if (::testing::Test::HasFatalFailure()) return;
      }
  // One product, shared by threads; fewer products than threads; more than a share of each.
  check_in_place(products({1, 40, 33, 20}, nothing));
  check_in_place(products({3, 70, 33, 20}, nothing));
  check_in_place(products({129, 33, 31, 17}, nothing));
}

TEST(ContractionMatricesInPlace, Layouts) {
  for (bool a_turned : {false, true})
    for (bool b_turned : {false, true})
      for (int64_t gap : {0, 5}) {
        Case c{5, 23, 37, 19};
        c.at_a = {a_turned, false, gap}, c.at_b = {b_turned, false, gap}, c.at_out = {false, false, gap};
        check_in_place(products(c, nothing));
        c.at_b.shared = true;
        check_contraction(products(c, nothing));
        c.at_a.shared = true, c.at_b.shared = false;
        check_contraction(products(c, nothing));
        c.at_a.shared = false, c.at_out.transposed = true;
        check_contraction(products(c, nothing));
        if (::testing::Test::HasFatalFailure()) return;
      }
  // Rows that share cache sets; columns of a transposed matrix that are few next to a vector, at a short depth.
  Case far{3, 30, 20, 24};
  far.at_a.gap = 1000;
  check_in_place(products(far, nothing));
  for (int64_t n : {6, 18, 21, 31})
    for (int64_t k : {2, 3, 5, 30}) {
      Case c{3, 40, n, k};
      c.at_b.transposed = true;
      check_in_place(products(c, nothing));
    }
  // Batches of two dimensions in another order, as heads lie.
  KernelBuilder b({3, 4, 21, 35});
  const int x = b.input({DType::f32, {3, 21, 4, 18}}), w = b.input({DType::f32, {3, 35, 4, 18}}),
            out = b.output({DType::f32, {3, 21, 4, 35}});
  b.store(out, Coords{b.dim(0), b.dim(2), b.dim(1), b.dim(3)},
          b.contract(ContractionKind::matmul, {18}, x, Coords{b.dim(0), b.dim(2), b.dim(1), b.dim(4)}, w,
                     Coords{b.dim(0), b.dim(3), b.dim(1), b.dim(4)}));
  check_in_place(b.finish("heads"));
}

TEST(ContractionMatricesInPlace, Types) {
  for (DType a : {DType::f32, DType::f16, DType::bf16})
    for (DType b : {DType::f32, DType::f16, DType::bf16})
      for (DType out : {DType::f32, DType::f16, DType::bf16})
        for (bool transposed : {false, true}) {
          Case c{2, 13, 21, 9, a, b, out};
          c.at_a.transposed = c.at_b.transposed = transposed;
          check_in_place(products(c, nothing));
          check_in_place(products(c, [](KernelBuilder&, Ex x, Ex bias, Ex rest) { return x + bias + rest; }));
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(ContractionMatricesInPlace, Ends) {
  using End = std::function<Ex(KernelBuilder&, Ex, Ex, Ex)>;
  const End in_registers[] = {
      [](KernelBuilder&, Ex x, Ex bias, Ex) { return x + bias; },
      [](KernelBuilder&, Ex x, Ex, Ex rest) { return x + rest; },
      [](KernelBuilder&, Ex x, Ex, Ex) { return max(x, 0.0); },
      [](KernelBuilder&, Ex x, Ex bias, Ex) { return tanh(x + bias); },
      [](KernelBuilder&, Ex x, Ex bias, Ex rest) { return min(max(x + bias + rest, -1.0), 6.0); },
      [](KernelBuilder&, Ex x, Ex, Ex rest) { return x / (1.0 + exp(-x)) + rest; },
  };
  for (const End& end : in_registers)
    for (int64_t n : {7, 32, 45})
      for (bool biases : {false, true}) {
        check_in_place(products({3, 29, n, 11}, end, biases));
        if (::testing::Test::HasFatalFailure()) return;
      }
  check_in_place(products({3, 29, 31, 11}, [](KernelBuilder&, Ex x, Ex bias, Ex) { return x * 0.5 + bias; }), true);
  check_in_place(products({3, 29, 31, 11}, [](KernelBuilder&, Ex x, Ex, Ex rest) { return x * rest; }), true);
  // A residual of another type than the output's.
  KernelBuilder b({3, 20, 31});
  const int x = b.input({DType::f32, {3, 20, 8}}), w = b.input({DType::f32, {3, 8, 31}}),
            rest = b.input({DType::f16, {3, 20, 31}}), out = b.output({DType::f32, {3, 20, 31}});
  Ex leaf = b.contract(ContractionKind::matmul, {8}, x, Coords{b.dim(0), b.dim(1), b.dim(3)}, w,
                       Coords{b.dim(0), b.dim(3), b.dim(2)});
  b.store(out, leaf + b.load_broadcast(rest));
  check_in_place(b.finish("residual"), true);
}

TEST(ContractionMatricesInPlace, KeepsSpecialValues) {
  for (double special : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    check_contraction(products({2, 21, 31, 9}, [](KernelBuilder&, Ex x, Ex, Ex) { return max(x, 0.0); }), {},
                      [&](ContractionRun& run) { store_double(run.memory[0].data(), DType::f32, 30, special); });
}

// Memory whose last element is the last of a page, behind which nothing may be touched.
class LastOfPages {
 public:
  explicit LastOfPages(const std::vector<std::byte>& from, size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    whole_ = (bytes + page - 1) / page * page;
    pages_ = static_cast<std::byte*>(
        mmap(nullptr, whole_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(pages_ + whole_, page, PROT_NONE);
    all_ = whole_ + page, data_ = pages_ + whole_ - bytes;
    std::memcpy(data_, from.data(), bytes);
  }
  ~LastOfPages() { munmap(pages_, all_); }
  LastOfPages(const LastOfPages&) = delete;
  LastOfPages& operator=(const LastOfPages&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte *pages_ = nullptr, *data_ = nullptr;
  size_t whole_ = 0, all_ = 0;
};

TEST(ContractionMatricesInPlace, TouchesNothingBehindItsMatrices) {
  for (bool transposed : {false, true})
    for (DType type : {DType::f32, DType::bf16})
      for (int64_t n : {5, 15, 33}) {
        Case c{3, 26, n, 13, type, type, type};
        c.at_a.transposed = c.at_b.transposed = transposed;
        const Kernel kernel = products(c, [](KernelBuilder&, Ex x, Ex bias, Ex rest) { return x + bias + rest; });
        on_every_instruction_set([&] {
          const Context context = make_context(1);
          ContractionRun run = prepare(kernel, {}, context);
          run.step->run();
          std::vector<std::unique_ptr<LastOfPages>> memory;
          std::vector<Binding> bindings;
          for (size_t i = 0; i < kernel.args.size(); ++i) {
            const size_t bytes = static_cast<size_t>(kernel.args[i].elements) * dtype_size(kernel.args[i].dtype);
            memory.push_back(std::make_unique<LastOfPages>(run.memory[i], bytes));
            bindings.push_back({memory.back()->data(), false});
          }
          const auto step = choose_implementation(kernel, bindings, context).step;
          std::vector<std::byte> scratch(step->scratch_bytes() + 64);
          step->set_scratch(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
          step->run();
          const size_t bytes = static_cast<size_t>(kernel.args.back().elements) * dtype_size(type);
          EXPECT_EQ(std::memcmp(memory.back()->data(), run.memory.back().data(), bytes), 0);
        });
      }
}

TEST(ContractionMatricesInPlace, RunAllocatesNothing) {
  for (const bool epilogue : {false, true}) {
    const Kernel kernel = products(
        {9, 33, 31, 17}, [&](KernelBuilder&, Ex x, Ex, Ex rest) { return epilogue ? x * rest : max(x + rest, 0.0); });
    ContractionRun run = prepare(kernel, {}, make_context(2));
    run.step->run();
    const int64_t before = allocations();
    run.step->run();
    EXPECT_EQ(allocations() - before, 0);
  }
}

}  // namespace
}  // namespace npusim::cpu::product
