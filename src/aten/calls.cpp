// Finds, opens and asks the plugin.
#include "aten/calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

#include "aten/plugin.h"
#include "base/error.h"
#include "base/file.h"

namespace npusim {

// A plugin is never closed: the libraries that it brings do not bear it.
class AtenPlugin {
 public:
  explicit AtenPlugin(const npusim_aten_plugin_table& table) : table(table), name(table.name) {}
  const npusim_aten_plugin_table& table;
  const std::string name;
};

namespace {

constexpr const char* file_name = "libnpusim_aten.so";
constexpr size_t text_size = 1 << 14;

static_assert(static_cast<int>(CallKind::booleans) == NPUSIM_ATEN_BOOLEANS);

struct Found {
  std::shared_ptr<const AtenPlugin> plugin;
  std::string reason;  // where there is none
};

// What was opened, by path, and what a caller named.
struct Registry {
  std::mutex mutex;
  std::string named;
  std::vector<std::pair<std::string, std::shared_ptr<const AtenPlugin>>> open;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

Found open_plugin(const std::string& path) {
  // Of a name without a folder dlopen() looks elsewhere.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (const std::string found = no_file_at(file); !found.empty())
    return {nullptr, fmt::format("{}: expected a plugin, found {}", path, found)};
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, dlerror()};
  const auto table = reinterpret_cast<decltype(&npusim_aten_plugin)>(dlsym(library, "npusim_aten_plugin"));
  if (!table) return {nullptr, path + ": is no plugin: it has no function npusim_aten_plugin"};
  const npusim_aten_plugin_table* found = table();
  if (!found) return {nullptr, path + ": the plugin gives no functions"};
  if (found->version != NPUSIM_ATEN_PLUGIN_VERSION)
    return {nullptr, fmt::format("{}: expected a plugin of version {}, found {}", path, NPUSIM_ATEN_PLUGIN_VERSION,
                                 found->version)};
  return {std::make_shared<const AtenPlugin>(*found), {}};
}

// Beside the file that this code is in, or in lib/ beside its folder.
std::vector<std::filesystem::path> default_paths() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&default_paths), &info) || !info.dli_fname) return {};
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::canonical(info.dli_fname, ignored).parent_path();
  return {folder / file_name, folder.parent_path() / "lib" / file_name};
}

Found find(Registry& r) {
  std::string path = r.named;
  if (path.empty())
    if (const char* given = std::getenv("NPUSIM_ATEN")) path = given;
  if (path.empty()) {
    const std::vector<std::filesystem::path> paths = default_paths();
    for (const std::filesystem::path& candidate : paths)
      if (std::error_code ignored; path.empty() && std::filesystem::exists(candidate, ignored)) path = candidate;
    if (path.empty())
      return {nullptr,
              fmt::format("NPUSIM_ATEN is not set, {} does not exist", paths.empty() ? file_name : paths[0].string())};
  }
  for (const auto& [known, plugin] : r.open)
    if (known == path) return {plugin, {}};
  Found found = open_plugin(path);
  if (found.plugin) r.open.emplace_back(path, found.plugin);
  return found;
}

// A call as the plugin takes it; views of the kernel.
struct PluginCall {
  explicit PluginCall(const Kernel& kernel) {
    const Call& call = *kernel.call;
    const auto type = [&](const CallTensor& tensor) -> npusim_aten_type {
      return {dtype_name(kernel.args[static_cast<size_t>(tensor.arg)].dtype).data(),
              static_cast<int64_t>(tensor.shape.size()), tensor.shape.data()};
    };
    for (const CallTensor& tensor : call.operands) operands.push_back(type(tensor));
    for (const CallTensor& tensor : call.results) results.push_back(type(tensor));
    for (const CallArgument& a : call.arguments) {
      if (a.text.find('\0') != std::string::npos)
        fail(ErrorKind::unsupported, "{}: the text '{}' has a NUL byte, where a plugin's ends", call.op, a.text);
      const size_t count = std::max({a.tensors.size(), a.integers.size(), a.reals.size()});
      arguments.push_back({static_cast<int32_t>(a.kind), static_cast<int64_t>(count), a.tensors.data(),
                           a.integers.data(), a.reals.data(), a.text.c_str()});
    }
    given = {call.op.c_str(),  static_cast<int64_t>(arguments.size()),
             arguments.data(), static_cast<int64_t>(operands.size()),
             operands.data(),  static_cast<int64_t>(results.size()),
             results.data()};
  }

