// Threads that take texts from a list, and the files of the cache.
#include "backends/cuda/target_compile.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "backends/cuda/architecture.h"
#include "backends/cuda/codegen/device/texts.h"
#include "backends/cuda/target_wire.h"
#include "backends/cuda/target_worker.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

namespace fs = std::filesystem;

// Where what was compiled is kept; nothing where the user has no such folder.
std::optional<fs::path> cache_folder() {
  const auto from = [](const char* name) -> std::optional<fs::path> {
    const char* value = std::getenv(name);
    if (!value || !*value) return std::nullopt;
    return fs::path(value);
  };
  if (auto folder = from("XDG_CACHE_HOME")) return *folder / "npusim" / "cuda";
  if (auto home = from("HOME")) return *home / ".cache" / "npusim" / "cuda";
  return std::nullopt;
}

// An entry: the key, the cubin and the PTX, and the hash of all that. The key is the whole text, so that an entry can
// be of another text only if it is damaged.
std::optional<Compiled> read_entry(const fs::path& path, const std::string& key) {
  std::string bytes;
  try {
    if (!fs::exists(path)) return std::nullopt;
    bytes = read_file(path.string());
  } catch (const std::exception&) {
    return std::nullopt;
  }
  uint64_t sum = 0;
  if (bytes.size() < sizeof sum) return std::nullopt;
  std::string_view entry(bytes.data(), bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + entry.size(), sizeof sum);
  if (sum != hash_bytes(entry)) return std::nullopt;
  const auto found = take(entry), cubin = take(entry), ptx = take(entry);
  if (!found || !cubin || !ptx || !entry.empty() || *found != key) return std::nullopt;
  return Compiled{std::string(*cubin), std::string(*ptx)};
}

void write_entry(const fs::path& path, const std::string& key, const Compiled& compiled) {
  std::string entry;
  put(entry, key);
  put(entry, compiled.cubin);
  put(entry, compiled.ptx);
  const uint64_t sum = hash_bytes(entry);
  entry.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  try {
    fs::create_directories(path.parent_path());
    write_file(path.string(), entry);
  } catch (const std::exception&) {  // it is compiled again the next time
  }
}

std::string key_of(const std::string& text, const std::string& architecture, Effort effort) {
  std::string key = fmt::format("NVRTC {}\n", find_nvrtc().version);
  for (const std::string& option : compile_options(architecture, effort)) key += option + "\n";
  return key + text;
}

// Nothing where NVRTC died, and of what in `death`: that is not remembered.
std::optional<Compiled> compile_or_remember(Worker& worker, const std::string& text, const std::string& architecture,
                                            Effort effort, std::string& death) {
  const auto folder = cache_folder();
  if (!folder) return worker.compile(text, architecture, effort, death);
  const std::string key = key_of(text, architecture, effort);
  const fs::path path = *folder / hash_hex(key);
  if (auto known = read_entry(path, key)) return known;
  std::optional<Compiled> compiled = worker.compile(text, architecture, effort, death);
  if (compiled) write_entry(path, key, *compiled);
  return compiled;
}

Code code_of(std::string format, std::string architecture, const std::string& image) {
  const auto* bytes = reinterpret_cast<const std::byte*>(image.data());
  return {std::move(format), std::move(architecture), {bytes, bytes + image.size()}};
}

// What is compiled at once: a text, or one function of it.
struct Unit {
  std::span<const Source> functions;
  std::string source;
  // By architecture.
  std::vector<std::optional<Compiled>> compiled;
  std::vector<Effort> effort;
  std::vector<std::string> deaths;

  Unit(std::span<const Source> some, size_t architectures)
      : functions(some), compiled(architectures), effort(architectures), deaths(architectures) {
    std::string all;
    for (const Source& f : functions) all += f.text;
    source = with_helpers(all, codegen::device::device_dialect());
  }
};

// Which taskset and containers make fewer than the machine has.
size_t usable_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
}

class Compilation {
 public:
  Compilation(std::span<const std::vector<Source>> texts, std::span<const std::string> architectures)
      : architectures_(architectures) {
    for (const std::vector<Source>& text : texts) units_.emplace_back(text, architectures.size());
  }

  CompiledTexts run() {
    while (true) {
      run_open();
      if (!divide() && !lessen()) break;
    }
    raise_refused();
    CompiledTexts made;
    for (const Unit& unit : units_) {
      for (const Source& f : unit.functions) {
        made.set_of.emplace(f.symbol, static_cast<int32_t>(made.sets.size()));
        if (const std::string remark = remark_of(unit); !remark.empty()) made.remarks.emplace(f.symbol, remark);
      }
      CodeSet& set = made.sets.emplace_back();
      for (size_t a = 0; a < architectures_.size(); ++a)
        set.push_back(code_of("cubin", architectures_[a], unit.compiled[a]->cubin));
      set.push_back(code_of("ptx", "compute_" + architectures_[0].substr(3), unit.compiled[0]->ptx));
    }
    return made;
  }

