"""What holds while torch.export traces a model, besides the model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import _ModuleStackTracer
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

from ...errors import Problem, UnsupportedError
from ..facts.levels import levels_kept, without_level
from ..facts.threads import replaced, without_logs, without_warnings
from ..forms.kernels import with_eager_results
from .alike import Alike
from .branches import CHOOSING, places_noted
from .packed import Packs, packs
from .swallowed import noted


QUIET = ("torch.export", "torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")  # loggers


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Without what the tracer says of itself, without nn.MultiheadAttention's one operator for all it does, and without
    nn.Transformer's look at the numbers of a mask: it only chooses between the mask and a name for it."""
    apart = replaced(torch.backends.mha, "get_fastpath_enabled", lambda: False)
    look = replaced(torch.nn.modules.transformer, "_detect_is_causal_mask", _is_told_causal)
    chain = replaced(torch, "chain_matmul", _chain_matmul(torch.chain_matmul))
    vmap = replaced(torch._functorch.vmap, "_remove_batch_dim", without_level)
    # How many a mask chooses that stands beside other indices is a symbol that nothing binds: they say it too.
    unbound = torch.fx.experimental._config.patch(soft_pending_unbacked_not_found_error=True)
    with levels_kept(), without_logs(*QUIET), without_warnings(), apart, look, chain, vmap, unbound, Alike():
        with _ctc_loss_known(), with_eager_results(), _modules_called():
            yield


@contextlib.contextmanager
def following_example() -> Iterator[None]:
    """Where a Python branch or a size depends on values the tracer takes those of the example, and puts the condition into
    the graph. What it cannot know of a tensor is the example's; whether an offset is it need not compare."""
    uncompared = replaced(torch._subclasses.fake_utils, "_check_fake_real_tensors", lambda *_, **__: None)
    optional = replaced(torch._library.utils, "MutationChecker", _Unwritten)
    once = replaced(FakeTensorMode, "_dispatch_impl", _written_once(FakeTensorMode._dispatch_impl))
    ones = replaced(ShapeEnv, "evaluate_sym_node", _ones_seen(ShapeEnv.evaluate_sym_node))
    followed = torch._functorch.config.patch(
        fake_tensor_propagate_real_tensors=True, generate_fake_kernels_from_real_mismatches=True
    )
    with places_noted(), uncompared, optional, once, ones, followed:
        yield


