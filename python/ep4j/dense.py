"""Routings as dense matrices, and back, computed on the host.

With CUDA tensors the functions wait for torch's current stream, then copy.
"""

import ctypes
from typing import Optional, Tuple

import torch

from . import _jvm, arguments, tensors


def routing_from_dense(
    map: torch.Tensor, probs: Optional[torch.Tensor], k: int
) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """Choices of a dense map.

    Args:
        map: bool or uint8 [T, E]; not 0: chosen.
        probs: float32 [T, E], or None.
        k: choices of a token, K.

    Returns:
        topk_idx, int64 [T, K], and topk_weights, float32 [T, K] (None without probs), on the
        device of `map`. Ids ascend; free slots have -1 and 0.

    Raises:
        InvalidArgument: a token has more than K experts, or a tensor is not valid.
    """
    described = tensors.described("map", map)
    shape = (map.shape[0], arguments.int32("k", k))
    if shape[1] < 1:
        raise arguments.invalid_value("k", k, "1 or more", "pass the largest number of choices")
    topk_idx = torch.empty(shape, dtype=torch.int64, device=map.device)
    weights = None
    places = [described, None, tensors.described("topk_idx", topk_idx), None]
    if probs is not None:
        weights = torch.empty(shape, dtype=torch.float32, device=map.device)
        places[1] = tensors.described("probs", probs)
        places[3] = tensors.described("topk_weights", weights)
    # The results too: work in front of the call may still use their memory.
    tensors.await_current_stream(map, probs, topk_idx, weights)
    _jvm.check(
        _jvm.start().routing_from_dense(
            *(None if place is None else ctypes.addressof(place) for place in places)
        )
    )
    return topk_idx, weights


def routing_to_dense(
    topk_idx: torch.Tensor, topk_weights: torch.Tensor, experts: int
) -> torch.Tensor:
    """Weights as a dense matrix.

    Args:
        topk_idx: int64 or int32 [T, K].
        topk_weights: float32 [T, K].
        experts: number of experts, E.

    Returns:
        float32 [T, E] on the device of `topk_idx`, 0 where a token does not have the expert.
    """
    ids = tensors.described("topk_idx", topk_idx)
    weights = tensors.described("topk_weights", topk_weights)
    count = arguments.int32("experts", experts)
    if count < 1:
        raise arguments.invalid_value("experts", experts, "1 or more", "pass their number")
    probs = torch.empty((topk_idx.shape[0], count), dtype=torch.float32, device=topk_idx.device)
    dense = tensors.described("probs", probs)
    tensors.await_current_stream(topk_idx, topk_weights, probs)
    _jvm.check(
        _jvm.start().routing_to_dense(
            ctypes.addressof(ids), ctypes.addressof(weights), ctypes.addressof(dense)
        )
    )
    return probs
