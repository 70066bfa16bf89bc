// Products whose matrix is streamed: a few rows times a matrix that is known before the run, line by line.
#pragma once
#include <optional>
#include <string>

#include "backends/cuda/codegen/generated.h"
#include "plan/contracted.h"

namespace npusim::cuda::codegen::stream::facts {

inline constexpr int64_t most_streamed_rows = 8;
inline constexpr int64_t tile_lines = 8;     // of the matrix, which tensor cores take at once
inline constexpr int64_t unit_depth = 64;    // elements of a line that a warp takes at once
inline constexpr int64_t slot_depth = 1536;  // elements of each of a tile's lines that a slot of the ring holds
inline constexpr int64_t slot_bytes = tile_lines * slot_depth * 2;
inline constexpr int stream_warps = 8;  // of a block: the consumers
inline constexpr int stream_threads = 32 * stream_warps;

// result[row, line] = Σ over depth of x[row, depth] · matrix[line, depth]. Both lie dense in memory, the depth inside.
struct StreamProduct {
  DType dtype = DType::f16;
  int x = -1, matrix = -1;  // arguments
  int64_t x_offset = 0, matrix_offset = 0;
  Axis rows, lines, depth;
  bool lines_are_rows = false;  // of the kernel's product
  int64_t multiplications() const { return rows.size() * lines.size() * depth.size(); }
};
std::optional<StreamProduct> find_stream_product(const Kernel& kernel, const plan::Contracted& contracted,
                                                 std::string& why);

// Whether a step along the flat position of the axis is one of `unit` elements.
bool is_dense(const Access& access, const Axis& axis, int64_t unit);
// Whether all that the kernel reads of the argument is an element for each line: of a bias.
bool is_by_line(const Kernel& kernel, const StreamProduct& product, int arg);
// Whether the access is of element row * lines + line, whatever else the kernel does.
bool lies_flat(const Access& access, const StreamProduct& product);

}  // namespace npusim::cuda::codegen::stream::facts