 private:
  // All that is not compiled yet, by all cores.
  void run_open() {
    std::vector<std::pair<Unit*, size_t>> jobs;
    for (Unit& unit : units_)
      for (size_t a = 0; a < architectures_.size(); ++a)
        if (!unit.compiled[a]) jobs.emplace_back(&unit, a);
    std::atomic<size_t> next = 0;
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      Worker worker;
      for (size_t i = next++; i < jobs.size(); i = next++) try {
          check_cancelled();  // only the calling thread has a scope: what it meets ends the others' jobs too
          compile(worker, *jobs[i].first, jobs[i].second);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
          next = jobs.size();
        }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t n = 1; n < std::min(usable_cores(), jobs.size()); ++n) threads.emplace_back(work);
      work();
    }
    if (failure) std::rethrow_exception(failure);
  }

  // What NVRTC says against a text with less effort, as of an option that it does not know, is one more attempt that
  // fails.
  void compile(Worker& worker, Unit& unit, size_t a) const {
    std::string death;
    try {
      unit.compiled[a] = compile_or_remember(worker, unit.source, architectures_[a], unit.effort[a], death);
    } catch (const Error&) {
      if (unit.effort[a] == Effort::full) throw;
    }
    if (!death.empty() && unit.deaths[a].empty()) unit.deaths[a] = death;
  }

  // Of texts that NVRTC died of each function becomes one of its own: whether there were any.
  bool divide() {
    std::vector<Unit> divided;
    bool any = false;
    for (Unit& unit : units_) {
      const bool whole = unit.functions.size() == 1 || std::all_of(unit.compiled.begin(), unit.compiled.end(),
                                                                   [](const auto& made) { return made.has_value(); });
      if (whole) {
        divided.push_back(std::move(unit));
        continue;
      }
      any = true;
      for (size_t n = 0; n < unit.functions.size(); ++n)
        divided.emplace_back(unit.functions.subspan(n, 1), architectures_.size());
    }
    units_ = std::move(divided);
    return any;
  }

  bool lessen() {
    bool any = false;
    for (Unit& unit : units_)
      for (size_t a = 0; a < architectures_.size(); ++a)
        if (!unit.compiled[a] && unit.effort[a] != Effort::least) {
          unit.effort[a] = unit.effort[a] == Effort::full ? Effort::less : Effort::least;
          any = true;
        }
    return any;
  }

  std::string remark_of(const Unit& unit) const {
    for (size_t a = 0; a < architectures_.size(); ++a)
      if (unit.compiled[a] && !unit.deaths[a].empty() && unit.effort[a] != Effort::full)
        return fmt::format("NVRTC {} for {}: {}; compiled with less effort", find_nvrtc().version, architectures_[a],
                           unit.deaths[a]);
    return {};
  }

  void raise_refused() const {
    std::vector<Problem> problems;
    const char* folder = std::getenv("NPUSIM_NVRTC_TEXTS");
    for (const Unit& unit : units_)
      for (size_t a = 0; a < architectures_.size(); ++a) {
        if (unit.compiled[a]) continue;
        const std::string& symbol = unit.functions[0].symbol;
        std::string kept = "NPUSIM_NVRTC_TEXTS=FOLDER keeps its text for a report";
        if (folder && *folder) {
          const fs::path file = fs::path(folder) / fmt::format("{}.{}.cu", symbol, architectures_[a]);
          write_file(file.string(), unit.source);
          kept = "its text is in " + file.string();
        }
        problems.push_back({fmt::format("target cuda: kernel '{}'", symbol),
                            fmt::format("NVRTC {} cannot compile it for {}, with less effort neither: {}; {}",
                                        find_nvrtc().version, architectures_[a], unit.deaths[a], kept)});
      }
    if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
  }

  const std::span<const std::string> architectures_;
  std::vector<Unit> units_;  // in the order of texts
};

// A text of an older or a newer architecture than NVRTC knows is not one that a kernel could be named for.
void check_architectures(std::span<const std::string> architectures) {
  const Nvrtc& nvrtc = find_nvrtc();
  for (const std::string& name : architectures) {
    const Architecture a = *parse_architecture(name, "sm_");
    const std::vector<int>& known = nvrtc.architectures;
    if (known.empty() || std::find(known.begin(), known.end(), a.major * 10 + a.minor) != known.end()) continue;
    fail(ErrorKind::unsupported, "target cuda: NVRTC {} does not compile for {}; it knows sm_{}", nvrtc.version, name,
         fmt::join(known, ", sm_"));
  }
}

}  // namespace

CompiledTexts compile_texts(std::span<const std::vector<Source>> texts, std::span<const std::string> architectures) {
  if (texts.empty()) return {};
  check_architectures(architectures);
  return Compilation(texts, architectures).run();
}

}  // namespace npusim::cuda
