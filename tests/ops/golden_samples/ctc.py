"""The CTC loss: lengths as numbers and as tensors, targets one by one and concatenated."""
from .core import INF, NAN, S, V, d, f, i, i32
import torch


def lengths(*numbers):
    return V(list(numbers), torch.int64)


REPEATS = V([[1, 1, 2], [3, 3, 3]], torch.int64, tag="repeats")
PADDED = V([[1, 2, -100], [3, -1, 99]], torch.int64, tag="padded")
for mk in (f, d):
    for reduction in (0, 1, 2):
        S("ctc_loss.IntList", mk(6, 2, 5), i(2, 3, g="idx5"), [6, 5], [3, 2], 0, reduction)
        S("ctc_loss.Tensor", mk(6, 2, 5), i(2, 3, g="idx5"), lengths(6, 5), lengths(3, 2), 0, reduction)
        S("ctc_loss.Tensor", mk(6, 2, 5), i(5, g="idx5"), lengths(6, 5), lengths(3, 2), 4, reduction)
    S("_ctc_loss", mk(6, 2, 5), i(2, 3, g="idx5"), [6, 6], [3, 3])
for blank in (0, 2, 4):  # among the targets too
    S("ctc_loss.IntList", f(7, 2, 5), REPEATS, [7, 6], [3, 3], blank, 0)
    S("ctc_loss.Tensor", f(7, 2, 5), REPEATS, lengths(7, 6), lengths(3, 3), blank, 0)
    S("_ctc_loss", f(7, 2, 5), REPEATS, [7, 7], [3, 3], blank)
for short in (False, True):  # targets that no time is left for, empty targets, no time at all
    for reduction in (0, 1, 2):
        S("ctc_loss.IntList", f(4, 3, 5), V([[1, 1, 1], [2, 2, 3], [1, 2, 3]], torch.int64), [4, 3, 3], [3, 3, 0], 0, reduction, short)
        S("ctc_loss.Tensor", f(4, 3, 5), V([[1, 1, 1], [2, 2, 3], [1, 2, 3]], torch.int64), lengths(4, 3, 3), lengths(3, 3, 0), 0, reduction, short)
    S("ctc_loss.IntList", f(4, 2, 5), i(2, 3, g="idx5"), [0, 0], [0, 2], 0, 0, short)
    S("ctc_loss.Tensor", f(4, 2, 5), i(2, 3, g="idx5"), lengths(0, 0), lengths(0, 2), 0, 0, short)
S("ctc_loss.Tensor", f(6, 2, 5), PADDED, lengths(6, 6), lengths(2, 1), 0, 0)
S("ctc_loss.IntList", f(6, 2, 5), PADDED, [6, 6], [2, 1], 0, 0)
for n in (1, 2):  # steps
    S("ctc_loss.IntList", f(n, 2, 5), i(2, 1, g="idx5"), [n, n], [1, 1])
    S("_ctc_loss", f(n, 2, 5), i(2, 1, g="idx5"), [n, n], [1, 1])
S("ctc_loss.IntList", f(5, 2, 4), i(2, 0, g="idx4"), [5, 3], [0, 0], 0, 0)
S("ctc_loss.Tensor", f(5, 2, 4), i(2, 0, g="idx4"), lengths(5, 3), lengths(0, 0), 0, 0)
S("ctc_loss.Tensor", f(5, 2, 4), i(0, g="idx4"), lengths(5, 3), lengths(0, 0), 0, 0)
S("ctc_loss.IntList", f(5, 3, 4), i(6, g="idx4"), [5, 4, 3], [3, 1, 2], 0, 0)
S("ctc_loss.IntList", f(33, 3, 40), i32(3, 9, g="idx40"), [33, 20, 31], [9, 7, 8])
S("ctc_loss.Tensor", f(33, 3, 40), i32(3, 9, g="idx40"), V([33, 20, 31], torch.int32), V([9, 7, 8], torch.int32))
S("_ctc_loss", f(33, 3, 40), i32(3, 9, g="idx40"), [33] * 3, [9] * 3)
for target in (i(3, g="idx5"), i(1, 3, g="idx5")):  # without a batch
    S("ctc_loss.IntList", f(6, 5), target, [6], [3], 0, 0)
    S("ctc_loss.Tensor", f(6, 5), target, lengths(6), lengths(3), 0, 0)
    S("ctc_loss.Tensor", f(6, 5), target, V(6, torch.int64), V(3, torch.int64))
for x in (V([[[-INF, 0.0, -1.0]], [[0.0, -INF, -1.0]], [[-2.0, -1.0, -INF]]]), V([[[NAN, 0.0, -1.0]], [[0.0, 1.0, -1.0]], [[-2.0, -1.0, -INF]]]),
          V([[[-INF, -INF, -INF]], [[0.0, 1.0, -1.0]], [[-2.0, -1.0, -INF]]]), V([[[-1e30, -900.0, 700.0]], [[0.0, 1.0, -1.0]], [[-2.0, 88.0, -INF]]])):
    for target in ([[1, 2]], [[1, 1]], [[2, 0]]):
        S("ctc_loss.IntList", x, V(target, torch.int64), [3], [2], 0, 0)
        S("ctc_loss.IntList", x, V(target, torch.int64), [3], [2], 0, 0, True)
