"""What the operations of a buffer share: arguments that are used again, results, views."""

import ctypes
import threading
from typing import Any, Dict, Iterable, Optional, Tuple

import torch

from . import _abi, _jvm, arguments, errors, tensors
from .event import Event, InFlight

_OUTDATED = 1040
_SECOND_THREAD = 2302


class Fields:
    """Where the tensors and numbers of a result structure lie."""

    def __init__(self, structure: Any) -> None:
        self.bytes = ctypes.sizeof(structure)
        self.offsets: Dict[str, int] = {
            name: getattr(structure, name).offset for name, _ in structure._fields_
        }


class Arguments:
    """The argument structure of a function, written where a call differs from the last."""

    __slots__ = ("structure", "address", "slots", "_options", "_values", "_execution", "_plain")

    def __init__(
        self, structure: Any, tensor_names: Iterable[str], options: Tuple[str, ...]
    ) -> None:
        """
        Args:
            structure: an ep4j_*_args.
            tensor_names: its tensors.
            options: its fields that `set_options` gets, int32 but for max_rows.
        """
        self.structure = structure
        self.address = ctypes.addressof(structure)
        self.slots = [
            tensors.Slot(getattr(structure, name), name, by_columns=name == "scales")
            for name in tensor_names
        ]
        self._options = options
        self._values: Optional[tuple] = None
        self._execution: _abi.Execution = structure.execution
        # Whether the last call had an execution of zeros.
        self._plain = True

    def set_options(self, values: tuple) -> None:
        """Writes the options of a call."""
        if values != self._values:
            self._values = None
            for name, value in zip(self._options, values):
                convert = arguments.int64 if name == "max_rows" else arguments.int32
                setattr(self.structure, name, convert(name, value))
            self._values = values

    def set_execution(
        self, x: Any, stream: Any, previous: Optional[Event], asynchronous: bool
    ) -> None:
        """Writes when the operation starts, and where it runs.

        Args:
            x: a tensor of the operation: CUDA tensors run on a stream.
        """
        on_stream = stream is not None or (x is not None and x.is_cuda)
        plain = not on_stream and previous is None and not asynchronous
        if plain and self._plain:
            return
        self._plain = plain
        execution = self._execution
        execution.on_stream = 1 if on_stream else 0
        execution.stream = tensors.raw_stream(stream, x.device) if on_stream else 0
        execution.previous = 0 if previous is None else previous.number()
        execution.async_ = 1 if asynchronous else 0


class Written:
    """A result structure that calls write one after another."""

    __slots__ = ("structure", "address", "bytes")

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self.address = ctypes.addressof(structure)
        #: A copy of the present bytes.
        self.bytes = memoryview(structure).cast("B").tobytes


class Owner:
    """An open buffer as its operations and results see it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._api = _jvm.start()
        self._views = tensors.Views()
        self._in_flight = InFlight()
        # Held by the thread that is inside a call.
        self._inside = threading.Lock()
        self._enter = self._inside.acquire
        self._leave = self._inside.release
        # The numbers of the results that are valid, by kind.
        self._valid: Dict[str, Tuple[int, ...]] = {}


def second_thread() -> errors.InvalidUse:
    """Another thread is inside a call of the buffer."""
    return errors.InvalidUse(
        errors.text_of(
            _SECOND_THREAD,
            "another thread is inside a call of this buffer: let one thread at a time use a buffer",
        ),
        _SECOND_THREAD,
    )


def record_streams(stream: Any, given: Iterable[Any]) -> None:
    """Tells torch's allocator that a stream other than the current one uses CUDA tensors."""
    if isinstance(stream, int):
        device = next((x.device for x in given if x is not None and x.is_cuda), None)
        if device is None:
            return
        stream = torch.cuda.ExternalStream(stream, device=device)
    for tensor in given:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(stream)


class Result:
    """The result of an operation. Tensors are views of the buffer's memory, made when they are
    asked for; after the lifetime of the result that is an error.

    Attributes:
        event: completion of an asynchronous operation; otherwise None.
    """

    _FIELDS: Fields
    # The operation, for errors, and the function that completes a result.
    _KIND = ""
    _FILL = ""

    def __init__(self, owner: Owner, written: "Written", complete: bool, given: Any) -> None:
        """
        Args:
            written: what the call wrote; the next call writes it again.
            complete: whether the call wrote all of it.
            given: tensors of the caller that the operation uses.
        """
        self._owner = owner
        self._raw: bytes = written.bytes()
        structure = written.structure
        self._number: int = structure.result
        self._complete = complete
        self._made: Dict[str, Any] = {}
        event = structure.event
        self.event = Event(owner._in_flight.add(event, given)) if event else None

    def _int64(self, name: str) -> int:
        """A number of the structure."""
        offset = self._FIELDS.offsets[name]
        return int.from_bytes(self._raw[offset : offset + 8], "little", signed=True)

    def _view(
        self, name: str, dtype: Optional[torch.dtype] = None, wait: bool = False
    ) -> Optional[torch.Tensor]:
        """A tensor of the structure.

        Args:
            dtype: as Views.at.
            wait: whether only the complete result has the tensor.
        """
        made = self._made.get(name)
        if made is None and name not in self._made:
            if wait:
                self._fill()
            self._require_valid()
            made = self._owner._views.at(self._raw, self._FIELDS.offsets[name], dtype)
            self._made[name] = made
        return made

    def _require_valid(self) -> None:
        if self._number not in self._owner._valid.get(self._KIND, ()):
            raise errors.invalid(
                _OUTDATED,
                "result",
                f"that of {self._KIND} {self._number}, outdated",
                "one that is valid, of an open buffer",
                f"use or copy its tensors before the next {self._KIND}",
            )

    def _fill(self) -> None:
        """Waits for the end of the operation, and for its counts."""
        if not self._complete:
            self._require_valid()
            length = self._FIELDS.bytes
            memory = ctypes.create_string_buffer(length.to_bytes(8, "little"), length)
            status = getattr(_jvm.start(), self._FILL)(self._number, ctypes.addressof(memory))
            if status != 0:
                _jvm.raise_last(status)
            self._raw = memory.raw
            self._complete = True
