// The C interface but for compiling: errors, tensors, programs, sessions.
#include "c/handles.h"
#include "npusim/aten.h"
#include "npusim/message.h"

using namespace npusim;
using namespace npusim::c;

namespace {

static_assert(static_cast<int>(DType::boolean) == NPUSIM_BOOL && static_cast<int>(DType::i64) == NPUSIM_INT64 &&
              static_cast<int>(DType::f16) == NPUSIM_FLOAT16 && static_cast<int>(DType::f64) == NPUSIM_FLOAT64 &&
              dtype_count == NPUSIM_FLOAT64 + 1);

// A caller may have left any number in it, which C++ knows no enumerator for.
DType dtype_at(const npusim_dtype& dtype) {
  int number = 0;
  static_assert(sizeof number == sizeof dtype);
  std::memcpy(&number, &dtype, sizeof number);
  if (number < NPUSIM_BOOL || number > NPUSIM_FLOAT64) refuse("there is no dtype " + std::to_string(number));
  return static_cast<DType>(number);
}

// Of an npusim_view or npusim_span.
template <typename Tensor>
TensorType type_of(const Tensor& tensor) {
  constexpr size_t most_dims = 64;  // of any tensor of an IR
  if (tensor.rank > most_dims)
    refuse("the tensor's rank: expected at most " + std::to_string(most_dims) + ", found " +
           std::to_string(tensor.rank));
  if (tensor.rank > 0 && !tensor.shape) refuse("the tensor's shape is NULL");
  const DType dtype = dtype_at(tensor.dtype);
  Shape shape(tensor.shape, tensor.shape + tensor.rank);
  try {
    element_count(shape);
  } catch (const Error& error) {  // of the call, and no file
    refuse(std::string("the tensor's shape: ") + error.what());
  }
  return {dtype, std::move(shape)};
}

TensorView view_of(const npusim_view& view) {
  TensorView result{type_of(view), static_cast<const std::byte*>(view.data)};
  if (!result.data && byte_size(result.type) > 0) refuse("the tensor's data is NULL");
  return result;
}

template <typename Tensor>
DeviceMemory device_memory(const char* device, const Tensor& tensor) {
  return {device, reinterpret_cast<std::uintptr_t>(tensor.data), type_of(tensor)};
}

npusim_dtype dtype_of(const TensorType& type) { return static_cast<npusim_dtype>(type.dtype); }

npusim_tensor_info info_of(const TensorInfo& info) {
  return {info.name.c_str(),      dtype_of(info.type),  info.type.shape.size(),
          info.type.shape.data(), byte_size(info.type), info.state};
}

const Method* find_method(const std::vector<Method>& methods, const char* name) {
  for (const Method& method : methods)
    if (name && method.name == name) return &method;
  return nullptr;
}

const Method& get_method(const npusim_program* program, const char* name) {
  const Method* method = find_method(*given(program, "program").methods, text(name, "method"));
  if (!method) refuse("there is no method " + std::string(name));
  return *method;
}

const TensorInfo& named(const std::vector<TensorInfo>& infos, const char* name) {
  const std::string wanted = text(name, "the tensor's name");
  for (const TensorInfo& info : infos)
    if (info.name == wanted) return info;
  refuse("there is no tensor " + wanted);
}

const TensorInfo& at(const std::vector<TensorInfo>& infos, size_t position) {
  if (position >= infos.size())
    refuse("there is no position " + std::to_string(position) + " of " + std::to_string(infos.size()));
  return infos[position];
}

Session& session_of(npusim_session* session) { return given(session, "session").session; }

}  // namespace

namespace npusim::c {

npusim_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return NPUSIM_USAGE;
    case ErrorKind::bad_input:
      return NPUSIM_BAD_INPUT;
    case ErrorKind::unsupported:
      return NPUSIM_UNSUPPORTED;
    case ErrorKind::device:
      return NPUSIM_DEVICE;
    case ErrorKind::internal:
      return NPUSIM_INTERNAL;
    case ErrorKind::cancelled:
      return NPUSIM_CANCELLED;
  }
  return NPUSIM_INTERNAL;
}

