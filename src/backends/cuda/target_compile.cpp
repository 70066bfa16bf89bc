// Threads that take texts from a list, and the files of the cache.
#include "backends/cuda/target_compile.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "backends/cuda/target_nvrtc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace npusim::cuda {
namespace {

namespace fs = std::filesystem;

// Where what was compiled is kept; nothing where the user has no such place.
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

// An entry: the key, the cubin and the PTX, each behind its size, and the hash of all that. The key is the whole text,
// so that an entry can be of another text only if it is damaged.
void put(std::string& entry, std::string_view part) {
  const uint64_t size = part.size();
  entry.append(reinterpret_cast<const char*>(&size), sizeof size);
  entry.append(part);
}

std::optional<std::string_view> take(std::string_view& entry) {
  uint64_t size = 0;
  if (entry.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, entry.data(), sizeof size);
  entry.remove_prefix(sizeof size);
  if (size > entry.size()) return std::nullopt;
  const std::string_view part = entry.substr(0, size);
  entry.remove_prefix(size);
  return part;
}

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

Compiled compile_or_remember(const Nvrtc& nvrtc, const std::string& text, const std::string& architecture) {
  const auto folder = cache_folder();
  if (!folder) return compile_text(nvrtc, text, architecture);
  std::string key = fmt::format("NVRTC {}\n", nvrtc.version);
  for (const std::string& option : compile_options(architecture)) key += option + "\n";
  key += text;
  const fs::path path = *folder / hash_hex(key);
  if (auto known = read_entry(path, key)) return std::move(*known);
  Compiled compiled = compile_text(nvrtc, text, architecture);
  write_entry(path, key, compiled);
  return compiled;
}

Code code_of(std::string format, std::string architecture, const std::string& image) {
  const auto* bytes = reinterpret_cast<const std::byte*>(image.data());
  return {std::move(format), std::move(architecture), {bytes, bytes + image.size()}};
}

}  // namespace

std::vector<Code> compile_texts(std::span<const std::string> texts, std::span<const std::string> architectures) {
  if (texts.empty()) return {};
  const Nvrtc& nvrtc = find_nvrtc();
  const size_t count = architectures.size(), jobs = texts.size() * count;
  std::vector<Compiled> compiled(jobs);
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < jobs; i = next++) try {
        compiled[i] = compile_or_remember(nvrtc, texts[i / count], architectures[i % count]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = jobs;
      }
  };
  {
    std::vector<std::jthread> threads;
    const size_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (size_t n = 1; n < std::min(cores, jobs); ++n) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  std::vector<Code> codes;
  for (size_t i = 0; i < jobs; ++i) {
    codes.push_back(code_of("cubin", architectures[i % count], compiled[i].cubin));
    if (i % count + 1 == count)
      codes.push_back(code_of("ptx", "compute_" + architectures[0].substr(3), compiled[i + 1 - count].ptx));
  }
  return codes;
}

}  // namespace npusim::cuda
