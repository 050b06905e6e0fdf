"""Completion of asynchronous operations."""

import ctypes
from typing import Any, List, Optional

from . import _jvm, arguments, errors

_NO_OBJECT = 1040


class Operation:
    """An asynchronous operation that may use tensors of the caller. InFlight holds it until the
    operation has ended, so these tensors live until then, also if the caller drops all objects.
    """

    __slots__ = ("number", "_tensors", "_ended", "_unused")

    def __init__(self, number: int, tensors: Any) -> None:
        self.number = number
        self._tensors = tensors
        self._ended = False
        self._unused = False

    def has_ended(self) -> bool:
        """Asks the engine, without a wait."""
        if not self._ended:
            done = ctypes.c_int32()
            # A failed operation, and one of a closed or reset buffer, has ended too.
            status = _jvm.start().event_query(self.number, ctypes.addressof(done))
            if status != 0 or done.value:
                self.end()
        return self._ended

    def end(self) -> None:
        """The operation has ended: the engine does not use the tensors any more."""
        self._ended = True
        self._tensors = None
        if self._unused:
            self._close()

    def leave(self) -> None:
        """The caller does not need the event any more."""
        if not self._unused:
            self._unused = True
            if self._ended:
                self._close()

    def _close(self) -> None:
        # Its errors do not matter: the buffer may have closed the event.
        _jvm.start().close(self.number)


class InFlight:
    """The asynchronous operations of a buffer that have not ended as far as it knows.

    It lives until `end_all`, even if the caller drops the buffer or the interpreter ends: the
    engine ends with neither, and tensors in use must not be freed.
    """

    __slots__ = ("_operations", "_all_ended")

    def __init__(self) -> None:
        self._operations: List[Operation] = []
        self._all_ended = False
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def add(self, number: int, tensors: Any) -> Operation:
        """Takes an operation, and forgets those that have ended."""
        self._operations = [one for one in self._operations if not one.has_ended()]
        operation = Operation(number, tensors)
        self._operations.append(operation)
        return operation

    def end_all(self) -> None:
        """The buffer was closed: nothing runs any more. May be called again."""
        for operation in self._operations:
            operation.end()
        self._operations.clear()
        if not self._all_ended:
            self._all_ended = True
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(self))


class Event:
    """Completion of one asynchronous operation.

    Any thread may use it. Tensors that were passed to the operation live until the operation has
    ended, whether or not the event is used. An event is closed when it is collected.
    """

    __slots__ = ("_operation", "_closed")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._closed = False

    def query(self) -> bool:
        """Whether the operation has ended; does not wait, and raises no error of the operation."""
        self.number()
        return self._operation.has_ended()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the operation has ended.

        Args:
            timeout: longest wait in seconds; None: as long as the operation may take.

        Returns:
            Whether it has ended.

        Raises:
            Error: the error of the operation.
        """
        number = self.number()
        limit = -1 if timeout is None else arguments.milliseconds("timeout", timeout, 0)
        done = ctypes.c_int32()
        status = _jvm.start().event_wait(number, limit, ctypes.addressof(done))
        if status != 0:
            _jvm.raise_last(status)
        if done.value:
            self._operation.end()
        return bool(done.value)

    def number(self) -> int:
        """The ep4j_event, for `previous` of other operations."""
        if self._closed:
            raise errors.invalid(
                _NO_OBJECT, "event", "closed", "an open event", "use it before it is closed"
            )
        return self._operation.number

    def close(self) -> None:
        """Frees the event; closing twice is harmless. Does not wait."""
        if not self._closed:
            self._closed = True
            self._operation.leave()

    def __del__(self) -> None:
        try:
            self.close()
        except (errors.Error, AttributeError, TypeError):
            pass  # A forked child, an event that was never built, or the end of the interpreter.
