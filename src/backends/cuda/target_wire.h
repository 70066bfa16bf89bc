// Texts that follow each other, each behind its size: entries of the cache, and what npusim and the process that calls
// NVRTC exchange.
#pragma once
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace npusim::cuda {

inline void put(std::string& all, std::string_view part) {
  const uint64_t size = part.size();
  all.append(reinterpret_cast<const char*>(&size), sizeof size);
  all.append(part);
}

inline std::optional<std::string_view> take(std::string_view& all) {
  uint64_t size = 0;
  if (all.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, all.data(), sizeof size);
  all.remove_prefix(sizeof size);
  if (size > all.size()) return std::nullopt;
  const std::string_view part = all.substr(0, size);
  all.remove_prefix(size);
  return part;
}

inline bool send_all(int socket, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent, size -= static_cast<size_t>(sent);
  }
  return true;
}
inline bool receive_all(int socket, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t came = recv(socket, bytes, size, 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return false;
    bytes += came, size -= static_cast<size_t>(came);
  }
  return true;
}

// A message of several parts. False, or nothing, where the other side is gone.
inline bool send_parts(int socket, const std::vector<std::string_view>& parts) {
  std::string message, whole;
  for (const std::string_view part : parts) put(message, part);
  put(whole, message);
  return send_all(socket, whole.data(), whole.size());
}
inline std::optional<std::vector<std::string>> receive_parts(int socket) {
  uint64_t size = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&size), sizeof size)) return std::nullopt;
  std::string message(size, '\0');
  if (!receive_all(socket, message.data(), size)) return std::nullopt;
  std::vector<std::string> parts;
  for (std::string_view left = message; !left.empty();) {
    const auto part = take(left);
    if (!part) return std::nullopt;
    parts.emplace_back(*part);
  }
  return parts;
}

}  // namespace npusim::cuda
