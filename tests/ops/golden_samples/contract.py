"""linear, matmul and friends, einsum, attention."""
from .core import INF, S, T, V, b, bl, d, f, h, i, i32, i8
import torch

Q = 0.6  # inputs for contractions are small, so that results stay in range
MK = (f, b, h)


def t(mk, *s):
    return mk(*s, s=Q)


for mk in MK + (d,):
    few = 3 if mk is d else None
    for x, w in (((2, 5), (3, 5)), ((5,), (3, 5)), ((2, 3, 5), (4, 5)), ((1, 1, 33), (7, 33)), ((2, 2, 3, 4), (5, 4)), ((1, 65), (1, 65)), ((7, 1), (33, 1)))[:few]:
        S("linear", t(mk, *x), t(mk, *w))
        S("linear", t(mk, *x), t(mk, *w), t(mk, w[0]))
    for x, y in (((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 2)), ((3, 5), (5, 2)), ((2, 3, 5), (5,)), ((5,), (2, 5, 3)), ((2, 3, 5), (5, 4)),
                 ((3, 5), (2, 5, 4)), ((2, 3, 5), (2, 5, 4)), ((2, 3, 5), (1, 5, 4)), ((1, 3, 5), (2, 5, 4)), ((2, 3, 4, 5), (2, 3, 5, 2)),
                 ((2, 1, 4, 5), (3, 5, 2)), ((2, 3, 4, 5), (5, 2)), ((4, 5), (2, 3, 5, 2)), ((2, 3, 4, 5), (5,)), ((5,), (2, 3, 5, 2)), ((1, 3, 2, 5), (2, 1, 5, 3)),
                 ((1, 1), (1, 1)), ((1, 33), (33, 7)), ((7, 65), (65, 1)), ((2, 2, 1, 3, 4), (2, 2, 4, 3)))[:few]:
        S("matmul", t(mk, *x), t(mk, *y))
    S("mm", t(mk, 3, 5), t(mk, 5, 4))
    S("mm", t(mk, 1, 33), t(mk, 33, 7))
    S("mm", t(mk, 17, 3), t(mk, 3, 9))
    S("bmm", t(mk, 2, 3, 5), t(mk, 2, 5, 4))
    S("bmm", t(mk, 1, 7, 1), t(mk, 1, 1, 7))
    for bi in ((4,), (3, 4), (1, 4), (3, 1), (1,), ()):
        S("addmm", t(mk, *bi), t(mk, 3, 5), t(mk, 5, 4))
        S("addmm", t(mk, *bi), t(mk, 3, 5), t(mk, 5, 4), beta=0.5, alpha=2)
    S("addmm", t(mk, 4), t(mk, 4, 4), t(mk, 4, 4), alpha=-1.5)
    S("addmm_", t(mk, 3, 4), t(mk, 3, 5), t(mk, 5, 4))
    S("addmv", t(mk, 3), t(mk, 3, 5), t(mk, 5))
    S("addmv", t(mk, 1), t(mk, 3, 5), t(mk, 5), beta=2, alpha=0.5)
    for bi in ((2, 3, 4), (4,), (1, 3, 1)):
        S("baddbmm", t(mk, *bi), t(mk, 2, 3, 5), t(mk, 2, 5, 4))
        S("baddbmm", t(mk, *bi), t(mk, 2, 3, 5), t(mk, 2, 5, 4), beta=0.3, alpha=-2)
        S("baddbmm", t(mk, *bi), t(mk, 2, 3, 5), t(mk, 2, 5, 4), beta=0, alpha=0.125)
    S("addbmm", t(mk, 3, 4), t(mk, 2, 3, 5), t(mk, 2, 5, 4), beta=0.5, alpha=2)
    S("dot", t(mk, 9), t(mk, 9))
    S("mv", t(mk, 3, 5), t(mk, 5))
    S("outer", t(mk, 3), t(mk, 4))
    S("addr", t(mk, 3, 4), t(mk, 3), t(mk, 4))
    S("addr", t(mk, 4), t(mk, 3), t(mk, 4), beta=0.5, alpha=2)