  std::vector<npusim_aten_argument> arguments;
  std::vector<npusim_aten_type> operands, results;
  npusim_aten_call given{};
};

class PreparedCall : public ReadyCall {
 public:
  PreparedCall(std::shared_ptr<const AtenPlugin> plugin, const Kernel& kernel) : plugin_(std::move(plugin)) {
    std::array<char, text_size> text{};
    const PluginCall call(kernel);
    handle_ = plugin_->table.prepare(&call.given, text.data(), text.size());
    if (!handle_) fail(ErrorKind::unsupported, "{}: {}", plugin_->name, text.data());
    for (const CallTensor& tensor : kernel.call->operands) operands_.push_back(static_cast<size_t>(tensor.arg));
    for (const CallTensor& tensor : kernel.call->results) results_.push_back(static_cast<size_t>(tensor.arg));
    operand_memory_.resize(operands_.size());
    result_memory_.resize(results_.size());
  }
  ~PreparedCall() override { plugin_->table.release(handle_); }
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  std::string how() const override { return plugin_->name; }
  void run(std::span<void* const> args) override {
    for (size_t i = 0; i < operands_.size(); ++i) operand_memory_[i] = args[operands_[i]];
    for (size_t i = 0; i < results_.size(); ++i) result_memory_[i] = args[results_[i]];
    std::array<char, text_size> text{};
    if (plugin_->table.run(handle_, operand_memory_.data(), result_memory_.data(), text.data(), text.size()) != 0)
      fail(ErrorKind::bad_input, "{}: {}", plugin_->name, text.data());
  }

 private:
  std::shared_ptr<const AtenPlugin> plugin_;
  void* handle_ = nullptr;
  std::vector<size_t> operands_, results_;  // arguments of the kernel
  std::vector<const void*> operand_memory_;
  std::vector<void*> result_memory_;
};

}  // namespace

std::shared_ptr<const AtenPlugin> find_aten_plugin(std::string& reason) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  Found found = find(r);
  reason = found.plugin ? "" : "there is no plugin that could ask ATen: " + found.reason;
  return found.plugin;
}

const std::string& name_of(const AtenPlugin& plugin) { return plugin.name; }

std::string schema_of(const AtenPlugin& plugin, const std::string& op, std::string& reason) {
  if (op.find('\0') != std::string::npos) {
    reason = "its name has a NUL byte";
    return {};
  }
  std::array<char, text_size> text{};
  const bool known = plugin.table.schema(op.c_str(), text.data(), text.size()) == 0;
  reason = known ? "" : text.data();
  return known ? text.data() : "";
}

std::unique_ptr<ReadyCall> prepare_call(std::shared_ptr<const AtenPlugin> plugin, const Kernel& kernel) {
  return std::make_unique<PreparedCall>(std::move(plugin), kernel);
}

std::unique_ptr<ReadyCall> prepare_call(const Kernel& kernel) {
  std::string reason;
  std::shared_ptr<const AtenPlugin> plugin = find_aten_plugin(reason);
  if (!plugin) fail(ErrorKind::device, "{} has no kernel, and {}", kernel.call->op, reason);
  return prepare_call(std::move(plugin), kernel);
}

void use_aten_plugin(const std::string& path) {
  if (!path.empty()) check_path(path, ErrorKind::usage);
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  r.named = path;
}

DeviceInfo aten_plugin() {
  std::string reason;
  const std::shared_ptr<const AtenPlugin> plugin = find_aten_plugin(reason);
  return {"aten", plugin ? name_of(*plugin) : reason, plugin != nullptr};
}

}  // namespace npusim
