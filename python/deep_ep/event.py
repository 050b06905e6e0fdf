"""Events: CUDA events on GPUs. CPU operations have ended when their call returns, so their events are over."""

from typing import Any, Callable, Optional, Sequence

import torch


class EventHandle:
    """The work that the current CUDA stream has when the handle is made; without CUDA, nothing to wait for."""

    def __init__(self) -> None:
        self._event: Optional["torch.cuda.Event"] = None
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream())

    def current_stream_wait(self) -> None:
        """Later work of the current stream begins after the event."""
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)


class EventOverlap:
    """An event, and the tensors that must live until it has happened.

    ``with event:`` runs its body, then lets the current stream wait.
    """

    def __init__(
        self, event: Optional[EventHandle] = None, extra_tensors: Optional[Sequence[Any]] = None
    ) -> None:
        self.event = event
        self.extra_tensors = extra_tensors
        self._hook_after_wait: Optional[Callable[[], None]] = None
        self._release_after_with = False

    def current_stream_wait(self, release_handle: bool = False) -> None:
        """Lets the current stream wait for the event; ``release_handle`` then drops event and tensors."""
        if self.event is not None:
            self.event.current_stream_wait()
        hook, self._hook_after_wait = self._hook_after_wait, None
        if hook is not None:
            hook()
        if release_handle:
            self.event = None
            self.extra_tensors = None

    def register_hook_after_wait(self, hook_after_wait: Callable[[], None]) -> None:
        """Calls the function after the next ``current_stream_wait``."""
        self._hook_after_wait = hook_after_wait

    def __call__(self, release_handle: bool = False) -> "EventOverlap":
        self._release_after_with = release_handle
        return self

    def __enter__(self) -> "EventOverlap":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.current_stream_wait(self._release_after_with)
        self._release_after_with = False
