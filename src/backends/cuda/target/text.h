// Text that tiles and dot products have in common: positions taken apart, addresses and bounds put together.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/target/product.h"

namespace npusim::cuda {

struct Lines {
  std::string text;
  int indent = 1;
  void add(const std::string& line) { text += std::string(static_cast<size_t>(indent) * 2, ' ') + line + "\n"; }
  void open(const std::string& line) { add(line + " {"), ++indent; }
  void close(const std::string& tail = "") { --indent, add("}" + tail); }
};

// const int NAME_0 = …; NAME_1 … : the indices along the axis's dimensions of a flat position.
void take_apart(Lines& to, const std::string& flat, const Axis& axis, const std::string& name);
// Σ factor·index over the axis's dimensions as take_apart() named them; "" if all factors are 0.
std::string put_together(const std::vector<int64_t>& factors, const Axis& axis, const std::string& name);
// a + b + …, without what is empty or "0"; "0" for none.
std::string sum_of(const std::vector<std::string>& parts);

// The function of a product: its kernel's name, and what is read ahead.
std::string function_name(const Kernel& kernel, const Product& product);
// Statements that wait for what precedes the launch; `ahead`: positions of arguments that are there before.
std::vector<std::string> follow_text(const Kernel& kernel, const std::vector<int>& ahead);
std::vector<std::string> follow_text(const Kernel& kernel, const Product& product);

// The type of an operand's addresses, and its pointer among the function's parameters.
std::string_view address_type(const Operand& operand);
std::string pointer_of(const Kernel& kernel, const Operand& operand);
std::string_view element_type(const Product& product);

}  // namespace npusim::cuda
