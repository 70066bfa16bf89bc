// A Fourier transform of rows as products with matrices of cosines and sines.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// Of a kernel that transforms rows (kernel/facts/fourier.h), for devices without a transform of their own. A length n =
// n1 · n2 is n1 · n2 transforms of n2 and of n1 elements, with twiddle factors between them (Cooley and Tukey 1965), so
// that matrices stay small; a long length without such factors is a convolution of a length that has them (Bluestein
// 1970). The matrices are steps that read nothing: they are computed once.
Unfused fourier_steps(const Kernel& kernel);

}  // namespace npusim
