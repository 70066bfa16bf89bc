// SIMD loops of attention over tiles whose rows are narrow_stride floats apart.
#pragma once
#include <cstdint>

namespace npusim::cpu::attention {

// Online softmax of one tile of scores: s becomes exp(s − top), where top, the rows' maximum so far, and sum, of the
// exponentials so far, are updated; factor is what earlier results must be multiplied by. keys <= narrow_depth; all
// arrays have room for `rows` rounded up to 16.
void softmax_tile(float* s, int64_t rows, int64_t keys, float* top, float* sum, float* factor);

// row r of x (ld apart, `count` floats) *= factor[r]; rows of factor 1 are left.
void scale_rows(float* x, int64_t ld, int64_t rows, int64_t count, const float* factor);

// s[r, j] += mask[r·ld + j]
void add_mask(float* s, const float* mask, int64_t ld, int64_t rows, int64_t keys);
// What becomes of a masked score: `value`, or that added to it.
struct Masked {
  float value;
  bool added;
};
// s[r, j] masked where kept[r·ld + j] is not `keeps`
void keep_scores(float* s, const uint8_t* kept, int64_t ld, bool keeps, Masked masked, int64_t rows, int64_t keys);
float largest(const float* x, int64_t count);  // −inf when empty; inf where there is a NaN

}  // namespace npusim::cpu::attention
