// What a kernel does at one point of its space as a function that other text calls: around a product, the epilogue.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernel/kernel.h"
#include "print/dialect.h"

namespace npusim {

// A parameter of the function: a flat position over some dimensions, the last one fastest.
struct PointPosition {
  std::string_view name;
  std::vector<int> dims;
};

struct PointFunction {
  std::string name;
  std::vector<PointPosition> positions;  // dimensions of extent 1 may be in none
  // Points side by side along `lane_dim`, which is the last of its position: a call is for as many from the position
  // on, and memory is read and written in words of 16 bytes where it is proven to lie so. What is read so can be asked
  // for before: NAME_read(…, NAME_words&) reads what NAME_rest(…, leaf, const NAME_words&) computes with.
  int lanes = 1;
  int lane_dim = -1;
  bool pair = false;  // of two products: behind the lanes' sums those of the other one stand
};

// Parameters: those of the kernel, the positions as int, and `const float* leaf`, the contraction's values there,
// behind which the log of an attention's sum stands where the kernel has it.
std::string print_point(const Kernel& kernel, const Dialect& dialect, const PointFunction& function);

// Of the kernel's arguments and its trap word, as declared and as passed on.
std::string parameters(const Kernel& kernel, const Dialect& dialect, std::string_view suffix = {},  // of names
                       bool trap = true);
std::string parameter_names(const Kernel& kernel, std::string_view suffix = {});

}  // namespace npusim
