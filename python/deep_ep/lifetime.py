"""How long a buffer lives: until ``destroy``, or until it is collected."""

from typing import Optional

import ep4j
import torch

from .errors import CLOSED, misused
from .runtime import Runtime
from .shapes import Shapes
from .streams import CommunicationStream


class Lifetime:
    """What ``Buffer`` and ``ElasticBuffer`` share: closing, ``reset``, the communication stream."""

    explicitly_destroy: bool
    runtime: Optional[Runtime]  # None once the buffer is closed
    _shapes: Shapes
    _streams: CommunicationStream

    def destroy(self) -> None:
        """Closes the buffer; needs ``explicitly_destroy``. Closing does not wait for other ranks."""
        if not self.explicitly_destroy:
            raise misused(
                "destroy() needs explicitly_destroy = True: pass it to the constructor", CLOSED
            )
        self._close()

    def reset(self) -> None:
        """Makes the buffer usable after ``ep4j.PeerTimeout``; collective among the live ranks.

        Handles and views from before are outdated. DeepEP has no such method.
        """
        self._shapes.reset()

    def get_comm_stream(self) -> "torch.cuda.Stream":
        """The CUDA stream of asynchronous operations."""
        return self._streams.get()

    def _close(self) -> None:
        if self.runtime is not None:
            self.runtime = None
            self._shapes.close()

    def __del__(self) -> None:
        # Also of a buffer whose constructor failed.
        if getattr(self, "runtime", None) is not None and not self.explicitly_destroy:
            try:
                self._close()
            except ep4j.Error:
                pass  # The process ends, or the group is lost: no caller can act on it here.