for op, x in (("mm", (f(0, 3), f(3, 2))), ("mm", (f(2, 0), f(0, 3))), ("matmul", (f(2, 0), f(0, 3))), ("matmul", (f(0, 2, 3), f(3, 2))),
              ("bmm", (f(0, 2, 3), f(0, 3, 2))), ("linear", (f(0, 3), f(2, 3), f(2))), ("linear", (f(2, 0), f(3, 0), f(3))),
              ("addmm", (f(3), f(2, 0), f(0, 3))), ("dot", (f(0), f(0)))):
    S(op, *x)
for op, x in (("mm", (i(3, 4), i(4, 2))), ("matmul", (i(3, 4), i(4, 2))), ("bmm", (i32(2, 3, 4), i32(2, 4, 2))), ("addmm", (i(2), i(3, 4), i(4, 2))), ("dot", (i(4), i(4))),
              ("outer", (i(3), f(4))), ("matmul", (i(2, 3, 4), i(4))), ("mv", (i(3, 4), i(4))), ("linear", (i(2, 3), i(4, 3)))):
    S(op, *x, need=False)
S("mm", V([[1.0, INF], [0.0, 1.0]]), V([[0.0, 1.0], [1.0, 2.0]]), name="inf times zero")
S("mm", h(2, 300, s=200), h(300, 2, s=200), name="f16 sums that overflow")
S("matmul", b(3, 1100), b(1100, 2))
S("linear", b(2, 1100), b(3, 1100), b(3))

