"""Element types. FP8 is ``torch.float8_e4m3fn`` where torch has it, else ``torch.uint8``: the same bytes."""

import torch

#: Type of expert ids that callers convert to.
topk_idx_t = torch.int64

#: Type of received FP8 rows.
FP8 = getattr(torch, "float8_e4m3fn", torch.uint8)


def as_fp8(tensor: torch.Tensor) -> torch.Tensor:
    """A byte tensor as FP8 elements, the same memory."""
    return tensor if tensor.dtype == FP8 else tensor.view(FP8)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as bytes, the same memory; its last extent grows by the size of an element."""
    return tensor if tensor.dtype == torch.uint8 else tensor.view(torch.uint8)


def as_ids(topk_idx: torch.Tensor) -> torch.Tensor:
    """Expert ids in a type that ep4j takes: INT64 or INT32 as they are, others as INT64."""
    return topk_idx if topk_idx.dtype in (torch.int64, torch.int32) else topk_idx.long()
