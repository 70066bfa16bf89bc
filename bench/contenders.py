"""Those that are measured: each peer as a stopped process that runs only in its rounds, and npusim as its commands."""
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from environment import Problem

HERE = Path(__file__).resolve().parent
SPINNING = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "OMP_WAIT_POLICY": "active"}
SLEEPING = {"OMP_WAIT_POLICY": "passive"}  # of those with threads of their own, whose OpenMP only loads the model
POLICY = {"eager": SPINNING, "compile": SPINNING, "onnxruntime": SLEEPING, "openvino": SLEEPING}


class Contender(Protocol):
    name: str

    def measure(self, seconds: float) -> float:
        """One round: the fastest run, in milliseconds."""

    def save(self, file: Path) -> None:
        """Writes the first output of the model to a safetensors file."""

    def close(self) -> None: ...


# What makes contenders use no more than an instruction set, where they have a switch for it. ONNX Runtime, and with it
# OpenVINO's matrix products, has none.
LIMITS = {
    "": {},
    "avx2": {
        "NPUSIM_ISA": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
}


def plain_environment(isa: str) -> dict[str, str]:
    """Without the caller's settings of threads, and with the limit of instructions."""
    own = ("OMP_", "GOMP_", "KMP_", "MKL_", "NPUSIM_")
    return {k: v for k, v in os.environ.items() if not k.startswith(own)} | LIMITS[isa]


class Peer:
    def __init__(self, name: str, model: str, folder: Path, threads: int, dtype: str, isa: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        environment = plain_environment(isa) | POLICY[name] | {"OMP_NUM_THREADS": str(threads)}
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder.parent / "inductor")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "peers.py"), name, model, str(folder), str(threads), dtype],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
            )  # fmt: skip
        try:
            self.setting = self._reply()["setting"]
        except Problem:
            self.close()
            raise

    def _reply(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise Problem(f"{self.name} ended with status {self.process.wait()}, see {self.log}")
        self.process.send_signal(signal.SIGSTOP)  # threads that spin while they wait would slow the others down
        return json.loads(line)

    def _ask(self, request: dict) -> dict:
        self.process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # of a process that has ended; the reply's absence tells
            print(json.dumps(request), file=self.process.stdin, flush=True)
        return self._reply()

    def measure(self, seconds: float) -> float:
        return self._ask({"seconds": seconds})["min_ms"]

    def save(self, file: Path) -> None:
        self._ask({"save": str(file)})

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def own_name(dtype: str) -> str:
    return f"npusim {dtype}"


class Npusim:
    def __init__(
        self, binary: Path, dtype: str, folder: Path, threads: int, isa: str, flags: tuple[str, ...] = ()
    ) -> None:
        self.name = own_name(dtype)
        self.environment = plain_environment(isa)
        self.binary = binary
        self.program = folder / f"{dtype}.npubin"
        self.compiled = json.loads(
            self._run("compile", folder / "ir.json", "--dtype", dtype, *flags, "-o", self.program, "--json")
        )
        self.setting = self.compiled["dtype"]
        self.report: dict = {}  # of the last round
        self.session: list = ["--threads", threads]
        for flag, file in (("--weights", folder / "model.safetensors"), ("--inputs", folder / "inputs.safetensors")):
            if file.exists():
                self.session += [flag, file]

    def _run(self, *arguments: object) -> str:
        command = [str(self.binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            raise Problem(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def measure(self, seconds: float) -> float:
        self.report = json.loads(self._run("bench", self.program, *self.session, "--seconds", seconds, "--json"))
        return self.report["min_ms"]

    def save(self, file: Path) -> None:
        self._run("run", self.program, *self.session, "-o", file)

    def close(self) -> None:
        self.program.unlink(missing_ok=True)
