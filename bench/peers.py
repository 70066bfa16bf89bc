"""A peer of compare.py as a process of its own, which loads one model and then answers requests.

    peers.py PEER MODEL FOLDER THREADS DTYPE        float32, or bfloat16 throughout

Requests and replies are lines of JSON on standard input and output:
    {"seconds": S}  ->  {"min_ms": t, "runs": n}     runs the model for about S seconds
    {"save": FILE}  ->  {}                           writes its first output, as out0
The first line, sent when the model is ready, says which of the peer's settings was the fastest: {"setting": "..."}.
"""
import copy
import ctypes
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

import models

WARM_UP_RUNS, WANTED_RUNS, LEAST_RUNS = 3, 20, 5  # as npusim bench has them
TRIAL_SECONDS = 0.5


@dataclass
class Setting:
    """One way to run the model: what is timed, and what reads the output of the last run."""

    name: str
    run: Callable[[], object]
    answer: Callable[[], np.ndarray]


def torch_setting(name: str, model: Callable[..., torch.Tensor], inputs: models.Inputs) -> Setting:
    last: list[torch.Tensor] = []

    @torch.inference_mode()
    def run() -> None:
        last[:] = [model(*inputs)]

    return Setting(name, run, lambda: last[0].float().numpy())


def torch_settings(model_name: str, folder: Path, dtype: str, compiled: bool) -> list[Setting]:
    """As the module is and, for images, with channels last."""
    model, inputs = models.load(model_name, folder)
    if dtype == "bfloat16":
        model, inputs = model.bfloat16(), tuple(t.bfloat16() if t.is_floating_point() else t for t in inputs)
    variants = [("contiguous", model, inputs)]
    if inputs[0].dim() == 4:
        last = torch.channels_last
        moved = tuple(image.to(memory_format=last) for image in inputs)
        variants.append(("channels last", copy.deepcopy(model).to(memory_format=last), moved))
    return [torch_setting(name, torch.compile(m) if compiled else m, given) for name, m, given in variants]


def eager(model: str, folder: Path, threads: int, dtype: str) -> list[Setting]:
    torch.set_num_threads(threads)
    return torch_settings(model, folder, dtype, compiled=False)


def compiled(model: str, folder: Path, threads: int, dtype: str) -> list[Setting]:
    import torch._inductor.config

    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    torch._inductor.config.compile_threads = threads
    return torch_settings(model, folder, dtype, compiled=True)


def onnxruntime(model: str, folder: Path, threads: int, dtype: str) -> list[Setting]:
    assert dtype == "float32"
    import onnxruntime

    cores = sorted(os.sched_getaffinity(0))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if 1 < threads <= len(cores):  # the calling thread is the first; processors count from 1
        places = ";".join(str(core + 1) for core in cores[1:threads])
        options.add_session_config_entry("session.intra_op_thread_affinities", places)
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    os.sched_setaffinity(0, cores[:1])
    binding = session.io_binding()
    for name, value in load_file(folder / "inputs.safetensors").items():
        if name in {node.name for node in session.get_inputs()}:
            binding.bind_cpu_input(name, value)
    binding.bind_output(session.get_outputs()[0].name)
    return [Setting("", lambda: session.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0])]


def openvino(model: str, folder: Path, threads: int, dtype: str) -> list[Setting]:
    """The model as ONNX and as OpenVINO's own reader of PyTorch gives it."""
    import openvino

    core = openvino.Core()
    properties = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[dtype],
        "ENABLE_CPU_PINNING": True,
    }
    module, inputs = models.load(model, folder)
    with torch.inference_mode():
        traced = openvino.convert_model(module, example_input=inputs, input=[list(t.shape) for t in inputs])

    def setting(name: str, graph: openvino.Model) -> Setting:
        request = core.compile_model(graph, "CPU", properties).create_infer_request()
        for i, tensor in enumerate(inputs):
            request.set_input_tensor(i, openvino.Tensor(tensor.numpy()))
        return Setting(name, request.infer, lambda: request.get_output_tensor(0).data)

    return [setting("from ONNX", core.read_model(folder / "model.onnx")), setting("from PyTorch", traced)]


PEERS = {"eager": eager, "compile": compiled, "onnxruntime": onnxruntime, "openvino": openvino}


def measure(run: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each run, after a warm-up; the rules are those of npusim bench."""
    begin = time.perf_counter()
    for i in range(WARM_UP_RUNS):
        if i == 0 or time.perf_counter() - begin < seconds:
            run()
    times: list[float] = []
    begin = time.perf_counter()
    while True:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        times.append((end - start) * 1e3)
        if end - begin >= seconds and (
            len(times) >= WANTED_RUNS or (len(times) >= LEAST_RUNS and end - begin >= 5 * seconds)
        ):
            return times


def fastest(settings: list[Setting]) -> Setting:
    if len(settings) == 1:
        return settings[0]
    return min(settings, key=lambda setting: min(measure(setting.run, TRIAL_SECONDS)))


def serve(setting: Setting, requests: TextIO, replies: TextIO) -> None:
    def reply(value: dict) -> None:
        print(json.dumps(value), file=replies, flush=True)

    setting.run()
    reply({"setting": setting.name})
    for line in requests:
        request = json.loads(line)
        if "save" in request:
            save_file({"out0": np.ascontiguousarray(setting.answer(), np.float32)}, request["save"])
            reply({})
        else:
            times = measure(setting.run, request["seconds"])
            reply({"min_ms": min(times), "runs": len(times)})


def end_with_parent() -> None:
    """A stopped process would not notice that compare.py was killed."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    end_with_parent()
    peer, model, folder, threads, dtype = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print
    setting = fastest(PEERS[peer](model, Path(folder), int(threads), dtype))
    gc.collect()
    gc.disable()
    serve(setting, sys.stdin, replies)


if __name__ == "__main__":
    main()
