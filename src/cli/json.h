// JSON reports as text: one file pays for the writer's templates.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace npusim::cli {

// Indented, with a line end. Bytes that are no UTF-8 become U+FFFD.
std::string json_report(const nlohmann::ordered_json& value);

}  // namespace npusim::cli
