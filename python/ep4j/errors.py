"""Exceptions of ep4j: one class for each kind of error that ep4j.h defines."""

import enum
from typing import Dict, Optional, Type


class ErrorKind(enum.IntEnum):
    """``EP4J_ERROR_*`` of ep4j.h."""

    ARGUMENT = 1
    USE = 2
    UNAVAILABLE = 3
    MISMATCH = 4
    PEER_TIMEOUT = 5
    OVERFLOW = 6
    PEER_LOST = 7
    GROUP_TIMEOUT = 8
    JOIN_REFUSED = 9
    GROUP = 10
    SYSTEM = 11
    DEFECT = 12
    INTERRUPTED = 13


class Error(RuntimeError):
    """An error of ep4j; the text says what is wrong and what to do.

    Attributes:
        code: number of the stable code, 1432 for ``EP4J-1432`` of docs/errors.md.
        rank: the rank at fault, or None.
        kind: the kind of the error.
    """

    kind: ErrorKind = ErrorKind.DEFECT

    def __init__(self, text: str, code: int, rank: Optional[int] = None) -> None:
        super().__init__(text)
        self.code = code
        self.rank = rank

    def __reduce__(self) -> tuple:
        # Exceptions travel between processes; the base class would keep the text only.
        return type(self), (str(self), self.code, self.rank)


class InvalidArgument(Error, ValueError):
    """An argument is not valid; nothing was sent."""

    kind = ErrorKind.ARGUMENT


class InvalidUse(Error):
    """The state of the object does not allow the call; nothing was sent."""

    kind = ErrorKind.USE


class Unavailable(Error):
    """The engine cannot run on this machine."""

    kind = ErrorKind.UNAVAILABLE


class ConfigurationMismatch(Error):
    """Ranks disagree on the configuration or on the next operation."""

    kind = ErrorKind.MISMATCH


class PeerTimeout(Error):
    """A peer is dead or silent: call ``reset`` on all live ranks."""

    kind = ErrorKind.PEER_TIMEOUT


class Overflow(Error):
    """More rows than the receive region holds."""

    kind = ErrorKind.OVERFLOW


class PeerLost(Error):
    """A rank is no longer in the group."""

    kind = ErrorKind.PEER_LOST


class GroupTimeout(Error):
    """Ranks did not do their part in a collective of the group."""

    kind = ErrorKind.GROUP_TIMEOUT


class JoinRefused(Error):
    """The rendezvous refuses this rank; a retry does not help."""

    kind = ErrorKind.JOIN_REFUSED


class GroupError(Error):
    """Another error between the ranks of a group."""

    kind = ErrorKind.GROUP


class SystemFailure(Error):
    """An error of the machine: memory, library, file, JVM."""

    kind = ErrorKind.SYSTEM


class Defect(Error):
    """An unexpected error, a defect of ep4j."""

    kind = ErrorKind.DEFECT


class Interrupted(Error):
    """Ctrl-C has ended the wait of the call, and a handler of SIGINT has returned."""

    kind = ErrorKind.INTERRUPTED


CLASSES: Dict[int, Type[Error]] = {
    error.kind: error
    for error in (
        InvalidArgument,
        InvalidUse,
        Unavailable,
        ConfigurationMismatch,
        PeerTimeout,
        Overflow,
        PeerLost,
        GroupTimeout,
        JoinRefused,
        GroupError,
        SystemFailure,
        Defect,
        Interrupted,
    )
}


def text_of(code: int, message: str) -> str:
    """The text of an error that Python raises, as the Java API writes it."""
    return f"EP4J-{code:04d}: {message}"


def invalid(code: int, argument: str, value: object, limit: str, remedy: str) -> InvalidArgument:
    """An error about the value of an argument."""
    return InvalidArgument(
        text_of(code, f"{argument} = {value}; it must be {limit}: {remedy}"), code
    )
