"""FP8 E4M3 for a torch without the type: its values are bytes."""

import functools

import torch


@functools.lru_cache(maxsize=None)
def values() -> torch.Tensor:
    """FP32 [256]: the value of each byte; NaN for the two that are none."""
    result = []
    for byte in range(128):
        exponent, fraction = byte >> 3, byte & 7
        if byte == 127:
            result.append(float("nan"))
        elif exponent == 0:
            result.append(fraction / 8 * 2.0**-6)
        else:
            result.append((1 + fraction / 8) * 2.0 ** (exponent - 7))
    return torch.tensor(result + [-value for value in result], dtype=torch.float32)


def encoded(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers of at most 448 to bytes, to nearest, ties to even."""
    positive = values()[:127].to(numbers.device).contiguous()  # ascending
    size = numbers.float().abs().contiguous()
    above = torch.searchsorted(positive, size).clamp(max=126)
    below = (above - 1).clamp(min=0)
    up, down = positive[above] - size, size - positive[below]
    code = torch.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return (code + 128 * torch.signbit(numbers.float())).to(torch.uint8)


def decoded(codes: torch.Tensor) -> torch.Tensor:
    """Bytes to FP32."""
    return values().to(codes.device)[codes.view(torch.uint8).long()]
