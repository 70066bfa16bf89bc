// Sessions. One is used by one thread at a time: python/npusim/session.py has the lock.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstring>

#include "convert.h"
#include "npusim/machine.h"
#include "npusim/session.h"

namespace npusim::python {
namespace {

using Release = nb::call_guard<Work>;

Session* open(const Handle<Program>& program, const std::optional<Handle<TensorSet>>& weights,
              const std::vector<std::string>& devices, int64_t threads, uint64_t max_bytes, uint64_t max_flops) {
  SessionOptions options;
  options.budget = {max_bytes, max_flops};
  if (weights) options.weights = weights->of;
  options.threads = checked_threads("threads", threads);
  for (const std::string& device : devices) options.devices.push_back(open_backend(device));
  return new Session(program.of, std::move(options));
}

// What the last run left in an output, into the caller's memory.
void read(Session& session, size_t method, size_t output, const WritableTensor& to) {
  const TensorSpan span = span_of(to);
  const nb::gil_scoped_release release;
  const TensorView found = session.output_view(method, output);
  if (found.type != span.type)
    throw Error(ErrorKind::usage, "expected " + to_string(found.type) + ", found " + to_string(span.type));
  if (byte_size(found.type) > 0) std::memcpy(span.data, found.data, byte_size(found.type));
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == DType::boolean ? Code::Bool
                    : dtype == DType::u8    ? Code::UInt
                    : dtype == DType::bf16  ? Code::Bfloat
                    : is_float(dtype)       ? Code::Float
                                            : Code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * dtype_size(dtype)), 1};
}

// A view of a port's memory on its device, for whatever takes DLPack there; the session lives as long as the view.
nb::ndarray<nb::array_api> view_of_device(const nb::handle session, const DeviceMemory& memory) {
  constexpr int cpu = 1, cuda = 2;  // DLDeviceType
  const size_t colon = memory.device.find(':');
  const std::string kind = memory.device.substr(0, colon);
  if (kind != "cpu" && kind != "cuda")
    throw Error(ErrorKind::usage, "DLPack has no name for the memory of " + memory.device);
  const int number = colon == std::string::npos ? 0 : std::stoi(memory.device.substr(colon + 1));
  const std::vector<size_t> shape(memory.type.shape.begin(), memory.type.shape.end());
  return nb::ndarray<nb::array_api>(reinterpret_cast<void*>(memory.address), shape.size(), shape.data(), session,
                                    nullptr, dlpack_of(memory.type.dtype), kind == "cuda" ? cuda : cpu, number);
}

// Memory on a device: its device, dtype, shape and address. The caller keeps it.
using OnDevice = std::tuple<std::string, std::string, Shape, std::uintptr_t>;

DeviceMemory device_memory_of(const OnDevice& memory) {
  const auto& [device, dtype, shape, address] = memory;
  return {device, address, type_of(dtype, shape)};
}

// The same of an array that DLPack describes.
OnDevice on_device(const nb::ndarray<>& array) {
  constexpr int cpu = 1, cuda = 2;  // DLDeviceType
  std::string device;
  if (array.device_type() == cuda)
    device = "cuda:" + std::to_string(array.device_id());
  else if (array.device_type() == cpu)
    device = "cpu";
  else
    throw Error(ErrorKind::usage, "memory of DLPack's device " + std::to_string(array.device_type()) + " has no name");
  constexpr DType dtypes[] = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32,
                              DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};
  const auto dtype = std::find_if(std::begin(dtypes), std::end(dtypes),
                                  [&](DType known) { return dlpack_of(known) == array.dtype(); });
  if (dtype == std::end(dtypes)) throw Error(ErrorKind::usage, "memory of a dtype of DLPack that npusim has not");
  Shape shape(array.ndim());
  int64_t stride = 1;
  for (size_t n = array.ndim(); n-- > 0; stride *= shape[n]) {
    shape[n] = static_cast<int64_t>(array.shape(n));
    if (shape[n] != 1 && array.size() > 0 && array.stride(n) != stride)
      throw Error(ErrorKind::usage, "memory on a device must be row-major: stride " + std::to_string(stride) +
                                        " expected of dimension " + std::to_string(n) + ", found " +
                                        std::to_string(array.stride(n)));
  }
  return {device, std::string(dtype_name(*dtype)), shape, reinterpret_cast<std::uintptr_t>(array.data())};
}

