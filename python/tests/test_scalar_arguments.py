"""Numbers as arguments: each is taken as PyTorch takes it, by the dtype of what stands beside it, with all its digits."""

import itertools
import random
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode

from modules import Calls

INF = float("inf")
WHOLE = [0, 1, 3, -2, 255, 2**24 + 1, 2**31 - 1, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)]
LONG = [1e9 + 7, 2.0**24 + 1, 2.0**31 - 1, 1e18, -(2.0**53) + 1, 1e-50]  # of more digits, or less, than float32 has
NUMBERS = [*WHOLE, *LONG, True, 0.5, -0.5, 0.1, 2.5, -2.5, -0.0, 1e10, 1e-40, 1e300, INF, -INF, float("nan")]
ENDS = {torch.uint8: [0, 255], torch.int8: [-128, 127], torch.int32: [2**24 + 1, 2**31 - 1], torch.int64: [2**53 + 1, -(2**62) - 1]}
DTYPES = [[torch.bool, *ENDS, torch.float32, torch.float64], [torch.bfloat16]]  # those of one program
# What has no answer to compare: drawn numbers and layouts; and where PyTorch itself has several.
OTHERS = ("uniform", "normal", "rrelu", "linspace", "logspace", "arange", "range", "as_strided", "full", "histc", "renorm", "empty")
# By their definitions; see docs/numerics.md for what a number beside 16 bits is computed in.
APPROXIMATE = ("pow", "exp", "elu", "celu", "softplus", "xlog", "zeta", "polygamma", "chebyshev", "hermite", "laguerre", "legendre")


def operators():
    """Those with a number among their arguments."""
    found = []
    for op in npusim.ops():
        space, *rest = op.name.split(".")
        if space != "aten" or len(rest) != 2 or any(part in rest[0] for part in OTHERS):
            continue
        call = getattr(getattr(torch.ops.aten, rest[0]), rest[1])
        if any("Scalar" in str(arg.type) or "number" in str(arg.type) for arg in call._schema.arguments):
            found.append(call)
    return found


def operand(dtype, rank):
    if dtype == torch.bool:
        x = torch.tensor([True, False, True, True])
    elif dtype.is_floating_point:
        x = torch.tensor([0.1, -2.0, 3.5, INF if rank == 1 else 7.0]).to(dtype)
    else:
        x = torch.tensor([*ENDS[dtype], 3, 5], dtype=dtype)
    return x.reshape({1: (4,), 2: (2, 2), 3: (1, 2, 2)}[rank])


def arguments(call, dtype, number, ranks):
    """Tensors and the others, by name; None where the schema asks for what is not here."""
    tensors, others, ranks = {}, {}, iter(ranks)
    for arg in call._schema.arguments:
        kind = str(arg.type)
        if arg.name in ("mask", "condition"):
            tensors[arg.name] = torch.tensor([True, False, False, True])
        elif arg.name == "index":
            tensors[arg.name] = torch.tensor([0, 2])
        elif kind == "Tensor":
            tensors[arg.name] = operand(dtype, next(ranks))
        elif arg.name == "alpha" and not -(2**63) < number < 2**64:
            continue  # whose negative or product PyTorch has no number for
        elif arg.name == "exponent" and (number is True or abs(number) >= 2**24):
            return None  # PyTorch's own traces and loops differ
        elif "Scalar" in kind or "number" in kind:
            others[arg.name] = number
        elif kind == "int" and not arg.has_default_value():
            others[arg.name] = 0
        elif kind == "str" and not arg.has_default_value():
            others[arg.name] = {"reduce": "add"}.get(arg.name, "none")
        elif not arg.has_default_value():
            return None
    return tensors, others


def cases(call, dtypes, numbers):
    """(tensors, other arguments, PyTorch's result) where it has one."""
    for dtype, number in itertools.product(dtypes, numbers):
        for ranks in ((1, 1, 1), (2, 2, 2), (1, 2, 1), (3, 3, 3), (2, 3, 3), (2, 1, 1)):
            given = arguments(call, dtype, number, ranks)
            if given is None or (dtype == torch.bfloat16 and number == 1e-40):  # nothing, or not, by where it is rounded
                break
            try:
                result = call(**given[0], **given[1])
                with FakeTensorMode() as traced:
                    call(**{name: traced.from_tensor(x) for name, x in given[0].items()}, **given[1])
            except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError, ZeroDivisionError, OverflowError):
                continue
            if isinstance(result, torch.Tensor):
                yield *given, result
            break


