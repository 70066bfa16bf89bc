// Tensor sets and files, and comparing.
#include <nanobind/stl/variant.h>

#include "convert.h"
#include "npusim/compare.h"
#include "npusim/tensor_set.h"

namespace npusim::python {
namespace {

std::vector<NamedTensor> named_views(const std::vector<Named>& tensors) {
  std::vector<NamedTensor> views;
  for (const auto& [name, dtype, shape, memory] : tensors)
    views.push_back({name, view_of(Tensor{dtype, shape, memory})});
  return views;
}

using Set = Handle<TensorSet>;

// The set keeps the arrays; who lets go of it last may not have the GIL.
Set set_of(std::vector<Named> tensors) {
  std::vector<NamedTensor> views = named_views(tensors);
  const std::shared_ptr<const std::vector<Named>> owner(new std::vector<Named>(std::move(tensors)),
                                                        [](const std::vector<Named>* kept) {
                                                          const nb::gil_scoped_acquire gil;
                                                          delete kept;
                                                        });
  return {make_tensors(std::move(views), owner)};
}

// Name, dtype (one of npusim's, or what the file says), shape.
std::vector<std::tuple<std::string, std::string, Shape>> entries(const Set& set) {
  std::vector<std::tuple<std::string, std::string, Shape>> list;
  for (const TensorEntry& entry : tensor_entries(*set.of)) {
    const std::string dtype =
        entry.unknown_dtype.empty() ? std::string(dtype_name(entry.tensor.type.dtype)) : entry.unknown_dtype;
    list.emplace_back(entry.name, dtype, entry.tensor.type.shape);
  }
  return list;
}

// Path, and bytes, arrays or a set of tensors.
using File = std::tuple<FilePath, std::variant<nb::bytes, Set, std::vector<Named>>>;

std::vector<NamedTensor> named_views(const Set& set) {
  std::vector<NamedTensor> views;
  for (const TensorEntry& entry : tensor_entries(*set.of))
    views.push_back({entry.name, get_tensor(*set.of, entry.name)});
  return views;
}

void save(const std::vector<File>& files, const std::vector<FilePath>& stale) {
  std::vector<NewFile> made;
  for (const auto& [path, what] : files) {
    if (const auto* bytes = std::get_if<nb::bytes>(&what))
      made.push_back({path, std::string(static_cast<const char*>(bytes->data()), bytes->size())});
    else if (const auto* set = std::get_if<Set>(&what))
      made.push_back({path, named_views(*set)});
    else
      made.push_back({path, named_views(std::get<std::vector<Named>>(what))});
  }
  const nb::gil_scoped_release release;
  save_files(made, {stale.begin(), stale.end()});
}

nb::dict comparison(const Tensor& found, const Tensor& expected) {
  const TensorView a = view_of(found), b = view_of(expected);
  Comparison c;
  {
    const nb::gil_scoped_release release;
    c = compare(to_doubles(a), to_doubles(b), a.type.shape.empty() ? 1 : a.type.shape.back());
  }
  nb::dict result;
  result["elements"] = c.elements;
  result["not_finite"] = c.not_finite;
  result["l0"] = c.l0;
  result["l1"] = c.l1;
  result["l2"] = c.l2;
  result["l_inf"] = c.l_inf;
  result["relative_l2"] = c.relative_l2;
  result["cosine"] = c.cosine;
  result["pearson_r"] = c.pearson_r;
  result["argmax_equal"] = c.argmax_equal;
  return result;
}

}  // namespace

void add_tensors(nb::module_& m) {
  nb::class_<Set>(m, "TensorSet");
  m.def(
      "open_tensors", [](const FilePath& path) { return Set{open_tensors(path)}; }, nb::arg("path"),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "read_tensors", [](const FilePath& path) { return Set{read_tensors(path)}; }, nb::arg("path"),
      nb::call_guard<nb::gil_scoped_release>());
  m.def("make_tensors", &set_of, nb::arg("tensors"));
  m.def("entries", &entries, nb::arg("set"));
  m.def(
      "get_tensor", [](const Set& set, const std::string& name) { return own(copy_tensor(get_tensor(*set.of, name))); },
      nb::arg("set"), nb::arg("name"));
  m.def(
      "write_safetensors",
      [](const FilePath& path, const std::vector<Named>& tensors) { write_safetensors(path, named_views(tensors)); },
      nb::arg("path"), nb::arg("tensors"));
  m.def("save_files", &save, nb::arg("files"), nb::arg("stale"));
  m.def("compare", &comparison, nb::arg("found"), nb::arg("expected"));
}

}  // namespace npusim::python
