"""Low-latency operations of a Buffer: dispatch, combine, masks.

As in DeepEP, received tensors are memory of the buffer: two dispatches may be alive at once.
"""

import contextlib
from typing import Any, Callable, List, Optional, Tuple

import ep4j
import torch
from ep4j.tensors import without_modes

from .devices import device_of, engine_of
from .dtypes import as_fp8, as_ids
from .errors import ARGUMENT, HANDLE, TENSOR, refused
from .event import EventOverlap
from .shapes import Shapes
from .streams import CommunicationStream, StreamScope
from .swizzle import nvfp4_rows, nvfp4_scales


class LowLatency:
    """Dispatch and combine for decoding: fixed memory, no wait for counts, hooks, masks."""

    rank: int
    group_size: int
    enable_shrink: bool
    _shapes: Shapes
    _streams: CommunicationStream
    _low_latency_ranks_per_node: int

    @without_modes
    def clean_low_latency_buffer(
        self, num_max_dispatch_tokens_per_rank: int, hidden: int, num_experts: int
    ) -> None:
        """Nothing needs to be cleaned. With ``enable_shrink`` ranks meet here, and late ones are masked."""
        if not self.enable_shrink:
            return
        for buffer in self._shapes.all("low latency"):
            # A dispatch without tokens: unlike a barrier, it masks.
            device = device_of(buffer)
            buffer.low_latency_dispatch(
                torch.empty((0, buffer.config.hidden), dtype=torch.bfloat16, device=device),
                torch.empty((0, buffer.config.top_k), dtype=torch.int64, device=device),
                format=ep4j.ROWS_BF16,
            )

    @without_modes
    def low_latency_dispatch(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor,
        num_max_dispatch_tokens_per_rank: int,
        num_experts: int,
        cumulative_local_expert_recv_stats: Optional[torch.Tensor] = None,
        dispatch_wait_recv_cost_stats: Optional[torch.Tensor] = None,
        use_fp8: bool = True,
        round_scale: bool = False,
        use_ue8m0: bool = False,
        async_finish: bool = False,
        return_recv_hook: bool = False,
        *,
        topk_weights: Optional[torch.Tensor] = None,
        use_nvfp4: bool = False,
        x_global_scale: Optional[torch.Tensor] = None,
        use_ue8m0_for_sf: bool = False,
    ) -> Tuple[Any, ...]:
        """Sends each token to its experts; M = num_max_dispatch_tokens_per_rank, L local experts; collective.

        Args:
            x: BF16 [T, H], T at most M.
            topk_idx: INT64 or INT32 [T, K]; -1 is no expert.
            cumulative_local_expert_recv_stats: INT32 [L], incremented by the tokens received.
            dispatch_wait_recv_cost_stats: INT64 [R], incremented by the nanoseconds waited for each rank.
            use_fp8: rows travel as FP8 with a scale per 128 values; round_scale: powers of two; use_ue8m0: these
                as bytes, four to a word.
            use_nvfp4: rows travel as NVFP4, with the first element of `x_global_scale`, 448 * 6 / amax, which a kernel
                reads.
            topk_weights: FP32 [T, K]: each row arrives with its weight, and two more results.
            return_recv_hook: the call only sends, `hook()` receives, on the stream of the call.

        Returns:
            rows BF16 [L, R*M, H], or (FP8 rows, column-major scales [L, R*M, H/128]), or NVFP4 rows
            [R*M, H/2, L] with swizzled scales; counts INT32 [L]; with `topk_weights` FP32 weights [L, R*M] and INT32
            source ranks [L, R*M]; handle (source tokens, ranges, M, H, E); event; hook or None.
        """
        _exclude(async_finish, return_recv_hook)
        if use_nvfp4 and use_fp8:
            raise refused("use_fp8 and use_nvfp4; rows have one format: set one of them to False")
        if use_ue8m0 and not (use_fp8 and round_scale):
            raise refused("use_ue8m0 needs use_fp8 and round_scale: set both to True")
        if use_ue8m0_for_sf:
            raise refused("use_ue8m0_for_sf: NVFP4 scales of ep4j are E4M3: leave it out")
        if x.dim() != 2 or topk_idx.dim() != 2:
            raise refused(
                f"x has shape {tuple(x.shape)} and topk_idx {tuple(topk_idx.shape)}; they must be [tokens, hidden] and"
                " [tokens, top-k]",
                TENSOR,
            )
        ids = as_ids(topk_idx)
        factor = _global_scale(x_global_scale) if use_nvfp4 else None
        with self._low_latency_scope(x, async_finish) as scope:
            shape = self._shapes.low_latency(
                engine_of(x),
                x.shape[1],
                ids.shape[1],
                num_experts,
                num_max_dispatch_tokens_per_rank,
                self.enable_shrink,
                self._low_latency_ranks_per_node,
            )
            dispatched = shape.buffer.low_latency_dispatch(
                x,
                ids,
                topk_weights,
                cumulative_stats=cumulative_local_expert_recv_stats,
                wait_stats=dispatch_wait_recv_cost_stats,
                format=(
                    ep4j.ROWS_NVFP4 if use_nvfp4 else ep4j.ROWS_FP8 if use_fp8 else ep4j.ROWS_BF16
                ),
                scale_kind=_scale_kind(round_scale, use_ue8m0),
                scale_columns=not use_nvfp4,
                deliver_weights=topk_weights is not None,
                return_hook=return_recv_hook,
                global_scale=factor,
            )
            rows = dispatched.x
            if use_fp8:
                rows = (as_fp8(rows), dispatched.scales)
            made: Optional[_Made] = None
            if use_nvfp4 or topk_weights is not None:
                made = _Made(x.device)
            if use_nvfp4:
                rows = (nvfp4_rows(rows), made.add(lambda: nvfp4_scales(dispatched.scales)))
            src_info, layout_range = dispatched.src_info, dispatched.layout_range
            weights: Tuple[torch.Tensor, ...] = ()
            if topk_weights is not None:
                source_ranks = made.add(lambda: _source_ranks(layout_range, src_info.shape[1]))
                weights = (dispatched.row_weights, source_ranks)
        hook: Optional[Callable[[], None]] = None
        if return_recv_hook:

            @without_modes
            def hook() -> None:
                dispatched.receive()
                if made is not None:
                    made.again()

        given = (x, ids, topk_weights, cumulative_local_expert_recv_stats, factor)
        scope.event.extra_tensors = (*given, rows) if async_finish else None
        src_info._ep4j_dispatched = (shape.buffer, dispatched)
        handle = (src_info, layout_range, num_max_dispatch_tokens_per_rank, x.shape[1], num_experts)
        return (rows, dispatched.counts, *weights, handle, scope.event, hook)

    @without_modes
    def low_latency_combine(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor,
        topk_weights: torch.Tensor,
        handle: tuple,
        use_logfmt: bool = False,
        zero_copy: bool = False,
        async_finish: bool = False,
        return_recv_hook: bool = False,
        out: Optional[torch.Tensor] = None,
        combine_wait_recv_cost_stats: Optional[torch.Tensor] = None,
        *,
        overlap: bool = False,
        packed_recv_count: Optional[torch.Tensor] = None,
        comp_signal: Optional[torch.Tensor] = None,
        block_m: int = 64,
        threshold: int = 0,
        num_sms: int = 3,
        src_signals: Optional[torch.Tensor] = None,
        src_signal_expect_value: int = 0,
    ) -> Tuple[torch.Tensor, EventOverlap, Optional[Callable[[], None]]]:
        """Returns the rows of experts to their tokens and sums them with their weights; collective.

        Args:
            x: BF16 [L, R*M, H]; with `zero_copy` its rows are in get_next_low_latency_combine_buffer(handle).
            topk_idx, topk_weights: as dispatched; an id that is now -1 is left out.
            use_logfmt: rows travel with 10 bits a value.
            out: BF16 [T, H] for the sums.
            combine_wait_recv_cost_stats: INT64 [R], incremented by the nanoseconds waited for each rank.
            overlap, comp_signal, src_signals and their numbers: refused where they ask the combine to wait for
                signals of a matrix product; hooks overlap halves of operations.

        Returns:
            Sums BF16 [T, H]; event; hook or None.
        """
        _exclude(async_finish, return_recv_hook)
        _refuse_signals(overlap, comp_signal, src_signals)
        if zero_copy and use_logfmt:
            raise refused(
                "zero_copy and use_logfmt: LogFMT rows are made while they are copied: set one to False"
            )
        buffer, dispatched = _dispatched(handle)
        ids = as_ids(topk_idx)
        with self._low_latency_scope(x, async_finish) as scope:
            sums = (
                torch.empty((ids.shape[0], x.shape[-1]), dtype=torch.bfloat16, device=x.device)
                if out is None
                else out
            )
            combined = buffer.low_latency_combine(
                dispatched,
                dispatched.combine_input() if zero_copy else x,
                ids,
                topk_weights,
                out=sums,
                wait_stats=combine_wait_recv_cost_stats,
                log_fmt=use_logfmt,
                zero_copy=zero_copy,
                return_hook=return_recv_hook,
            )
        scope.event.extra_tensors = (x, ids, topk_weights, sums) if async_finish else None
        if not return_recv_hook:
            return sums, scope.event, None
        inputs = (x, ids, topk_weights)

        def hook(kept: Any = inputs) -> None:
            combined.receive()

        return sums, scope.event, hook

    @without_modes
    def get_next_low_latency_combine_buffer(self, handle: tuple) -> torch.Tensor:
        """Memory [L, R*M, H] from which the next low_latency_combine of the handle sends with ``zero_copy``."""
        return _dispatched(handle)[1].combine_input()

    def low_latency_update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Masks or unmasks a rank: low-latency operations send nothing to it and do not wait for it."""
        for buffer in self._masked():
            buffer.mask(rank_to_mask, mask)

    def low_latency_query_mask_buffer(self, mask_status: torch.Tensor) -> None:
        """Writes 1 for masked ranks and 0 for others to INT32 [R]."""
        # On the CPU: ep4j would write to a GPU out of the order of torch's streams.
        one, all_masks = (
            torch.zeros(mask_status.shape, dtype=mask_status.dtype, device="cpu") for _ in range(2)
        )
        for buffer in self._shapes.all("low latency"):
            all_masks |= buffer.read_masks(one)
        mask_status.copy_(all_masks)

    def low_latency_clean_mask_buffer(self) -> None:
        """Unmasks all ranks; on all ranks."""
        for buffer in self._shapes.all("low latency"):
            buffer.clear_masks()

    def _masked(self) -> Any:
        buffers = self._shapes.all("low latency")
        if not buffers:
            raise refused(
                "no low-latency operation has run yet, so there is no mask: dispatch first"
            )
        return buffers

    def _low_latency_scope(self, x: torch.Tensor, async_finish: bool) -> StreamScope:
        return StreamScope(self._streams, x.device, None, async_finish)


class _Made:
    """Tensors that are computed from received ones: at once for their memory, and again by the hook.

    Both on the stream that is current when the object is made, that of the dispatch: the hook's receiving half runs there
    too, whichever stream is current when the caller calls the hook.
    """

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.current_stream(device) if on_gpu else None
        self._tensors: List[Tuple[torch.Tensor, Callable[[], torch.Tensor]]] = []

    def add(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        tensor = compute()
        self._tensors.append((tensor, compute))
        return tensor

    def again(self) -> None:
        with contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            for tensor, compute in self._tensors:
                # As bytes where elements are: not each version of torch copies FP8 between strides.
                byte = tensor.element_size() == 1
                target, source = (t.view(torch.uint8) if byte else t for t in (tensor, compute()))
                target.copy_(source)


def _source_ranks(layout_range: torch.Tensor, rows: int) -> torch.Tensor:
    """INT32 [L, P]: the source rank of each row; rows of a group are ordered by it."""
    ends = (layout_range >> 32) + (layout_range & 0xFFFFFFFF)
    numbers = torch.arange(rows, device=layout_range.device).view(1, -1, 1)
    return (numbers >= ends.unsqueeze(1)).sum(2, dtype=torch.int32)


def _dispatched(handle: Any) -> Tuple["ep4j.Buffer", Any]:
    first = handle[0] if isinstance(handle, (tuple, list)) and len(handle) == 5 else None
    found = getattr(first, "_ep4j_dispatched", None)
    if found is None:
        raise refused(
            "handle is not one of low_latency_dispatch: pass the tuple that it returned", HANDLE
        )
    return found


def _exclude(async_finish: bool, return_recv_hook: bool) -> None:
    if async_finish and return_recv_hook:
        raise refused("async_finish and return_recv_hook; a call has one of them: set one to False")


def _scale_kind(round_scale: bool, use_ue8m0: bool) -> int:
    if use_ue8m0:
        return ep4j.SCALES_UE8M0
    return ep4j.SCALES_FLOAT32_POW2 if round_scale else ep4j.SCALES_FLOAT32


def _global_scale(scale: Optional[torch.Tensor]) -> torch.Tensor:
    """The first element, float32 [1]: callers pass one number in any shape, also expanded to all experts."""
    if scale is None:
        raise refused(
            "use_nvfp4 needs x_global_scale, 448 * 6 / amax of the tensor on all ranks: pass it"
        )
    return scale[(0,) * scale.dim()].view(1).float()


def _refuse_signals(overlap: bool, comp_signal: Any, src_signals: Any) -> None:
    for name, given in (
        ("overlap", overlap),
        ("comp_signal", comp_signal is not None),
        ("src_signals", src_signals is not None),
    ):
        if given:
            raise refused(
                f"{name}: a combine of ep4j does not wait for signals of a matrix product (it sends all rows that x"
                " has when it starts): leave it out, and overlap with return_recv_hook",
                ARGUMENT,
            )
