// Maps error kinds to the documented exit codes.
#include "base/error.h"

namespace npusim {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::bad_input:
      return 3;
    case ErrorKind::unsupported:
      return 4;
    case ErrorKind::device:
      return 5;
    case ErrorKind::internal:
      return 1;
  }
  return 1;
}

}  // namespace npusim
