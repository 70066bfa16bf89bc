// Kernels that transform rows: what they must be, and what they say.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "kernel/kernel.h"

namespace npusim {

// Such a kernel does nothing else, so that each device may have its own implementation: along a row of one dimension,
// the last of the space, it loads a complex number per point, without computed terms, and stores the first so many of
// the transform, each part times a constant. Half a row, at least, is in the memory of one of its arguments. A
// transform to times from frequencies is this one with real and imaginary parts exchanged, before and behind it.  Of
// real rows (no `im`) the bins that are real, the first and, of an even length, the one in the middle, are exactly so:
// what is stored of their imaginary part is 0.
struct FourierForm {
  // A row in memory: the first `count` elements, from the row's own on, that are there; the others are 0, or not kept.
  struct Row {
    const Access* access = nullptr;  // its guard, if any, is what `count` and `step` say
    int64_t count = 0;
    int64_t step = 0;  // elements from one to the next
  };
  struct Part {
    Row to;
    double scale = 1;
  };
  int64_t length = 0;
  Row re;
  std::optional<Row> im;                     // none: real rows
  std::array<std::optional<Part>, 2> parts;  // real, imaginary; those that are stored
  bool signal = false;                       // the real part is the signal of half a spectrum
};

bool is_fourier(const Expr& expr);
bool has_fourier(const Kernel& kernel);
// Of a sound kernel that has a transform.
FourierForm fourier_form(const Kernel& kernel);
// Why a kernel that has a transform is not sound; "" if it is.
std::string fourier_problem(const Kernel& kernel);
// The next length from `least` on that is a product of 2, 3 and 5.
int64_t smooth_length(int64_t least);

}  // namespace npusim
