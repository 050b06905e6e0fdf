"""torch tensors as arguments of C functions, and memory of a buffer as torch tensors.

Inputs are read where they lie: CPU tensors and CUDA tensors, contiguous; only block scales [T, S]
may be column-major, with strides (1, A), A >= T. Element types that torch does not have are bytes:
FP8 E4M3, UE8M0 and NVFP4 (two elements a byte) as uint8, where torch has no type of its own.
"""

import ctypes
import functools
import struct
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

import torch

from . import _abi, errors

_NO_TENSOR = 1041
_DTYPE = 1042
_STRIDES = 1043
_MAX_DIMENSIONS = 3

# torch has these types in some versions only.
_FP8 = getattr(torch, "float8_e4m3fn", torch.uint8)
_UE8M0 = getattr(torch, "float8_e8m0fnu", torch.uint8)
_NVFP4 = getattr(torch, "float4_e2m1fn_x2", torch.uint8)

# Element types of inputs; uint8 depends on the argument.
_NUMBERS: Dict[torch.dtype, int] = {
    torch.bfloat16: _abi.BF16,
    torch.float16: _abi.FP16,
    torch.float32: _abi.FP32,
    torch.int32: _abi.INT32,
    torch.int64: _abi.INT64,
    torch.bool: _abi.UINT8,
    _FP8: _abi.FP8_E4M3,
    _UE8M0: _abi.UE8M0,
    _NVFP4: _abi.NVFP4,
}
_NUMBERS.pop(torch.uint8, None)

# Element types of results, by number.
_DTYPES: Tuple[Optional[torch.dtype], ...] = (
    None,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    _FP8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint8,
)

_DESCRIPTION = struct.Struct("=Q3q3q4i")
_DESCRIPTION_BYTES = ctypes.sizeof(_abi.Tensor)

# Views that are kept for the next operation with the same result.
_MAX_VIEWS = 64

_PyBUF_WRITE = 0x200

_Function = TypeVar("_Function", bound=Callable[..., Any])


def without_modes(function: _Function) -> _Function:
    """Calls `function` outside of torch's function modes.

    torch.set_default_device installs such a mode: each access to a property of a tensor then takes
    microseconds, and a call has a hundred.
    """
    guard = torch._C.DisableTorchFunction

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with guard():
            return function(*args, **kwargs)

    return plain  # type: ignore[return-value]

_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype = ctypes.py_object
_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def dtype_number(name: str, dtype: Any) -> int:
    """The number of a torch dtype."""
    number = _NUMBERS.get(dtype)
    if number is None:
        raise _wrong_dtype(name, dtype)
    return number


def _wrong_dtype(name: str, dtype: object) -> errors.InvalidArgument:
    known = ", ".join(sorted(str(d).replace("torch.", "") for d in {*_NUMBERS, torch.uint8}))
    return errors.invalid(
        _DTYPE, f"{name}.dtype", str(dtype), "one of " + known, "convert the tensor"
    )


class Slot:
    """A tensor of an argument structure. It keeps the description of its last tensor: a loop over
    the same memory describes nothing, and for new memory of the same form only the address changes.
    """

    __slots__ = ("_field", "_name", "_address", "_form", "_by_columns")

    def __init__(self, field: _abi.Tensor, name: str, by_columns: bool = False) -> None:
        """
        Args:
            field: the part of the structure.
            name: the argument, for errors.
            by_columns: whether a column-major matrix is allowed.
        """
        self._field = field
        self._name = name
        self._address = 0
        self._form: Optional[tuple] = None
        self._by_columns = by_columns

    def set(self, tensor: Optional[torch.Tensor], byte_type: int = _abi.UINT8) -> None:
        """Describes a tensor; None is no tensor.

        Args:
            byte_type: what a tensor of uint8 holds.
        """
        if tensor is None:
            if self._form is not None:
                self._form = None
                self._field.dimensions = 0
            return
        try:
            address = tensor.data_ptr()
            form = (
                tensor.shape,
                tensor.stride(),
                tensor.dtype,
                tensor.device,
                byte_type,
            )
        except (AttributeError, RuntimeError, NotImplementedError):
            raise self._no_tensor(tensor) from None
        if form != self._form:
            # A tensor that is refused leaves no tensor, not the one before it.
            self._form = None
            self._field.dimensions = 0
            self._describe(tensor, byte_type)
            self._form = form
        elif address != self._address:
            self._field.data = address
        self._address = address

    def _no_tensor(self, tensor: Any) -> errors.InvalidArgument:
        kind = type(tensor).__name__
        layout = getattr(tensor, "layout", None)
        return errors.invalid(
            _NO_TENSOR,
            self._name,
            kind if layout is None else f"{kind} with layout {layout}",
            "a torch.Tensor with memory (dense, on a CPU or CUDA device)",
            "pass such a tensor, for example x.to_dense()",
        )

    def _describe(self, tensor: torch.Tensor, byte_type: int) -> None:
        name = self._name
        device = tensor.device
        if tensor.layout is not torch.strided or device.type not in ("cpu", "cuda"):
            raise errors.invalid(
                _NO_TENSOR,
                name,
                f"tensor on {device} with layout {tensor.layout}",
                "dense, on a CPU or CUDA device",
                "move the tensor there",
            )
        number = byte_type if tensor.dtype is torch.uint8 else _NUMBERS.get(tensor.dtype)
        if number is None:
            raise _wrong_dtype(name, tensor.dtype)
        dimensions = tensor.dim()
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise errors.invalid(
                _DTYPE,
                f"{name}.dim()",
                dimensions,
                f"1..{_MAX_DIMENSIONS}",
                "reshape the tensor",
            )
        shape = list(tensor.shape)
        strides = list(tensor.stride())
        if tensor.is_contiguous():
            # torch counts strides of empty and of single dimensions in its own way.
            strides = [0] * dimensions
        elif not self._is_by_columns(shape, strides):
            raise errors.invalid(
                _STRIDES,
                f"{name}.stride()",
                tuple(strides),
                f"row-major without gaps for the shape {tuple(shape)}"
                + (", or (1, A) with A >= T" if self._by_columns else ""),
                "pass x.contiguous()",
            )
        if number == _abi.NVFP4:
            shape[-1] *= 2
        absent = [0] * (_MAX_DIMENSIONS - dimensions)
        # One write: an assignment to each member would take most of the time of a call with new tensors.
        _DESCRIPTION.pack_into(
            self._field,
            0,
            tensor.data_ptr(),
            *shape,
            *absent,
            *strides,
            *absent,
            dimensions,
            number,
            device.index if device.type == "cuda" else _abi.HOST,
            0,
        )

    def _is_by_columns(self, shape: list, strides: list) -> bool:
        return (
            self._by_columns and len(shape) == 2 and strides[0] == 1 and strides[1] >= shape[0]
        )


