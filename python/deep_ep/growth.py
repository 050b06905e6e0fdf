"""How the ranks learn that one of them has more tokens than their buffer takes, without a message of its own.

A buffer that can grow has one expert more on each rank, the last one, to which no token goes. A rank whose batch is
too large dispatches to these experts in place of its batch:

    rank 0: dispatch(batch)            rank 1: dispatch(a token for the last expert of each rank)
            the last count is not 0            the last count is not 0
            agree on the tokens, open the larger buffer; collective
            dispatch(batch)                    dispatch(batch)

The demand is a dispatch like others, so no rank waits longer than for a batch, nothing is lost, and the old buffer
keeps its handles. Ranks need no memory in common: between nodes the demand takes the wire. A call that knows its
counts looks at one number more. A call that does not wait for the counts, ``num_worst_tokens`` on GPUs, cannot learn
of a demand: there the larger batch is refused.
"""

import dataclasses
from typing import Any, Optional, Tuple

import ep4j
import torch

from .errors import EXPERT, refused
from .rows import Rows

# The weight of a demand, which no routing has: a token that reaches a last expert with another one has a wrong id.
_WEIGHT = -(2.0**120)


class Demand:
    """The demands of the ranks of one shape."""

    def __init__(self, ranks: int, experts: int, top_k: int) -> None:
        self._ranks = ranks
        self._experts = experts
        self._local = experts // ranks
        self._top_k = top_k
        #: Tokens of a demand.
        self.tokens = -(-ranks // top_k)

    def extended(self, config: "ep4j.BufferConfig") -> "ep4j.BufferConfig":
        """The configuration with an expert more on each rank."""
        ranks = [expert // self._local for expert in range(self._experts)]
        return dataclasses.replace(
            config,
            experts=self._experts + self._ranks,
            rank_of_expert=ranks + list(range(self._ranks)),
        )

    def of(
        self, rows: Rows, ids: torch.Tensor, weights: Optional[torch.Tensor]
    ) -> Tuple[Rows, torch.Tensor, Optional[torch.Tensor]]:
        """What a rank dispatches in place of a batch of more than `tokens` tokens."""
        last = torch.arange(self.tokens * self._top_k, device=ids.device, dtype=ids.dtype)
        last = torch.where(last < self._ranks, last + self._experts, torch.full_like(last, -1))
        return (
            rows.first(self.tokens),
            last.view(self.tokens, self._top_k),
            None if weights is None else torch.full_like(weights[: self.tokens], _WEIGHT),
        )

    def require_experts(self, ids: torch.Tensor) -> None:
        """On CPUs: no token of a batch may go to the last experts. On GPUs the receiver finds such a token."""
        if not ids.is_cuda and ids.numel() and int(ids.max()) >= self._experts:
            raise self._no_expert(f"topk_idx has {int(ids.max())}")

    def require_demands(self, received: Any) -> None:
        """Requires that the tokens which reached the last expert are demands; for a dispatch that has some."""
        weights, topk_idx = received.topk_weights, received.topk_idx
        if weights is None:
            return
        wrong = (topk_idx == self._local) & (weights != _WEIGHT)
        if bool(wrong.any()):
            row = int(wrong.any(1).nonzero()[0])
            source = int(received.source_ranks[row])
            raise self._no_expert(
                f"topk_idx of rank {source}, token {int(received.source_tokens[row])}, has a larger id"
            )

    def _no_expert(self, what: str) -> "ep4j.InvalidArgument":
        return refused(
            f"{what}; there are {self._experts} experts: use ids below that, or -1 for no expert",
            EXPERT,
        )
