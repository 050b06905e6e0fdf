"""The rows of a dispatch: ``x``, ``(x, scales)`` or ``(x, scales, token_scales)``."""

from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

import torch

from .dtypes import FP8, as_bytes
from .errors import TENSOR, refused


class Rows(NamedTuple):
    """Rows as ep4j takes them."""

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
    """Checks the argument `x` of a dispatch."""
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
    scales = _scales(parts[1], x.shape[0])
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
    packed = as_bytes(x.contiguous())
    return Rows(packed, packed.shape[1] * 2, scales, token_scales, x.dtype)


def _scales(scales: torch.Tensor, tokens: int) -> torch.Tensor:
    if scales.dim() != 2 or scales.shape[0] != tokens:
        raise refused(
            f"the scales have shape {tuple(scales.shape)}; it must be [{tokens}, scales a row]: reshape them",
            TENSOR,
        )
    by_columns = scales.stride(0) == 1 and scales.stride(1) >= tokens
    return scales if by_columns or scales.is_contiguous() else scales.contiguous()
