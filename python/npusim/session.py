"""Sessions: a program made ready on its device, with the memory and the states of one user."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import _core
from .arrays import (
    DTYPES,
    NAMES,
    as_array,
    device_of,
    dtype_on_device,
    follow_torch,
    is_torch,
    memory_of,
    name_of,
    on_device,
)
from .arguments import budget, instance, integer, mapping, refused, sequence, text, thread_count
from .errors import BadInputError, Problem, UsageError
from .nested import nested_inputs
from .program import Program, TensorInfo
from .weights import Weights, open_weights
from .writes import Writes

WIDER = {("float16", "float32"), ("bfloat16", "float32")}  # converted for the caller: nothing is lost
INTERRUPTED = "it was interrupted before its results were there"


class Exclusion:
    """Who works with a session: one thread after the other, and each once. What a thread asks for in the middle of its own
    work (in a signal handler, in generate()'s on_token) would wait for itself: it is refused."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        _exclusions.add(self)

    def run(self, work: Callable[[], None]) -> None:
        # Between the lock, which Python takes and gives back in one step each, and `try` there is no call: an interrupt
        # comes before, or is inside.
        with self._lock:
            if self._busy:
                raise UsageError(
                    "this thread is at work with this session already: open another, with sibling(), for what a signal "
                    "handler or a callback runs meanwhile"
                )
            self._busy = True
            try:
                work()
            finally:
                self._busy = False


_exclusions: weakref.WeakSet[Exclusion] = weakref.WeakSet()


def _renew_exclusions() -> None:
    """Of the threads that held a lock when the process was forked, the child has only the one that forked."""
    for exclusion in _exclusions:
        exclusion._lock, exclusion._busy = threading.RLock(), False


os.register_at_fork(after_in_child=_renew_exclusions)


class Session:
    """A program ready to run. Runs of one session come one after the other, whatever threads ask for them; any number
    of sessions run at once. The GIL is released while one runs, and Ctrl-C ends it between two of its steps, as cancel()
    does.

    A run that fails or is ended leaves states that it had not begun to update as they were. With those that it had,
    nothing runs (UsageError) before they are given, or reset_states() is called.

    After os.fork() sessions run in the child as in the parent, but for those that another thread was at work with.

    program: what to run.
    weights: a .safetensors file, an index of shards, or arrays by name, which must not change meanwhile. Default: those
        of the model that the program was compiled from.
    device: "cpu", "cuda:0", …; default: the program's target. What the target does not run stays with the CPU.
    threads: of the host, at most 4096; 0: one per core, or one where a program's work is too little to be shared.
    max_bytes, max_flops: what the program may need of memory, and of operations for a run (Program.needs); 0: any.

    PyTorch's tensors are read where they are, and partly made ready: after one of them was written, by an optimizer or
    load_state_dict(), nothing runs (UsageError), as far as that is seen (docs/from-pytorch.md). A new session has the new
    values. Nor does anything run after the model got another tensor for a weight: compile it again.

    A state, such as a buffer that the model changes, begins with the tensor of its name in the weights, if there is one,
    else with zeros: it need not be given.

    Raises BadInputError naming each weight that is missing or has another shape, DeviceError when the device cannot be
    opened or has too little memory, UnsupportedError for a program that needs more than it may."""

    def __init__(
        self,
        program: Program,
        weights: Weights = None,
        *,
        device: str | None = None,
        threads: int = 0,
        max_bytes: int | float = 0,
        max_flops: int | float = 0,
    ) -> None:
        instance("program", program, Program, "a Program (npusim.load() opens a file)")
        given = program.weights if weights is None else weights
        self._weights = open_weights(given)
        devices = [text("device", device), *program.targets[1:]] if device is not None else []
        self._handle = _core.open_session(
            program.handle, self._weights, devices, thread_count(threads), **budget(max_bytes, max_flops)
        )
        self.program = program
        read = set(_core.weights_read(program.handle))
        self._written = Writes(given, read, program.held if weights is None else None)
        self._first_written = Writes(given, self._begun(program))
        self._begin()

    @staticmethod
    def _begun(program: Program) -> set[str]:
        """The names of what begins with a value that the weights have: a run reads it there no more."""
        infos = ((method, info) for method in program.methods for info in program.inputs(method))
        return {info.name for _, info in infos if info.state}

    def _begin(self) -> None:
        self._exclusion = Exclusion()
        self._ports = {
            method: (self.program.inputs(method), self.program.outputs(method)) for method in self.program.methods
        }
        self._numbers = {name: number for number, name in enumerate(self._ports)}  # of methods
        self._states_begin()

    def _settle(self) -> None:
        """Where a run was ended among its steps (Ctrl-C, what a caller's function raised), or behind them, states are no
        run's. So with first values that did not all come."""
        if self._handle.updates() == self._settled:
            return
        for method in self._begun:
            self._handle.tear(self._numbers[method], INTERRUPTED)
        self._settled = self._handle.updates()

    def _generate(self, work: Callable[[_core.Session], None]) -> None:
        """What runs methods one after the other by itself: each leaves states that are one run's, or says that they are not."""

        def settled() -> None:
            self._settle()
            self._begun = list(self._ports)
            try:
                work(self._handle)
            finally:
                self._settled = self._handle.updates()

        self._exclusion.run(settled)

    def _states_begin(self) -> None:
        """States have just begun with the values that the weights have for them."""
        self._first_written.check()
        self._begun = list(self._ports)  # the methods that have begun to change states
        self._settled = self._handle.updates()  # what that was when states were last those of one run

    def sibling(self) -> Session:
        """A session of its own, with new states, over the same program, device and weights."""
        other = Session.__new__(Session)
        other.program, other._weights = self.program, self._weights
        other._written, other._first_written = self._written, self._first_written

        def open_beside() -> None:
            other._handle = self._handle.sibling()

        self._exclusion.run(open_beside)
        other._begin()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Session is not copied or pickled: sibling() opens another one, a Program is what is saved")

    @property
    def device(self) -> str:
        """Where it runs."""
        return self._handle.device()

    @property
    def placed(self) -> Program:
        """The program as it is on this device: of one for several architectures, what the device takes."""
        return replace(self.program, handle=self._handle.program())

    @property
    def threads(self) -> int:
        """How many of the host's it takes at most."""
        return self._handle.threads()

    def run(
        self,
        *inputs: Any,
        method: str | None = None,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Runs a method and returns its outputs by name, as new arrays (bfloat16 as ml_dtypes.bfloat16).

        inputs: one dict of arrays by name, or arrays in the order of all inputs, or of those that are no states; a model's in
            the order of forward()'s arguments, whatever it keeps or draws, or these arguments with lists and dicts as in the
            example (of a program that was compiled in this process). They are NumPy's, PyTorch's, or anything else
            with __dlpack__ or __array__; dense, row-major ones are read where they are.
            Those that lie on the session's own GPU, and are no states, are read there, behind what was enqueued for them.
            A state that is not given stays as the last run left it.
        method: which one; default: the only one, or "main".
        out: arrays by name to write outputs to instead of new ones: dense, row-major, of the output's dtype and shape.
            They may lie on the session's own GPU.

        Raises UsageError with a problem for each input that is missing, unknown, or of another shape or dtype. Nothing
        is converted, but 16-bit floats to float32 where the program computes in float32, and plain numbers."""
        name = self.program.choose_method(method)
        return self._with_inputs(name, inputs, lambda position: self._handle.run(position, 1), out)

    def run_by_steps(
        self, method: str, inputs: tuple[Any, ...], execute: Callable[[Callable[[int], None]], None]
    ) -> dict[str, Any]:
        """run(), where `execute` runs the steps: it gets a function that runs the step at a position, and waits."""
        if not callable(execute):
            raise refused("execute", "a function", execute)

        def body(position: int) -> None:
            self._handle.run(position, 0)  # no run: inputs go to their devices
            execute(lambda step: self._handle.run_step(position, integer("step", step, 0, 2**63 - 1)))
            self._handle.run(position, 0)  # outputs come back

        return self._with_inputs(self.program.choose_method(method), inputs, body)

    def timed(
        self,
        method: str,
        inputs: tuple[Any, ...],
        out: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> float:
        """Milliseconds of a run, without the inputs' way to the session. out: as for run(). clock: gives seconds."""
        if not callable(clock):
            raise refused("clock", "a function", clock)
        taken: list[float] = []

        def body(position: int) -> None:
            begin = clock()
            self._handle.run(position, 1)
            taken.append((clock() - begin) * 1e3)

        self._with_inputs(self.program.choose_method(method), inputs, body, out)
        return taken[0]

    def run_timed_steps(self, method: str, inputs: tuple[Any, ...]) -> tuple[dict[str, Any], list[float]]:
        """run(), each step alone, one after the other, and the milliseconds of each; of those that one launch does
        together the first has the time of all."""
        taken: list[float] = []

        def body(position: int) -> None:
            self._handle.run(position, 0)  # no run: inputs go to their devices
            taken.extend(self._handle.time_steps(position))
            self._handle.run(position, 0)  # outputs come back

        return self._with_inputs(self.program.choose_method(method), inputs, body), taken

    def step_how(self, method: str, step: int) -> str:
        """Which implementation does a step, for people."""
        number = self._numbers[self.program.choose_method(method)]
        return self._handle.step_how(number, integer("step", step, 0, 2**63 - 1))

    def _with_inputs(
        self,
        name: str,
        inputs: tuple[Any, ...],
        body: Callable[[int], None],
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        self._written.check()
        # What arrays do when they are asked for their memory may be anything, a run of this session too.
        given = self._arrays(name, tuple(sequence("inputs", inputs, "a tuple of arrays")))
        results = self._results(name, {} if out is None else mapping("out", out, "arrays by name"))

        def work() -> None:
            self._settle()
            self._run(name, given, results, body)

        self._exclusion.run(work)
        return results

    def device_arrays(self, method: str | None = None) -> dict[str, Any]:
        """The memory of a method's inputs and outputs on their device, by name: views for torch.from_dlpack() and its
        like, the same memory as long as the session lives. What is written to an input's is what run_on_device() reads.

        Raises UsageError where the device has no memory that others can reach, or DLPack no name for it."""
        name = self.program.choose_method(method)
        number, (takes, gives) = self._numbers[name], self._ports[name]
        arrays = {info.name: self._handle.device_input(number, i) for i, info in enumerate(takes)}
        return arrays | {info.name: self._handle.device_output(number, i) for i, info in enumerate(gives)}

    def places(self, method: str | None = None) -> dict[str, str]:
        """Where a method's inputs and outputs lie, by name: "cpu", "cuda:0". What run() is given there, if it is no state, is
        read and written where it is.

        Raises UsageError where the device has no memory that others can reach."""
        name = self.program.choose_method(method)
        number, (takes, gives) = self._numbers[name], self._ports[name]
        found = {info.name: self._handle.place_of_input(number, i) for i, info in enumerate(takes)}
        return found | {info.name: self._handle.place_of_output(number, i) for i, info in enumerate(gives)}

    def run_on_device(self, method: str | None = None) -> None:
        """Runs a method on what is in the device's memory of its inputs, and leaves outputs there: nothing is copied from
        or to the host. Work of others on that memory (torch.cuda.synchronize()) must be done."""
        name = self.program.choose_method(method)
        self._written.check()

        def work() -> None:
            self._settle()
            self._begun = [name]
            self._handle.run_on_device(self._numbers[name])
            self._settled = self._handle.updates()

        self._exclusion.run(work)

    def _run(
        self,
        name: str,
        given: Mapping[str, Any],
        results: Mapping[str, Any],
        body: Callable[[int], None],
    ) -> None:
        method, (takes, gives) = self._numbers[name], self._ports[name]
        self._begun = [name]
        follow_torch([*given.values(), *results.values()])
        try:
            for position, info in enumerate(takes):
                if info.name not in given:
                    continue
                if device_of(given[info.name]):
                    self._handle.bind_device_input(method, position, on_device(given[info.name]))
                    continue
                if info.state:
                    self._settled = -1  # until all that are given are there
                bind = self._handle.set_input if info.state else self._handle.bind_input
                bind(method, position, memory_of(given[info.name]))
            self._settled = self._handle.updates()
            for position, info in enumerate(gives):
                if device_of(results[info.name]):
                    self._handle.bind_device_output(method, position, on_device(results[info.name]))
                elif not info.state:
                    self._handle.bind_output(method, position, memory_of(results[info.name]))
            body(method)
            for position, info in enumerate(gives):
                if info.state:
                    self._handle.read(method, position, memory_of(results[info.name]))
        finally:
            # Arrays are the caller's again.
            for position, info in enumerate(takes):
                if not info.state:
                    self._handle.unbind_input(method, position)
            for position, info in enumerate(gives):
                if not info.state:
                    self._handle.unbind_output(method, position)
        self._settled = self._handle.updates()

    def seed(self, seed: int) -> None:
        """Begins the sequence of random numbers that the program draws, from 0 to 2**64 - 1; 0 at first. Each run goes on
        in it. Does nothing for a program that draws none."""
        seed = integer("seed", seed, 0, 2**64 - 1)
        self._exclusion.run(lambda: self._handle.seed(seed))

    def cancel(self) -> bool:
        """From any thread: what is under way ends between two of its steps, with CancelledError; on a GPU, between two
        runs of a method. False where nothing is."""
        return self._handle.cancel()

    def reset_states(self) -> None:
        """All states as they were at first. Also after a run that failed. Raises UsageError where PyTorch's tensor that one
        began with was written since."""

        def work() -> None:
            self._begun, self._settled = list(self._ports), -1
            self._handle.reset_states()
            self._states_begin()

        self._exclusion.run(work)

    def _lies_there(
        self, value: Any, info: TensorInfo, place: Callable[[int, int], str], method: str, position: int
    ) -> bool:
        """Whether an array is what the port takes, on the GPU where the session has it."""
        gpu = device_of(value)
        if gpu is None or gpu != self.device or place(self._numbers[method], position) != gpu:
            return False
        return (dtype_on_device(value), tuple(value.shape)) == (info.dtype, info.shape)

    def _arrays(self, method: str, inputs: tuple[Any, ...]) -> dict[str, Any]:
        takes = self._ports[method][0]
        if (nested := nested_inputs(self.program.arguments.get(method, ()), inputs)) is not None:
            named = nested
        elif len(inputs) == 1 and isinstance(inputs[0], Mapping):
            named = dict(mapping("inputs", inputs[0], "arrays by name"))
        else:
            plain = _by_position(takes, len(inputs))
            if len(inputs) != len(plain):
                names = ", ".join(info.name for info in plain) or "none"
                states = ", ".join(info.name for info in takes if info.state and info not in plain)
                more = f"; by name a dict may give the states too: {states}" if states else ""
                raise UsageError(f"expected {len(plain)} inputs ({names}), found {len(inputs)}{more}")
            named = {info.name: value for info, value in zip(plain, inputs)}
        problems: list[Problem] = []
        arrays: dict[str, Any] = {}
        for position, info in enumerate(takes):
            where = f"input '{info.name}'"
            if info.name not in named:
                if not info.state:
                    problems.append(Problem(where, f"expected {_type(info)}, found nothing"))
                continue
            value = named.pop(info.name)
            if not info.state and self._lies_there(value, info, self._handle.place_of_input, method, position):
                arrays[info.name] = value.contiguous() if is_torch(value) else value
                continue
            array = as_array(value, info.dtype, where)
            found = name_of(array, where)
            if array.shape != info.shape or (found != info.dtype and (found, info.dtype) not in WIDER):
                problems.append(Problem(where, f"expected {_type(info)}, found {found}{list(array.shape)}"))
            arrays[info.name] = array if found == info.dtype else array.astype(DTYPES[info.dtype])
        problems += [Problem(f"input '{name}'", "the method has none of this name") for name in named]
        if problems:
            raise UsageError(problems)
        return arrays

    def _results(self, method: str, out: Mapping[str, Any]) -> dict[str, Any]:
        gives = self._ports[method][1]
        results = {info.name: out[info.name] if info.name in out else _empty(info) for info in gives}
        problems = [
            Problem(f"output '{name}'", "the method has none of this name") for name in out if name not in results
        ]
        for position, info in enumerate(gives):
            array = results[info.name]
            if not info.state and self._lies_there(array, info, self._handle.place_of_output, method, position):
                if is_torch(array) and not array.is_contiguous():
                    problems.append(Problem(f"output '{info.name}'", "expected a row-major array"))
            elif isinstance(array, np.ma.MaskedArray):
                problems.append(Problem(f"output '{info.name}'", "expected an array of values, found a masked one"))
            elif not isinstance(array, np.ndarray) or (NAMES.get(array.dtype), array.shape) != (info.dtype, info.shape):
                found = f"{type(array).__module__}.{type(array).__qualname__}{_described(array)}"
                what = f"expected an array of {_type(info)}, NumPy's, found {found}"
                problems.append(Problem(f"output '{info.name}'", what))
            elif not array.flags.c_contiguous or not array.flags.writeable:
                problems.append(Problem(f"output '{info.name}'", "expected a row-major array that can be written"))
        problems += _that_share_memory({name: array for name, array in out.items() if isinstance(array, np.ndarray)})
        if problems:
            raise UsageError(problems)
        return results


def _by_position(takes: Sequence[TensorInfo], count: int) -> list[TensorInfo]:
    """Which inputs so many arrays are: all that a caller gives, with what the program writes into it, and with the state of
    its random numbers or without; or those that are no states."""
    given = [info for info in takes if not info.kept]
    if count == len(given):
        return given
    arguments = [info for info in given if info.role != "generator"]
    return arguments if count >= len(arguments) else [info for info in given if not info.state]


def _that_share_memory(arrays: Mapping[str, np.ndarray]) -> list[Problem]:
    """Of whole rows of memory: each of them begins behind the end of those that begin before it."""
    problems, behind, last = [], 0, ""
    for name, array in sorted(arrays.items(), key=lambda item: item[1].ctypes.data):
        if array.nbytes and array.ctypes.data < behind:
            problems.append(Problem(f"output '{name}'", f"expected memory of its own, found that of output '{last}'"))
        if array.ctypes.data + array.nbytes > behind:
            behind, last = array.ctypes.data + array.nbytes, name
    return problems


def _type(info: TensorInfo) -> str:
    return f"{info.dtype}{list(info.shape)}"


def _described(array: Any) -> str:
    """The dtype and shape of an array, if it says them."""
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    return f" of {str(dtype).removeprefix('torch.')}{list(shape)}" if isinstance(shape, tuple) and dtype is not None else ""


def _empty(info: TensorInfo) -> np.ndarray:
    return np.empty(info.shape, DTYPES[info.dtype])
