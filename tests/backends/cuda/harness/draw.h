// What searching tests draw, from fixed seeds.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>

namespace npusim {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  template <typename T>
  T of(std::initializer_list<T> some) {
    return some.begin()[between(0, static_cast<int64_t>(some.size()) - 1)];
  }
  bool coin() { return between(0, 1) == 1; }
  // A size around the multiples of `step`, up to `most` of them: one behind, before, far behind the last one.
  int64_t around(int64_t step, int64_t most) {
    const int64_t whole = between(0, most - 1) * step;
    return whole + of({int64_t{1}, step - 1, step, between(1, step)});
  }

 private:
  std::mt19937_64 random_;
};

// How many of each family are drawn, and from which seed on: of the environment.
inline int64_t number_of(const char* variable, int64_t usual) {
  const char* given = std::getenv(variable);
  return given && *given ? std::strtoll(given, nullptr, 10) : usual;
}
inline int64_t drawn_cases(int64_t usual) { return number_of("NPUSIM_CUDA_CASES", usual); }
inline uint64_t first_seed() { return static_cast<uint64_t>(number_of("NPUSIM_CUDA_SEED", 1)); }

}  // namespace npusim
