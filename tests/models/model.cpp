// Compiling, running and comparing models; the executable's operator new counts.
#include "models/model.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "compiler/compile_for.h"
#include "random/place.h"

namespace {

struct AddressRange {
  uintptr_t begin = 0, end = 0;
};

// Where this program's own code is mapped: npusim is linked into it, oneDNN and what it calls are libraries.
AddressRange find_program() {
  AddressRange range;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (info->dlpi_name[0] != '\0') return 0;
        auto& range = *static_cast<AddressRange*>(found);
        range.begin = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          range.end =
              std::max<uintptr_t>(range.end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 1;
      },
      &range);
  return range;
}

std::atomic<int64_t> allocations{0}, allocations_in_onednn{0};

void* allocate(size_t size, size_t align, void* caller) {
  static const AddressRange program = find_program();
  const auto address = reinterpret_cast<uintptr_t>(caller);
  ++(address >= program.begin && address < program.end ? allocations : allocations_in_onednn);
  const size_t rounded = (std::max(size, size_t{1}) + align - 1) / align * align;
  if (void* p = align <= alignof(std::max_align_t) ? std::malloc(rounded) : std::aligned_alloc(align, rounded))
    return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t size) { return allocate(size, 1, __builtin_return_address(0)); }
void* operator new(size_t size, std::align_val_t align) {
  return allocate(size, static_cast<size_t>(align), __builtin_return_address(0));
}
// Not inlined: g++ would see memory of new given to free.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace npusim {

AllocationCount allocation_count() { return {allocations, allocations_in_onednn}; }

Model load_model(const std::vector<MethodSource>& methods, const std::string& weights, const std::string& dtype,
                 const std::string& kv_map) {
  CompileOptions options;
  options.dtype = dtype;
  options.kv_map.path = kv_map;
  return load_model(methods, weights, options);
}

Model load_model(const std::vector<MethodSource>& methods, const std::string& weights, const CompileOptions& options) {
  const test::Place place = test::open_place();
  Model model;
  model.program = compile_for(*place.target, methods, options).program;
  SessionOptions session;
  session.weights = open_tensors(weights);
  session.devices = place.devices;
  model.session = std::make_unique<Session>(model.program, std::move(session));
  return model;
}

std::vector<HostTensor> run_model(Model& model, const std::string& method, const TensorSet& inputs) {
  const size_t position = model.session->method(method);
  const std::vector<TensorInfo> in = method_inputs(*model.program, method),
                                out = method_outputs(*model.program, method);
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorView& tensor = get_tensor(inputs, in[i].name);
    EXPECT_EQ(to_string(tensor.type), to_string(in[i].type)) << in[i].name;
    model.session->set_input(position, i, {tensor.data, byte_size(tensor.type)});
  }
  // Everything is resolved before a run.
  const AllocationCount before = allocation_count();
  model.session->run(position);
  const AllocationCount after = allocation_count();
  // What oneDNN allocates in execute() is counted apart.
  EXPECT_EQ(after.own, before.own) << "run() allocates";
  model.onednn_allocations = after.in_onednn - before.in_onednn;
  std::vector<HostTensor> outputs;
  for (size_t i = 0; i < out.size(); ++i)
    outputs.push_back(copy_tensor({out[i].type, model.session->output(position, i).data()}));
  return outputs;
}

double one_minus_r(const std::vector<double>& found, const std::vector<double>& golden) {
  const size_t count = golden.size();
  if (found.size() < count || count == 0) return 2;
  double mean_f = 0, mean_g = 0;
  for (size_t i = 0; i < count; ++i) mean_f += found[i], mean_g += golden[i];
  mean_f /= static_cast<double>(count), mean_g /= static_cast<double>(count);
  double ff = 0, gg = 0, fg = 0;
  for (size_t i = 0; i < count; ++i) {
    const double f = found[i] - mean_f, g = golden[i] - mean_g;
    ff += f * f, gg += g * g, fg += f * g;
  }
  const double r = fg / std::sqrt(ff * gg);
  return std::isfinite(r) ? 1 - r : 2;
}

double relative_l2(const std::vector<double>& found, const std::vector<double>& golden) {
  if (found.size() < golden.size() || golden.empty()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    difference += (found[i] - golden[i]) * (found[i] - golden[i]);
    norm += golden[i] * golden[i];
  }
  const double ratio = std::sqrt(difference / norm);
  return std::isfinite(ratio) ? ratio : INFINITY;
}

int64_t argmax_differences(const std::vector<double>& found, const std::vector<double>& golden, int64_t row) {
  double mean = 0, variance = 0;
  for (double x : golden) mean += x / static_cast<double>(golden.size());
  for (double x : golden) variance += (x - mean) * (x - mean) / static_cast<double>(golden.size());
  const double margin = 0.02 * std::sqrt(variance);
  int64_t differences = 0;
  for (int64_t begin = 0; row > 1 && begin + row <= static_cast<int64_t>(golden.size()); begin += row) {
    const auto first = golden.begin() + begin, last = first + row, top = std::max_element(first, last);
    const auto ours = found.begin() + begin, found_top = std::max_element(ours, ours + row);
    double second = -INFINITY;
    for (auto it = first; it != last; ++it)
      if (it != top) second = std::max(second, *it);
    differences += *top - second > margin && top - first != found_top - ours;
  }
  return differences;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& golden, int64_t row, const Bars& bars,
                  const std::string& what) {
  const double direction = one_minus_r(found, golden), distance = relative_l2(found, golden);
  EXPECT_LE(direction, bars.one_minus_r) << what << ": 1 - r";
  EXPECT_LE(distance, bars.relative_l2) << what << ": relative L2";
  ASSERT_GE(found.size(), golden.size()) << what;
  EXPECT_EQ(argmax_differences(found, golden, row), 0) << what << ": rows with another largest element";
  std::printf("  %s: 1 - r = %.2e, allowed %.2e; relative L2 = %.2e, allowed %.2e\n", what.c_str(), direction,
              bars.one_minus_r, distance, bars.relative_l2);
}

nlohmann::json method_report(const Program& program, const std::string& method) {
  return nlohmann::json::parse(describe(program, true)).at("methods").at(method);
}

}  // namespace npusim
