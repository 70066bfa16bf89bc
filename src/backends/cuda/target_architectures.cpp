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

// One device of each architecture. Texts for several architectures, and PTX, run on devices that give a block 99 KB:
// those of sm_90a and sm_100a alone have what theirs have. Rates are what kernels reach, not what data sheets say.
struct DeviceRow {
  int major = 0, minor = 0;
  Machine machine;
  int64_t cache_mb = 0;
  int64_t clusters[4] = {};  // blocks that run at once in clusters of 3, 4, 6, and 8 or more
};
constexpr int64_t kb = 1 << 10, least_block = 99 * kb;
constexpr DeviceRow devices[] = {
    // units, bytes of a unit and of a block, GB/s, GFLOP/s of float32 and of 16 bits, link GB/s and microseconds
    {8, 0, {108, 163 * kb, least_block, 1500, 15'000, 200'000, 25, 10}, 40, {0, 0, 0, 0}},          // A100
    {8, 6, {84, 99 * kb, least_block, 600, 25'000, 80'000, 25, 10}, 6, {0, 0, 0, 0}},               // A10, RTX 3090
    {8, 7, {16, 163 * kb, least_block, 180, 4'000, 25'000, 25, 10}, 4, {0, 0, 0, 0}},               // Orin
    {8, 9, {142, 99 * kb, least_block, 750, 60'000, 200'000, 25, 10}, 64, {0, 0, 0, 0}},            // L40S
    {9, 0, {132, 227 * kb, least_block, 3000, 45'000, 400'000, 50, 10}, 64, {120, 112, 108, 64}},   // H100, H200
    {10, 0, {148, 227 * kb, least_block, 6000, 60'000, 900'000, 50, 10}, 96, {132, 128, 120, 96}},  // B200
    {12, 0, {170, 99 * kb, least_block, 1500, 80'000, 180'000, 50, 10}, 96, {0, 0, 0, 0}},          // RTX 5090
};

const DeviceRow& row_of(const std::string& architecture) {
  const Architecture a = *parse_architecture(architecture, "sm_");
  const DeviceRow* found = devices;
  for (const DeviceRow& row : devices)
    if (std::tie(row.major, row.minor) <= std::tie(a.major, a.minor)) found = &row;
  return *found;
}

}  // namespace

Machine machine_of(const std::string& architecture) {
  const DeviceRow& row = row_of(architecture);
  Machine machine = row.machine;
  if (has_rings(architecture)) machine.block_bytes = machine.unit_bytes;
  return machine;
}

void check_machine(const Machine& machine, const std::string& architecture) {
  constexpr int64_t most_units = 1024;
  if (machine.units > most_units)
    fail(ErrorKind::usage, "target cuda: machine.units: expected 1 to {} multiprocessors, found {}", most_units,
         machine.units);
  const int64_t most = machine_of(architecture).block_bytes;
  if (machine.block_bytes < least_block || machine.block_bytes > most)
    fail(ErrorKind::usage, "target cuda: machine.block_bytes: expected {}{} for {}, found {}", least_block,
         most == least_block ? "" : fmt::format(" to {}", most), architecture, machine.block_bytes);
  if (machine.unit_bytes < machine.block_bytes)
    fail(ErrorKind::usage, "target cuda: machine.unit_bytes: expected at least the {} of a block, found {}",
         machine.block_bytes, machine.unit_bytes);
}

std::map<std::string, int64_t> own_of(const std::string& architecture) {
  const DeviceRow& row = row_of(architecture);
  return {{"cache_bytes", row.cache_mb << 20},
          {"cluster_3_blocks", row.clusters[0]},
          {"cluster_4_blocks", row.clusters[1]},
          {"cluster_6_blocks", row.clusters[2]},
          {"cluster_8_blocks", row.clusters[3]}};
}

const std::vector<OwnRange>& own_ranges() {
  static const std::vector<OwnRange> ranges = {{"cache_bytes", 0, int64_t{1} << 40},
                                               {"cluster_3_blocks", 0, 65536},
                                               {"cluster_4_blocks", 0, 65536},
                                               {"cluster_6_blocks", 0, 65536},
                                               {"cluster_8_blocks", 0, 65536}};
  return ranges;
}

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
