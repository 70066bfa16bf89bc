"""npusim's C interface from any Python with PyTorch: the library is loaded, nothing is built or installed."""

import ctypes as c
from collections.abc import Mapping
from pathlib import Path

import torch

DTYPES = {torch.bool: 0, torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5,
          torch.float16: 6, torch.bfloat16: 7, torch.float32: 8, torch.float64: 9}  # fmt: skip
ORDER = {code: dtype for dtype, code in DTYPES.items()}


class View(c.Structure):
    _fields_ = [("dtype", c.c_int), ("rank", c.c_size_t), ("shape", c.POINTER(c.c_int64)), ("data", c.c_void_p)]


class Options(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("weights", c.c_void_p),
        ("devices", c.POINTER(c.c_char_p)),
        ("device_count", c.c_size_t),
        ("threads", c.c_int),
    ]


def view(tensor: torch.Tensor) -> View:
    """Of a contiguous tensor of the host, which must outlive it."""
    assert tensor.is_contiguous() and not tensor.is_cuda
    shape = (c.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
    return View(DTYPES[tensor.dtype], tensor.dim(), c.cast(shape, c.POINTER(c.c_int64)), tensor.data_ptr())


class Session:
    """A program, its weights and its states on a device."""

    def __init__(self, library: Path, program: Path, weights: Mapping[str, torch.Tensor], device: str) -> None:
        self.lib = c.CDLL(str(library))
        self.lib.npusim_error_text.restype = c.c_char_p
        self.weights = dict(weights)
        loaded, tensors, session = c.c_void_p(), c.c_void_p(), c.c_void_p()
        self._call("npusim_load_program", str(program).encode(), c.byref(loaded))
        names = (c.c_char_p * len(weights))(*(name.encode() for name in weights))
        views = (View * len(weights))(*map(view, weights.values()))
        self._call("npusim_make_tensors", names, views, c.c_size_t(len(weights)), c.byref(tensors))
        devices = (c.c_char_p * 1)(device.encode())
        options = Options(c.sizeof(Options), tensors, devices, 1, 0)
        self._call("npusim_open_session", loaded, c.byref(options), c.byref(session))
        self.session, self.made = session, (loaded, tensors)

    def _call(self, name: str, *arguments: object) -> None:
        error = c.c_void_p()
        if getattr(self.lib, name)(*arguments, c.byref(error)):
            raise RuntimeError(f"{name}: {self.lib.npusim_error_text(error).decode() if error else 'no memory'}")

    def set(self, method: str, name: str, value: torch.Tensor) -> None:
        self._call("npusim_set_input", self.session, method.encode(), name.encode(), c.byref(view(value)))

    def run(self, method: str, times: int = 1) -> None:
        self._call("npusim_run", self.session, method.encode(), c.c_int(times))

    def get(self, method: str, name: str) -> torch.Tensor:
        """A copy."""
        found = View()
        self._call("npusim_get_output", self.session, method.encode(), name.encode(), c.byref(found))
        shape = [found.shape[i] for i in range(found.rank)]
        dtype = ORDER[found.dtype]
        count = torch.Size(shape).numel()
        bytes_ = (c.c_uint8 * (count * dtype.itemsize)).from_address(found.data)
        return torch.frombuffer(bytes_, dtype=dtype).clone().view(shape)

    def reset(self) -> None:
        self._call("npusim_reset_states", self.session)

    def close(self) -> None:
        self.lib.npusim_session_free(self.session)
        self.lib.npusim_tensors_free(self.made[1])
        self.lib.npusim_program_free(self.made[0])
