// A product and a sum that a kernel has as two operations are rounded apart, whatever instruction does both.
#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

struct Formula {
  const char* name;
  Ex (*built)(Ex, Ex, Ex);
  float (*rounded)(float, float, float);
};

// Rounds what it holds: the compiler of the test may not make one operation of two either.
float once(double exact) {
  volatile float rounded = static_cast<float>(exact);
  return rounded;
}
float product(float a, float b) { return once(static_cast<double>(a) * b); }
// Of a sum of two floats the double may be rounded already: the larger of both is far away from the smaller then, and
// what is rounded twice is right but at ties, of which random numbers have none here.
float sum(float a, float b) { return once(static_cast<double>(a) + b); }

const std::vector<Formula> formulas{
    {"a*b + c", [](Ex a, Ex b, Ex c) { return a * b + c; },
     [](float a, float b, float c) { return sum(product(a, b), c); }},
    {"c + a*b", [](Ex a, Ex b, Ex c) { return c + a * b; },
     [](float a, float b, float c) { return sum(product(a, b), c); }},
    {"a*b - c", [](Ex a, Ex b, Ex c) { return a * b - c; },
     [](float a, float b, float c) { return sum(product(a, b), -c); }},
    {"c - a*b", [](Ex a, Ex b, Ex c) { return c - a * b; },
     [](float a, float b, float c) { return sum(c, -product(a, b)); }},
    {"a*b - c*a", [](Ex a, Ex b, Ex c) { return a * b - c * a; },
     [](float a, float b, float c) { return sum(product(a, b), -product(c, a)); }},
    {"(a - b)*c*b + a", [](Ex a, Ex b, Ex c) { return (a - b) * c * b + a; },
     [](float a, float b, float c) { return sum(product(product(sum(a, -b), c), b), a); }},
    {"a + (b - a)*c", [](Ex a, Ex b, Ex c) { return a + (b - a) * c; },
     [](float a, float b, float c) { return sum(a, product(sum(b, -a), c)); }},
    {"a*1.7 + 0.3", [](Ex a, Ex, Ex) { return a * 1.7 + 0.3; },
     [](float a, float, float) { return sum(product(a, 1.7f), 0.3f); }},
};

// Each operand of [rows, n], [rows, 1] or [1, n].
void check_formula(const Formula& formula, int64_t rows, int64_t n, unsigned spread) {
  KernelBuilder b({rows, n});
  std::vector<Ex> loads;
  std::vector<Shape> shapes;
  for (unsigned i = 0; i < 3; ++i) {
    const unsigned kind = spread / (i == 0 ? 1 : i == 1 ? 3 : 9) % 3;
    shapes.push_back({kind == 2 ? 1 : rows, kind == 1 ? 1 : n});
    const std::vector<Coord> at{b.dim(0) * (kind == 2 ? 0 : 1), b.dim(1) * (kind == 1 ? 0 : 1)};
    loads.push_back(b.load(b.input({DType::f32, shapes.back()}), at));
  }
  b.store(b.output({DType::f32, {rows, n}}), std::vector<Coord>{b.dim(0), b.dim(1)},
          formula.built(loads[0], loads[1], loads[2]));
  const Kernel k = b.finish("formula");
  Check check;
  check.seed = spread + static_cast<unsigned>(n);
  Memory memory = random_arguments(k, check);
  Loops(k, 1).run(pointers(k, memory).data());
  const auto element = [&](size_t i, int64_t r, int64_t c) {
    const Shape& shape = shapes[i];
    const int64_t at = (shape[0] == 1 ? 0 : r) * shape[1] + (shape[1] == 1 ? 0 : c);
    return static_cast<float>(load_double(memory[i].data(), DType::f32, at));
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < n; ++c)
      ASSERT_EQ(static_cast<float>(load_double(memory[3].data(), DType::f32, r * n + c)),
                formula.rounded(element(0, r, c), element(1, r, c), element(2, r, c)))
          << formula.name << " of " << rows << " x " << n << ", operands " << spread << ", at " << r << ", " << c;
}

TEST(LoopRounding, ProductsAndSumsApart) {
  on_every_instruction_set([] {
    for (const Formula& formula : formulas)
      for (int64_t rows : {1, 3})
        for (int64_t n : {1, 7, 16, 33, 300})
          for (unsigned spread = 0; spread < 27; ++spread) {
            check_formula(formula, rows, n, spread);
            if (testing::Test::HasFailure()) return;
          }
  });
}

}  // namespace
}  // namespace npusim::cpu::loops
