"""Where an operation runs, and what its event is.

| call | stream | event |
|---|---|---|
| CPU tensors | none: the operation has ended when the call returns | over |
| CUDA tensors | the current stream, after ``previous_event`` | none |
| CUDA, ``async_finish`` | the communication stream, after ``previous_event`` or the current stream | its own |

Results of an asynchronous call are allocated for the communication stream, also without
``allocate_on_comm_stream``: that is never less safe.
"""

from typing import Any, Iterable, Optional

import torch

from .errors import refused
from .event import EventHandle, EventOverlap


class CommunicationStream:
    """The stream of asynchronous operations of a buffer; made when it is first used."""

    def __init__(self) -> None:
        self._stream: Optional["torch.cuda.Stream"] = None

    def get(self) -> "torch.cuda.Stream":
        if not torch.cuda.is_available():
            raise refused(
                "a communication stream was asked for; it exists on GPUs only: CPU operations have none"
            )
        if self._stream is None:
            self._stream = torch.cuda.Stream(priority=-1)
        return self._stream


class StreamScope:
    """The context of one operation: ``with StreamScope(...) as scope: ...; event = scope.event``."""

    def __init__(
        self,
        streams: CommunicationStream,
        device: torch.device,
        previous_event: Optional[EventOverlap],
        async_finish: bool,
        allocate_on_comm_stream: bool = False,
    ) -> None:
        if allocate_on_comm_stream and not (previous_event is not None and async_finish):
            raise refused(
                "allocate_on_comm_stream = True; it must come with previous_event and async_finish:"
                " pass both, or leave it out"
            )
        self.event = EventOverlap()
        self._on_gpu = device.type == "cuda"
        self._streams = streams
        self._previous = previous_event
        self._async = async_finish
        self._foreign: Any = None
        self._caller: Any = None

    def __enter__(self) -> "StreamScope":
        if not self._on_gpu:
            return self
        previous = self._previous
        if self._async:
            self._caller = torch.cuda.current_stream()
            stream = self._streams.get()
            if previous is None:
                stream.wait_stream(self._caller)
            self._foreign = torch.cuda.stream(stream)
            self._foreign.__enter__()
        if previous is not None:
            previous.current_stream_wait()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._async and kind is None:
            self.event = EventOverlap(EventHandle())
        if self._foreign is not None:
            self._foreign.__exit__(kind, error, trace)

    def keep(self, inputs: Iterable[Any] = (), results: Iterable[Any] = ()) -> None:
        """Keeps the memory of the tensors until both streams have used it; call it inside the scope."""
        if self._foreign is None:
            return
        for tensor in inputs:
            if tensor is not None:
                tensor.record_stream(torch.cuda.current_stream())
        for tensor in results:
            if tensor is not None:
                tensor.record_stream(self._caller)
