// Unwinds the rounds of a draw from one of its words.
#include "kernel/drawn_word.h"

#include "kernel/draw.h"

namespace npusim {
namespace {

using Words = std::array<int32_t, 4>;

class Unwinding {
 public:
  explicit Unwinding(const Kernel& kernel) : k_(kernel) {}

  std::optional<DrawForm> from(Words words) {
    for (size_t round = philox_rounds; round-- > 0;)
      if (!unwind(words, round)) return std::nullopt;
    DrawForm draw{words, {}};
    for (size_t n = 0; n < 2; ++n) {
      draw.key[n] = keys_[0][n];
      for (size_t round = 1; round < philox_rounds; ++round)
        if (keys_[round][n] >= 0 && first_key(keys_[round][n], philox_steps[n], round) != draw.key[n])
          return std::nullopt;
    }
    for (const int32_t id : {words[0], words[1], words[2], words[3], draw.key[0], draw.key[1]})
      if (!is_narrow(id)) return std::nullopt;
    return draw;
  }

 private:
  const Expr& at(int32_t id) const { return k_.exprs[static_cast<size_t>(id)]; }
  bool is(int32_t id, ExprOp op) const { return id >= 0 && at(id).op == op && at(id).type == Scalar::i64; }
  bool is_number(int32_t id, int64_t value) const { return is(id, ExprOp::constant) && at(id).integer == value; }
  // x of op(x, value), or -1.
  int32_t with_constant(int32_t id, ExprOp op, int64_t value) const {
    return is(id, op) && is_number(at(id).in[1], value) ? at(id).in[0] : -1;
  }
  int32_t low(int32_t id) const { return with_constant(id, ExprOp::bit_and, low_32_bits); }
  int32_t high(int32_t id) const { return with_constant(low(id), ExprOp::shr, 32); }
  bool is_narrow(int32_t id) const {
    return low(id) >= 0 || (is(id, ExprOp::constant) && at(id).integer >= 0 && at(id).integer <= low_32_bits);
  }

  int32_t first_key(int32_t key, int64_t step, size_t round) const {
    for (; round > 0; --round) key = with_constant(low(key), ExprOp::add, step);
    return key;
  }

  // From a round's words to those before it, of either as many as are known (the others are -1): of words 0 and 1 the
  // factor was word 2 (n = 1), of words 2 and 3 it was word 0 (n = 0).
  bool unwind(Words& words, size_t round) {
    Words before{-1, -1, -1, -1};
    for (size_t n = 0; n < 2; ++n) {
      const int32_t mixed = words[n ? 0 : 2], product = words[n ? 1 : 3];
      int32_t& factor = before[n ? 2 : 0];
      int32_t& other = before[n ? 1 : 3];
      if (product >= 0) {
        factor = with_constant(low(product), ExprOp::mul, philox_factors[n]);
        if (factor < 0) return false;
      }
      if (mixed < 0) continue;
      if (!is(mixed, ExprOp::bit_xor) || !is(at(mixed).in[0], ExprOp::bit_xor)) return false;
      const Expr& inner = at(at(mixed).in[0]);
      const int32_t found = with_constant(high(inner.in[0]), ExprOp::mul, philox_factors[n]);
      if (found < 0 || (factor >= 0 && factor != found)) return false;
      factor = found;
      other = inner.in[1];
      keys_[round][n ? 0 : 1] = at(mixed).in[1];
    }
    words = before;
    return true;
  }

  const Kernel& k_;
  std::array<std::array<int32_t, 2>, philox_rounds> keys_ = no_keys();
  static constexpr std::array<std::array<int32_t, 2>, philox_rounds> no_keys() {
    std::array<std::array<int32_t, 2>, philox_rounds> keys{};
    for (auto& key : keys) key = {-1, -1};
    return keys;
  }
};

}  // namespace

std::optional<DrawnWord> drawn_word(const Kernel& kernel, int32_t expr) {
  const ExprOp op = kernel.exprs[static_cast<size_t>(expr)].op;
  if (op != ExprOp::bit_xor && op != ExprOp::bit_and) return std::nullopt;
  for (size_t word = 0; word < 4; ++word) {
    Words words{-1, -1, -1, -1};
    words[word] = expr;
    if (const auto draw = Unwinding(kernel).from(words)) return DrawnWord{*draw, static_cast<int>(word)};
  }
  return std::nullopt;
}

}  // namespace npusim
