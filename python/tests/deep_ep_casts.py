"""Quantisation for tests, with types that torch 1.13 has: FP8 E4M3 values are bytes there."""

from typing import Tuple

import torch

FP8_MAX = 448.0


def _table() -> torch.Tensor:
    """The value of each E4M3 byte; NaN for the two that are none."""
    values = []
    for byte in range(256):
        sign, exponent, fraction = byte >> 7, (byte >> 3) & 15, byte & 7
        if exponent == 15 and fraction == 7:
            value = float("nan")
        elif exponent == 0:
            value = fraction / 8 * 2.0**-6
        else:
            value = (1 + fraction / 8) * 2.0 ** (exponent - 7)
        values.append(-value if sign else value)
    return torch.tensor(values)


_VALUES = _table()
_POSITIVE = _VALUES[:127].contiguous()  # ascending


def to_bytes(values: torch.Tensor) -> torch.Tensor:
    """FP32 of at most 448 to E4M3 bytes, to nearest."""
    size = values.abs().float().contiguous()
    above = torch.searchsorted(_POSITIVE, size).clamp(max=126)
    below = (above - 1).clamp(min=0)
    nearer_above = _POSITIVE[above] - size <= size - _POSITIVE[below]
    code = torch.where(nearer_above, above, below)
    return (code + 128 * (values < 0)).to(torch.uint8)


def to_floats(codes: torch.Tensor) -> torch.Tensor:
    """E4M3 bytes to FP32."""
    return _VALUES[codes.view(torch.uint8).long()]


def quantised(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """BF16 [T, H] to E4M3 bytes [T, H] and FP32 scales [T, H/128]."""
    tokens, hidden = x.shape
    blocks = x.float().view(tokens, hidden // 128, 128)
    largest = blocks.abs().amax(2).clamp(min=1e-4)
    return to_bytes(blocks * (FP8_MAX / largest).unsqueeze(2)).view(tokens, hidden), largest / FP8_MAX


def dequantised(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """E4M3 bytes [..., H] and scales, FP32 [..., H/128] or INT32 [..., H/512] of exponents, to BF16."""
    if scales.dtype == torch.int32:
        scales = (scales.clone(memory_format=torch.contiguous_format).view(torch.uint8).int() << 23).view(torch.float32)
    blocks = to_floats(codes).view(*codes.shape[:-1], -1, 128)
    return (blocks * scales.unsqueeze(-1)).view(codes.shape).bfloat16()


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """1 minus the similarity of a + 1 and b + 1."""
    a, b = a.double() + 1, b.double() + 1
    return float(1 - 2 * (a * b).sum() / (a * a + b * b).sum())
