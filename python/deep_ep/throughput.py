"""High-throughput operations of a Buffer: layout, dispatch, combine."""

from typing import Any, List, Optional, Tuple, Union

import ep4j
import torch
from ep4j.tensors import without_modes

from .config import Config, round_up
from .devices import engine_of
from .dtypes import as_ids
from .errors import OVERFLOW, TENSOR, refused, require_experts
from .event import EventOverlap
from .layout import LayoutCounter
from .routes import (
    LazyHandle,
    Routes,
    internode_handle,
    intranode_handle,
    routes_of,
    source_offsets,
)
from .rows import Rows, members, owner, require_rows, rows_of
from .shapes import Shape, Shapes
from .streams import CommunicationStream, StreamScope

Bias = Union[None, torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]

# Choices of a token that ep4j takes.
_MAX_TOP_K = 64


class Throughput:
    """Dispatch and combine for large batches. Results belong to the caller."""

    rank: int
    group_size: int
    num_sms: int
    _shapes: Shapes
    _streams: CommunicationStream
    _nodes: List[int]
    _layouts: LayoutCounter
    _throughput_ranks_per_node: int

    @without_modes
    def get_dispatch_layout(
        self,
        topk_idx: torch.Tensor,
        num_experts: int,
        previous_event: Optional[EventOverlap] = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], torch.Tensor, torch.Tensor, EventOverlap]:
        """Counts where the tokens of `topk_idx` INT [T, K] go; -1 is no expert. Local.

        Returns:
            num_tokens_per_rank INT32 [R]; num_tokens_per_rdma_rank INT32 [nodes], or None on one node;
            num_tokens_per_expert INT32 [E]; is_token_in_rank BOOL [T, R]; event.
        """
        ranks = self.group_size
        require_experts(num_experts, ranks)
        if topk_idx.dim() != 2 or topk_idx.shape[1] < 1:
            raise refused(
                f"topk_idx has shape {tuple(topk_idx.shape)}; it must be [tokens, top-k]", TENSOR
            )
        with StreamScope(
            self._streams, topk_idx.device, previous_event, async_finish, allocate_on_comm_stream
        ) as scope:
            per_rank, per_node, per_expert, in_rank = self._layouts.count(topk_idx, num_experts)
            scope.keep((topk_idx,), (per_rank, per_node, per_expert, in_rank))
        return per_rank, per_node, per_expert, in_rank, scope.event

    @without_modes
    def dispatch(
        self,
        x: Union[torch.Tensor, Tuple[torch.Tensor, ...]],
        handle: Optional[Tuple] = None,
        num_tokens_per_rank: Optional[torch.Tensor] = None,
        num_tokens_per_rdma_rank: Optional[torch.Tensor] = None,
        is_token_in_rank: Optional[torch.Tensor] = None,
        num_tokens_per_expert: Optional[torch.Tensor] = None,
        topk_idx: Optional[torch.Tensor] = None,
        topk_weights: Optional[torch.Tensor] = None,
        expert_alignment: int = 1,
        num_worst_tokens: int = 0,
        config: Optional[Config] = None,
        previous_event: Optional[EventOverlap] = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> Tuple[
        Any,
        Optional[torch.Tensor],
        Optional[torch.Tensor],
        Optional[List[int]],
        Optional[Tuple],
        EventOverlap,
    ]:
        """Sends each token once to each rank that has one of its experts; collective.

        Args:
            x: BF16 [T, H]; or FP8 [T, H] with scales [T, S]; or NVFP4 packed in INT32 [T, H/8] with scales
                INT32 [T, H/64] and FP32 token scales [T] or [T, 1].
            handle: sends along the routes of an earlier dispatch; then no routing is passed.
            num_worst_tokens: rows of the results, without waiting for counts; needs `topk_idx`.
            expert_alignment: the returned counts are rounded up to it.

        Returns:
            Rows in the form of `x`, by source rank and token; local expert ids INT64 [n, K] or -1; weights
            FP32 [n, K]; counts of the local experts, [] with num_worst_tokens; handle; event. With a handle:
            rows, four times None, event.
        """
        rows = rows_of(x)
        scope = self._scope(rows.x, config, previous_event, async_finish, allocate_on_comm_stream)
        if handle is not None:
            if topk_idx is not None or topk_weights is not None:
                raise refused(
                    "handle comes with topk_idx or topk_weights; a cached dispatch sends rows only:"
                    " leave them out"
                )
            with scope:
                received = self._dispatch_along(routes_of(handle), rows.sendable(), config)
                scope.keep(rows.tensors(), members(received))
            return received, None, None, None, None, scope.event
        if num_tokens_per_rank is None or is_token_in_rank is None or num_tokens_per_expert is None:
            raise refused(
                "num_tokens_per_rank, is_token_in_rank or num_tokens_per_expert is missing: pass those"
                " that get_dispatch_layout returned, or a handle"
            )
        if (topk_idx is None) != (topk_weights is None):
            raise refused("one of topk_idx and topk_weights is missing: pass both or neither")
        if topk_idx is None and num_worst_tokens > 0:
            raise refused(
                f"num_worst_tokens = {num_worst_tokens} without topk_idx: pass topk_idx and topk_weights"
            )
        self._require_layout(rows, num_tokens_per_rank, is_token_in_rank, num_tokens_per_expert)
        with scope:
            results = self._dispatch_anew(
                rows.sendable(),
                is_token_in_rank,
                num_tokens_per_expert,
                topk_idx,
                topk_weights,
                expert_alignment,
                num_worst_tokens,
                config,
            )
            scope.keep(
                (*rows.tensors(), topk_idx, topk_weights, is_token_in_rank),
                (*members(results[0]), results[1], results[2], *results[4].routes.sources),
            )
        return (*results, scope.event)

    def _dispatch_along(self, routes: Routes, rows: Rows, config: Optional[Config]) -> Any:
        """Rows along known routes; returns the received ones in the form that was passed."""
        routes.require_tokens(rows)
        routes.shape.use_sms(self._num_sms(config))
        return rows.received(routes.dispatch(rows), owner(routes.rows))

    def _dispatch_anew(
        self,
        rows: Rows,
        is_token_in_rank: torch.Tensor,
        num_tokens_per_expert: torch.Tensor,
        topk_idx: Optional[torch.Tensor],
        topk_weights: Optional[torch.Tensor],
        expert_alignment: int,
        num_worst_tokens: int,
        config: Optional[Config],
    ) -> Tuple[Any, Optional[torch.Tensor], Optional[torch.Tensor], List[int], LazyHandle]:
        """Rows along new routes; returns the first five results of a dispatch."""
        if topk_idx is None:
            ids, experts = self._ranks_as_experts(is_token_in_rank), self.group_size
        else:
            ids, experts = as_ids(topk_idx), num_tokens_per_expert.numel()
        shape, received, counts = self._dispatch_grown(
            rows, ids, topk_weights, experts, expert_alignment, num_worst_tokens, config
        )
        fixed = num_worst_tokens > 0
        count = num_worst_tokens or received.rows
        own = owner(count)
        # First, so that a GPU copies the rows while the host enqueues the small copies.
        received_rows = rows.received(received, own)
        recv_idx = recv_weights = None
        if topk_idx is not None:
            recv_idx = own(received.topk_idx, -1).to(topk_idx.dtype)
            recv_weights = own(received.topk_weights)
        if fixed:
            self._require_fit(received, rows.x, num_worst_tokens)
        elif topk_idx is None:
            counts = self._gathered_counts(num_tokens_per_expert, expert_alignment)
        sources = own(received.source_tokens, -1)
        routes = Routes(
            shape, received.handle, rows.x.shape[0], count, received.rows, fixed=fixed
        )
        handle = self._handle(routes, received, sources, is_token_in_rank)
        return received_rows, recv_idx, recv_weights, counts, handle

    def _dispatch_grown(
        self,
        rows: Rows,
        ids: torch.Tensor,
        topk_weights: Optional[torch.Tensor],
        experts: int,
        expert_alignment: int,
        num_worst_tokens: int,
        config: Optional[Config],
    ) -> Tuple[Shape, Any, List[int]]:
        """Dispatches; where a rank asks for it, again in a larger buffer.

        Returns:
            The shape, the result, and counts of the local experts, [] with num_worst_tokens.
        """
        tokens = rows.x.shape[0]
        counted = not num_worst_tokens or not rows.x.is_cuda
        while True:
            shape = self._shapes.throughput(
                engine_of(rows.x),
                rows.hidden,
                ids.shape[1],
                experts,
                tokens,
                ranks_per_node=self._throughput_ranks_per_node,
                asking=counted,
            )
            shape.use_sms(self._num_sms(config))
            demand = shape.demand
            sent = (rows, ids, topk_weights)
            if demand is not None:
                demand.require_experts(ids)
                if tokens > shape.max_tokens:
                    sent = demand.of(*sent)
            received = shape.buffer.dispatch(
                sent[0].x,
                sent[1],
                sent[2],
                scales=sent[0].scales,
                global_scales=sent[0].global_scales,
                max_rows=min(num_worst_tokens, shape.max_rows),
                expert_alignment=expert_alignment,
            )
            counts = received.aligned_counts.tolist() if counted else []
            if demand is None or not counts or not counts.pop():
                return shape, received, [] if num_worst_tokens else counts
            demand.require_demands(received)
            self._shapes.grow(shape, tokens)

    @without_modes
    def combine(
        self,
        x: torch.Tensor,
        handle: Tuple,
        topk_weights: Optional[torch.Tensor] = None,
        bias: Bias = None,
        config: Optional[Config] = None,
        previous_event: Optional[EventOverlap] = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], EventOverlap]:
        """Returns rows to their tokens and sums them, in FP32, in rank order, without weights; collective.

        Args:
            x: BF16 [n, H] in the order of the dispatch.
            topk_weights: FP32 [n, K], summed back to the tokens.
            bias: [T, H], or two of them, added first.

        Returns:
            Sums [T, H]; weights FP32 [T, K] or None; event.
        """
        routes = routes_of(handle)
        bias0, bias1 = biases(bias)
        require_rows(x, routes.rows)
        with self._scope(x, config, previous_event, async_finish, allocate_on_comm_stream) as scope:
            routes.shape.use_sms(self._num_sms(config))
            out, weights = routes.combine(x, topk_weights, bias0, bias1)
            scope.keep((x, topk_weights, bias0, bias1), (out, weights))
        return out, weights, scope.event

    def _scope(
        self,
        x: torch.Tensor,
        config: Optional[Config],
        previous_event: Optional[EventOverlap],
        async_finish: bool,
        allocate_on_comm_stream: bool,
    ) -> StreamScope:
        if config is not None and not isinstance(config, Config):
            raise refused(
                f"config is {type(config).__name__}; it must be deep_ep.Config: pass one or leave it out"
            )
        return StreamScope(
            self._streams, x.device, previous_event, async_finish, allocate_on_comm_stream
        )

    def _num_sms(self, config: Optional[Config]) -> int:
        return self.num_sms if config is None else config.num_sms

    def _ranks_as_experts(self, is_token_in_rank: torch.Tensor) -> torch.Tensor:
        """Without top-k each rank counts as one expert: INT64 [T, R]."""
        ranks = self.group_size
        if ranks > _MAX_TOP_K:
            raise refused(
                f"a dispatch without topk_idx takes {_MAX_TOP_K} ranks, not {ranks}: pass topk_idx and topk_weights"
            )
        ids = torch.arange(ranks, device=is_token_in_rank.device).expand(is_token_in_rank.shape)
        return torch.where(is_token_in_rank, ids, torch.full_like(ids, -1)).contiguous()

    def _gathered_counts(self, num_tokens_per_expert: torch.Tensor, alignment: int) -> List[int]:
        """Counts of the local experts where the dispatch itself knows ranks only."""
        mine = num_tokens_per_expert.to("cpu", torch.int32).contiguous().numpy().tobytes()
        of_ranks = self._shapes.world.all_gather(mine)
        counts = torch.stack(
            [torch.frombuffer(bytearray(of_rank), dtype=torch.int32) for of_rank in of_ranks]
        ).sum(0)
        local = counts.view(self.group_size, -1)[self.rank]
        return [round_up(count, alignment) for count in local.tolist()]

    def _require_layout(
        self, rows: Rows, per_rank: torch.Tensor, in_rank: torch.Tensor, per_expert: torch.Tensor
    ) -> None:
        ranks = self.group_size
        tokens = rows.x.shape[0]
        if per_rank.shape != (ranks,):
            raise _wrong_layout("num_tokens_per_rank", per_rank, f"[{ranks}]")
        if in_rank.dtype != torch.bool or in_rank.shape != (tokens, ranks):
            raise _wrong_layout("is_token_in_rank", in_rank, f"torch.bool [{tokens}, {ranks}]")
        experts = per_expert.numel()
        if per_expert.dim() != 1 or experts == 0 or experts % ranks:
            raise _wrong_layout(
                "num_tokens_per_expert", per_expert, f"[experts], a multiple of the {ranks} ranks"
            )

    def _require_fit(self, received: Any, x: torch.Tensor, num_worst_tokens: int) -> None:
        """On GPUs the call does not wait for the counts: rows that do not fit are left out there."""
        if x.device.type == "cpu" and received.missing_rows:
            raise ep4j.Overflow(
                f"EP4J-{OVERFLOW}: num_worst_tokens = {num_worst_tokens}; this rank received"
                f" {received.received_rows} rows: pass at least that, tokens * ranks is always enough",
                OVERFLOW,
                self.rank,
            )

    def _handle(
        self,
        routes: Routes,
        received: Any,
        sources: torch.Tensor,
        is_token_in_rank: torch.Tensor,
    ) -> LazyHandle:
        """`sources`: source token of each row, a tensor of the caller."""
        if routes.fixed:
            source_ranks = received.source_ranks.clone()
            routes.sources = (sources, source_ranks)
            ranks = self.group_size

            def offsets() -> List[int]:
                return source_offsets(source_ranks, ranks)

        else:
            known = received.rank_offsets.tolist()
            routes.sources = (sources,)

            def offsets() -> List[int]:
                return known

        if len(set(self._nodes)) == 1:
            return intranode_handle(
                routes, self.rank, self.group_size, sources, offsets, is_token_in_rank
            )
        return internode_handle(
            routes, self._nodes, self.group_size, sources, offsets, is_token_in_rank
        )


def _wrong_layout(name: str, given: torch.Tensor, wanted: str) -> ep4j.InvalidArgument:
    return refused(
        f"{name} is {given.dtype} {tuple(given.shape)}; it must be {wanted}: pass that of"
        " get_dispatch_layout",
        TENSOR,
    )


def biases(bias: Bias) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
    if bias is None or isinstance(bias, torch.Tensor):
        return bias, None
    if isinstance(bias, tuple) and len(bias) == 2:
        return bias
    raise refused("bias must be a tensor or a tuple of two: pass one of these")
