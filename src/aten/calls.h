// Calls of operators without kernels, done by a plugin that is opened when the first is compiled or made ready.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernel/kernel.h"
#include "npusim/aten.h"

namespace npusim {

class AtenPlugin;  // an open plugin

// The plugin that is used now (npusim/aten.h); null, and in `reason` what was looked for, where there is none.
std::shared_ptr<const AtenPlugin> find_aten_plugin(std::string& reason);
const std::string& name_of(const AtenPlugin& plugin);

// The operator's schema, as ATen writes it; empty, and in `reason` why, where the plugin has none.
std::string schema_of(const AtenPlugin& plugin, const std::string& op, std::string& reason);

// A call made ready.
class ReadyCall {
 public:
  virtual ~ReadyCall() = default;
  // `args[i]` is the memory of kernel.args[i]. Throws bad_input with what the plugin says went wrong.
  virtual void run(std::span<void* const> args) = 0;
  virtual std::string how() const = 0;  // the plugin's name
};
// `kernel` is a call. Throws unsupported where the plugin cannot run it.
std::unique_ptr<ReadyCall> prepare_call(std::shared_ptr<const AtenPlugin> plugin, const Kernel& kernel);
// By the plugin that is used now: throws device where there is none.
std::unique_ptr<ReadyCall> prepare_call(const Kernel& kernel);

}  // namespace npusim
