"""The handle of a high-throughput dispatch: DeepEP's tuple in DeepEP's order, and the ep4j handle behind it.

Members are computed when they are read. A caller may take the tuple apart and build it again: each tensor
that the handle has computed remembers its routes.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import ep4j
import torch

from .errors import HANDLE, TENSOR, refused
from .rows import Rows
from .shapes import Shape


class Routes:
    """What a combine or a cached dispatch needs of its dispatch."""

    def __init__(
        self,
        shape: Shape,
        handle: "ep4j.Handle",
        tokens: int,
        rows: int,
        capacity: int,
        fixed: bool,
    ) -> None:
        self.shape = shape
        self.handle = handle
        self.tokens = tokens  # T of this rank
        self.rows = rows  # of the caller's tensors
        # Rows that ep4j delivered: fewer where the caller's tensors are larger.
        self.capacity = capacity
        self.fixed = fixed  # whether the caller fixed the number of rows
        self.sources: Tuple[torch.Tensor, ...] = ()  # token, and perhaps rank, of each row

    def require_tokens(self, rows: Rows) -> None:
        if rows.x.shape[0] != self.tokens:
            raise refused(
                f"x has {rows.x.shape[0]} tokens; the handle is that of a dispatch of {self.tokens}: pass as many",
                TENSOR,
            )

    def dispatch(self, rows: Rows) -> "ep4j.Dispatched":
        """Sends rows along the routes; as many rows arrive as in the first dispatch."""
        return self.shape.buffer.dispatch(
            rows.x,
            scales=rows.scales,
            global_scales=rows.global_scales,
            handle=self.handle,
            # The sizing of the first dispatch again.
            max_rows=self.capacity if self.fixed else 0,
        )

    def combine(
        self,
        x: torch.Tensor,
        topk_weights: Optional[torch.Tensor],
        bias0: Optional[torch.Tensor],
        bias1: Optional[torch.Tensor],
        **options: Any,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """Sums [T, H] of rows [n, H], and of weights [n, K] where they are given: tensors of the caller."""
        out = torch.empty((self.tokens, x.shape[1]), dtype=x.dtype, device=x.device)
        combined = self.shape.buffer.combine(
            x[: self.capacity],
            self.handle,
            topk_weights=None if topk_weights is None else topk_weights[: self.capacity],
            bias0=bias0,
            bias1=bias1,
            out=out,
            **options,
        )
        return out, None if topk_weights is None else combined.topk_weights.clone()


class LazyHandle(tuple):
    """A tuple whose members are computed when they are first read; the tensor of the caller is one as it is."""

    routes: Routes

    def __new__(cls, routes: Routes, members: Sequence[Any]) -> "LazyHandle":
        """`members`: functions that compute them, or tensors of the caller."""
        handle = super().__new__(cls, members)
        handle.routes = routes
        handle._values = [None] * len(members)
        return handle

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        value = self._values[index]
        if value is None:
            value = tuple.__getitem__(self, index)
            # A tensor of the caller may be in several handles: it remembers no routes.
            if not isinstance(value, torch.Tensor):
                value = value()
                value._ep4j_routes = self.routes
            self._values[index] = value
        return value

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def routes_of(handle: Any) -> Routes:
    """The routes behind a handle, also of a tuple built from its members."""
    if isinstance(handle, LazyHandle):
        return handle.routes
    for member in handle if isinstance(handle, (tuple, list)) else ():
        routes = getattr(member, "_ep4j_routes", None)
        if routes is not None:
            return routes
    raise refused(
        f"handle is {type(handle).__name__} that no dispatch of ep4j made: pass the handle that dispatch returned",
        HANDLE,
    )


def intranode_handle(
    routes: Routes,
    rank: int,
    ranks: int,
    source_tokens: torch.Tensor,
    offsets: Callable[[], List[int]],
    is_token_in_rank: torch.Tensor,
) -> LazyHandle:
    """(rank_prefix_matrix, channel_prefix_matrix, recv_channel_prefix_matrix, recv_src_idx, is_token_in_rank,
    send_head), with one channel.

    rank_prefix_matrix [R, R] has the column of this rank only: the others are -1.
    """
    device = source_tokens.device

    def rank_prefix_matrix() -> torch.Tensor:
        matrix = torch.full((ranks, ranks), -1, dtype=torch.int32, device=device)
        matrix[:, rank] = torch.tensor(offsets()[1:], dtype=torch.int32, device=device)
        return matrix

    return LazyHandle(
        routes,
        (
            rank_prefix_matrix,
            lambda: is_token_in_rank.sum(0, dtype=torch.int32).view(ranks, 1),
            lambda: torch.zeros((ranks, 1), dtype=torch.int32, device=device),
            lambda: source_tokens,
            is_token_in_rank,
            lambda: positions(is_token_in_rank),
        ),
    )


def internode_handle(
    routes: Routes,
    node_of_rank: Sequence[int],
    ranks: int,
    source_tokens: torch.Tensor,
    offsets: Callable[[], List[int]],
    is_token_in_rank: torch.Tensor,
) -> LazyHandle:
    """DeepEP's ten members, with one channel. What only its own transport reads is empty: recv_src_meta [n, 8],
    and send_nvl_head, which has a row for each token that crosses this rank on its way."""
    device = source_tokens.device
    nodes = len(set(node_of_rank))
    first = [node_of_rank.index(node) for node in range(nodes)]

    def tokens_of_nodes() -> torch.Tensor:
        return torch.stack(
            [
                is_token_in_rank[:, [r for r in range(ranks) if node_of_rank[r] == node]].any(1)
                for node in range(nodes)
            ],
            dim=1,
        )

    def ends(values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    def node_ends() -> torch.Tensor:
        last = first[1:] + [ranks]
        return ends([offsets()[end] for end in last])

    return LazyHandle(
        routes,
        (
            is_token_in_rank,
            lambda: tokens_of_nodes().sum(0, dtype=torch.int32).view(nodes, 1),
            lambda: is_token_in_rank.sum(0, dtype=torch.int32).view(ranks, 1),
            lambda: torch.zeros((nodes, 1), dtype=torch.int32, device=device),
            node_ends,
            lambda: torch.zeros((ranks, 1), dtype=torch.int32, device=device),
            lambda: ends(offsets()[1:]),
            lambda: torch.zeros((source_tokens.shape[0], 8), dtype=torch.uint8, device=device),
            lambda: positions(tokens_of_nodes()),
            lambda: torch.zeros((0, 8), dtype=torch.int32, device=device),
        ),
    )


def positions(chosen: torch.Tensor) -> torch.Tensor:
    """Number of each token among those that go to a rank, or -1: INT32 [T, R]."""
    return torch.where(
        chosen, chosen.cumsum(0) - 1, torch.full_like(chosen, -1, dtype=torch.int64)
    ).int()


def source_offsets(source_ranks: torch.Tensor, ranks: int) -> List[int]:
    """First row from each rank, then the end, from the source of each row (-1: no row)."""
    counts = torch.bincount(source_ranks.long() + 1, minlength=ranks + 1)[1:]
    return [0] + counts.cumsum(0).tolist()
