"""Low-latency operations of a buffer."""

import collections
import ctypes
from typing import Any, Deque, Optional

import torch

from . import _abi, _jvm
from .event import Event
from .interrupts import arrive
from .operations import Arguments, Fields, Owner, Result, Written, record_streams, second_thread
from .tensors import without_modes

_TWO = 2


class _Hooked(Result):
    """The result of an operation whose second half may be the caller's."""

    def receive(self) -> None:
        """Runs the receiving half of an operation with return_hook; once, before the second next
        low-latency operation.

        Raises:
            PeerTimeout: a peer is dead or silent: call `reset` on all live ranks.
        """
        owner = self._owner
        if not owner._enter(False):
            raise second_thread()
        try:
            self._require_valid()
            arrive()
            status = owner._api.low_latency_receive(self._number)
            if status != 0:
                _jvm.raise_last(status)
        finally:
            owner._leave()


class LowLatencyDispatched(_Hooked):
    """What a low-latency dispatch delivers, in G groups of up to P rows.

    EXPERT_MAJOR: G = L local experts, P = R*M; RANK_MAJOR: G = R ranks, P = M. Only the first
    counts[g] rows of a group are valid. Tensors are views of the buffer's memory, valid until the
    second next low-latency dispatch. With return_hook they exist at once, and `receive` fills them;
    with async_finish they wait for the end.
    """

    _FIELDS = Fields(_abi.LowLatencyDispatchResult)
    _KIND = "low_latency_dispatch"
    _FILL = "low_latency_dispatch_result"

    @property
    def x(self) -> torch.Tensor:
        """Rows [G, P, H]: bfloat16, FP8 E4M3 or (as [G, P, H/2] bytes) NVFP4."""
        return self._view("x", None, True)  # type: ignore[return-value]

    @property
    def scales(self) -> Optional[torch.Tensor]:
        """[G, P, S]; None for bfloat16."""
        return self._view("scales", None, True)

    @property
    def counts(self) -> torch.Tensor:
        """int32 [G]: valid rows of each group."""
        return self._view("counts", None, True)  # type: ignore[return-value]

    @property
    def topk_idx(self) -> Optional[torch.Tensor]:
        """RANK_MAJOR: int64 [R, M, K], local expert or -1."""
        return self._view("topk_idx", None, True)

    @property
    def topk_weights(self) -> Optional[torch.Tensor]:
        """RANK_MAJOR: float32 [R, M, K], if sent."""
        return self._view("topk_weights", None, True)

    @property
    def row_weights(self) -> Optional[torch.Tensor]:
        """EXPERT_MAJOR: float32 [L, R*M], with deliver_weights."""
        return self._view("row_weights", None, True)

    @property
    def src_info(self) -> torch.Tensor:
        """int32 [G, P]: source token of each row."""
        return self._view("src_info", None, True)  # type: ignore[return-value]

    @property
    def layout_range(self) -> torch.Tensor:
        """int64 [L, R] or [R]: count in the low, first row in the high 32 bits."""
        return self._view("layout_range", None, True)  # type: ignore[return-value]

    def combine_input(self) -> torch.Tensor:
        """The region [G, P, H] from which the next low_latency_combine with zero_copy sends."""
        self._require_valid()
        region = _abi.Tensor()
        _jvm.check(
            _jvm.start().low_latency_combine_input(self._number, ctypes.addressof(region))
        )
        return self._owner._views.of(region)


class LowLatencyCombined(_Hooked):
    """What a low-latency combine delivers, valid until the second next one. With return_hook,
    `receive` computes it; with async_finish, it waits for the end.
    """

    _FIELDS = Fields(_abi.LowLatencyCombineResult)
    _KIND = "low_latency_combine"
    _FILL = "low_latency_combine_result"

    def __init__(
        self,
        owner: Owner,
        written: Written,
        complete: bool,
        given: Any,
        out: Optional[torch.Tensor],
    ) -> None:
        super().__init__(owner, written, complete, given)
        if out is not None:
            self._made["x"] = out

    @property
    def x(self) -> torch.Tensor:
        """Weighted sums, bfloat16 [T, H]; `out` if that was passed, which stays."""
        self._fill()
        return self._view("x")  # type: ignore[return-value]


