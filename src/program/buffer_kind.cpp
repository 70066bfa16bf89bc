// What kinds of buffers are called.
#include "program/buffer_kind.h"

namespace npusim {

std::string_view kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::input:
      return "input";
    case BufferKind::output:
      return "output";
    case BufferKind::state:
      return "state";
    case BufferKind::weight:
      return "weight";
    case BufferKind::constant:
      return "constant";
    case BufferKind::prepared:
      return "prepared";
    case BufferKind::arena:
      return "arena";
    case BufferKind::local:
      return "local";
  }
  return "";
}

}  // namespace npusim
