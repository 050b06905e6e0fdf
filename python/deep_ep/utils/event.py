"""Events, under the name that newer callers import."""

from ..event import EventHandle, EventOverlap

__all__ = ["EventHandle", "EventOverlap"]
