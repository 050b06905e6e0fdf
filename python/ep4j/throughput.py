"""High-throughput operations of a buffer."""

import ctypes
from typing import Any, NamedTuple, Optional

import torch

from . import _abi, _jvm, arguments, errors, tensors
from .event import Event
from .interrupts import arrive
from .operations import Arguments, Fields, Owner, Result, Written, record_streams, second_thread
from .tensors import without_modes

_NO_OBJECT = 1040
_EXCLUSIVE = 1041

_LAYOUT = Fields(_abi.LayoutResult)
# uint8 rows hold NVFP4 if there are as many bytes of scales: one for 16 elements, two in a byte.
_BYTES_PER_NVFP4_SCALE = 8


class Layout(NamedTuple):
    """Traffic of a routing, views of the buffer's memory until its next `dispatch_layout`."""

    tokens_per_rank: torch.Tensor  # int32 [R]
    tokens_per_node: torch.Tensor  # int32 [nodes]
    tokens_per_expert: torch.Tensor  # int32 [E]
    token_in_rank: torch.Tensor  # bool [T, R]: whether the token is sent to the rank


class Handle:
    """Routes of a dispatch, for combines and cached dispatches.

    A context manager. It is valid until it is closed, the buffer is reset, or the buffer is closed;
    it is closed when it is collected.
    """

    __slots__ = ("_api", "_number")

    def __init__(self, api: _abi.Api, number: int) -> None:
        self._api = api
        self._number = number

    def number(self) -> int:
        """The ep4j_handle."""
        if self._number == 0:
            raise errors.invalid(
                _NO_OBJECT, "handle", "closed", "an open handle", "use it before it is closed"
            )
        return self._number

    def close(self) -> None:
        """Frees the routes; closing twice is harmless."""
        number, self._number = self._number, 0
        if number != 0:
            _jvm.check(self._api.close(number))

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if self._number != 0:
                self._api.close(self._number)
        except (errors.Error, AttributeError, TypeError):
            pass  # A forked child, a handle that was never built, or the end of the interpreter.