for eq, shapes in (("ij,jk->ik", ((3, 5), (5, 4))), ("bij,bjk->bik", ((2, 3, 5), (2, 5, 4))), ("bij,jk->bik", ((2, 3, 5), (5, 4))), ("bhqd,bhkd->bhqk", ((1, 2, 3, 4), (1, 2, 5, 4))),
                   ("bhqk,bhkd->bhqd", ((1, 2, 3, 5), (1, 2, 5, 4))), ("bqhd,bkhd->bhqk", ((2, 3, 2, 4), (2, 5, 2, 4))), ("bhqk,bkhd->bqhd", ((2, 2, 3, 5), (2, 5, 2, 4))),
                   ("i,j->ij", ((3,), (4,))), ("i,i->", ((5,), (5,))), ("ij,kj->ik", ((3, 5), (4, 5))), ("ij,ij->i", ((3, 5), (3, 5))), ("ij,j->i", ((3, 5), (5,))),
                   ("ij->ji", ((3, 5),)), ("ij->j", ((3, 5),)), ("ij->", ((3, 5),)), ("ii->i", ((4, 4),)), ("ii->", ((4, 4),)), ("ij,jk", ((3, 5), (5, 4))), ("ba,cb", ((3, 5), (4, 3))),
                   ("...ij,...jk->...ik", ((2, 1, 3, 5), (4, 5, 2))), ("b...d,d->b...", ((2, 3, 4), (4,))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
                   ("bnd,hde->bhne", ((2, 3, 4), (2, 4, 3))), ("bchw,bkc->bkhw", ((1, 3, 2, 2), (1, 4, 3))), ("ijk,ilm,njm,nlk,abc->", ((1, 2, 3), (1, 2, 2), (2, 2, 2), (2, 2, 3), (1, 1, 2))),
                   ("d,f->df", ((5,), (3,))), ("blhp,bln->bhpn", ((1, 3, 2, 2), (1, 3, 4))), ("nct,ncp->ntp", ((2, 3, 4), (2, 3, 2))), (" i j , j k -> i k ", ((2, 3), (3, 2)))):
    for mk in (f, b):
        S("einsum", eq, [t(mk, *s) for s in shapes], name=f"{eq} {mk(1).desc()[:-3]}")

for mk in MK:
    q, k, v = t(mk, 2, 2, 4, 5), t(mk, 2, 2, 6, 5), t(mk, 2, 2, 6, 5)
    S("scaled_dot_product_attention", q, k, v)
    S("scaled_dot_product_attention", q, k, t(mk, 2, 2, 6, 3), need=False)
    S("scaled_dot_product_attention", q, k, v, None, 0.0, True)
    S("scaled_dot_product_attention", q, k, v, None, 0.0, False, scale=0.3)
    S("scaled_dot_product_attention", q, k, v, scale=-1.0)
    S("scaled_dot_product_attention", q, k, v, bl(4, 6), name=f"bool mask 2-d {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, bl(2, 1, 4, 6), name=f"bool mask 4-d {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, bl(1, 1, 1, 6, g="true"), name=f"bool mask of ones, row {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, t(mk, 4, 6), name=f"float mask 2-d {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, t(mk, 2, 2, 4, 6), 0.0, False, scale=0.2, name=f"float mask 4-d, scale {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, t(mk, 1, 1, 1, 6), name=f"float mask row {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, V([[0.0, -INF, 0.0, 0.0, -INF, 0.0], [0.0] * 6, [-INF] * 5 + [0.0], [-INF] * 6], mk(1).dtype),
      name=f"-inf mask, one row all masked {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", q, k, v, V([[True] * 6, [False] * 6, [True, False] * 3, [False] * 5 + [True]], torch.bool),
      name=f"bool mask, one row all false {mk(1).desc()[:-3]}")
    S("scaled_dot_product_attention", t(mk, 5, 4), t(mk, 5, 4), t(mk, 5, 4), None, 0.0, True)
    S("scaled_dot_product_attention", t(mk, 3, 5, 4), t(mk, 3, 5, 4), t(mk, 3, 5, 4))
    S("scaled_dot_product_attention", t(mk, 1, 2, 1, 16), t(mk, 1, 2, 33, 16), t(mk, 1, 2, 33, 16))
    S("scaled_dot_product_attention", t(mk, 1, 2, 7, 4), t(mk, 1, 2, 3, 4), t(mk, 1, 2, 3, 4), None, 0.0, True)
    S("scaled_dot_product_attention", t(mk, 2, 6, 3, 4), t(mk, 2, 2, 5, 4), t(mk, 2, 2, 5, 4), None, 0.0, False, enable_gqa=True)
    S("scaled_dot_product_attention", t(mk, 1, 4, 3, 4), t(mk, 1, 1, 3, 4), t(mk, 1, 1, 3, 4), None, 0.0, True, enable_gqa=True)
    S("scaled_dot_product_attention", t(mk, 1, 4, 3, 4), t(mk, 1, 2, 5, 4), t(mk, 1, 2, 5, 4), bl(1, 1, 3, 5), 0.0, False, scale=0.4, enable_gqa=True)
    S("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, False, need=False)
    S("_scaled_dot_product_flash_attention_for_cpu", q, q, q, 0.0, True, scale=0.3, need=False)
S("scaled_dot_product_attention", f(1, 1, 2, 4, g="big"), f(1, 1, 3, 4, g="big"), f(1, 1, 3, 4), name="very large scores")

for mk in MK:
    ends = T((3,), torch.int32, vals=[2, 2, 7])
    S("_grouped_mm", t(mk, 7, 16), t(mk, 3, 16, 8), ends)
    S("_grouped_mm", t(mk, 3, 5, 16), t(mk, 16, 8), T((3,), torch.int32, vals=[3, 3, 8]))
    S("_grouped_mm", t(mk, 5, 8), t(mk, 8, 24), T((3,), torch.int32, vals=[3, 4, 8]))
    S("_grouped_mm", t(mk, 3, 5, 16), t(mk, 3, 16, 8))
