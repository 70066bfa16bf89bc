"""Every operator on its own, with random arguments drawn from its schema, against eager PyTorch.

The same calls in every run; NPUSIM_OPERATOR_CALLS=1000 draws as many new ones of each operator."""

import os
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import errors as hypothesis_errors
from hypothesis import strategies as st
from operands import Operand
from operator_calls import Call, Unfit

CALLS = int(os.environ.get("NPUSIM_OPERATOR_CALLS", "0"))
PROFILE = settings(
    max_examples=CALLS or 6,
    derandomize=not CALLS,
    database=None,
    deadline=None,
    phases=[Phase.generate, *([Phase.shrink] if CALLS else [])],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
STEPS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# Not arithmetic on their operands: what memory holds, or what PyTorch itself does not promise.
EXCLUDED = {
    "aten.empty",
    "aten.empty_like",
    "aten.new_empty",
    "aten.empty_strided",
    "aten.new_empty_strided",
    "aten.empty_permuted",
    "aten._reshape_alias",
    "aten.as_strided",
    "aten.as_strided_",
    "aten.as_strided_copy",
    "aten.as_strided_scatter",
    "aten.resize",
}
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AssertionError, ArithmeticError)
counts: dict[str, list[int]] = {}  # by operator: compared, refused


def overload(name):
    _, packet, which = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), which)


def operators():
    found = []
    for op in npusim.ops():
        packet = op.name.rsplit(".", 1)[0]
        if not op.name.startswith("aten.") or packet in EXCLUDED or "_assert" in packet:
            continue
        # Those that draw are in test_draws.py; attentions are asked for no dropout.
        if torch.Tag.nondeterministic_seeded not in overload(op.name).tags or "attention" in packet:
            found.append(op.name)
    return found


def as_numpy(value):
    return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()


def wrong(found, call, results):
    """Which elements are not what they may be: a few rounding steps from float64, and from what operands that are a step
    off give."""
    try:
        wide = call.eager(wide=True)
        runs = []
        for seed in range(4):
            generator = torch.Generator().manual_seed(seed)

            def nudged(tensor, generator=generator):
                if not tensor.is_floating_point():
                    return tensor
                noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
                return torch.where(tensor == 0, tensor, (tensor.double() * (1 + 2 * 2.0**-23 * noise)))

            runs.append(call.eager(nudged, wide=True))
    except REFUSALS:
        wide, runs = results, []  # there is none in float64
    bad = []
    for at, (expected, exact) in enumerate(zip(results, wide)):
        a, e = found[at].astype("float64"), as_numpy(expected).astype("float64")
        if a.shape != e.shape:
            return [f"shape {a.shape}, expected {e.shape}"]
        x = as_numpy(exact).astype("float64") if exact.shape == expected.shape else e
        with np.errstate(all="ignore"):
            same = (a == e) | (a == x) | (np.isnan(a) & (np.isnan(e) | np.isnan(x)))
            step = STEPS.get(expected.dtype, 0.0)
            spread = np.zeros_like(e)
            for run in runs:
                if run[at].shape == expected.shape:
                    difference = np.abs(as_numpy(run[at]).astype("float64") - x)
                    spread = np.fmax(spread, np.where(np.isnan(difference), 0, difference))
                    # Where a step decides whether it is a number at all, nothing is known.
                    spread = np.where(np.isnan(as_numpy(run[at])) != np.isnan(x), np.inf, spread)
            if expected.dtype.is_floating_point:
                size = np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0)
                near = 8 * spread + 3 * np.abs(e - x) + 16 * step * np.abs(x) + 8 * step * size * 2.0**-4 + 2.0**-126
                if "var" in call.packet or "std" in call.packet:  # of equal elements: 0, or the rounding of their mean
                    near = near + 4 * step * max(
                        (o.base.double().abs().max().item() for o in call.operands() if o.base.numel()), default=0
                    )
                if any(part in call.packet for part in ("linear1d", "linear2d", "linear3d", "cubic2d", "_aa")):
                    # Positions, too, are rounded: by a step of their own size, along which elements differ.
                    base = next(call.operands()).base
                    largest = base.double().abs().max().item() if base.numel() else 0
                    near = near + 2 * step * max(base.shape, default=1) * largest
                if expected.dtype == torch.float16:
                    near = near + 2.0**-23
                same |= np.abs(a - x) <= near
                same |= np.abs(a - e) <= near
                largest = torch.finfo(expected.dtype).max  # what overflows in a step more or less
                same |= (np.abs(x) > largest * 0.999) & (np.abs(a) > largest * 0.99) & (np.sign(a) == np.sign(x))
            else:
                same |= (spread > 0) | (e != x)  # a step decides which integer it is
        if not same.all():
            where = np.unravel_index(np.argmin(same), same.shape)
            bad.append(
                f"output {at} {[int(i) for i in where]}: {a[where]}, expected {e[where]} ({x[where]} in float64)"
            )
    return bad


