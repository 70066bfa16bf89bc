// The scopes of each thread.
#include "base/cancel.h"

#include <utility>

#include "base/error.h"

namespace npusim {
namespace {

thread_local const CancelScope* innermost = nullptr;

}  // namespace

CancelScope::CancelScope(std::function<bool()> asked)
    : asked_(std::move(asked)), outer_(std::exchange(innermost, this)) {}
CancelScope::~CancelScope() { innermost = outer_; }

void check_cancelled() {
  for (const CancelScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->asked_()) fail(ErrorKind::cancelled, "cancelled");
}

const CancelScope* cancel_scope() { return innermost; }

AdoptCancelScope::AdoptCancelScope(const CancelScope* scope) : before_(std::exchange(innermost, scope)) {}
AdoptCancelScope::~AdoptCancelScope() { innermost = before_; }

}  // namespace npusim