def _written_once(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's way to run an operator with the example's numbers, which has run one that writes, or restrides what it is
    given, when it goes on with what the operator is made of: of these it asks for shapes alone."""
    writing: list[Any] = []

    def dispatch_once(self: FakeTensorMode, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        writes = isinstance(op, torch._ops.OpOverload) and op._schema.is_mutable
        with_numbers = self.propagate_real_tensors
        self.propagate_real_tensors = with_numbers and not writing
        writing.extend([op] if writes else [])
        choosing = CHOOSING.set(CHOOSING.get() or _chooses(op, args))
        try:
            return dispatch(self, op, types, args, kwargs)
        finally:
            CHOOSING.reset(choosing)
            self.propagate_real_tensors = with_numbers
            del writing[len(writing) - writes :]

    return dispatch_once


def _chooses(op: Any, args: Any) -> bool:
    """Whether a mask stands beside other indices."""
    indexes = isinstance(op, torch._ops.OpOverload) and op._opname in ("index", "_unsafe_index", "index_put", "index_put_")
    given = [one for one in args[1] if isinstance(one, torch.Tensor)] if indexes and len(args) > 1 else []
    return len(given) > 1 and any(one.dtype in (torch.bool, torch.uint8) for one in given)


def _ones_seen(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's answer to a question that it has a guess for. Of an extent that values decide it guesses that it is not 1,
    which broadcasts: where it is 1 in the example, that is a branch."""

    def evaluated(self: ShapeEnv, node: Any, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
        one = fallback_value is False and isinstance(node.expr, sympy.Eq) and sympy.Integer(1) in node.expr.args
        if one and node.expr.xreplace(self.real_tensor_prop_unbacked_vals) == sympy.true:
            fallback_value = None
        return evaluate(self, node, size_oblivious, fallback_value)

    return evaluated


class _Unwritten(torch._library.utils.MutationChecker):
    """PyTorch's check that an operator of a library writes nothing but what its schema says. It takes an optional tensor that
    is not there for one that was written."""

    def __init__(self, op: Any, given: list[Any], structure: Any) -> None:
        none = torch.zeros(())
        super().__init__(op, [none if value is None else value for value in given], structure)


@contextlib.contextmanager
def data_known(model: torch.nn.Module, strict: bool) -> Iterator[None]:
    """`x.data` is what x is, without its gradient, and `x.data = y` gives x the values of y: the tracer follows neither. Nor
    does it follow how many classes `one_hot` finds, which is read here for it. strict: dynamo has its own way."""
    if strict:
        yield
        return
    mode = _Data()
    given = model.register_forward_pre_hook(lambda _model, args, kwargs: mode.begin(model, args, kwargs), with_kwargs=True)
    try:
        with mode:
            yield
    finally:
        given.remove()


class _Data(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.weights: list[torch.Tensor] = []
        self.arguments: list[torch.Tensor] = []

    def begin(self, model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        given = torch.utils._pytree.tree_leaves((args, kwargs))
        self.arguments = [value for value in given if isinstance(value, torch.Tensor)]
        self.weights = [*model.parameters(), *model.buffers()]

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call == torch.Tensor.data.__get__:  # type: ignore[attr-defined]
            return args[0].detach()
        if call == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            return self.set(*args)
        if packs(call):  # of lengths that nobody knows yet
            raise Packs
        if call is torch.Tensor.__setitem__ and (placed := _placed(*args[:2])) is not None:
            return call(*placed, *args[2:], **(kwargs or {}))
        if call is torch._C._nn.one_hot:
            named = {**dict(zip(("tensor", "num_classes"), args)), **(kwargs or {})}
            if named.pop("num_classes", -1) == -1:
                (classes,) = named.values()
                return call(classes, classes.max().item() + 1)
        return call(*args, **(kwargs or {}))

    def set(self, x: torch.Tensor, value: torch.Tensor) -> None:
        alike = x.shape == value.shape and x.dtype == value.dtype
        with torch.no_grad():
            if alike or not any(x is owned for owned in (*self.weights, *self.arguments)):
                x.set_(value.detach())
            else:
                what = f"gives a {list(x.shape)} of {x.dtype} the values of a {list(value.shape)} of {value.dtype}"
                raise noted(UnsupportedError([Problem("'.data ='", what)]))


def _placed(x: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any] | None:
    """`x[:, n] = v`, where PyTorch takes no number that a tensor holds among several indices: the view of x at such numbers,
    and the other indices of it. None where there is none."""
    if not isinstance(index, tuple) or not any(type(one) is torch.SymInt for one in index):
        return None
    taken = [0 if one is None or one is ... or isinstance(one, bool) else 1 for one in index]
    for i, one in enumerate(index):
        if isinstance(one, torch.Tensor):
            taken[i] = one.dim() if one.dtype in (torch.bool, torch.uint8) else 1
        elif not (taken[i] == 0 or isinstance(one, (int, slice, torch.SymInt))):
            return None
    at, view = x.dim(), x
    hidden = at - sum(taken)  # by an ellipsis, or behind all
    if hidden < 0 or sum(one is ... for one in index) > 1:
        return None
    at -= 0 if any(one is ... for one in index) else hidden
    for one, extent in zip(reversed(index), reversed(taken), strict=True):
        at -= hidden if one is ... else extent
        if type(one) is torch.SymInt:
            view = view.select(at, one)
    rest = tuple(one for one in index if type(one) is not torch.SymInt)
    return view, rest or ...


def _chain_matmul(chain_matmul: Any) -> Any:
    """As PyTorch's, which forgets `out` where a mode is at work."""

    @functools.wraps(chain_matmul)
    def with_out(*matrices: Any, out: Any = None) -> Any:
        return chain_matmul(*matrices) if out is None else torch.linalg.multi_dot(matrices, out=out)

    return with_out


def _is_told_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


@contextlib.contextmanager
def _modules_called() -> Iterator[None]:
    """With models that catch what a part of theirs raises, as of an argument that it does not take: the tracer would go on
    as if it were still in that part. And without modules that other threads call or look into, which reach PyTorch's tracer
    too."""
    call_module = torch.fx.Tracer.call_module

    def leaving(self: Any, module: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call_module(self, module, forward, args, kwargs)
        except Exception:
            while len(self.module_stack) > depth:
                self.module_stack.popitem(last=True)
            raise

    called = replaced(torch.fx.Tracer, "call_module", leaving, lambda _, module, forward, args, kwargs: forward(*args, **kwargs))
    found = replaced(_ModuleStackTracer, "getattr", _ModuleStackTracer.getattr, lambda _, name, value, proxies: value)
    with called, found:
        yield


@contextlib.contextmanager
def _ctc_loss_known() -> Iterator[None]:
    """With a shape for what PyTorch gives beside the CTC loss, which nobody reads there, and lengths in tensors: of others
    it does not trace the mean."""
    ctc_loss = torch.ctc_loss

    def of_tensors(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *args: Any, **kw: Any) -> Any:
        lengths = (x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in (input_lengths, target_lengths))
        return ctc_loss(log_probs, targets, *lengths, *args, **kw)

    with torch.library._scoped_library("aten", "FRAGMENT") as library:
        torch.library.register_fake("aten::_ctc_loss.Tensor", _fake_ctc_loss, lib=library)
        with replaced(torch, "ctc_loss", of_tensors):
            yield


def _fake_ctc_loss(log_probs: Any, targets: Any, *_: Any) -> tuple[Any, Any]:
    steps, batch, _labels = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(batch, steps, 2 * targets.shape[-1] + 1)
