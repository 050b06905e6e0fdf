"""Counts of a routing: how many tokens go to each expert, rank and node."""

from typing import NamedTuple, Optional, Sequence, Tuple

import torch


class Counts(NamedTuple):
    """Tokens of this rank by destination."""

    per_rank: torch.Tensor  # INT32 [R]
    per_node: Optional[torch.Tensor]  # INT32 [nodes]; None on one node
    per_expert: torch.Tensor  # INT32 [E]
    in_rank: torch.Tensor  # BOOL [T, R]: whether a rank has an expert of the token


class LayoutCounter:
    """Counts routings among the ranks of a Buffer."""

    def __init__(self, node_of_rank: Sequence[int]) -> None:
        self._ranks = len(node_of_rank)
        nodes = list(node_of_rank)
        # Ranks of a node have consecutive numbers.
        self._ranks_of_node = [
            slice(nodes.index(node), nodes.index(node) + nodes.count(node)) for node in sorted(set(nodes))
        ]

    def count(self, topk_idx: torch.Tensor, experts: int) -> Counts:
        """Counts INT [T, K]; -1, and ids that do not exist, are no expert: the dispatch refuses the latter."""
        per_expert, in_rank = count_marks(topk_idx, experts, self._ranks)
        per_rank = in_rank.sum(0, dtype=torch.int32)
        return Counts(per_rank, self._per_node(in_rank), per_expert, in_rank)

    def _per_node(self, in_rank: torch.Tensor) -> Optional[torch.Tensor]:
        if len(self._ranks_of_node) == 1:
            return None
        return torch.stack(
            [in_rank[:, ranks].any(1).sum(dtype=torch.int32) for ranks in self._ranks_of_node]
        )


def count_marks(
    topk_idx: torch.Tensor, experts: int, ranks: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Tokens per expert and of each rank, from a mark for each token and expert."""
    tokens = topk_idx.shape[0]
    # Column E takes what is no expert. Few operations, because a GPU spends more on starting one than on its elements.
    ids = topk_idx.long().clamp(-1, experts).remainder(experts + 1)
    chosen = torch.zeros((tokens, experts + 1), dtype=torch.bool, device=topk_idx.device)
    chosen = chosen.scatter_(1, ids, True)[:, :experts]
    per_expert = chosen.sum(0, dtype=torch.int32)
    return per_expert, chosen.reshape(tokens, ranks, experts // ranks).any(2)
