// The files that examples/materialize.py makes for the models of examples/.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace npusim {

inline const std::string examples = NPUSIM_SOURCE_DIR "/examples/";

// The folder with the files made of examples/`model`; "" when no Python has numpy.
inline std::string materialize(const std::string& model) {
  const std::string python = NPUSIM_PYTHON, folder = NPUSIM_MODELS_DIR;
  if (python.empty()) return "";
  const std::string command = python + " '" + examples + "materialize.py' '" + folder + "' '" + examples + model + "'";
  if (std::system(command.c_str()) != 0) throw Error(ErrorKind::internal, "failed: " + command);
  return folder + "/" + std::filesystem::path(model).filename().string() + "/";
}

// The same, leaving the test as skipped.
#define MATERIALIZE_OR_SKIP(folder, model)       \
  const std::string folder = materialize(model); \
  if (folder.empty()) GTEST_SKIP() << "no python3 with numpy"

}  // namespace npusim
