"""``ElasticBuffer``: the buffer of DeepEP V2 over ep4j.

Both forms of a dispatch are one FLAT dispatch of ep4j, in which a token goes to a rank once:

    do_expand = False    rows of tokens [n, H], by source rank and token
    do_expand = True     rows of choices [P, H], by local expert: copies that this rank makes (`expansion`)

A combine of rows of choices sums those of a token on their rank, then returns rows of tokens as the first form does.
DeepEP V2 does the same. EXPERT_MAJOR dispatches of ep4j have room for a row of each choice, several times the memory.
They deliver neither the place of an expert among the choices of a token nor counts on the device: handles have both.
"""

from typing import Any, Dict, Optional, Tuple, Union

import ep4j
import torch
from ep4j.tensors import without_modes

from .config import round_up, throughput_bytes
from .devices import engine_of
from .dtypes import as_ids
from .elastic_handle import EPHandle, Settings, handle_of
from .elastic_refused import RefusedOperations
from .errors import OVERFLOW, TENSOR, TOKENS, refused, require_at_least, require_experts
from .event import EventHandle, EventOverlap
from .lifetime import Lifetime
from .routes import Routes
from .rows import Rows, members, owner, require_rows, rows_of
from .runtime import Runtime
from .shapes import Shape, Shapes
from .streams import CommunicationStream, StreamScope
from .throughput import Bias, biases
from .worlds import World

Event = Union[EventHandle, EventOverlap]

_ALIGNMENT = 2 << 20  # of sizes, in bytes
_USUAL_QPS = 17
# SMs of an operation: beside computation, alone on the GPU, and between nodes.
_SMS_BESIDE, _SMS_ALONE, _SMS_BETWEEN_NODES = 24, 64, 12
# Columns of scales begin at multiples of 16 bytes.
_COLUMN_BYTES = 16


