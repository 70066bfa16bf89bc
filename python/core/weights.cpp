// Weights as they were when a session was made: which tensors modules had, how often PyTorch had counted a write to
// them, where they lay, and some of their words.
#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "convert.h"

namespace npusim::python {
namespace {

constexpr int64_t word_bytes = 8;

struct Word {
  uintptr_t address;
  int64_t bytes;  // at most word_bytes
  uint64_t first;
};

uint64_t read(uintptr_t address, int64_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), static_cast<size_t>(bytes));
  return word;
}

// What DLPack's exchange API has first, which PyTorch has from 2.10 on: a description of a tensor without a copy.
struct Exchange {
  uint32_t major, minor;
  void* functions[4];
  int (*describe)(void* object, nb::dlpack::dltensor* to);
};

// Shape and strides.
using Layout = std::vector<int64_t>;

// How PyTorch's tensor of a weight lay in memory, and the count of writes to it.
struct Seen {
  uintptr_t address = 0;
  const Layout* layout = nullptr;  // none where PyTorch does not describe the tensor
  nb::dlpack::dtype dtype{};
  std::optional<uint64_t> count;  // none of a tensor that inference_mode() made
};

struct Weight {
  nb::object tensor;  // that nobody else has, over the same memory; none: an array, whose memory others keep
  Seen seen;
  size_t words_end = 0;   // behind its words, which begin where those of the weight before it end
  uint64_t found_in = 0;  // the check that last saw it in a module
};

// What a module has by a name. PyTorch refuses to do some things to tensors with weak references: they get none.
struct Place {
  nb::object dict;         // "_parameters", "_buffers" or "_modules"
  nb::object key;          // there
  nb::object module;       // a weak reference to the one that was there; none: a tensor was
  const PyObject* tensor;  // that was there and may be gone by now: only to be compared
  size_t weight = 0;       // that the tensor is
  Seen seen;
  std::vector<Word> words;  // in the memory that is there, where that is not the weight's
};

// Modules are not kept alive: of one that is gone nothing is asked.
struct Owner {
  nb::object ref;
  std::vector<size_t> places;
};

// Dense memory is a row of bytes. What else shares a weight's memory is not read.
void add_words(std::vector<Word>& words, uintptr_t address, const std::vector<int64_t>& shape,
               const std::vector<int64_t>& strides, int64_t element, bool dense, int64_t most) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  const int64_t bytes = elements * element;
  const int64_t units = dense ? (bytes + word_bytes - 1) / word_bytes : elements;
  const int64_t size = std::min(word_bytes, dense ? bytes : element);
  const int64_t last = dense ? bytes - size : elements - 1, count = std::min(units, most);
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = count == 1 ? 0 : last * n / (count - 1);
    if (!dense) {
      int64_t offset = 0;
      for (size_t dim = shape.size(); dim-- > 0; at /= shape[dim]) offset += at % shape[dim] * strides[dim];
      at = offset;
    }
    const uintptr_t there = address + static_cast<uintptr_t>(at);
    words.push_back({there, size, read(there, size)});
  }
}

// An array's address, shape, strides in bytes, bytes of an element, whether it is dense, and how many words to look at,
// 0 where there is no array.
using Lies = std::tuple<uintptr_t, std::vector<int64_t>, std::vector<int64_t>, int64_t, bool, int64_t>;
using GivenWeight = std::tuple<nb::object, Lies>;
// Owner, dict, key and module as in Place; the tensor's address as an object, and its weight.
using GivenPlace = std::tuple<nb::object, nb::object, nb::object, nb::object, uintptr_t, size_t>;

