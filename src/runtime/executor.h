// Makes a program ready on a device and runs its methods.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/safetensors.h"

namespace npusim {

class Executor {
 public:
  // Loads the weights the program names, runs its recipes once, resolves every step. Throws naming each weight that is
  // missing or has another shape. The files stay mapped while the executor lives.
  Executor(std::shared_ptr<const Program> program, const WeightFiles* weights, std::unique_ptr<Backend> backend);
  ~Executor();

  const Program& program() const { return *program_; }
  size_t method(const std::string& name) const;  // throws usage listing the names

  // Memory of the method's nth input or output on the host: write inputs before run(), read outputs after it. On
  // devices the host cannot reach this is a staging copy that run() transfers. Valid until the executor is gone; the
  // next run overwrites outputs.
  std::span<std::byte> input(size_t method, size_t nth);
  std::span<const std::byte> output(size_t method, size_t nth);

  // Binds nothing, allocates nothing: transfers, runs the steps, transfers.
  void run(size_t method);

  // Copies prefill's outputs into decode's states as the program's links say.
  void follow_links(size_t from_method, int64_t count);

  DeviceMethod& device_method(size_t method);
  Backend& backend();

 private:
  struct State;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<State> state_;
};

}  // namespace npusim
