// Compiling the zoo and collecting its kernels.
#include "print/zoo_kernels.h"

#include <algorithm>
#include <filesystem>
#include <set>

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
          if (!kernel.contraction && texts.insert(to_text(kernel)).second) kernels.push_back(kernel);
      }
    return kernels;
  }();
  return all;
}

}  // namespace npusim