void refuse(const std::string& what) { throw Error(ErrorKind::usage, what); }

void check_array(const void* array, size_t count, size_t most, const char* name) {
  if (count > 0 && !array) refuse(std::string(name) + " is NULL");
  if (count > most)
    refuse(std::string("the number of ") + name + ": expected at most " + std::to_string(most) + ", found " +
           std::to_string(count));
}

const char* utf8(const char* pointer, const char* name) {
  const std::string_view found = text(pointer, name);
  if (valid_utf8(found) != found) refuse(std::string(name) + ": expected UTF-8, found '" + pointer + "'");
  return pointer;
}

void report(npusim_error** error, npusim_status status, const char* text, std::vector<Problem> problems) noexcept {
  if (!error) return;
  try {
    for (Problem& problem : problems)  // one line each, as the text has, and no end before the last character
      problem = {printable(problem.where), printable(problem.reason)};
    *error = new npusim_error{status, text, std::move(problems)};
  } catch (...) {  // the status is all that can be told
  }
}

npusim_program* make_program(std::shared_ptr<const Program> program) {
  auto methods = std::make_shared<std::vector<Method>>();
  for (const std::string& name : method_names(*program))
    methods->push_back({name, method_inputs(*program, name), method_outputs(*program, name)});
  return new npusim_program{std::move(program), std::move(methods)};
}

}  // namespace npusim::c

int npusim_abi_version(void) { return NPUSIM_ABI_VERSION; }
const char* npusim_version(void) { return NPUSIM_VERSION; }

npusim_status npusim_use_aten_plugin(const char* path, npusim_error** error) {
  return guarded(error, [&] { use_aten_plugin(text_or(path, "")); });
}

npusim_status npusim_error_status(const npusim_error* error) { return error ? error->status : NPUSIM_OK; }
const char* npusim_error_text(const npusim_error* error) { return error ? error->text.c_str() : ""; }
size_t npusim_error_count(const npusim_error* error) { return error ? error->problems.size() : 0; }
const char* npusim_error_where(const npusim_error* error, size_t problem) {
  return problem < npusim_error_count(error) ? error->problems[problem].where.c_str() : "";
}
const char* npusim_error_reason(const npusim_error* error, size_t problem) {
  return problem < npusim_error_count(error) ? error->problems[problem].reason.c_str() : "";
}
void npusim_error_free(npusim_error* error) { delete error; }

npusim_status npusim_open_tensors(const char* path, npusim_tensors** tensors, npusim_error** error) {
  return guarded(error, [&] {
    npusim_tensors*& out = result(tensors, "tensors");
    out = new npusim_tensors{open_tensors(text(path, "path"))};
  });
}

npusim_status npusim_read_tensors(const char* path, npusim_tensors** tensors, npusim_error** error) {
  return guarded(error, [&] {
    npusim_tensors*& out = result(tensors, "tensors");
    out = new npusim_tensors{read_tensors(text(path, "path"))};
  });
}

npusim_status npusim_make_tensors(const char* const* names, const npusim_view* views, size_t count,
                                  npusim_tensors** tensors, npusim_error** error) {
  return guarded(error, [&] {
    npusim_tensors*& out = result(tensors, "tensors");
    check_array(names, count, most_tensors, "names");
    check_array(views, count, most_tensors, "views");
    std::vector<NamedTensor> list;
    for (size_t i = 0; i < count; ++i) list.push_back({utf8(names[i], "a name"), view_of(views[i])});
    out = new npusim_tensors{make_tensors(std::move(list))};
  });
}

npusim_status npusim_find_tensor(const npusim_tensors* tensors, const char* name, npusim_view* view,
                                 npusim_error** error) {
  return guarded(error, [&] {
    const TensorView& found = get_tensor(*given(tensors, "tensors").set, text(name, "name"));
    given(view, "view") = {dtype_of(found.type), found.type.shape.size(), found.type.shape.data(), found.data};
  });
}

