// The objects behind the C interface, and the barrier that no exception passes.
#pragma once
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "npusim/npusim.h"
#include "npusim/session.h"

struct npusim_error {
  npusim_status status = NPUSIM_INTERNAL;
  std::string text;
  std::vector<npusim::Problem> problems;
};

struct npusim_tensors {
  std::shared_ptr<const npusim::TensorSet> set;
};

namespace npusim::c {

struct Method {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
};

}  // namespace npusim::c

// What infos point into is shared by all who hand them out.
struct npusim_program {
  std::shared_ptr<const npusim::Program> program;
  std::shared_ptr<const std::vector<npusim::c::Method>> methods;
};

struct npusim_session {
  npusim::Session session;
  std::shared_ptr<const std::vector<npusim::c::Method>> methods;
};

namespace npusim::c {

npusim_status status_of(ErrorKind kind);
npusim_program* make_program(std::shared_ptr<const Program> program);
[[noreturn]] void refuse(const std::string& what);  // as usage

template <typename T>
T& given(T* pointer, const char* name) {
  if (!pointer) refuse(std::string(name) + " is NULL");
  return *pointer;
}
// Refuses counts that no caller can mean, such as a negative number, and arrays that are not there.
inline constexpr size_t most_tensors = size_t{1} << 24, most_devices = 64, most_methods = 4096;
void check_array(const void* array, size_t count, size_t most, const char* name);
inline const char* text(const char* pointer, const char* name) { return &given(pointer, name); }
const char* utf8(const char* pointer, const char* name);
// Where a result goes: NULL until there is one.
template <typename T>
T*& result(T** pointer, const char* name) {
  return given(pointer, name) = nullptr, *pointer;
}
// What the caller's header knows of the options, and defaults for the rest; null: defaults.
template <typename Options>
Options options_of(const Options* options) {
  Options result = {};
  if (!options) return result;
  if (options->size < sizeof options->size) refuse("the options' size is not set");
  if (options->size % alignof(Options) != 0) refuse("the options' size ends within one of them");
  std::memcpy(&result, options, std::min(options->size, sizeof result));
  return result;
}
inline std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

void report(npusim_error** error, npusim_status status, const char* text, std::vector<Problem> problems) noexcept;

template <typename Body>
npusim_status guarded(npusim_error** error, const Body& body) noexcept {
  if (error) *error = nullptr;
  try {
    body();
    return NPUSIM_OK;
  } catch (const Error& e) {
    report(error, status_of(e.kind()), e.what(), e.problems());
    return status_of(e.kind());
  } catch (const std::bad_alloc&) {
    return NPUSIM_NO_MEMORY;
  } catch (const std::exception& e) {
    report(error, NPUSIM_INTERNAL, e.what(), {{"", e.what()}});
    return NPUSIM_INTERNAL;
  } catch (...) {
    return NPUSIM_INTERNAL;
  }
}

}  // namespace npusim::c
