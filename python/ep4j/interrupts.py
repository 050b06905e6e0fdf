"""Ctrl-C ends waits: the main thread cannot run its signal handler while it is inside a C function.

Python's own C handler of a signal writes the number of the signal into a wakeup descriptor. A
thread waits for it, and ends the wait of the main thread's call; the handler then raises
KeyboardInterrupt. A signal that came before a call is not for that call: Python has handled it. So
the main thread takes what was written from the descriptor before each call.

A program that has a wakeup descriptor of its own, as asyncio has, or a handler of its own for
SIGINT, is left alone: its handler runs when the call has ended.
"""

import ctypes
import functools
import os
import select
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
        self.main = threading.get_ident()
        self._source, self._target = os.pipe()
        os.set_blocking(self._source, False)
        os.set_blocking(self._target, False)
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        self._wait = poll.poll
        mine = select.poll()
        mine.register(self._source, select.POLLIN)
        # What was written and not taken yet; for the main thread, which does not wait.
        self.pending = functools.partial(mine.poll, 0)
        threading.Thread(target=self._watch, name="ep4j-interrupts", daemon=True).start()

    def install(self) -> None:
        """Sets the wakeup descriptor of the process if there is none; main thread."""
        before = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        if before not in (_NONE, self._target):
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            self._forward(before)

    def _forward(self, owner: int) -> None:
        """Signals between the two calls of `install` belong to the owner of the descriptor."""
        signals = self.take()
        if signals:
            try:
                os.write(owner, signals)
            except OSError:
                pass  # No room: the owner is awake.

    def take(self) -> bytes:
        """The numbers of the signals that were written and not taken yet."""
        try:
            return os.read(self._source, 4096)
        except BlockingIOError:
            return b""

    def remove(self) -> None:
        """In a child of fork, which has the descriptor but not the thread."""
        before = signal.set_wakeup_fd(_NONE)
        if before not in (_NONE, self._target):
            signal.set_wakeup_fd(before)
        os.close(self._source)
        os.close(self._target)

    def _watch(self) -> None:
        while True:
            self._wait()
            # In this order: if the main thread has ended this call and begun another one, it has
            # taken the signal.
            call = self._call()
            if signal.SIGINT in self.take() and call is not None:
                self._end(call)
            del call

    def _call(self) -> Optional[FrameType]:
        """The frame of the main thread if it is in a function of this package."""
        frame = sys._current_frames().get(self.main)
        if frame is None or not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            return None
        return frame

    def _end(self, call: FrameType) -> None:
        """Ends the wait of a call, and of no later one."""
        while (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler and self._call() is call
        ):
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


def arrive() -> None:
    """Before each call that may wait: signals that have come already are not for it."""
    watcher = _watcher
    if watcher is not None and threading.get_ident() == watcher.main and watcher.pending():
        watcher.take()


def forget() -> None:
    """In a child of fork."""
    global _watcher
    if _watcher is not None:
        _watcher.remove()
        _watcher = None
