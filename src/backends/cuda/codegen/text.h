// Text that tiles and dot products have in common: positions taken apart, addresses and bounds put together.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/codegen/generated.h"
#include "plan/product.h"
#include "print/print.h"
#include "print/term.h"

namespace npusim::cuda::codegen {

struct Lines {
  std::string text;
  int indent = 1;
  void add(const std::string& line) { text += std::string(static_cast<size_t>(indent) * 2, ' ') + line + "\n"; }
  void open(const std::string& line) { add(line + " {"), ++indent; }
  void close(const std::string& tail = "") { --indent, add("}" + tail); }
};

// const int NAME_0 = …; NAME_1 … : the indices along the axis's dimensions of a flat position.
void take_apart(Lines& to, const Term& flat, const Axis& axis, const std::string& name);
// Σ factor·index over the axis's dimensions as take_apart() named them; empty if all factors are 0.
Term put_together(const std::vector<int64_t>& factors, const Axis& axis, const std::string& name);
// a + b + …, without what is empty or "0"; "0" for none.
Term sum_of(const std::vector<Term>& parts);

// The function of a product: its kernel's name, what is read ahead, and how many it makes.
std::string function_name(const Kernel& kernel, const Product& product);
// Its head, for a launch that is `one` for each copy: their arguments follow each other, and so do their blocks. Then
// `block` is the block's number in its copy, and arguments have the names that they have alone. Of several pieces, the
// blocks that follow each other are the pieces of one, `piece` their number, and a cluster.
// A block that is `alone` has the registers of a multiprocessor, which its warps then share out.
std::string function_head(const Kernel& kernel, const Product& product, const LaunchShape& one,
                          const Features& features, int pieces = 1, bool alone = false);
// Statements that wait for what precedes the launch; `ahead`: positions of arguments that are there before; `suffix` of
// their names.
std::vector<std::string> follow_text(const Kernel& kernel, const std::vector<int>& ahead,
                                     const std::string& suffix = "");
std::vector<std::string> follow_text(const Kernel& kernel, const Product& product, const std::string& suffix = "");

// The type of an operand's addresses, and its pointer among the function's parameters.
std::string_view address_type(const Operand& operand);
std::string pointer_of(const Kernel& kernel, const Operand& operand);
std::string pointer_of(const Kernel& kernel, int arg);
std::string_view element_type(const Product& product);
std::string as_float(const Product& product, const Term& element);

}  // namespace npusim::cuda::codegen
