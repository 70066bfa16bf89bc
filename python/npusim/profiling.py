"""Where a method's time goes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import instance, integer
from .errors import UsageError
from .exported import write_text
from .session import Session


@dataclass(frozen=True)
class Step:
    """What a device does at once for some nodes of the IR, or a transfer from another device."""

    kernel: str  # its name: of the fusion; "transfer"
    target: str  # of its device: "cpu"
    how: str  # which implementation does it
    nodes: tuple[str, ...]  # of the IR
    operators: tuple[str, ...]
    bytes: int  # that it reads and writes at least; of a transfer those that it moves
    flops: int  # two per multiply-accumulate of matmuls, convolutions and attentions
    ms: float  # alone, at its fastest; of steps that one launch does together the first has the time of all


@dataclass(frozen=True)
class Profile:
    """Where the time of a method's run goes."""

    method: str
    ms: float  # of a whole run, at its fastest
    steps: tuple[Step, ...]  # in their order

    def by_operator(self) -> dict[str, float]:
        """Milliseconds by what steps are made of, the longest first: "aten.conv2d.default + aten.relu.default"."""
        times: dict[str, float] = {}
        for step in self.steps:
            name = "transfer" if step.kernel == "transfer" else " + ".join(dict.fromkeys(step.operators)) or step.kernel
            times[name] = times.get(name, 0.0) + step.ms
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    def trace(self) -> dict[str, Any]:
        """The steps one after another, in Chrome's trace format (chrome://tracing, Perfetto), a row for each target."""
        rows = {target: i for i, target in enumerate(dict.fromkeys(step.target for step in self.steps))}
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": target}}
            for target, i in rows.items()
        ]
        at = 0.0
        for step in self.steps:
            more = {
                "kernel": step.kernel,
                "how": step.how,
                "nodes": step.nodes,
                "bytes": step.bytes,
                "flops": step.flops,
            }
            name = step.nodes[-1] if step.nodes else step.kernel
            category = "transfer" if step.kernel == "transfer" else "kernel"
            place = {"ph": "X", "ts": at, "dur": step.ms * 1e3, "pid": 1, "tid": rows[step.target]}
            events.append({"name": name, "cat": category, **place, "args": more})
            at += step.ms * 1e3
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes trace() to a file."""
        write_text(path, json.dumps(self.trace()))

    def __str__(self) -> str:
        total = sum(step.ms for step in self.steps) or 1.0
        lines = [f"{self.method}: {self.ms:.3f} ms; {len(self.steps)} steps, each alone: {total:.3f} ms"]
        lines += [f"{ms:9.4f} ms {100 * ms / total:5.1f} %  {name}" for name, ms in self.by_operator().items()]
        return "\n".join(lines)


class Profiler:
    """Runs a session's methods step by step, each timed alone: the results of Session.run(), and where the time went.

    session: which one; its states go on from run to run, as they do with run().

        profiler = npusim.Profiler(session)
        for x in data:
            outputs = profiler.run(x)
        print(profiler.profile())"""

    def __init__(self, session: Session) -> None:
        self.session = instance("session", session, Session, "a Session")
        self._taken: dict[str, list[list[float]]] = {}

    def run(self, *inputs: Any, method: str | None = None) -> dict[str, np.ndarray]:
        """Runs a method and returns its outputs by name. inputs, method: as for Session.run()."""
        name = self.session.program.choose_method(method)
        results, ms = self.session.run_timed_steps(name, inputs)
        self._taken.setdefault(name, []).append(ms)
        return results

    def profile(self, method: str | None = None) -> Profile:
        """Of the runs so far, each step at its fastest; the whole is their sum. Raises UsageError before the first."""
        name = self.session.program.choose_method(method)
        if name not in self._taken:
            raise UsageError(f"{name} was not run: there is nothing to tell")
        alone = np.min(self._taken[name], axis=0)
        return _profile(self.session, name, float(alone.sum()), alone)

    def reset(self) -> None:
        """Forgets the runs so far."""
        self._taken.clear()


def profile(session: Session, *inputs: Any, method: str | None = None, times: int = 5) -> Profile:
    """Times a method and each of its steps, in a sibling of the session, whose states begin as at first for each of
    `times` runs.

    inputs: as for Session.run()."""
    instance("session", session, Session, "a Session")
    times = integer("times", times, 1, 2**31 - 1)
    name = session.program.choose_method(method)
    own = session.sibling()
    wholes, alone = [], []
    for _ in range(times):
        own.reset_states()
        wholes.append(own.timed(name, inputs))
        own.reset_states()
        alone.append(own.run_timed_steps(name, inputs)[1])
    return _profile(own, name, min(wholes), np.min(alone, axis=0))


def _profile(session: Session, method: str, whole: float, alone: np.ndarray) -> Profile:
    steps = [
        Step(
            kernel=row["kernel"],
            target=session.program.targets[row["device"]],
            how=session.step_how(method, i),
            nodes=tuple(row["nodes"]),
            operators=tuple(row["operators"]),
            bytes=row["bytes"],
            flops=row["flops"],
            ms=float(alone[i]),
        )
        for i, row in enumerate(session.placed.steps(method))
    ]
    return Profile(method, whole, tuple(steps))