void npusim_tensors_free(npusim_tensors* tensors) { delete tensors; }

namespace {

npusim_status load(const char* path, bool code, npusim_program** program, npusim_error** error) {
  return guarded(error, [&] {
    npusim_program*& out = result(program, "program");
    out = make_program(load_program(text(path, "path"), {.code = code}));
  });
}

npusim_status parse(const void* bytes, size_t size, bool code, npusim_program** program, npusim_error** error) {
  return guarded(error, [&] {
    npusim_program*& out = result(program, "program");
    if (!bytes) refuse("bytes is NULL");
    out = make_program(parse_program({static_cast<const char*>(bytes), size}, "memory", {.code = code}));
  });
}

}  // namespace

npusim_status npusim_load_program(const char* path, npusim_program** program, npusim_error** error) {
  return load(path, true, program, error);
}

npusim_status npusim_parse_program(const void* bytes, size_t size, npusim_program** program, npusim_error** error) {
  return parse(bytes, size, true, program, error);
}

npusim_status npusim_load_program_without_code(const char* path, npusim_program** program, npusim_error** error) {
  return load(path, false, program, error);
}

npusim_status npusim_parse_program_without_code(const void* bytes, size_t size, npusim_program** program,
                                                npusim_error** error) {
  return parse(bytes, size, false, program, error);
}

npusim_status npusim_save_program(const npusim_program* program, const char* path, npusim_error** error) {
  return guarded(error, [&] { save_program(*given(program, "program").program, text(path, "path")); });
}

void npusim_program_free(npusim_program* program) { delete program; }

size_t npusim_method_count(const npusim_program* program) { return program ? program->methods->size() : 0; }
const char* npusim_method_name(const npusim_program* program, size_t position) {
  return position < npusim_method_count(program) ? (*program->methods)[position].name.c_str() : nullptr;
}
size_t npusim_input_count(const npusim_program* program, const char* method) {
  const Method* found = program ? find_method(*program->methods, method) : nullptr;
  return found ? found->inputs.size() : 0;
}
size_t npusim_output_count(const npusim_program* program, const char* method) {
  const Method* found = program ? find_method(*program->methods, method) : nullptr;
  return found ? found->outputs.size() : 0;
}

npusim_status npusim_input_at(const npusim_program* program, const char* method, size_t position,
                              npusim_tensor_info* info, npusim_error** error) {
  return guarded(error, [&] { given(info, "info") = info_of(at(get_method(program, method).inputs, position)); });
}
npusim_status npusim_output_at(const npusim_program* program, const char* method, size_t position,
                               npusim_tensor_info* info, npusim_error** error) {
  return guarded(error, [&] { given(info, "info") = info_of(at(get_method(program, method).outputs, position)); });
}
npusim_status npusim_find_input(const npusim_program* program, const char* method, const char* name,
                                npusim_tensor_info* info, npusim_error** error) {
  return guarded(error, [&] { given(info, "info") = info_of(named(get_method(program, method).inputs, name)); });
}
npusim_status npusim_find_output(const npusim_program* program, const char* method, const char* name,
                                 npusim_tensor_info* info, npusim_error** error) {
  return guarded(error, [&] { given(info, "info") = info_of(named(get_method(program, method).outputs, name)); });
}

npusim_status npusim_open_session(const npusim_program* program, const npusim_session_options* options,
                                  npusim_session** session, npusim_error** error) {
  return guarded(error, [&] {
    npusim_session*& out = result(session, "session");
    const npusim_session_options asked = options_of(options);
    SessionOptions chosen;
    if (asked.weights) chosen.weights = asked.weights->set;
    check_array(asked.devices, asked.device_count, most_devices, "devices");
    for (size_t i = 0; i < asked.device_count; ++i)
      chosen.devices.push_back(open_backend(text(asked.devices[i], "a device")));
    chosen.threads = asked.threads;
    chosen.budget = {asked.max_bytes, asked.max_flops};
    const npusim_program& p = given(program, "program");
    out = new npusim_session{Session(p.program, std::move(chosen)), p.methods};
  });
}

