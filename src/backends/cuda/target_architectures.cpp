// From the list to names in their order.
#include "backends/cuda/target_architectures.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "backends/cuda/architecture.h"
#include "base/error.h"

namespace npusim::cuda {
namespace {

constexpr int least_major = 8;  // of architectures

// What streams are written for: bulk copies, and registers that move between warps.
bool has_rings(const std::string& architecture) {
  const Architecture a = *parse_architecture(architecture, "sm_");
  return a.feature == 'a' && (a.major == 9 || a.major == 10);
}

}  // namespace

Asked read_architectures(const std::string& list) {
  std::optional<Streams> streams;
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    if (name == "stream" || name == "graph") {
      streams = name == "stream" ? Streams::possible : Streams::none;
      continue;
    }
    const auto architecture = parse_architecture(name, "sm_");
    if (!architecture)
      fail(ErrorKind::usage, "target cuda: expected architectures such as sm_80,sm_90a, found '{}'{}", name,
           name == list ? "" : fmt::format(" in '{}'", list));
    if (architecture->major < least_major)
      fail(ErrorKind::unsupported, "target cuda: {}: kernels need at least sm_{}0 (asynchronous copies, bfloat16)",
           name, least_major);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  // The lowest first: it is the one whose PTX is kept.
  const auto number = [](const std::string& name) {
    const Architecture a = *parse_architecture(name, "sm_");
    return std::make_tuple(a.feature != 0, a.major, a.minor, a.feature);
  };
  std::sort(names.begin(), names.end(),
            [&](const std::string& a, const std::string& b) { return number(a) < number(b); });
  const bool possible = streams == Streams::possible;
  if (names.empty() || (possible && !std::all_of(names.begin(), names.end(), has_rings)))
    fail(ErrorKind::usage, "target cuda: expected architectures{}, found '{}'", possible ? " such as sm_90a" : "",
         list);
  return {std::move(names), streams};
}

}  // namespace npusim::cuda
