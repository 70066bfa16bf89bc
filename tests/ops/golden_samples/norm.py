"""Softmax family and normalisations."""
from .core import BY, INF, NAN, S, T, V, b, bl, d, f, h, i
import torch

XS = ((f(2, 7), 1), (f(2, 7), 0), (f(2, 7), -1), (f(2, 3, 4), 1), (f(2, 3, 4, 2), -3), (f(2, 2, 3, 2, 2), 2), (f(), 0), (f(), -1), (f(5), 0), (f(33, 2), 0), (f(1, 65), 1),
      (f(1, 1030, s=3), -1), (b(1, 1030, s=3), -1), (h(2, 65), -1), (b(3, 5), 0), (d(3, 5), 1), (f(0, 3), 1), (f(3, 0), 1), (f(3, 1), 1),
      (f(3, 5, g="big"), 1), (h(3, 5, g="big"), 1), (f(2, 25, g="special"), 1),
      (V([[-INF, -INF, -INF], [-INF, 0.0, 1.0], [INF, 0.0, 1.0], [NAN, 0.0, 1.0], [1e30, -1e30, 1e30], [88.0, 89.0, -INF]], tag="rows"), 1),
      (V([[-3.4028234663852886e38] * 3, [0.0, -3.4028234663852886e38, 1.0]], tag="minfloat"), -1))
for x, dm in XS:
    for op in ("softmax.int", "log_softmax.int"):
        S(op, x, dm)
    for op in ("_softmax", "_log_softmax"):
        S(op, x, dm, False)
    S("_safe_softmax", x, dm, need=False)
for op in ("softmax.int", "log_softmax.int"):
    for x, dt in ((b(3, 9), torch.float32), (h(3, 9), torch.float32), (f(3, 9), torch.float64), (f(3, 9), torch.float32), (i(3, 4), torch.float32), (f(3, 4), torch.bfloat16),
                  (b(2, 3, 4), torch.float32)):
        S(op, x, -1, dt)
        S(op, x, 0, dtype=dt)
    S(op, f(3, 4), -1, None)

for mk in (f, b, h, d):
    for s, n in (((2, 7), [7]), ((2, 3, 4), [4]), ((2, 3, 4), [3, 4]), ((5,), [5]), ((2, 2, 3, 2), [2, 3, 2]), ((1, 1, 33), [33]))[:2 if mk is d else None]:
        S("layer_norm", mk(*s), n)
        S("layer_norm", mk(*s), n, mk(*n), mk(*n))
        S("layer_norm", mk(*s), n, mk(*n), None, 1e-3)
        S("native_layer_norm", mk(*s), n, mk(*n), mk(*n), 1e-6)
        S("native_layer_norm", mk(*s), n, None, None, 1e-5)
        S("rms_norm", mk(*s), n)
        S("rms_norm", mk(*s), n, mk(*n))
        S("rms_norm", mk(*s), n, mk(*n), 1e-3)
        S("rms_norm", mk(*s), n, None, 0.1)
    S("layer_norm", mk(2, 5), [5], mk(5), mk(5), 1e-12, False)
    if mk in (f, b):
        S("layer_norm", mk(1, 1030), [1030], mk(1030), mk(1030), 1e-5)
        S("rms_norm", mk(1, 1030), [1030], mk(1030), 1e-6)
    S("layer_norm", mk(2, 5), [5], None, mk(5), name=f"only a bias (told by the name) {mk(1).desc()[:-3]}")
S("layer_norm", b(2, 5), [5], f(5), f(5), need=False)
S("rms_norm", b(2, 5), [5], f(5), 1e-6, need=False)
S("layer_norm", f(0, 5), [5], f(5), f(5))
S("layer_norm", V([[10000.0, 10001.0, 10002.0, 10003.0]], tag="largemean"), [4])
S("layer_norm", V([[2.0, 2.0, 2.0], [NAN, 1.0, 2.0], [INF, 1.0, 2.0]], tag="edge"), [3])
S("rms_norm", V([[0.0, 0.0, 0.0], [NAN, 1.0, 2.0], [1e15, 1.0, 2.0]], tag="edge"), [3], None, 1e-6)
S("native_layer_norm", b(3, 9), [9], b(9), None, 1e-5)

for mk in (f, b, h):
    for s, g in (((2, 4, 3), 2), ((2, 6, 3, 2), 3), ((1, 4, 5, 5), 1), ((2, 4, 3, 3), 4), ((3, 4), 2), ((1, 4, 2, 3, 2), 2), ((2, 33, 2), 11)):
        c = s[1]
        S("group_norm", mk(*s), g)
        S("group_norm", mk(*s), g, mk(c), mk(c))
        S("group_norm", mk(*s), g, mk(c), mk(c), 1e-2)
    for s, g in (((2, 4, 3), 2), ((1, 6, 3, 3), 3)):
        c, hw = s[1], T(s, torch.float32).shape[2:]
        n = 1
        for k in hw:
            n *= k
        S("native_group_norm", mk(*s), mk(c), mk(c), s[0], c, n, g, 1e-5)
        S("native_group_norm", mk(*s), None, None, s[0], c, n, g, 1e-3)
    for s in ((2, 4, 3, 3), (3, 4), (2, 4, 5), (1, 3, 2, 2, 3), (1, 1, 4, 4), (2, 33, 2, 1)):
        c = s[1]
        m, v, w, bi = mk(c), mk(c, g="pos"), mk(c), mk(c)
        S("batch_norm", mk(*s), w, bi, m, v, False, 0.1, 1e-5, True)
        S("batch_norm", mk(*s), None, None, m, v, False, 0.1, 1e-3, False)
        S("_native_batch_norm_legit_no_training", mk(*s), w, bi, m, v, 0.1, 1e-5)
        S("_native_batch_norm_legit_no_training", mk(*s), None, None, m, v, 0.1, 1e-2)
        if len(s) > 2:
            S("instance_norm", mk(*s), w, bi, None, None, True, 0.1, 1e-5, True)
            S("instance_norm", mk(*s), None, None, None, None, True, 0.1, 1e-3, True)
            S("instance_norm", mk(*s), w, bi, m, v, False, 0.1, 1e-5, False)
S("batch_norm", b(2, 4, 3), f(4), f(4), f(4), f(4, g="pos"), False, 0.1, 1e-5, False, need=False)
S("group_norm", f(2, 4, 3), 2, f(4), None)
for s in ((2, 5, 3), (1, 7, 2, 2)):
    S("cosine_similarity", f(*s), f(*s))
    S("cosine_similarity", f(*s), f(*s), 0)
    S("cosine_similarity", f(*s), f(*s), -1, 1e-3)
    S("cosine_similarity", b(*s), b(*s), 1)
S("cosine_similarity", f(2, 4), f(4), 1)
S("cosine_similarity", f(4), f(4), 0)