def writes_twice(call):
    """Whether elements are put where another one is put, so that the last one stays, whichever that is."""
    if call.packet not in ("put", "index_put", "_unsafe_index_put") or call.named.get("accumulate"):
        return False
    tensor = call.named["self"].tensor()
    places = torch.arange(tensor.numel())
    if call.packet == "put":
        found = places[call.named["index"].tensor()]
    else:
        index = tuple(slice(None) if i is None else i.tensor() for i in call.named["indices"])
        found = places.reshape(tensor.shape)[index]
    return found.unique().numel() < found.numel()


def unspecified(call):
    """Where PyTorch promises nothing: floats that no integer holds, shifts by more than there are bits, elements that
    are written twice."""
    name = call.packet
    if "shift" in name or writes_twice(call):
        return True
    to_integer = [v for v in call.args if isinstance(v, torch.dtype) and not v.is_floating_point]
    odd = any(
        o.base.is_floating_point() and o.base.numel() and not (o.base.isfinite() & (o.base.abs() < 100)).all()
        for o in call.operands()
    )
    if name == "type_as" and not call.named["other"].base.is_floating_point():
        to_integer.append(call.named["other"].base.dtype)
    negative = any(o.base.is_floating_point() and (o.base < 0).any() for o in call.operands())
    return (odd or (negative and torch.uint8 in to_integer)) and bool(to_integer)


def check(call, name):
    try:
        results = call.eager()
    except REFUSALS:
        return None  # PyTorch takes no such call
    if unspecified(call):
        return None
    ir, inputs = call.ir(results)
    count = counts.setdefault(name, [0, 0])
    try:
        session = npusim.Session(npusim.compile(ir, dtype="float32"))
    except (npusim.UnsupportedError, npusim.BadInputError) as error:  # named, and no fault of npusim itself
        assert str(error)
        count[1] += 1
        return None
    found = session.run(inputs) if inputs else session.run()
    found = [np.asarray(found[info["name"]]).astype("float64") for info in ir["graph_outputs"]]
    count[0] += 1
    return wrong(found, call, results)