class ElasticBuffer(RefusedOperations, Lifetime):
    """Dispatch and combine in the forms of DeepEP V2; the constructor is collective.

    T tokens of this rank, H elements a row, K choices a token, E experts, L = E / ranks experts of this rank.

    Attributes:
        group, rank_idx, num_ranks, num_bytes, num_max_tokens_per_rank, num_allocated_qps, deterministic,
            allow_hybrid_mode, allow_multiple_reduction, prefer_overlap_with_compute, explicitly_destroy
        num_rdma_ranks, num_nvlink_ranks: nodes, and ranks of a node.
        num_scaleout_ranks, num_scaleup_ranks: the same; 1 and all ranks without allow_hybrid_mode.
        scaleout_rank_idx, scaleup_rank_idx: number of the node of this rank, and its place there.
    """

    def __init__(
        self,
        group: Any,
        num_bytes: Optional[int] = None,
        num_cpu_bytes: int = 0,
        num_max_tokens_per_rank: int = 0,
        hidden: int = 0,
        num_topk: int = 0,
        use_fp8_dispatch: bool = False,
        deterministic: bool = False,
        allow_hybrid_mode: bool = True,
        allow_multiple_reduction: bool = True,
        prefer_overlap_with_compute: bool = True,
        sl_idx: int = 3,
        num_allocated_qps: int = 0,
        num_cpu_timeout_secs: int = 300,
        num_gpu_timeout_secs: int = 100,
        explicitly_destroy: bool = False,
    ) -> None:
        """
        Args:
            group: a torch.distributed group.
            num_bytes: memory that ep4j may use. It warns where a shape needs more. None: what it needs.
            num_max_tokens_per_rank: largest T of any rank, the same on all ranks; a dispatch may name another one.
            hidden, num_topk: for the attribute num_bytes: memory is opened by the first dispatch of a shape.
            allow_multiple_reduction: False: sums are rounded once; a combine of rows of choices then computes and
                sends FP32.
            prefer_overlap_with_compute: fewer SMs.
            num_gpu_timeout_secs: how long an operation, or a barrier, waits for a silent rank, also with CPU tensors.
            explicitly_destroy: the caller calls ``destroy``; else the buffer closes when it is collected.
            num_cpu_bytes: refused unless it is 0.
            use_fp8_dispatch, deterministic, sl_idx, num_allocated_qps, num_cpu_timeout_secs: accepted, without effect.
        """
        require_at_least(
            0,
            num_bytes=0 if num_bytes is None else num_bytes,
            num_max_tokens_per_rank=num_max_tokens_per_rank,
            hidden=hidden,
            num_topk=num_topk,
            num_allocated_qps=num_allocated_qps,
        )
        require_at_least(1, num_gpu_timeout_secs=num_gpu_timeout_secs)
        if num_cpu_bytes:
            raise refused(
                f"num_cpu_bytes = {num_cpu_bytes}; it must be 0, because ep4j does not provide Engram: leave it out"
            )
        if num_bytes is None and not (num_max_tokens_per_rank and hidden):
            raise refused(
                f"num_bytes = None, num_max_tokens_per_rank = {num_max_tokens_per_rank}, hidden = {hidden}: pass the"
                " last two, or num_bytes"
            )
        self.num_bytes = num_bytes
        if num_bytes is None:
            # Also checks the shape, before the ranks join.
            self.num_bytes = self.get_buffer_size_hint(
                group,
                num_max_tokens_per_rank,
                hidden,
                num_topk,
                allow_multiple_reduction=allow_multiple_reduction,
            )
        self.group = group
        self.num_max_tokens_per_rank = num_max_tokens_per_rank
        self.deterministic = deterministic
        self.allow_hybrid_mode = allow_hybrid_mode
        self.allow_multiple_reduction = allow_multiple_reduction
        self.prefer_overlap_with_compute = prefer_overlap_with_compute
        self.num_allocated_qps = num_allocated_qps or _USUAL_QPS
        self.explicitly_destroy = explicitly_destroy
        self._world = World(group, timeout=float(num_gpu_timeout_secs))
        self.rank_idx = self._world.rank
        self.num_ranks = self._world.size
        declared = self._world.declared_ranks_per_node
        self.num_nvlink_ranks = declared or self._world.ranks_of_hosts("set EP4J_RANKS_PER_NODE")
        self.num_rdma_ranks = self.num_ranks // self.num_nvlink_ranks
        self.num_scaleup_ranks = self.num_nvlink_ranks if allow_hybrid_mode else self.num_ranks
        self.num_scaleout_ranks = self.num_ranks // self.num_scaleup_ranks
        self.scaleout_rank_idx, self.scaleup_rank_idx = divmod(
            self.rank_idx, self.num_scaleup_ranks
        )
        self._streams = CommunicationStream()
        self._shapes = Shapes(
            self._world,
            num_bytes,
            "num_bytes",
            num_max_tokens_per_rank,
            **_row_type(allow_multiple_reduction),
        )
        self._sms = self._usual_sms()
        self.runtime: Optional[Runtime] = Runtime(self._world)

    @staticmethod
    def get_buffer_size_hint(
        group: Any,
        num_max_tokens_per_rank: int,
        hidden: int,
        num_topk: int = 0,
        use_fp8_dispatch: bool = False,
        allow_hybrid_mode: bool = True,
        allow_multiple_reduction: bool = True,
    ) -> int:
        """Bytes that a buffer of this shape reserves on each rank, a multiple of 2 MiB. num_topk = 0: of 16 choices.

        `use_fp8_dispatch` and `allow_hybrid_mode` have no effect: one buffer takes BF16 and FP8.
        """
        require_at_least(1, num_max_tokens_per_rank=num_max_tokens_per_rank, hidden=hidden)
        choices = dict(top_k=num_topk) if num_topk else {}
        needed = throughput_bytes(
            num_max_tokens_per_rank,
            hidden,
            group.size(),
            **choices,
            **_row_type(allow_multiple_reduction),
        )
        return round_up(needed, _ALIGNMENT)

    @staticmethod
    def capture() -> EventHandle:
        """An event after the present work of the current stream."""
        return EventHandle()

    def get_physical_domain_size(self) -> Tuple[int, int]:
        """Nodes, and ranks of a node."""
        return self.num_rdma_ranks, self.num_nvlink_ranks

    def get_logical_domain_size(self) -> Tuple[int, int]:
        """num_scaleout_ranks and num_scaleup_ranks."""
        return self.num_scaleout_ranks, self.num_scaleup_ranks

    def get_theoretical_num_sms(
        self,
        num_experts: int,
        num_topk: int,
        num_scaleout_topk: int = 0,
        rdma_gbs: float = 0,
        nvlink_gbs: float = 0,
        sm_read_gbs: float = 200,
        sm_write_gbs: float = 50,
    ) -> int:
        """SMs of an operation that gets num_sms = 0. The arguments have no effect: no model of bandwidths decides."""
        return self._sms

    def get_theoretical_num_qps(self, num_sms: int) -> int:
        """A number that dispatch and combine accept: EP4J_IB_QPS_PER_PORT sets the queue pairs."""
        return max(1, min(num_sms, self.num_allocated_qps))

    def barrier(
        self, use_comm_stream: bool = True, with_cpu_sync: bool = False, sequential: bool = True
    ) -> None:
        """Returns when all ranks have called it, on GPUs after their present work; collective.

        The host waits, so a graph cannot capture it. The arguments have no effect.
        """
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self._world.barrier()

    @without_modes
    def dispatch(
        self,
        x: Union[torch.Tensor, Tuple[torch.Tensor, ...]],
        topk_idx: Optional[torch.Tensor] = None,
        topk_weights: Optional[torch.Tensor] = None,
        cumulative_local_expert_recv_stats: Optional[torch.Tensor] = None,
        num_experts: Optional[int] = None,
        num_max_tokens_per_rank: Optional[int] = None,
        expert_alignment: Optional[int] = None,
        num_sms: int = 0,
        num_qps: int = 0,
        previous_event: Optional[Event] = None,
        previous_event_before_epilogue: Optional[Event] = None,
        async_with_compute_stream: bool = False,
        allocate_on_comm_stream: bool = False,
        handle: Optional[EPHandle] = None,
        do_handle_copy: bool = True,
        do_cpu_sync: Optional[bool] = None,
        do_expand: bool = False,
        do_zero_padding: bool = False,
        use_tma_aligned_col_major_sf: bool = False,
    ) -> Tuple[Any, Optional[torch.Tensor], Optional[torch.Tensor], EPHandle, EventOverlap]:
        """Sends each token once to each rank that has one of its experts; collective.

        Args:
            x: BF16 [T, H]; or FP8 [T, H] with scales [T, S]; or NVFP4 as Buffer.dispatch takes it.
            topk_idx: INT64 [T, K], each expert once in a row; -1: no expert. None with a handle.
            topk_weights: FP32 [T, K] or None, also with a handle.
            cumulative_local_expert_recv_stats: INT32 [L], to which the tokens of each local expert are added;
                unchanged with a handle.
            num_experts: E, a multiple of the ranks; with a handle None or that of the handle.
            num_max_tokens_per_rank: largest T of any rank, the same on all ranks; None: that of the constructor.
            expert_alignment: rows of an expert fill multiples of it; None: 1.
            num_sms: 0: get_theoretical_num_sms. Without effect with CPU tensors.
            previous_event, previous_event_before_epilogue: events before which the operation does not begin.
            async_with_compute_stream: on GPUs the operation runs on the communication stream.
            handle: sends along the routes of an earlier dispatch with the same do_expand.
            do_handle_copy: False: the handle keeps `topk_idx` itself, which then must not change.
            do_cpu_sync: wait for the counts, and return as many rows; None: unless there is a handle. False: as many
                rows as may arrive. Rows that did not arrive are undefined; in received choices they are -1.
            do_expand: rows of choices, grouped by local expert, in place of rows of tokens.
            do_zero_padding: rows of choices that are padding are 0; else undefined.
            use_tma_aligned_col_major_sf: received scales are column-major, columns at multiples of 16 bytes.
            num_qps, allocate_on_comm_stream: accepted, without effect.

        Returns:
            Rows in the form of `x`: [n, H] by source rank and token, or [P, H] by local expert, source rank and token;
            local expert of each choice [n, K] or -1, None with do_expand;
            weights FP32 [n, K] or [P], None where none were passed; on other ranks' choices 0;
            handle; event, whose member `event` is None without async_with_compute_stream.

        Raises:
            ep4j.InvalidArgument: an argument is not valid; this rank has sent nothing.
            ep4j.Overflow: ranks passed different num_max_tokens_per_rank; found with CPU tensors only.
        """
        rows = rows_of(x)
        if do_zero_padding and not do_expand:
            raise refused(
                "do_zero_padding = True without do_expand; rows of tokens have no padding: leave it out"
            )
        stats = cumulative_local_expert_recv_stats
        if handle is None:
            settings = Settings(
                bool(do_expand),
                num_experts or 0,
                1 if expert_alignment is None else expert_alignment,
                self._most_tokens(num_max_tokens_per_rank),
                num_sms or self._sms,
            )
            self._require_routing(rows, topk_idx, stats, settings)
        else:
            handle_of(handle)
            _require_cached(
                handle,
                rows,
                topk_idx,
                do_cpu_sync,
                do_expand=do_expand,
                num_experts=num_experts,
                expert_alignment=expert_alignment,
                num_max_tokens_per_rank=num_max_tokens_per_rank,
            )
        new = handle is None
        known = () if new else handle.tensors()
        with self._scope(rows.x, previous_event, async_with_compute_stream) as scope:
            _wait(previous_event_before_epilogue)
            sent = rows.sendable()
            if handle is not None:
                handle.routes.shape.use_sms(num_sms or handle.num_sms)
                received = _dispatched_along(handle, sent, topk_weights)
            else:
                received, handle = self._dispatch_anew(
                    sent,
                    topk_idx,
                    topk_weights,
                    settings,
                    do_handle_copy,
                    do_cpu_sync is None or bool(do_cpu_sync),
                )
                if stats is not None:
                    stats += handle.num_unaligned_recv_tokens_per_expert
            received_x, choices, weights = _results(
                rows, received, topk_weights is not None, handle, do_zero_padding
            )
            if use_tma_aligned_col_major_sf and isinstance(received_x, tuple):
                received_x = (received_x[0], _by_columns(received_x[1]), *received_x[2:])
            scope.keep(
                (*rows.tensors(), topk_idx, topk_weights, stats, *known),
                (*members(received_x), choices, weights, *handle.tensors()),
            )
        if new:
            handle.dispatched = scope.event.event
        return received_x, choices, weights, handle, scope.event

    @without_modes
    def combine(
        self,
        x: torch.Tensor,
        handle: EPHandle,
        topk_weights: Optional[torch.Tensor] = None,
        bias: Bias = None,
        num_sms: int = 0,
        num_qps: int = 0,
        previous_event: Optional[Event] = None,
        previous_event_before_epilogue: Optional[Event] = None,
        async_with_compute_stream: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], EventOverlap]:
        """Returns rows to their tokens and sums them, in FP32, without weights; collective.

        Rows of choices are summed on their rank first, and rounded unless the buffer was made with
        allow_multiple_reduction = False. Then sums of ranks are added in rank order.
        An infinite row stays infinite in its sum; on GPUs it may become NaN where sums of rows of choices are rounded.

        Args:
            x: BF16 [n, H], or [P, H] with do_expand, in the order of the dispatch. Padding is not read.
            handle: of the dispatch.
            topk_weights: FP32 [n, K], or [P] with do_expand, returned to the choices of the tokens.
            bias: [T, H] in the type of `x`, or two of them, added first.
            num_sms: 0: as many as the dispatch.
            previous_event, ...: as in dispatch.

        Returns:
            Sums [T, H]; weights FP32 [T, K], or None where none were passed; event.

        Raises:
            ep4j.InvalidArgument: an argument is not valid; this rank has sent nothing.
        """
        routes, expansion = handle_of(handle).routes, handle.expansion
        bias0, bias1 = biases(bias)
        rows = routes.rows if expansion is None else expansion.rows
        require_rows(x, rows)
        if expansion is not None and topk_weights is not None and topk_weights.shape != (rows,):
            raise refused(
                f"topk_weights has shape {tuple(topk_weights.shape)}; it must be [{rows}], a weight for each row of the"
                " dispatch: pass them all",
                TENSOR,
            )
        exact = not self.allow_multiple_reduction
        with self._scope(x, previous_event, async_with_compute_stream) as scope:
            _wait(previous_event_before_epilogue)
            routes.shape.use_sms(num_sms or handle.num_sms)
            summed, sent_weights = x, topk_weights
            if expansion is not None:
                summed = expansion.summed(x[:rows], exact)
                if topk_weights is not None:
                    sent_weights = expansion.returned_weights(topk_weights)
            out, weights = routes.combine(
                summed,
                sent_weights,
                *(None if one is None else one.to(summed.dtype) for one in (bias0, bias1)),
                single_rounding=exact or not self.allow_hybrid_mode,
            )
            out = out.to(x.dtype)
            scope.keep((x, topk_weights, bias0, bias1, *handle.tensors()), (out, weights))
        return out, weights, scope.event

    def _scope(
        self, x: torch.Tensor, previous_event: Optional[Event], asynchronous: bool
    ) -> StreamScope:
        return StreamScope(self._streams, x.device, previous_event, asynchronous)

    def _usual_sms(self) -> int:
        sms = _SMS_BESIDE if self.prefer_overlap_with_compute else _SMS_ALONE
        if self.num_rdma_ranks > 1:
            sms = _SMS_BETWEEN_NODES
        if torch.cuda.is_available():
            sms = min(sms, torch.cuda.get_device_properties("cuda").multi_processor_count)
        return sms

    def _most_tokens(self, named: Optional[int]) -> int:
        return self.num_max_tokens_per_rank if named is None else named

    def _require_routing(
        self,
        rows: Rows,
        topk_idx: Optional[torch.Tensor],
        stats: Optional[torch.Tensor],
        settings: Settings,
    ) -> None:
        """Checks a dispatch with new routes before anything is sent."""
        tokens = rows.x.shape[0]
        most, experts = settings.num_max_tokens_per_rank, settings.num_experts
        if topk_idx is None:
            raise refused("topk_idx and handle are missing: pass one of them")
        require_experts(experts, self.num_ranks)
        if topk_idx.dim() != 2 or topk_idx.shape[0] != tokens or topk_idx.shape[1] < 1:
            raise refused(
                f"topk_idx has shape {tuple(topk_idx.shape)}; it must be [{tokens}, top-k]: pass the choices of each"
                " token",
                TENSOR,
            )
        require_at_least(
            1, num_max_tokens_per_rank=most, expert_alignment=settings.expert_alignment
        )
        if tokens > most:
            raise refused(
                f"x has {tokens} tokens; num_max_tokens_per_rank = {most}: pass the largest batch of any rank, the same"
                " on all ranks, or split the batch",
                TOKENS,
            )
        local = experts // self.num_ranks
        if stats is not None and (
            stats.dtype != torch.int32 or stats.shape != (local,) or stats.device != rows.x.device
        ):
            raise refused(
                f"cumulative_local_expert_recv_stats is {stats.dtype} {tuple(stats.shape)} on {stats.device}; it must"
                f" be torch.int32 [{local}] on {rows.x.device}, the experts of a rank: pass such a tensor",
                TENSOR,
            )

    def _dispatch_anew(
        self,
        rows: Rows,
        topk_idx: torch.Tensor,
        topk_weights: Optional[torch.Tensor],
        settings: Settings,
        copy: bool,
        sync: bool,
    ) -> Tuple["ep4j.Dispatched", EPHandle]:
        """Rows along new routes. `copy`, `sync`: do_handle_copy and do_cpu_sync."""
        most = settings.num_max_tokens_per_rank
        fixed = 0 if sync else most * self.num_ranks
        shape = self._shape(rows, topk_idx.shape[1], settings.num_experts, most)
        shape.use_sms(settings.num_sms)
        kept = topk_idx.clone() if copy else topk_idx
        received = shape.buffer.dispatch(
            rows.x,
            as_ids(topk_idx),
            topk_weights,
            scales=rows.scales,
            global_scales=rows.global_scales,
            max_rows=fixed,
        )
        if fixed and not rows.x.is_cuda and received.missing_rows:
            raise ep4j.Overflow(
                f"EP4J-{OVERFLOW}: num_max_tokens_per_rank = {most}; this rank received {received.received_rows} rows,"
                f" more than {fixed}: pass the same number on all ranks",
                OVERFLOW,
                self.rank_idx,
            )
        count = received.rows
        routes = Routes(shape, received.handle, rows.x.shape[0], count, count, fixed=not sync)
        routes.sources = (received.source_tokens.clone(), received.source_ranks.clone())
        handle = EPHandle(
            routes,
            received.topk_idx.clone(),
            received.counts.tolist() if sync else None,
            kept,
            settings,
            rank=self.rank_idx,
            num_ranks=self.num_ranks,
            num_scaleup_ranks=self.num_scaleup_ranks,
        )
        return received, handle

    def _shape(self, rows: Rows, top_k: int, experts: int, most: int) -> Shape:
        """The buffer for batches of up to `most` tokens. All ranks pass the same number, so all open a larger one."""
        largest = self._shapes.max_tokens
        if most > largest:
            # At least twice as large: all buffers of a shape then take no more memory than two of the last one.
            largest = max(most, 2 * largest)
        return self._shapes.throughput(
            engine_of(rows.x),
            rows.hidden,
            top_k,
            experts,
            rows.x.shape[0],
            fixed_tokens=largest,
            ranks_per_node=self._world.declared_ranks_per_node,
        )


