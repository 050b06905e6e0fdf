"""Dense routings: a map BOOL [N, E] and probs FP32 [N, E], to and from choices [N, K].

Pure tensor operations, so they run where the tensors are, also while a CUDA graph is captured.
"""

from typing import Optional, Tuple

import torch


def choices_of(routing_map: torch.Tensor, top_k: int) -> torch.Tensor:
    """INT64 [N, K]: the experts of each token, ascending, then -1. Every row must have at most K."""
    experts = routing_map.shape[1]
    ids = torch.arange(experts, device=routing_map.device).expand(routing_map.shape)
    none = torch.full_like(ids, experts)
    first = torch.topk(
        torch.where(routing_map, ids, none), top_k, dim=1, largest=False, sorted=True
    ).values
    return torch.where(first < experts, first, torch.full_like(first, -1))


def weights_of(probs: torch.Tensor, choices: torch.Tensor) -> torch.Tensor:
    """FP32 [N, K]: the columns of `probs` that are chosen, 0 where there is no choice."""
    picked = probs.float().gather(1, choices.long().clamp(min=0))
    return picked.masked_fill(choices < 0, 0.0)


def dense_weights(
    weights: torch.Tensor, choices: torch.Tensor, experts: int, first: int = 0
) -> torch.Tensor:
    """FP32 [N, E]: each weight in the column `first` + its choice, 0 elsewhere."""
    columns = choices.long() + first
    # Column E takes what has no choice.
    columns = columns.masked_fill(choices < 0, experts)
    dense = torch.zeros((weights.shape[0], experts + 1), dtype=torch.float32, device=weights.device)
    return dense.scatter_(1, columns, weights)[:, :experts].contiguous()


def dense_map(choices: torch.Tensor, experts: int) -> torch.Tensor:
    """BOOL [N, E]: whether a row has the expert."""
    columns = choices.long().masked_fill(choices < 0, experts)
    dense = torch.zeros((choices.shape[0], experts + 1), dtype=torch.bool, device=choices.device)
    return dense.scatter_(1, columns, True)[:, :experts].contiguous()


def require_top_k(routing_map: torch.Tensor, top_k: int) -> Optional[Tuple[int, int]]:
    """(row, experts) of a token with more than K experts, or None.

    On a GPU a wait for the answer would cost what the operation avoids: there a device assertion ends the
    process of a token that does not fit.
    """
    chosen = routing_map.sum(1)
    if routing_map.is_cuda:
        torch._assert_async((chosen <= top_k).all())
        return None
    worst = int(chosen.max()) if chosen.numel() else 0
    return (int(chosen.argmax()), worst) if worst > top_k else None
