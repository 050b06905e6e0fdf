"""The rows of a dispatch: ``x``, ``(x, scales)`` or ``(x, scales, token_scales)``."""

from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

import torch

from .config import zero_copy
from .dtypes import FP8, as_bytes
from .errors import TENSOR, refused


class Rows(NamedTuple):
    """Rows as the caller passed them, or as ep4j takes them."""

    x: torch.Tensor
    hidden: int
    scales: Optional[torch.Tensor] = None
    token_scales: Optional[torch.Tensor] = None  # [T, ...] of the caller
    packing: Optional[torch.dtype] = None  # in which the caller packs NVFP4

    @property
    def global_scales(self) -> Optional[torch.Tensor]:
        """The token scales [T]."""
        return None if self.token_scales is None else self.token_scales.reshape(-1)

    def received(
        self, dispatched: Any, own: Callable[[torch.Tensor], torch.Tensor]
    ) -> Union[torch.Tensor, Tuple[torch.Tensor, ...]]:
        """The rows of a dispatch in the form that was passed; `own` gives a view to the caller."""
        x = own(dispatched.x)
        if self.scales is None:
            return x
        scales = own(dispatched.scales)
        if self.token_scales is None:
            return x, scales
        return (
            x.view(self.packing),
            scales,
            own(dispatched.global_scales).view(-1, *self.token_scales.shape[1:]),
        )

    def sendable(self) -> "Rows":
        """The rows as ep4j takes them. Call it inside the scope of the operation: copies run on its stream."""
        x, scales = self.x, self.scales
        if self.packing is not None:
            x = as_bytes(x.contiguous())
        if scales is not None:
            by_columns = scales.stride(0) == 1 and scales.stride(1) >= scales.shape[0]
            scales = scales if by_columns else scales.contiguous()
        return self._replace(x=x, scales=scales)

    def first(self, tokens: int) -> "Rows":
        """The rows of the first tokens."""
        return self._replace(
            x=self.x[:tokens],
            scales=None if self.scales is None else self.scales[:tokens],
            token_scales=None if self.token_scales is None else self.token_scales[:tokens],
        )

    def tensors(self) -> Tuple[Optional[torch.Tensor], ...]:
        return self.x, self.scales, self.token_scales


def rows_of(given: Any) -> Rows:
    """Checks the argument `x` of a dispatch, and the setting that makes its results views. Copies nothing."""
    zero_copy()
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, torch.Tensor) for part in parts):
        raise refused(
            "x must be a tensor, (x, scales) or (x, scales, token_scales): pass one of these",
            TENSOR,
        )
    x = parts[0]
    if x.dim() != 2:
        raise refused(
            f"x has shape {tuple(x.shape)}; it must be [tokens, hidden]: reshape it", TENSOR
        )
    if len(parts) == 1:
        if x.dtype not in (torch.bfloat16, torch.float16):
            raise refused(
                f"x is {x.dtype}; rows without scales must be torch.bfloat16 or torch.float16: convert them, or pass"
                " (x, scales) for FP8",
                TENSOR,
            )
        return Rows(x, x.shape[1])
    scales = parts[1]
    _require_scales(scales, x.shape[0])
    if len(parts) == 2:
        if x.dtype not in (FP8, torch.uint8):
            raise refused(f"x is {x.dtype}; rows with scales must be {FP8}: quantise them", TENSOR)
        return Rows(x, x.shape[1], scales)
    if x.dtype not in (torch.int32, torch.uint8):
        raise refused(
            f"x is {x.dtype}; NVFP4 rows must be packed in torch.int32 [T, H/8] or torch.uint8 [T, H/2]: pack them",
            TENSOR,
        )
    token_scales = parts[2]
    if token_scales.numel() != x.shape[0] or token_scales.dim() == 0:
        raise refused(
            f"token_scales has shape {tuple(token_scales.shape)}; it must have an element for each of the"
            f" {x.shape[0]} tokens: correct it",
            TENSOR,
        )
    return Rows(x, x.shape[1] * x.element_size() * 2, scales, token_scales, x.dtype)


def _require_scales(scales: torch.Tensor, tokens: int) -> None:
    if scales.dim() != 2 or scales.shape[0] != tokens:
        raise refused(
            f"the scales have shape {tuple(scales.shape)}; it must be [{tokens}, scales a row]: reshape them",
            TENSOR,
        )


def owner(rows: int) -> Callable[..., torch.Tensor]:
    """A function that gives the caller a tensor of `rows` rows: a copy of a view, or the view itself."""
    views = zero_copy()

    def own(view: torch.Tensor, fill: Optional[int] = None) -> torch.Tensor:
        view = view[:rows]
        known = view.shape[0]
        if rows == known:
            return view if views else view.clone(memory_format=torch.contiguous_format)
        # More rows than the receive region has: no row of the rest is valid.
        larger = view.new_empty((rows, *view.shape[1:]))
        larger[:known] = view
        if fill is not None:
            larger[known:] = fill
        return larger

    return own


def members(rows: Any) -> Tuple[torch.Tensor, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def require_rows(x: torch.Tensor, rows: int) -> None:
    """Checks the argument `x` of a combine: the rows of the dispatch, or more."""
    if x.dim() != 2 or x.shape[0] < rows:
        raise refused(
            f"x has shape {tuple(x.shape)}; it must be [{rows}, hidden], the rows of the"
            " dispatch: pass them all",
            TENSOR,
        )