def alike(found, wanted, call, narrow):
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if not wanted.is_floating_point():
        return torch.equal(found, wanted)
    near = 1e-2 if narrow else 1e-13 if wanted.dtype == torch.float64 else 2e-6
    near *= 10 if any(part in call._schema.name for part in APPROXIMATE) else 1
    least = torch.finfo(wanted.dtype).tiny
    return torch.allclose(found.double(), wanted.double(), rtol=near, atol=least, equal_nan=True)


def check(call, dtypes, numbers):
    """Those that are not PyTorch's."""
    given = list(cases(call, dtypes, numbers))
    if not given:
        return []
    flat = [x.clone() for tensors, _, _ in given for x in tensors.values()]

    def run(*inputs):
        left = iter(inputs)
        return [call(**{name: next(left) for name in tensors}, **others) for tensors, others, _ in given]

    with warnings.catch_warnings(action="ignore"):
        program = npusim.compile(Calls(run), tuple(flat), dtype="bfloat16" if torch.bfloat16 in dtypes else "float32")
    session = npusim.Session(program, threads=1)
    found = [torch.from_numpy(x.astype("float32") if x.dtype.kind == "V" or "bfloat16" in str(x.dtype) else x) for x in session.run(*flat).values()]
    wanted = [x.float() if x.dtype == torch.bfloat16 else x for _, _, x in given]
    return [
        (str(call), {name: x.tolist() for name, x in tensors.items()}, others, w, f)
        for (tensors, others, _), w, f in zip(given, wanted, found, strict=True)
        if not alike(f, w, call, torch.bfloat16 in dtypes)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_beside_every_dtype(seed):
    random.seed(seed)
    for call in random.sample(operators(), 6):
        for dtypes in DTYPES:
            assert not check(call, dtypes, random.sample(NUMBERS, 5))


@pytest.mark.parametrize("name", ["masked_fill.Tensor", "clamp.Tensor"])
def test_a_number_in_the_place_of_a_tensor(name):
    """As IR may have it."""
    operands = [torch.tensor([2**53 + 1, 2**31 + 5]), torch.tensor([True, False])][: 2 if name == "masked_fill.Tensor" else 1]
    inputs = [
        {"name": f"x{i}", "shape": [2], "dtype": str(x.dtype).removeprefix("torch.")} for i, x in enumerate(operands)
    ]
    result = {"name": "y", "shape": [2], "dtype": "int64"}
    attrs = {"value" if name == "masked_fill.Tensor" else "min": 2**53 + 3}
    node = {"name": "y", "op_type": f"aten.{name}", "inputs": inputs, "outputs": [result], "attrs": attrs}
    ir = {"graph_inputs": inputs, "graph_outputs": [result], "weights": [], "nodes": [node]}
    found = npusim.Session(npusim.compile(ir, dtype="float32")).run(*operands)["y"].tolist()
    assert found == [2**53 + 3, 2**31 + 5 if name == "masked_fill.Tensor" else 2**53 + 3]


def written(number, x):
    y = x.clone()
    y[1:] = number
    return y


CREATORS = {
    "full": lambda number, x: torch.full((2,), number, dtype=x.dtype),
    "full_like": lambda number, x: torch.full_like(x, number),
    "new_full": lambda number, x: x.new_full((2,), number),
    "scalar_tensor": lambda number, x: torch.scalar_tensor(number, dtype=x.dtype),
    "fill_": lambda number, x: (x * 1).fill_(number),
    "written": written,
}


@pytest.mark.parametrize("dtype", [*ENDS, torch.bool, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CREATORS)
def test_what_is_filled_has_all_digits(name, dtype):
    """Or is refused, where PyTorch refuses the number."""
    create, x = CREATORS[name], torch.ones(2, dtype=dtype)
    wanted, refused = {}, []
    for number in NUMBERS:
        try:
            wanted[len(wanted)] = (number, create(number, x))
        except (RuntimeError, OverflowError):
            refused.append(number)

    def run(x):
        return [create(number, x) for number, _ in wanted.values()]

    found = npusim.Session(npusim.compile(Calls(run), (x,), dtype="float32")).run(x)
    for (number, value), output in zip(wanted.values(), found.values(), strict=True):
        assert torch.equal(value.nan_to_num(nan=7), torch.from_numpy(output).nan_to_num(nan=7)), number
    for number in refused:
        with pytest.raises((npusim.Error, RuntimeError, OverflowError)):
            npusim.compile(Calls(lambda x, number=number: [create(number, x)]), (x,), dtype="float32")