// Holds no object that may hold it: weak references, names, and tensors of its own.
class Watch {
 public:
  // torch: PyTorch's class of tensors; none: there are no tensors.
  Watch(const nb::object& torch, const std::vector<GivenWeight>& weights, const std::vector<GivenPlace>& places) {
    if (!torch.is_none()) {
      data_ptr_ = torch.attr("data_ptr");
      count_ = torch.attr("_version");
      get_ = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(count_.ptr()), Py_tp_descr_get));
      if (nb::hasattr(torch, "__dlpack_c_exchange_api__"))
        exchange_ = static_cast<const Exchange*>(
            PyCapsule_GetPointer(torch.attr("__dlpack_c_exchange_api__").ptr(), "dlpack_exchange_api"));
      if (exchange_ != nullptr && exchange_->major != 1) exchange_ = nullptr;
    }
    for (const auto& [tensor, lies] : weights) {
      Weight& weight = weights_.emplace_back(Weight{tensor, {}});
      if (!tensor.is_none()) weight.seen = look(tensor);
      std::apply([&](const auto&... of) { add_words(words_, of...); }, lies);
      weight.words_end = words_.size();
    }
    for (const auto& [owner, dict, key, module, tensor, weight] : places) {
      if (owners_.empty() || !owners_.back().ref.is(owner)) owners_.push_back({owner, {}});
      owners_.back().places.push_back(places_.size());
      Place& place =
          places_.emplace_back(Place{dict, key, module, reinterpret_cast<const PyObject*>(tensor), weight, {}, {}});
      if (module.is_none()) place.seen = weights_.at(weight).seen;
    }
  }

  // The number of the first place, from `begin` on, that has another tensor or module than it had, or behind all places
  // of the first weight that was written; -1: there is none.
  int64_t first_changed(size_t begin) {
    const uint64_t check = ++checks_;
    for (const Owner& owner : owners_)
      if (owner.places.back() >= begin)
        if (const int64_t changed = in_owner(owner, begin, check); changed >= 0) return changed;
    for (size_t n = begin > places_.size() ? begin - places_.size() : 0; n < weights_.size(); ++n)
      if (is_written(n, check)) return static_cast<int64_t>(places_.size() + n);
    return -1;
  }

  // What is now at a place is another tensor with a count of its own, over the same memory or with the same values.
  void accept(size_t number, const nb::object& tensor, const Lies& lies) {
    Place& place = places_.at(number);
    place.tensor = tensor.ptr();
    place.seen = look(tensor);
    place.words.clear();
    std::apply([&](const auto&... of) { add_words(place.words, of...); }, lies);
  }

  // Nothing is asked of a place any more.
  void forget(size_t place) {
    for (Owner& owner : owners_) std::erase(owner.places, place);
    std::erase_if(owners_, [](const Owner& owner) { return owner.places.empty(); });
  }

 private:
  bool describe(const nb::handle tensor, nb::dlpack::dltensor& to) const {
    if (exchange_ == nullptr) return false;
    if (exchange_->describe(tensor.ptr(), &to) == 0) return true;
    PyErr_Clear();
    return false;
  }

  static PyObject* item(PyObject* dict, const nb::object& key) {
    PyObject* found = PyDict_GetItemWithError(dict, key.ptr());
    if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found;
  }

  Seen look(const nb::handle tensor) {
    Seen seen;
    if (nb::dlpack::dltensor now; describe(tensor, now)) {
      Layout layout(now.shape, now.shape + now.ndim);
      layout.insert(layout.end(), now.strides, now.strides + now.ndim);
      seen = {reinterpret_cast<uintptr_t>(now.data), &*layouts_.insert(std::move(layout)).first, now.dtype, {}};
    } else {
      seen.address = nb::cast<uintptr_t>(data_ptr_(tensor));
    }
    if (!nb::cast<bool>(tensor.attr("is_inference")())) seen.count = nb::cast<uint64_t>(tensor.attr("_version"));
    return seen;
  }

  bool is_counted(const nb::handle tensor, const Seen& seen) const {
    if (!seen.count) return false;
    const nb::object now = nb::steal(get_(count_.ptr(), tensor.ptr(), nullptr));
    if (!now) throw nb::python_error();
    return PyLong_AsUnsignedLongLong(now.ptr()) != *seen.count;
  }

  bool is_there(const nb::handle tensor, const Seen& seen) const {
    nb::dlpack::dltensor now;
    if (seen.layout == nullptr) {
      const nb::object address = nb::steal(PyObject_CallFunctionObjArgs(data_ptr_.ptr(), tensor.ptr(), nullptr));
      if (!address) PyErr_Clear();  // it has become a tensor without memory
      return address && nb::cast<uintptr_t>(address) == seen.address;
    }
    const int64_t* layout = seen.layout->data();
    return describe(tensor, now) && reinterpret_cast<uintptr_t>(now.data) == seen.address && now.dtype == seen.dtype &&
           2 * static_cast<size_t>(now.ndim) == seen.layout->size() &&
           std::equal(now.shape, now.shape + now.ndim, layout) &&
           std::equal(now.strides, now.strides + now.ndim, layout + now.ndim);
  }

  int64_t in_owner(const Owner& owner, size_t begin, uint64_t check) {
    const nb::object held = owner.ref();
    if (held.is_none()) return -1;
    const nb::object attributes = nb::steal(PyObject_GenericGetDict(held.ptr(), nullptr));
    PyObject* dict = nullptr;
    const Place* last = nullptr;
    for (const size_t number : owner.places) {
      if (number < begin) continue;
      const Place& place = places_[number];
      if (last == nullptr || !last->dict.is(place.dict)) dict = item(attributes.ptr(), place.dict);
      last = &place;
      const nb::object found = nb::borrow(dict != nullptr && PyDict_Check(dict) ? item(dict, place.key) : nullptr);
      if (!place.module.is_none()) {
        if (!found || found.is_none() || !found.is(place.module())) return static_cast<int64_t>(number);
        continue;
      }
      if (!found || !is_there(found, place.seen)) return static_cast<int64_t>(number);
      if (is_counted(found, place.seen))
        return static_cast<int64_t>(found.ptr() == place.tensor ? places_.size() + place.weight : number);
      if (differs(place.words)) return static_cast<int64_t>(places_.size() + place.weight);
      weights_[place.weight].found_in = check;
    }
    return -1;
  }

  // Memory is read only where a tensor was just seen to be there.
  bool is_written(size_t number, uint64_t check) const {
    const Weight& weight = weights_[number];
    if (weight.found_in != check && !weight.tensor.is_none() &&
        (!is_there(weight.tensor, weight.seen) || is_counted(weight.tensor, weight.seen)))
      return true;
    const size_t begin = number == 0 ? 0 : weights_[number - 1].words_end;
    return differs(std::span(words_).subspan(begin, weight.words_end - begin));
  }

  static bool differs(std::span<const Word> words) {
    return std::any_of(words.begin(), words.end(),
                       [](const Word& word) { return read(word.address, word.bytes) != word.first; });
  }

  nb::object data_ptr_, count_;
  descrgetfunc get_ = nullptr;  // of count_, which is a descriptor
  const Exchange* exchange_ = nullptr;
  std::set<Layout> layouts_;
  std::vector<Word> words_;
  std::vector<Weight> weights_;
  std::vector<Place> places_;
  std::vector<Owner> owners_;
  uint64_t checks_ = 0;
};

}  // namespace

void add_weights(nb::module_& m) {
  nb::class_<Watch>(m, "Watch")
      .def(nb::init<const nb::object&, const std::vector<GivenWeight>&, const std::vector<GivenPlace>&>(),
           nb::arg("torch").none(), nb::arg("weights"), nb::arg("places"))
      .def("first_changed", &Watch::first_changed, nb::arg("begin"))
      .def("accept", &Watch::accept, nb::arg("place"), nb::arg("tensor"), nb::arg("lies"))
      .def("forget", &Watch::forget, nb::arg("place"));
}

}  // namespace npusim::python