def described(name: str, tensor: Any, byte_type: int = _abi.UINT8) -> _abi.Tensor:
    """The description of a tensor outside of a loop."""
    field = _abi.Tensor()
    if tensor is None:
        raise errors.invalid(_NO_TENSOR, name, None, "a torch.Tensor", "pass one")
    Slot(field, name).set(tensor, byte_type)
    return field


class Views:
    """Tensors over the memory of a buffer.

    The memory belongs to the buffer: a tensor is valid as long as ep4j.h says of its result.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: Dict[Tuple[bytes, Optional[torch.dtype]], torch.Tensor] = {}

    def at(
        self, raw: bytes, offset: int, dtype: Optional[torch.dtype] = None
    ) -> Optional[torch.Tensor]:
        """The tensor that an ep4j_tensor at an offset of a structure describes; None if absent.

        Args:
            raw: bytes of the structure.
            dtype: instead of the one for the described type, of the same size.
        """
        key = (raw[offset : offset + _DESCRIPTION_BYTES], dtype)
        kept = self._kept.get(key)
        if kept is None:
            kept = _over(key[0], dtype)
            if kept is None:
                return None
            if len(self._kept) >= _MAX_VIEWS:
                self._kept.clear()
            self._kept[key] = kept
        # A tensor of its own: a caller may set its requires_grad or its grad.
        return kept.data

    def of(self, tensor: _abi.Tensor) -> torch.Tensor:
        """The tensor that a structure describes."""
        view = self.at(bytes(tensor), 0)
        assert view is not None
        return view


class _CudaArray:
    """Bytes of a GPU in the form in which torch takes over memory of others."""

    def __init__(self, address: int, length: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (length,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def _over(description: bytes, dtype: Optional[torch.dtype]) -> Optional[torch.Tensor]:
    unpacked = _DESCRIPTION.unpack(description)
    address = unpacked[0]
    dimensions, number, device = unpacked[7:10]
    if dimensions == 0:
        return None
    shape = list(unpacked[1 : 1 + dimensions])
    strides = list(unpacked[4 : 4 + dimensions])
    if number == _abi.NVFP4:
        shape[-1] //= 2
        strides[:-1] = [stride // 2 for stride in strides[:-1]]
    kind = dtype if dtype is not None else _DTYPES[number]
    assert kind is not None
    place = torch.device("cpu") if device == _abi.HOST else torch.device("cuda", device)
    # Tensors of inference mode could not be used outside of it.
    with torch.inference_mode(False):
        if 0 in shape:
            return torch.empty(shape, dtype=kind, device=place)
        elements = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
        length = elements * torch.empty(0, dtype=kind, device="cpu").element_size()
        if device == _abi.HOST:
            flat = torch.frombuffer(_memory(address, length, _PyBUF_WRITE), dtype=torch.uint8)
        else:
            flat = torch.as_tensor(_CudaArray(address, length), device=place)
        return flat.view(kind).as_strided(shape, strides)


# The CUstream without an object of torch.cuda.Stream for each call.
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def raw_stream(stream: Any, device: torch.device) -> int:
    """The CUstream of an argument `stream`: None is torch's current one."""
    if stream is None:
        if _current_stream is not None:
            return _current_stream(device.index)
        return torch.cuda.current_stream(device).cuda_stream
    if isinstance(stream, int):
        return stream
    return stream.cuda_stream


def await_current_stream(*given: Optional[torch.Tensor]) -> None:
    """Waits for torch's current stream on the devices of CUDA tensors, in front of a function without a stream.

    Such a function waits for its own copies and kernels, which run on a stream of their own or on the default stream.
    Neither is in order with torch's streams, so work of these that makes the tensors, or that still uses their memory,
    must have ended.
    """
    for device in {tensor.device for tensor in given if tensor is not None and tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
