// The one exception type, its kinds, and the list of problems it tells.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "npusim/export.h"

namespace npusim {

enum class ErrorKind {
  usage,        // the call: an unknown name, an option out of range, memory of another size or type
  bad_input,    // a file or text: missing, malformed, damaged, or not fitting the program
  unsupported,  // well-formed, but not something npusim can do
  device,       // the device: not there, out of memory, lost
  internal,     // a bug in npusim
  cancelled,    // it was asked to stop: npusim/cancel.h
};

struct Problem {
  std::string where;  // "node 'relu_3' (aten.relu.default)", "weight fc.bias", a file; empty: nowhere in particular
  std::string reason;
};
NPUSIM_API std::string to_string(const Problem& problem);  // "where: reason"

// Whatever goes wrong in npusim is thrown as this, memory that cannot be allocated as std::bad_alloc. what() has one
// line for each problem: what, where, what was expected, what was found.
class NPUSIM_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  Error(ErrorKind kind, std::vector<Problem> problems);
  ErrorKind kind() const { return kind_; }
  const std::vector<Problem>& problems() const { return *problems_; }  // at least one

 private:
  ErrorKind kind_;
  std::shared_ptr<const std::vector<Problem>> problems_;  // copies of an exception must not throw
};

}  // namespace npusim
