// npusim devices: the devices of this machine.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/json.h"
#include "npusim/device.h"

namespace npusim::cli {

Action add_devices(CLI::App& verb) {
  auto json = std::make_shared<bool>(false);
  verb.add_flag("--json", *json, "report as JSON");
  return [json] {
    std::string text;
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DeviceInfo& device : list_devices()) {
      text += fmt::format("{:<8} {:<4} {}\n", device.name, device.usable ? "ok" : "no", device.description);
      list.push_back({{"name", device.name}, {"usable", device.usable}, {"description", device.description}});
    }
    print_report(*json ? json_report(list) : text);
    return 0;
  };
}

}  // namespace npusim::cli