npusim_status npusim_open_sibling(const npusim_session* session, npusim_session** sibling, npusim_error** error) {
  return guarded(error, [&] {
    npusim_session*& out = result(sibling, "sibling");
    const npusim_session& from = given(session, "session");
    out = new npusim_session{from.session.sibling(), from.methods};
  });
}

void npusim_session_free(npusim_session* session) { delete session; }

npusim_status npusim_set_input(npusim_session* session, const char* method, const char* input, const npusim_view* value,
                               npusim_error** error) {
  return guarded(error, [&] {
    session_of(session).set_input(text(method, "method"), text(input, "input"), view_of(given(value, "value")));
  });
}

npusim_status npusim_bind_input(npusim_session* session, const char* method, const char* input,
                                const npusim_view* memory, npusim_error** error) {
  return guarded(error, [&] {
    const Key m = text(method, "method"), i = text(input, "input");
    if (memory)
      session_of(session).bind_input(m, i, view_of(*memory));
    else
      session_of(session).bind_input(m, i, std::span<const std::byte>());
  });
}

npusim_status npusim_bind_output(npusim_session* session, const char* method, const char* output,
                                 const npusim_span* memory, npusim_error** error) {
  return guarded(error, [&] {
    const Key m = text(method, "method"), o = text(output, "output");
    if (!memory) return session_of(session).bind_output(m, o, std::span<std::byte>());
    const TensorSpan span{type_of(*memory), static_cast<std::byte*>(memory->data)};
    if (!span.data && byte_size(span.type) > 0) refuse("the tensor's data is NULL");
    session_of(session).bind_output(m, o, span);
  });
}

npusim_status npusim_bind_device_input(npusim_session* session, const char* method, const char* input,
                                       const char* device, const npusim_view* memory, npusim_error** error) {
  return guarded(error, [&] {
    const Key m = text(method, "method"), i = text(input, "input");
    session_of(session).bind_device_input(m, i, device_memory(text(device, "device"), given(memory, "memory")));
  });
}

npusim_status npusim_bind_device_output(npusim_session* session, const char* method, const char* output,
                                        const char* device, const npusim_span* memory, npusim_error** error) {
  return guarded(error, [&] {
    const Key m = text(method, "method"), o = text(output, "output");
    session_of(session).bind_device_output(m, o, device_memory(text(device, "device"), given(memory, "memory")));
  });
}

npusim_status npusim_get_output(npusim_session* session, const char* method, const char* output, npusim_view* value,
                                npusim_error** error) {
  return guarded(error, [&] {
    Session& s = session_of(session);
    const size_t m = s.method(text(method, "method")), o = s.output_position(m, text(output, "output"));
    const TensorInfo& info = (*session->methods)[m].outputs[o];
    given(value, "value") = {dtype_of(info.type), info.type.shape.size(), info.type.shape.data(),
                             s.output(m, o).data()};
  });
}

npusim_status npusim_run(npusim_session* session, const char* method, int times, npusim_error** error) {
  return guarded(error, [&] { session_of(session).run(text(method, "method"), times); });
}
npusim_status npusim_enqueue(npusim_session* session, const char* method, int times, npusim_error** error) {
  return guarded(error, [&] { session_of(session).enqueue(text(method, "method"), times); });
}
npusim_status npusim_wait(npusim_session* session, npusim_error** error) {
  return guarded(error, [&] { session_of(session).wait(); });
}
int npusim_cancel(npusim_session* session) { return session && session->session.cancel() ? 1 : 0; }
npusim_status npusim_seed(npusim_session* session, uint64_t seed, npusim_error** error) {
  return guarded(error, [&] { session_of(session).seed(seed); });
}

npusim_status npusim_reset_states(npusim_session* session, npusim_error** error) {
  return guarded(error, [&] { session_of(session).reset_states(); });
}
