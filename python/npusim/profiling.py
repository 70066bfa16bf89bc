"""Where a method's time goes, and programs run partition by partition."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .exported import write_text
from .program import Program
from .session import Session
from .weights import Weights


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
        write_text(Path(path), json.dumps(self.trace()))

    def __str__(self) -> str:
        total = sum(step.ms for step in self.steps) or 1.0
        lines = [f"{self.method}: {self.ms:.3f} ms; {len(self.steps)} steps, each alone: {total:.3f} ms"]
        lines += [f"{ms:9.4f} ms {100 * ms / total:5.1f} %  {name}" for name, ms in self.by_operator().items()]
        return "\n".join(lines)


def profile(session: Session, *inputs: Any, method: str | None = None, times: int = 5) -> Profile:
    """Times a method and each of its steps, in a sibling of the session, whose states begin as at first for each of
    `times` runs.

    inputs: as for Session.run()."""
    name = session.program.choose_method(method)
    own = session.sibling()
    wholes, alone = [], []
    for _ in range(max(times, 1)):
        own.reset_states()
        wholes.append(own.timed(name, inputs))
        own.reset_states()
        alone.append(own.timed_steps(name, inputs))
    fastest = np.min(alone, axis=0)
    steps = [
        Step(
            kernel=row["kernel"],
            target=session.program.targets[row["device"]],
            how=own.step_how(name, i),
            nodes=tuple(row["nodes"]),
            operators=tuple(row["operators"]),
            bytes=row["bytes"],
            flops=row["flops"],
            ms=float(fastest[i]),
        )
        for i, row in enumerate(session.placed.steps(name))
    ]
    return Profile(name, min(wholes), tuple(steps))


@dataclass(frozen=True)
class Partition:
    """Steps of one device that follow each other, and the transfers before them."""

    target: str  # "cpu"
    nodes: tuple[str, ...]  # of the IR
    transfers: tuple[str, ...]  # values that come from other devices
    bytes: int  # of them
    steps: range  # positions among Program.steps(), with those of the transfers


class DAGExecutor:
    """Runs a program partition by partition: what goes where, and how long each takes, with the results of Session.

    program, weights, device, threads: as for Session. Everything is made ready once."""

    def __init__(
        self, program: Program, weights: Weights = None, *, device: str | None = None, threads: int = 0
    ) -> None:
        self.session = Session(program, weights, device=device, threads=threads)
        self._partitions = {name: _partitions(self.session.placed, name) for name in program.methods}

    def partitions(self, method: str | None = None) -> tuple[Partition, ...]:
        """In the order of the run."""
        return self._partitions[self.session.program.choose_method(method)]

    def run(
        self, *inputs: Any, method: str | None = None, watch: Callable[[Partition, float], None] | None = None
    ) -> dict[str, np.ndarray]:
        """Runs a method and returns its outputs by name: Session.run().

        watch: called with each partition and its milliseconds as it is done."""
        name = self.session.program.choose_method(method)

        def execute(run_step: Callable[[int], None]) -> None:
            for partition in self._partitions[name]:
                begin = time.perf_counter()
                for step in partition.steps:
                    run_step(step)
                if watch:
                    watch(partition, (time.perf_counter() - begin) * 1e3)

        return self.session.run_by_steps(name, inputs, execute)


def _partitions(program: Program, method: str) -> tuple[Partition, ...]:
    count = len(program.steps(method))
    rows: Iterable[dict[str, Any]] = program.partition()["methods"][method]["segments"]
    partitions: list[Partition] = []
    at = 0
    for row in rows:
        end = at + len(row["transfers"]) + row["steps"]
        moved = sum(t["bytes"] for t in row["transfers"])
        names = tuple(t["value"] for t in row["transfers"])
        partitions.append(Partition(row["target"], tuple(row["nodes"]), names, moved, range(at, end)))
        at = end
    if at < count:  # results that go back to another device
        rest = program.steps(method)[at:]
        names = tuple(row["nodes"][-1] if row["nodes"] else row["kernel"] for row in rest)
        target = program.targets[rest[0]["device"]]
        partitions.append(Partition(target, (), names, sum(row["bytes"] for row in rest), range(at, count)))
    return tuple(partitions)
