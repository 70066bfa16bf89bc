// Terms: how strongly an expression binds, and that what is put together of them means what it was put together as.
#include "print/term.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace npusim {
namespace {

TEST(Term, KnowsHowStronglyItBinds) {
  for (const char* primary :
       {"x", "12", "1e-05f", "0x1p-60f", "f(a + b, c)", "in0[i0 * 96 + i1]", "(a + b)", "a.b[c].d", "p->q",
        "uint4{0, 0}", "words[i].at[e]", "threadIdx.x", "(a)[0]", "0xffffffffu"})
    EXPECT_EQ(binding_of(primary), Binding::primary) << primary;
  for (const char* product : {"a * b", "a / b % c", "-x", "!x", "&x[0]", "*p", "(int)x", "(long long)a_0 * 3",
                              "(const float*)(p + 1)", "*(const uint4*)&in[2]"})
    EXPECT_EQ(binding_of(product), Binding::product) << product;
  for (const char* sum : {"next + 1", "a * b - c", "a - -b", "p + (i + 1) * 2", "x[1] + f(2)"})
    EXPECT_EQ(binding_of(sum), Binding::sum) << sum;
  for (const char* loose : {"a < b", "a ? b : c", "a & 7", "slot ^ 1", "a && b", "x >> 2", "a == b + 1", "a = b"})
    EXPECT_EQ(binding_of(loose), Binding::loose) << loose;
}

TEST(Term, IsInParenthesesWhereItsPlaceAsksForThem) {
  const Term sum = "next + 1", product = "a * b", name = "x", choice = "a ? b : c";
  EXPECT_EQ(fmt::format("{} * 128", sum), "(next + 1) * 128");
  EXPECT_EQ(fmt::format("{:*} % 8, {:*} % 8, {:*} % 8", sum, product, name), "(next + 1) % 8, a * b % 8, x % 8");
  EXPECT_EQ(fmt::format("{:+} + 1, {:+} + 1, {:+} + 1", sum, product, choice),
            "next + 1 + 1, a * b + 1, (a ? b : c) + 1");
  EXPECT_EQ(fmt::format("x - {}, x / {}, {}[0]", sum, product, name), "x - (next + 1), x / (a * b), x[0]");
  EXPECT_EQ(fmt::format("{} {}", Term(-3), Term(4)), "(-3) 4");
}

// What C says an expression of numbers is.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  int64_t read() { return binary(0); }

 private:
  struct Operator {
    const char* text;
    int level;
    std::function<int64_t(int64_t, int64_t)> apply;
  };
  static const std::vector<Operator>& operators() {
    static const std::vector<Operator> all = {{" < ", 1, [](int64_t a, int64_t b) { return a < b; }},
                                              {" & ", 0, [](int64_t a, int64_t b) { return a & b; }},
                                              {" + ", 2, std::plus<>()},
                                              {" - ", 2, std::minus<>()},
                                              {" * ", 3, std::multiplies<>()},
                                              {" / ", 3, [](int64_t a, int64_t b) { return b ? a / b : 0; }},
                                              {" % ", 3, [](int64_t a, int64_t b) { return b ? a % b : 0; }}};
    return all;
  }
  bool take(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  int64_t binary(int level) {
    if (level == 4) return unary();
    int64_t value = binary(level + 1);
    for (bool more = true; more;) {
      more = false;
      for (const Operator& o : operators())
        if (o.level == level && take(o.text)) value = o.apply(value, binary(level + 1)), more = true;
    }
    return value;
  }
  int64_t unary() {
    if (take("-")) return -unary();
    if (take("(")) {
      const int64_t value = binary(0);
      take(")");
      return value;
    }
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      value = value * 10 + text_[at_++] - '0';
    return value;
  }

  const std::string& text_;
  size_t at_ = 0;
};

// Trees of operators, put together as terms, and their values.
struct Made {
  Term term;
  int64_t value;
};

Made draw(std::mt19937& random, int depth) {
  if (depth == 0) {
    const int64_t number = random() % 5;
    return {number, number};
  }
  const Made a = draw(random, static_cast<int>(random() % static_cast<unsigned>(depth))),
             b = draw(random, static_cast<int>(random() % static_cast<unsigned>(depth)));
  switch (random() % 8) {
    case 0:
      return {term("{:+} + {:+}", a.term, b.term), a.value + b.value};
    case 1:
      return {term("{:+} - {:*}", a.term, b.term), a.value - b.value};
    case 2:
      return {term("{:*} * {}", a.term, b.term), a.value * b.value};
    case 3:
      return {term("{:*} / {}", a.term, b.term), b.value ? a.value / b.value : 0};
    case 4:
      return {term("{:*} % {}", a.term, b.term), b.value ? a.value % b.value : 0};
    case 5:
      return {term("-{}", a.term), -a.value};
    case 6:
      return {term("{:+} < {:+}", a.term, b.term), a.value < b.value};
    default:
      return {term("{:+} & {:+}", a.term, b.term), a.value & b.value};
  }
}

TEST(Term, WhatIsPutTogetherMeansWhatItWasPutTogetherAs) {
  std::mt19937 random(1);
  for (int n = 0; n < 5000; ++n) {
    const Made made = draw(random, 6);
    ASSERT_EQ(Reader(made.term.text).read(), made.value) << made.term.text;
  }
}

}  // namespace
}  // namespace npusim
