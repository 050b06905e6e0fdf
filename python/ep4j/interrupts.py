"""Ctrl-C ends waits: the main thread cannot run its signal handler while it is inside a C function.

Python's own C handler of a signal writes the number of the signal into a wakeup descriptor. A thread
reads it, and ends the wait of the main thread's call; the handler then raises KeyboardInterrupt. A
program that has a wakeup descriptor of its own, as asyncio has, or a handler of its own for SIGINT, is
left alone: its handler runs when the call has ended.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Optional

from . import _abi

# The call may not have begun when it is interrupted, or it may wait again.
_INTERVAL = 0.02
_PACKAGE = __name__.rpartition(".")[0] + "."
_NONE = -1


class _Watcher:
    """The thread, and the descriptor that wakes it; one for a process."""

    def __init__(self, api: _abi.Api) -> None:
        number = ctypes.c_uint64()
        api.caller(ctypes.addressof(number))
        self._api = api
        self._caller = number.value
        self._main = threading.get_ident()
        self._source, self._target = os.pipe()
        os.set_blocking(self._target, False)
        threading.Thread(target=self._watch, name="ep4j-interrupts", daemon=True).start()

    def install(self) -> None:
        """Sets the wakeup descriptor of the process if there is none; main thread."""
        before = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        if before not in (_NONE, self._target):
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            self._forward(before)

    def _forward(self, owner: int) -> None:
        """Signals between the two calls of `install` belong to the owner of the descriptor."""
        os.set_blocking(self._source, False)
        try:
            os.write(owner, os.read(self._source, 64))
        except OSError:
            pass  # None, or no room: the owner is awake.
        finally:
            os.set_blocking(self._source, True)

    def remove(self) -> None:
        """In a child of fork, which has the descriptor but not the thread."""
        before = signal.set_wakeup_fd(_NONE)
        if before not in (_NONE, self._target):
            signal.set_wakeup_fd(before)
        os.close(self._source)
        os.close(self._target)

    def _watch(self) -> None:
        while True:
            try:
                signals = os.read(self._source, 64)
            except BlockingIOError:
                continue
            if signal.SIGINT in signals:
                self._end_call()

    def _end_call(self) -> None:
        """Ends the wait in which the main thread is, and no later one."""
        call: Optional[FrameType] = None
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            frame = sys._current_frames().get(self._main)
            if frame is None or (call is not None and frame is not call):
                return
            if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
                return
            call = frame
            self._api.interrupt(self._caller)
            time.sleep(_INTERVAL)


_watcher: Optional[_Watcher] = None


def watch(api: _abi.Api) -> None:
    """Lets Ctrl-C end the waits of the main thread; no effect in other threads."""
    global _watcher
    if threading.current_thread() is not threading.main_thread():
        return
    try:
        if _watcher is None:
            _watcher = _Watcher(api)
        _watcher.install()
    except ValueError:
        pass  # A subinterpreter, which has no signals.


def forget() -> None:
    """In a child of fork."""
    global _watcher
    if _watcher is not None:
        _watcher.remove()
        _watcher = None
