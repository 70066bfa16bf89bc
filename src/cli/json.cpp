// nlohmann's writer.
#include "cli/json.h"

#include <nlohmann/json.hpp>

namespace npusim::cli {

std::string json_report(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace npusim::cli
