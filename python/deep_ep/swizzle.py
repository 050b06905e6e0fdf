"""NVFP4 rows and scales in the layouts of DeepEP's branch hybrid-ep, which block-scaled matrix products read."""

import torch

from .dtypes import as_bytes, as_fp8

# A tile of scales: 128 rows, as 4 times 32, and 4 scales of each.
_TILE_ROWS = 128


def nvfp4_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows UINT8 [L, P, H/2] as [P, H/2, L], the same memory."""
    return as_bytes(x).permute(1, 2, 0)


def nvfp4_scales(scales: torch.Tensor) -> torch.Tensor:
    """Scales E4M3 [L, P, H/16] as [32, 4, P/128, 4, H/64, L], a copy: tile after tile in memory."""
    source = as_bytes(scales)
    experts, rows, width = source.shape
    missing = -rows % _TILE_ROWS
    if missing:
        source = torch.nn.functional.pad(source, (0, 0, 0, missing))
    # Four scales are a word: a copy of words takes a quarter of the time of one of bytes.
    words = source.contiguous().view(torch.int32)
    tiles = words.reshape(experts, (rows + missing) // _TILE_ROWS, 4, 32, width // 4)
    # In memory: expert, tile of rows, tile of scales, row of 32, row of 4, scale.
    ordered = tiles.permute(0, 1, 4, 3, 2).contiguous().unsqueeze(5).view(torch.uint8)
    return as_fp8(ordered).permute(3, 4, 1, 5, 2, 0)