// Of the host's memory, and of a GPU's.
void add_ports(nb::class_<Session>& session) {
  session
      .def(
          "set_input",
          [](Session& s, size_t method, size_t input, const Tensor& tensor) {
            const TensorView view = view_of(tensor);
            const nb::gil_scoped_release release;
            s.set_input(method, input, view);
          },
          nb::arg("method"), nb::arg("input"), nb::arg("tensor"))
      .def(
          "bind_input",
          [](Session& s, size_t method, size_t input, const Tensor& tensor) {
            s.bind_input(method, input, view_of(tensor));
          },
          nb::arg("method"), nb::arg("input"), nb::arg("tensor"), "The caller keeps the memory alive until unbound.")
      .def(
          "bind_output",
          [](Session& s, size_t method, size_t output, const WritableTensor& tensor) {
            s.bind_output(method, output, span_of(tensor));
          },
          nb::arg("method"), nb::arg("output"), nb::arg("tensor"), "The caller keeps the memory alive until unbound.")
      .def(
          "unbind_input",
          [](Session& s, size_t method, size_t input) { s.bind_input(method, input, std::span<const std::byte>()); },
          nb::arg("method"), nb::arg("input"))
      .def(
          "unbind_output",
          [](Session& s, size_t method, size_t output) { s.bind_output(method, output, std::span<std::byte>()); },
          nb::arg("method"), nb::arg("output"))
      .def(
          "bind_device_input",
          [](Session& s, size_t method, size_t input, const OnDevice& memory) {
            s.bind_device_input(method, input, device_memory_of(memory));
          },
          nb::arg("method"), nb::arg("input"), nb::arg("memory"), "The caller keeps the memory alive until unbound.")
      .def(
          "bind_device_output",
          [](Session& s, size_t method, size_t output, const OnDevice& memory) {
            s.bind_device_output(method, output, device_memory_of(memory));
          },
          nb::arg("method"), nb::arg("output"), nb::arg("memory"), "The caller keeps the memory alive until unbound.");
}

// Memory that the device has of a port.
void add_device_memory(nb::class_<Session>& session) {
  session
      .def(
          "device_input",
          [](nb::pointer_and_handle<Session> s, size_t method, size_t input) {
            return view_of_device(s.h, s.p->device_input(method, input));
          },
          nb::arg("method"), nb::arg("input"))
      .def(
          "device_output",
          [](nb::pointer_and_handle<Session> s, size_t method, size_t output) {
            return view_of_device(s.h, s.p->device_output(method, output));
          },
          nb::arg("method"), nb::arg("output"))
      .def(
          "place_of_input",
          [](Session& s, size_t method, size_t input) { return s.device_input(method, input).device; },
          nb::arg("method"), nb::arg("input"))
      .def(
          "place_of_output",
          [](Session& s, size_t method, size_t output) { return s.device_output(method, output).device; },
          nb::arg("method"), nb::arg("output"));
}

void add_runs(nb::class_<Session>& session) {
  session
      .def(
          "run", [](Session& s, size_t method, int times) { s.run(method, times); }, nb::arg("method"),
          nb::arg("times"), Release())
      .def(
          "run_on_device", [](Session& s, size_t method) { s.run_on_device(method); }, nb::arg("method"), Release())
      .def(
          "run_step", [](Session& s, size_t method, size_t step) { s.run_step(method, step); }, nb::arg("method"),
          nb::arg("step"), Release())
      .def(
          "time_steps", [](Session& s, size_t method) { return s.time_steps(method); }, nb::arg("method"), Release())
      .def(
          "step_how", [](const Session& s, size_t method, size_t step) { return s.step_info(method, step).how; },
          nb::arg("method"), nb::arg("step"))
      .def("cancel", &Session::cancel)
      .def("updates", &Session::updates)
      .def(
          "tear", [](Session& s, size_t method, const std::string& why) { s.tear(method, why); }, nb::arg("method"),
          nb::arg("why"))
      .def("reset_states", &Session::reset_states, Release())
      .def("seed", nb::overload_cast<uint64_t>(&Session::seed), nb::arg("seed"), Release());
}

}  // namespace

void add_sessions(nb::module_& m) {
  nb::class_<Session> session(m, "Session");
  session
      .def(
          "sibling", [](const Session& s) { return new Session(s.sibling()); }, nb::rv_policy::take_ownership,
          Release())
      .def("program", [](const Session& s) { return Handle<Program>{s.shared_program()}; })
      .def("threads", &Session::threads)
      .def("device", [](const Session& s) { return s.device(0).name; })
      .def("read", &read, nb::arg("method"), nb::arg("output"), nb::arg("to"));
  add_ports(session);
  add_device_memory(session);
  add_runs(session);
  m.def("open_session", &open, nb::arg("program"), nb::arg("weights").none(), nb::arg("devices"), nb::arg("threads"),
        nb::arg("max_bytes") = 0, nb::arg("max_flops") = 0, nb::rv_policy::take_ownership, Release());
  m.def("on_device", &on_device, nb::arg("array").noconvert(),
        "Device, dtype, shape and address of an array by DLPack, which must be row-major.");
}

}  // namespace npusim::python
