"""Counts of a routing: how many tokens go to each expert, rank and node."""

import time
from typing import Dict, NamedTuple, Optional, Sequence

import ep4j
import torch

from .devices import engine_of

# After 1000 calls, later ones became no faster on two H200; a slow machine makes fewer.
_WARM_UP_ROUNDS = 1000
_WARM_UP_SECONDS = 0.5


class Counts(NamedTuple):
    """Tokens of this rank by destination."""

    per_rank: torch.Tensor  # INT32 [R]
    per_node: Optional[torch.Tensor]  # INT32 [nodes]; None on one node
    per_expert: torch.Tensor  # INT32 [E]
    in_rank: torch.Tensor  # BOOL [T, R]: whether a rank has an expert of the token


def counted(ids: torch.Tensor, kinds: int) -> torch.Tensor:
    """INT32 [kinds]: how often each id below `kinds` is in `ids`, INT; -1 does not count. No wait for a GPU."""
    # The last element takes -1.
    slots = ids.reshape(-1).long().masked_fill(ids.reshape(-1) < 0, kinds)
    counts = torch.zeros(kinds + 1, dtype=torch.int32, device=ids.device)
    return counts.scatter_add_(0, slots, torch.ones_like(slots, dtype=torch.int32))[:kinds]


class LayoutCounter:
    """Counts routings among the ranks of a Buffer, by ep4j: no buffer of a shape is open before the first
    dispatch."""

    def __init__(self, node_of_rank: Sequence[int]) -> None:
        numbers = {node: number for number, node in enumerate(dict.fromkeys(node_of_rank))}
        self._nodes = [numbers[node] for node in node_of_rank]
        self._counters: Dict[torch.device, ep4j.RoutingCounter] = {}
        if torch.cuda.is_available():
            # A later call may be captured, or come while an operation is in flight: no kernel can be loaded then.
            device = torch.device("cuda", torch.cuda.current_device())
            self._warm_up(self._open(device), device)

    def count(self, topk_idx: torch.Tensor, experts: int) -> Counts:
        """Counts INT [T, K]; -1, and ids that do not exist, are no expert: the dispatch refuses the latter."""
        counter = self._counters.get(topk_idx.device)
        if counter is None:
            engine_of(topk_idx)
            counter = self._open(topk_idx.device)
        counts = counter.count(topk_idx.contiguous(), experts)
        return Counts(
            counts.tokens_per_rank,
            None if self._nodes[-1] == 0 else counts.tokens_per_node,
            counts.tokens_per_expert,
            counts.token_in_rank,
        )

    def _open(self, device: torch.device) -> ep4j.RoutingCounter:
        self._counters[device] = counter = ep4j.RoutingCounter(device, self._nodes)
        return counter

    def _warm_up(self, counter: ep4j.RoutingCounter, device: torch.device) -> None:
        """Counts until the JVM has compiled their code: the first hundreds would take several times as long."""
        ids = torch.zeros((1, 1), dtype=torch.int64, device=device)
        end = time.monotonic() + _WARM_UP_SECONDS
        for _ in range(_WARM_UP_ROUNDS):
            counter.count(ids, len(self._nodes))
            if time.monotonic() > end:
                break

    def close(self) -> None:
        """Frees the counters, after the last count has been executed."""
        while self._counters:
            self._counters.popitem()[1].close()
