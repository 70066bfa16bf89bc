// Signatures of file formats.
#include "base/file_kind.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace npusim {
namespace {

// Advice that is the same whatever is expected; without it, the reader's own.
constexpr const char* unpack = "unpack it first";
constexpr const char* lfs = "it stands for the file, which `git lfs pull` fetches";
constexpr const char* page = "a download was answered with a web page, such as a login or an error; look into it";
constexpr const char* npz =
    "safetensors.numpy.save_file(dict(numpy.load(FILE)), OUT) makes .safetensors of it, under the same names";

struct Found {
  const char* what;
  const char* advice = nullptr;
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A zip archive by the names in it, which stand in its first header and in the directory at its end.
Found zip_archive(std::string_view bytes) {
  constexpr size_t inspected = 1 << 16;
  const std::string_view head = bytes.substr(0, 512);
  const std::string_view tail = bytes.substr(bytes.size() - std::min(bytes.size(), inspected));
  const auto has = [&](std::string_view name) { return contains(head, name) || contains(tail, name); };
  if (has("constants.pkl") || has("/code/")) return {"a TorchScript archive"};
  if (has("serialized_exported_program.json") || has("models/model.json")) return {"a torch.export archive (.pt2)"};
  if (has("data.pkl")) return {"a PyTorch file (a zip archive or a pickle)"};
  if (has(".npy")) return {"a NumPy archive (.npz)", npz};
  return {"a zip archive (what PyTorch saves is one)"};
}

// ONNX is a protobuf without a signature: its version, then the name of its producer.
bool is_onnx(std::string_view bytes) {
  if (bytes.size() < 8 || bytes[0] != '\x08' || bytes[1] < 1 || bytes[1] > 32 || bytes[2] != '\x12') return false;
  const auto length = static_cast<size_t>(bytes[3]);
  if (length == 0 || length > 64 || bytes.size() < 4 + length) return false;
  return std::all_of(bytes.begin() + 4, bytes.begin() + 4 + static_cast<ptrdiff_t>(length),
                     [](char c) { return c >= ' ' && c <= '~'; });
}

// Whether it begins so, whatever the case of its letters and the white space before it.
bool begins_as_text(std::string_view bytes, std::string_view word) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n\xef\xbb\xbf"), bytes.size()));
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return bytes.size() >= word.size() &&
         std::equal(word.begin(), word.end(), bytes.begin(), [&](char b, char a) { return same(a, b); });
}

// Safetensors begin with a length of 8 bytes, the upper ones 0; the ninth is the brace that opens the header.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && bytes.substr(5, 3) == std::string_view("\0\0\0", 3);
}

std::optional<Found> find_kind(std::string_view bytes, FileKind expected) {
  if (is_safetensors(bytes)) {
    if (expected == FileKind::tensors) return std::nullopt;
    return Found{"a .safetensors file"};
  }
  if (bytes.starts_with("PK\x03\x04")) return zip_archive(bytes);
  // A pickle names its protocol, 2 to 5, after its first opcode.
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return Found{"a PyTorch file (a zip archive or a pickle)"};
  constexpr std::array<std::pair<std::string_view, Found>, 11> signatures = {{
      {"GGUF", {"a GGUF file"}},
      {"\x89HDF\r\n\x1a\n", {"an HDF5 file (Keras saves weights so)"}},
      {"\x1f\x8b", {"a gzip file", unpack}},
      {"\x28\xb5\x2f\xfd", {"a Zstandard file", unpack}},
      {"\xfd"
       "7zXZ",
       {"an xz file", unpack}},
      {"7z\xbc\xaf\x27\x1c", {"a 7-Zip archive", unpack}},
      {"version https://git-lfs.github.com/spec/", {"a Git LFS pointer", lfs}},
      {"\x93NUMPY", {"a .npy file: one tensor without a name"}},
      {"NPUSIM", {"a compiled program (.npubin)"}},
      {"%PDF", {"a PDF document", page}},
      {"\x7f"
       "ELF",
       {"an executable or a library"}},
  }};
  for (const auto& [signature, found] : signatures) {
    const bool own = (expected == FileKind::npy && signature == "\x93NUMPY") ||
                     (expected == FileKind::program && signature == "NPUSIM");
    if (!own && bytes.starts_with(signature)) return found;
  }
  if (bytes.substr(std::min<size_t>(bytes.size(), 3)).starts_with(std::string_view("\0TFL3", 5)))
    return Found{"a TensorFlow Lite model"};
  if (is_onnx(bytes)) return Found{"an ONNX model"};
  for (const char* word : {"<!doctype html", "<html", "<?xml", "<head"})
    if (begins_as_text(bytes, word)) return Found{"a web page (HTML)", page};
  const bool text = expected == FileKind::ir || expected == FileKind::json;
  if (!text && begins_as_text(bytes, "{")) return Found{"JSON"};
  return std::nullopt;
}

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::ir:
      return "IR JSON";
    case FileKind::tensors:
      return ".safetensors";
    case FileKind::npy:
      return ".npy";
    case FileKind::program:
      return "a .npubin program";
    case FileKind::json:
      return "JSON";
  }
  return "";
}

const char* advice_for(FileKind kind) {
  switch (kind) {
    case FileKind::ir:
      return "docs/ir_format.md section 9 says how to get the IR of a model";
    case FileKind::tensors:
    case FileKind::npy:
      return "docs/ir_format.md section 9 says how to convert it";
    case FileKind::program:
      return "`npusim compile` makes a program of IR JSON";
    case FileKind::json:
      return "is it the right file?";
  }
  return "";
}

}  // namespace

void refuse_other_kinds(std::string_view bytes, FileKind expected, const std::string& origin) {
  if (const std::optional<Found> found = find_kind(bytes, expected))
    fail(ErrorKind::bad_input, "{}: is {}, not {}: {}", origin, found->what, name_of(expected),
         found->advice ? found->advice : advice_for(expected));
}

}  // namespace npusim
