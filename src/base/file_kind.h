// Files of other kinds than the one that is expected, known by their first bytes, so that a message can say what they
// are and what to do.
#pragma once
#include <string>
#include <string_view>

namespace npusim {

// What a reader expects.
enum class FileKind : uint8_t { ir, tensors, npy, program, json };

// Throws bad_input "<origin>: is <what it is>, not <what is expected>: <the way out>" for bytes that begin like a file
// of a known other kind, or of none. Returns for all else, whose own reader then says what is wrong.
void refuse_other_kinds(std::string_view bytes, FileKind expected, const std::string& origin);

}  // namespace npusim
