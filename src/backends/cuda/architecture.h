// GPU architectures by name: "sm_90a" is machine code, "compute_80" is PTX that the driver compiles.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace npusim::cuda {

struct Architecture {
  int major = 0, minor = 0;
  char feature = 0;  // 'a': of exactly this one; 'f': of its family

  bool operator==(const Architecture&) const = default;
};

// Of "sm_90a" with the prefix "sm_"; nullopt for what is none.
inline std::optional<Architecture> parse_architecture(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  Architecture found;
  if (!name.empty() && (name.back() == 'a' || name.back() == 'f')) {
    found.feature = name.back();
    name.remove_suffix(1);
  }
  int number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc{} || stop != end || number < 10 || number > 999) return std::nullopt;
  found.major = number / 10;
  found.minor = number % 10;
  return found;
}

inline std::string to_string(const Architecture& a) {
  return std::to_string(a.major) + std::to_string(a.minor) + (a.feature ? std::string(1, a.feature) : "");
}

// Whether machine code for `code` runs on a device of this compute capability.
inline bool runs_machine_code(const Architecture& device, const Architecture& code) {
  if (device.major != code.major) return false;
  return code.feature == 'a' ? device.minor == code.minor : device.minor >= code.minor;
}

// Whether the driver of such a device can compile PTX for `code`.
inline bool compiles_ptx(const Architecture& device, const Architecture& code) {
  if (code.feature) return runs_machine_code(device, code);
  return device.major > code.major || (device.major == code.major && device.minor >= code.minor);
}

}  // namespace npusim::cuda
