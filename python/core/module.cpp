// The extension module npusim._core: the wall's functions as they are, for the Python of python/npusim to build on.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <unistd.h>

#include <chrono>

#include "convert.h"
#include "npusim/files.h"
#include "npusim/message.h"
#include "npusim/npusim.h"

namespace npusim::python {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::bad_input:
      return "bad_input";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::device:
      return "device";
    case ErrorKind::internal:
      return "internal";
    case ErrorKind::cancelled:
      return "cancelled";
  }
  return "internal";
}

// The classes of npusim/errors.py.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    nb::list problems;
    for (const Problem& problem : error.problems())
      problems.append(nb::make_tuple(text(problem.where), text(problem.reason)));
    const nb::object made = nb::module_::import_("npusim.errors").attr("of_kind")(kind_name(error.kind()), problems);
    PyErr_SetObject(made.type().ptr(), made.ptr());
  }
}

}  // namespace

nb::str text(const std::string& found) {
  const std::string valid = valid_utf8(found);
  return nb::str(valid.data(), valid.size());
}

// Python runs handlers in its main thread only.
Work::Work() {
  if (gettid() == getpid()) scope_.emplace(&Work::check_signals);
}

// Taking the GIL costs more than a small step: not more often than anyone notices.
bool Work::check_signals() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point next;
  const Clock::time_point now = Clock::now();
  if (now < next) return false;
  next = now + std::chrono::milliseconds(20);
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return false;
}

TensorType type_of(const std::string& dtype, const Shape& shape) {
  const auto found = parse_dtype(dtype);
  if (!found) throw Error(ErrorKind::unsupported, "there is no dtype " + dtype);
  return {*found, shape};
}

namespace {

void check_bytes(const TensorType& type, size_t found) {
  if (found != byte_size(type))
    throw Error(ErrorKind::usage, "expected " + std::to_string(byte_size(type)) + " bytes for " + to_string(type) +
                                      ", found " + std::to_string(found));
}

}  // namespace

TensorView view_of(const Tensor& tensor) {
  const auto& [dtype, shape, memory] = tensor;
  TensorView view{type_of(dtype, shape), reinterpret_cast<const std::byte*>(memory.data())};
  check_bytes(view.type, memory.size());
  return view;
}

TensorSpan span_of(const WritableTensor& tensor) {
  const auto& [dtype, shape, memory] = tensor;
  TensorSpan span{type_of(dtype, shape), reinterpret_cast<std::byte*>(memory.data())};
  check_bytes(span.type, memory.size());
  return span;
}

OwnTensor own(HostTensor tensor) {
  auto kept = std::make_unique<HostTensor>(std::move(tensor));
  auto* data = reinterpret_cast<uint8_t*>(kept->data.data());
  const size_t size = kept->data.size();
  std::string dtype(dtype_name(kept->type.dtype));
  Shape shape = kept->type.shape;
  const nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<HostTensor*>(p); });
  return {std::move(dtype), std::move(shape), OwnBytes(data, {size}, owner)};
}

}  // namespace npusim::python

NB_MODULE(_core, m) {
  using namespace npusim::python;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)  // the main one's lock a run would wait for, for ever
    throw nb::import_error("npusim works in the main interpreter alone: it was imported in a sub-interpreter");
  m.doc() = "What python/npusim is built on; not for direct use.";
  nb::set_leak_warnings(
      false);  // torch.compile's caches live as long as the process: nobody can do anything about them
  nb::register_exception_translator(translate);
  m.def("version", &npusim_version);
  m.def("printable", &npusim::printable, nb::arg("text"));
  m.def(
      "is_same_file", [](const FilePath& a, const FilePath& b) { return npusim::is_same_file(a, b); }, nb::arg("a"),
      nb::arg("b"));
  add_tensors(m);
  add_programs(m);
  add_sessions(m);
  add_text(m);
  add_weights(m);
}
