"""Which device does what of a model, and programs run partition by partition."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import function
from .exported import file_text
from .program import Program, compile, exported_methods
from .session import Session
from .weights import Weights


@dataclass(frozen=True)
class Partition:
    """Steps of one device that follow each other, and the transfers before them."""

    target: str  # "cpu"
    nodes: tuple[str, ...]  # of the IR
    transfers: tuple[str, ...]  # values that come from other devices
    bytes: int  # of them
    steps: range  # positions among Program.steps(), with those of the transfers


@dataclass(frozen=True)
class PartitionPlan:
    """Which device does what of a model, and why; str() is a table."""

    program: Program  # compiled so

    def partitions(self, method: str | None = None) -> tuple[Partition, ...]:
        """In the order of the run, of the only method or "main" if none is named."""
        name = self.program.choose_method(method)
        return _partitions(self.program, name, self.details()["methods"][name])

    def nodes(self) -> dict[str, Any]:
        """The nodes that the CPU runs and their reasons, to be edited and given to compile(plan=…)."""
        return self.program.partition_plan()

    def details(self) -> dict[str, Any]:
        """Segments, transfers, reasons and estimates as data: docs/cli.md, partition --json."""
        return self.program.partition()

    def picture(self) -> str:
        """Segments and transfers as SVG."""
        return self.program.partition_picture()

    def __str__(self) -> str:
        return self.program.describe_partition()


def partition(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    is_supported: Callable[[str, Mapping[str, Any]], bool] | None = None,
    **options: Any,
) -> PartitionPlan:
    """Divides a model between the target and the CPU.

    model, args, kwargs: as for compile().
    is_supported: asked for each node of the IR with its operator ("aten.relu.default") and attributes; what it says no to
        is the CPU's, beside what the target cannot run.
    options: those of compile(); `plan`, where it is given, is all that the CPU runs, and `is_supported` adds to it."""
    function("is_supported", is_supported)
    methods = exported_methods(model, args, kwargs)
    program = compile(methods, **options)
    if is_supported is None:
        return PartitionPlan(program)
    plan = program.partition_plan()
    for name, (_, path, text) in program.sources.items():
        cpu = plan["methods"][name]["cpu"]
        for node in json.loads(text or file_text(path))["nodes"]:
            if not is_supported(node["op_type"], node.get("attrs", {})):
                cpu.setdefault(node["name"], "is_supported() says no")
    return PartitionPlan(compile(methods, **{**options, "plan": plan, "force_cpu": ()}))


class DAGExecutor:
    """Runs a program partition by partition: what goes where, and how long each takes, with the results of Session.

    program, weights, device, threads: as for Session. All is made ready once, a method's partitions when they are first asked for."""

    def __init__(
        self, program: Program, weights: Weights = None, *, device: str | None = None, threads: int = 0
    ) -> None:
        self.session = Session(program, weights, device=device, threads=threads)
        self._placed = self.session.placed
        self._described = self._placed.partition()["methods"]
        self._partitions: dict[str, tuple[Partition, ...]] = {}  # of the methods that were asked for

    def partitions(self, method: str | None = None) -> tuple[Partition, ...]:
        """In the order of the run."""
        name = self.session.program.choose_method(method)
        if name not in self._partitions:
            self._partitions[name] = _partitions(self._placed, name, self._described[name])
        return self._partitions[name]

    def run(
        self, *inputs: Any, method: str | None = None, watch: Callable[[Partition, float], None] | None = None
    ) -> dict[str, np.ndarray]:
        """Runs a method and returns its outputs by name: Session.run().

        watch: called with each partition and its milliseconds as it is done."""
        name = self.session.program.choose_method(method)
        function("watch", watch)

        def execute(run_step: Callable[[int], None]) -> None:
            for partition in self.partitions(name):
                begin = time.perf_counter()
                for step in partition.steps:
                    run_step(step)
                if watch:
                    watch(partition, (time.perf_counter() - begin) * 1e3)

        return self.session.run_by_steps(name, inputs, execute)


def _partitions(program: Program, method: str, described: Mapping[str, Any]) -> tuple[Partition, ...]:
    count = len(program.steps(method))
    rows: Iterable[dict[str, Any]] = described["segments"]
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
