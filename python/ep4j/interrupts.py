"""Ctrl-C ends waits: the main thread cannot run its signal handler while it is inside a C function.

Python's own C handler of a signal writes the number of the signal into a wakeup descriptor. A
thread waits for it, and ends the wait of the main thread's call; the handler then raises
KeyboardInterrupt.

The main thread counts its calls. Before each, it takes what was written from the descriptor: Python
has handled these signals, or handles them before the call begins. What the thread takes from it is
for the call of the present number, which may not have begun: Python looks for signals before the
last steps to a call, and not again. So the thread tries until the number changes or the main thread
has left the package.

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
        self._pending = functools.partial(mine.poll, 0)
        # While the thread holds it, the main thread begins no call. The main thread may take it
        # twice: the collector of garbage may close an event inside `arrive`.
        self._lock = threading.RLock()
        # Number of the main thread's present or last call.
        self._call = 0
        threading.Thread(target=self._watch, name="ep4j-interrupts", daemon=True).start()

    def install(self) -> None:
        """Sets the wakeup descriptor of the process if there is none; main thread."""
        before = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        if before not in (_NONE, self._target):
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            self._forward(before)

    def _forward(self, owner: int) -> None:
        """Signals between the two calls of `install` belong to the owner of the descriptor."""
        signals = self._take()
        if signals:
            try:
                os.write(owner, signals)
            except OSError:
                pass  # No room: the owner is awake.

    def arrive(self) -> None:
        """The main thread begins a call."""
        with self._lock:
            # Python looks for signals after this line: those before it end no call.
            self._call += 1
            if self._pending():
                self._take()

    def _take(self) -> bytes:
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
            with self._lock:
                call = self._call
                signals = self._take()
            if signal.SIGINT in signals:
                while self._interrupt(call):
                    time.sleep(_INTERVAL)

    def _interrupt(self, call: int) -> bool:
        """Ends the wait of a call, and of no later one.

        Returns:
            Whether the main thread may be in the call, or about to begin it.
        """
        with self._lock:
            if (
                self._call != call
                or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
                or not self._is_inside()
            ):
                return False
            self._api.interrupt(self._caller)
        return True

    def _is_inside(self) -> bool:
        """Whether the main thread is in a function of this package, or in one that it called."""
        frame = sys._current_frames().get(self.main)
        while frame is not None:
            if str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
                return True
            frame = frame.f_back
        return False


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
    if watcher is not None and threading.get_ident() == watcher.main:
        watcher.arrive()


def forget() -> None:
    """In a child of fork."""
    global _watcher
    if _watcher is not None:
        _watcher.remove()
        _watcher = None
