// As all of npusim's JSON is written.
#include "cli/json.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace npusim::cli {

std::string json_report(const nlohmann::ordered_json& value) {
  return json_text(value, 2) + "\n";
}

}  // namespace npusim::cli
