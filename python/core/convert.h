// How tensors cross between Python and the wall: a dtype's name, a shape, and the bytes as a flat array of uint8.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "npusim/cancel.h"
#include "npusim/error.h"
#include "npusim/tensor.h"

namespace npusim::python {

namespace nb = nanobind;

// For what takes long: without the GIL, and asking Python for its signals between steps. What a handler raises, such as
// KeyboardInterrupt, ends the work.
class Work {
 public:
  Work();

 private:
  static bool check_signals();
  nb::gil_scoped_release release_;
  std::optional<CancelScope> scope_;
};

// The name of a file or folder as the system has it: bytes, which a str of Python spells as os.fsencode() does.
struct FilePath {
  std::string bytes;
  operator const std::string&() const { return bytes; }
};

// Text of the library as a str: bytes that are no UTF-8, as of a file's name, stand as \xff.
nb::str text(const std::string& found);

// What the wall has as an opaque type, as an object of Python.
template <typename T>
struct Handle {
  std::shared_ptr<const T> of;
};

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WritableBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OwnBytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>, nb::c_contig>;

// dtype, shape, memory
using Tensor = std::tuple<std::string, Shape, Bytes>;
using WritableTensor = std::tuple<std::string, Shape, WritableBytes>;
using OwnTensor = std::tuple<std::string, Shape, OwnBytes>;
// name, dtype, shape, memory
using Named = std::tuple<std::string, std::string, Shape, Bytes>;

TensorType type_of(const std::string& dtype, const Shape& shape);

// Views of Python's memory: throw usage when it has another size than the type.
TensorView view_of(const Tensor& tensor);
TensorSpan span_of(const WritableTensor& tensor);

// A new array that owns what it has. Needs the GIL.
OwnTensor own(HostTensor tensor);

void add_programs(nb::module_& m);
void add_tensors(nb::module_& m);
void add_sessions(nb::module_& m);
void add_text(nb::module_& m);
void add_weights(nb::module_& m);

}  // namespace npusim::python

namespace nanobind::detail {

// From str, bytes or os.PathLike; none of them with a NUL byte in it.
template <>
struct type_caster<npusim::python::FilePath> {
  NB_TYPE_CASTER(npusim::python::FilePath, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    PyObject* bytes = nullptr;
    if (!PyUnicode_FSConverter(source.ptr(), &bytes)) {
      PyErr_Clear();
      return false;
    }
    value.bytes.assign(PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes)));
    Py_DECREF(bytes);
    return true;
  }
};

}  // namespace nanobind::detail