class LowLatencyOperations(Owner):
    """The part of a buffer with `low_latency_max_tokens` > 0: at most two dispatches or combines
    are in flight. T tokens of this rank, at most M; H elements a row, a multiple of 128; K choices
    a token. `stream`, `previous` and `async_finish` as in ThroughputOperations.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._fast_dispatch = Arguments(
            _abi.LowLatencyDispatchArgs(),
            ("x", "topk_idx", "topk_weights", "cumulative_stats", "wait_stats", "global_scale"),
            (
                "layout",
                "experts",
                "format",
                "scale_kind",
                "scale_columns",
                "deliver_weights",
                "return_hook",
            ),
        )
        self._fast_dispatched = Written(_abi.LowLatencyDispatchResult())
        self._fast_combine = Arguments(
            _abi.LowLatencyCombineArgs(),
            ("y", "topk_idx", "topk_weights", "out", "wait_stats", "logical_idx"),
            ("log_fmt", "zero_copy", "partial_rounding", "return_hook", "by_experts"),
        )
        self._fast_combined = Written(_abi.LowLatencyCombineResult())
        # Tensors of operations whose receiving half may still use them.
        self._hooked_dispatches: Deque[tuple] = collections.deque(maxlen=_TWO)
        self._hooked_combines: Deque[tuple] = collections.deque(maxlen=_TWO)

    @without_modes
    def low_latency_dispatch(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor,
        topk_weights: Optional[torch.Tensor] = None,
        *,
        cumulative_stats: Optional[torch.Tensor] = None,
        wait_stats: Optional[torch.Tensor] = None,
        layout: int = _abi.EXPERT_MAJOR,
        experts: int = 0,
        format: int = _abi.ROWS_FP8,
        scale_kind: int = _abi.SCALES_FLOAT32,
        scale_columns: bool = False,
        deliver_weights: bool = False,
        return_hook: bool = False,
        global_scale: Optional[torch.Tensor] = None,
        stream: Any = None,
        previous: Optional[Event] = None,
        async_finish: bool = False,
    ) -> LowLatencyDispatched:
        """Sends rows to the ranks of their experts; collective.

        Args:
            x: bfloat16 [T, H].
            topk_idx: int64 or int32 [T, K]; -1: no expert.
            topk_weights: float32 [T, K].
            cumulative_stats: int32 [L], incremented by the tokens received.
            wait_stats: int64 [R], incremented by the nanoseconds waited.
            layout: EXPERT_MAJOR or RANK_MAJOR; the same on all ranks.
            experts: as in dispatch.
            format: ROWS_FP8, ROWS_BF16 or ROWS_NVFP4.
            scale_kind: of FP8 rows: SCALES_FLOAT32, SCALES_FLOAT32_POW2 or SCALES_UE8M0.
            scale_columns: received scales are column-major.
            deliver_weights: EXPERT_MAJOR rows arrive with their weights; the same on all ranks.
            return_hook: the call only sends, `receive` of the result receives; excludes
                async_finish.
            global_scale: NVFP4: float32 [1], 448 * 6 / amax of the tensor; None is 1. A kernel reads it, also in
                each replay of a graph.
            stream, previous, async_finish: as in dispatch.

        Raises:
            InvalidArgument, InvalidUse, ConfigurationMismatch, PeerTimeout: as dispatch.
        """
        if not self._enter(False):
            raise second_thread()
        try:
            call = self._fast_dispatch
            given = (x, topk_idx, topk_weights, cumulative_stats, wait_stats, global_scale)
            for slot, tensor in zip(call.slots, given):
                slot.set(tensor)
            call.set_options(
                (
                    layout,
                    experts,
                    format,
                    scale_kind,
                    scale_columns,
                    deliver_weights,
                    return_hook,
                )
            )
            call.set_execution(x, stream, previous, async_finish)
            written = self._fast_dispatched
            arrive()
            status = self._api.low_latency_dispatch(self.number, call.address, written.address)
            if status != 0:
                _jvm.raise_last(status)
            before = self._valid.get("low_latency_dispatch", ())
            self._valid["low_latency_dispatch"] = (*before[-1:], written.structure.result)
            if return_hook:
                self._hooked_dispatches.append(given)
            if stream is not None:
                record_streams(stream, given)
            return LowLatencyDispatched(
                self, written, not (return_hook or async_finish), given
            )
        finally:
            self._leave()

    @without_modes
    def low_latency_combine(
        self,
        dispatched: LowLatencyDispatched,
        y: torch.Tensor,
        topk_idx: torch.Tensor,
        topk_weights: torch.Tensor,
        *,
        out: Optional[torch.Tensor] = None,
        wait_stats: Optional[torch.Tensor] = None,
        logical_idx: Optional[torch.Tensor] = None,
        log_fmt: bool = False,
        zero_copy: bool = False,
        partial_rounding: bool = False,
        return_hook: bool = False,
        by_experts: bool = False,
        stream: Any = None,
        previous: Optional[Event] = None,
        async_finish: bool = False,
    ) -> LowLatencyCombined:
        """Returns rows to their sources and sums them with their weights; collective. With
        RANK_MAJOR the caller has applied the weights.

        Args:
            dispatched: result of the dispatch.
            y: bfloat16 [G, P, H] in the row order of the dispatch.
            topk_idx: as dispatched; an id that is now -1 skips its slot.
            topk_weights: float32 [T, K].
            out: bfloat16 [T, H] of the caller; None: memory of the buffer.
            wait_stats: int64 [R], incremented by the nanoseconds waited.
            logical_idx: int64 or int32 [T, K]: what orders the rows by experts; None: topk_idx.
            log_fmt: rows travel as LogFMT-10; excludes the next two.
            zero_copy: y is the tensor of `dispatched.combine_input()`.
            partial_rounding: each rank sums its rows of a token and rounds once.
            return_hook: the call only sends, `receive` of the result receives; excludes
                async_finish.
            by_experts: rows are added in ascending order of experts; excludes partial_rounding.
            stream, previous, async_finish: as in dispatch.

        Raises:
            InvalidArgument, InvalidUse, ConfigurationMismatch, PeerTimeout: as dispatch.
        """
        if not self._enter(False):
            raise second_thread()
        try:
            call = self._fast_combine
            given = (y, topk_idx, topk_weights, out, wait_stats, logical_idx)
            for slot, tensor in zip(call.slots, given):
                slot.set(tensor)
            call.set_options((log_fmt, zero_copy, partial_rounding, return_hook, by_experts))
            call.set_execution(y, stream, previous, async_finish)
            call.structure.dispatched = dispatched._number
            written = self._fast_combined
            arrive()
            status = self._api.low_latency_combine(self.number, call.address, written.address)
            if status != 0:
                _jvm.raise_last(status)
            before = self._valid.get("low_latency_combine", ())
            self._valid["low_latency_combine"] = (*before[-1:], written.structure.result)
            if return_hook:
                self._hooked_combines.append(given)
            if stream is not None:
                record_streams(stream, given)
            return LowLatencyCombined(
                self,
                written,
                not (return_hook or async_finish),
                given,
                out,
            )
        finally:
            self._leave()
