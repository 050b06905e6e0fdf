"""Python values as fields of C structures, which would cut them silently."""

import math
import operator
from typing import Optional

from . import errors

_VALUE = 1042
_INT32 = 1 << 31
_INT64 = 1 << 63


def invalid_value(name: str, value: object, limit: str, remedy: str) -> errors.InvalidArgument:
    """An error about a value that the field of a structure cannot hold."""
    return errors.invalid(_VALUE, name, value, limit, remedy)


def int32(name: str, value: object) -> int:
    """An integer of 32 bits."""
    return _integer(name, value, _INT32, "-2^31..2^31-1")


def int64(name: str, value: object) -> int:
    """An integer of 64 bits."""
    return _integer(name, value, _INT64, "-2^63..2^63-1")


def _integer(name: str, value: object, bound: int, limit: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = bound
    if not -bound <= number < bound:
        raise invalid_value(name, repr(value), "an integer in " + limit, "correct it")
    return number


def milliseconds(name: str, seconds: object, smallest: int = 1) -> int:
    """A time in seconds, rounded up; `smallest` in milliseconds."""
    try:
        number = math.ceil(float(seconds) * 1000)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not smallest <= number < _INT64:
        limit = "a number of seconds, " + ("0 or more" if smallest == 0 else "more than 0")
        raise invalid_value(name, repr(seconds), limit, "correct it")
    return number


def text(name: str, value: Optional[str]) -> Optional[bytes]:
    """A string of C, or NULL for None."""
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise invalid_value(name, repr(value), "a str without \\0", "correct it")
    return value.encode()
