"""Quantisation and comparisons, as callers and DeepEP's tests import them."""

import functools
import operator
from typing import Any, Tuple

import torch

from ..dtypes import FP8
from . import e4m3

_BLOCK = 128
_FP8_MAX = 448.0
# A block of zeros has a scale, too.
_SMALLEST = 1e-4


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


def align(x: int, y: int) -> int:
    """The next multiple of y."""
    return ceil_div(x, y) * y


def safe_div(a: float, b: float) -> float:
    """a / b; 0 for 0 / 0."""
    return 0.0 if a == b == 0 else a / b


def count_bytes(*tensors: Any) -> int:
    """Bytes of the elements of tensors, of tuples and lists of them; None has none."""
    total = 0
    for one in tensors:
        if isinstance(one, (tuple, list)):
            total += count_bytes(*one)
        elif one is not None:
            total += one.numel() * one.element_size()
    return total


def calc_diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 minus the similarity 2ab / (a² + b²) of a = x + 1 and b = y + 1: 0 for equal tensors."""
    a, b = x.double() + 1, y.double() + 1
    return float(1 - 2 * (a * b).sum() / (a * a + b * b).sum())


def per_token_cast_to_fp8(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """[T, H] to FP8 [T, H] and FP32 scales, one for 128 values of a row; bytes where torch has no FP8."""
    tokens, hidden = x.shape
    padded = torch.nn.functional.pad(x.float(), (0, -hidden % _BLOCK)).view(tokens, -1, _BLOCK)
    largest = padded.abs().amax(2).clamp(min=_SMALLEST)
    scaled = (padded * (_FP8_MAX / largest).unsqueeze(2)).view(tokens, -1)[:, :hidden]
    codes = e4m3.encoded(scaled) if FP8 == torch.uint8 else scaled.to(FP8)
    return codes.contiguous(), largest / _FP8_MAX


def per_token_cast_back(x_fp8: torch.Tensor, x_scales: torch.Tensor) -> torch.Tensor:
    """FP8 [T, H] with scales, FP32 or INT32 of four exponents each, to BF16 [T, H]."""
    tokens, hidden = x_fp8.shape
    if tokens == 0:
        return torch.empty((0, hidden), dtype=torch.bfloat16, device=x_fp8.device)
    if x_scales.dtype == torch.int32:
        words = x_scales.clone(memory_format=torch.contiguous_format)
        x_scales = (words.view(torch.uint8).to(torch.int32) << 23).view(torch.float32)
    values = e4m3.decoded(x_fp8) if x_fp8.dtype == torch.uint8 else x_fp8.float()
    padded = torch.nn.functional.pad(values, (0, -hidden % _BLOCK)).view(tokens, -1, _BLOCK)
    return (
        (padded * x_scales.reshape(tokens, -1, 1))
        .view(tokens, -1)[:, :hidden]
        .to(torch.bfloat16)
        .contiguous()
    )


def inplace_unique(x: torch.Tensor, num_slots: int) -> None:
    """Leaves each id of a row [T, K] once, in descending order, then -1; ids are below `num_slots`."""
    present = torch.zeros((x.shape[0], num_slots + 1), dtype=torch.bool, device=x.device)
    present.scatter_(1, x.masked_fill(x < 0, num_slots).long(), True)
    ids = torch.arange(num_slots, device=x.device, dtype=x.dtype).expand(x.shape[0], num_slots)
    found = ids.masked_fill(~present[:, :num_slots], -1).sort(dim=1, descending=True).values
    kept = min(num_slots, x.shape[1])
    x.fill_(-1)
    x[:, :kept] = found[:, :kept]


def create_grouped_scores(
    scores: torch.Tensor, group_idx: torch.Tensor, num_groups: int
) -> torch.Tensor:
    """Scores [T, E], 0 outside of the groups [T, n] of a token."""
    tokens, experts = scores.shape
    chosen = torch.zeros((tokens, num_groups), dtype=torch.bool, device=scores.device).scatter_(
        1, group_idx, True
    )
    return scores * chosen.repeat_interleave(experts // num_groups, dim=1)


def hash_tensor(t: torch.Tensor) -> int:
    """The sum of the 32-bit words of a tensor."""
    return int(t.contiguous().view(torch.int32).sum().item())


def hash_tensors(*tensors: Any) -> int:
    """``hash_tensor`` of tensors, of tuples and lists of them, joined by XOR; other values have none."""
    hashes = (
        hash_tensors(*one) if isinstance(one, (tuple, list)) else hash_tensor(one)
        for one in tensors
        if isinstance(one, (tuple, list, torch.Tensor))
    )
    return functools.reduce(operator.xor, hashes, 0)
