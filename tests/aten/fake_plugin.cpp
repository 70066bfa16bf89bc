// A plugin of a few operators that exist nowhere else, for tests without PyTorch. FAKE_VERSION is the version it gives.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "aten/plugin.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION NPUSIM_ATEN_PLUGIN_VERSION
#endif

namespace {

struct Handle {
  std::string op;
  std::vector<int64_t> elements;  // of each operand
  double by = 1;
  int32_t x = -1, plus = -1;
  std::vector<int32_t> tensors;
  bool flip = false;
};

int say(const std::string& what, char* text, size_t size) {
  std::snprintf(text, size, "%s", what.c_str());
  return 1;
}

int schema(const char* op, char* text, size_t size) {
  const std::string name = op;
  const auto know = [&](const char* schema) {
    say(schema, text, size);
    return 0;
  };
  // x · by + plus
  if (name == "aten.fake_scale.default") return know("fake_scale(Tensor x, float by=2., Tensor? plus=None) -> Tensor");
  // All tensors in a row, and how many elements each has.
  if (name == "aten.fake_join.out_of")
    return know(
        "fake_join.out_of(Tensor?[] xs, *, int[2] pair=[3, 4], bool flip=False, str mode=\"plain\", ScalarType? "
        "dtype=None, Scalar? by=None, Device? device=None) -> (Tensor, Tensor)");
  if (name == "aten.fake_write_.default") return know("fake_write_(Tensor(a!) x) -> Tensor(a!)");
  if (name == "aten.fake_view.default") return know("fake_view(Tensor(a) x) -> Tensor(a)");
  return say("no such operator", text, size);
}

int64_t elements_of(const npusim_aten_type& type) {
  int64_t count = 1;
  for (int64_t d = 0; d < type.rank; ++d) count *= type.shape[d];
  return count;
}

void* prepare(const npusim_aten_call* call, char* text, size_t size) {
  Handle handle;
  handle.op = call->op;
  for (int64_t i = 0; i < call->operand_count; ++i) {
    handle.elements.push_back(elements_of(call->operands[i]));
    if (std::strcmp(call->operands[i].dtype, "float32") != 0) {
      say(std::string("takes float32, not ") + call->operands[i].dtype, text, size);
      return nullptr;
    }
  }
  const npusim_aten_argument* a = call->arguments;
  if (handle.op == "aten.fake_scale.default") {
    handle.x = a[0].tensors[0];
    handle.by = a[1].reals[0];
    handle.plus = a[2].kind == NPUSIM_ATEN_TENSOR ? a[2].tensors[0] : -1;
    if (handle.by == 0) {
      say("does not scale by 0", text, size);
      return nullptr;
    }
  } else {
    const bool right = call->argument_count == 7 && a[0].kind == NPUSIM_ATEN_TENSORS &&
                       a[1].kind == NPUSIM_ATEN_INTEGERS && a[1].count == 2 && a[1].integers[0] == 3 &&
                       a[2].kind == NPUSIM_ATEN_BOOLEAN && a[3].kind == NPUSIM_ATEN_TEXT &&
                       std::strcmp(a[3].text, "plain") == 0 && a[4].kind == NPUSIM_ATEN_DTYPE &&
                       std::strcmp(a[4].text, "float32") == 0 && a[5].kind == NPUSIM_ATEN_REAL &&
                       a[6].kind == NPUSIM_ATEN_NONE && call->result_count == 2;
    if (!right) {
      say("not the arguments that the test gives", text, size);
      return nullptr;
    }
    handle.tensors.assign(a[0].tensors, a[0].tensors + a[0].count);
    handle.flip = a[2].integers[0] != 0;
    handle.by = a[5].reals[0];
  }
  return new Handle(std::move(handle));
}

int run(void* given, const void* const* operands, void* const* results, char* text, size_t size) {
  const Handle& handle = *static_cast<Handle*>(given);
  const auto number = [&](int32_t operand, int64_t i) {
    return static_cast<double>(static_cast<const float*>(operands[operand])[i]);
  };
  auto* y = static_cast<float*>(results[0]);
  if (handle.op == "aten.fake_scale.default") {
    for (int64_t i = 0; i < handle.elements[static_cast<size_t>(handle.x)]; ++i) {
      if (number(handle.x, i) == -1000) return say("met -1000", text, size);
      y[i] = static_cast<float>(number(handle.x, i) * handle.by + (handle.plus < 0 ? 0 : number(handle.plus, i)));
    }
    return 0;
  }
  auto* counts = static_cast<int64_t*>(results[1]);
  for (size_t t = 0; t < handle.tensors.size(); ++t) {
    const int32_t operand = handle.tensors[handle.flip ? handle.tensors.size() - 1 - t : t];
    counts[t] = operand < 0 ? 0 : handle.elements[static_cast<size_t>(operand)];
    for (int64_t i = 0; i < counts[t]; ++i) *y++ = static_cast<float>(number(operand, i) * handle.by);
  }
  return 0;
}

void release(void* handle) { delete static_cast<Handle*>(handle); }

}  // namespace

const npusim_aten_plugin_table* npusim_aten_plugin() {
  static const npusim_aten_plugin_table table{FAKE_VERSION, "the fake", schema, prepare, run, release};
  return &table;
}
