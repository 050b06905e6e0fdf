"""Handles of ``HybridEPBuffer``: tuples in Hybrid-EP's order, and the ep4j handle behind them.

Maps that only Hybrid-EP's kernels read are None.
"""

from typing import Any, Dict, NamedTuple, Optional

import torch

from .errors import HANDLE, refused
from .shapes import Shape

# The member that holds the routes: Hybrid-EP's sparse_to_dense_map, which only its kernels read.
_ROUTES = 0


class HybridConfig(NamedTuple):
    """The settings of the call that made a handle."""

    hidden_dim: int
    max_num_of_tokens_per_rank: int
    num_of_experts_per_rank: int
    settings: Dict[str, Any]


class HybridRoutes:
    """What a combine or a cached dispatch needs of its dispatch."""

    def __init__(
        self,
        shape: Shape,
        handle: Any,
        choices: torch.Tensor,
        experts: int,
        tokens: int,
        rows: int,
        fixed: int,
        grouped: bool,
    ) -> None:
        self.shape = shape
        self.handle = handle
        self.choices = choices  # INT [N, K]
        self.experts = experts
        self.tokens = tokens
        self.rows = rows  # that ep4j delivered
        self.fixed = fixed  # rows that the caller fixed, or 0
        self.grouped = grouped
        self.dense = False  # whether a routing_map made the choices, which are then ascending
        self.alignment = 1
        self.padded: Optional[torch.Tensor] = None  # tokens of each local expert with padding
        self.local_choices: Optional[torch.Tensor] = None  # INT64 [n, K], local experts


def flat_handle(
    routes: HybridRoutes,
    num_dispatched: torch.Tensor,
    local_expert_routing_map: torch.Tensor,
    config: HybridConfig,
) -> tuple:
    """Seven members: routes, None, None, num_dispatched_tokens, local_expert_routing_map, tokens, config."""
    return (routes, None, None, num_dispatched, local_expert_routing_map, routes.tokens, config)


def grouped_handle(
    routes: HybridRoutes,
    tokens_per_expert: torch.Tensor,
    overflow: torch.Tensor,
    config: HybridConfig,
) -> tuple:
    """Eleven members: routes, six times None, tokens_per_expert, tokens, config, overflow_flag."""
    return (
        routes,
        None,
        None,
        None,
        None,
        None,
        None,
        tokens_per_expert,
        routes.tokens,
        config,
        overflow,
    )


def hybrid_routes_of(handle: Any, grouped: bool) -> HybridRoutes:
    routes = handle[_ROUTES] if isinstance(handle, (tuple, list)) and handle else None
    if not isinstance(routes, HybridRoutes) or routes.grouped != grouped:
        source = "dispatch_with_permute" if grouped else "dispatch"
        raise refused(
            f"handle is not one of HybridEPBuffer.{source}: pass the tuple that it returned", HANDLE
        )
    return routes
