// Compiling the zoo and collecting its kernels.
#include "print/zoo_kernels.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "kernel/facts/range.h"
#include "kernel/fuse/unfuse.h"
#include "npusim/compiler.h"
#include "program/program.h"

namespace npusim {

const std::vector<Kernel>& zoo_kernels() {
  static const std::vector<Kernel> all = [] {
    std::vector<std::string> models;
    for (const auto& entry : std::filesystem::directory_iterator(NPUSIM_SOURCE_DIR "/examples/zoo"))
      if (entry.is_directory()) models.push_back(entry.path().string());
    std::sort(models.begin(), models.end());
    std::vector<Kernel> kernels;
    std::set<std::string> texts;
    for (const std::string& model : models)
      for (const char* dtype : {"auto", "float32"}) {
        CompileOptions options;
        options.dtype = dtype;
        const auto program = compile({{.path = model + "/ir.json", .json = {}}}, options).program;
        for (const Kernel& kernel : program->kernels)
          for (const BoundKernel& step : unfuse(kernel).steps)
            if (texts.insert(to_text(step.kernel)).second) kernels.push_back(step.kernel);
      }
    return kernels;
  }();
  return all;
}

Kernel clipped(Kernel k, int64_t points) {
  const auto outer = k.space.end() - k.row_dims;
  const auto count = [&](auto begin, auto end) { return std::accumulate(begin, end, int64_t{1}, std::multiplies<>()); };
  while (count(k.space.begin(), k.space.end()) > points) {
    auto largest = std::max_element(k.space.begin(), outer);
    if (largest == outer || *largest == 1) largest = std::max_element(outer, k.space.end());
    *largest = (*largest + 1) / 2;
  }
  std::vector<int64_t> elements(k.args.size());
  const auto visit = [&](Access& a, int64_t most) {
    auto reach = range_of(a.offset, a.strides, k.space);
    for (const Guard& g : a.guards) reach = widened(*reach, g.stride, g.limit);
    for (IndexTerm& t : a.terms) {
      t.extent = std::min(t.extent, most);
      reach = widened(*reach, t.stride, t.extent);
    }
    auto& needed = elements[static_cast<size_t>(a.arg)];
    needed = std::max(needed, reach->high + 1);
  };
  for (Access& a : k.accesses) visit(a, 64);
  for (Store& s : k.stores) visit(s.access, 4096);  // enough for indices that must differ
  for (size_t i = 0; i < k.args.size(); ++i) {
    k.args[i].elements = elements[i];
    if (k.args[i].updates < 0) continue;
    KernelArg& from = k.args[static_cast<size_t>(k.args[i].updates)];
    from.elements = k.args[i].elements = std::max(from.elements, elements[i]);
  }
  return k;
}

}  // namespace npusim