class Dispatched(Result):
    """What a dispatch delivers: N rows, L local experts, R ranks.

    Tensors are views of the buffer's memory, valid until the next dispatch or reset of the buffer;
    `handle` until it is closed. A tensor that the operation does not deliver is None. With
    `async_finish`, all but `event` wait for the end of the operation; with `max_rows` or a handle,
    the counts do: `received_rows`, `missing_rows`, `counts`, `aligned_counts`, `rank_offsets` and
    `expert_offsets`.
    """

    _FIELDS = Fields(_abi.DispatchResult)
    _KIND = "dispatch"
    _FILL = "dispatch_result"

    def __init__(
        self,
        owner: Owner,
        written: Written,
        counted: bool,
        given: Any,
        asynchronous: bool,
        handle: Optional[Handle],
    ) -> None:
        super().__init__(owner, written, counted, given)
        self._asynchronous = asynchronous
        self._handle = handle
        if handle is None and not asynchronous:
            self._handle = Handle(owner._api, written.structure.handle)
        x, scales = given[0], given[1]
        self._dtype = x.dtype
        self._scale_dtype = None if scales is None else scales.dtype

    @property
    def rows(self) -> int:
        """N; with EXPERT_MAJOR and exact rows, padding included."""
        if self._asynchronous:
            self._fill()
        return self._int64("rows")

    @property
    def handle(self) -> Handle:
        """Routes of the rows; a cached dispatch returns the handle that was passed."""
        if self._handle is None:
            self._fill()
            self._handle = Handle(self._owner._api, self._int64("handle"))
        return self._handle

    @property
    def x(self) -> torch.Tensor:
        """Rows [N, H] in the dtype of the rows that were passed."""
        return self._view("x", self._dtype, self._asynchronous)  # type: ignore[return-value]

    @property
    def scales(self) -> Optional[torch.Tensor]:
        """Block scales as sent, [N, S]."""
        return self._view("scales", self._scale_dtype, self._asynchronous)

    @property
    def global_scales(self) -> Optional[torch.Tensor]:
        """NVFP4: float32 [N]."""
        return self._view("global_scales", None, self._asynchronous)

    @property
    def topk_idx(self) -> Optional[torch.Tensor]:
        """FLAT: int64 [N, K], local expert or -1; None if cached."""
        return self._view("topk_idx", None, self._asynchronous)

    @property
    def topk_weights(self) -> Optional[torch.Tensor]:
        """FLAT: float32 [N, K]; None if cached or sent without weights."""
        return self._view("topk_weights", None, self._asynchronous)

    @property
    def row_weights(self) -> Optional[torch.Tensor]:
        """EXPERT_MAJOR: float32 [N]; None if cached or sent without weights."""
        return self._view("row_weights", None, self._asynchronous)

    @property
    def source_tokens(self) -> torch.Tensor:
        """int32 [N]: token number at its source; -1 on padding."""
        return self._view(  # type: ignore[return-value]
            "source_tokens", None, self._asynchronous
        )

    @property
    def source_ranks(self) -> torch.Tensor:
        """int32 [N]; -1 on padding."""
        return self._view("source_ranks", None, self._asynchronous)  # type: ignore[return-value]

    @property
    def received_rows(self) -> int:
        """Rows with a token; with max_rows it may exceed N."""
        self._fill()
        return self._int64("received_rows")

    @property
    def missing_rows(self) -> int:
        """Rows that did not fit: combine omits them."""
        self._fill()
        return self._int64("missing_rows")

    @property
    def counts(self) -> torch.Tensor:
        """int32 [L]: tokens of each local expert."""
        return self._view("counts", None, True)  # type: ignore[return-value]

    @property
    def aligned_counts(self) -> torch.Tensor:
        """int32 [L]: tokens of each local expert, rounded up to the alignment."""
        return self._view("aligned_counts", None, True)  # type: ignore[return-value]

    @property
    def rank_offsets(self) -> Optional[torch.Tensor]:
        """FLAT: int64 [R + 1], first row from each rank, then the end."""
        return self._view("rank_offsets", None, True)

    @property
    def expert_offsets(self) -> Optional[torch.Tensor]:
        """EXPERT_MAJOR: int64 [L + 1], first row of each group, then the end."""
        return self._view("expert_offsets", None, True)

    def combine_input(self, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """The region [capacity, H] that peers read without a copy, for rows in the order of the
        dispatch. Only the first N rows have memory.

        Args:
            dtype: bfloat16, float16 or float32.
        """
        self._require_valid()
        region = _abi.Tensor()
        number = tensors.dtype_number("dtype", dtype)
        _jvm.check(
            _jvm.start().combine_input(self._number, number, ctypes.addressof(region))
        )
        return self._owner._views.of(region)


class Combined(Result):
    """What a combine delivers, until the next combine or reset of the buffer."""

    _FIELDS = Fields(_abi.CombineResult)
    _KIND = "combine"
    _FILL = "combine_result"

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
        """Sums [T, H] in the dtype of y; `out` if that was passed, which stays."""
        self._fill()
        return self._view("x")  # type: ignore[return-value]

    @property
    def topk_weights(self) -> Optional[torch.Tensor]:
        """float32 [T, K] if weights were passed."""
        return self._view("topk_weights", None, True)


class ThroughputOperations(Owner):
    """The part of a buffer with `max_tokens` > 0. T tokens of this rank, H elements a row, K
    choices a token.

    All operations take:
        stream: where CUDA tensors are used: a torch.cuda.Stream or the number of a CUstream; None:
            torch's current stream. Results are ready in its order.
        previous: an event that the operation waits for.
        async_finish: return before the end; `event` of the result waits for it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._dispatch = Arguments(
            _abi.DispatchArgs(),
            ("x", "scales", "global_scales", "topk_idx", "topk_weights", "logical_idx"),
            (
                "max_rows",
                "layout",
                "experts",
                "expert_alignment",
                "zero_padding",
                "scale_columns",
            ),
        )
        self._dispatched = Written(_abi.DispatchResult())
        self._combine = Arguments(
            _abi.CombineArgs(),
            ("y", "topk_weights", "bias0", "bias1", "out"),
            ("apply_weights", "single_rounding", "by_experts"),
        )
        self._combined = Written(_abi.CombineResult())

    @without_modes
    def dispatch_layout(self, topk_idx: torch.Tensor, experts: int = 0) -> Layout:
        """Counts tokens per rank, node and expert; local.

        The host waits for the counts, and with CUDA tensors for torch's current stream first: no graph captures the
        call. ``RoutingCounter`` counts in the order of a stream.

        Args:
            topk_idx: int64 or int32 [T, K]; -1: no expert.
            experts: as in dispatch.
        """
        described = tensors.described("topk_idx", topk_idx)
        result = _abi.LayoutResult()
        # The function takes no stream: its kernel runs on one of the buffer.
        tensors.await_current_stream(topk_idx)
        _jvm.check(
            _jvm.start().dispatch_layout(
                self.number,
                ctypes.addressof(described),
                arguments.int32("experts", experts),
                ctypes.addressof(result),
            )
        )
        raw = bytes(result)
        views = [
            self._views.at(raw, _LAYOUT.offsets[name], dtype)
            for name, dtype in (
                ("tokens_per_rank", None),
                ("tokens_per_node", None),
                ("tokens_per_expert", None),
                ("token_in_rank", torch.bool),
            )
        ]
        return Layout(*views)  # type: ignore[arg-type]

    @without_modes
    def dispatch(
        self,
        x: torch.Tensor,
        topk_idx: Optional[torch.Tensor] = None,
        topk_weights: Optional[torch.Tensor] = None,
        *,
        logical_idx: Optional[torch.Tensor] = None,
        scales: Optional[torch.Tensor] = None,
        global_scales: Optional[torch.Tensor] = None,
        handle: Optional[Handle] = None,
        max_rows: int = 0,
        layout: int = _abi.FLAT,
        experts: int = 0,
        expert_alignment: int = 1,
        zero_padding: bool = False,
        scale_columns: bool = False,
        stream: Any = None,
        previous: Optional[Event] = None,
        async_finish: bool = False,
    ) -> Dispatched:
        """Sends rows to the ranks of their experts; collective. Bits of rows and scales do not
        change.

        Args:
            x: rows [T, H], bfloat16, float16, float32, or bytes: FP8 E4M3 [T, H], NVFP4 [T, H/2].
            topk_idx: int64 or int32 [T, K]; -1: no expert. None with a handle.
            topk_weights: float32 [T, K]. None with a handle.
            logical_idx: int64 or int32 [T, K]: what orders sums by experts where topk_idx names
                replicas; None: topk_idx. None with a handle.
            scales: of FP8 and NVFP4 rows: [T, S], float32, int32 or bytes; may be column-major.
            global_scales: of NVFP4 rows: float32 [T].
            handle: cached dispatch: sends along these routes, with the T of the handle. It also
                also holds the options max_rows to scale_columns: those passed here are ignored.
            max_rows: 0: exact, the call waits for the counts; else the caller's number of rows.
            layout: FLAT or EXPERT_MAJOR; the same on all ranks.
            experts: experts of this call, E/R consecutive ones a rank; 0: those of the buffer.
            expert_alignment: counts and starts of groups are multiples of it.
            zero_padding: clears rows between groups.
            scale_columns: received scales are column-major.
            stream, previous, async_finish: see the class.

        Raises:
            InvalidArgument: an argument is not valid; nothing was sent.
            InvalidUse: the state of the buffer does not allow the call; nothing was sent.
            ConfigurationMismatch: ranks call different operations.
            PeerTimeout: a peer is dead or silent: call `reset` on all live ranks.
            Overflow: more rows than the receive region holds.
        """
        if not self._enter(False):
            raise second_thread()
        try:
            call = self._dispatch
            x_slot, scale_slot, global_slot, idx_slot, weight_slot, logical_slot = call.slots
            if scales is None and global_scales is None:
                x_slot.set(x, _abi.FP8_E4M3)
                scale_slot.set(None)
                global_slot.set(None)
            else:
                self._set_quantised(x, scales, global_scales)
            idx_slot.set(topk_idx)
            weight_slot.set(topk_weights)
            logical_slot.set(logical_idx)
            call.set_options(
                (max_rows, layout, experts, expert_alignment, zero_padding, scale_columns)
            )
            call.set_execution(x, stream, previous, async_finish)
            structure = call.structure
            structure.handle = 0 if handle is None else handle.number()
            written = self._dispatched
            arrive()
            status = self._api.dispatch(self.number, call.address, written.address)
            if status != 0:
                _jvm.raise_last(status)
            self._valid["dispatch"] = (written.structure.result,)
            given = (x, scales, global_scales, topk_idx, topk_weights, logical_idx)
            if stream is not None:
                record_streams(stream, given)
            return Dispatched(
                self,
                written,
                not async_finish and max_rows == 0 and handle is None,
                given,
                async_finish,
                handle,
            )
        finally:
            self._leave()

    def _set_quantised(
        self,
        x: torch.Tensor,
        scales: Optional[torch.Tensor],
        global_scales: Optional[torch.Tensor],
    ) -> None:
        """Rows of bytes are FP8 or NVFP4, and so are scales of bytes UE8M0 or FP8."""
        x_slot, scale_slot, global_slot = self._dispatch.slots[:3]
        nvfp4 = global_scales is not None or (
            scales is not None
            and scales.element_size() == 1
            and x.element_size() == 1
            and scales.shape[-1] * _BYTES_PER_NVFP4_SCALE == x.shape[-1]
        )
        x_slot.set(x, _abi.NVFP4 if nvfp4 else _abi.FP8_E4M3)
        scale_slot.set(scales, _abi.FP8_E4M3 if nvfp4 else _abi.UE8M0)
        global_slot.set(global_scales)

    @without_modes
    def combine(
        self,
        y: torch.Tensor,
        handle: Handle,
        *,
        topk_weights: Optional[torch.Tensor] = None,
        bias0: Optional[torch.Tensor] = None,
        bias1: Optional[torch.Tensor] = None,
        out: Optional[torch.Tensor] = None,
        apply_weights: bool = False,
        single_rounding: bool = False,
        by_experts: bool = False,
        stream: Any = None,
        previous: Optional[Event] = None,
        async_finish: bool = False,
    ) -> Combined:
        """Returns rows to their sources and sums them per token; collective.

        Routing weights are not applied unless `apply_weights` is true.

        Args:
            y: bfloat16, float16 or float32, at least [N, H], rows in the order of the dispatch.
            handle: of the dispatch.
            topk_weights: float32 [N, K] (FLAT) or [N]: summed back to the sources.
            bias0: [T, H], added first.
            bias1: [T, H], added second; only with bias0.
            out: [T, H] of the caller for the sums; None: memory of the buffer.
            apply_weights: EXPERT_MAJOR rows are multiplied by the weights of their dispatch.
            single_rounding: sums are rounded once only; more traffic between nodes.
            by_experts: EXPERT_MAJOR rows are added in ascending order of experts: the bits of a
                token depend on the token alone. On GPUs y is the received x, between nodes of a
                buffer with combine_in_place.
            stream, previous, async_finish: see the class.

        Raises:
            Error: the errors of dispatch.
        """
        if not self._enter(False):
            raise second_thread()
        try:
            call = self._combine
            y_slot, weight_slot, bias0_slot, bias1_slot, out_slot = call.slots
            y_slot.set(y)
            weight_slot.set(topk_weights)
            bias0_slot.set(bias0)
            bias1_slot.set(bias1)
            out_slot.set(out)
            call.set_options((apply_weights, single_rounding, by_experts))
            call.set_execution(y, stream, previous, async_finish)
            call.structure.handle = handle.number()
            written = self._combined
            arrive()
            status = self._api.combine(self.number, call.address, written.address)
            if status != 0:
                _jvm.raise_last(status)
            self._valid["combine"] = (written.structure.result,)
            given = (y, topk_weights, bias0, bias1, out)
            if stream is not None:
                record_streams(stream, given)
            return Combined(self, written, not async_finish, given, out)
        finally:
            self._leave()