def _row_type(allow_multiple_reduction: bool) -> Dict[str, Any]:
    """The widest rows of a buffer, a field of BufferConfig."""
    return {} if allow_multiple_reduction else dict(row_dtype=torch.float32)


def _wait(event: Optional[Event]) -> None:
    if event is not None:
        event.current_stream_wait()


def _require_cached(
    handle: EPHandle,
    rows: Rows,
    topk_idx: Optional[torch.Tensor],
    do_cpu_sync: Optional[bool],
    **given: Optional[int],
) -> None:
    """Checks a dispatch along known routes before anything is sent; `given`: settings, None where left out."""
    if topk_idx is not None:
        raise refused("handle comes with topk_idx; the handle has the choices: leave topk_idx out")
    if do_cpu_sync:
        raise refused(
            "handle comes with do_cpu_sync = True; the number of rows is that of the handle: leave do_cpu_sync out"
        )
    for name, value in given.items():
        known = getattr(handle, name)
        if value is not None and value != known:
            raise refused(f"{name} = {value}; the handle has {known}: pass that, or no handle")
    handle.routes.require_tokens(rows)


def _dispatched_along(
    handle: EPHandle, rows: Rows, topk_weights: Optional[torch.Tensor]
) -> "ep4j.Dispatched":
    """Rows along the routes of a handle; with weights the choices travel again, and rows arrive in the same order."""
    routes = handle.routes
    if topk_weights is None:
        return routes.dispatch(rows)
    return routes.shape.buffer.dispatch(
        rows.x,
        as_ids(handle.topk_idx),
        topk_weights,
        scales=rows.scales,
        global_scales=rows.global_scales,
        # 0 asks for exact counts: this rank alone would wait for them, even while a graph is captured.
        max_rows=max(routes.rows, 1),
    )


def _results(
    rows: Rows, received: "ep4j.Dispatched", weighted: bool, handle: EPHandle, clear: bool
) -> Tuple[Any, Optional[torch.Tensor], Optional[torch.Tensor]]:
    """Rows, choices and weights of the caller."""
    expansion = handle.expansion
    if expansion is None:
        own = owner(handle.num_recv_tokens)
        # First, so that a GPU copies the rows while the host enqueues the small copies.
        received_rows = rows.received(received, own)
        # A caller may change its choices: the handle keeps others.
        choices = handle.choices.to(handle.topk_idx.dtype, copy=True)
        weights = own(received.topk_weights) if weighted else None
        return received_rows, choices, weights
    expanded = rows.received(received, lambda part: expansion.expanded(part, clear))
    if not weighted:
        return expanded, None, None
    return expanded, None, expansion.expanded_weights(received.topk_weights, clear)


def _by_columns(scales: torch.Tensor) -> torch.Tensor:
    """The same scales [n, S], column-major."""
    rows, columns = scales.shape
    stride = round_up(rows, max(1, _COLUMN_BYTES // scales.element_size()))
    return torch.empty_strided(
        (rows, columns), (1, stride), dtype=scales.dtype, device=scales.device
    ).copy_(scales)
