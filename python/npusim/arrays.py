"""Arrays as npusim takes them: dense, row-major NumPy arrays, and what else can be seen as one without a copy."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from . import _core
from .errors import Error, Problem, UnsupportedError, UsageError

_NUMPY = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
DTYPES = {name: np.dtype(name) for name in _NUMPY}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
NAMES = {dtype: name for name, dtype in DTYPES.items()}

_DLPACK_CUDA = 2  # DLDeviceType

Memory = tuple[str, list[int], np.ndarray]  # dtype, shape, the bytes: what _core takes for a tensor
OnDevice = tuple[str, str, list[int], int]  # device, dtype, shape, address: what it takes for one on a device


def is_torch(value: Any) -> bool:
    """Whether it is a tensor of PyTorch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def of_torch(tensor: Any, where: str = "") -> np.ndarray:
    """A tensor of PyTorch as an array: the same memory if it is dense, row-major and on the host. where: names it in
    messages."""
    import torch

    if strange := not_dense(tensor):
        raise UnsupportedError([Problem(where, f"a tensor is {strange}: expected a dense one with values")])
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        if tensor.dtype != torch.bfloat16:
            return tensor.numpy()
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    except Exception as error:  # of a dtype that NumPy has not, or of a class of the caller's
        found = f"{type(tensor).__name__} of {tensor.dtype}: {error}"
        raise UnsupportedError([Problem(where, f"expected a tensor that can be an array of NumPy, found {found}")]) from error


def not_dense(tensor: Any) -> str:
    """What a tensor of PyTorch is, if it is no dense one with values: "torch.sparse_coo"."""
    import torch

    if tensor.is_nested:
        return "a nested one"
    if tensor.layout is not torch.strided:
        return str(tensor.layout)
    if tensor.is_quantized:
        return "a quantized one"
    if tensor.is_meta:
        return "one of device meta, which has no values"
    return ""


def device_of(value: Any) -> str | None:
    """The GPU, by npusim's name ("cuda:0"), on which an array of PyTorch or another package lies; None: no GPU."""
    if is_torch(value):  # what DLPack has no words for is no array of a GPU here: as_array() tells what is wrong
        dense = value.is_cuda and str(value.layout) == "torch.strided" and not value.is_quantized
        return f"cuda:{value.get_device()}" if dense and not value.is_neg() else None
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return None
    try:
        kind, number = value.__dlpack_device__()
    except Exception:  # as_array() tells what is wrong
        return None
    return f"cuda:{number}" if kind == _DLPACK_CUDA else None


def dtype_on_device(value: Any) -> str:
    """By its package's name, which is npusim's: "float32" of torch.float32."""
    return str(value.dtype).rpartition(".")[2]


def on_device(value: Any) -> OnDevice:
    """A row-major array of a GPU as _core takes it: the same memory. What packages but PyTorch have enqueued for it comes
    before work on the default stream."""
    if is_torch(value):  # by DLPack it takes ten times as long, and needs the tensor's GPU to be PyTorch's current one
        return f"cuda:{value.get_device()}", dtype_on_device(value), list(value.shape), value.data_ptr()
    default_stream = 1
    return _core.on_device(value.__dlpack__(stream=default_stream))


def follow_torch(values: list[Any]) -> None:
    """What PyTorch has enqueued on its current streams of the GPUs where its tensors are comes before work on their
    default streams."""
    gpus = {value.get_device() for value in values if is_torch(value) and value.is_cuda}
    if not gpus:
        return
    import torch

    for gpu in gpus:
        stream = torch.cuda.current_stream(gpu)
        if stream.cuda_stream != 0:
            torch.cuda.default_stream(gpu).wait_stream(stream)


def as_array(value: Any, dtype: str | None = None, where: str = "") -> np.ndarray:
    """A dense, row-major array with the value's memory where that is possible. Numbers and lists of them, which have no
    dtype of their own, take `dtype`. where: names the value in messages, "input 'x'"."""
    if is_torch(value):
        return of_torch(value, where)
    if isinstance(value, np.ma.MaskedArray):
        raise UsageError([Problem(where, "expected an array of values, found a masked one")])
    try:
        if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
            return _dense(np.asarray(value))
        if hasattr(value, "__dlpack__"):
            return _dense(np.from_dlpack(value))
        if isinstance(value, (bool, int, float, list, tuple)):
            return _numbers(value, dtype)
    except Error as error:
        raise UsageError([Problem(where, reason) for _, reason in error.problems]) from None
    except Exception as error:  # of a class of the caller's
        reason = f"expected an array, found {type(value).__name__}, which says: {error}"
        raise UsageError([Problem(where, reason)]) from error
    raise UsageError([Problem(where, f"expected an array, found {type(value).__name__}")])


def _numbers(value: Any, dtype: str | None) -> np.ndarray:
    """Plain numbers as an array of `dtype`, which rounds them where it is floating, and holds them as they are where it
    is not."""
    try:
        found = np.asarray(value)
        wanted = DTYPES[dtype] if dtype else found.dtype
        if wanted == found.dtype:
            return found
        if found.dtype.kind == "c":
            raise UsageError(f"expected numbers of {dtype}, found complex ones")
        floating = wanted.kind not in "biu"
        with np.errstate(all="ignore"):
            made = np.asarray(value, wanted) if floating else found.astype(wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"expected numbers of {dtype or 'one dtype'}: {error}") from None
    if not floating and not np.array_equal(made, found):
        raise UsageError(f"expected numbers that {dtype} holds, found {np.asarray(value).reshape(-1)[:3].tolist()}")
    return made


def _dense(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.array(array, order="C")


def name_of(array: np.ndarray, where: str = "") -> str:
    """npusim's name of the array's dtype. where: names it in messages."""
    if array.dtype not in NAMES:
        reason = f"dtype {array.dtype}: expected one of {', '.join(DTYPES)}"
        if array.dtype.newbyteorder() in NAMES:
            reason = f"dtype {array.dtype}, whose bytes are in the other order: expected {NAMES[array.dtype.newbyteorder()]}"
        raise UnsupportedError([Problem(where, reason)])
    return NAMES[array.dtype]


def memory_of(array: np.ndarray, where: str = "") -> Memory:
    """A dense array as _core takes it: the same memory."""
    return name_of(array, where), list(array.shape), array.reshape(-1).view(np.uint8)


def array_of(memory: Memory) -> np.ndarray:
    """What _core returns as an array: the same memory."""
    dtype, shape, data = memory
    return data.view(DTYPES[dtype]).reshape(shape)
