"""Counts of a routing: how many tokens go to each expert, rank and node.

The host spends about 20 us on starting an operation of a GPU, more than the GPU on its elements: GPUs compare all ids
with all experts, four operations. CPUs mark the chosen experts of each token.
"""

from typing import Dict, NamedTuple, Optional, Sequence, Tuple

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
        self._experts: Dict[Tuple[int, torch.device], torch.Tensor] = {}

    def count(self, topk_idx: torch.Tensor, experts: int) -> Counts:
        """Counts INT [T, K]; -1, and ids that do not exist, are no expert: the dispatch refuses the latter."""
        if topk_idx.is_cuda:
            per_expert, in_rank = by_comparison(
                topk_idx, self._numbers(experts, topk_idx.device), self._ranks
            )
        else:
            per_expert, in_rank = by_marks(topk_idx, experts, self._ranks)
        per_rank = in_rank.sum(0, dtype=torch.int32)
        return Counts(per_rank, self._per_node(in_rank), per_expert, in_rank)

    def _numbers(self, experts: int, device: torch.device) -> torch.Tensor:
        """INT64 [E] on a GPU, the numbers from 0."""
        numbers = self._experts.get((experts, device))
        if numbers is None:
            # A CUDA graph fills its own memory, and only when it is replayed: such a tensor is not kept.
            numbers = torch.arange(experts, device=device)
            if not torch.cuda.is_current_stream_capturing():
                # Later calls may run on another stream.
                torch.cuda.current_stream(device).synchronize()
                self._experts[experts, device] = numbers
        return numbers

    def _per_node(self, in_rank: torch.Tensor) -> Optional[torch.Tensor]:
        if len(self._ranks_of_node) == 1:
            return None
        return torch.stack(
            [in_rank[:, ranks].any(1).sum(dtype=torch.int32) for ranks in self._ranks_of_node]
        )


def by_comparison(
    topk_idx: torch.Tensor, numbers: torch.Tensor, ranks: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Tokens per expert and of each rank, with T*K*E comparisons; `numbers`: INT [E], from 0."""
    tokens, top_k = topk_idx.shape
    experts = numbers.shape[0]
    chosen = topk_idx.unsqueeze(2) == numbers
    per_expert = chosen.sum((0, 1), dtype=torch.int32)
    return per_expert, chosen.view(tokens, top_k, ranks, experts // ranks).amax((1, 3))


def by_marks(
    topk_idx: torch.Tensor, experts: int, ranks: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same with a mark for each token and expert."""
    tokens = topk_idx.shape[0]
    # Column E takes what is no expert.
    ids = topk_idx.long().clamp(-1, experts).remainder(experts + 1)
    chosen = torch.zeros((tokens, experts + 1), dtype=torch.bool, device=topk_idx.device)
    chosen = chosen.scatter_(1, ids, True)[:, :experts]
    per_expert = chosen.sum(0, dtype=torch.int32)
    return per_expert, chosen.reshape(tokens, ranks, experts // ranks).any(2)