class Given(Call):
    """A call with these arguments: tensors, lists of them, values."""

    def __init__(self, name, *args):
        self.op = overload(name)
        self.packet = name.split(".")[1]
        self.args = [Operand(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        self.args += [arg.default_value for arg in self.op._schema.arguments[len(args) :]]
        self.named = dict(zip((arg.name for arg in self.op._schema.arguments), self.args))


NAN, INF = float("nan"), float("inf")
FAR = torch.tensor([NAN, INF, -INF, 0.3, -1.0])
BYTES, SHORTS = torch.ones(2, dtype=torch.int8), torch.ones(2, 2, dtype=torch.int16)


@pytest.mark.parametrize(
    "name, args",
    [
        # What random calls found: eps is of the type that ATen computes in, places that are no numbers, scalars as vectors.
        ("aten.rms_norm.default", (torch.full((2, 4), 0.01, dtype=torch.bfloat16), [4])),
        ("aten.rms_norm.default", (torch.full((2, 4), 0.01, dtype=torch.float16), [4])),
        *(
            ("aten.grid_sampler_2d.default", (torch.arange(6.0).reshape(1, 1, 2, 3), at, 0, border, False))
            for at in [torch.tensor([[[[NAN, 0.9], [0.9, NAN], [INF, -INF]]]])]
            for border in (1, 2)
        ),
        *(
            (f"aten.grid_sampler_{dims}d.default", (image, at, mode, border, False))
            for dims, extents in ((2, (4, 6)), (3, (2, 4, 3)))
            for image in [torch.arange(24.0).reshape(1, 1, *extents)]
            for at in [torch.cartesian_prod(*[FAR] * dims).reshape(1, *[1] * (dims - 1), -1, dims)]
            for mode in (0, 1)
            for border in (0, 1, 2)
        ),
        ("aten.index_fill.int_Scalar", (torch.tensor(2.0), 0, torch.zeros(0, dtype=torch.int64), 0)),
        ("aten.index_fill.int_Scalar", (torch.tensor(2.0), 0, torch.zeros(1, dtype=torch.int64), 5)),
        ("aten.index_copy.default", (torch.tensor(2.0), 0, torch.zeros(0, dtype=torch.int64), torch.zeros(0))),
        ("aten.index_add.default", (torch.tensor(2.0), 0, torch.zeros(1, dtype=torch.int64), torch.tensor(1.0))),
        (
            "aten.cosine_similarity.default",
            (torch.tensor([0.2, -0.5], dtype=torch.float64), torch.tensor([[-7, 1], [8, 7]], dtype=torch.int8), 0, 0.5),
        ),
        ("aten.norm.ScalarOpt_dtype", (torch.tensor([3.0, 4.0]), None, torch.float32)),
    ],
)
def test_found(name, args):
    call = Given(name, *args)
    assert check(call, name) == [], call


@pytest.mark.parametrize(
    "name, args, results, reason",
    [
        (
            "aten.index_add.default",
            (BYTES, 0, torch.zeros(2, dtype=torch.int64), BYTES, 0.5),
            [BYTES],
            "alpha 0.5 is no integer",
        ),
        ("aten.topk.default", (torch.tensor(2.0), 0), [torch.tensor(2.0), torch.tensor(0)], "no element of a scalar"),
        ("aten._scaled_dot_product_attention_math.default", (SHORTS,) * 3, [SHORTS, SHORTS], "no attention of int16"),
    ],
)
def test_refused(name, args, results, reason):
    ir, _ = Given(name, *args).ir(results)
    with pytest.raises(npusim.UnsupportedError, match=reason):
        npusim.compile(ir, dtype="float32")


@pytest.mark.parametrize(
    "name, args, twice",
    [
        ("aten.put.default", (torch.zeros(3), torch.tensor([0, -3]), torch.ones(2), False), True),
        ("aten.put.default", (torch.zeros(3), torch.tensor([0, -3]), torch.ones(2), True), False),
        ("aten.put.default", (torch.zeros(3), torch.tensor([0, -2]), torch.ones(2), False), False),
        ("aten.index_put.default", (torch.zeros(2, 3), [None, Operand(torch.tensor([1, 1]))], torch.ones(2, 2)), True),
        ("aten.index_put.default", (torch.zeros(2, 3), [None, Operand(torch.tensor([1, 0]))], torch.ones(2, 2)), False),
    ],
)
def test_what_is_written_twice_is_not_compared(name, args, twice):
    assert writes_twice(Given(name, *args)) == twice


@pytest.mark.parametrize("name", operators())
def test_operator(name):
    op = overload(name)

    @PROFILE
    @given(st.data())
    def run(data):
        try:
            call = Call(data.draw, op)
        except Unfit:
            reject()
        with warnings.catch_warnings(action="ignore"):
            found = check(call, name)
        if found is None:
            reject()
        assert not found, f"{call}: {found}"

    try:
        run()
    except hypothesis_errors.Unsatisfiable:
        pass


def test_most_operators_were_compared():
    """Of those that ran here, in one process: goldens hold the others to PyTorch (tests/ops)."""
    if len(counts) < 400:
        pytest.skip("not all operators ran")
    compared = {name for name, (done, _) in counts.items() if done}
    assert len(compared) > 400, sorted(set(operators()) - compared)
