// Where work may stop: called between steps.
#pragma once
#include "npusim/cancel.h"

namespace npusim {

// Throws what npusim/cancel.h says where a scope of the calling thread asks for it.
void check_cancelled();

// The innermost scope of the calling thread, for threads that do parts of its work: they adopt it.
const CancelScope* cancel_scope();

class AdoptCancelScope {
 public:
  explicit AdoptCancelScope(const CancelScope* scope);
  ~AdoptCancelScope();
  AdoptCancelScope(const AdoptCancelScope&) = delete;
  AdoptCancelScope& operator=(const AdoptCancelScope&) = delete;

 private:
  const CancelScope* before_;
};

}  // namespace npusim
